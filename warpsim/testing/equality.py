"""Two kernels, one meaning: runs the same launch under two texts and explains the first difference in what they store."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence

import attrs
import numpy as np

from warpsim.errors import LaunchError, WarpsimError, plural
from warpsim.host.arguments import Arguments
from warpsim.host.cases import Case, Comparison
from warpsim.host.device import Device
from warpsim.host.kernel import Kernel
from warpsim.host.launch_options import Keywords
from warpsim.host.options import Dim, dims
from warpsim.host.recipes import Recipe
from warpsim.host.targets import runs_on
from warpsim.machine.watcher import Watcher
from warpsim.numerics.arrays import Array
from warpsim.records import frozen
from warpsim.testing.assertions import fresh
from warpsim.testing.dependence import Reader, depends_alone
from warpsim.testing.differences import explain, index_text
from warpsim.testing.origins import Parting, Values, Way
from warpsim.testing.replaying import TRACED, Writer, Writers, sentence
from warpsim.types import JsonObject

PARTS = "parts from"
TRIES = 200
"""Pairs of launches that shrink an input."""
Watch = Callable[[dict[int, int]], Watcher]
"""What makes a watcher from the addresses of the array arguments."""
Reference = Callable[..., Sequence[object]]
"""From the arguments before a launch to the exact values of the array arguments after it, in their order; None for one that
is not compared."""


@frozen(eq=False)
class Side:
    """One of two kernels: how it is launched, and which of the launch's arguments each of its parameters gets."""

    name: str
    kernel: Kernel
    grid: Dim
    block: Dim
    order: tuple[int, ...]
    device: Device
    options: Keywords
    printed: list[str]

    def called(self, number: int) -> str:
        """An argument's name."""
        return f"argument {number}"

    def fresh(self) -> Side:
        """The same on a new GPU, so that addresses are the same in each run."""
        gpu = self.device
        return attrs.evolve(self, device=Device(gpu.target, numerics=gpu.numerics, stdout=self.printed.append))

    def run(self, values: Sequence[object], watch: Watch | None = None) -> dict[int, Array]:
        """Launch on copies of the arguments; returns what is in the arrays then, by argument."""
        self.printed.clear()
        there = {k: self.device.array(v) for k, v in enumerate(values) if isinstance(v, np.ndarray)}
        given = [there.get(k, values[k]) for k in self.order]
        looking = () if watch is None else (watch({k: a.ptr for k, a in there.items()}),)
        try:
            self.kernel(self.grid, self.block, given, device=self.device, watchers=looking, **self.options)
            return {k: a.get() for k, a in there.items()}
        finally:
            for array in there.values():
                array.free()


@frozen(eq=False)
class Recorded:
    """One of two kernels on a recorded launch, with as many arguments as the case has buffers."""

    name: str
    kernel: Kernel
    case: Case
    gpu: tuple[str, str]
    order: tuple[int, ...]
    options: Keywords
    printed: list[str]

    def called(self, number: int) -> str:
        """A buffer's name."""
        found: str = self.case.description["buffers"][number]["name"]
        return found

    def fresh(self) -> Recorded:
        """Itself: each run has its own GPU."""
        return self

    def run(self, values: Sequence[object], watch: Watch | None = None) -> dict[int, Array]:
        """Launch on these contents of the case's buffers; returns what is in them then."""
        ready = self.case.prepare(device=self.gpu[0], numerics=self.gpu[1])
        for buffer, value in zip(ready.buffers.values(), values, strict=True):
            if isinstance(value, np.ndarray) and value.tobytes() != buffer.get().tobytes():
                buffer.set(value)
        ready.args = tuple([ready.args[k] for k in self.order])
        looking = () if watch is None else (watch({k: b.ptr for k, b in enumerate(ready.buffers.values())}),)
        try:
            ready.launch(watchers=looking, **self.options)
            return {k: array.get() for k, array in enumerate(ready.buffers.values())}
        finally:
            self.printed[:] = ready.printed


@frozen(eq=False)
class Equality:
    """Whether two kernels leave the same results, compared on so many ``inputs``.

    Where they differ, ``text`` explains how, ``arguments`` are the shrunk arguments of a launch that shows it, and ``argument`` and
    ``index`` name the first element that differs.
    """

    inputs: int
    text: str
    arguments: tuple[object, ...] = ()
    argument: int | None = None
    index: tuple[int, ...] | None = None
    equal: bool = attrs.field(default=False, kw_only=True)

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        return self.text

    def plain(self) -> JsonObject:
        """Plain data, for JSON."""
        place = {"argument": self.argument, "index": None if self.index is None else list(self.index)}
        return {"equal": self.equal, "inputs": self.inputs, **place, "text": self.text}


def equal(
    kernel: Kernel,
    other: Kernel,
    grid: Dim,
    block: Dim,
    args: Arguments,
    *,
    other_grid: Dim | None = None,
    other_block: Dim | None = None,
    other_shared_mem: int | None = None,
    order: Sequence[int] | None = None,
    inputs: int = 1,
    ulps: int = 0,
    reference: Reference | None = None,
    device: Device | None = None,
    **options: object,
) -> Equality:
    """Run one launch under two kernels, and compare what they leave in every array argument and print.

    The order of stores, names and registers do not matter. A difference is traced to the stores of both kernels, with CUDA lines
    where the texts have them.

    Args:
        kernel: one kernel.
        other: the other one.
        grid: CTAs, as for calling a kernel; ``other_grid`` if the other kernel needs another grid.
        block: threads of a CTA; ``other_block`` likewise.
        args: the arguments of the first kernel; a `recipe` makes an array, whose seed grows from input to input.
        other_grid: see ``grid``.
        other_block: see ``block``.
        other_shared_mem: the dynamic shared memory of the other kernel's CTAs in bytes, if not as much.
        order: which argument each parameter of the other kernel gets, if the orders differ: ``[0, 2, 1]``.
        inputs: on how many inputs to compare. The first that differs is shrunk: most of its elements become zero.
        ulps: by how many units in the last place floats may differ (0: bits).
        reference: computes the exact values; then each kernel is compared with these, within ``ulps``.
        device: the GPU; by default the newer one of the two modules' targets.
        options: as for calling a kernel.

    Raises:
        LaunchError: the launch does not fit one of the kernels.
    """
    args = list(args)
    places = _places(order, len(args), "arguments")
    gpu = (device.target, device.numerics) if device is not None else (_newer(kernel, other), "exact")
    sides = []
    its = options if other_shared_mem is None else {**options, "shared_mem": other_shared_mem}
    given = (
        (kernel, grid, block, tuple(range(len(args))), options),
        (other, other_grid or grid, other_block or block, places, its),
    )
    for name, (each, its_grid, its_block, its_order, its_options) in zip("AB", given, strict=True):
        _check_count(name, each, its_order)
        printed: list[str] = []
        made = Device(gpu[0], numerics=gpu[1], stdout=printed.append)
        sides.append(Side(name, each, its_grid, its_block, its_order, made, its_options, printed))
    test, seeded = Trial(sides[0], sides[1], ulps, reference), any(isinstance(a, Recipe) and a.seeded for a in args)
    alone = "" if seeded or inputs <= 1 else "; no argument depends on a seed, so others are the same"
    inputs = max(inputs, 1) if seeded else 1
    for number in range(inputs):
        values = [fresh(a, number) for a in args]
        found = test.difference(values)
        if found:
            where = f"input {number + 1} of {inputs}" if inputs > 1 else ""
            shrunk = _shrunk(test, args, values) if inputs > 1 else values
            return test.explained(shrunk, number + 1, where, values)
    return Equality(inputs, f"equal on {plural(inputs, 'input')}{alone}", equal=True)


def equal_case(
    case: str | os.PathLike[str],
    other: Kernel,
    *,
    other_grid: Dim | None = None,
    other_block: Dim | None = None,
    other_shared_mem: int | None = None,
    order: Sequence[int] | None = None,
    ulps: int = 0,
    reference: Reference | None = None,
    device: Device | None = None,
    **options: object,
) -> Equality:
    """Run a recorded launch under its own kernel and under another, and compare what they leave in every buffer and print.

    Args:
        case: a case folder.
        other: the other kernel.
        other_grid: its CTAs, if not those of the case.
        other_block: its threads per CTA, likewise.
        other_shared_mem: its dynamic shared memory per CTA in bytes, likewise.
        order: which of the case's parameters each parameter of the other kernel gets, if the orders differ.
        ulps: as for `equal`.
        reference: as for `equal`; it gets the buffers before the launch.
        device: the GPU; by default the one that recorded the case.
        options: as for calling a kernel, in place of those of the case.

    Raises:
        LaunchError: the directory is no case, or its launch does not fit the other kernel.
    """
    found = Case.read(case)
    count = len(found.description["params"])
    places = _places(order, count, "parameters")
    _check_count("B", other, places)
    gpu = (device.target, device.numerics) if device is not None else (found.target, "exact")
    text = other.module.source, other.module.program.file
    launched = {
        "grid": None if other_grid is None else dims("grid", other_grid),
        "block": None if other_block is None else dims("block", other_block),
        "dynamic_smem": other_shared_mem,
    }
    given = {name: value for name, value in launched.items() if value is not None}
    its = attrs.evolve(found, source=text, description={**found.description, "entry": other.name, **given})
    own = found.prepare(device=gpu[0]).kernel
    sides = (
        Recorded("A", own, found, gpu, tuple(range(count)), options, []),
        Recorded("B", other, its, gpu, places, options, []),
    )
    test = Trial(*sides, ulps, reference)
    values = [array.get() for array in found.prepare(device=gpu[0]).buffers.values()]
    if test.difference(values):
        return test.explained(values, 1, "", values)
    return Equality(1, "equal on the recorded input", equal=True)


def _places(order: Sequence[int] | None, count: int, what: str) -> tuple[int, ...]:
    """Which of so many arguments or parameters the other kernel gets."""
    places = tuple(range(count)) if order is None else tuple(order)
    if any(not 0 <= place < count for place in places):
        raise LaunchError(f"order {list(places)} names {what} that are not there: there are {count}")
    return places


def _check_count(name: str, kernel: Kernel, places: tuple[int, ...]) -> None:
    if len(places) != len(kernel.params):
        raise LaunchError(f"{name}, {kernel.name}, takes {plural(len(kernel.params), 'argument')}, not {len(places)}")


@frozen(eq=False)
class Trial:
    """Two sides, and when what they leave counts as equal."""

    one: Side | Recorded
    other: Side | Recorded
    ulps: int
    reference: Reference | None

    @property
    def check(self) -> JsonObject:
        """The comparison, as a case describes it."""
        return {"mode": "close", "ulps": self.ulps} if self.ulps else {"mode": "bits"}

    def comparisons(self, values: Sequence[object]) -> Iterator[tuple[Side | Recorded, int, Comparison]]:
        """What is compared: which side is judged, the argument, and the comparison."""
        left = self.one.run(values), self.other.run(values)
        if self.reference is None:
            for number, want in left[0].items():
                yield self.other, number, Comparison(self.one.called(number), left[1][number], want, self.check)
            return
        for number, value in zip(left[0], self._exact(values, len(left[0])), strict=True):
            if value is None:
                continue
            for side, got in zip((self.one, self.other), left, strict=True):
                name, found = f"{side.called(number)} of {side.name} (expected: exact)", got[number]
                try:
                    rounded = np.asarray(value).astype(found.dtype).reshape(found.shape)
                except (ValueError, TypeError) as problem:
                    raise LaunchError(
                        f"what the reference gives for {side.called(number)} does not fit: {problem}"
                    ) from None
                yield side, number, Comparison(name, found, rounded, self.check)

    def _exact(self, values: Sequence[object], count: int) -> list[object]:
        assert self.reference is not None
        try:
            exact = list(self.reference(*values))
        except Exception as problem:
            raise LaunchError(f"the reference fails: {type(problem).__name__}: {problem}") from problem
        if len(exact) != count:
            raise LaunchError(
                f"the reference gives {len(exact)} values; {plural(count, 'array argument')} want one each, or None"
            )
        return exact

    def difference(self, values: Sequence[object]) -> bool:
        """Whether the sides differ on an input."""
        try:
            differs = any(c.wrong.any() for *_, c in self.comparisons(values))
            return differs or self.one.printed != self.other.printed
        except LaunchError:
            raise
        except WarpsimError:
            return True

    def explained(self, values: Sequence[object], inputs: int, where: str, whole: Sequence[object]) -> Equality:
        """Say how the sides differ on an input, which is what is left of the ``whole``."""
        arguments = tuple(values)
        head = [f"{where}:"] if where else []
        for side in (self.one, self.other):
            try:
                side.run(values)
            except WarpsimError as problem:
                text = "\n".join(
                    [*head, *_inputs(values, whole), f"{side.name} ({side.kernel.name}) fails:", str(problem)]
                )
                return Equality(inputs, text, arguments)
        for side, number, comparison in self.comparisons(values):
            if comparison.wrong.any():
                lines = explain(comparison)
                if self.reference is None:
                    lines[1] = lines[1].replace("bits expected", "       bits A").replace("bits got", "  bits B")
                    lines[1] = lines[1].replace("expected", "       A").replace("got", "  B")
                places = [tuple(int(i) for i in at) for at in np.argwhere(comparison.wrong)[:TRACED]]
                traced = (self.one, self.other) if self.reference is None else (side,)
                stores = [_store(each.fresh(), values, number, comparison, places[0]) for each in traced]
                parted: list[list[str]] = [[]] * len(traced)
                if len(traced) > 1:
                    with contextlib.suppress(WarpsimError):
                        ends = self._parted(values, stores)
                        taken = self._taken(whole, number, comparison, places[0])
                        if not any(taken) and not all(PARTS in "".join(end) for end in ends):
                            taken = self._depending(whole, number, comparison, places[0])
                        parted = [read or end for read, end in zip(taken, ends, strict=True)]
                for each, store, end in zip(traced, stores, parted, strict=True):
                    lines.append(f"{each.name}, {each.kernel.name}:")
                    lines += [*sentence(f"{each.called(number)}{index_text(places[0])}", store.writer), *end]
                return Equality(
                    inputs, "\n".join([*head, *_inputs(values, whole), *lines]), arguments, number, places[0]
                )
        printed = ["".join(side.printed)[:200] for side in (self.one, self.other)]
        return Equality(inputs, "\n".join([*head, f"A prints {printed[0]!r}, B {printed[1]!r}"]), arguments)

    def _ways(self, values: Sequence[object], stores: Sequence[Store]) -> list[Way | None]:
        """The ways back from a store of each side."""
        sides = self.one, self.other
        return [
            _way(values, side, store, other, its)
            for side, store, other, its in zip(sides, stores, sides[::-1], stores[::-1], strict=True)
        ]

    def _parted(self, values: Sequence[object], stores: Sequence[Store]) -> list[list[str]]:
        """Where each side begins to compute what the other does not, in lines."""
        said = []
        for way, theirs in zip(self._ways(values, stores), (self.other, self.one), strict=True):
            end = None if way is None else way.reached
            what = "followed back to here"
            if end is not None and end.reached:
                what = f"{PARTS} {theirs.name} here, by the same values with another result"
            said.append([] if end is None else end.lines(what))
        return said

    def _taken(
        self, values: Sequence[object], number: int, comparison: Comparison, place: tuple[int, ...]
    ) -> list[list[str]]:
        """For each side, where it reads an element of an argument that changes nothing in the other, in lines. Shrunk inputs hardly
        say: their values are the same in many places."""
        sides = self.one, self.other
        stores = [_store(side.fresh(), values, number, comparison, place) for side in sides]
        said: list[list[str]] = [[], []]
        ways = [way for way in self._ways(values, stores) if way is not None]
        if len(ways) < len(sides):
            return said
        for lines, side, store, way, theirs, its in zip(
            said, sides, stores, ways, sides[::-1], ways[::-1], strict=True
        ):
            end = way.source(its.inputs)
            argument, index = _element(values, store, end)
            if end is None or argument < 0:
                continue
            array = np.array(values[argument])
            others = array[array != array[index]]
            if not others.size:
                continue
            array[index] = others[0]
            changed = [array if k == argument else value for k, value in enumerate(values)]
            before, after = (theirs.run(given)[number][place].tobytes() for given in (values, changed))
            if before == after:
                lines += end.lines(_reading(side, argument, index, theirs))
                if way.reached is not None:
                    lines += way.reached.lines("uses it here")[:2]
        return said

    def _depending(
        self, values: Sequence[object], number: int, comparison: Comparison, place: tuple[int, ...]
    ) -> list[list[str]]:
        """For each side, where it reads an element of an argument on which the result does not depend in the other, in lines: found by
        changing them."""
        sides = self.one, self.other

        def result(side: Side | Recorded, given: Sequence[object]) -> bytes | None:
            with contextlib.suppress(WarpsimError):
                return side.run(given)[number][place].tobytes()
            return None

        said: list[list[str]] = []
        for side, theirs in (sides, sides[::-1]):
            own, other = functools.partial(result, side), functools.partial(result, theirs)
            tried = ((k, depends_alone(values, k, own, other)) for k in range(len(values)))
            argument, index = next(((k, at) for k, at in tried if at is not None), (-1, ()))
            lines: list[str] = []
            if argument >= 0:
                store = _store(side.fresh(), values, number, comparison, place)
                array, writer = np.asarray(values[argument]), store.writer.last
                at = int(np.ravel_multi_index(index, array.shape)) if index else 0
                address = store.arguments[argument] + at * array.itemsize
                if writer is not None and writer.cta is not None:
                    reader = Reader(writer.cta, address)
                    side.fresh().run(values, functools.partial(_same, reader))
                    lines = reader.lines(_reading(side, argument, index, theirs))
            said.append(lines)
        return said


def _same(watcher: Watcher, addresses: dict[int, int]) -> Watcher:
    """A watcher that needs no addresses."""
    return watcher


def _reading(side: Side | Recorded, argument: int, index: tuple[int, ...], theirs: Side | Recorded) -> str:
    """What a side does where it reads an element that matters to it alone."""
    return f"reads {side.called(argument)}{index_text(index)} here, on which that does not depend in {theirs.name}"


def _newer(kernel: Kernel, other: Kernel) -> str:
    targets = [runs_on(k.module.target) for k in (kernel, other)]
    return max(targets, key=lambda target: Device(target).sm)


def _shrunk(test: Trial, args: Sequence[object], values: list[object]) -> list[object]:
    """Zero as much as possible of what recipes made, in ever smaller parts, while the sides differ."""
    tries = TRIES
    for number, argument in enumerate(args):
        if not isinstance(argument, Recipe):
            continue
        kept = values[number]
        assert isinstance(kept, np.ndarray)
        size = kept.size
        while size and tries:
            for start in range(0, kept.size, size):
                part = np.s_[start : start + size]
                if not tries or not kept.reshape(-1)[part].astype(np.bool_).any():
                    continue
                candidate = kept.copy()
                candidate.reshape(-1)[part] = 0
                tries -= 1
                if test.difference([*values[:number], candidate, *values[number + 1 :]]):
                    kept = candidate
            values = [*values[:number], kept, *values[number + 1 :]]
            size //= 2
    return values


def _inputs(values: Sequence[object], whole: Sequence[object]) -> list[str]:
    """The arrays of few elements other than zero; of none, if the ``whole`` had some."""
    lines = []
    for number, (value, before) in enumerate(zip(values, whole, strict=True)):
        if not (isinstance(value, np.ndarray) and isinstance(before, np.ndarray)):
            continue
        count = np.count_nonzero(value)
        if count == 0 < np.count_nonzero(before):
            lines.append(f"  argument {number} is 0")
        if 0 < count <= TRACED and value.size > count:
            places = [tuple(int(i) for i in at) for at in np.argwhere(value)]
            said = ", ".join(f"{index_text(at)} = {value[at]}" for at in places)
            lines.append(f"  argument {number} is 0 but for {said}")
    return lines


@frozen(eq=False)
class Store:
    """Who stored an element of an argument last, and on a new GPU the element's address, and those of all arguments."""

    writer: Writer
    address: int
    arguments: dict[int, int]


def _store(
    side: Side | Recorded, values: Sequence[object], number: int, comparison: Comparison, place: tuple[int, ...]
) -> Store:
    """Who wrote an element of an argument, found in another run."""
    size, shape, found = comparison.expected.dtype.itemsize, comparison.expected.shape, list[Store]()

    def watch(addresses: dict[int, int]) -> Writers:
        address = addresses[number] + size * (int(np.ravel_multi_index(place, shape)) if place else 0)
        watcher = Writers([(address, size)])
        found.append(Store(watcher.found[0], address, addresses))
        return watcher

    with contextlib.suppress(WarpsimError):
        side.run(values, watch)
    return found[0]


def _way(
    values: Sequence[object], side: Side | Recorded, store: Store, other: Side | Recorded, its: Store
) -> Way | None:
    """The way back from a store of a side, along what the other does not compute."""
    mine, theirs = store.writer.last, its.writer.last
    if mine is None or theirs is None or mine.cta is None or theirs.cta is None or mine.warp is None:
        return None
    has = Values(theirs.cta)
    other.fresh().run(values, lambda addresses: has)

    def run(watcher: Watcher) -> None:
        side.fresh().run(values, lambda addresses: watcher)

    return Way(run, mine.cta, mine.warp, store.address, set(has.all().tolist()))


def _element(values: Sequence[object], store: Store, end: Parting | None) -> tuple[int, tuple[int, ...]]:
    """The argument that was read there (-1: none), and the index of the element."""
    for number, first in store.arguments.items():
        array, offset = np.asarray(values[number]), -1 if end is None or end.taken is None else end.taken - first
        if 0 <= offset < array.nbytes:
            return number, tuple(int(i) for i in np.unravel_index(offset // array.itemsize, array.shape))
    return -1, ()


def assert_equal(kernel: Kernel, other: Kernel, grid: Dim, block: Dim, args: Arguments, **options: object) -> None:
    """Fail unless `equal` finds no difference between two kernels; it takes the same arguments."""
    __tracebackhide__ = True
    compare: Callable[..., Equality] = equal
    found = compare(kernel, other, grid, block, args, **options)
    if not found:
        raise AssertionError(str(found))

"""`prove`: answers that hold for all inputs within bounds."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Iterator, Mapping, Sequence

import attrs

from warpsim.errors import LaunchError, shown
from warpsim.host.arguments import Arguments
from warpsim.host.device import Device
from warpsim.host.kernel import Kernel
from warpsim.host.options import Dim
from warpsim.proving.answers import RULES, Answer, Proof, Verdict
from warpsim.proving.effort import SECONDS, Effort
from warpsim.proving.launches import Launching, answers

__all__ = ["Answer", "Proof", "Verdict", "prove"]

ASSUMED = (
    "the grid, the block and the scalars are those given; arrays have the sizes given, and do not overlap; what they hold is arbitrary",
    "constants of the module hold what it gives them",
    "a fault is what one of warpsim's rules reports",
)

LAPS = "loops end, after fewer than 2**32 laps"
BEYOND = "the launch ends with its first access out of bounds"
FEW, TRIED = 16, 8
"""So many launches are run one by one where bounds leave no more; so many inputs of a solver are tried."""
NEEDED = 'bounds that leave more than a few launches need a solver: pip install "warpsim[prove]"'


def prove(
    kernel: Kernel,
    grid: Dim,
    block: Dim,
    args: Arguments,
    *,
    shared_mem: int = 0,
    cluster: Dim | None = None,
    cooperative: bool = False,
    device: Device | None = None,
    bounds: Mapping[str | int, tuple[int, int]] | None = None,
    max_seconds: float = SECONDS,
) -> Proof:
    """Prove or refute, for all contents of memory and all legal orders of threads.

    The kernel is free of races, of divergence at barriers, of missing waits and fences of asynchronous operations, and of
    accesses out of bounds: each is ``proved``, ``refuted`` (by a launch, which has run and shows it), or ``unknown``
    (naming the instructions that could not be followed).

    Args:
        kernel: the kernel.
        grid: CTAs in x, y, z.
        block: threads per CTA.
        args: one argument per parameter, as for a launch. Arrays stand for all arrays of that size; none is changed.
        shared_mem: dynamic shared memory per CTA, in bytes.
        cluster: CTAs per cluster.
        cooperative: whether the launch is cooperative.
        device: the GPU; by default the module's own target.
        bounds: the least and the greatest value of integer parameters, by their names or numbers; the others are as in ``args``. Where
            they leave more than a few launches, this needs ``pip install "warpsim[prove]"``.
        max_seconds: when to stop, in seconds. What an answer may cost is limited anyway, by what it does: this is for what takes longer.

    Raises:
        LaunchError: the launch is not possible, or the bounds are not those of integers.
    """
    began = time.perf_counter()
    launching = Launching(
        kernel, grid, block, args, kernel.device(device), shared_mem, cluster, cooperative, Effort.within(max_seconds)
    )
    ranges = _ranges(kernel, args, bounds or {})
    found, inputs, options, more = _answers(launching, ranges)
    within = [f"{kernel.params[n].name} is {low} to {high}" for n, (low, high) in ranges.items()]
    beyond = [] if any(a.property == "bounds" and a.verdict is Verdict.PROVED for a in found) else [BEYOND]
    said = [*within, *ASSUMED, *more, *beyond]
    return Proof(kernel.name, found, tuple(said), time.perf_counter() - began, inputs, options)


def _ranges(kernel: Kernel, args: Arguments, bounds: Mapping[str | int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """The bounds by the number of their parameter."""
    numbers = {param.name: n for n, param in enumerate(kernel.params)}
    found = {}
    for name, given in bounds.items():
        number = numbers.get(name, name) if isinstance(name, str) else name
        if not isinstance(number, int) or not 0 <= number < len(kernel.params) or not isinstance(args, Sequence):
            raise LaunchError(f"bounds of {shown(name)}: {kernel.name} has the parameters {', '.join(numbers)}")
        kind = kernel.params[number].type
        try:
            low, high = (int(each) for each in given)
        except (TypeError, ValueError):
            raise LaunchError(f"bounds of {shown(name)} must be two integers, not {shown(given)}") from None
        if not isinstance(args[number], int) or kernel.params[number].array or kind[0] not in "usb" or low > high:
            raise LaunchError(f"bounds of {shown(name)} (.{kind}) must be the least and the greatest of an integer")
        found[number] = low, high
    return found


def _answers(
    launching: Launching, ranges: Mapping[int, tuple[int, int]]
) -> tuple[tuple[Answer, ...], dict[str, int], dict[str, object], tuple[str, ...]]:
    """The answers; the scalars and the options of a launch that refutes one; what is assumed."""
    if not ranges:
        seen = answers(launching)
        proofs, options, more = seen.answers, seen.options, seen.assumed
        unknown = [a.property for a in proofs if a.verdict is Verdict.UNKNOWN]
        if unknown:
            asked = _asked(launching, {}, seen.bounds, unknown)
            better = {a.property: a for a in asked[0] if a.verdict is Verdict.PROVED} if asked is not None else {}
            proofs = tuple([better.get(a.property, a) if a.verdict is Verdict.UNKNOWN else a for a in proofs])
            more = (*more, LAPS) if better else more
        return proofs, {}, options, more
    count = 1
    for low, high in ranges.values():
        count *= high - low + 1
    few = count <= FEW
    chosen = [range(low, high + 1) if few else dict.fromkeys((low, high)) for low, high in ranges.values()]
    proofs, more = (), ()
    for values in itertools.product(*chosen):
        seen = answers(_with(launching, dict(zip(ranges, values, strict=True))))
        proofs, options, more = seen.answers, seen.options, tuple(dict.fromkeys([*more, *seen.assumed]))
        refuted = any(a.verdict is Verdict.REFUTED for a in proofs)
        if refuted or (few and any(a.verdict is not Verdict.PROVED for a in proofs)):
            return _only(proofs), _named(launching, dict(zip(ranges, values, strict=True))), options, more
    if few:
        return proofs, {}, {}, more
    asked = _asked(_with(launching, {n: low for n, (low, _) in ranges.items()}), ranges)
    if asked is None:
        raise LaunchError(NEEDED)
    proofs, suspects = asked
    for inputs in _distinct(suspects):
        numbers = {n: inputs[launching.kernel.params[n].name] for n in ranges}
        seen = answers(_with(launching, numbers))
        if any(a.verdict is Verdict.REFUTED for a in seen.answers):
            return (
                tuple([s if s.verdict is Verdict.REFUTED else p for s, p in zip(seen.answers, proofs, strict=True)]),
                inputs,
                seen.options,
                (LAPS,),
            )
    return proofs, {}, {}, (LAPS,)


def _asked(
    launching: Launching,
    ranges: Mapping[int, tuple[int, int]],
    places: set[tuple[int, int]] | None = None,
    properties: Collection[str] = tuple(RULES),
) -> tuple[tuple[Answer, ...], list[dict[str, int]]] | None:
    """What a solver says of these properties (of bounds only at these ``places``), and the scalars that may refute what it cannot
    prove; None without one."""
    try:
        from warpsim.proving.ranges import answers_within
    except ImportError:
        return None
    names = {launching.kernel.params[n].name: each for n, each in ranges.items()}
    with launching.begun({}) as state:
        return answers_within(state, names, launching.effort, places, properties)


def _only(proofs: tuple[Answer, ...]) -> tuple[Answer, ...]:
    """What one launch says of all: what it proves is not proved of the others."""
    return tuple([attrs.evolve(a, verdict=Verdict.UNKNOWN) if a.verdict is Verdict.PROVED else a for a in proofs])


def _distinct(suspects: list[dict[str, int]]) -> Iterator[dict[str, int]]:
    """A few inputs, each once."""
    unique = {tuple(sorted(inputs.items())): inputs for inputs in suspects}
    yield from itertools.islice(unique.values(), TRIED)


def _with(launching: Launching, numbers: Mapping[int, int]) -> Launching:
    """The launch with other scalars."""
    args = list(launching.args)
    for number, value in numbers.items():
        args[number] = value
    made: Launching = attrs.evolve(launching, args=tuple(args))
    return made


def _named(launching: Launching, numbers: Mapping[int, int]) -> dict[str, int]:
    return {launching.kernel.params[number].name: value for number, value in numbers.items()}

"""Modules and their kernels: loading PTX, launch checks, launching."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import attrs
import numpy as np

from warpsim.checks.watchers import watchers_of
from warpsim.errors import ExecutionError, Finding, LaunchError, PtxError, UnknownName, WarpsimError, plural, shown
from warpsim.host import defaults
from warpsim.host.arguments import Arguments, pack
from warpsim.host.arrays import DeviceArray, pages
from warpsim.host.command_options import BATCH_THREADS, Options
from warpsim.host.device import Device
from warpsim.host.launch_options import LaunchOptions, chosen_engine, workers_of
from warpsim.host.options import ACCURACY, Checks, Dim, choice, dims, integer
from warpsim.host.sources import read
from warpsim.host.targets import runs_on
from warpsim.host.texture import Opaque, OpaqueVariable
from warpsim.layout.textures import KINDS
from warpsim.machine.binding.bind import bind_function
from warpsim.machine.engine import Progress, opcodes_of, run
from warpsim.machine.fidelity import Executed, Fidelity
from warpsim.machine.hooks import Listener
from warpsim.machine.plan import Image, KernelPlan
from warpsim.machine.state.global_memory import CONST_ADDRESS, SHARED_WINDOW
from warpsim.machine.state.launch import Dims, LaunchState, Settings
from warpsim.machine.state.schedule import Schedule
from warpsim.machine.watcher import Watcher
from warpsim.native.tiering.eligibility import DeferredEngine, compiled_for, hears_all, keep_straight, straight_for
from warpsim.numerics.arrays import Array
from warpsim.program.load import program_of
from warpsim.program.program import Function, Program, Variable
from warpsim.records import frozen
from warpsim.types import TYPES, StateSpace

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from warpsim.native.runtime.straight import StraightLaunch
    from warpsim.native.tiering.engine import CompiledEngine
    from warpsim.observe.accuracy import Accuracy
    from warpsim.observe.accuracy_report import AccuracyReport
    from warpsim.observe.profiler import Profiler
    from warpsim.report.pages import KernelFacts
    from warpsim.report.profile import Profile


@frozen
class KernelParam:
    """A kernel parameter: name, PTX type, size, alignment and offset in the parameter block in bytes, and whether it is
    an array of bytes (a structure) rather than a scalar."""

    name: str
    type: str
    size: int
    alignment: int
    offset: int
    array: bool

    def __str__(self) -> str:
        """The parameter as PTX declares it: ``.u64 out``, ``.b8 config[128]``."""
        count = self.size // TYPES[self.type].bytes
        return f".{self.type} {self.name}" + (f"[{count}]" if count > 1 else "")


@frozen
class LaunchResult:
    """The result of a launch.

    ``instructions`` counts warp-instructions, and ``opcodes`` splits the count by opcode. ``profile`` has counts per
    line if the launch was profiled.
    """

    instructions: int
    thread_instructions: int
    opcodes: dict[str, int]
    findings: tuple[Finding, ...]
    stdout: str
    seconds: float
    profile: Profile | None = attrs.field(default=None, repr=False)
    fidelity: Sequence[Executed] = attrs.field(default=(), repr=False, eq=False)
    """Evidence for the bits of each executed instruction: recordings from a GPU, exact arithmetic, or a model."""
    accuracy: AccuracyReport | None = attrs.field(default=None, repr=False, eq=False)
    """With ``shadow="f64"`` or ``checks="accuracy"``, how far float values are from what they would be without rounding, by line."""

    def _repr_html_(self) -> str:
        from warpsim.report.pages import result_html

        executed = plural(self.instructions, "warp-instruction"), plural(self.thread_instructions, "thread-instruction")
        facts = [*executed, f"{self.seconds:.3f} s", plural(len(self.findings), "finding")]
        profile = "" if self.profile is None else self.profile._repr_html_()
        accuracy = "" if self.accuracy is None else self.accuracy._repr_html_()
        return result_html(facts, self.findings, self.stdout) + profile + accuracy


def accuracy_of(shadow: str | None, checks: frozenset[str], engine: str = "auto") -> Accuracy | None:
    """What computes every float value in higher precision as well, if a launch asks for it."""
    if shadow is None and ACCURACY not in checks:
        return None
    from warpsim.native.compiling import available
    from warpsim.observe.accuracy import Accuracy

    if shadow is not None:
        choice("shadow", shadow, ("f64",))
    if engine == "interpreter" or not available():
        return Accuracy()
    from warpsim.native.shadows import passes

    return Accuracy(passes())


def _profiler() -> Profiler:
    from warpsim.observe.profiler import Profiler

    return Profiler()


def result_of(
    state: LaunchState,
    stdout: str,
    seconds: float,
    profile: Profile | None = None,
    accuracy: AccuracyReport | None = None,
) -> LaunchResult:
    """Collect the results of a finished launch."""
    return LaunchResult(
        state.instructions,
        state.thread_instructions,
        opcodes_of(state),
        tuple(state.findings.values()),
        stdout,
        seconds,
        profile,
        Fidelity(dict(state.counts), state.device.sm),
        accuracy,
    )


ELSEWHERE = 4096
"""Fewer threads take the interpreter hardly longer beside those that are seen from near than without."""


def _run_whole(
    state: LaunchState,
    watchers: Sequence[Watcher],
    own: Sequence[Watcher],
    stdout: Callable[[str], object],
    progress: Progress | None,
    engine: str,
) -> CompiledEngine | DeferredEngine | None:
    """Run a launch in one piece, seen by a user's ``watchers`` and by ``own`` ones; returns the code that it ran."""
    rules, timing = watchers_of(state), defaults.current.timing
    seeing: Sequence[Listener] = [*rules, *watchers, *own]
    elsewhere = _elsewhere(state, watchers) if watchers and timing is None else None
    if elsewhere is not None:
        joins = all(one is not watcher for one, watcher in zip(elsewhere, watchers, strict=True))
        code = compiled_for(engine, others := [*rules, *elsewhere, *own], state, joins=joins)
        run(state, others, stdout, progress, code, seeing)
        return code
    code = compiled_for(engine, seeing, state, joins=not watchers)

    def attended(child: LaunchState) -> tuple[list[Watcher], CompiledEngine | DeferredEngine | None]:
        watching = [*watchers_of(child), *(watcher for watcher in (*watchers, *own) if watcher.follows)]
        return watching, compiled_for(engine, watching, child, joins=not watchers)

    if timing is None:
        run(state, seeing, stdout, progress, code, attended=attended)
    else:
        timing.run(state, seeing, stdout, progress, code, attended)
    return code


def _elsewhere(state: LaunchState, watchers: Sequence[Watcher]) -> list[Listener] | None:
    """What listens to the CTAs that no watcher sees from near (`Watcher.from_near`); None unless these may run apart from others."""
    found = [watcher.from_near(state) for watcher in watchers]
    parts = [one[0] for one in found if one is not None]
    if not parts or state.schedule is not None:
        return None
    from warpsim.parallel.divide import kept_together, shows_order

    near, (x, y, z) = np.unique(np.concatenate(parts)), state.block
    few = (state.n_ctas - len(near)) * x * y * z < ELSEWHERE
    together = few or kept_together(state.plan, cooperative=state.settings.cooperative) is not None
    if together or shows_order(state.plan):
        return None
    state.near = near
    return [watcher if one is None else one[1] for watcher, one in zip(watchers, found, strict=True)]


def _run_straight(
    straight: StraightLaunch, params: bytes, watchers: Sequence[Watcher], profiler: Profiler | None
) -> bool:
    """Run a launch as the one call that it was before; False if that cannot be, or failed."""
    if not watchers and profiler is None:
        return straight.run(params)
    state = straight.machine.launch
    state.params, state.near = params, None
    listeners = list((_elsewhere(state, watchers) if watchers else None) or watchers)
    if profiler is not None:
        listeners.append(profiler)
    return hears_all(listeners) and straight.run(params, listeners)


def _divided(
    state: LaunchState,
    pool: Executor,
    n_workers: int,
    stdout: Callable[[str], object],
    progress: Progress | None,
    engine: str,
) -> bool:
    """Run a launch in parts; False if it has to be run in one piece, and nothing was run."""
    from warpsim.parallel.divide import divided

    measured = defaults.current.timing is not None
    return not (measured or state.schedule) and divided(state, pool, n_workers, stdout, progress, engine)


class _Given(NamedTuple):
    """What a launch is given, checked."""

    plan: KernelPlan
    grid: Dims
    block: Dims
    params: bytes
    settings: Settings
    order: Schedule | None

    def begin(self, device: Device) -> LaunchState:
        """The launch, before its first step."""
        plan, grid, block, params, settings, order = self
        return LaunchState(plan, grid, block, params, device.memory, device.spec, settings, schedule=order)


class Kernel:
    """An entry function of a module, called like CuPy's RawKernel: ``kernel(grid, block, args)``."""

    def __init__(self, module: Module, function: Function) -> None:
        self.module = module
        self.function = function
        self.name = function.name
        self.params = tuple(
            KernelParam(p.name, p.type.name, p.size, p.align, p.offset, bool(p.array)) for p in function.params
        )
        self._options = LaunchOptions(module.program.target, function)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self.module).get_function, (self.module, self.name)

    def __repr__(self) -> str:
        return f"Kernel({self.name!r}, target={self.module.target!r})"

    def facts(self) -> KernelFacts:
        """Static facts about the kernel."""
        from warpsim.report.pages import KernelFacts

        shared = sum(v.size for v in self.function.variables if v.space is StateSpace.SHARED)
        opcodes = Counter(instruction.text for instruction in self.function.code)
        return KernelFacts(self.name, tuple(map(str, self.params)), len(self.function.registers), shared, opcodes)

    def _repr_html_(self) -> str:
        from warpsim.report.pages import kernel_html

        return kernel_html(self.facts(), self.module.target)

    def __call__(
        self,
        grid: Dim,
        block: Dim,
        args: Arguments | bytes,
        *,
        shared_mem: int = 0,
        cluster: Dim | None = None,
        cooperative: bool = False,
        device: Device | None = None,
        checks: Checks = None,
        on_finding: str = "raise",
        async_effects: str | None = None,
        max_instructions: int | None = 10**9,
        max_seconds: float | None = None,
        engine: str | None = None,
        watchers: Sequence[Watcher] = (),
        profile: bool = False,
        shadow: str | None = None,
        workers: int | None = None,
        executor: object = None,
        schedule: int | None = None,
        batch_threads: int = BATCH_THREADS,
        progress: Progress | None = None,
    ) -> LaunchResult:
        """Run the kernel.

        Args:
            grid: CTAs in x, y, z: an int, or up to three of them.
            block: threads per CTA, in the same form.
            args: one argument per parameter. NumPy arrays are mapped in place for the launch; pointers also take a
                `DeviceArray`, an address, or None.
            shared_mem: dynamic shared memory per CTA, in bytes.
            cluster: CTAs per cluster, unless the module declares it.
            cooperative: launch cooperatively, so that grid-wide barriers are allowed.
            device: the GPU; by default the module's own target.
            checks: ``"default"`` (every rule but ``race``), ``"all"`` or ``"none"``, followed by any number of
                ``+NAME`` and ``-NAME``; or a set of rules and groups. ``"default+race"`` also finds races, at a cost in
                time and memory; ``"accuracy"`` is ``"default"`` with ``shadow="f64"``, and notes where error is born.
            on_finding: ``"raise"`` ends the launch at the first error; ``"collect"`` continues where it can.
            async_effects: when asynchronous operations take effect: at issue (``"eager"``), or as late as the rules
                allow (``"at_wait"``).
            max_instructions: limit on warp-instructions, or None.
            max_seconds: limit on wall-clock time in seconds, or None.
            watchers: instances of `Watcher` that receive events.
            profile: count what each line does, as ``LaunchResult.profile``.
            shadow: ``"f64"`` computes every float value in higher precision as well, for ``LaunchResult.accuracy``; the launch
                then runs in the interpreter.
            engine: ``"auto"``, ``"interpreter"`` or ``"compiled"``. Bits, counts and findings are the same.
            workers: number of local processes that share the CTAs; of threads with ``engine="compiled"``.
            executor: a ``concurrent.futures.Executor`` to use instead.
            schedule: a seed for another legal order of warps, CTAs and asynchronous effects. The same seed gives the
                same order.
            batch_threads: number of threads simulated side by side; affects speed, not results.
            progress: called now and then with the state of the launch.

        Raises:
            LaunchError: arguments, dimensions or resources do not fit.
            ExecutionError: the launch did something undefined, faulted, hung, or exceeded its limits.
        """
        __tracebackhide__ = True
        device = self.device(device)
        nobody = type(watchers) is tuple and not watchers
        if not (nobody or (isinstance(watchers, Sequence) and all(isinstance(w, Watcher) for w in watchers))):
            raise LaunchError(f"watchers must be instances of warpsim.Watcher, not {shown(watchers)}")
        watchers = () if nobody else tuple({id(watcher): watcher for watcher in watchers}.values())
        profiler = _profiler() if integer("profile", profile, 0, 1) else None
        printed: list[str] = []

        def stdout(text: str) -> None:
            printed.append(text)
            device.stdout(text)

        options = Options(
            shared_mem=shared_mem,
            cluster=cluster,
            cooperative=cooperative,
            checks=checks,
            on_finding=on_finding,
            async_effects=async_effects,
            max_instructions=max_instructions,
            max_seconds=max_seconds,
            schedule=schedule,
            batch_threads=batch_threads,
        )
        engine = chosen_engine(engine)
        pool, n_workers = workers_of(device, workers, executor, engine)
        mapped: list[int] = []
        accuracy: Accuracy | None = None
        plain = shadow is None and pool is None and progress is None
        may_go_straight = plain and defaults.current.timing is None and engine != "interpreter"
        kinds = (*map(type, watchers), type(profiler)) if watchers or profiler else ()
        started = time.perf_counter()
        with device.lock:  # launches on one device are ordered
            try:
                given = self._given(grid, block, args, mapped, device, options)
                straight = straight_for(given.plan, given.settings, kinds) if may_go_straight else None
                state = given.begin(device) if straight is None else straight.machine.launch
                try:
                    if straight is None or not _run_straight(straight, given.params, watchers, profiler):
                        state = state if straight is None else given.begin(device)
                        accuracy = accuracy_of(shadow, state.settings.checks, engine)
                        own = [*([profiler] if profiler else []), *([accuracy] if accuracy else [])]
                        parts = None if watchers or own else pool
                        if parts is None or not _divided(state, parts, n_workers, stdout, progress, engine):
                            code = _run_whole(state, watchers, own, stdout, progress, engine)
                            keep_straight(state, code if may_go_straight else None, kinds)
                finally:
                    for listener in defaults.listeners:
                        listener(state)
                seconds, found = time.perf_counter() - started, accuracy.found if accuracy else None
                profiled = profiler.profile() if profiler else None
                # before another thread launches: it may have the same state
                return result_of(state, "".join(printed), seconds, profiled, found)
            except MemoryError as problem:
                raise ExecutionError(findings=(self._out_of_memory(problem),)) from None
            except WarpsimError as problem:
                raise problem.with_traceback(None) from None  # the simulator's own frames would not help the user
            finally:
                for address in mapped:
                    device.memory.unmap(address)

    def device(self, chosen: Device | None) -> Device:
        """The GPU that a launch runs on: ``chosen``, the session's default, or the module's own target."""
        device = (defaults.current.device or self.module.device) if chosen is None else chosen
        if not isinstance(device, Device):
            raise LaunchError(f"device must be a warpsim.Device, not {shown(device)}")
        return device

    def begin(
        self, grid: Dim, block: Dim, args: Arguments, mapped: list[int], device: Device, options: Options
    ) -> LaunchState:
        """Set up a launch, before its first step. Adds the addresses of mapped arguments to ``mapped``; the caller
        holds the device's lock."""
        return self._given(grid, block, args, mapped, device, options).begin(device)

    def _given(
        self, grid: Dim, block: Dim, args: Arguments, mapped: list[int], device: Device, options: Options
    ) -> _Given:
        grid3, block3, directives = dims("grid", grid), dims("block", block), self.function.directives
        if "blocksareclusters" in directives:  # the grid has clusters (PTX ISA 11.8.1)
            x, y, z = dims(".reqnctapercluster", [int(v) for v in directives["reqnctapercluster"]])
            grid3 = grid3[0] * x, grid3[1] * y, grid3[2] * z
        options = options.over(device, defaults.current)
        seed = None if options.by_warp else options.schedule
        order = None if seed is None else Schedule.of(integer("schedule", seed))
        plan = self.module.image(device).plan(self.name)
        settings = self._options.settings(plan, device, (grid3, block3), options, order)
        return _Given(plan, grid3, block3, pack(self.function, args, device, mapped), settings, order)

    def _out_of_memory(self, problem: MemoryError) -> Finding:
        return Finding(
            "limit",
            f"this machine has too little memory for the launch: {problem}",
            advice="launch fewer or smaller CTAs, or pass a smaller batch_threads=",
            kernel=self.name,
            file=self.module.program.file,
        )


# ---- modules ---------------------------------------------------------------------------------------


def load(source: str | bytes | os.PathLike[str]) -> Module:
    """Load a PTX module.

    Args:
        source: a path (``os.PathLike``), or a ``str`` or ``bytes``: text if it contains a newline, a brace or a
            semicolon or begins with a directive (``.version``), otherwise a path. Fatbins and executables yield the PTX inside.

    Raises:
        PtxError: the source cannot be read or is not valid PTX; it lists every problem.
    """
    __tracebackhide__ = True
    try:
        return load_text(*read(source))
    except WarpsimError as problem:
        raise problem.with_traceback(None) from None


def load_file(path: str) -> Module:
    """Load a PTX module from a file; findings use the path as given."""
    return load_text(*read(_Path(path)))


class _Path(os.PathLike[str]):
    def __init__(self, path: str) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return self.path


def load_text(text: str, file: str) -> Module:
    """Load a PTX module from text; findings use ``file`` as its name."""
    return Module(program_of(text, file))


class Module:
    """A loaded PTX module. Each device has its own copy of the module's variables for as long as the module lives."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.target = program.target
        self._images: weakref.WeakKeyDictionary[Device, Image] = weakref.WeakKeyDictionary()
        self._objects: weakref.WeakKeyDictionary[Device, dict[str, list[Opaque | None]]] = weakref.WeakKeyDictionary()
        self._default: Device | None = None
        self._lock = threading.RLock()
        self._kernels = {name: Kernel(self, f) for name, f in program.functions.items() if f.entry}

    def __reduce__(self) -> tuple[object, ...]:
        """Copy by loading the text again; the copy has its own variables."""
        return load_text, (self.program.source, self.program.file)

    def _repr_html_(self) -> str:
        from warpsim.report.pages import module_html

        return module_html(self.program.file, self.target, [kernel.facts() for kernel in self._kernels.values()])

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """Kernels by name."""
        return MappingProxyType(self._kernels)

    def __getitem__(self, name: str) -> Kernel:
        return self.get_function(name)

    def get_function(self, name: str) -> Kernel:
        """Look up a kernel by name.

        Raises:
            UnknownName: there is no such kernel. It is a `LaunchError` and a ``KeyError``.
        """
        if not isinstance(name, str) or name not in self._kernels:
            raise UnknownName(f"the module has no kernel {shown(name)}; it has: {', '.join(self._kernels) or 'none'}")
        return self._kernels[name]

    @property
    def source(self) -> str:
        """The text as loaded. Findings count its lines from 1."""
        return self.program.source

    def to_ptx(self) -> str:
        """Print the program as PTX text."""
        from warpsim.ptx.parser import parse
        from warpsim.ptx.printer import print_module

        return print_module(parse(self.source))

    @property
    def device(self) -> Device:
        """The GPU of the module's own target, the default for launches without ``device=``."""
        with self._lock:
            if self._default is None:
                self._default = Device(runs_on(self.target))
            return self._default

    def get_global(self, name: str, device: Device | None = None) -> DeviceArray:
        """A view of a module variable (``.global`` or ``.const``).

        Of a ``.texref``, ``.samplerref`` or ``.surfref``, ``set`` binds a `Texture` or `Surface` for launches on the device.
        """
        device = self.device if device is None else device
        if not isinstance(device, Device):
            raise LaunchError(f"device must be a warpsim.Device, not {shown(device)}")
        image = self.image(device)
        for variable in self.program.variables:
            if variable.name == name and variable.unique in image.addresses:
                address = image.addresses[variable.unique]
                allocation = device.memory.at(address)
                assert allocation is not None
                dtype = variable.type.dtype if variable.size % variable.type.dtype.itemsize == 0 else np.dtype(np.uint8)
                view = DeviceArray(allocation.data.view(dtype), address, device.memory, owns=False)
                if variable.type.name in KINDS:
                    return OpaqueVariable(view, variable.type.name, self._bound(device, variable.unique))
                return view
        names = ", ".join(variable.name for variable in self.program.variables if variable.unique in image.addresses)
        raise UnknownName(f"the module has no variable {shown(name)} in .global or .const; it has: {names or 'none'}")

    def _bound(self, device: Device, variable: str) -> list[Opaque | None]:
        with self._lock:
            return self._objects.setdefault(device, {}).setdefault(variable, [])

    def unload(self, device: Device) -> None:
        """Remove the module's variables from a device's memory. Pointers to them become invalid."""
        with device.lock, self._lock:
            image = self._images.pop(device, None)
            self._objects.pop(device, None)
            for address in set(image.addresses.values()) if image is not None else ():
                if device.memory.at(address) is not None:
                    device.memory.unmap(address)

    def image(self, device: Device) -> Image:
        """The program with its variables placed in a device's memory."""
        with device.lock, self._lock:
            image = self._images.get(device)
            if image is None:
                addresses: dict[str, int] = {}
                try:
                    image = self._images[device] = self._place(device, addresses)
                except BaseException:
                    for address in set(addresses.values()):
                        device.memory.unmap(address)
                    raise
            return image

    def _place(self, device: Device, addresses: dict[str, int]) -> Image:
        image = Image(self.program, addresses, bind_function)
        placed = []
        variables = list(self.program.variables)
        for function in self.program.functions.values():
            variables += [v for v in function.variables if v.space in (StateSpace.GLOBAL, StateSpace.CONST)]
        for variable in variables:
            if variable.space not in (StateSpace.GLOBAL, StateSpace.CONST):
                continue
            if variable.managed and variable.size:
                data = pages(variable.size)
                address = device.memory.map(data, name=variable.name, address=data.ctypes.data)
            else:
                address, data = device.memory.allocate(
                    variable.size, variable.name, const=variable.space is StateSpace.CONST, align=variable.align
                )
            data[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
            addresses[variable.unique] = address
            addresses.setdefault(variable.name, address)
            placed.append((variable, data))
        for variable, data in placed:
            self._relocate(image, variable, data)
        return image

    def _relocate(self, image: Image, variable: Variable, data: Array) -> None:
        symbols = {(r.symbol, r.generic) for r in variable.relocations}
        bases = {key: self._symbol(image, key[0], generic=key[1]) for key in symbols}
        values = []
        for _, _, symbol, addend, generic, mask in variable.relocations:
            value = bases[symbol, generic] + addend
            if mask is not None:
                value = (value & mask) >> ((mask & -mask).bit_length() - 1)
            values.append(value & 0xFFFFFFFFFFFFFFFF)
        offsets = np.array([r.offset for r in variable.relocations], np.int64)
        for byte in range(variable.type.bytes):
            data[offsets + byte] = np.array(values, np.uint64) >> np.uint64(8 * byte) & np.uint64(0xFF)

    def _symbol(self, image: Image, name: str, *, generic: bool) -> int:
        if name in image.addresses:
            at = image.addresses[name]
            return at - CONST_ADDRESS if at >= CONST_ADDRESS and not generic else at
        if name in image.function_numbers or name in self.program.aliases:
            return image.function_address(name)
        shared = next(
            (v for v in self.program.variables if v.name == name and v.space is StateSpace.SHARED),
            None,
        )
        if shared is not None and generic:
            return SHARED_WINDOW
        raise PtxError(
            findings=(Finding("linkage", f"{name} is used in an initialiser but not defined", file=self.program.file),)
        )

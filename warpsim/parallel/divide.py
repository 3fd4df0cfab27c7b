"""Divides a launch into parts if that is allowed, and assembles its result, if the parts were independent."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future
from typing import Any

import attrs
import numpy as np

from warpsim.analysis.flow import calls_into, used_registers
from warpsim.checks.written import mark_written
from warpsim.errors import ExecutionError, WarpsimError
from warpsim.isa.atomics import JOINED
from warpsim.isa.traits import Access, Ending
from warpsim.machine.engine import Progress
from warpsim.machine.plan import FunctionPlan, KernelPlan
from warpsim.machine.state.global_memory import GlobalMemory
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.notes import Note
from warpsim.machine.values import Array
from warpsim.machine.waves import waves_of
from warpsim.parallel.part import Change, Marks, Outcome, Part, Reduction, perform
from warpsim.parallel.processes import Here, Memory, Pickled, Processes, Threads
from warpsim.program.names import device_function
from warpsim.program.program import Instruction
from warpsim.records import frozen
from warpsim.types import TYPES, bits_type


def independent(outcomes: Sequence[Outcome]) -> bool:
    """Whether no part accesses what another changes, except for reductions of the same kind into the same elements."""
    if not all(outcome.known for outcome in outcomes):
        return False
    changing = {at for o in outcomes for at in (*o.written, *(start for start, _ in o.reduced))}
    return all(_independent(at, outcomes) for at in changing)


def _independent(at: int, outcomes: Sequence[Outcome]) -> bool:
    read: list[Marks] = []
    written: list[Marks] = []
    reduced: list[tuple[Reduction, Marks]] = []
    for outcome in outcomes:
        reads = [outcome.read[at]] if at in outcome.read else []
        writes = [outcome.written[at].marks] if at in outcome.written else []
        reductions = [(kind, change.marks) for (start, kind), change in outcome.reduced.items() if start == at]
        reducing = [marks for _, marks in reduced]
        if _overlap(reads, [*written, *reducing]) or _overlap(writes, [*read, *written, *reducing]):
            return False
        for kind, marks in reductions:
            others = [m for other, m in reduced if other != kind]
            if _overlap([marks], [*read, *written, *others]) or _overlap([marks], writes):
                return False
        read += reads
        written += writes
        reduced += reductions
    return True


def _overlap(some: Iterable[Marks], others: Sequence[Marks]) -> bool:
    return any(one.overlaps(other) for one in some for other in others)


def apply(memory: GlobalMemory, outcomes: Sequence[Outcome]) -> None:
    """Apply the changes of independent parts to the memory that they started with."""
    for at in {key for o in outcomes for key in (*o.written, *(start for start, _ in o.reduced))}:
        memory.own(at)
    base = {at: memory.bytes_at(at).copy() for outcome in outcomes for at, _ in outcome.reduced}
    for outcome in outcomes:
        for at, change in outcome.written.items():
            memory.bytes_at(at)[change.marks.index()] = change.values
            mark_written(memory, at, change.marks.index(), change.written)
        for (at, kind), change in outcome.reduced.items():
            _reduce(memory.bytes_at(at), base[at], change, kind)
    memory.version += 1


def _reduce(memory: Array, base: Array, change: Change, kind: Reduction) -> None:
    """Combine a part's reduction, which started from ``base``, with the current memory; nothing else accessed these
    elements."""
    operation, type_name = kind
    dtype = TYPES[type_name].dtype
    index = change.marks.index()
    now, old = (array[index].view(dtype) for array in (memory, base))
    memory[index] = JOINED[operation](old, now, change.values.view(dtype)).view(np.uint8)


PARTS_OF_A_WORKER = 2
"""More parts than workers, to compensate for a slow worker, unless it needs more batches in total."""
TRIES = 3
"""How often a part is given to workers that get lost before it runs here."""
HEAP = frozenset({"malloc", "free"})
PRINTS = frozenset({"vprintf"})
TOGETHER: Note[str | None] = Note("parallel")
"""The key under which a kernel's plan caches why its CTAs must run together."""
ORDER: Note[bool] = Note("shows order")
"""That for whether it may show their order."""


def divided(
    state: LaunchState,
    executor: Executor,
    workers: int,
    stdout: Callable[[str], object],
    progress: Progress | None = None,
    engine: str = "auto",
) -> bool:
    """Run a launch in parts. Returns False, with nothing changed, if it has to run in one piece.

    Raises:
        ExecutionError: as the launch in one piece would; memory holds what CTAs up to and including the one with the
            finding wrote.
    """
    settings = state.settings
    threads = state.n_ctas * state.block[0] * state.block[1] * state.block[2]
    n = workers * PARTS_OF_A_WORKER
    if threads < n * settings.batch_threads:
        n = workers
    smaller = max(min(settings.batch_threads, -(-threads // n)), 1)
    begun = attrs.evolve(state, settings=attrs.evolve(settings, batch_threads=smaller))
    waves = waves_of(begun)
    if waves < 2 or kept_together(state.plan, cooperative=settings.cooperative) is not None:
        return False
    n = min(n, waves)
    bounds = [waves * i // n for i in range(n + 1)]
    with _shipped(executor, state.memory) as shipment:
        done = _done(state, executor, _parts(begun, bounds, engine), shipment, progress)
    budget = settings.max_instructions
    if not independent(done) or (budget is not None and sum(o.instructions for o in done) > budget):
        return False
    _finish(state, done, stdout)
    return True


def _done(
    state: LaunchState, executor: Executor, parts: list[Part], shipment: Shipment, progress: Progress | None
) -> list[Outcome]:
    """The outcomes of parts in order, up to the first that ends the launch."""
    done = list[Outcome]()
    futures = [executor.submit(perform, part, shipment.first()) for part in parts]
    try:
        for index, future in enumerate(futures):
            outcome = _outcome(executor, parts[index], shipment, future)
            done.append(outcome)
            if progress is not None:
                progress(sum(o.instructions for o in done), sum(o.ctas for o in done), state.n_ctas)
            if outcome.error is not None:
                break
    finally:
        for future in futures:
            future.cancel()
        if len(done) < len(futures) and (not done or done[-1].error is None) and independent(done):
            apply(state.memory, done)  # interrupted: keep what was written so far
    return done


@frozen
class Shipment:
    """Memory as an executor takes it with a part: the ``first`` time, and where the part is done ``again``."""

    first: Callable[[], Any]
    again: Callable[[], Memory]


@contextlib.contextmanager
def _shipped(executor: Executor, memory: GlobalMemory) -> Iterator[Shipment]:
    """Provide each part's memory in a form that its executor can use."""
    if isinstance(executor, Threads):
        yield Shipment(lambda: Here(memory), lambda: Here(memory))
        memory.settle()
    elif isinstance(executor, Processes):
        with executor.files.mapped(memory) as mapped:
            yield Shipment(lambda: mapped, lambda: mapped)
    else:
        pickled = Pickled.of(memory)
        scatter = getattr(getattr(executor, "_client", None), "scatter", None)
        if scatter is None:
            yield Shipment(lambda: pickled, lambda: pickled)
            return
        everywhere = scatter(pickled, broadcast=True, hash=False)  # Dask: to each worker once, not with each part
        yield Shipment(lambda: everywhere, lambda: pickled)


def _parts(state: LaunchState, bounds: Sequence[int], engine: str) -> list[Part]:
    plan = state.plan
    program = plan.program
    return [
        Part(
            program.source,
            program.file,
            plan.entry.name,
            plan.image.addresses,
            state.grid,
            state.block,
            state.params,
            state.device,
            state.settings,
            engine,
            first,
            last,
        )
        for first, last in itertools.pairwise(bounds)
    ]


def _outcome(executor: Executor, part: Part, shipment: Shipment, future: Future[Outcome]) -> Outcome:
    """The outcome of a part. If its worker is lost, other workers repeat it, and finally this process."""
    for _ in range(TRIES):
        try:
            return future.result()
        except WarpsimError:
            raise
        except (Exception, CancelledError):  # every executor reports a lost worker in its own way
            try:
                future = executor.submit(perform, part, shipment.again())
            except Exception:  # the executor itself is broken
                break
    return perform(part, shipment.again())


def _finish(state: LaunchState, done: list[Outcome], stdout: Callable[[str], object]) -> None:
    """End a launch with the results of its parts."""
    apply(state.memory, done)
    state.memory.nanoseconds += sum(outcome.cycles for outcome in done)
    for outcome in done:
        state.instructions += outcome.instructions
        state.thread_instructions += outcome.thread_instructions
        state.done_ctas += outcome.ctas
        for (function, index), count in outcome.counts.items():
            block = state.plan.function(function).blocks[index]
            state.counts[block] = state.counts.get(block, 0) + count
        for key, finding in outcome.findings.items():
            known = state.findings.get(key)
            state.findings[key] = finding if known is None else attrs.evolve(known, count=known.count + finding.count)
    for outcome in done:
        for text in outcome.printed:
            stdout(text)
    error = done[-1].error
    if error is not None:
        collected = state.settings.on_finding == "collect"
        raise ExecutionError(findings=tuple(state.findings.values()) if collected else error)


# ---- whether -------------------------------------------------------------------------------------


def kept_together(plan: KernelPlan, *, cooperative: bool) -> str | None:
    """Why the CTAs of a launch cannot run apart, in words; None if they can."""
    if cooperative:
        return "a cooperative launch"
    if plan.uses.cancels:
        return "launches that are cancelled"
    notes = plan.main.notes
    if TOGETHER not in notes:
        notes[TOGETHER] = why_together(plan)
    return notes[TOGETHER]


def why_together(plan: KernelPlan) -> str | None:
    """Why the CTAs of a kernel's non-cooperative launches cannot run apart; None if its code shows no communication
    between CTAs."""
    if plan.program.externs.keys() & HEAP:
        return "memory from the device's heap"
    if any(map(device_function, plan.program.externs)):
        return "launches by the device"
    for function in reachable(plan):
        if function.clocks.registers:
            return f"{function.function.name} reads a clock"
        used = None
        for instruction in function.function.code:
            if _talks(instruction):
                used = used_registers(function.function) if used is None else used
                if not _reduces(instruction, used):
                    return f"line {instruction.span.line}: {instruction.text}"
    return None


def shows_order(plan: KernelPlan) -> bool:
    """Whether a kernel may show the order of CTAs that do not communicate: it prints, or bulk copies reduce floats."""
    notes, program = plan.main.notes, plan.program
    if ORDER not in notes:
        notes[ORDER] = any(
            calls_into(i, program.externs.keys() & PRINTS, program)
            if i.traits.ending is Ending.CALL
            else i.op.get("redOp")
            and "global" in i.traits.spaces
            and ((t := i.op.get("type")) is None or t.kind == "f")
            for function in reachable(plan)
            for i in function.function.code
        )
    return notes[ORDER]


def reachable(plan: KernelPlan) -> list[FunctionPlan]:
    """The functions that a kernel may call, including itself: all of the module's if it calls any."""
    if not any(i.traits.ending is Ending.CALL for i in plan.entry.code):
        return [plan.main]
    return [plan.function(name) for name, f in plan.program.functions.items() if not f.entry or f is plan.entry]


def _talks(instruction: Instruction) -> bool:
    """Whether other CTAs can observe when an instruction executes: it polls, or does an atomic on memory that CTAs
    share."""
    traits = instruction.traits
    shared = bool(traits.spaces) and all(
        s.startswith("shared") or s in ("local", "const", "param") for s in traits.spaces
    )
    return (traits.polls or traits.access is Access.ATOMIC) and traits.mbarrier is None and not shared


def _reduces(instruction: Instruction, used: frozenset[int]) -> bool:
    """Whether it is an integer reduction whose order cannot be observed."""
    op, traits = instruction.op, instruction.traits
    if traits.access is not Access.ATOMIC or traits.asynchronous is not None or op.get("op") not in JOINED:
        return False
    if op.type.kind not in ("s", "u") and op.type is not bits_type(op.type.bits):
        return False  # floats, packed ones too
    return used.isdisjoint(instruction.writes)

"""`Watcher`: the base class of observers. Its methods are the list of events, which `warpsim.machine.hooks.Hooks` calls.

Events pass the machine's own arrays, not copies. Lanes and masks broadcast to ``group.selection.shape``; ``positions``
are flat thread numbers in the batch (``thread * n_ctas + cta``); ``columns`` are CTAs of the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from warpsim.machine.hooks import ATOMIC, READ, WRITE, BoxProblem, Hooks, MemoryAccess, TensorAccess, TensorProblem

if TYPE_CHECKING:
    from warpsim.errors import Finding
    from warpsim.layout.boxes import Boxes
    from warpsim.machine.asynchrony.wgmma import RegisterAccesses
    from warpsim.machine.asynchrony.wgmma_chains import Chain
    from warpsim.machine.collectives import Members
    from warpsim.machine.hooks import Listener, RegionAccesses, RegionCounts, RegionSteps
    from warpsim.machine.machine import Machine
    from warpsim.machine.memory.addresses import Extent, RowProblem
    from warpsim.machine.plan import Issue, Step
    from warpsim.machine.stalled import Stall, StallValues
    from warpsim.machine.state.global_memory import Allocation
    from warpsim.machine.state.group import Group
    from warpsim.machine.state.launch import LaunchState
    from warpsim.machine.state.transfers import Transfer
    from warpsim.machine.values import Array, Place
    from warpsim.program.program import Instruction


class Watcher:
    """Observes a launch: subclass it, define the events you want, and pass an instance in ``kernel(...,
    watchers=[...])``.

    An event that a class does not define is never called and costs nothing. A watcher reads the machine and never
    writes it; call `report` to make a finding. Arguments of events:

    - ``machine``: the CTAs simulated side by side. ``machine.batch.shape`` has the number of CTAs and threads, ``machine.batch.ctas``
      the CTAs' linear indices in the grid, ``machine.launch`` the grid, the block and the counts so far.
    - ``group``: threads that execute in lockstep. ``group.instruction`` is their current instruction (``.text``, ``.span.line``,
      ``.source``, ``.traits``), ``group.selection`` says which threads they are, and ``group.warps.spread(value)`` views a value of the
      group as ``[warps, 32, ctas]``.
    - ``place``, ``columns``, ``active`` and other arrays broadcast to ``group.selection.shape`` unless an event says otherwise.
      ``positions`` are flat thread numbers in the batch (``thread * n_ctas + cta``), ``columns`` are CTA numbers in the batch, and
      ``active`` is a mask of the participating lanes (None for all). Addresses and sizes are in bytes.
    """

    events: ClassVar[tuple[str, ...]] = ()
    """The events that a class defines."""

    compiled: ClassVar[frozenset[str]] = frozenset()
    """Events that compiled code handles itself: it runs only code that has nothing to report to this class."""

    apart: ClassVar[frozenset[str]] = frozenset()
    """Events that compiled code also handles itself where it runs a whole launch, and shows that no two threads access the same bytes
    unordered, one of them to write."""

    shadows: ClassVar[frozenset[str] | None] = None
    """Names of shadows: `shadowed_before` and `shadowed_after` come where registers carry one of them, or one that another watcher
    names; None for any."""

    follows: ClassVar[bool] = True
    """Whether the events of grids that a kernel launches come, too: each with a launch of its own."""

    def __init_subclass__(cls, **more: object) -> None:
        super().__init_subclass__(**more)
        cls.events = tuple(name for name in EVENTS if getattr(cls, name) is not getattr(Watcher, name))
        for handled in "compiled", "apart":
            if handled not in vars(cls):  # code does not know what a class does then in place of the one that says so
                said = next(base for base in cls.__mro__ if handled in vars(base))
                same = [e for e in getattr(said, handled) if getattr(cls, e) is getattr(said, e)]
                setattr(cls, handled, frozenset(same))

    def report(
        self,
        machine: Machine,
        group: Group,
        rule: str,
        message: str,
        lanes: Array | None = None,
        *,
        severity: str = "error",
        advice: str = "",
        **values: object,
    ) -> None:
        """Make a finding at the instruction where ``group`` stands, under a ``rule`` of your own.

        ``lanes`` is a mask of the lanes at fault, in the group's shape. A finding of severity "error" ends the launch
        as ``on_finding`` says. ``values`` are kept with the finding. ``checks=`` selects among the simulator's own
        rules and does not filter yours.
        """
        machine.fault(rule, message, group, lanes, severity=severity, advice=advice, own=True, **values)

    def from_near(self, launch: LaunchState) -> tuple[Array, Listener] | None:
        """The CTAs, by linear numbers, of which it hears every event, and what listens in its place to all others, which then may
        run compiled; None if it listens to all. Asked before each launch; where CTAs communicate, it hears of all."""
        return None

    # ---- the launch --------------------------------------------------------------------------

    def launch_began(self, launch: LaunchState) -> None:
        """A launch is about to begin. Not called when a copy of a launch in progress continues."""

    def launch_ended(self, launch: LaunchState) -> None:
        """All batches of a launch have ended."""

    def batch_began(self, machine: Machine) -> None:
        """A batch is about to start: CTAs that run side by side, with linear indices ``machine.batch.ctas``."""

    def cta_began(self, machine: Machine, columns: Array) -> None:
        """CTAs begin: ``columns`` are all CTAs of the batch. Called after `batch_began`."""

    def cta_ended(self, machine: Machine, columns: Array) -> None:
        """The last threads of these CTAs of the batch have exited. Called after `group_exited`."""

    def batch_ended(self, machine: Machine) -> None:
        """All threads of a batch have exited."""

    def finding(self, machine: Machine, group: Group, finding: Finding) -> None:
        """A rule was broken at a place where it had not been broken before. The launch may end with it."""

    # ---- steps -------------------------------------------------------------------------------

    def step_before(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """A group is about to execute an instruction."""

    def step_after(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """A group has executed an instruction and continues with the next."""

    def run_before(self, machine: Machine, group: Group, last: int) -> None:
        """A group is about to execute the steps of its block up to ``last``, one past the last of them, unless it has to wait before:
        in place of `step_before` for each. A step that is guarded or synchronises runs alone, and each does where a watcher
        hears single steps or the order is random."""

    def run_after(self, machine: Machine, group: Group, last: int) -> None:
        """A group has executed these steps, but for a branch or exit that ends its block, or had to wait at the one before ``last``."""

    def region_executed(self, machine: Machine, group: Group, steps: int) -> None:
        """Compiled code has executed so many steps of a group, of one warp if ``Settings.by_warp``."""

    def region_accessed(self, machine: Machine, accesses: RegionAccesses) -> None:
        """Compiled code has run and can still be undone. For a class that lists `memory_accessed` and `rows_accessed` in `compiled`."""

    def region_counted(self, machine: Machine, group: Group, counts: RegionCounts) -> None:
        """Compiled code has executed a region, and the group has not yet moved on. ``counts`` replaces the events of single
        steps and accesses for a class that lists these in `compiled`."""

    def region_recorded(self, machine: Machine, group: Group, steps: list[RegionSteps]) -> None:
        """Compiled code has executed all steps of a batch that has the CTAs to be seen from near, too. For what `from_near` gives for the
        other CTAs: these are not interpreted then, and seen by this event alone, before `region_counted`. Their warps come CTA by CTA."""

    def shadowed_before(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """A group whose registers carry shadow values (`Group.shadows`) is about to execute an instruction."""

    def shadowed_after(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """A group whose registers carry shadow values has executed an instruction; so has any other group that a watcher
        asked for with `Machine.attend` in the meantime. Not called for an instruction that ends a block, nor for one at
        which the group has to wait: it executes that again."""

    # ---- threads -----------------------------------------------------------------------------

    def group_split(self, machine: Machine, group: Group, parts: tuple[Group, Group]) -> None:
        """The threads of a group take different paths, or some of them wait: two groups replace it."""

    def uniform_split(self, machine: Machine, group: Group, parts: tuple[Group, Group]) -> None:
        """The same of an instruction with ``.uni``."""

    def entry_counted(self, machine: Machine, group: Group, times: int) -> None:
        """Corrects how often a group has entered the block at whose first instruction it stands. ``times`` is -1 if it
        will enter the block once more, 1 if it waited there and continues behind that instruction."""

    def groups_met(self, machine: Machine, groups: list[Group], merged: Group) -> None:
        """Groups at the same place merge into one."""

    def group_parked(self, machine: Machine, group: Group) -> None:
        """A group waits for other lanes of its warps."""

    def group_slept(self, machine: Machine, group: Group) -> None:
        """A polling group sleeps until memory changes or its time comes."""

    def group_woken(self, machine: Machine, group: Group) -> None:
        """A group that was parked (possibly merged with others since) or asleep can run again."""

    def group_exiting(self, machine: Machine, group: Group) -> None:
        """The threads of a group are about to exit."""

    def group_exited(self, machine: Machine, group: Group) -> None:
        """The threads of a group have exited."""

    def function_entered(self, machine: Machine, group: Group) -> None:
        """A group stands at the first instruction of the kernel, or of a function that it has called; the arguments are
        in place."""

    # ---- registers ---------------------------------------------------------------------------

    def registers_read(self, machine: Machine, group: Group, registers: tuple[int, ...]) -> None:
        """A group is about to execute an instruction that reads these registers.

        ``group.read(register)`` is a register's value, ``group.plan.function.registers[register].name`` its name.
        Called again if the group has to wait and executes the instruction again.
        """

    def registers_written(self, machine: Machine, group: Group, registers: tuple[int, ...]) -> None:
        """A group has executed an instruction that writes these registers, in the lanes that its guard lets pass.

        For a call, this comes when it has returned its results; for a barrier or a collective that completes in parts,
        when each part gets its result.
        """

    def step_wrapped(self, group: Group, instruction: Instruction, step: Step, usual: Step) -> Step:
        """Give what runs in place of an instruction's ``step``, once for each launch: ``usual`` is the step with the two events above.

        Asked only of a watcher that is the only one to want these events.
        """
        return usual

    def registers_changed(self, machine: Machine, group: Group, count: int) -> None:
        """Warps have requested ``count`` registers per thread (setmaxnreg) and need not wait for them."""

    # ---- memory ------------------------------------------------------------------------------

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Lanes are about to access memory, each at its own address (`MemoryAccess`)."""

    def variable_left(
        self, machine: Machine, group: Group, within: Extent, place: Array, nbytes: int, left: Array
    ) -> None:
        """Lanes are about to access ``nbytes`` at ``place``, addresses made from the variable ``within``; those of ``left`` are
        not all inside it. Called before `memory_accessed`, also for accesses that fault."""

    def memory_written(self, machine: Machine, group: Group) -> None:
        """The store that `memory_accessed` announced is done."""

    def shadow_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Lanes access memory that has a shadow; called in addition to `memory_accessed`. Here an exchange counts as
        a write, and addresses in global memory may be affine. Not called for shared or local memory whose shadow is
        ``settled``."""

    def memory_filled(self, machine: Machine, space: str, place: Place, nbytes: int, columns: Array) -> None:
        """Something other than a lane's store has written ``nbytes`` at each ``place`` of these columns of shared or
        local memory: arguments and results of calls, data of asynchronous copies, mbarrier words."""

    def argument_read(self, machine: Machine, group: Group, address: int, positions: Array, nbytes: int) -> None:
        """A function of the CUDA runtime reads an argument of some threads, or what printf prints, at a generic address."""

    def memory_allocated(self, machine: Machine, group: Group, allocation: Allocation) -> None:
        """A thread has allocated global memory from the device heap."""

    def stack_extended(self, machine: Machine, group: Group, positions: Array, first: int, nbytes: int) -> None:
        """Threads have allocated ``nbytes`` of local memory at ``first``, or freed them: the frame of a function, or by alloca."""

    def rows_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Warps access matrix rows in shared memory: ``place`` and ``columns`` broadcast to ``[warps, rows, ctas]``."""

    def rows_refused(
        self, machine: Machine, group: Group, problem: RowProblem, rows: Array, address: Array, nbytes: int
    ) -> None:
        """Warps name matrix rows of ``nbytes`` that they cannot access because of ``problem``. ``rows`` ``[warps, rows,
        ctas]`` is a mask of them, and ``address`` broadcasts to it. Unless a watcher reports an error, the launch does."""

    def tile_read(
        self, machine: Machine, group: Group, address: Array, columns: Array, limits: tuple[int, int], nbytes: int
    ) -> None:
        """Warpgroups read shared memory through a matrix descriptor: addresses ``[..., n, m]`` of ``nbytes`` each,
        within ``limits``."""

    def descriptor_read(
        self,
        machine: Machine,
        group: Group,
        bits: Array,
        columns: Array,
        matrix: tuple[int, int, int, bool],
        limits: tuple[int, int],
    ) -> None:
        """Warpgroups are about to read a matrix through descriptors.

        ``bits`` and ``columns`` are ``[n, m]`` (``bits`` may be a scalar). ``matrix`` is its extent along K and along M
        or N, the element size, and whether it is transposed. ``limits`` are the addresses that it lies within.
        """

    def tensor_accessed(self, machine: Machine, group: Group, access: TensorAccess) -> None:
        """Warps, or the tensor cores for a thread, are about to access tensor memory."""

    def tensor_refused(self, machine: Machine, group: Group, problem: TensorProblem, lanes: Array | None) -> None:
        """Threads ask of tensor memory what they may not: what is not allocated is neither read nor written."""

    def tensor_waited(self, machine: Machine, group: Group, active: Array | None, written: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Warps have waited for their stores to tensor memory (``written``) or for their loads."""

    def tensor_allocated(self, machine: Machine, group: Group, ctas: Array, column: Array, columns: Array) -> None:
        """Warps have allocated ``columns`` of tensor memory from ``column`` on in these CTAs, and stored the address."""

    def tensor_freed(
        self, machine: Machine, group: Group, ctas: Array, column: Array, columns: Array, positions: Array
    ) -> None:
        """Warps, the first threads of which are at ``positions``, are about to free columns of tensor memory in these CTAs."""

    def global_tile_accessed(
        self, machine: Machine, group: Group, positions: Array, access: int, address: Array, nbytes: int
    ) -> None:
        """Bulk copies access runs of ``nbytes`` in global memory through the async proxy."""

    def global_tile_written(self, machine: Machine, address: Array, nbytes: int) -> None:
        """Bulk copies store runs of ``nbytes`` in global memory, and combine none."""

    # ---- order -------------------------------------------------------------------------------

    def fence(self, machine: Machine, group: Group, instruction: Instruction, active: Array | None) -> None:
        """Threads have executed a fence. The instruction's modifiers give its kind, scope and proxies."""

    def warp_synchronised(self, machine: Machine, group: Group, members: Members, active: Array | None) -> None:
        """The ``active`` lanes (None: all) of warps have met in a collective: all lanes of a warp, or those in the membermask
        ``members``."""

    def collective_reached(self, machine: Machine, group: Group, members: Members, active: Array | None) -> None:
        """Lanes have reached a collective with the membermask ``members`` (None if it is for whole warps). Called again
        for lanes that have waited and execute it again."""

    def collective_waits(self, machine: Machine, group: Group) -> None:
        """Lanes are about to wait at a collective without a membermask for others of their warps or warpgroups."""

    def collective_passed(self, machine: Machine, group: Group) -> None:
        """Lanes pass a collective without a membermask that their guard disables, while others of their warps wait at it."""

    def collective_incomplete(self, machine: Machine, group: Group, active: Array | None) -> None:
        """Warps are about to execute a collective without a membermask with some of their lanes only: all that have not
        exited have arrived."""

    def collective_joined(self, machine: Machine, joint: Group, instruction: Instruction) -> None:
        """Lanes that have reached a collective at several places execute it together. ``joint`` has all of them, with the registers
        that each brings and their shadows; each gets what shadows its results are given there. Called only where there are any."""

    def warpgroup_incomplete(self, machine: Machine, group: Group, broken: Array) -> None:
        """The warpgroups of the ``broken`` threads lack threads that have exited or never existed; they skip the
        instruction."""

    def stalled(self, machine: Machine, first: Stall, message: str, values: StallValues) -> None:
        """No thread can make progress, and the launch ends: with a deadlock, unless an error is found now. ``first`` is
        what the others ultimately wait for; ``message`` says which threads wait for what; ``values`` are kept with the
        finding."""

    def warp_split(self, machine: Machine, group: Group, other: Group | None) -> None:
        """Lanes arrive at an aligned barrier without the rest of their warps, because nothing else can run; ``other``
        waits too."""

    def barrier_operands_differ(self, machine: Machine, group: Group, operands: list[Array]) -> None:
        """Threads reach a CTA barrier with different operands (barrier number and thread count), so they arrive one
        after another."""

    def barrier_reached(self, machine: Machine, group: Group, number: int, count: int) -> None:
        """Threads have reached a barrier of their CTAs that expects ``count`` threads (0: all)."""

    def barrier_arrived(self, machine: Machine, group: Group, number: int, partial: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Threads arrive at a barrier of their CTAs. ``partial``: not all threads need to arrive, or some do not wait; as the
        first of those arrive, the barrier's own ``partial`` is not set yet, and others may be waiting already."""

    def barrier_left(self, machine: Machine, group: Group | None, number: int, partial: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Threads (None: all of the batch) have passed a barrier of their CTAs."""

    def barrier_completed(self, machine: Machine, number: int, columns: Array) -> None:
        """In these CTAs, a barrier that not all threads need to reach has completed."""

    def cluster_barrier_arrived(self, machine: Machine, group: Group) -> None:
        """Threads arrive at the barrier of their clusters; ``machine.batch.cluster_barrier`` is still in its state
        before."""

    def cluster_barrier_left(self, machine: Machine, group: Group) -> None:
        """Threads have passed a barrier of their clusters."""

    # ---- mbarriers ---------------------------------------------------------------------------

    def mbarrier_initialised(
        self, machine: Machine, group: Group, columns: Array, place: Array, count: Array, active: Array | None
    ) -> None:
        """Threads are about to initialise mbarriers that expect ``count`` arrivals."""

    def mbarrier_invalidated(
        self, machine: Machine, group: Group, columns: Array, place: Array, words: Array, active: Array | None
    ) -> None:
        """Threads are about to invalidate mbarriers, which contain ``words``."""

    def mbarrier_fenced(self, machine: Machine, group: Group, active: Array | None) -> None:
        """Threads make the mbarriers that they initialised visible to the cluster and the async proxy."""

    def mbarrier_reached(
        self, machine: Machine, group: Group, columns: Array, place: Array, active: Array | None
    ) -> None:
        """Threads use mbarriers through cluster addresses, or pass them to copies of the async proxy."""

    def mbarrier_changed(
        self, machine: Machine, group: Group, before: Array, after: Array, active: Array | None
    ) -> None:
        """Threads change the words of mbarriers; several may change the same one."""

    def mbarrier_read(self, machine: Machine, group: Group, words: Array, active: Array | None) -> None:
        """Threads, or copies that they start, read these words of mbarriers to learn the phase."""

    def mbarrier_arrived(
        self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array, phases: Array
    ) -> None:
        """Threads have arrived at mbarriers, or added expected bytes there, in phases of these parities."""

    def mbarrier_observed(self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array) -> None:
        """Threads have observed that the mbarrier phase they waited for has completed."""

    # ---- asynchronous operations --------------------------------------------------------------

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Threads start asynchronous copies."""

    def async_started(self, machine: Machine, transfer: Transfer) -> None:
        """These copies are in flight. Without late effects, they have already moved their bytes."""

    def async_waited(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """The threads that started these copies have waited for them."""

    def async_delivered(
        self, machine: Machine, group: Group, active: Array | None, transfer: Transfer, which: Array
    ) -> None:
        """These copies have written their bytes, at a step of ``group``."""

    def async_signalled(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """These copies have counted at their mbarriers."""

    def async_visible(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """The effects of these copies are visible to the threads that observed their completion."""

    def wgmma_fenced(self, machine: Machine, group: Group) -> None:
        """Warpgroups have ordered their register accesses with the wgmma that follow (wgmma.fence)."""

    def wgmma_issued(self, machine: Machine, group: Group, issue: Issue) -> None:
        """Warpgroups are about to start a wgmma; ``machine.batch.wgmma.issued`` is the number of the previous one."""

    def wgmma_chain_met(self, machine: Machine, group: Group, chain: Chain) -> None:
        """Warpgroups are about to start several wgmma on the same accumulators together. A listener of `wgmma_issued`, `tile_read` or
        `descriptor_read` that does not define this event gets those of each; one that does, only if it sets ``chain.followed``."""

    def wgmma_chain_started(self, machine: Machine, group: Group, chain: Chain) -> None:
        """They do: no listener has asked for each of them."""

    def wgmma_committed(self, machine: Machine, group: Group) -> None:
        """Warpgroups have committed a wgmma-group."""

    def wgmma_registers_accessed(self, machine: Machine, group: Group, rows: Array, written: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Another instruction is about to read or write registers used by wgmma of the function; ``rows`` are their
        numbers in ``group.plan.wgmma_rows``."""

    def wgmma_registers_used(self, machine: Machine, group: Group, accesses: RegisterAccesses) -> None:
        """Compiled code has accessed registers used by wgmma, none of them in flight; in place of `wgmma_registers_accessed`."""

    def wgmma_registers_renamed(self, machine: Machine, group: Group, sources: Array, targets: Array) -> None:
        """A move copies in-flight accumulators, or halves of them, to other wgmma registers."""

    def wgmma_waited(self, machine: Machine, group: Group) -> None:
        """Warpgroups have waited for their wgmma."""

    def wgmma_finished(self, machine: Machine, group: Group, registers: set[int]) -> None:
        """With late effects: these registers now hold results of wgmma, or shall in the lanes that have not waited yet."""

    def tensor_fenced(self, machine: Machine, group: Group, positions: Array, before: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Threads order their tcgen05 operations with a synchronisation that follows (``before``) or that precedes
        (tcgen05.fence)."""

    def map_changed(self, machine: Machine, group: Group, positions: Array) -> None:
        """Threads release their changes of tensor maps (fence.proxy.tensormap, release)."""

    def map_acquired(self, machine: Machine, group: Group, addresses: Array, columns: Array) -> None:
        """Threads acquire the tensor maps at these addresses (fence.proxy.tensormap, acquire)."""

    def map_used(self, machine: Machine, group: Group, addresses: Array, columns: Array, active: Array | None) -> None:
        """CTAs use the tensor maps at addresses, one per copy started by the ``active`` threads."""

    def changing_map_used(
        self, machine: Machine, group: Group, addresses: Array, columns: Array, active: Array | None
    ) -> None:
        """The same, but not of maps in memory that no kernel writes."""

    def boxes_refused(self, machine: Machine, group: Group, problem: BoxProblem, active: Array | None) -> None:
        """Boxes of a tensor cannot be copied, because of ``problem``; a GPU ends the launch."""

    def boxes_beyond(self, machine: Machine, group: Group, boxes: Boxes, positions: Array) -> None:
        """Threads have started stores of boxes, one each, that may write what lies behind the rows of the tensor."""


EVENTS = tuple(
    name
    for name, value in vars(Watcher).items()
    if name[0] != "_" and callable(value) and name not in ("report", "from_near")
)
for _name in EVENTS:
    setattr(Hooks, _name, None)

__all__ = ["ATOMIC", "EVENTS", "READ", "WRITE", "BoxProblem", "MemoryAccess", "TensorAccess", "Watcher"]

"""The base of those who look through the window (`warpsim.machine.events`), and what each event says.

Arguments are the arrays that exist already; shapes: lanes and masks broadcast over ``group.selection.shape``, ``positions`` are flat positions of threads in the batch
(``thread * n_ctas + cta``), ``columns`` CTAs of the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from warpsim.machine.events import ATOMIC, EVENTS, READ, WRITE, MemoryAccess, Window

if TYPE_CHECKING:
    from warpsim.errors import Finding
    from warpsim.machine.collectives import Members
    from warpsim.machine.issue import Issue
    from warpsim.machine.machine import Machine
    from warpsim.machine.memory.outside import RowProblem
    from warpsim.machine.stalled import Stall
    from warpsim.machine.state.global_memory import Allocation
    from warpsim.machine.state.group import Group
    from warpsim.machine.state.launch import LaunchState
    from warpsim.machine.state.transfers import Transfer
    from warpsim.machine.values import Array
    from warpsim.program.program import Instruction


class Watcher:
    """Looks at a launch: subclass it, define the events you want, and pass it in ``kernel(..., watchers=[...])``.

    An event that a class does not define is never called, and costs nothing. Watchers read the machine and never write
    it; what they find wrong they `report`. What an event gives:

    - ``machine``: the CTAs that run side by side. ``machine.batch.shape`` says how many CTAs and threads these are,
      ``machine.batch.ctas`` their linear numbers in the grid, ``machine.launch`` the grid, the block and the counts so far.
    - ``group``: threads in lockstep. ``group.instruction`` is the instruction at which they stand (``.text``, ``.span.line``,
      ``.source``, ``.traits``), ``group.selection`` which threads they are, ``group.warps.spread(value)`` the view
      ``[warps, 32, ctas]`` of a value of the group.
    - ``place``, ``columns``, ``active`` and other arrays broadcast to ``group.selection.shape`` unless an event says otherwise.
      ``positions`` are flat numbers of threads in the batch (``thread * n_ctas + cta``), ``columns`` numbers of CTAs in the
      batch; ``active`` marks the lanes that take part, None for all. Addresses and sizes are in bytes.
    """

    events: ClassVar[tuple[str, ...]] = ()
    """The events that a class defines."""

    compiled: ClassVar[frozenset[str]] = frozenset()
    """Events of which compiled code takes care itself: it runs only what would tell this class nothing of interest."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.events = tuple(name for name in EVENTS if getattr(cls, name) is not getattr(Watcher, name))

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
        """Make a finding at the instruction where ``group`` stands, under a ``rule`` of your own; ``lanes`` mark who is
        concerned, in the group's shape. One of severity "error" ends the launch as ``on_finding`` says; ``values`` are kept
        with the finding. ``checks=`` chooses among the simulator's own rules, and lets all others pass."""
        machine.fault(rule, message, group, lanes, severity=severity, advice=advice, own=True, **values)

    # ---- the launch --------------------------------------------------------------------------

    def launch_began(self, launch: LaunchState) -> None:
        """A launch is about to begin; not told where a copy of one that has begun runs on."""

    def launch_ended(self, launch: LaunchState) -> None:
        """All batches of a launch have ended."""

    def batch_began(self, machine: Machine) -> None:
        """CTAs that run side by side are about to start: ``machine.batch.ctas`` are their linear numbers."""

    def cta_began(self, machine: Machine, columns: Array) -> None:
        """CTAs begin: numbers of the batch, all of it. Told after `batch_began`."""

    def cta_ended(self, machine: Machine, columns: Array) -> None:
        """The last threads of these CTAs of the batch have exited; told after `group_exited`."""

    def batch_ended(self, machine: Machine) -> None:
        """All threads of a batch have exited."""

    def finding(self, machine: Machine, group: Group, finding: Finding) -> None:
        """A rule was broken at a place where it had not been broken before; the launch may end with it."""

    # ---- steps -------------------------------------------------------------------------------

    def step_before(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """A group is about to execute an instruction."""

    def step_after(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """A group has executed an instruction, and goes on with the next."""

    def carried_before(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """A group whose registers carry companion values (`Group.companions`) is about to execute an instruction."""

    def carried_after(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """Such a group has executed it, or another did so and a watcher asked for it meanwhile with `Machine.attend`; not told
        of what ends a block, nor where the group has to wait and comes again."""

    # ---- threads -----------------------------------------------------------------------------

    def group_split(self, machine: Machine, group: Group, parts: tuple[Group, Group]) -> None:
        """The threads of a group take different paths, or some of them wait: it is replaced by two."""

    def entry_counted(self, machine: Machine, group: Group, times: int) -> None:
        """A group stands at the first instruction of a block and will come to it again: its entry into the block counts once
        less (``times`` is -1); or it has waited there and goes on behind it: once more (1)."""

    def groups_met(self, machine: Machine, groups: list[Group], merged: Group) -> None:
        """Groups that stand at one place go on as one."""

    def group_parked(self, machine: Machine, group: Group) -> None:
        """A group waits for other lanes of its warps."""

    def group_slept(self, machine: Machine, group: Group) -> None:
        """A group that polls goes on when memory has changed, or when its time comes."""

    def group_woken(self, machine: Machine, group: Group) -> None:
        """A group that was parked, maybe with others that it has met since, or slept, can run again."""

    def group_exiting(self, machine: Machine, group: Group) -> None:
        """The threads of a group are about to exit."""

    def group_exited(self, machine: Machine, group: Group) -> None:
        """The threads of a group have exited."""

    def function_entered(self, machine: Machine, group: Group) -> None:
        """A group stands at the first instruction of the kernel, or of a function that it has called with its arguments."""

    # ---- registers ---------------------------------------------------------------------------

    def registers_read(self, machine: Machine, group: Group, registers: tuple[int, ...]) -> None:
        """A group is about to execute an instruction that reads these registers: ``group.read(register)`` is what one holds,
        ``group.plan.function.registers[register].name`` its name. Told again where the group has to wait, and comes again."""

    def registers_written(self, machine: Machine, group: Group, registers: tuple[int, ...]) -> None:
        """A group has executed an instruction that writes these registers, in the lanes that its guard lets pass; of a call, when
        it has returned its results; of a barrier or a collective in parts, when they are given."""

    def registers_changed(self, machine: Machine, group: Group, count: int) -> None:
        """Warps have asked for ``count`` registers a thread (setmaxnreg), and need not wait for them."""

    def register_needed(self, machine: Machine, group: Group, slot: int, use: str) -> None:
        """A register's content is about to matter as ``use`` (an address, a condition, what is stored to global memory), and
        the group has neither read nor written it since it split or met others."""

    # ---- memory ------------------------------------------------------------------------------

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Lanes are about to access memory, each at an address of its own (`MemoryAccess`)."""

    def memory_written(self, machine: Machine, group: Group) -> None:
        """The store that `memory_accessed` told of is done."""

    def companion_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Lanes access memory that has a companion, told besides `memory_accessed`. Here an exchange counts as a write, and
        addresses in global memory may be affine."""

    def memory_filled(self, machine: Machine, space: str, place: Any, nbytes: int, columns: Array) -> None:
        """Not a store of lanes has written ``nbytes`` at each ``place`` of these columns of shared or local memory: arguments and
        results of calls, what asynchronous copies deliver, counts of mbarriers."""

    def memory_allocated(self, machine: Machine, group: Group, allocation: Allocation) -> None:
        """A thread has got global memory from the heap of the device."""

    def stack_extended(self, machine: Machine, group: Group, positions: Array, first: int, nbytes: int) -> None:
        """Threads have got ``nbytes`` of local memory from ``first``: the frame of a function that they call, or by alloca."""

    def rows_accessed(
        self, machine: Machine, group: Group, access: int, place: Array, nbytes: int, columns: Array, active: Any
    ) -> None:
        """Warps access matrix rows in shared memory: ``place`` and ``columns`` broadcast to ``[warps, rows, ctas]``."""

    def rows_refused(
        self, machine: Machine, group: Group, problem: RowProblem, rows: Array, address: Array, nbytes: int
    ) -> None:
        """Warps name matrix rows of ``nbytes`` that they cannot access, for this ``problem``: ``rows`` ``[warps, rows, ctas]``
        marks them, ``address`` broadcasts to it. Unless a watcher finds an error in that, the launch does."""

    def tile_read(
        self, machine: Machine, group: Group, address: Array, columns: Array, limits: tuple[int, int], nbytes: int
    ) -> None:
        """Warpgroups read shared memory by a matrix descriptor: addresses ``[..., n, m]`` of ``nbytes`` within ``limits``."""

    def descriptor_read(
        self,
        machine: Machine,
        group: Group,
        bits: Array,
        columns: Array,
        matrix: tuple[int, int, int, bool],
        limits: tuple[int, int],
    ) -> None:
        """Warpgroups are about to read a matrix by descriptors: their ``bits`` and ``columns`` ``[n, m]`` (bits may be one for
        all), its extent along K and along M or N, the size of an element and whether it is transposed, and the addresses
        that it lies within."""

    def global_tile_accessed(
        self, machine: Machine, group: Group, positions: Array, access: int, address: Array, nbytes: int
    ) -> None:
        """Bulk copies of threads access runs of ``nbytes`` of global memory through the async proxy."""

    # ---- order -------------------------------------------------------------------------------

    def fence(self, machine: Machine, group: Group, instruction: Instruction, active: Any) -> None:
        """Threads have executed a fence: its kind, scope and proxies are in the instruction's modifiers."""

    def warp_synchronised(self, machine: Machine, group: Group, members: Any) -> None:
        """Lanes of warps have met in a collective: all, or those that the membermask ``members`` names."""

    def collective_reached(self, machine: Machine, group: Group, members: Members, active: Any) -> None:
        """Lanes have come to a collective of their warps, with the membermask ``members`` (None where it is for whole warps);
        told again to lanes that have waited and come again."""

    def collective_waits(self, machine: Machine, group: Group) -> None:
        """Lanes are about to wait at a collective for others of their warps or warpgroups."""

    def collective_passed(self, machine: Machine, group: Group) -> None:
        """Lanes go by a collective that their guard leaves out, while others of their warps wait at it."""

    def collective_incomplete(self, machine: Machine, group: Group, members: Members, active: Any) -> None:
        """Warps are about to execute a collective with some of their lanes: all have come that ``members`` names and that have
        not exited."""

    def warpgroup_incomplete(self, machine: Machine, group: Group, broken: Array) -> None:
        """The warpgroups of the ``broken`` threads lack some that have exited, or never were: they pass over the instruction."""

    def stalled(self, machine: Machine, first: Stall, message: str, values: dict[str, Any]) -> None:
        """No thread can make progress, and the launch ends: with a deadlock, unless an error is found now. ``first`` is what
        the others wait for in the end; ``message`` says who waits for what, ``values`` are kept with the finding."""

    def warp_split(self, machine: Machine, group: Group, other: Group | None) -> None:
        """Lanes arrive at an aligned barrier without the rest of their warps, as nothing else can go on; ``other`` waits, too."""

    def barrier_operands_differ(self, machine: Machine, group: Group, operands: list[Array]) -> None:
        """Threads come to a barrier of their CTAs with operands (its number, and how many threads it counts) that differ between
        them: they reach it one after the other."""

    def barrier_reached(self, machine: Machine, group: Group, number: int, count: int) -> None:
        """Threads have come to a barrier of their CTAs that counts so many threads (0: all)."""

    def barrier_arrived(self, machine: Machine, group: Group, number: int, partial: bool) -> None:
        """Threads arrive at a barrier of their CTAs; ``partial`` where not all threads need come."""

    def barrier_left(self, machine: Machine, group: Group | None, number: int, partial: bool) -> None:
        """Threads (None: all of the batch) have passed a barrier of their CTAs."""

    def barrier_completed(self, machine: Machine, number: int, columns: Array) -> None:
        """A barrier that not all threads need come to is complete in these CTAs."""

    def cluster_barrier_arrived(self, machine: Machine, group: Group) -> None:
        """Threads arrive at the barrier of their clusters; ``machine.batch.cluster_barrier`` is as they find it."""

    def cluster_barrier_left(self, machine: Machine, group: Group) -> None:
        """Threads have passed a barrier of their clusters."""

    # ---- mbarriers ---------------------------------------------------------------------------

    def mbarrier_initialised(
        self, machine: Machine, group: Group, columns: Array, place: Array, count: Array, active: Any
    ) -> None:
        """Threads are about to make mbarriers that expect ``count`` arrivals."""

    def mbarrier_invalidated(
        self, machine: Machine, group: Group, columns: Array, place: Array, words: Array, active: Any
    ) -> None:
        """Threads are about to end the use of mbarriers, in which they find ``words``."""

    def mbarrier_fenced(self, machine: Machine, group: Group) -> None:
        """Threads make the mbarriers that they initialised visible to the cluster and the async proxy."""

    def mbarrier_reached(self, machine: Machine, group: Group, columns: Array, place: Array, active: Any) -> None:
        """Threads use mbarriers through addresses of the cluster, or give them to copies of the async proxy."""

    def mbarrier_changed(self, machine: Machine, group: Group, before: Array, after: Array, active: Any) -> None:
        """Threads change the words of mbarriers, some of them where others do so at the same place."""

    def mbarrier_read(self, machine: Machine, group: Group, words: Array, active: Any) -> None:
        """Threads, or copies that they start, find these words in mbarriers whose phase they are to know."""

    def mbarrier_arrived(self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array) -> None:
        """Threads arrive at mbarriers (or expect bytes there)."""

    def mbarrier_observed(self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array) -> None:
        """Threads have found the phase of mbarriers over that they waited for."""

    # ---- asynchronous operations --------------------------------------------------------------

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Threads start asynchronous copies."""

    def async_started(self, machine: Machine, transfer: Transfer) -> None:
        """These copies are in flight; without late effects they have moved their bytes already."""

    def async_waited(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """The threads that started these copies have waited for them."""

    def async_delivered(
        self, machine: Machine, group: Group, active: Array | None, transfer: Transfer, which: Array
    ) -> None:
        """These copies have written their bytes, at a step of ``group``."""

    def async_signalled(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """These copies have counted at their mbarriers."""

    def async_visible(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """The effects of these copies are visible to whoever observed their completion."""

    def wgmma_fenced(self, machine: Machine, group: Group) -> None:
        """Warpgroups have ordered their register accesses with the wgmma that follow (wgmma.fence)."""

    def wgmma_issued(self, machine: Machine, group: Group, issue: Issue) -> None:
        """Warpgroups are about to start a wgmma; ``machine.batch.wgmma.issued`` is the number of that before."""

    def wgmma_committed(self, machine: Machine, group: Group) -> None:
        """Warpgroups have closed a group of wgmma."""

    def wgmma_registers_accessed(self, machine: Machine, group: Group, rows: Array, written: bool) -> None:
        """Another instruction is about to read or write registers that wgmma of the function use: which, as
        ``group.plan.wgmma_rows`` numbers them."""

    def wgmma_registers_renamed(self, machine: Machine, group: Group, sources: Array, targets: Array) -> None:
        """A move copies accumulators in flight, or their halves, to other registers of wgmma."""

    def wgmma_waited(self, machine: Machine, group: Group) -> None:
        """Warpgroups have waited for their wgmma."""

    def map_changed(self, machine: Machine, group: Group, positions: Array) -> None:
        """Threads release their changes of tensor maps (fence.proxy.tensormap, release)."""

    def map_acquired(self, machine: Machine, group: Group, addresses: Array, columns: Array) -> None:
        """Threads acquire the tensor maps at these addresses (fence.proxy.tensormap, acquire)."""

    def map_used(self, machine: Machine, group: Group, address: int, columns: Array, active: Any) -> None:
        """CTAs use the tensor map at an address, by copies that the ``active`` threads start."""


__all__ = ["ATOMIC", "EVENTS", "READ", "WRITE", "MemoryAccess", "Watcher", "Window"]

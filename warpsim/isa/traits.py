"""Traits: what others must know about an instruction, given where it is declared.

A pass, a scheduler or a check asks `Traits`, never the opcode. Most traits are given to `instruction`, as values or
functions of the op. The meaning of modifiers that is the same everywhere (``.sync``, ``.aligned``, scopes, memory
order, state spaces) is derived here.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from warpsim.numerics.arrays import Array
from warpsim.records import changed, frozen

SPACES = frozenset({"global", "shared", "local", "param", "const"})
SCOPES = frozenset({"cta", "cluster", "gpu", "sys"})


class Ending(enum.Enum):
    """How control leaves the block that an instruction ends."""

    BRANCH = "branch"
    INDEXED_BRANCH = "indexed branch"
    CALL = "call"
    RETURN = "return"
    EXIT = "exit"


class Stop(enum.Enum):
    """How a launch ends."""

    TRAP = "trap"
    BREAKPOINT = "breakpoint"


class Access(enum.Enum):
    """A memory access in which each lane has its own address."""

    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"


class Matrix(enum.Enum):
    """What an instruction does with the elements of a matrix that the lanes of a warp (or warpgroup) hold together."""

    MULTIPLY = "multiply"
    LOAD = "load"
    STORE = "store"
    TRANSPOSE = "transpose"


class Contraction(enum.Enum):
    """What the assembler contracts to fused multiply-adds, and looks through to find them."""

    PRODUCT = "a * b"
    SUM = "a + b"
    DIFFERENCE = "a - b"
    NEGATION = "-a"
    IDENTITY = "a"


class Mbarrier(enum.Flag):
    """What is done to an mbarrier object, or to a state of it."""

    INIT = enum.auto()
    INVAL = enum.auto()
    EXPECT = enum.auto()
    COMPLETE = enum.auto()
    ARRIVE = enum.auto()
    WAIT = enum.auto()
    READ = enum.auto()


class Family(enum.Enum):
    """Asynchronous operations that are committed and waited for by the same instructions."""

    CP_ASYNC = "cp.async"
    BULK = "cp.async.bulk"
    WGMMA = "wgmma"
    TCGEN05 = "tcgen05"
    CANCEL = "clusterlaunchcontrol"
    REMOTE = "st.async"
    """Stores and reductions in the cluster's shared memory, which complete at an mbarrier."""


class Stage(enum.Enum):
    """An instruction's stage in the life of asynchronous operations."""

    ISSUE = "issue"
    PREFETCH = "prefetch"
    FENCE = "fence"
    COMMIT = "commit"
    ARRIVE = "arrive"
    WAIT = "wait"
    WAIT_ALL = "wait for all"


@frozen
class Asynchronous:
    """A stage of asynchronous operations: whether they complete by groups, and whether a tensor map gives the place."""

    family: Family
    stage: Stage = Stage.ISSUE
    grouped: bool = False
    tensor: bool = False


class Allocation(enum.Enum):
    """What is done to the columns of tensor memory that a CTA has."""

    ALLOCATE = "alloc"
    FREE = "dealloc"


@frozen
class Metadata:
    """The operands of a sparse product that are its metadata and its selector. So many lanes of each quad hold metadata
    that counts; the selector says which."""

    words: str
    selector: str
    lanes: int


@frozen
class Barrier:
    """A barrier among the threads of a ``warp``, a ``cta`` or a ``cluster``; ``reduction`` is that of the predicates."""

    among: str
    arrives: bool = True
    waits: bool = True
    reduction: str | None = None


@frozen
class Fence:
    """A fence of the memory model: between proxies if one is named, for initialised mbarriers only, or for all
    accesses."""

    proxy: str | None = None
    mbarrier_init: bool = False


COMMUTES = frozenset({"add", "and", "fma", "mad", "max", "min", "mul", "or", "xor"})
"""Opcodes whose first two operands may change places, but for those of f64, whose NaNs say where they come from."""


@frozen
class Order:
    """An access's order in the memory consistency model: weak, or ``strong`` within ``scope`` (None: the GPU)."""

    strong: bool = False
    release: bool = False
    acquire: bool = False
    scope: str | None = None


@frozen
class Traits:
    """Properties of an instruction; the defaults are those of plain arithmetic."""

    ending: Ending | None = None
    """How it ends its block, if it does."""
    stop: Stop | None = None
    """How it ends the launch, if it does."""
    sleeps: bool = False
    """It only lets time pass."""
    register_count: bool = False
    """It changes the register count of its warpgroup's threads."""
    allocation: Allocation | None = None
    """How it changes what is allocated of tensor memory."""
    access: Access | None = None
    """How each lane accesses memory, on its own GPU; matrices and asynchronous copies have their own traits."""
    constant: bool = False
    """It loads what nothing may write while the kernel runs."""
    polls: bool = False
    """It reads what other threads may be about to write, so a loop around it may be waiting for them."""
    counts: bool = False
    """It takes a number from a counter in memory."""
    order: Order = Order()
    """Its order in the memory consistency model."""
    spaces: tuple[str, ...] = ()
    """The state spaces that it names, in code order."""
    scope: str | None = None
    """The scope that it names: ``cta``, ``cluster``, ``gpu`` or ``sys``."""
    fence: Fence | None = None
    """What it fences, if it is a fence."""
    barrier: Barrier | None = None
    """The barrier that it arrives or waits at."""
    mbarrier: Mbarrier | None = None
    """What it does to an mbarrier directly; asynchronous operations also complete at mbarriers."""
    asynchronous: Asynchronous | None = None
    """Its stage among asynchronous operations."""
    moves_stack: bool = False
    """It moves the top of the thread's stack."""
    tensor_map: bool = False
    """It changes a tensor map."""
    synchronises: bool = False
    """Lanes wait for each other before it: those in its membermask, or all of the warp."""
    aligned: bool = False
    """All lanes of the warp must execute it together."""
    matrix: Matrix | None = None
    """What it does with a matrix; it needs lanes that have exited."""
    opaque_fragments: bool = False
    """Its fragments have an unspecified layout, which only instructions of its own family understand."""
    copies: bool = False
    """The destination holds the source's bits, so a compiler may rename one to the other."""
    generic_address: bool = False
    """It converts an address between a state space and the generic one."""
    contraction: Contraction | None = None
    """What the assembler may contract it with."""
    metadata: Metadata | None = None
    """Where a sparse product has its metadata."""
    factors: Callable[..., tuple[Array, Array]] | None = None
    """The factors of a product, if they are not the operands: a function of its sources."""
    sorts: bool = False
    """The assembler sorts its first two sources."""
    exchanged: Callable[..., Array] | None = None
    """Its meaning with these exchanged, if that is another."""
    changes_sign: bool = False
    """It changes nothing but the sign, which the assembler does where the value is read."""
    uniform: str | None = None
    """The result is the same for all lanes of the ``warp`` (threads of the ``cta``) that execute it together."""
    special_registers: bool = False
    """A source may be a special register."""
    symbols: str | None = None
    """The state space of variables whose addresses source ``a`` may be, "" for any; None: of none."""
    register_plus_immediate: bool = True
    """Whether an operand may be a sum with a constant (``%r+4``)."""
    wide_predicates: bool = True
    """Any bit of an immediate counts if a predicate is required; else only the low 32."""
    shuffles: bool = False
    """The first result is another lane's first source."""
    compares: bool = False
    """The result is whether the first source stands to the second as the modifiers say, in the order of their type."""
    elects: bool = False
    """The second result is true in one lane of each warp."""

    @property
    def multiplies(self) -> bool:
        """Whether a matrix unit reads its sources, or they are parts of a matrix that only such a unit understands."""
        return self.matrix is Matrix.MULTIPLY or self.opaque_fragments

    @property
    def stores(self) -> bool:
        """Whether it stores what its sources hold."""
        return not self.opaque_fragments and (self.access is Access.STORE or self.matrix is Matrix.STORE)

    @property
    def leaves(self) -> bool:
        """Whether the thread returns from its function, or exits."""
        return self.ending in (Ending.RETURN, Ending.EXIT)

    @property
    def aligned_barrier(self) -> bool:
        """Whether all lanes of a warp must execute a CTA or cluster barrier together: ``bar`` always, ``barrier`` with
        ``.aligned``."""
        return self.barrier is not None and self.barrier.among != "warp" and self.aligned

    def is_async(self, family: Family, stage: Stage = Stage.ISSUE) -> bool:
        """Whether it is this stage of this family of asynchronous operations."""
        return self.asynchronous is not None and self.asynchronous.family is family and self.asynchronous.stage is stage

    def does(self, what: Mbarrier) -> bool:
        """Whether it does (any of) this to an mbarrier."""
        return self.mbarrier is not None and bool(self.mbarrier & what)


PLAIN = Traits()
"""Per-lane arithmetic."""


def completed(declared: Traits, modifiers: tuple[str, ...]) -> Traits:
    """The declared traits, completed by those that follow from the modifiers."""
    words = frozenset(modifiers)
    scope = next((word for word in modifiers if word in SCOPES), None)
    spaces = (word.split("::")[0] for word in modifiers)
    found = {
        "synchronises": not words.isdisjoint(("sync", "aligned")),
        "aligned": declared.aligned or declared.matrix is not None or "aligned" in words,
        "scope": scope,
        "constant": declared.constant or "nc" in words,
        "spaces": tuple([space for space in spaces if space in SPACES]),
        "order": declared.order if declared.order.strong else _order(declared, words, scope),
    }
    new = {name: value for name, value in found.items() if value is not getattr(declared, name)}
    return changed(declared, **new) if new else declared


def _order(declared: Traits, words: frozenset[str], scope: str | None) -> Order:
    if not words.isdisjoint(("mbarrier",)):
        return declared.order
    release, acquire = not words.isdisjoint(("release", "acq_rel")), not words.isdisjoint(("acquire", "acq_rel"))
    relaxed = not words.isdisjoint(("relaxed", "volatile"))
    if declared.access is Access.ATOMIC or release or acquire or relaxed:
        return Order(strong=True, release=release, acquire=acquire, scope=scope)
    return PLAIN.order

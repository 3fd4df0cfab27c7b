"""What others must know of an instruction, said where it is declared.

A pass, a scheduler or a check asks `Traits`, never the opcode. Most are given to `instruction`, as they are or as a
function of the op; what modifiers mean wherever they stand (``.sync``, ``.aligned``, scopes, memory order, state spaces)
is read from them here.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import attrs

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
    """What ends the launch."""

    TRAP = "trap"
    BREAKPOINT = "breakpoint"


class Access(enum.Enum):
    """An access of each lane at an address of its own."""

    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"


class Matrix(enum.Enum):
    """What an instruction does with the elements of a matrix that the lanes of a warp (a warpgroup) hold together."""

    MULTIPLY = "multiply"
    LOAD = "load"
    STORE = "store"
    TRANSPOSE = "transpose"


class Undefined(enum.Enum):
    """What becomes of undefined bits of the sources."""

    SPREADS = "spreads"
    """One undefined bit makes the whole result undefined."""
    MOVES = "moves"
    """The bits of the sources in ``Traits.moved`` are moved; the other sources say where to."""
    CONVERTS = "converts"
    """``MOVES`` between integers, else ``SPREADS``."""
    BITWISE = "bitwise"
    """A bit of the result depends on one bit of each source."""
    MULTIPLIED = "multiplied"
    """A matrix unit reads them: an error where it does."""
    STORED = "stored"
    """They go to memory."""
    COMBINED = "combined"
    """They are combined with memory."""


class Modular(enum.Enum):
    """What the low bits of the result are of the low bits of whole numbers."""

    SUM = "a + b"
    DIFFERENCE = "a - b"
    PRODUCT = "a * b"
    PRODUCT_SUM = "a * b + c"
    AND = "a & b"
    OR = "a | b"
    XOR = "a ^ b"
    SHIFT_LEFT = "a << b"
    SHIFT_RIGHT = "a >> b"
    SELECTION = "c ? a : b"
    CONVERSION = "a, of another width"
    COPY = "a"


class Contraction(enum.Enum):
    """What the assembler makes fused multiply-adds of, and looks through to find them."""

    PRODUCT = "a * b"
    SUM = "a + b"
    DIFFERENCE = "a - b"
    NEGATION = "-a"


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
    REMOTE = "st.async"
    """Stores and reductions in the shared memory of the cluster, which complete at an mbarrier."""


class Stage(enum.Enum):
    """Where in the life of asynchronous operations an instruction stands."""

    ISSUE = "issue"
    PREFETCH = "prefetch"
    FENCE = "fence"
    COMMIT = "commit"
    ARRIVE = "arrive"
    WAIT = "wait"
    WAIT_ALL = "wait for all"


@attrs.frozen
class Asynchronous:
    """A step in the life of asynchronous operations: whether they complete by groups, and whether a tensor map says where."""

    family: Family
    stage: Stage = Stage.ISSUE
    grouped: bool = False
    tensor: bool = False


@attrs.frozen
class Barrier:
    """A barrier among the threads of a ``warp``, a ``cta`` or a ``cluster``; ``reduction`` is that of the predicates."""

    among: str
    arrives: bool = True
    waits: bool = True
    reduction: str | None = None


@attrs.frozen
class Fence:
    """A fence of the memory model: between proxies where one is named, of initialised mbarriers alone, or of all accesses."""

    proxy: str | None = None
    mbarrier_init: bool = False


@attrs.frozen
class Order:
    """What an access is to the memory consistency model: weak, or ``strong`` within ``scope`` (None: the GPU)."""

    strong: bool = False
    release: bool = False
    acquire: bool = False
    scope: str | None = None


@attrs.frozen
class Traits:
    """What holds of an instruction; each default is what holds of plain arithmetic."""

    ending: Ending | None = None
    """How it ends its block, if it does."""
    stop: Stop | None = None
    """How it ends the launch, if it does."""
    sleeps: bool = False
    """It only lets time pass."""
    register_count: bool = False
    """It changes how many registers the threads of its warpgroup have."""
    access: Access | None = None
    """Its access of memory by each lane, of the own GPU alone; matrices and asynchronous copies have traits of their own."""
    polls: bool = False
    """It reads what other threads may be about to write: a loop around it may wait for them."""
    counts: bool = False
    """It takes a number from a count in memory."""
    order: Order = Order()
    """Its place in the memory consistency model."""
    spaces: tuple[str, ...] = ()
    """The state spaces that it names, in the order of the text."""
    scope: str | None = None
    """The threads that it names: ``cta``, ``cluster``, ``gpu`` or ``sys``."""
    fence: Fence | None = None
    """What it fences, if it is a fence."""
    barrier: Barrier | None = None
    """The barrier that it arrives or waits at."""
    mbarrier: Mbarrier | None = None
    """What it does to an mbarrier and nothing else; asynchronous operations complete at mbarriers beside that."""
    asynchronous: Asynchronous | None = None
    """Its place among asynchronous operations."""
    moves_stack: bool = False
    """It moves the end of the thread's stack."""
    tensor_map: bool = False
    """It changes a tensor map."""
    synchronises: bool = False
    """Lanes wait for each other before it: those of its membermask, or all of the warp."""
    aligned: bool = False
    """All lanes of the warp execute it together."""
    matrix: Matrix | None = None
    """What it does with a matrix; a lane that has left the kernel is missed."""
    opaque_fragments: bool = False
    """Its fragments have a layout that is unspecified: only instructions of its own family understand them."""
    undefined: Undefined = Undefined.SPREADS
    """What becomes of undefined bits of its sources."""
    moved: tuple[int, ...] = ()
    """The sources whose bits are moved, by their places."""
    absorbs: bool = False
    """The result may be defined though a source is not: x & 0, 0 * x, the element that is not selected."""
    copies: bool = False
    """The destination holds the bits of the source: a compiler may rename one to the other."""
    generic_address: bool = False
    """It converts an address between a state space and the generic one."""
    modular: Modular | None = None
    """What is known of the low bits of the result where low bits of the sources are known."""
    contraction: Contraction | None = None
    """What the assembler may contract it with."""
    factors: Callable[..., tuple[Any, Any]] | None = None
    """What a product multiplies, where that is not what stands in the text: a function of its sources."""
    uniform: str | None = None
    """The result is one for all lanes of the ``warp`` (threads of the ``cta``) that execute it together."""
    special_registers: bool = False
    """A source may be a special register."""
    symbols: str | None = None
    """The state space of the variables whose addresses source ``a`` may be, "" for any; None: of none."""
    wide_predicates: bool = True
    """Any bit of an immediate counts where a predicate is asked for; else only the low 32."""
    shuffles: bool = False
    """The first result is the first source of another lane."""
    elects: bool = False
    """The second result holds in one lane of each warp."""

    @property
    def leaves(self) -> bool:
        """True where the thread returns from its function, or exits."""
        return self.ending in (Ending.RETURN, Ending.EXIT)

    @property
    def aligned_barrier(self) -> bool:
        """True where all lanes of a warp execute a barrier of CTAs or clusters together: ``bar`` always, ``barrier`` with
        ``.aligned``."""
        return self.barrier is not None and self.barrier.among != "warp" and self.aligned

    def is_async(self, family: Family, stage: Stage = Stage.ISSUE) -> bool:
        """True for this stage of this family of asynchronous operations."""
        return self.asynchronous is not None and self.asynchronous.family is family and self.asynchronous.stage is stage

    def does(self, what: Mbarrier) -> bool:
        """True where it does (any of) this to an mbarrier."""
        return self.mbarrier is not None and bool(self.mbarrier & what)


PLAIN = Traits()
"""Arithmetic of each lane."""


def completed(declared: Traits, modifiers: tuple[str, ...]) -> Traits:
    """What a declaration says, with what the modifiers say of themselves."""
    words = frozenset(modifiers)
    scope = next((word for word in modifiers if word in SCOPES), None)
    spaces = (word.split("::")[0] for word in modifiers)
    return attrs.evolve(
        declared,
        synchronises=not words.isdisjoint(("sync", "aligned")),
        aligned=declared.aligned or declared.matrix is not None or "aligned" in words,
        scope=scope,
        spaces=tuple(space for space in spaces if space in SPACES),
        order=declared.order if declared.mbarrier is not None else _order(declared, words, scope),
    )


def _order(declared: Traits, words: frozenset[str], scope: str | None) -> Order:
    if not words.isdisjoint(("mbarrier",)):
        return declared.order
    release, acquire = not words.isdisjoint(("release", "acq_rel")), not words.isdisjoint(("acquire", "acq_rel"))
    relaxed = not words.isdisjoint(("relaxed", "volatile"))
    if declared.access is Access.ATOMIC or release or acquire or relaxed:
        return Order(strong=True, release=release, acquire=acquire, scope=scope)
    return Order()

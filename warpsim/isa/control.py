"""Control flow, which the machine executes at the ends of blocks, the stack, and miscellaneous instructions (PTX ISA)."""

from __future__ import annotations

import functools

from warpsim.isa.ports import Lanes, StackPort, constant_of
from warpsim.isa.spec import LowBits, Op, Scope, instruction
from warpsim.isa.traits import Ending, Stop, Traits

_misc = functools.partial(instruction, chapter="miscellaneous-instructions")
_stack = functools.partial(instruction, chapter="stack-manipulation-instructions")
_control = functools.partial(instruction, chapter="control-flow-instructions")


@_control("bra{.uni} target;", scope=Scope.CONTROL, traits=Traits(ending=Ending.BRANCH))
def bra(op: Op, target: object) -> None:
    """Continue at the label."""


@_control(
    "brx.idx{.uni} index, tlist;",
    anchor="brx-idx",
    scope=Scope.CONTROL,
    types={"index": ".u32"},
    needs=(30, (6, 0)),
    traits=Traits(ending=Ending.INDEXED_BRANCH),
)
def brx_idx(op: Op, index: Lanes, tlist: object) -> None:
    """Continue at the list's label with this index."""


@_control(
    "call{.uni} ret_list, fname, param_list, flist;",
    destinations=("ret_list",),
    scope=Scope.CONTROL,
    traits=Traits(ending=Ending.CALL),
)
def call(op: Op, fname: object, param_list: object, flist: object) -> None:
    """Call a function, by name or by address."""


@_control("ret{.uni};", scope=Scope.CONTROL, traits=Traits(ending=Ending.RETURN))
def ret(op: Op) -> None:
    """Return to the caller; in a kernel, exit."""


@_control("exit;", scope=Scope.CONTROL, traits=Traits(ending=Ending.EXIT))
def exit_(op: Op) -> None:
    """The thread ends."""


@_misc("trap;", scope=Scope.SYNC, traits=Traits(stop=Stop.TRAP))
def trap(op: Op) -> None:
    """Abort the launch."""


@_misc("brkpt;", scope=Scope.SYNC, traits=Traits(stop=Stop.BREAKPOINT))
def brkpt(op: Op) -> None:
    """A breakpoint; a GPU without a debugger traps."""


@_misc("nanosleep.u32 t;", scope=Scope.SYNC, types={"t": ".u32"}, needs=(70, (6, 2)), traits=Traits(sleeps=True))
def nanosleep(op: Op, t: Lanes) -> None:
    """Let other threads run."""


@_misc(
    "setmaxnreg.action.sync.aligned.u32 n; .action = { .inc, .dec };",
    scope=Scope.SYNC,
    types={"n": ".u32"},
    constants={"n": range(24, 257, 8)},
    needs=(("90a", "100f", "110f", "120f"), (8, 0)),
    traits=Traits(register_count=True),
)
def setmaxnreg(op: Op, n: Lanes) -> None:
    """Return registers to the CTA, or wait until it has enough."""


@_misc("pmevent{.mask} a;", types={"a": ".u32"}, constants={"a": lambda op: (0, 0xFFFF) if op.mask else (0, 15)})
def pmevent(op: Op, a: Lanes) -> None:
    """Performance monitor events have no effect on results."""


@_stack(
    "alloca.type ptr, size{, immAlign}; .type = { .u32, .u64 };",
    types={"immAlign": ".u32"},
    constants={"immAlign": LowBits({1 << k for k in range(24)})},
    needs=(52, (7, 3)),
    traits=Traits(moves_stack=True),
)
def alloca(op: Op, size: Lanes, immAlign: Lanes | None = None, *, stack: StackPort) -> Lanes:
    """Allocate local memory until the function returns; gives its address."""
    align = 8 if immAlign is None else constant_of(immAlign)
    return stack.allocate(size, align).astype(op.type.dtype)


@_stack("stacksave.type d; .type = { .u32, .u64 };", needs=(52, (7, 3)))
def stacksave(op: Op, *, stack: StackPort) -> Lanes:
    """The top of the stack."""
    return stack.top().astype(op.type.dtype)


@_stack(
    "stackrestore.type a; .type = { .u32, .u64 };",
    registers=("a",),
    needs=(52, (7, 3)),
    traits=Traits(moves_stack=True),
)
def stackrestore(op: Op, a: Lanes, *, stack: StackPort) -> None:
    """Free everything allocated since ``stacksave`` returned this value."""
    stack.restore(a)

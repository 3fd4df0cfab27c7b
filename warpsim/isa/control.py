"""Control flow (PTX ISA: Control Flow Instructions). The machine executes these at the ends of blocks."""

from __future__ import annotations

from typing import Any

from warpsim.isa.registry import instruction
from warpsim.isa.spec import Op, Scope
from warpsim.isa.traits import Ending, Stop, Traits


@instruction(
    "bra{.uni} target;",
    anchor="control-flow-instructions-bra",
    scope=Scope.CONTROL,
    traits=Traits(ending=Ending.BRANCH),
)
def bra(op: Op, target: Any) -> None:
    """Continue at the label."""


@instruction(
    "brx.idx{.uni} index, tlist;",
    anchor="control-flow-instructions-brx-idx",
    scope=Scope.CONTROL,
    types={"index": ".u32"},
    version=(6, 0),
    target=30,
    traits=Traits(ending=Ending.INDEXED_BRANCH),
)
def brx_idx(op: Op, index: Any, tlist: Any) -> None:
    """Continue at the list's label with this index."""


@instruction(
    "call{.uni} ret_list, fname, param_list, flist;",
    anchor="control-flow-instructions-call",
    destinations=("ret_list",),
    scope=Scope.CONTROL,
    traits=Traits(ending=Ending.CALL),
)
def call(op: Op, fname: Any, param_list: Any, flist: Any) -> None:
    """Call a function, by name or by address."""


@instruction(
    "ret{.uni};", anchor="control-flow-instructions-ret", scope=Scope.CONTROL, traits=Traits(ending=Ending.RETURN)
)
def ret(op: Op) -> None:
    """Return to the caller; in a kernel, exit."""


@instruction("exit;", anchor="control-flow-instructions-exit", scope=Scope.CONTROL, traits=Traits(ending=Ending.EXIT))
def exit_(op: Op) -> None:
    """The thread ends."""


@instruction("trap;", anchor="miscellaneous-instructions-trap", scope=Scope.SYNC, traits=Traits(stop=Stop.TRAP))
def trap(op: Op) -> None:
    """Abort the launch."""


@instruction("brkpt;", anchor="miscellaneous-instructions-brkpt", scope=Scope.SYNC, traits=Traits(stop=Stop.BREAKPOINT))
def brkpt(op: Op) -> None:
    """A breakpoint; a GPU without a debugger traps."""


@instruction(
    "nanosleep.u32 t;",
    anchor="miscellaneous-instructions-nanosleep",
    scope=Scope.SYNC,
    types={"t": ".u32"},
    version=(6, 2),
    target=70,
    traits=Traits(sleeps=True),
)
def nanosleep(op: Op, t: Any) -> None:
    """Let other threads run."""


@instruction(
    "pmevent{.mask} a;",
    anchor="miscellaneous-instructions-pmevent",
    types={"a": ".u32"},
    constants={"a": lambda op: (0, 0xFFFF) if op.mask else (0, 15)},
)
def pmevent(op: Op, a: Any) -> None:
    """Performance monitor events have no effect on results."""

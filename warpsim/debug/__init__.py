"""Step through a launch, forward and backward: a `Session` for programs, notebooks, prompts and editors. Does no I/O.

::

    session      the commands as methods
    position     where the launch stands, the thread in focus, what stops the launch; what the commands work on
    timeline     runs the launch, keeps snapshots, restores any earlier position
    motion       steps, runs and goes back, to where stops (with breakpoints, watching, listening) says
    expressions, values, evaluation, memory, writing      values by expression
    symbols, scopes, debug_info, declarations      what names of C++ mean, from debug information, accesses and CUDA files
    threads, matrices, waiting, origins threads and registers; operands as matrices; barriers and work in flight; who wrote a value
"""

from warpsim.debug.breakpoints import Breakpoint, Catchpoint, Watchpoint
from warpsim.debug.errors import DebugError
from warpsim.debug.matrices import Matrix
from warpsim.debug.origins import Origin
from warpsim.debug.position import Call, Stop, WarpState
from warpsim.debug.session import Session
from warpsim.debug.threads import Focus
from warpsim.debug.waiting import BarrierState, InFlight, MbarrierState

__all__ = [
    "BarrierState",
    "Breakpoint",
    "Call",
    "Catchpoint",
    "DebugError",
    "Focus",
    "InFlight",
    "Matrix",
    "MbarrierState",
    "Origin",
    "Session",
    "Stop",
    "WarpState",
    "Watchpoint",
]

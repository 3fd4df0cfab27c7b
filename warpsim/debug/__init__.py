"""Stepping through a launch, forward and back: a `Session` for programs, notebooks, prompts and editors. No input or output here.

::

    session      what a user asks for; on a standpoint: where the launch stands, who is in focus; views: what there is to see
    timeline     running, copies of the state, any earlier position again; motion, stops: how far it runs
    breakpoints, watching, listening    places of the text, values that change, events
    expressions, values, evaluation, memory, writing      values by expression
    places, matrices, waiting, origins  threads and registers; operands as matrices; barriers and what is in flight; who wrote it
"""

from warpsim.debug.breakpoints import Breakpoint, Catchpoint, Watchpoint
from warpsim.debug.matrix import Matrix
from warpsim.debug.origins import Origin
from warpsim.debug.places import DebugError, Focus
from warpsim.debug.records import Call, Stop, WarpState
from warpsim.debug.session import Session
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

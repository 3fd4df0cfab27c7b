"""Stepping through a launch, forward and back: a `Session` for programs, notebooks, prompts and editors. No input or output here.

::

    session      what a user asks for
    timeline     running, copies of the state, any earlier position again
    breakpoints  places of the text, and values to watch
    places       where threads stand, what their registers hold
    expressions, evaluation, memory     values by expression
"""

from warpsim.debug.breakpoints import Breakpoint, Watchpoint
from warpsim.debug.places import DebugError, Focus
from warpsim.debug.records import Call, Stop, WarpState
from warpsim.debug.session import Session

__all__ = ["Breakpoint", "Call", "DebugError", "Focus", "Session", "Stop", "WarpState", "Watchpoint"]

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
from warpsim.debug.session import Session, Stop

__all__ = ["Breakpoint", "DebugError", "Focus", "Session", "Stop", "Watchpoint"]

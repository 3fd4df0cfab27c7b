"""Chooses the engine of a launch: the interpreter, or compiled code beside it."""

from __future__ import annotations

import os

from warpsim.errors import LaunchError
from warpsim.host.options import choice

ENGINES = ("auto", "interpreter", "compiled")


def chosen_engine(given: str | None) -> str:
    """The engine named by the launch or the environment.

    Raises:
        LaunchError: compiled code was requested and llvmlite is not installed.
    """
    word = os.environ.get("WARPSIM_ENGINE", "auto") if given is None else given
    chosen = choice("engine", word, ENGINES)
    if chosen == "compiled":
        from warpsim.native.compiling.cache import available

        if not available():
            raise LaunchError('engine="compiled" needs llvmlite: pip install warpsim[jit]')
    return chosen

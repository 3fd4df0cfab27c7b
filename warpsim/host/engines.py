"""Chooses the engine of a launch, and who runs its parts: ``engine=``, ``workers=`` and ``executor=``."""

from __future__ import annotations

import os
from concurrent.futures import Executor
from typing import Any

from warpsim.errors import LaunchError, shown
from warpsim.host.device import Device
from warpsim.host.options import choice, integer

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


VARIABLE = "WARPSIM_WORKERS"


def workers_of(device: Device, workers: Any, executor: Any, engine: str) -> tuple[Executor | None, int]:
    """The executor of a launch (None: run it in one piece), and the number of workers to divide it among.

    Args:
        workers: number of local processes, or of threads for a compiled launch; None for the environment variable
            ``WARPSIM_WORKERS``, or 1.
        executor: a `concurrent.futures.Executor`, or an object with ``get_executor()``, such as a Dask client.

    Raises:
        LaunchError: ``workers`` or ``executor`` is neither.
    """
    if workers is None and os.environ.get(VARIABLE):
        try:
            workers = int(os.environ[VARIABLE])
        except ValueError:
            raise LaunchError(f"{VARIABLE} must be a number of processes, not {shown(os.environ[VARIABLE])}") from None
    count = None if workers is None else integer("workers", workers, 1, 1024)
    if executor is not None:
        get = getattr(executor, "get_executor", None)
        executor = get() if callable(get) else executor
        if not callable(getattr(executor, "submit", None)):
            raise LaunchError(f"executor must be a concurrent.futures.Executor, not {shown(executor)}")
        return executor, count or getattr(executor, "_max_workers", None) or os.cpu_count() or 1
    if count is None or count == 1:
        return None, 1
    return device.threads(count) if engine == "compiled" else device.processes(count), count

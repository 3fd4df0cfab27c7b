"""The clocks of a launch: simulated time, which advances when read."""

from __future__ import annotations

from warpsim.machine.state.launch import LaunchState

READING = 32
"""Cycles that reading a clock takes."""


def clock(launch: LaunchState, name: str) -> int:
    """A clock's value; clocks advance with every reading."""
    launch.skipped += READING
    if name.startswith("globaltimer"):
        time = launch.memory.nanoseconds + launch.now
        return time >> 32 if name.endswith("_hi") else time
    return launch.now >> 32 if name == "clock_hi" else launch.now

"""Triton's driver for the simulated GPU, active if the environment selects it."""

from typing import Any

from triton.backends.driver import DriverBase

from warpsim.compat import triton


class SimulatedDriver(triton.Driver, DriverBase):  # type: ignore[misc]
    """`warpsim.compat.triton.Driver` as a class that Triton recognises."""

    def __init__(self, *args: Any, **options: Any) -> None:
        triton.Driver.__init__(self, *args, **options)

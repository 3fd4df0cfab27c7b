"""Writing what the simulator gives into a case, as its new expectation."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from warpsim.errors import LaunchError
from warpsim.host.arrays import Array
from warpsim.host.cases import run_case


def record(folder: Path) -> None:
    """Run a case and store its outputs in data.npz.

    Raises:
        LaunchError: where the launch failed.
    """
    outputs: dict[str, Array] = {}
    result = run_case(folder, keep=outputs)
    if result.error:
        raise LaunchError(result.error)
    with np.load(folder / "data.npz") as stored:
        data = {name: stored[name] for name in stored.files}
    for name, values in outputs.items():
        data[name] = (
            values.reshape(-1).view(np.uint8)[: data[name].nbytes].view(data[name].dtype).reshape(data[name].shape)
            if name in data
            else values
        )
    np.savez_compressed(folder / "data.npz", **data)

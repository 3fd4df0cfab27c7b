"""Writing what the simulator gives into a case, as its new expectation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from warpsim.errors import LaunchError
from warpsim.host.arrays import Array
from warpsim.host.cases import run_case
from warpsim.host.files import Target, read_archive


def record(folder: Path, **options: Any) -> None:
    """Run a case and store its outputs in data.npz; ``options`` are those of `run_case`.

    Raises:
        LaunchError: where the launch failed, or the file cannot be written; it is then as before.
    """
    outputs: dict[str, Array] = {}
    result = run_case(folder, keep=outputs, **options)
    if result.error:
        raise LaunchError(result.error)
    data: dict[str, Any] = read_archive(folder / "data.npz")
    for name, values in outputs.items():
        data[name] = (
            values.reshape(-1).view(np.uint8)[: data[name].nbytes].view(data[name].dtype).reshape(data[name].shape)
            if name in data
            else values
        )
    Target(folder / "data.npz").write(lambda stream: np.savez_compressed(stream, **data))

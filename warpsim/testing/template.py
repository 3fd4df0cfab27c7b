"""A starter repository with kernel tests: ``warpsim init-tests DIR``."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from warpsim.errors import LaunchError

FILES = {
    "README.md": "README.md",
    "pyproject.toml": "pyproject.toml",
    "kernels/axpy.cu": "kernels/axpy.cu",
    "kernels/axpy.ptx": "kernels/axpy.ptx",
    "kernels/build.py": "kernels/build.py",
    "tests/test_axpy.py": "tests/test_axpy.py",
    "tests/snapshot.txt": "tests/__snapshots__/test_axpy/test_bits.y.txt",
    "workflow/tests.yml": ".github/workflows/tests.yml",
}
"""Files of ``starter/``, and where they go."""


def write(directory: str | os.PathLike[str]) -> list[str]:
    """Write the files of the template; returns their names.

    Raises:
        LaunchError: one of them exists already; nothing is written.
    """
    folder = Path(directory)
    there = [name for name in FILES.values() if (folder / name).exists()]
    if there:
        raise LaunchError(f"{folder} has {', '.join(there)} already")
    source = resources.files("warpsim.testing").joinpath("starter")
    for name, place in FILES.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.joinpath(*name.split("/")).read_text(encoding="utf-8")
        target.write_text(text, encoding="utf-8", newline="\n")
    return sorted(FILES.values())

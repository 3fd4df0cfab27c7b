"""Finds NVIDIA's compiler libraries, which need no GPU."""

from __future__ import annotations

import ctypes
import glob
import os
import sys
from typing import Any

LOADED: dict[str, Any] = {}
"""The libraries by name."""


def library(name: str) -> Any:
    """NVIDIA's ``lib<name>``, or None: ``WARPSIM_<NAME>``, in a package, where the program looks for libraries, or in a
    toolkit."""
    if name in LOADED:
        return LOADED[name]
    variable, file = f"WARPSIM_{name.upper()}", f"lib{name}.so.1[0-9]"
    found = [os.environ.get(variable, "")]
    for folder in sys.path:
        found += glob.glob(os.path.join(glob.escape(folder), "nvidia", "*", "lib", file))
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        if not os.path.exists(os.path.join(folder, "libwarpsim-linked.so")):
            found += glob.glob(os.path.join(glob.escape(folder), file))
    for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        found += sorted(glob.glob(os.path.join(home or "", "lib*", file)), reverse=True)
    for path in filter(os.path.exists, found):
        LOADED[name] = ctypes.CDLL(path)
        return LOADED[name]
    print(f"warpsim: no lib{name} found; {variable} names the file", file=sys.stderr)
    return None

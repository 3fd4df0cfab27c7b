"""Compile the kernels to PTX: python kernels/build.py."""

import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent

for source in sorted(FOLDER.glob("*.cu")):
    target = source.with_suffix(".ptx").name
    subprocess.run(["nvcc", "-ptx", "-lineinfo", "-arch=sm_80", source.name, "-o", target], cwd=FOLDER, check=True)
    print(target)

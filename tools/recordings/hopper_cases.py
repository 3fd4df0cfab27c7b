"""Makes the case directories of the Hopper kernels in hopper/, ready to be recorded on a GPU by record.py.

hopper_cases.py FOLDER [NAME...]        needs nvcc, NumPy and ml_dtypes
"""

from pathlib import Path

import hopper_boxes  # noqa: F401 - its cases
import hopper_library  # noqa: F401
import hopper_products  # noqa: F401
from case_files import make, nvcc, one_kernel, write_case
from hopper_parts import CASES

HERE = Path(__file__).parent


def write(folder, name):
    """One case directory."""
    parts = CASES[name]()
    if "ptx" in parts:
        text, about = parts["ptx"], {"origin": "written by hand", "source": parts.get("by", "boxes_ptx.py")}
    else:
        source_file = f"hopper/{parts['source']}.cu"
        text = one_kernel(nvcc(HERE / source_file, "-arch=sm_90a"), parts["entry"])
        about = {"origin": "nvcc 13.0", "source": source_file}
    write_case(Path(folder) / name, text, parts, {**about, "target": "sm_90a"})


if __name__ == "__main__":
    make(write, CASES, __doc__)

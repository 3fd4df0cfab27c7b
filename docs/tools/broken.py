"""Bundled programs with a line taken out: which, and the case that results.

python -m docs.tools.broken FOLDER        writes the broken cases, for record.py of tools/recordings on a GPU
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Break(NamedTuple):
    """A line of the source, the PTX that goes with it, and the checks that find it."""

    line: int | None
    ptx: str
    checks: str = "default"
    places: slice = slice(None)  # which of the instructions, where their line cannot say it
    block: tuple[int, int, int] | None = None


BREAKS = {
    "hello": Break(None, "", block=(64, 1, 1)),
    "saxpy": Break(4, "bra"),
    "histogram": Break(5, "bar.sync", "default+race"),
    "reduce_shfl": Break(28, "bar.sync", "default+race"),
    "softmax_rows": Break(19, "bar.sync", "default+race"),
    "transpose": Break(9, "bar.sync", "default+race"),
    "copy_pipeline": Break(22, "cp.async.wait_group"),
    "scan_lookback": Break(37, "bar.sync", "default+race"),
    "cluster_reduce": Break(None, "barrier.cluster", "default+race", slice(2, 4)),
    "mma_f16_gemm": Break(57, "bar.sync", "default+race"),
    "gemm_sparse": Break(14, "ld.global"),
    "flash_attention": Break(59, "bar.sync", "default+race"),
    "gemm_tma": Break(33, "wgmma.wait_group"),
    "gemm_specialised": Break(63, "fence.proxy.async"),
    "stream_k": Break(33, "cp.async.bulk.wait_group.read"),
    "gemm_fp8_scaled": Break(29, "wgmma.fence"),
    "gemm_multicast": Break(34, "mbarrier.arrive.release.cluster"),
    "cancelled_launches": Break(43, "bar.sync", "default+race"),
    "gemm_tcgen05": Break(39, "tcgen05.commit"),
    "gemm_tcgen05_pair": Break(35, "mbarrier.arrive.release.cluster"),
    "gemm_mxfp8": Break(39, "bar.sync"),
    "attention_overlapped": Break(83, "wgmma.wait_group"),
    "softmax_triton": Break(None, "bar.sync", "default+race", slice(1, 2)),
    "matmul_triton": Break(None, "fence.proxy.async.shared::cta"),
}


def without(text: str, broken: Break) -> str:
    """The module with the instructions of a source line emptied, and the line numbers kept."""
    lines, here, found_at = text.split("\n"), 0, []
    for number, line in enumerate(lines):
        if found := re.match(r"\s*\.loc\s+1 (\d+) ", line):
            here = int(found[1])
        elif re.match(r"\s*\.loc\b", line):
            inlined = re.findall(r"inlined_at 1 (\d+) ", line)
            here = int(inlined[-1]) if inlined else here
        if broken.ptx and broken.ptx in line and broken.line in (None, here):
            found_at.append(number)
    assert found_at or not broken.ptx, f"no {broken.ptx} at line {broken.line}"
    for number in found_at[broken.places]:
        lines[number] = "\t// " + lines[number].strip()
    return "\n".join(lines)


def write(name: str, folder: Path) -> Path:
    """The broken case of a program."""
    broken, target = BREAKS[name], folder / name
    shutil.copytree(ROOT / "programs" / name, target)
    kernel = (target / "kernel.ptx").read_text(encoding="utf-8")
    (target / "kernel.ptx").write_text(without(kernel, broken), encoding="utf-8")
    case = json.loads((target / "case.json").read_text(encoding="utf-8"))
    case["block"] = list(broken.block or case["block"])
    (target / "case.json").write_text(json.dumps(case, indent=1), encoding="utf-8")
    return target


if __name__ == "__main__":
    for wanted in BREAKS:
        write(wanted, Path(sys.argv[1]))

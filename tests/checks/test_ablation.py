"""Ablation of recorded kernels: each fence, wait, commit, arrival and barrier is taken out in turn (data/ablations.txt).

What matters is found, under its rule at its line; what does not is silent, and the table says why."""

import re
from pathlib import Path

import pytest

LONG = {"attention", "bulk_stream", "cluster_ring", "gemm_multicast", "gemm_pingpong", "gemm_rs_bf16"}
SILENT_LONG = {"gemm_cp_async", "gemm_sparse_f16", "map_build"}
"""Large ones of which the silent rows are long."""
DEAR = {f"gemm_cp_async-{line}" for line in (235, 240, 244, 517, 520)} | {
    "flag_rings-57",
    "gemm_sparse_f16-160",
    "mma_f16_gemm-128",
    "mma_f16_gemm-284",
}
"""Rows that cost more than those beside them."""
WAIT = re.compile(r"mbarrier\.(?:try|test)_wait\S*\s+(\S+?),[^;]*;")
SYNCHRONISES = re.compile(
    r"(@!?%?\w+\s+)?(fence|wgmma\.|bar\.|barrier\.|mbarrier\.|membar|cp\.async\.(wait|commit|mbarrier|bulk\.(wait|commit)))[^;]*;"
)


def rows():
    """(kernel, line, what follows) of each row; of a kernel's rows with one answer (rule and severity), the second and
    later ones are long, and a matter of the sweep where the first is long."""
    text = (Path(__file__).parent / "data" / "ablations.txt").read_text()
    seen = set()
    for line in text.split("\n"):
        if line and not line.startswith("#"):
            name, number, rest = line.split(" ", 2)
            answer = (name, *rest.split()[:2]) if not rest.startswith("silent: ") else (name, rest)
            long = (
                name in LONG
                or f"{name}-{number}" in DEAR
                or answer in seen
                or (name in SILENT_LONG and rest.startswith("silent: "))
            )
            marks = [pytest.mark.sweep if answer in seen and name in LONG else pytest.mark.long] * long
            seen.add(answer)
            yield pytest.param(name, int(number), rest, id=f"{name}-{number}", marks=marks)


def without(line):
    """A line whose synchronisation is gone."""
    if WAIT.search(line):
        return WAIT.sub(r"setp.eq.u32 \1, 0, 0;", line)
    return SYNCHRONISES.sub("", line, count=1)


@pytest.mark.parametrize(("name", "number", "expected"), list(rows()))
def test_one_line_taken_out(ablation, name, number, expected):
    """The finding of the row is among those of the kernel without the line; a silent row has none."""
    found = ablation.findings(name, "all", changed={number: without}, max_instructions=3_000_000)

    if expected.startswith("silent: "):
        assert found == []
    else:
        rule, severity, line, other = expected.split()
        assert (rule, severity, int(line), None if other == "-" else int(other)) in found

"""A notebook, run by nbclient without a browser: what each cell shows."""

import re
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[2] / "programs"
CELLS = {
    "kernel": "import numpy as np, warpsim\n"
    f"module = warpsim.load({str(PROGRAMS / 'mma_f16_gemm' / 'kernel.ptx')!r})\nmodule['mma_f16_gemm']",
    "result": "saxpy = warpsim.load({!r})['saxpy']\nx = np.ones(64, np.float32); y = np.ones(64, np.float32)\n"
    "result = saxpy((1,), (64,), (64, 2.0, x, y), profile=True)\nresult".format(str(PROGRAMS / "saxpy" / "kernel.ptx")),
    "profile": "result.profile",
    "session": "from warpsim.host.cases import Case\n"
    f"case = Case.read({str(PROGRAMS / 'mma_f16_gemm')!r}).prepare()\n"
    "session = warpsim.debug.Session(case.kernel, case.grid, case.block, case.args, **case.keywords)\n"
    "session.break_at('op:mma.sync*')\nstop = session.cont()\nsession",
    "matrix": "session.matrix('a')",
    "back": "session.back(3)\nsession",
    "finding": "short = np.ones(63, np.float32)\n"
    "saxpy((1,), (64,), (64, 2.0, x, short), on_finding='collect').findings[0]",
    "error": "saxpy((1,), (64,), (64, 2.0, x, short))",
}


@pytest.mark.long
def test_a_notebook():
    """Kernels, results, profiles, sessions, matrices and findings show themselves as HTML; an error has no internal frames."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS.values()])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3", allow_errors=True).execute()
    shown = {}
    for name, cell in zip(CELLS, book.cells, strict=True):
        outputs = [o for o in cell.outputs if o.output_type != "stream"]
        assert len(outputs) == 1, (name, cell.outputs)
        shown[name] = outputs[0]

    html = {name: out["data"]["text/html"] for name, out in shown.items() if name != "error"}
    assert "mma_f16_gemm" in html["kernel"]
    assert "warp-instructions" in html["result"]
    assert "st.global.f32" in html["profile"]
    assert "mma.sync.aligned.m16n8k16" in html["session"]
    assert html["matrix"].count("<tr>") == 17
    assert re.search(r'title="lane 15, %r483 bits 16-31">0\.26', html["matrix"])
    assert html["back"] != html["session"]
    assert "out-of-bounds" in html["finding"]
    error = shown["error"]
    assert (error["output_type"], error["ename"]) == ("error", "ExecutionError")
    assert "out-of-bounds" in error["evalue"]
    assert (
        sum("warpsim" in re.sub(r"\x1b\[[0-9;]*m", "", frame).partition("\n")[0] for frame in error["traceback"]) <= 3
    )

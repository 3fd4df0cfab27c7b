"""The request ``warp`` of ``warpsim dap``."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def stand_at(client, line, **launch):
    """Run to a line of the program."""

    def setup(client):
        source = {"path": launch.get("program", "kernel.ptx")}
        client.ask("setBreakpoints", source=source, breakpoints=[{"line": line}])
        client.ask("setExceptionBreakpoints", filters=[])

    client.start(setup, stopOnEntry=False, **launch)
    assert client.event("stopped")["reason"] == "breakpoint"


def test_lanes_that_stand_elsewhere_are_null(client, tmp_path):
    """Behind a guarded branch the odd lanes stand elsewhere; the even ones hold their number."""
    text = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k() {
  .reg .b32 %r<3>; .reg .b64 %rd; .reg .pred %p;
  mov.u64 %rd, 0x7f00000000;
  mov.u32 %r0, %tid.x;
  and.b32 %r1, %r0, 1;
  setp.eq.u32 %p, %r1, 1;
  @%p bra ODD;
  mov.u32 %r2, 7;
ODD:
  ret; }"""
    (tmp_path / "k.ptx").write_text(text, encoding="utf-8")
    stand_at(client, 11, program=str(tmp_path / "k.ptx"), grid=1, block=32)

    warp = client.ask("warp")

    assert warp["active"] == [lane % 2 == 0 for lane in range(32)]
    assert warp["instruction"] == "mov.u32 %r2, 7;"
    lanes = {register["name"]: register["lanes"] for register in warp["registers"]}
    assert lanes["%r0"] == [None if lane % 2 else str(lane) for lane in range(32)]
    assert lanes["%rd"] == [None if lane % 2 else "0x7f00000000" for lane in range(32)]
    assert warp["matrices"] == []


def test_matrices_have_owners(client):
    """Lane 4 i + j // 2 holds element (i, j) of C of m16n8k16, in the upper half (PTX ISA, mma.m16n8k16)."""
    ptx = ROOT / "programs" / "mma_f16_gemm" / "kernel.ptx"
    lines = ptx.read_text(encoding="utf-8").split("\n")
    line = next(n for n, text in enumerate(lines, 1) if text.strip().startswith("mma.sync"))
    stand_at(client, line, case="mma_f16_gemm")

    (c,) = [matrix for matrix in client.ask("warp")["matrices"] if matrix["name"] == "c"]

    assert [[owner.split(",")[0] for owner in row] for row in c["owners"][:8]] == [
        [f"lane {4 * i + j // 2}" for j in range(8)] for i in range(8)
    ]

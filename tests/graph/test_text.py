"""What `warpsim info --graph` prints."""

from __future__ import annotations

import json

import pytest

from warpsim.cli import main

SHOWN = {
    "add.f32": """\
add{.rnd}{.ftz}{.sat}.f32 d, a, b
    a: f32, b: f32
    t1 = a + b : f32
    d = where(isnan(t1), 0x7fffffff, t1:u32):f32 : f32
""",
    "lop3.b32 0x96": """\
lop3.b32 d, a, b, c, immLut
    a: u32, b: u32, c: u32
    d = a ^ (b ^ c) : u32
""",
    "ld.global.v2.u32": """\
ld{.weak}{.space}{.cop}{.evict}{.evict2}{.prefetch}{.vec}.type d, [a]
    a: address
    m0 = load.global.v2.u32 [a]
    d0 = m0 : u32
    d1 = m0[1] : u32
""",
    "atom.shared.add.f32": """\
atom{.sem}{.scope}{.space}.op.type d, [a], b
    a: address, b: f32
    m0 = atomic.shared.f32 [a], b
    t1 = m0 + b : f32
    [a] = where(isnan(t1), 0x7fffffff, t1:u32):f32
    d = m0 : f32
""",
    "vote.sync.ballot.b32": """\
vote.sync.ballot.b32 d, {!}a, membermask
    a: pred
    d = reduce.add(where(a, [1, 2, 4, 8 ... 0x80000000], 0)) : u32
""",
    "wgmma.fence.sync.aligned": """\
wgmma.fence.sync{.aligned}
    more than arithmetic and accesses of memory: it is for a warpgroup
""",
}


@pytest.mark.parametrize("text", SHOWN)
def test_info_shows_graphs(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The forms that an opcode may be, each with its inputs, accesses and results."""
    assert main(["info", "--graph", text]) == 0
    assert capsys.readouterr().out == SHOWN[text]
    assert main(["info", "--graph", text, "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["forms"]
    assert "\n".join([record["form"], *("    " + line for line in record["graph"])]) + "\n" == SHOWN[text]


def test_an_unknown_opcode(capsys: pytest.CaptureFixture[str]) -> None:
    """The nearest form is named; a constant has to be a number."""
    assert main(["info", "--graph", "add.f33"]) == 2
    assert "no instruction add.f33; near: add" in capsys.readouterr().err
    assert main(["info", "--graph", "lop3.b32 many"]) == 2
    assert "many" in capsys.readouterr().err

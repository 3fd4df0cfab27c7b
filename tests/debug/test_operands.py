"""Operands of matrix instructions, by the fragments of the PTX manual; tiles that are watched; who waits for whom in a warp."""

import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.debug import DebugError, Session

HEAD = ".version 8.8\n.target {}\n.address_size 64\n.visible .entry k() {{\n.reg .b32 a<4>, b<4>, e; .reg .f32 c<4>; .reg .b32 d<4>;\n"
LANES = np.arange(32)


def at_the(instruction, moves, target="sm_90a", after="", threads=32):
    """A session that stands at a matrix instruction, behind these moves."""
    text = HEAD.format(target) + moves + f"\nmov.f32 c0, 0f3F000000; mov.f32 c1, c0; mov.f32 c2, c0; mov.f32 c3, c0;\n{instruction}\n{after} ret; }}"  # fmt: skip
    session = Session(warpsim.load(text)["k"], 1, threads, (), checks="none")
    session.until("op:" + instruction.split(".")[0] + "*")
    return session


def test_four_bits():
    """m16n8k64 of s4: element i of A lies in register i / 8, in the row of its group or eight below, eight in a row."""
    instruction = "mma.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32 {d0, d1, d2, d3}, {a0, a1, a2, a3}, {b0, b1}, {d0, d1, d2, d3};"
    session = at_the(instruction, "mov.b32 d0, 0; mov.b32 d1, 0; mov.b32 d2, 0; mov.b32 d3, 0;")
    words = np.random.default_rng(3).integers(0, 2**32, (6, 32), dtype=np.uint64).astype(np.uint32)
    for row, name in enumerate(("a0", "a1", "a2", "a3", "b0", "b1")):
        session.set(name, words[row])
    group, thread = LANES >> 2, LANES & 3
    a, b = np.zeros((16, 64), int), np.zeros((64, 8), int)
    for i in range(32):
        nibble = (words[i // 8] >> (4 * (i % 8))) & 15
        row = group + (0 if i < 8 or 16 <= i < 24 else 8)
        a[row, thread * 8 + (i & 7) + (32 if i >= 16 else 0)] = np.where(nibble > 7, nibble.astype(int) - 16, nibble)
    for i in range(16):
        b[thread * 8 + (i & 7) + (32 if i >= 8 else 0), group] = (words[4 + i // 8] >> (4 * (i % 8))) & 15
    assert session.matrix("a").values.tolist() == a.tolist()
    assert session.matrix("b").values.tolist() == b.tolist()
    assert session.matrix("a").owner(8, 9) == "lane 1, a1 bits 4-7"
    assert session.matrix("b").owner(40, 2) == "lane 9, b1 bits 0-3"
    session.step()
    assert session.matrix("d").values.tolist() == (a @ b).tolist()
    with pytest.raises(DebugError, match="has the operands a, b, c, d, not 'e'"):
        session.matrix("e")
    for row, column in ((16, 0), (0, 64), (-1, 0), (0, -1)):
        with pytest.raises(DebugError, match="a is 16 x 64: there is no element"):
            session.matrix("a").owner(row, column)


@pytest.mark.parametrize(
    ("bits", "value"), [(0, 0.0), (1, 0.5), (2, 1.0), (3, 1.5), (5, 3.0), (7, 6.0), (9, -0.5), (15, -6.0)]
)
def test_four_bits_in_eight(bits, value):
    """e2m1 of kind::f8f6f4 stands in bits 2 to 5 of a byte."""
    instruction = "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e4m3.f32 {c0, c1, c2, c3}, {a0, a1, a2, a3}, {b0, b1}, {c0, c1, c2, c3};"
    session = at_the(instruction, "mov.b32 b0, 0x38383838; mov.b32 b1, b0;", "sm_120a")
    for name in ("a0", "a1", "a2", "a3"):
        session.set(name, bits * 0x04040404)
    assert np.unique(session.matrix("a").values.astype(np.float32)).tolist() == [value]
    assert (session.matrix("b").values.astype(np.float32) == 1).all()
    session.step()
    assert (session.matrix("d").values == 0.5 + 32 * value).all()


@pytest.mark.parametrize(
    ("shape", "types", "registers", "metadata", "kept", "chunk"),
    [
        ("m16n8k16", "f32.tf32.tf32.f32", (4, 4), 0xEEEEEEEE, (1,), 2),
        ("m16n8k16", "f32.tf32.tf32.f32", (4, 4), 0x44444444, (0,), 2),
        ("m16n8k32", "f32.f16.f16.f32", (4, 4), 0x44444444, (0, 1), 4),
        ("m16n8k32", "f32.f16.f16.f32", (4, 4), 0xEEEEEEEE, (2, 3), 4),
        ("m16n8k32", "f32.bf16.bf16.f32", (4, 4), 0x88888888, (0, 2), 4),
        ("m16n8k64", "s32.s8.s8.s32", (4, 4), 0x99999999, (1, 2), 4),
        ("m16n8k64", "s32.u8.u8.s32", (4, 4), 0xDDDDDDDD, (1, 3), 4),
        ("m16n8k128", "s32.s4.s4.s32", (4, 4), 0x44444444, (0, 1, 2, 3), 8),
        ("m16n8k128", "s32.u4.u4.s32", (4, 4), 0xDDDDDDDD, (2, 3, 6, 7), 8),
    ],
)  # fmt: skip
def test_sparse_operands(shape, types, registers, metadata, kept, chunk):
    """The metadata of the PTX manual: two bits for each of two elements of four (pairs of them in 4 bits, one of two in 32)."""
    acc = "{c0, c1, c2, c3}" if types.startswith("f") else "{d0, d1, d2, d3}"
    a, b = ("{" + ", ".join(f"{n}{i}" for i in range(count)) + "}" for n, count in zip("ab", registers, strict=True))
    instruction = f"mma.sp::ordered_metadata.sync.aligned.{shape}.row.col.{types} {acc}, {a}, {b}, {acc}, e, 0;"
    moves = f"mov.b32 e, 0x{metadata:x}; " + " ".join(f"mov.b32 {n}{i}, 0;" for n in "abd" for i in range(4))
    session = at_the(instruction, moves)
    whole, stored = session.matrix("a"), session.matrix("a_stored")
    columns = whole.values.shape[1]
    assert columns == int(shape.split("k")[1]) == 2 * stored.values.shape[1]
    expected = [column % chunk in kept for column in range(columns)]
    assert (~np.ma.getmaskarray(whole.values)).tolist() == [expected] * 16
    first = expected.index(True)
    assert whole.owner(3, first) == stored.owner(3, 0)
    assert whole.owner(3, expected.index(False)).startswith("not stored")
    assert f"{columns // 2} columns of {columns} are stored" in whole.note
    assert session.matrix("e").note.endswith("selector 0")
    with pytest.raises(DebugError, match="a_stored, b, c, d, e, not 'q'"):
        session.matrix("q")


@pytest.mark.parametrize(
    ("shape", "dtype", "acc", "selector", "patterns"),
    [
        *[("m16n8k16", "f16", "f", selector, (4, 8, 9, 12, 13, 14)) for selector in range(4)],
        *[("m16n8k32", "bf16", "f", selector, (4, 8, 9, 12, 13, 14)) for selector in range(2)],
        *[("m16n8k8", "tf32", "f", selector, (4, 14)) for selector in range(4)],
        *[("m16n8k16", "tf32", "f", selector, (4, 14)) for selector in range(2)],
        *[("m16n8k32", "s8", "s", selector, (4, 8, 9, 12, 13, 14)) for selector in range(2)],
        ("m16n8k64", "u8", "s", 0, (4, 8, 9, 12, 13, 14)),
    ],
)  # fmt: skip
def test_sparsity_selectors(shape, dtype, acc, selector, patterns):
    """A as the metadata of the chosen lanes expand it is what is multiplied."""
    k = int(shape.split("k")[1])
    bits = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8}[dtype]
    count_a, count_b = 16 * k // 2 * bits // 1024, 8 * k * bits // 1024
    registers = "{c0, c1, c2, c3}" if acc == "f" else "{d0, d1, d2, d3}"
    a, b = ("{" + ", ".join(f"{n}{i}" for i in range(count)) + "}" for n, count in (("a", count_a), ("b", count_b)))
    types = f"{acc}32.{dtype}.{dtype}.{acc}32"
    moves = "mov.b32 e, 0; " + " ".join(f"mov.b32 {n}{i}, 0;" for n in "abd" for i in range(4))
    instruction = f"mma.sp::ordered_metadata.sync.aligned.{shape}.row.col.{types} {registers}, {a}, {b}, {registers}, e, {selector};"
    session = at_the(instruction, moves)
    random = np.random.default_rng(selector)
    nibbles = random.choice(patterns, (32, 8)).astype(np.uint32)
    session.set("e", (nibbles << (4 * np.arange(8, dtype=np.uint32))).sum(axis=1).astype(np.uint32))
    small = {"f16": 0x3C00, "bf16": 0x3F80, "tf32": 0x3F800000, "s8": 1, "u8": 1}[dtype]
    for name, count in (("a", count_a), ("b", count_b)):
        for i in range(count):
            pick = random.integers(0, 2, (32, 32 // bits))
            words = sum((pick[:, part].astype(np.uint64) * small) << (bits * part) for part in range(32 // bits))
            session.set(f"{name}{i}", words.astype(np.uint32))
    whole, columns, before = (session.matrix(name).values for name in "abc")
    filled = np.ma.filled(whole.astype(np.float64), 0)
    assert np.ma.getmaskarray(whole).sum() == whole.size // 2
    session.step()
    assert session.matrix("d").values.tolist() == (filled @ columns.astype(np.float64) + before).tolist()


def test_tiles():
    """A tile stops where an element of it changes, with its owner; elements beside it do not."""
    instruction = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {c0, c1, c2, c3}, {a0, a1, a2, a3}, {b0, b1}, {c0, c1, c2, c3};"
    moves = "mov.b32 a0, 0x3F800000; mov.b32 a1, a0; mov.b32 a2, a0; mov.b32 a3, a0; mov.b32 b0, 0x40000000; mov.b32 b1, b0;"
    after = "mov.b32 a0, 0x40400000; mov.b32 a1, 0x40800000; mov.b32 a2, a2; mov.f32 c1, 0f41880000;"
    session = at_the(instruction, moves, after=after)
    at = session.stop.step
    session.watch("matrix d[3,7]")
    first = session.cont()
    assert (first.reason, first.step, first.event) == ("watchpoint", at + 1, "d[3,7] (lane 15, c1): 0.5 to 16.5")
    assert (first.old.tolist(), first.new.tolist()) == ([[0.5]], [[16.5]])
    session.watch("matrix a[0:8,0:8]")
    second = session.cont()
    assert second.event == "a[0,0] (lane 0, a0): 1.0 to 3.0; 31 elements more"
    assert second.new.shape == (8, 8)
    third = session.cont()
    assert third.event == "d[3,7] (lane 15, c1): 16.5 to 17.0"
    assert session.cont().reason == "end"
    back = session.reverse_cont()
    assert (back.reason, back.event) == ("watchpoint", third.event)
    assert session.reverse_cont().event == second.event
    session.delete()
    session.goto(at)
    numbers = [session.watch(what).number for what in ("matrix d[0,0]", "matrix d[3,7]")]
    assert session.cont().number == numbers[0]
    session.delete()
    session.goto(at)
    session.watch("matrix d")
    assert session.cont().event == "d[0,0] (lane 0, c0): 0.5 to 16.5; 127 elements more"
    session.delete()
    session.goto(at)
    session.watch("matrix d[8:10,0:1]")
    assert session.cont().event == "d[8,0] (lane 0, c2): 0.5 to 16.5; 1 elements more"
    for wrong, said in (
        ("matrix", "watch matrix OPERAND"), ("matrix a[1]", "watch matrix OPERAND"), ("matrix a[0:17,0]", "a is 16 x 8"),
        ("matrix a[0,8]", "a is 16 x 8"), ("matrix a[5:5,0]", "a is 16 x 8"), ("matrix q", "has the operands a, b, c, d"),
    ):  # fmt: skip
        with pytest.raises(DebugError) as caught:
            session.watch(wrong)
        assert said in str(caught.value)
    with pytest.raises(DebugError, match="a matrix can be watched for changes only"):
        session.watch("matrix a", read=True)


def test_registers_of_a_wide_product():
    """D of wgmma: element j of pair i of block b lies in register 4 b + 2 i + j, in rows of eight by warps."""
    text = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .b32 r; .reg .b64 d; .reg .f32 f<8>; .reg .pred p; .shared .align 128 .b8 s[4096];
mov.u32 r, s; shr.u32 r, r, 4; cvt.u64.u32 d, r; or.b64 d, d, 0x1000080000; setp.ne.u32 p, r, r; wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {f0, f1, f2, f3, f4, f5, f6, f7}, d, d, p, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; ret; }
"""
    session = Session(warpsim.load(text)["k"], 1, 128, (), checks="none")
    session.until("op:wgmma.mma*")
    d = session.matrix("d")
    assert d.values.shape == (64, 16)
    for row in range(64):
        for column in range(16):
            lane = 32 * (row // 16) + 4 * (row % 8) + column % 8 // 2
            register = 4 * (column // 8) + 2 * (row % 16 // 8) + column % 2
            assert d.owner(row, column) == f"lane {lane}, f{register}"


def test_matrices_before():
    """Behind a matrix instruction its operands can still be looked at; before the first there is none."""
    instruction = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {c0, c1, c2, c3}, {a0, a1, a2, a3}, {b0, b1}, {c0, c1, c2, c3};"
    session = at_the(instruction, "mov.b32 a0, 0; mov.b32 a1, 0; mov.b32 a2, 0; mov.b32 a3, 0; mov.b32 b0, 0; mov.b32 b1, 0;", after="mov.b32 d0, 1; mov.b32 d1, 1;")  # fmt: skip
    session.step(2)
    assert session.matrix("d").values.shape == (16, 8)
    assert session.matrix("d").line == 8
    html = session.matrix("b")._repr_html_()
    assert "b of mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32: k x n" in html
    assert 'title="lane 4, b0">0' in html
    assert html.count("<tr>") == 9
    session.goto(0)
    with pytest.raises(DebugError, match="there is no matrix instruction here or before"):
        session.matrix("a")
    session.cont()
    with pytest.raises(DebugError, match="does not run"):
        session.matrix("a")


WARP = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .b32 r<3>; .reg .pred p;
mov.u32 r0, %laneid;
setp.lt.u32 p, r0, 8;
@p bra low;
mov.u32 r1, 1;
mov.u32 r1, 2;
low:
bar.warp.sync -1;
mov.u32 r2, r1;
ret; }
"""


def test_lanes_that_wait():
    """Some lanes of a warp wait for the others; a step with one of them waits until these have come."""
    session = Session(warpsim.load(WARP)["k"], 1, 32, (), checks="none")
    session.focus(lane=3)
    session.until(12)
    assert session.stop.focus.lane == 3
    stop = session.step()
    assert stop.line == 13
    session.goto(0)
    session.focus(lane=20)
    session.until(10)
    states = {(w.lanes, w.line): w.state for w in session.warps()}
    assert sum(len(range(int(lanes.split("-")[0]), int(lanes.split("-")[-1]) + 1)) for lanes, _ in states) == 32
    assert set(states.values()) <= {"runs", "ready", "waits for lanes of its warp"}
    assert [w.lanes for w in session.warps()] == sorted(
        (w.lanes for w in session.warps()), key=lambda t: int(t.split("-")[0])
    )


def test_where_warps_stand():
    """One entry for lanes that stand together, in the order of CTAs (x first), warps and lanes."""
    text = module_head("sm_90a") + ".visible .entry k() { .reg .b32 r; mov.u32 r, %laneid; barrier.cluster.arrive; barrier.cluster.wait; ret; }"  # fmt: skip
    session = Session(warpsim.load(text)["k"], (2, 2), 64, (), cluster=(2, 2))
    session.break_at("op:barrier.cluster.wait*")
    for _ in range(8):
        session.cont()
    found = [(w.cta, w.warp) for w in session.warps()]
    assert found == [((x, y, 0), warp) for y in range(2) for x in range(2) for warp in range(2)]
    assert {w.lanes for w in session.warps()} == {"0-31"}


@pytest.mark.parametrize("error", [True, False])
def test_a_page(error):
    """How a session has ended is on its page."""
    text = module_head("sm_90a") + ".visible .entry k(.param .u64 p) { .reg .b64 d; .reg .b32 r; ld.param.u64 d, [p]; st.global.u32 [d], 5; ret; }"  # fmt: skip
    session = Session(warpsim.load(text)["k"], 1, 1, (0 if error else np.zeros(1, np.uint32),))
    while session.cont().reason != "end":
        pass
    page = session._repr_html_()
    assert ("out-of-bounds" in page) is error
    assert "None" not in page

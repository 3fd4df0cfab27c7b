"""Tensor memory: allocation, loads and stores."""

from __future__ import annotations

import numpy as np
import pytest

import warpsim
from warpsim.layout.tensor_memory import SHAPES, tile

HEAD = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<12>; .reg .b32 %x<128>; .reg .b64 %d<4>; .reg .pred %first, %p, %q;
    .shared .align 8 .b32 slot;
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    setp.eq.u32 %first, %r2, 0;
    ld.param.u64 %d1, [out];
"""
ALLOC = """
    @%first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
    bar.sync 0;
    ld.shared.b32 %r3, [slot];
    shl.b32 %r4, %r2, 21;
    add.u32 %r4, %r3, %r4;
"""
FREE = """
    bar.sync 0;
    @%first tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 64;
    ret;
}
"""


def launch(body, out, *, head=HEAD + ALLOC, tail=FREE, grid=1, threads=128, **options):
    """Run a kernel with 64 columns of tensor memory, whose address for the warp is in %r4."""
    kernel = warpsim.load(head + body + tail)["k"]
    options = {"checks": "all", "on_finding": "collect", **options}
    return kernel((grid,), (threads,), (out,), **options)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape, packed):
    """What is stored as 32x32b is loaded as each other shape, and the other way round."""
    cells = tile(shape, 2, packed=packed, split=4 if shape == "16x32bx2" else None)
    several = ", ".join(f"%x{i}" for i in range(cells.registers))
    offset = ", 4" if shape == "16x32bx2" else ""
    words = "".join(f"mad.lo.u32 %x{i + 64}, %r1, 65539, {i * 257 + 5};\n" for i in range(32))
    body = f"""
    {words}
    tcgen05.st.sync.aligned.32x32b.x32.b32 [%r4], {{{", ".join(f"%x{i + 64}" for i in range(32))}}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.{shape}.x2{".pack::16b" if packed else ""}.b32 {{{several}}}, [%r4]{offset};
    tcgen05.wait::ld.sync.aligned;
    mad.wide.u32 %d2, %r1, {4 * cells.registers}, %d1;
    {"".join(f"st.global.b32 [%d2+{4 * i}], %x{i};" for i in range(cells.registers))}
    """
    out = np.zeros((4, 32, cells.registers), np.uint32)
    memory = (np.arange(128)[:, None] * 65539 + np.arange(32) * 257 + 5).reshape(4, 32, 32)
    columns = cells.column * (2 if packed else 1) + (cells.row >= cells.lanes) * 4
    expected = memory[:, cells.row % cells.lanes, columns]
    if packed:
        expected = expected & 0xFFFF | (memory[:, cells.row % cells.lanes, columns + 1] & 0xFFFF) << 16

    assert launch(body, out).findings == ()
    assert (out == expected.transpose(0, 2, 1)).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("packing", ["", "16b"])
def test_loads_undo_stores(shape, packing):
    """A load has what a store of the same shape put there."""
    count = tile(shape, 2).registers
    registers = "{" + ", ".join(f"%x{i}" for i in range(count)) + "}"
    offset = ", 16" if shape == "16x32bx2" else ""
    pack, unpack = (f".pack::{packing}", f".unpack::{packing}") if packing else ("", "")
    body = f"""
    {"".join(f"mad.lo.u32 %x{i}, %r1, 65539, {i * 257 + 5};" for i in range(count))}
    tcgen05.st.sync.aligned.{shape}.x2{unpack}.b32 [%r4]{offset}, {registers};
    tcgen05.wait::st.sync.aligned;
    {"".join(f"mov.b32 %x{i}, 0;" for i in range(count))}
    tcgen05.ld.sync.aligned.{shape}.x2{pack}.b32 {registers}, [%r4]{offset};
    tcgen05.wait::ld.sync.aligned;
    mad.wide.u32 %d2, %r1, {4 * count}, %d1;
    {"".join(f"st.global.b32 [%d2+{4 * i}], %x{i};" for i in range(count))}
    """
    out = np.zeros((128, count), np.uint32)

    assert launch(body, out).findings == ()
    assert (out == np.arange(128)[:, None] * 65539 + np.arange(count) * 257 + 5).all()


def test_ctas_have_memories_of_their_own():
    """CTAs that run side by side do not see each other's cells, and all find their columns at 0."""
    body = """
    mov.u32 %r5, %ctaid.x;
    mad.lo.u32 %r6, %r5, 128, %r1;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4], {%r6};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r7}, [%r4];
    tcgen05.wait::ld.sync.aligned;
    mad.wide.u32 %d2, %r6, 8, %d1;
    st.global.v2.b32 [%d2], {%r7, %r3};
    """
    out = np.ones((5 * 128, 2), np.uint32)

    assert launch(body, out, grid=5).findings == ()
    assert (out[:, 0] == np.arange(5 * 128)).all()
    assert (out[:, 1] == 0).all()


WAITS = """
    setp.eq.u32 %p, %r2, 1;
    @%first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 512;
    bar.sync 0;
    @%p tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot+4], 32;
    @%first ld.shared.b32 %r3, [slot];
    setp.eq.u32 %q, %r1, 0;
    @%q st.global.b32 [%d1], %r3;
    {free}
    @%p ld.shared.b32 %r4, [slot+4];
    setp.eq.u32 %q, %r1, 32;
    @%q st.global.b32 [%d1+4], %r4;
    @%p tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32;
    ret;
}}
"""


def test_allocation_waits_for_columns():
    """A warp that finds no free columns goes on when another one has freed some; if none does, that is a deadlock."""
    head = HEAD.replace(".b32 slot;", ".b32 slot[2];")
    out = np.ones((3, 2), np.uint32)[0]
    freed = "@%first tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 512;"
    kernel = warpsim.load(head + WAITS.format(free=freed))["k"]

    assert kernel((1,), (64,), (out,), checks="all", on_finding="collect").findings == ()
    assert out.tolist() == [0, 0]

    kernel = warpsim.load(head + WAITS.format(free=""))["k"]
    with pytest.raises(warpsim.ExecutionError, match="wait for columns of tensor memory") as caught:
        kernel((1,), (64,), (out,), checks="all")
    assert caught.value.findings[0].rule == "deadlock"


PAIR = """
    mov.u32 %r5, %cluster_ctarank;
    setp.eq.u32 %p, %r5, 0;
    {early}
    @%p bra even;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 128;
    bra both;
even:
    nanosleep.u32 100;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 128;
both:
    ld.shared.b32 %r3, [slot];
    mov.u32 %r6, %ctaid.x;
    mad.wide.u32 %d2, %r6, 4, %d1;
    add.u32 %r7, %r3, 7;
    setp.eq.u32 %p, %r1, 0;
    @%p st.global.b32 [%d2], %r7;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r3, 128;
    ret;
}}
"""


def test_pairs_allocate_together():
    """With cta_group::2, the warps of both CTAs go on when both have come; one that comes alone waits for ever."""
    out = np.zeros(8, np.uint32)
    kernel = warpsim.load(HEAD + PAIR.format(early=""))["k"]

    assert kernel((8,), (32,), (out,), cluster=2, checks="all", on_finding="collect").findings == ()
    assert (out == 7).all()

    kernel = warpsim.load(HEAD + PAIR.format(early="@%p ret;"))["k"]
    with pytest.raises(warpsim.ExecutionError, match="wait for the other CTA of their pair"):
        kernel((8,), (32,), (out,), cluster=2, checks="all")


@pytest.mark.parametrize(
    ("modifiers", "values", "least", "greatest"),
    [
        ("s32", [3, -7, 5, 0], -7, 5),
        ("u32", [3, 0xFFFFFFF9, 5, 0], 0, 0xFFFFFFF9),
        ("f32", [-0.0, 0.0, -2.5, 1.0], -2.5, 1.0),
        ("f32", [np.nan, 0.0, -0.0, np.nan], -0.0, 0.0),
        ("abs.f32", [-3.0, 0.5, -0.25, 2.0], 0.25, 3.0),
        ("NaN.f32", [1.0, np.nan, 2.0, 3.0], np.nan, np.nan),
    ],
)
def test_reductions(modifiers, values, least, greatest):
    """ld.red also gives the least or greatest of the cells that a thread loads; a number wins over a NaN unless .NaN."""
    dtype = np.dtype({"s32": np.int32, "u32": np.uint32}.get(modifiers, np.float32))
    given = np.array(values, dtype).view(np.uint32)
    flags, _, kind = modifiers.rpartition(".")
    dot = f".{flags}" if flags else ""
    loads = "".join(
        f"tcgen05.ld.red.sync.aligned.32x32b.x4.{name}{dot}.{kind} {{%x0, %x1, %x2, %x3}}, %x{at}, [%r4];\n"
        for name, at in (("min", 4), ("max", 5))
    )
    body = f"""
    {"".join(f"mov.b32 %x{i}, {word};" for i, word in enumerate(given.tolist()))}
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%r4], {{%x0, %x1, %x2, %x3}};
    tcgen05.wait::st.sync.aligned;
    {loads}
    tcgen05.wait::ld.sync.aligned;
    mad.wide.u32 %d2, %r1, 8, %d1;
    st.global.v2.b32 [%d2], {{%x4, %x5}};
    """
    out = np.zeros((128, 2), np.uint32)
    head = (HEAD + ALLOC).replace("sm_100a", "sm_103a")
    expected = np.array([least, greatest], dtype)
    expected = np.where(np.isnan(expected), np.uint32(0x7FFFFFFF), expected.view(np.uint32))

    assert launch(body, out, head=head).findings == ()
    assert (out == expected).all()


def test_snippets_name_addresses():
    """A register of a snippet that is an address in tensor memory has 32 bits, if nothing else declares it."""
    code = """
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [smem], 32;
    ld.shared.b32 %t, [smem];
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%t], {%a};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%d}, [%t];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %t, 32;
    """
    run = warpsim.run(code, registers={"%a": range(32)}, target="sm_100a")

    assert run.registers["%d"].tolist() == list(range(32))


def test_lanes_of_warp_0_named_by_others():
    """Every warp reaches its own lanes by an address in the first 32, on which DeepGEMM relies: a note."""
    text = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<3>; .shared .align 4 .b32 slot;
ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2; setp.lt.u32 %p, %r1, 32;
@%p tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
bar.sync 0;
ld.shared.b32 %r2, [slot]; and.b32 %r3, %r1, 96; shl.b32 %r3, %r3, 16; add.u32 %r3, %r3, %r2;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%r1}; tcgen05.wait::st.sync.aligned;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r2]; tcgen05.wait::ld.sync.aligned;
st.global.b32 [%d1], %r4;
bar.sync 0;
@%p tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32; ret; }"""
    out = np.zeros(128, np.uint32)

    result = warpsim.load(text)["k"]((1,), (128,), (out,), checks="all")

    assert out.tolist() == list(range(128))
    assert [(f.rule, f.severity) for f in result.findings] == [("tcgen05", "note")]


LATE = {"async_effects": "at_wait", "checks": "none"}
AFTER_LOAD = """
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%r4], {%r1, %r2};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x2.b32 {%x0, %x1}, [%r4];
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%r4], {%r2, %r1};
    tcgen05.wait::st.sync.aligned;
    tcgen05.wait::ld.sync.aligned;
"""
BEFORE_STORE = """
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%r4], {%r1, %r2};
    tcgen05.wait::st.sync.aligned;
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%r4], {%r2, %r1};
    tcgen05.ld.sync.aligned.32x32b.x2.b32 {%x0, %x1}, [%r4];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.wait::st.sync.aligned;
"""
SHOW = "mad.wide.u32 %d2, %r1, 8, %d1; st.global.v2.b32 [%d2], {%x0, %x1};"


@pytest.mark.parametrize(("body", "swapped"), [(AFTER_LOAD, "late"), (BEFORE_STORE, "eager")])
def test_moves_act_when_they_are_waited_for(body, swapped):
    """A store that overwrites what is loaded, or a load of what is stored, with no wait in between: late effects give the other
    values, a random order either, warp by warp."""
    order = np.stack([np.arange(128), np.arange(128) // 32], axis=1).astype(np.uint32)
    found = {"eager": np.zeros((128, 2), np.uint32), "late": np.zeros((128, 2), np.uint32)}

    launch(body + SHOW, found["eager"], checks="none")
    launch(body + SHOW, found["late"], **LATE)

    for mode, out in found.items():
        assert (out == (order[:, ::-1] if mode == swapped else order)).all()
    seen = set()
    for seed in range(4):
        out = np.zeros((4, 32, 2), np.uint32)
        launch(body + SHOW, out, schedule=seed, **LATE)
        same, turned = ((out == o.reshape(4, 32, 2)).all(axis=(1, 2)) for o in (order, order[:, ::-1]))
        assert (same | turned).all()
        seen |= {*same.tolist()}
    assert seen == {False, True}


def test_registers_that_are_used_early_have_their_values():
    """A GPU waits for the registers of a load by itself where they are used before the wait."""
    body = """
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%r4], {%r1, %r2};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x2.b32 {%x0, %x1}, [%r4];
    USE
    tcgen05.wait::ld.sync.aligned;
    """
    early, late = np.zeros((2, 128, 2), np.uint32)
    launch(body.replace("USE", "") + SHOW, late, **LATE)
    launch(body.replace("USE", SHOW), early, **LATE)
    assert (late == early).all()
    assert (late[:, 0] == np.arange(128)).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_late_moves_of_some_warps(shape):
    """Warps that diverge load and store in all shapes as with eager effects."""
    cells = tile(shape, 2, split=4 if shape == "16x32bx2" else None)
    registers = "{" + ", ".join(f"%x{i}" for i in range(cells.registers)) + "}"
    offset = ", 4" if shape == "16x32bx2" else ""
    body = f"""
    {"".join(f"mad.lo.u32 %x{i}, %r1, 65539, {i};" for i in range(cells.registers))}
    and.b32 %r6, %r2, 1; setp.eq.u32 %p, %r6, 0;
    @%p bra even;
    tcgen05.st.sync.aligned.{shape}.x2.b32 [%r4]{offset}, {registers};
    tcgen05.wait::st.sync.aligned;
    even:
    {"".join(f"mov.b32 %x{i}, 0;" for i in range(cells.registers))}
    @%p bra done;
    tcgen05.ld.sync.aligned.{shape}.x2.b32 {registers}, [%r4]{offset};
    tcgen05.wait::ld.sync.aligned;
    done:
    mad.wide.u32 %d2, %r1, {4 * cells.registers}, %d1;
    {"".join(f"st.global.b32 [%d2+{4 * i}], %x{i};" for i in range(cells.registers))}
    """
    out = np.zeros((4, 32, cells.registers), np.uint32)
    expected = (np.arange(128)[:, None] * 65539 + np.arange(cells.registers)).reshape(4, 32, -1)
    expected[::2] = 0
    for seed in (None, 1, 2):
        out[:] = 7
        assert launch(body, out, async_effects="at_wait", schedule=seed).findings == ()
        assert (out == expected).all()


@pytest.mark.parametrize(
    ("alloc", "dealloc", "what"), [("n", "32", "numbers of columns"), ("32", "n", "columns to free")]
)
def test_columns_that_lanes_name_differently(alloc: str, dealloc: str, what: str) -> None:
    """All lanes pass the same number of columns (PTX ISA, tcgen05.alloc)."""
    text = f""".version 8.6
.target sm_100a
.address_size 64
.visible .entry k() {{ .reg .b32 n, a; .shared .b32 s; mov.u32 n, %laneid; shr.u32 n, n, 4; shl.b32 n, 32, n;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], {alloc}; ld.shared.b32 a, [s];
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 a, {dealloc}; ret; }}"""
    with pytest.raises(warpsim.ExecutionError, match=what) as caught:
        warpsim.load(text)["k"]((1,), (32,), ())

    assert caught.value.findings[0].rule == "nonuniform-operand"


ALLOCATE, DEALLOCATE = (
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s],",
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 a,",
)
LOADED = "ld.shared.b32 a, [s];"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (f"mov.b32 n, 48; {ALLOCATE} n;", "allocates 48 columns of tensor memory, which is no power of two"),
        (f"{ALLOCATE} 64; {ALLOCATE} 128;", "allocates 128 columns of tensor memory, more than"),
        (f"tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; {ALLOCATE} 32;", "after its CTA has relinquished"),
        (f"{ALLOCATE} 64; {LOADED} {DEALLOCATE} 32;", "frees 32 columns"),
        (f"{ALLOCATE} 32; {LOADED} add.u32 a, a, 0x200000; {DEALLOCATE} 32;", "frees 32 columns of tensor memory at 0x200000"),
        (f"{ALLOCATE} 32; {LOADED} {DEALLOCATE} 32; {DEALLOCATE} 32;", "which is no allocation"),
        (f"{ALLOCATE} 32;", "exits with 32 columns"),
        (f"{ALLOCATE} 32; {LOADED} add.u32 a, a, 0x200000; tcgen05.ld.sync.aligned.32x32b.x1.b32 {{n}}, [a];", "reaches lanes 0 to 31"),
        (f"{ALLOCATE} 32; {LOADED} add.u32 a, a, 0x80000; tcgen05.ld.sync.aligned.16x64b.x1.b32 {{n}}, [a];", "from a multiple of 16"),
        (f"{ALLOCATE} 32; {LOADED} add.u32 a, a, 31; tcgen05.ld.sync.aligned.32x32b.x2.b32 {{n, a}}, [a];", "columns 31 to 32"),
        (f"{ALLOCATE} 32; {LOADED} add.u32 a, a, 0x80000; tcgen05.shift.cta_group::1.down [a];", "from lane 8, which is no multiple of 32"),
        (f"{ALLOCATE} 32; {LOADED} tcgen05.cp.cta_group::1.128x128b [a], 0;", "bits 46 to 48 must be 1"),
    ],
)  # fmt: skip
def test_findings(body: str, why: str) -> None:
    """What allocation, access, shift and copy ask for in vain (PTX ISA, 9.7.16)."""
    text = f""".version 8.6
.target sm_100a
.address_size 64
.visible .entry k() {{ .reg .b32 n, a; .shared .b32 s; {body} ret; }}"""
    with pytest.raises(warpsim.ExecutionError) as caught:
        warpsim.load(text)["k"]((1,), (32,), ())

    assert caught.value.findings[0].rule == "tcgen05"
    assert why in caught.value.findings[0].message


def test_a_peer_that_has_exited() -> None:
    """Both CTAs of a pair stay until an operation of both is issued (PTX ISA, Issue Granularity)."""
    text = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry k() { .reg .b32 n; .reg .pred p; .shared .align 8 .b64 bar; mov.u32 n, %cluster_ctarank; setp.eq.u32 p, n, 1;
    @p exit; mov.u32 n, 0;
LOOP: add.u32 n, n, 1; setp.lt.u32 p, n, 1000; @p bra LOOP;
    mbarrier.init.shared.b64 [bar], 1; tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [bar]; ret; }"""
    with pytest.raises(warpsim.ExecutionError, match="whose peer CTA has exited"):
        warpsim.load(text)["k"]((2,), (1,), (), cluster=(2,))

"""Counts of a launch by line, held against counting one lane after the other."""

import gc
import json
import subprocess
import sys
import weakref
from pathlib import Path

import attrs
import numpy as np
import pytest

import warpsim
from engines import compiles
from ptx_text import module_head
from warpsim.cli import main
from warpsim.host.cases import run_case
from warpsim.observe.profiler import Profiler
from warpsim.report.profile import page
from warpsim.trace import Tracer

PROGRAMS = Path(__file__).parent.parent.parent / "programs"
HEAD = module_head("sm_90a")


def banks_of(addresses, nbytes):
    """(pieces, passes) of a warp's access of shared memory, lane after lane; addresses of lanes, None for those left out."""
    lanes = 32 // max(nbytes // 4, 1)
    pieces = passes = 0
    for first in range(0, 32, lanes):
        words = {
            a // 4 + k for a in addresses[first : first + lanes] if a is not None for k in range(max(nbytes // 4, 1))
        }
        if words:
            pieces += 1
            passes += max(len([w for w in words if w % 32 == bank]) for bank in range(32))
    return pieces, passes


def sectors_of(addresses):
    """32-byte sectors of a warp's access of global memory."""
    return len({a // 32 for a in addresses if a is not None})


GATHER = (
    HEAD
    + """
.visible .entry gather(.param .u64 index, .param .u64 data, .param .u64 out)
{
    .shared .align 16 .b8 tile[4096];
    .reg .b32 %r<8>; .reg .b64 %rd<12>; .reg .pred %p<2>; .reg .TYPE %v<4>;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r1;
    ld.param.u64 %rd1, [index]; ld.param.u64 %rd2, [data]; ld.param.u64 %rd3, [out];
    mul.wide.u32 %rd4, %r4, 4; add.u64 %rd5, %rd1, %rd4; ld.global.s32 %r5, [%rd5];
    setp.ge.s32 %p1, %r5, 0;
    mul.wide.s32 %rd6, %r5, SIZE; add.u64 %rd7, %rd2, %rd6;
    mov.u32 %r6, tile; mul.lo.s32 %r7, %r5, SIZE; add.u32 %r6, %r6, %r7;
    @%p1 ld.globalVECTOR.TYPE VALUES, [%rd7];
    @%p1 st.sharedVECTOR.TYPE [%r6], VALUES;
    @%p1 st.globalVECTOR.TYPE [%rd7], VALUES;
    ret;
}
"""
)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("batch_threads", [96, 1 << 17])
def test_banks_and_sectors(size, batch_threads):
    """Random addresses with some lanes left out: passes, sectors, bytes and active lanes are those counted lane by lane."""
    type, vector, values = {1: "u8", 2: "u16", 4: "f32", 8: "f64", 16: "f32"}[size], "", "%v1"
    if size == 16:
        vector, values = ".v4", "{%v0, %v1, %v2, %v3}"
    text = GATHER.replace("TYPE", "b16" if size == 1 else type, 1).replace("SIZE", str(size))
    text = text.replace("VECTOR", vector).replace("VALUES", values).replace("TYPE", type)
    rng = np.random.default_rng(size)
    index = rng.integers(0, 4096 // size, (3, 96)).astype(np.int32)
    index[rng.random(index.shape) < 0.2] = -1
    kernel = warpsim.load(text)["gather"]
    data = np.zeros(4096, np.uint8)
    result = kernel((3,), (96,), (index, data, None), profile=True, checks="none", batch_threads=batch_threads)
    shared, loaded = (
        next(line.counts for line in result.profile.lines if line.text.startswith(f"@%p1 {opcode}"))
        for opcode in ("st.shared", "ld.global")
    )
    warps = [[int(i) * size if i >= 0 else None for i in warp] for warp in index.reshape(-1, 32)]
    counted = np.array([banks_of(warp, size) for warp in warps]).sum(axis=0)
    active = int((index >= 0).sum())

    assert (shared.shared_pieces, shared.shared_passes) == tuple(counted)
    assert loaded.sectors == sum(sectors_of(warp) for warp in warps)
    assert (shared.shared_bytes, loaded.global_bytes) == (active * size, active * size)
    assert (shared.active, shared.lanes, shared.executions) == (active, 288, 9)
    assert (shared.shared_accesses, loaded.global_accesses) == (9, 9)


STRIDED = (
    HEAD
    + """
.visible .entry strided(.param .u64 data)
{
    .shared .align 16 .b8 tile[4096];
    .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<2>; .reg .pred %p;
    ld.param.u64 %rd1, [data]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
    mul.wide.u32 %rd2, %r1, 12; add.u64 %rd1, %rd1, %rd2; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd1, %rd1, %rd2;
    mov.u32 %r3, tile; mul.lo.u32 %r4, %r1, 12; add.u32 %r3, %r3, %r4; mov.u32 %r5, 0;
L:  ld.global.f32 %f1, [%rd1];
    st.shared.f32 [%r3], %f1;
    add.u64 %rd1, %rd1, 4; add.u32 %r3, %r3, 4; add.u32 %r5, %r5, 1; setp.lt.u32 %p, %r5, 12; @%p bra L;
    ret;
}
"""
)


@pytest.mark.parametrize("batch_threads", [1, 1 << 20])
def test_accesses_that_walk_through_memory(batch_threads):
    """Strided accesses whose first address moves on, and from CTA to CTA, are counted at each alignment."""
    data = np.zeros(1024, np.float32)
    kernel = warpsim.load(STRIDED)["strided"]
    found = kernel((3,), (64,), (data,), profile=True, batch_threads=batch_threads).profile
    load, store = (
        next(line.counts for line in found.lines if text in line.text) for text in ("ld.global", "st.shared")
    )

    places = [(warp, cta, lap) for warp in (0, 1) for cta in range(3) for lap in range(12)]
    of_lane = lambda warp, first: [first + 12 * (32 * warp + lane) for lane in range(32)]  # noqa: E731
    assert load.sectors == sum(sectors_of(of_lane(warp, 4 * (cta + lap))) for warp, cta, lap in places)
    assert load.global_accesses == store.shared_accesses == len(places)
    banks = [banks_of(of_lane(warp, 4 * lap), 4) for warp, _, lap in places]
    assert (store.shared_pieces, store.shared_passes) == tuple(map(sum, zip(*banks, strict=True)))


@pytest.mark.parametrize("watcher", [Profiler, Tracer])
def test_the_only_access_of_a_loop(watcher):
    """It is counted each time, though the step before with an access was the same."""
    text = f"""{HEAD}.visible .entry k(.param .u64 data) {{ .reg .b32 %r<3>; .reg .b64 %d0; .reg .pred %p; ld.param.u64 %d0, [data];
mov.u32 %r1, 0;
L: add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, 7;
ld.global.u32 %r2, [%d0];
@%p bra L; ret; }}"""
    counts = watcher()
    warpsim.load(text)["k"]((2,), (64,), (np.zeros(1, np.uint32),), watchers=[counts], engine="interpreter")
    (line,) = [line.counts for line in counts.profile().lines if line.text.startswith("ld.global")]

    assert (line.executions, line.global_accesses, line.sectors) == (28, 28, 28)


MIXED = (
    HEAD
    + """
.visible .entry mixed(.param .u64 data, .param .u64 sum)
{
    .shared .align 16 .b8 tile[4096]; .shared .align 16 .b8 rows[2048]; .local .align 4 .b8 own[16];
    .reg .b32 %r<12>; .reg .b64 %rd<8>; .reg .pred %p<4>;
    ld.param.u64 %rd1, [data]; ld.param.u64 %rd4, [sum]; mov.u32 %r9, rows; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, tile; mov.u32 %r8, 0;
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2;
L:  ld.global.u32 %r4, [%rd2];
    shl.b32 %r5, %r4, 2; add.u32 %r5, %r3, %r5; setp.lt.u32 %p1, %r4, 900;
    @%p1 ld.shared.u32 %r6, [%r5];
    setp.lt.u32 %p2, %r4, 300; @%p2 bra LOW;
    st.local.u32 [own], %r4; red.global.add.u32 [%rd4], 1; bra MET;
LOW: shl.b32 %r7, %r1, 4; add.u32 %r7, %r7, %r9; cvt.u64.u32 %rd3, %r7; cvta.shared.u64 %rd3, %rd3;
    st.v4.u32 [%rd3], {%r4, %r4, %r1, %r2};
MET: add.u64 %rd2, %rd2, 384; add.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, 3; @%p3 bra L;
    ret;
}
"""
)


@compiles
def test_compiled_code_counts_as_steps_are_counted(monkeypatch):
    """Branches, guards, atomics, generic and local accesses of CTAs whose last warp is not whole: every count of every line."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    regions = []
    monkeypatch.setattr(Profiler, "region_counted", _noting(regions, Profiler.region_counted))
    kernel, counts = warpsim.load(MIXED)["mixed"], []
    for engine in ("interpreter", "compiled"):
        data = np.random.default_rng(3).integers(0, 1000, 512).astype(np.uint32)
        found = kernel((3,), (80,), (data, np.zeros(1, np.uint32)), profile=True, checks="none", engine=engine).profile
        counts.append({line.number: attrs.evolve(line.counts, seconds=0.0) for line in found.lines})

    assert counts[0] == counts[1]
    assert any(region.diverged for region in regions)


EVEN = [(1, 1, 0), (1, 0, 125), (2, 2, 64), (2, 6, 0), (4, 4, 64), (4, 0, 4), (4, 0, 128), (4, 12, 132), (8, 8, 128), (8, 0, 8), (8, 24, 0), (16, 16, 0), (16, 0, 16), (16, 32, 48)]  # fmt: skip
"""Bytes of shared memory that a lane accesses, and how far the next lane's and the next row's are."""


@compiles
@pytest.mark.parametrize(("block", "pitch"), [((64, 1), 0), ((16, 5), 100), ((16, 5), 0), ((8, 9), 32), ((20, 2), 100)])
def test_compiled_code_counts_rows_of_lanes(monkeypatch, block, pitch):
    """Accesses at strides that are known or not, before and behind barriers, of which one ends the region, with and without a guard, by
    whole warps and others: as steps are counted."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    lines = ["ld.param.u64 %rd1, [data]; ld.param.u32 %r9, [pitch]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y;"]
    lines += ["mul.lo.u32 %r3, %r2, %r9; shl.b32 %r4, %r1, 2; add.u32 %r3, %r3, %r4; cvt.u64.u32 %rd2, %r3;"]
    lines += ["add.u64 %rd1, %rd1, %rd2; mov.u32 %r8, 0; mov.u32 %r7, tile;"]
    lines += [
        "setp.lt.u32 %p2, %r1, 5; mov.u32 %r4, %ntid.x; mad.lo.u32 %r4, %r2, %r4, %r1; mad.lo.u32 %r7, %r4, 64, %r7;"
    ]
    lines += [*(f"st.shared.v4.u32 [%r7+{16 * k}],\n {{%r1, %r1, %r1, %r1}};" for k in range(4)), "bar.sync 0;"]
    lines += ["mov.b16 %h, 0; mov.b64 %rd3, 0; mov.b32 %r6, 0;", *(f"mov.b32 %r{k}, 0;" for k in range(10, 14)), "L:"]
    for size, x, y in EVEN:
        type = {1: ".u8", 2: ".u16", 4: ".u32", 8: ".u64", 16: ".v4.u32"}[size]
        value = {1: "%r6", 2: "%h", 8: "%rd3", 16: "{%r10, %r11, %r12, %r13}"}.get(size, "%r6")
        lines.append(f"mov.u32 %r5, tile; mad.lo.u32 %r5, %r1, {x}, %r5; mad.lo.u32 %r5, %r2, {y}, %r5;")
        lines.append(f"{'@%p2 ' if x == size else ''}ld.shared{type} {value},\n [%r5+{size}];")
    lines.insert(-16, "bar.sync 0;")
    lines += ["ld.global.u32 %r6, [%rd1];", "add.u64 %rd1, %rd1, 4; add.u32 %r8, %r8, 1;"]
    lines += ["setp.lt.u32 %p1, %r8, 3; @%p1 bra L; setp.gt.u32 %p1, %r4, 31; @%p1 bra END;"]
    lines += ["ld.shared.u32 %r6, [tile];", "bar.sync 0;", "ld.shared.u32 %r6, [tile+4];"]
    lines += ["setp.lt.u32 %p1, %r9, 999; @%p1 bra END;", "ld.shared.u32 %r6, [tile+8];", "END: ret;"]
    registers = ".reg .b16 %h; .reg .b32 %r<14>; .reg .b64 %rd<4>; .reg .pred %p<3>; .shared .align 16 .b8 tile[5120];"
    text = "\n".join([f".visible .entry k(.param .u64 data, .param .u32 pitch) {{ {registers}", *lines, "}"])
    kernel, counts = warpsim.load(HEAD + text)["k"], []
    for engine in ("interpreter", "compiled"):
        data = np.zeros(1024, np.uint32)
        found = kernel((3,), block, (data, pitch), profile=True, checks="none", engine=engine).profile
        counts.append({line.number: (attrs.evolve(line.counts, seconds=0.0), line.conflict) for line in found.lines})

    assert counts[0] == counts[1]
    assert {cost.shared_passes > cost.shared_pieces for cost, _ in counts[0].values()} == {True, False}


def _noting(regions, count):
    def region_counted(profiler, machine, group, counts):
        regions.append(counts)
        count(profiler, machine, group, counts)

    return region_counted


def test_the_worst_conflict_is_named():
    """Lanes 128 bytes apart want words of one bank: which, and who wants them."""
    code = "mov.u32 %r0, %laneid; shl.b32 %r1, %r0, 7; mov.u32 %r2, smem; add.u32 %r1, %r1, %r2; and.b32 %r1, %r1, 511; ld.shared.u32 %r3, [%r1];"
    text = HEAD + ".visible .entry k() { .shared .align 128 .b8 smem[512]; .reg .b32 %r<4>; CODE ret; }".replace(
        "CODE", code
    )
    profile = warpsim.load(text)["k"]((1,), (32,), (), profile=True, checks="none").profile
    (conflict,) = [line.conflict for line in profile.lines if line.conflict]

    assert (conflict.passes, conflict.bank, conflict.warp) == (4, 0, 0)
    assert conflict.words == tuple((128 * k, tuple(range(k, 32, 4))) for k in range(4))
    assert "4 words of bank 0 in CTA (0, 0, 0), warp 0: 0x0 (lanes 0, 4, 8," in str(profile)
    assert page(profile).partition("<h2>Worst bank conflicts</h2>")[2].count("4 words of bank 0") == 1


def test_a_conflict_is_in_a_cta_that_has_it():
    """Where the first CTAs have left, the worst conflict is in one of the others."""
    text = (
        HEAD
        + """
.visible .entry k()
{
    .shared .align 128 .b8 smem[512]; .reg .b32 %r<4>; .reg .pred %p;
    mov.u32 %r0, %ctaid.x; setp.lt.u32 %p, %r0, 2; @%p ret;
    mov.u32 %r0, %laneid; shl.b32 %r1, %r0, 7; mov.u32 %r2, smem; add.u32 %r1, %r1, %r2; and.b32 %r1, %r1, 511;
    ld.shared.u32 %r3, [%r1];
    ret;
}
"""
    )
    profile = warpsim.load(text)["k"]((4,), (32,), (), profile=True, checks="none").profile
    (conflict,) = [line.conflict for line in profile.lines if line.conflict]

    assert conflict.cta == (2, 0, 0)


@pytest.mark.parametrize(("stride", "passes"), [(128, 32), (144, 4), (64, 16)])
def test_rows_of_matrices(stride, passes):
    """ldmatrix reads eight rows at a time: rows a multiple of 128 bytes apart conflict, padded ones do not."""
    text = (
        HEAD
        + f""".visible .entry k() {{ .shared .align 128 .b8 smem[{32 * stride}]; .reg .b32 %r<8>;
        mov.u32 %r0, %laneid; mov.u32 %r1, smem; mad.lo.u32 %r2, %r0, {stride}, %r1;
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r4, %r5, %r6, %r7}}, [%r2];
        ret; }}"""
    )
    profile = warpsim.load(text)["k"]((2,), (64,), (), profile=True, checks="none").profile
    counts = next(line.counts for line in profile.lines if "ldmatrix" in line.text)

    assert (counts.shared_pieces, counts.shared_passes) == (4 * 4, 4 * passes)
    assert counts.shared_bytes == 4 * 512


def test_accesses_that_are_nearly_alike():
    """Each costs what its own lanes cost, whatever another of the same threads has cost that differs in one thing: the size, the
    lanes, the begin, rows in place of words."""
    accesses = {  # the space, bytes between lanes, the first one's offset, bytes of each, the first lane
        "ld.shared.u32 %r4, [%r2]": ("shared", 16, 0, 4, 0),
        "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r2]": ("shared", 16, 0, 16, 0),
        "ld.shared.u16 %h, [%r2]": ("shared", 16, 0, 2, 0),
        "@%p ld.shared.u32 %r4, [%r2]": ("shared", 16, 0, 4, 16),
        "@%q ld.shared.u32 %r4, [%r2]": ("shared", 16, 0, 4, 28),
        "ld.shared.u32 %r4, [%r3]": ("shared", 4, 0, 4, 0),
        "ld.global.u32 %r4, [%d]": ("global", 4, 0, 4, 0),
        "ld.global.u32 %r4, [%d+16]": ("global", 4, 16, 4, 0),
        "ld.global.u32 %r4, [%d+128]": ("global", 4, 128, 4, 0),
        "@%p ld.global.u32 %r4, [%d]": ("global", 4, 0, 4, 16),
    }
    rows = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r2]"
    for swap in (0, 1):  # lanes in order, and in pairs the wrong way round
        text = (
            HEAD
            + f""".visible .entry k(.param .u64 data) {{ .shared .align 128 .b8 smem[512];
            .reg .b16 %h; .reg .b32 %r<8>; .reg .b64 %d; .reg .pred %p, %q;
            ld.param.u64 %d, [data]; mov.u32 %r0, %tid.x; setp.ge.u32 %p, %r0, 16; setp.ge.u32 %q, %r0, 28;
            {"xor.b32 %r0, %r0, 1;" if swap else ""}
            mov.u32 %r1, smem; mad.lo.u32 %r2, %r0, 16, %r1; mad.lo.u32 %r3, %r0, 4, %r1; mad.wide.u32 %d, %r0, 4, %d;
            """
            + "".join(f"{access};\n" for access in [*accesses, rows])
            + "ret; }"
        )
        data = np.zeros(100, np.uint32)
        profile = warpsim.load(text)["k"](
            (1,), (32,), (data,), profile=True, checks="none", engine="interpreter"
        ).profile
        found = {line.text.rstrip(";"): line.counts for line in profile.lines}
        for access, (space, step, offset, nbytes, first) in accesses.items():
            places = [None if lane < first else (lane ^ swap) * step + offset for lane in range(32)]
            counts = found[access]
            if space == "shared":
                assert (counts.shared_pieces, counts.shared_passes) == banks_of(places, nbytes), access
            else:
                assert counts.sectors == sectors_of(places), access
        assert (found[rows].shared_pieces, found[rows].shared_passes) == (4, 4)


def test_divergence():
    """Lanes 0 to 9 of each warp take another way; the last warp of a CTA has 16 threads, and is whole with them."""
    text = (
        HEAD
        + """.visible .entry k()
{
    .reg .b32 %r<4>; .reg .pred %p<4>;
    mov.u32 %r0, %laneid;
    setp.lt.u32 %p0, %r0, 10;
    @!%p0 bra END;
    add.u32 %r1, %r0, 1;
    setp.lt.u32 %p1, %r0, 3;
    @%p1 add.u32 %r1, %r1, 1;
    @!%p1 add.u32 %r1, %r1, 2;
END:
    mov.u32 %r2, %tid.x;
    setp.lt.u32 %p2, %r2, 32;
    @%p2 bra LAST;
    add.u32 %r1, %r1, 3;
LAST:
    ret;
}
"""
    )
    result = warpsim.load(text)["k"]((3,), (48,), (), profile=True)
    lines = {line.text: line.counts for line in result.profile.lines}
    branch, inside = lines["@!%p0 bra END;"], lines["add.u32 %r1, %r0, 1;"]
    guarded = lines["@%p1 add.u32 %r1, %r1, 1;"]

    assert (branch.executions, branch.diverged, branch.partial) == (6, 6, 0)
    assert (inside.executions, inside.lanes, inside.partial) == (6, 60, 6)
    otherwise, by_warp, second = (
        lines[text] for text in ("@!%p1 add.u32 %r1, %r1, 2;", "@%p2 bra LAST;", "add.u32 %r1, %r1, 3;")
    )

    assert (guarded.lanes, guarded.active) == (60, 18)
    assert (otherwise.lanes, otherwise.active) == (60, 42)
    assert (by_warp.executions, by_warp.diverged) == (6, 0)
    assert (second.executions, second.lanes, second.partial) == (3, 48, 0)


@pytest.mark.parametrize("program", ["reduce_shfl", "histogram", "softmax_rows", pytest.param("gemm_multicast", marks=pytest.mark.long)])  # fmt: skip
def test_sums(program):
    """The lines sum up to what the launch counts, and are the same whenever asynchronous effects appear."""
    found = []
    for effects in ("eager", "at_wait"):
        result = run_case(PROGRAMS / program, profile=True, async_effects=effects)
        assert result.profile.total.executions == result.instructions
        record = result.profile.record()
        for line in [record["total"], *record["lines"], *record["source_lines"]]:
            line.pop("seconds")
        found.append(record)

    assert found[0] == found[1]


def test_cuda_lines(tmp_path):
    """Lines of .loc sum up the PTX lines behind them; functions are counted too."""
    text = (
        HEAD
        + """.func f() { .loc 1 9 0
    ret; }
.visible .entry k()
{
    .reg .b32 %r<2>;
    .loc 1 5 0
    mov.u32 %r0, 1;
    mov.u32 %r1, 2;
    .loc 1 6 0
    call f, ();
    ret;
}
.file 1 "/nowhere/k.cu"
"""
    )
    profile = warpsim.load(text)["k"]((1,), (64,), (), profile=True).profile

    assert [(line.file, line.number, line.counts.executions) for line in profile.by_source()] == [
        ("/nowhere/k.cu", 5, 4),
        ("/nowhere/k.cu", 6, 4),
        ("/nowhere/k.cu", 9, 2),
    ]


def test_command_line(tmp_path, capsys):
    """`--profile` prints a table; `--profile-to` writes data or a page; with --json the document has it."""
    assert main(["replay", str(PROGRAMS / "histogram"), "--profile", "--profile-to", str(tmp_path / "p.json")]) == 0
    shown = capsys.readouterr().out
    data = json.loads((tmp_path / "p.json").read_text())
    assert main(["replay", str(PROGRAMS / "histogram"), "--json", "--profile-to", str(tmp_path / "p.html")]) == 0
    document = json.loads(capsys.readouterr().out)

    assert "worst bank conflicts" in shown
    assert (
        data["total"]["executions"]
        == document["cases"][0]["instructions"]
        == document["cases"][0]["profile"]["total"]["executions"]
    )
    assert "atom.shared.add.u32" in (tmp_path / "p.html").read_text()


def test_costs_nothing_unasked():
    """A launch without a profile has none, and does not even load what counts; a short one nothing that compiles."""
    code = "import sys, warpsim; k = warpsim.load('.version 8.0\\n.target sm_80\\n.address_size 64\\n.visible .entry k() { ret; }')['k']; r = k((1,), (1,), (), engine='auto'); print(r.profile, *(n in sys.modules for n in ('warpsim.observe.profiler', 'warpsim.native.compiling.compiler', 'warpsim.native.tiering.engine')))"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split() == [
        "None",
        "False",
        "False",
        "False",
    ]


class Batch(warpsim.Watcher):
    """Knows the threads of a batch as long as somebody keeps them."""

    def batch_began(self, machine):
        """Notes them."""
        self.threads = weakref.ref(machine.batch.shape)


def test_threads_of_large_batches_are_not_kept():
    """Not even for the costs of what few of them access."""
    text = f"""{HEAD}
.visible .entry k() {{ .reg .b32 %r<3>; .reg .pred %p; .shared .b32 s; mov.u32 %r1, %tid.x; setp.ne.u32 %p, %r1, 0; @%p bra L;
st.shared.u32 [s], %r1; L: ret; }}"""
    batch = Batch()

    warpsim.load(text)["k"]((64,), (1024,), (), engine="interpreter", profile=True, watchers=[batch])

    gc.collect()
    assert batch.threads() is None

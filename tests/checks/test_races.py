"""race: conflicting accesses that nothing orders, by ablation of correct programs.

Each row of a table says what is taken out and which line then races with which other; "silent" rows say why."""

import numpy as np
import pytest

import warpsim

HEAD = (
    ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b)\n{\n"
    ".reg .b16 %h<9>; .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .pred %p<9>;\n"
    ".shared .align 16 .b32 s[256]; .shared .align 8 .b64 m;\n"
    "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, s;\n"
    "add.u32 %r3, %r3, %r2; cvt.u64.u32 %rd3, %r2; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;\n"
    "mov.u32 %r9, %ctaid.x; xor.b32 %r8, %r2, 4; mov.u32 %r7, s; add.u32 %r7, %r7, %r8; setp.eq.u32 %p8, %r1, 0;\n"
)
FIRST = HEAD.count("\n") + 1


def races(body, block=64, grid=1, cluster=None, severity="error"):
    """(line, other line) of each race in these lines, counted from the first."""
    data, more = np.zeros(1024, np.uint32), np.zeros(1024, np.uint32)
    result = warpsim.load(HEAD + body + "\nret;\n}\n")["k"](
        grid, block, (data, more), checks="all" if severity == "note" else "race", on_finding="collect", cluster=cluster
    )
    return [
        (f.line - FIRST, f.other.line - FIRST if f.other else None)
        for f in result.findings
        if (f.rule, f.severity) == ("race", severity)
    ]


BARRIER = "bar.sync 0;"


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("transpose", 96, {(107, 56), (119, 56), (131, 56), (143, 56)}),
        ("reduce_shfl", 150, {(164, 141), (167, 144), (170, 147)}),
        ("histogram", 53, {(70, 46)}),  # zeros against increments
        ("histogram", 77, {(86, 70)}),
        ("mma_f16_gemm", 284, {(292, 67), (297, 67), (302, 108), (306, 108)}),
        ("mma_f16_gemm", 373, {(237, 292), (242, 292), (252, 302), (261, 343)}),  # ldmatrix and the next stage's copies
        ("softmax_rows", 101, {(102, 98), (146, 98)}),
        ("softmax_rows", 156, {(214, 102)}),
        ("cub_scan_reduce", 98, {(101, 94)}),
        ("cub_scan_reduce", 102, {(110, 101)}),
        ("cub_scan_reduce", 164, {(165, 161), (167, 155)}),
        ("grid_sync", 114, {(141, 101)}),  # data of other CTAs, behind the grid's barrier
        ("grid_sync", 171, {(101, 141)}),
        ("coop_groups", 82, set()),  # each thread reads the element that it copied itself
        ("its_lock", 50, set()),  # the data under the lock is volatile: strong accesses do not race
    ],
)
def test_a_barrier_taken_out(ablation, name, line, expected):
    """Every barrier and fence that matters is missed at the accesses that it ordered; with it nothing is reported."""
    found = ablation.findings(name, "race", removed=[line])

    assert expected <= {(at, other) for _, _, at, other in found}
    assert bool(expected) == bool(found)
    assert {(rule, severity) for rule, severity, _, _ in found} <= {("race", "error")}


CORRECT = (
    "transpose reduce_shfl histogram mma_f16_gemm softmax_rows cub_scan_reduce grid_sync its_lock coop_groups bfs_level"
    " generic_ptrs tinygrad_gemm_f16_sm80 triton_scan_sort_sm80"
)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.long] * (n.endswith("_sm80") or n == "its_lock")) for n in CORRECT.split()],
)
def test_recorded_kernels_do_not_race(ablation, name):
    """Correct programs have no finding but notes: Triton's threads store equal values to one place."""
    found = ablation.findings(name, "all")

    assert all(severity == "note" and name.startswith("triton") for _, severity, _, _ in found)


@pytest.mark.parametrize(
    ("first", "order", "second", "expected"),
    [
        ("st.shared.u32 [%r3], %r1;", "", "ld.shared.u32 %r4, [%r7];", [(1, 0)]),
        ("st.shared.u32 [%r3], %r1;", BARRIER, "ld.shared.u32 %r4, [%r7];", []),
        ("ld.shared.u32 %r4, [%r7];", "", "st.shared.u32 [%r3], %r1;", [(1, 0)]),
        ("ld.shared.u32 %r4, [%r7];", BARRIER, "st.shared.u32 [%r3], %r1;", []),
        ("st.shared.u32 [%r3], %r1;", "", "add.u32 %r5, %r1, 9; st.shared.u32 [%r7], %r5;", [(1, 0)]),
        ("st.shared.u32 [%r3], %r1;", "", "ld.shared.u32 %r4, [%r3];", []),  # its own element
        ("st.shared.u32 [%r3], %r1;", "bar.warp.sync -1;", "ld.shared.u32 %r4, [%r7];", []),  # the neighbour's warp
        ("st.shared.u32 [%r3], %r1;", "shfl.sync.idx.b32 %r6, %r1, 0, 31, -1;", "ld.shared.u32 %r4, [%r7];", []),
        ("st.shared.u32 [%r3], %r1;", "vote.sync.any.pred %p1, %p8, -1;", "ld.shared.u32 %r4, [%r7];", []),
        ("st.shared.u32 [%r3], %r1;", "membar.cta;", "ld.shared.u32 %r4, [%r7];", [(1, 0)]),  # a fence alone
        ("st.global.u32 [%rd4], %r1;", "", "ld.global.u32 %r4, [%rd6];", [(1, 0)]),
        ("st.global.u32 [%rd4], %r1;", BARRIER, "ld.global.u32 %r4, [%rd6];", []),
        ("ld.global.u32 %r4, [%rd6];", "", "st.global.u32 [%rd4], %r1;", [(1, 0)]),
        ("red.global.add.u32 [%rd1], 1;", "", "red.global.add.u32 [%rd1], 1;", []),
        ("red.global.add.u32 [%rd1], 1;", "", "ld.global.u32 %r4, [%rd1];", [(1, 0)]),
        ("red.global.add.u32 [%rd1], 1;", "", "ld.relaxed.gpu.global.u32 %r4, [%rd1];", []),
        ("st.volatile.global.u32 [%rd1], %r1;", "", "ld.volatile.global.u32 %r4, [%rd1];", []),
        ("red.shared.add.u32 [%r7], 1;", "", "ld.shared.u32 %r4, [%r3];", [(1, 0)]),
        ("red.shared.add.u32 [%r7], 1;", BARRIER, "ld.shared.u32 %r4, [%r3];", []),
    ],
)
def test_two_lines(first, order, second, expected):
    """An access of one thread, an access of its neighbour, and what stands between them."""
    neighbour = "cvt.u64.u32 %rd6, %r8; add.u64 %rd6, %rd6, %rd1;"

    assert races(f"{neighbour} {first}\n{order} {second}") == expected


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        (BARRIER, []),
        ("ld.shared.u32 %r12, [%r3];", [(4, 3)]),  # the last read is named
        ("bar.warp.sync -1;", [(4, 2)]),
        ("red.release.gpu.global.add.u32 [%rd2], 1;", [(4, 2)]),  # from here on, CTAs are looked at one by one
        ("@%p8 bra M; M: mov.u32 %r12, 0;", [(4, 2)]),
    ],
)
def test_readers_are_remembered_until_their_barrier(between, expected):
    """Each thread reads its word, then stores to that of a thread of the other warp."""
    body = f"""st.shared.u32 [%r3], %r1; mov.u32 %r11, s; xor.b32 %r12, %r2, 128; add.u32 %r11, %r11, %r12;
bar.sync 0;
ld.shared.u32 %r10, [%r3];
{between}
st.shared.u32 [%r11], %r10;"""

    assert sorted(races(body)) == expected


def test_the_warp_orders_only_its_own_lanes():
    """bar.warp.sync does not order the warps of a CTA."""
    body = "st.shared.u32 [%r3], %r1;\n{} xor.b32 %r8, %r2, 128; mov.u32 %r7, s; add.u32 %r7, %r7, %r8; ld.shared.u32 %r4, [%r7];"

    assert races(body.format("bar.warp.sync -1;")) == [(1, 0)]
    assert races(body.format(BARRIER)) == []


@pytest.mark.parametrize(("space", "place"), [("shared", "s"), ("global", "%rd1")])
def test_a_reader_between_two_reads_of_the_writer(space, place):
    """Who reads a word twice and writes it races with the lane that has read it in between."""
    read = f"ld.{space}.u32 %r4, [{place}];\n"
    body = f"setp.eq.u32 %p1, %r1, 1; mov.u32 %r5, 7;\n@%p8 {read}@%p1 {read}@%p8 {read}@%p8 st.{space}.u32 [{place}], %r5;"

    assert races(body) == [(4, 2)]
    assert races(body.replace("@%p1", "@%p8")) == []


def test_lanes_that_a_guard_holds_back_do_not_meet():
    """Where the guard of a collective is false for a whole warp, nothing orders its lanes."""
    body = "setp.lt.u32 %p1, %r1, 32; st.shared.u32 [%r3], %r1;\n{} shfl.sync.idx.b32 %r6, %r1, 0, 31, {};\nld.shared.u32 %r4, [%r7];"
    for mask in ("-1", "%r10"):
        set_mask = "mov.u32 %r10, -1; "
        assert races(set_mask + body.format("@%p1", mask)) == [(2, 0)]
        assert races(set_mask + body.format("@%p1", mask), block=32) == []
        assert races(set_mask + body.format("", mask)) == []


LEAVES = (
    "@%p8 mbarrier.init.shared.b64 [m], 1; setp.eq.u32 %p1, %r1, 37; bar.sync 0;\n@%p1 st.shared.u32 [%r3], 5;\n"
    "@%p1 {told} @%p1 exit;\n{learn} bar.sync 0;\nld.shared.u32 %r4, [s+148];"
)


@pytest.mark.parametrize(
    ("told", "learn", "severity"),
    [
        (
            "mbarrier.arrive.shared.b64 _, [m];",
            "W: mbarrier.try_wait.parity.shared.b64 %p2, [m], 0; @!%p2 bra W;",
            None,
        ),
        ("mov.u32 %r5, 0;", "", "warning"),
        ("mov.u32 %r5, 0;", "bar.warp.sync -1;", "warning"),
        ("bar.arrive 0, 64;", "", None),
    ],
)
def test_who_has_left(told, learn, severity):
    """A thread that exits orders what it did before only if it tells others, by whatever way; barriers do not wait for it."""
    body = LEAVES.format(told=told, learn=learn)

    for level in ("error", "warning"):
        assert races(body, severity=level) == ([(4, 1)] if severity == level else [])


def test_who_has_left_before_a_cluster_meets():
    """Neither do barriers of the cluster; of a thread that has arrived there before it exits, they order all."""
    body = (
        "setp.eq.u32 %p1, %r1, 37; st.shared.u32 [%r3], %r1;\n{first} @%p1 exit; bar.sync 0; {rest} barrier.cluster.wait;"
        " mov.u32 %r10, %cluster_ctarank; xor.b32 %r10, %r10, 1; mov.u32 %r11, s; mapa.shared::cluster.u32 %r11, %r11, %r10;\n"
        "ld.shared::cluster.u32 %r12, [%r11+148];\nbarrier.cluster.arrive; barrier.cluster.wait;"
    )
    arrive = "barrier.cluster.arrive;"
    for first, rest, found in (("", arrive, [(2, 0)]), (arrive, "", [])):
        assert races(body.format(first=first, rest=rest), grid=2, cluster=(2, 1, 1), severity="warning") == found
        assert races(body.format(first=first, rest=rest), grid=2, cluster=(2, 1, 1)) == []


def test_masks_of_a_warp():
    """A mask of half a warp orders that half: a neighbour inside it, not a lane of the other half."""
    body = (
        "st.shared.u32 [%r3], %r1; setp.lt.u32 %p1, %r1, 16; mov.u32 %r10, 0xffff; @%p1 bra low; not.b32 %r10, %r10; low:"
        "bar.warp.sync %r10; xor.b32 %r8, %r2, {}; mov.u32 %r7, s; add.u32 %r7, %r7, %r8;\nld.shared.u32 %r4, [%r7];"
    )

    assert races(body.format(4), block=32) == []
    assert races(body.format(64), block=32) == [(1, 0)]


GUESS = (
    "ld.global.u32 %r4, [%rd1];\nL: mov.u32 %r10, %r4; add.u32 %r5, %r10, 1; {}\n"
    "setp.ne.u32 %p1, %r6, %r10; mov.u32 %r4, %r6; @%p1 bra L;"
)


def test_a_guess_that_a_compare_and_swap_checks():
    """A plain load before the loop of a compare and swap races, as in CUDA's own headers: a note, for that load alone."""
    cas = "atom.global.cas.b32 %r6, [%rd1], %r10, %r5;"

    assert races(GUESS.format(cas)) == []
    assert races(GUESS.format(cas), severity="note") == [(1, 0)]
    assert races(GUESS.format(cas) + "\nld.global.u32 %r11, [%rd1]; st.global.u32 [%rd5], %r11;") == [(3, 1), (1, 3)]
    assert races(GUESS.format("atom.global.add.u32 %r6, [%rd1], 0; mov.u32 %r6, %r10;")) == [(1, 0)]


@pytest.mark.parametrize(
    ("meeting", "expected"),
    [
        ("shfl.sync.idx.b32 %r11, %r12, 0, 31, -1;", []),
        ("bar.warp.sync -1;", []),
        ("bar.warp.sync 0x80001;", []),  # lanes 0 and 19
        ("bar.warp.sync 3;", [(6, 0)]),  # lane 19 is not there
        ("", [(6, 0)]),
    ],
)
def test_a_lane_hands_on_what_it_acquired(meeting, expected):
    """What one lane has acquired from another CTA, the lanes that it meets know too."""
    mask = "0x80001" if "0x80001" in meeting else "3"
    guard = f"and.b32 %r13, %r1, 31; shr.u32 %r14, {mask}, %r13; and.b32 %r14, %r14, 1; setp.ne.u32 %p4, %r14, 0;"
    body = (
        "or.b32 %r4, %r1, %r9; setp.ne.u32 %p1, %r4, 0; @%p1 bra X; st.global.u32 [%rd1], 5;\n"
        "membar.gl; atom.global.exch.b32 %r5, [%rd2], 1;\n"
        "X: and.b32 %r6, %r1, 31; setp.ne.u32 %p2, %r6, 0; mov.u32 %r12, 1; @%p2 bra Y;\n"
        "Z: atom.global.add.u32 %r5, [%rd2], 0; setp.eq.u32 %p3, %r5, 0; @%p3 bra Z; membar.gl;\n"
        f"Y: {guard if 'warp' in meeting and '-1' not in meeting else 'setp.eq.u32 %p4, 0, 0;'}\n@%p4 {meeting or 'mov.u32 %r13, 0;'}\n"
        "setp.ne.u32 %p5, %r6, 19; @%p5 bra W; ld.global.u32 %r7, [%rd1];\nW:"
    )

    assert races(body, grid=2) == expected


def test_bytes_beside_each_other():
    """Threads that write neighbouring bytes do not meet; a word over them does."""
    body = "mov.u32 %r4, s; add.u32 %r4, %r4, %r1; st.shared.u8 [%r4], %r1;\n{}"

    assert races(body.format("ld.shared.u8 %r5, [%r4];")) == []
    assert races(body.format("and.b32 %r4, %r4, -4; ld.shared.u32 %r5, [%r4];")) == [(1, 0)]


def test_equal_values():
    """Threads of one warp that store one value to one place are defined; of several warps it is a note."""
    body = "mov.u32 %r4, 5; st.shared.u32 [s], {};\n"

    assert races(body.format("%r4"), block=32) == races(body.format("%r4"), block=32, severity="note") == []
    assert races(body.format("%r4")) == []
    assert races(body.format("%r4"), severity="note") == [(0, 0)]
    assert races(body.format("%r1")) == [(0, 0)]
    words = "shr.u32 %r4, %r1, 5; shl.b32 %r4, %r4, 2; mov.u32 %r5, s; add.u32 %r5, %r5, %r4; st.shared.u32 [%r5], 5;\n"
    assert races(words, severity="note") == []  # a word for each warp
    body = body.replace("shared", "global").replace("[s]", "[%rd1]")
    assert races(body.format("%r4"), block=32, severity="note") == []
    assert races(body.format("%r4"), block=32, grid=2, severity="note") == [(0, 0)]


NEXT_TILE = """
mov.u32 %r10, m;
@%p8 mbarrier.init.shared.b64 [%r10], 1; @%p8 fence.mbarrier_init.release.cluster; bar.sync 0;
mov.u32 %r11, s; mov.u32 %r14, 0;
ROUND: @%p8 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 128;
@%p8 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd1], 128, [%r10];
WAIT: mbarrier.try_wait.parity.shared.b64 %p7, [%r10], %r14; @!%p7 bra WAIT;
{read}
{between}
add.u32 %r14, %r14, 1; setp.lt.u32 %p7, %r14, 2; @%p7 bra ROUND;
"""


@pytest.mark.parametrize(
    ("read", "between", "block", "expected"),
    [
        ("ld.shared.u32 %r12, [%r3];", "", 32, "warning"),
        ("ld.shared.u32 %r12, [%r3];", "bar.warp.sync -1;", 32, None),
        ("ld.shared.u32 %r12, [%r3];", "shfl.sync.idx.b32 %r12, %r12, 0, 31, -1;", 32, None),
        ("ld.shared.u32 %r12, [s];", "", 64, "warning error"),  # its own warp, and the other
        ("ld.shared.u32 %r12, [s];", "bar.warp.sync -1;", 64, "error"),
        ("ld.shared.u32 %r12, [s];", "bar.sync 0;", 64, None),
        ("st.shared.u32 [%r3], %r1;", "", 32, "error"),  # written, not read
    ],
)
def test_the_next_tile_over_what_the_warp_has_read(read, between, block, expected):
    """A thread that loads the next tile in bulk while lanes of its warp may still read: a race by the memory model, which no
    GPU shows that executes the instructions of a warp in turn; libraries do so. Of another warp, or of writes: an error."""
    data, more = np.zeros(1024, np.uint32), np.zeros(1024, np.uint32)
    body = NEXT_TILE.format(read=read, between=between)
    result = warpsim.load(HEAD + body + "\nret;\n}\n")["k"](1, block, (data, more), checks="all", on_finding="collect")
    found = [f for f in result.findings if f.rule == "race"]

    assert [f.severity for f in found] == ([] if expected is None else expected.split())
    assert all(f.instruction.startswith("cp.async.bulk") or "@%p8 cp.async.bulk" in f.text for f in found)


def test_ctas_race_in_global_memory():
    """CTAs are not ordered by their own barriers."""
    body = "@%p8 st.global.u32 [%rd1], %r9;\nbar.sync 0;"

    assert races(body, grid=2) == [(0, 0)]
    assert races(body, grid=1) == []
    assert races("@%p8 red.global.add.u32 [%rd1], %r9;\nbar.sync 0;", grid=2) == []


FLAG = (
    "setp.ne.u32 %p7, %r9, 0; @%p7 bra consumer;\n"
    "st.global.u32 [%rd4], %r1; {barrier} @!%p8 bra done;\n"
    "{release}\n"
    "bra done;\nconsumer: @!%p8 bra behind;\nagain: {acquire} setp.eq.u32 %p1, %r4, 0; @%p1 bra again; {fence} behind: {late}\n"
    "ld.global.u32 %r5, [%rd4];\ndone:"
)
GOOD = {
    "barrier": "bar.sync 0;",
    "release": "st.release.gpu.global.u32 [%rd2], 1;",
    "acquire": "ld.acquire.gpu.global.u32 %r4, [%rd2];",
    "fence": "",
    "late": "bar.sync 1;",
}
FENCES = {
    **GOOD,
    "release": "membar.gl; st.volatile.global.u32 [%rd2], 1;",
    "acquire": "ld.volatile.global.u32 %r4, [%rd2];",
    "fence": "membar.gl;",
}
ATOMICS = {
    **GOOD,
    "release": "membar.gl; red.global.add.u32 [%rd2], 1;",
    "acquire": "atom.global.add.u32 %r4, [%rd2], 0;",
    "fence": "fence.acq_rel.gpu;",
}


@pytest.mark.parametrize("pattern", [GOOD, FENCES, ATOMICS], ids=["release-acquire", "fences", "atomics"])
def test_a_flag_between_ctas(pattern):
    """Data handed from one CTA to the next through a flag."""
    assert races(FLAG.format(**pattern), grid=2) == []


@pytest.mark.parametrize(
    ("pattern", "changed"),
    [
        (GOOD, {"barrier": ""}),
        (GOOD, {"late": ""}),
        (GOOD, {"release": "st.relaxed.gpu.global.u32 [%rd2], 1;"}),
        (GOOD, {"acquire": "ld.relaxed.gpu.global.u32 %r4, [%rd2];"}),
        (GOOD, {"release": "st.release.cta.global.u32 [%rd2], 1;"}),
        (FENCES, {"release": "st.volatile.global.u32 [%rd2], 1;"}),
        (FENCES, {"release": "membar.cta; st.volatile.global.u32 [%rd2], 1;"}),
        (FENCES, {"fence": ""}),
        (ATOMICS, {"release": "red.global.add.u32 [%rd2], 1;"}),
        (ATOMICS, {"fence": ""}),
    ],
)
def test_a_flag_that_does_not_hold(pattern, changed):
    """Every barrier, fence, scope and order of the hand-over matters."""
    assert (6, 1) in races(FLAG.format(**{**pattern, **changed}), grid=2)


SLOTS = (
    "setp.ne.u32 %p7, %r9, 0; @%p7 bra consumer; {0}\nst.global.u32 [%rd4], %r1;\n{1} st.volatile.global.u32 [%rd5], 1; {2} bra done;\n"
    "consumer: again: ld.volatile.global.u32 %r4, [%rd5]; setp.eq.u32 %p1, %r4, 0; @%p1 bra again; membar.gl; {3}\n"
    "ld.global.u32 %r5, [%rd4];\ndone:"
)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("", "membar.gl;", "", ""), []),  # each thread has a flag of its own
        (("", "", "", ""), [(4, 1)]),
        (("membar.gl;", "", "", ""), [(4, 1)]),  # the fence of another store
        (("", "bar.sync 0; membar.gl;", "", "xor.b32 %r8, %r2, 4; cvt.u64.u32 %rd4, %r8; add.u64 %rd4, %rd4, %rd1;"), []),
        (("", "membar.gl;", "bar.sync 0;", "xor.b32 %r8, %r2, 4; cvt.u64.u32 %rd4, %r8; add.u64 %rd4, %rd4, %rd1;"), [(4, 1)]),
    ],
)  # fmt: skip
def test_a_flag_for_each_thread(parts, expected):
    """A flag hands on what its thread knew when it was set: of its neighbour what a barrier before it ordered, not one behind."""
    assert races(SLOTS.format(*parts), grid=2, block=32) == expected


def test_a_plain_flag():
    """A flag itself must be written and read by strong accesses."""
    weak = {**GOOD, "acquire": "ld.global.u32 %r4, [%rd2];"}

    assert (5, 2) in races(FLAG.format(**weak), grid=2)


NEAR = (
    "setp.ge.u32 %p7, %r1, 32; add.u64 %rd6, %rd4, -128; @%p7 bra consumer;\n"
    "st.global.u32 [%rd4], %r1; bar.warp.sync -1; @!%p8 bra done; {0} bra done;\nconsumer: again: {1} setp.eq.u32 %p1, %r4, 0;"
    " @%p1 bra again; {2}\nld.global.u32 %r5, [%rd6]; done:"
)
VOLATILE = "st.volatile.global.u32 [%rd2], 1;", "ld.volatile.global.u32 %r4, [%rd2];"


@pytest.mark.parametrize(
    ("release", "acquire", "fence", "expected"),
    [
        ("membar.cta; " + VOLATILE[0], VOLATILE[1], "membar.cta;", []),
        ("membar.cta; red.global.add.u32 [%rd2], 1;", "atom.global.add.u32 %r4, [%rd2], 0;", "membar.cta;", []),
        ("st.release.cta.global.u32 [%rd2], 1;", "ld.acquire.cta.global.u32 %r4, [%rd2];", "", []),
        ("st.release.cta.global.u32 [%rd2], 1;", "ld.acquire.gpu.global.u32 %r4, [%rd2];", "", []),
        ("st.release.gpu.global.u32 [%rd2], 1;", "ld.acquire.cta.global.u32 %r4, [%rd2];", "", []),
        (VOLATILE[0], VOLATILE[1], "membar.cta;", [(3, 1)]),
        ("membar.cta; " + VOLATILE[0], VOLATILE[1], "", [(3, 1)]),
    ],
)
def test_a_flag_within_a_cta(release, acquire, fence, expected):
    """Fences and scopes of the CTA serve between its warps; lanes know what the one that polls has learnt."""
    assert races(NEAR.format(release, acquire, fence)) == expected
    one = NEAR.replace("again: {1}", "@!%p6 bra behind; again: {1}").replace("{2}\n", "{2} behind: bar.warp.sync -1;\n")
    one = "setp.eq.u32 %p6, %r1, 32; " + one
    assert races(one.format(release, acquire, fence), grid=2)[: len(expected)] == expected


NAMED = (
    "setp.ge.u32 %p7, %r1, 32; @%p7 bra consumer; st.shared.u32 [%r3], %r1;\n"
    "{arrive} bra done;\nconsumer: {wait} add.u32 %r7, %r3, -128;\nld.shared.u32 %r4, [%r7];\ndone:"
)


def test_named_barriers():
    """A producer warp arrives, a consumer warp waits."""
    assert races(NAMED.format(arrive="bar.arrive 1, 64;", wait="bar.sync 1, 64;")) == []
    assert races(NAMED.format(arrive="bar.arrive 1, 64;", wait="bar.sync 2, 32;")) == [(3, 0)]
    assert races(NAMED.format(arrive="bar.arrive 1, 64;", wait="bar.sync 1, 64;"), block=64, grid=3) == []


LATE = (  # the producers store again behind their arrival, at a barrier of the whole CTA; the consumers exchange words, too
    "setp.ge.u32 %p7, %r1, 32; @%p7 bra consumer; st.shared.u32 [%r3], %r1;\n"
    "bar.arrive 1, {n};\n{late} bra done;\n"
    "consumer: st.shared.u32 [%r3], %r1; xor.b32 %r7, %r3, 192;\nbar.sync 1, {n};\nadd.u32 %r6, %r3, -128;\n"
    "{read}\ndone:"
)
"""Warps 0 arrives, the others wait."""


@pytest.mark.parametrize("block", [64, 96])
def test_whoever_only_arrives_is_not_ordered_behind_the_barrier(block):
    """What a thread stores behind `bar.arrive` is seen by nobody who waited, though the barrier counts the whole CTA."""
    again = "st.shared.u32 [%r3], %r1;"
    first = "setp.lt.u32 %p6, %r1, 64; @%p6 ld.shared.u32 %r4, [%r6];"
    assert races(LATE.format(n=block, late="", read=first), block=block) == []
    assert races(LATE.format(n=block, late=again, read=first), block=block) in ([(6, 2)], [(2, 6)])


BESIDE = "xor.b32 %r6, %r2, 128; add.u32 %r6, %r6, %r5; ld.shared.u32 %r4, [%r6];"  # the word of the warp beside


@pytest.mark.parametrize(
    ("block", "body"),
    [
        (96, "setp.ge.u32 %p7, %r1, 64; @%p7 bra last;\nst.shared.u32 [%r3], %r1; setp.ge.u32 %p6, %r1, 32; @%p6 bra other;\n"
             "bar.sync 1, 96; bra read;\nother: bar.sync 1, 96;\nread: {beside}\nbra done;\n"
             "last: ld.global.u32 %r4, [%rd4]; ld.global.u32 %r4, [%rd4]; bar.arrive 1, 96;\ndone:"),
        (64, "setp.ge.u32 %p7, %r1, 32; @%p7 bra other;\nbar.sync 1, 32; st.shared.u32 [%r3], %r1; bar.sync 1; bra read;\n"
             "other: st.shared.u32 [%r3], %r1; bar.sync 1;\nread: {beside}"),
    ],
    ids=["one-only-arrives", "fewer-before"],
)  # fmt: skip
def test_warps_that_wait_are_ordered(block, body):
    """Whichever came before the one that only arrives, and at a barrier that has counted fewer threads before."""
    assert races("mov.u32 %r5, s;\n" + body.format(beside=BESIDE), block=block) == []


MBARRIER = (
    "@%p8 mbarrier.init.shared.b64 [m], 32; bar.sync 0;\n"
    "setp.ge.u32 %p7, %r1, 32; @%p7 bra consumer; st.shared.u32 [%r3], %r1;\n"
    "{arrive} bra done;\n"
    "consumer: {wait} add.u32 %r7, %r3, -128;\nld.shared.u32 %r4, [%r7];\ndone:"
)
ARRIVE = "mbarrier.arrive.shared.b64 %rd9, [m];"
WAIT = "again: mbarrier.try_wait.parity.shared.b64 %p1, [m], 0; @!%p1 bra again;"


def test_mbarriers():
    """The threads of one warp arrive, another warp waits for the phase."""
    assert races(MBARRIER.format(arrive=ARRIVE, wait=WAIT)) == []
    assert races(MBARRIER.format(arrive=ARRIVE, wait="")) == [(4, 1)]
    assert races(MBARRIER.format(arrive=ARRIVE.replace("arrive", "arrive.relaxed.cta"), wait=WAIT)) == [(4, 1)]
    assert (0, 0) not in races(MBARRIER.format(arrive=ARRIVE, wait=WAIT).replace("bar.sync 0;", "", 1))
    assert races(MBARRIER.format(arrive=ARRIVE, wait=WAIT).replace("bar.sync 0;", "", 1)) != []


CLUSTER = (
    "st.shared.u32 [%r3], %r1;\n{sync} mov.u32 %r10, %cluster_ctarank; xor.b32 %r10, %r10, 1;\n"
    "mapa.shared::cluster.u32 %r11, %r3, %r10; ld.shared::cluster.u32 %r12, [%r11];\n{end}"
)
SYNC = "barrier.cluster.arrive; barrier.cluster.wait;"


def test_clusters():
    """Distributed shared memory needs the cluster's barrier, not the CTA's; rewriting needs it again."""
    assert races(CLUSTER.format(sync=SYNC, end=SYNC), grid=2, cluster=(2, 1, 1)) == []
    assert races(CLUSTER.format(sync=BARRIER, end=SYNC), grid=2, cluster=(2, 1, 1)) == [(2, 0)]
    again = "st.shared.u32 [%r3], 77;"
    ends = (4, 2)  # and the CTA ends while its peer may read
    assert races(CLUSTER.format(sync=SYNC, end=again), grid=2, cluster=(2, 1, 1)) == [(3, 2), ends]
    assert races(CLUSTER.format(sync=SYNC, end=SYNC + again), grid=2, cluster=(2, 1, 1)) == []
    alone = "setp.ne.u32 %p1, %r1, 0; @%p1 ret; mov.u32 %r10, 0;"
    assert races(CLUSTER.format(sync=SYNC, end=alone), grid=2, cluster=(2, 1, 1)) == [ends]


WARP_BY_WARP = """shr.u32 %r20, %r1, 5; and.b32 %r21, %r1, 31; setp.eq.u32 %p1, %r21, 0; mov.u32 %r22, s; mad.lo.u32 %r23, %r20, 4, %r22;
mad.lo.u32 %r22, %r20, 8, %r22; @%p1 mbarrier.init.shared.b64 [%r22+512], 1; fence.mbarrier_init.release.cluster;
barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %r24, %cluster_ctarank; setp.eq.u32 %p2, %r24, 0; @%p2 bra wait; @!%p1 ret;
mapa.shared::cluster.u32 %r22, %r22, 0; mapa.shared::cluster.u32 %r23, %r23, 0;
st.shared::cluster.u32 [%r23], %r20;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22+512]; ret;
wait: setp.eq.u32 %p4, %r20, WARP; @%p4 ret;
again: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p3, [%r22+512], 0; @!%p3 bra again;"""


@pytest.mark.parametrize("warps", [2, 8, 16])
def test_what_the_threads_of_a_cta_know_together(warps):
    """A CTA may exit when some thread of it knows of each access by a peer, however many threads that takes."""
    for warp in (-1, 0, warps - 1):  # which does not wait
        body = WARP_BY_WARP.replace("WARP", str(warp))
        found = {other for _, other in races(body, block=32 * warps, grid=2, cluster=(2, 1, 1))}

        assert found == (set() if warp < 0 else {4})


def test_a_lone_cluster_wait_is_a_deadlock():
    """barrier.cluster.wait without an arrival since the last wait never ends."""
    for before in ("", SYNC):
        with pytest.raises(warpsim.ExecutionError) as caught:
            races(f"{before} barrier.cluster.wait;", grid=2, cluster=(2, 1, 1))

        assert caught.value.findings[0].rule == "deadlock"


def test_rounds_within_a_warp():
    """A scan in shared memory by one warp: both barriers of a round matter, in every round."""
    part = "setp.ge.u32 %p2, %r1, {0}; @%p2 ld.shared.u32 %r4, [%r3+-{1}];\n"
    write = "bar.warp.sync -1; ld.shared.u32 %r5, [%r3]; add.u32 %r5, %r5, %r4; st.shared.u32 [%r3], %r5;\n"
    rounds = ["".join([part.format(o, 4 * o), write, "bar.warp.sync -1;"]) for o in (1, 2, 4)]
    body = "mov.u32 %r4, 0; st.shared.u32 [%r3], %r1; bar.warp.sync -1;" + "".join(rounds)

    assert races(body, block=32) == []
    for number in range(1, 6):
        pieces = body.split("bar.warp.sync -1;")
        faulty = "bar.warp.sync -1;".join(pieces[:number]) + "".join(pieces[number : number + 1])
        faulty += "".join("bar.warp.sync -1;" + p for p in pieces[number + 1 :])
        assert races(faulty, block=32) != []


def test_many_ctas_side_by_side_and_in_waves():
    """What is found does not depend on how many CTAs run at once, nor on CTAs that go their own ways."""
    body = "{} st.shared.u32 [%r3], %r1;\n{} ld.shared.u32 %r4, [%r7];\n"
    apart = "mov.u32 %r20, %r9; loop: setp.eq.u32 %p1, %r20, 0; @%p1 bra out; sub.u32 %r20, %r20, 1; bra loop; out:"

    for before in ("", apart):
        assert races(body.format(before, ""), grid=40) == [(1, 0)]
        assert races(body.format(before, BARRIER), grid=40) == []


def test_parties():
    """A race names both threads, both lines and the address."""
    data = np.zeros(1024, np.uint32)
    body = "st.shared.u32 [%r3], %r1;\n xor.b32 %r8, %r2, 128; mov.u32 %r7, s; add.u32 %r7, %r7, %r8; ld.shared.u32 %r4, [%r7];"
    with pytest.raises(warpsim.ExecutionError) as caught:
        warpsim.load(HEAD + body + "\nret;\n}\n")["k"](1, 64, (data, data), checks="race")
    (found,) = caught.value.findings

    assert (found.rule, found.severity, found.warp, found.lanes) == ("race", "error", 0, tuple(range(32)))
    assert (found.other.warp, found.other.lanes, found.other.line) == (1, (0,), FIRST)
    assert found.values["address"] == 128


@pytest.mark.parametrize("threads", [64, 4096])
def test_batches_of_any_size(threads):
    """CTAs of different batches race as those of one do, and hand over data as they do."""
    data, more = np.zeros(1024, np.uint32), np.zeros(1024, np.uint32)

    def found(body):
        kernel = warpsim.load(HEAD + body + "\nret;\n}\n")["k"]
        launch = {"checks": "race", "on_finding": "collect", "batch_threads": threads}
        return [f.line - FIRST for f in kernel(6, 64, (data, more), **launch).findings]

    assert found("add.u32 %r4, %r1, %r9; st.global.u32 [%rd4], %r4;") == [0]
    assert found(FLAG.format(**GOOD)) == []
    assert 6 in found(FLAG.format(**{**GOOD, "barrier": ""}))


@pytest.mark.parametrize(("fence", "expected"), [("membar.cta;", []), ("", [4])])
def test_a_flag_in_shared_memory_of_later_batches(fence, expected):
    """Threads of a CTA hand over through a flag that one thread has used alone, in whichever batch."""
    data, more = np.zeros(1024, np.uint32), np.zeros(1024, np.uint32)
    body = (
        "mov.u32 %r7, s; and.b32 %r10, %r9, 1; setp.eq.u32 %p4, %r1, 32; setp.eq.u32 %p5, %r10, 1; @%p5 st.shared.u32 [%r3+512], %r1;\n"
        "@%p8 st.shared.u32 [%r7+64], %r9;\n"
        f"@%p8 {fence or 'mov.u32 %r5, 0;'} @%p8 st.volatile.shared.u32 [%r7], 1;\n"
        "@!%p4 bra done; again: ld.volatile.shared.u32 %r4, [%r7]; setp.eq.u32 %p1, %r4, 0; @%p1 bra again; membar.cta;\n"
        "ld.shared.u32 %r5, [%r7+64]; done:"
    )
    kernel = warpsim.load(HEAD + body + "\nret;\n}\n")["k"]
    findings = kernel(6, 64, (data, more), checks="race", on_finding="collect", batch_threads=128).findings

    assert [f.line - FIRST for f in findings] == expected


@pytest.mark.parametrize(("mask", "expected"), [(0xFF, []), (0xF7, [(5, 1)])])
def test_what_some_lanes_know_is_released(mask, expected):
    """A lane releases what lanes of its warp wrote that it has met, and not what others wrote."""
    body = (
        "setp.ge.u32 %p7, %r1, 32; @%p7 bra consumer; setp.ge.u32 %p6, %r1, 8; @%p6 bra done; setp.eq.u32 %p5, %r1, 3;"
        f" setp.eq.u32 %p4, %r1, 5; mov.u32 %r10, {mask}; shr.b32 %r10, %r10, %r1; and.b32 %r10, %r10, 1; setp.eq.u32 %p3, %r10, 0;\n"
        "@%p5 st.global.u32 [%rd4], 7;\n"
        f"@%p3 bra done; bar.warp.sync {mask};\n"
        "@%p4 st.release.gpu.global.u32 [%rd2], 1; bra done;\n"
        "consumer: setp.ne.u32 %p4, %r1, 32; @%p4 bra done; again: ld.acquire.gpu.global.u32 %r4, [%rd2];"
        " setp.eq.u32 %p1, %r4, 0; @%p1 bra again;\n"
        "ld.global.u32 %r5, [%rd1+12]; done:"
    )

    assert races(body) == expected


def test_a_flag_that_is_only_read():
    """Whoever reads a flag behind a fence releases nothing: what the third thread acquires is what the second has released."""
    body = (
        "setp.eq.u32 %p7, %r9, 1; setp.eq.u32 %p6, %r9, 2; @!%p8 bra done; @%p7 bra consumer; @%p6 bra setter;\n"
        "st.global.u32 [%rd1], %r1;\n"
        "membar.gl; again: ld.volatile.global.u32 %r4, [%rd2]; setp.eq.u32 %p1, %r4, 0; @%p1 bra again;"
        " st.relaxed.gpu.global.u32 [%rd2+64], 1; bra done;\n"
        "setter: membar.gl; st.volatile.global.u32 [%rd2], 1; bra done;\n"
        "consumer: wait: ld.relaxed.gpu.global.u32 %r4, [%rd2+64]; setp.eq.u32 %p1, %r4, 0; @%p1 bra wait;"
        " ld.acquire.gpu.global.u32 %r4, [%rd2];\n"
        "ld.global.u32 %r5, [%rd1]; done:"
    )

    assert races(body, grid=3) == [(5, 1)]


def test_a_flag_of_each_cta():
    """CTAs that release flags of their own in one step; each reads what its neighbour has released."""
    body = (
        "setp.ne.u32 %p1, %r1, 0; @%p1 bra done; mul.wide.u32 %rd6, %r9, 4; add.u64 %rd7, %rd1, %rd6; add.u64 %rd8, %rd2, %rd6;\n"
        "st.global.u32 [%rd7+64], %r9;\n{}\n"
        "add.u32 %r10, %r9, 1; setp.eq.u32 %p2, %r10, 3; selp.b32 %r10, 0, %r10, %p2; mul.wide.u32 %rd6, %r10, 4;"
        " add.u64 %rd9, %rd2, %rd6; again: ld.acquire.gpu.global.u32 %r11, [%rd9]; setp.eq.u32 %p3, %r11, 0; @%p3 bra again;\n"
        "add.u64 %rd9, %rd1, %rd6; ld.global.u32 %r12, [%rd9+64]; done:"
    )

    assert races(body.format("st.release.gpu.global.u32 [%rd8], 1;"), grid=3) == []
    assert races(body.format("st.relaxed.gpu.global.u32 [%rd8], 1;"), grid=3) == [(4, 1)]


@pytest.mark.parametrize("pointer", ["mov.u64 %rd6, %rd1;", "cvta.to.global.u64 %rd6, %rd1;", "add.u64 %rd6, %rd1, 0;"])
def test_a_test_before_an_atomic_through_another_register(pointer):
    """A plain load that decides whether to try an atomic on the same word does no harm, by whatever register it names the word;
    one of another word races."""
    body = (
        pointer + "\nld.global.u32 %r4, [%rd6]; setp.ne.u32 %p1, %r4, 0; @%p1 bra done;\n"
        "atom.global.exch.b32 %r5, [%rd1], 1; st.global.u32 [%rd5], %r5;\ndone:"
    )

    assert races(body) == []
    assert races(body.replace("exch.b32 %r5, [%rd1]", "exch.b32 %r5, [%rd6+4]")) == []
    stored = body.replace("exch.b32 %r5, [%rd1]", "exch.b32 %r5, [%rd1+4]") + " st.global.u32 [%rd1], 1;"
    assert races(stored) != []


@pytest.mark.parametrize("values", ["%r10", "%r1"])
def test_a_store_that_ends_the_launch(values):
    """Of a store that both races and leaves its array, the lanes before the faulty ones write."""
    data = np.zeros(60, np.uint32)
    body = f"mov.u32 %r10, 5; and.b32 %r11, %r1, 63; mul.wide.u32 %rd6, %r11, 4; add.u64 %rd6, %rd1, %rd6;\nst.global.u32 [%rd6], {values};"
    with pytest.raises(warpsim.ExecutionError) as caught:
        warpsim.load(HEAD + body + "\nret;\n}\n")["k"](1, 128, (data, data), checks="all")

    assert caught.value.findings[0].rule == "out-of-bounds"
    assert data.tolist() == ([5] * 60 if values == "%r10" else list(range(60)))


GRID_3D = """mov.u32 %r4, %ctaid.y; mov.u32 %r5, %ctaid.z; mad.lo.u32 %r4, %r5, 3, %r4; mad.lo.u32 %r4, %r4, 2, %r9;
setp.eq.u32 %p1, %r4, 2; setp.eq.u32 %p2, %r4, 11; setp.eq.u32 %p3, %r1, 37; and.pred %p1, %p1, %p3; and.pred %p2, %p2, %p3;
"""


@pytest.mark.parametrize(
    ("stores", "other"),
    [
        ("or.pred %p1, %p1, %p2;\n@%p1 st.global.u32 [%rd1], %r4;", None),
        ("@%p2 st.global.u32 [%rd1], %r4;\n@%p1 st.global.u32 [%rd1], %r4;", (1, 2, 1)),
    ],
)
def test_who_races_in_a_grid_of_three_dimensions(stores, other):
    """Thread 37 of CTA (0, 1, 0) and of CTA (1, 2, 1) store to one word, in one instruction or in two; no others do."""
    kernel, data = warpsim.load(f"{HEAD}{GRID_3D}{stores}\nret;\n}}\n")["k"], np.zeros(1, np.uint32)
    (found,) = kernel((2, 3, 2), 64, (data, None), checks="race", on_finding="collect").findings

    assert (found.cta, found.warp, found.lanes) == ((0, 1, 0), 1, (5,))
    assert (found.other.cta, found.other.lanes) == (other, (5,) if other else ())


def test_a_store_that_changes_nothing_beside_one_that_does():
    """CTAs 0 and 1 store the same value to one word; what CTA 2 changes in the same instruction is a word of its own."""
    body = (
        "setp.ne.u32 %p1, %r1, 0; @%p1 bra done; setp.ne.u32 %p2, %r9, 0; setp.eq.u32 %p3, %r9, 2; mov.u32 %r4, 7;\n"
        "@!%p2 st.global.u32 [%rd1], %r4;\nadd.u64 %rd6, %rd1, 8; selp.b64 %rd7, %rd6, %rd1, %p3;\n@%p2 st.global.u32 [%rd7], {};\ndone:"
    )

    assert races(body.format("%r4"), grid=3) == []
    assert races(body.format("%r4"), grid=3, severity="note") == [(3, 1)]
    assert races(body.format("%r9"), grid=3) == [(3, 1)]


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("read", [0, 1])
def test_flags_whose_fences_lie_apart(late, read):
    """Two CTAs count two threads each at flags of their own, in one step; one has stored its data after its fence, and only
    its data race.
    """
    body = (
        "setp.ge.u32 %p1, %r1, 2; @%p1 bra done; setp.eq.u32 %p2, %r9, 2; @%p2 bra again;"
        f" setp.eq.u32 %p3, %r9, {late}; mul.wide.u32 %rd6, %r9, 4; add.u64 %rd8, %rd2, %rd6; mul.wide.u32 %rd6, %r9, 64; add.u64 %rd7, %rd4, %rd6;\n"
        "@%p3 membar.gl;\nst.global.u32 [%rd7], 5;\n@!%p3 membar.gl;\nred.relaxed.gpu.global.add.u32 [%rd8], 1; bra done;\n"
        f"again: ld.acquire.gpu.global.u32 %r4, [%rd2+{4 * read}]; setp.lt.u32 %p4, %r4, 2; @%p4 bra again;\n"
        f"ld.global.u32 %r5, [%rd1+{64 * read}]; done:"
    )

    assert races(body, grid=3) == ([(6, 2)] if read == late else [])


ONE_PLACE = pytest.mark.parametrize("index", ["0", "%r1"], ids=["uniform", "of lanes"])
"""All threads access one place: it is known to be the same for all, or each has computed its own."""


def at_one_place(body, index):
    """The races of these lines, in which %r21 is the address of one word."""
    address = f"popc.b32 %r20, {index}; shr.u32 %r20, %r20, 8; mov.u32 %r21, s; add.u32 %r21, %r21, %r20;\n"
    data = np.zeros(1024, np.uint32)
    result = warpsim.load(HEAD + address + body + "\nret;\n}\n")["k"](
        1, 128, (data, data), checks="race", on_finding="collect", engine="interpreter"
    )
    return result.findings


@ONE_PLACE
def test_all_lanes_that_take_part_are_named(index):
    """Of the lanes that access one place not only the first and the last, but not the one that wrote it."""
    write = "setp.eq.u32 %p1, %r1, 5; @%p1 st.shared.u32 [%r21], 1;"
    (read,) = at_one_place(f"{write} ld.shared.u32 %r5, [%r21];", index)
    (written,) = at_one_place("st.shared.u32 [%r21], %r1;", index)

    assert (read.warp, read.lanes) == (0, (*range(5), *range(6, 32)))
    assert (written.warp, written.lanes) == (0, tuple(range(32)))


@ONE_PLACE
def test_one_lane_that_stores_another_value(index):
    """Neither the first nor the last."""
    (found,) = at_one_place("set.eq.u32.u32 %r5, %r1, 7; st.shared.u32 [%r21], %r5;", index)

    assert (found.severity, found.lanes) == ("error", tuple(range(32)))


@ONE_PLACE
def test_readers_of_other_warps_are_kept(index):
    """The last warp orders its reads before its write, and not those of the others."""
    write = "setp.eq.u32 %p1, %r1, 127; @%p1 st.shared.u32 [%r21], 1;"
    (found,) = at_one_place(f"ld.shared.u32 %r5, [%r21]; bar.warp.sync -1; {write}", index)

    assert (found.other.cta, found.other.warp, found.other.lanes) == ((0, 0, 0), 0, (0,))


@ONE_PLACE
def test_readers_between_those_that_meet(index):
    """The first and the last warp meet before one of them writes; the others have read the place, too."""
    meet = "setp.lt.u32 %p1, %r1, 32; setp.ge.u32 %p2, %r1, 96; or.pred %p1, %p1, %p2; @%p1 bar.sync 1, 64;"
    write = "setp.eq.u32 %p3, %r1, 127; @%p3 st.shared.u32 [%r21], 1;"
    (found,) = at_one_place(f"ld.shared.u32 %r5, [%r21]; {meet} {write}", index)

    assert found.other.warp in (1, 2)


@pytest.mark.parametrize("memory", ["shared", "global"])
def test_those_between_who_have_not_met_the_writer(memory):
    """The first, the second and the last warp meet after a write by the second; the third reads the place without."""
    place = "mov.u32 %r21, s; cvt.u64.u32 %rd6, %r21;" if memory == "shared" else "mov.u64 %rd6, %rd1;"
    write = f"{place} setp.eq.u32 %p3, %r1, 32; @%p3 st.{memory}.u32 [%rd6], 1;"
    meet = "setp.lt.u32 %p1, %r1, 64; setp.ge.u32 %p2, %r1, 96; or.pred %p1, %p1, %p2; @%p1 bar.sync 1, 96;"
    (found,) = at_one_place(f"{write} {meet} ld.{memory}.u32 %r5, [%rd6];", "0")

    assert (found.warp, found.lanes) == (2, tuple(range(32)))

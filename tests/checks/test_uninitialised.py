"""uninitialised: bytes of memory that nobody wrote, reported where they matter, with the load they came from."""

import numpy as np
import pytest

import warpsim
from ptx_text import module_head

HEAD = (
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b)\n{\n"
    ".reg .b16 %h<9>; .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .pred %p<9>; .reg .f32 %f<20>;\n"
    ".shared .align 16 .b32 s[256]; .local .align 16 .b32 t[16];\n"
    "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, s;\n"
    "add.u32 %r3, %r3, %r2; cvt.u64.u32 %rd3, %r2; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;\n"
)
FIRST = HEAD.count("\n") + 1


def findings(body, n=32, grid=1, a=None, b=None, device=None, target="sm_80"):
    """(line of the body, line of the load) of each finding of these lines, by default checks."""
    data = np.zeros(256, np.uint32)
    result = warpsim.load(HEAD.replace("sm_80", target) + body + "\nret;\n}\n")["k"](
        grid, n, (data if a is None else a, data if b is None else b), on_finding="collect", device=device
    )
    assert {f.rule for f in result.findings} <= {"uninitialised"}
    return [(f.line - FIRST, f.other.line - FIRST if f.other else None, f.lanes) for f in result.findings]


ALL = tuple(range(32))
WRITE = "st.shared.u32 [%r3], %r1; bar.sync 0;"


@pytest.mark.parametrize(
    "use",
    [
        "st.global.u32 [%rd4], %r4;",
        "cvt.u64.u32 %rd6, %r4; add.u64 %rd6, %rd6, %rd1; ld.global.u8 %r5, [%rd6];",
        "setp.eq.u32 %p1, %r4, 3; @%p1 bra done; st.global.u32 [%rd4], %r1; done:",
        "red.global.add.u32 [%rd4], %r4;",
        "mov.u32 %r5, 7; setp.eq.u32 %p1, %r4, 3; @%p1 st.global.u32 [%rd4], %r5;",
        "xor.b32 %r5, %r4, 1; shl.b32 %r5, %r5, 3; add.s32 %r5, %r5, 1; st.global.u32 [%rd4], %r5;",
        "shfl.sync.bfly.b32 %r5, %r4, 1, 31, -1; st.global.u32 [%rd4], %r5;",
        "mov.b64 %rd6, {%r1, %r4}; mov.b64 {%r6, %r7}, %rd6; st.global.u32 [%rd4], %r7;",
        "brev.b32 %r5, %r4; shr.u32 %r5, %r5, 31; setp.ne.u32 %p1, %r5, 0; @%p1 st.global.u32 [%rd4], %r1;",
        "st.shared.u32 [%r3+128], %r4; ld.shared.u32 %r5, [%r3+128]; st.global.u32 [%rd4], %r5;",
        "st.local.u32 [t], %r4; ld.local.u32 %r5, [t]; st.global.u32 [%rd4], %r5;",
    ],
)
def test_shared_memory_where_it_matters(use):
    """An unwritten word of shared memory is reported at the use, the load is the other party; a store before is silent."""
    (found,) = findings(f"ld.shared.u32 %r4, [%r3];\n{use}")

    assert (found[0], found[2]) == (1, ALL)
    assert findings(f"{WRITE}\nld.shared.u32 %r4, [%r3];\n{use}") == []


@pytest.mark.parametrize(
    "use",
    [
        "st.shared.u32 [%r3+512], %r4;",
        "add.u32 %r5, %r4, 1; mov.u32 %r4, 7; st.global.u32 [%rd4], %r4;",
        "setp.ge.u32 %p1, %r1, 0; selp.u32 %r5, %r1, %r4, %p1; st.global.u32 [%rd4], %r5;",
        "and.b32 %r5, %r4, 0; st.global.u32 [%rd4], %r5;",
        "mov.b64 %rd6, {%r1, %r4}; mov.b64 {%r6, %r7}, %rd6; st.global.u32 [%rd4], %r6;",
        "prmt.b32 %r5, %r4, %r1, 0x7654; st.global.u32 [%rd4], %r5;",
        "slct.u32.s32 %r5, %r1, %r4, 5; st.global.u32 [%rd4], %r5;",
        "and.b32 %r5, %r4, 1; brev.b32 %r5, %r5; and.b32 %r5, %r5, 1; setp.ne.u32 %p1, %r5, 0; @%p1 st.global.u32 [%rd4], %r1;",
        "st.shared.u32 [%r3+512], %r4; st.shared.u32 [%r3+512], %r1; ld.shared.u32 %r5, [%r3+512]; st.global.u32 [%rd4], %r5;",
    ],
)
def test_copies_alone_are_silent(use):
    """Moving undefined bits, dropping them or masking them off is no fault."""
    assert findings(f"ld.shared.u32 %r4, [%r3];\n{use}") == []


def test_a_conversion_of_narrow_numbers_computes():
    """One undefined bit of a number in a narrow format leaves no bit of its value defined."""
    bit = "ld.shared.u32 %r4, [%r3];\nand.b32 %r4, %r4, 1; or.b32 %r4, %r4, 0x38; mov.b32 {%h1, %h2}, %r4;"
    use = (
        "cvt.rn.f16x2.e4m3x2 %r5, %h1; and.b32 %r5, %r5, 0x80; setp.ne.u32 %p1, %r5, 0; @%p1 st.global.u32 [%rd4], %r1;"
    )
    (found,) = findings(bit + use, target="sm_90")

    assert (found[0], found[2]) == (1, ALL)


def test_only_the_lanes_that_read_unwritten_bytes():
    """Half a warp writes; the other half is reported."""
    half = "setp.lt.u32 %p1, %r1, 16; @%p1 st.shared.u32 [%r3], %r1;"

    assert findings(f"{half} ld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd4], %r4;") == [(1, 0, ALL[16:])]


def test_the_origin_is_the_lanes_whose_load_found_nothing():
    """The other party of a finding is not all that load: CTA 0 has written before it, and half of CTA 1."""
    text = f"""{HEAD}mov.u32 %r6, %ctaid.x; setp.eq.u32 %p1, %r6, 0; setp.lt.or.u32 %p1, %r1, 16, %p1; @%p1 st.shared.u32 [%r3], %r1;
ld.shared.u32 %r4, [%r3]; st.global.u32 [%rd4], %r4; ret; }}"""
    (found,) = warpsim.load(text)["k"](2, 32, [np.zeros(256, np.uint32)] * 2, on_finding="collect").findings

    assert (found.cta, found.lanes) == (found.other.cta, found.other.lanes) == ((1, 0, 0), ALL[16:])


@pytest.mark.parametrize(
    "load",
    [
        "setp.gt.u32 %p1, %r1, 40; @%p1 ld.shared.u32 %r4, [%r3]; @%p1 st.global.u32 [%rd4], %r4;",
        "add.u32 %r6, %r3, %r2; setp.gt.u32 %p1, %r1, 40; @%p1 st.shared.u32 [%r6], %r1; @!%p1 st.shared.u32 [%r6+4], %r1;"
        "ld.shared.v2.u32 {%r5, %r4}, [%r6]; add.u32 %r4, %r4, 1; st.global.u32 [%rd4], %r4;",
        "add.u32 %r6, %r3, %r2; setp.gt.u32 %p1, %r1, 40; @!%p1 st.shared.u32 [%r6], %r1; @%p1 ld.shared.u32 %r4, [%r6];"
        "@!%p1 ld.shared.v2.u32 {%r4, %r5}, [%r6]; add.u32 %r4, %r4, 1; st.global.u32 [%rd4], %r4;",
    ],
)
def test_the_origin_is_the_lanes_that_loaded_this(load):
    """Nor those that did not load, whose register nothing wrote or an earlier load; nor those that found nothing for another one."""
    (found,) = warpsim.load(f"{HEAD}{load} ret; }}")["k"](
        1, 64, [np.zeros(256, np.uint32)] * 2, on_finding="collect"
    ).findings

    assert (found.warp, found.lanes) == (found.other.warp, found.other.lanes) == (1, ALL[9:])


def test_what_is_exchanged_replaces_what_was_there():
    """Memory that nobody wrote is as the operand of each lane is: half of them have read too far."""
    body = "ld.shared.u32 %r4, [s+512]; setp.lt.u32 %p1, %r1, 16; selp.u32 %r4, %r4, 5, %p1; atom.shared.exch.b32 %r5, [%r3], %r4;"

    assert findings(f"{body} ld.shared.u32 %r6, [%r3];\nst.global.u32 [%rd4], %r6;") == [(1, 0, ALL[:16])]


def test_after_lanes_diverge_and_meet():
    """Shadows follow registers through branches."""
    body = (
        "ld.shared.u32 %r4, [%r3]; setp.lt.u32 %p1, %r1, 8; @%p1 bra low; mov.u32 %r4, 1; low:\n"
        "add.u32 %r4, %r4, 1; st.global.u32 [%rd4], %r4;"
    )

    assert findings(body) == [(1, 0, ALL[:8])]


def test_padding_of_structures_may_be_copied():
    """A word of which only some bytes were written may go to global memory, and one loaded in a row with a written one."""
    some = "st.shared.u8 [%r3], %r1; ld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd4], %r4;"
    row = "and.b32 %r5, %r3, -8; st.shared.u32 [%r5], %r1; ld.shared.u32 %r4, [%r5+4];{}\nst.global.u32 [%rd4], %r4;"

    assert findings(some) == []
    assert findings(row.format(" ld.shared.u32 %r6, [%r5];")) == []  # two words of one structure
    assert findings(row.format("")) == [(1, 0, ALL)]
    assert findings("st.shared.u8 [%r3], %r1; ld.shared.u8 %r4, [%r3+1];\nst.global.u8 [%rd4], %r4;") == [(1, 0, ALL)]


BESIDE = "shl.b32 %r6, %r1, 3; mov.u32 %r7, s; add.u32 %r7, %r7, %r6; st.shared.u32 [%r7+512], %r1;"
TOGETHER = "ld.shared.v2.u32 {%r8, %r9}, [%r7+512];\nadd.s64 %rd5, %rd4, %rd3; st.global.v2.u32 [%rd5], {%r8, %r9};"


@pytest.mark.parametrize(
    ("store", "silent"),
    [
        ("ld.shared.u32 %r4, [%r3]; st.shared.u32 [%r7+516], %r4;", False),
        ("add.u32 %r4, %r1, %r5; st.shared.u32 [%r7+516], %r4;", False),
        ("add.u32 %r4, %r1, %r5; mov.b32 %r10, %r4; st.shared.u32 [%r7+516], %r10;", False),
        ("prmt.b32 %r4, %r5, %r1, 0x7604; st.shared.u32 [%r7+516], %r4;", True),  # as nvcc stores a byte and padding
        ("mov.b32 %r4, %r5; st.shared.u32 [%r7+516], %r4;", True),
        ("st.shared.u32 [%r7+516], %r4; st.shared.u32 [%r7+516], %r1;", True),
        ("ld.shared.v2.u32 {%r4, %r5}, [%r7+512]; st.shared.v2.u32 [%r7+512], {%r4, %r5};", True),
        ("st.shared.u8 [%r7+516], %r4;", True),
        ("", True),
    ],
)
def test_padding_of_structures_is_stored_by_nobody(store, silent):
    """What a store has left undefined beside defined words is no padding, if it was none before. Single bytes may be, and what is only
    moved from a register that nobody wrote."""
    found = findings(f"{BESIDE} {store}\n{TOGETHER}")
    local = f"st.local.u32 [t], %r1; {store} ld.local.v2.u32 {{%r8, %r9}}, [t];\nst.global.v2.u32 [%rd4], {{%r8, %r9}};"
    alone = (
        findings(local.replace(".shared.u32 [%r7+516]", ".local.u32 [t+4]"), n=1) if ".shared.u32 [%r7" in store else []
    )

    assert [line for line, _, _ in found] == [2] * (not silent)
    assert [line for line, _, _ in alone] == [1] * (not silent)


PART = f"{BESIDE} ld.shared.v2.u32 {{%r8, %r9}}, [%r7+512]; add.s64 %rd5, %rd4, %rd3; setp.lt.u32 %p1, %r1, 16;"


@pytest.mark.parametrize(
    ("step", "lanes"),
    [
        ("mov.u32 %r9, 3;", ()),
        ("mov.u32 %r9, %r9;", ()),
        ("ld.shared.v2.u32 {%r8, %r9}, [%r7+512];", ()),
        ("add.u32 %r9, %r9, 1;", ALL[:16]),
        ("ld.shared.u32 %r9, [%r7];", ALL[:16]),
    ],
)
def test_padding_where_other_lanes_write(step, lanes):
    """It stays padding in lanes that take no part in a step."""
    found = findings(f"{PART} @%p1 {step} st.global.v2.u32 [%rd5], {{%r8, %r9}};")

    assert [where for _, _, where in found] == [lanes] * bool(lanes)


def test_padding_beside_what_is_always_the_same():
    """That what other lanes store there is the same in all runs with other values says nothing of padding, which may differ."""
    assert findings(f"{PART} @%p1 sub.u32 %r9, %r4, %r4; st.global.v2.u32 [%rd5], {{%r8, %r9}};") == []


@pytest.mark.parametrize(
    ("first", "expected"), [("[%r11]", []), ("[%r13+4]", []), ("[%r11+16]", [ALL]), ("[%r15]", [ALL])]
)
def test_padding_behind_another_base(first, expected):
    """As nvcc -G copies structures: a base is another one plus a constant."""
    bases = "add.u32 %r11, %r7, 512; add.u32 %r12, %r11, -4; add.u32 %r13, %r12, 0; add.u32 %r15, %r11, 64;"
    loads = f"ld.shared.u32 %r8, {first}; ld.shared.u32 %r9, [%r12+8]; add.s64 %rd5, %rd4, %rd3;"
    found = findings(f"{BESIDE} {bases} {loads} add.u32 %r15, %r11, 0; st.global.u32 [%rd5+4], %r9;")

    assert [lanes for _, _, lanes in found] == expected


def test_a_byte_with_padding():
    """What is above a byte is undefined as before if something is added to the byte, and does not matter to a store of the byte."""
    load = "mov.u32 %r6, 0; st.shared.u8 [%r3], %r1; ld.shared.u32 %r4, [%r3];"
    for step in ("add.u32 %r5, %r4, %r1;", "max.u32 %r5, %r4, %r6;"):
        for store, expected in (("u8", []), ("u16", [(0, 0, ALL)])):
            assert findings(f"{load} {step} st.global.{store} [%rd4], %r5;") == expected, (step, store)


@pytest.mark.parametrize("index", ["t", "t+4"])
def test_local_array(index):
    """An element of a local array that was not written."""
    body = f"st.local.u32 [t], %r1; ld.local.u32 %r4, [{index}];\nst.global.u32 [%rd4], %r4;"

    assert findings(body) == ([] if index == "t" else [(1, 0, ALL)])


def test_matrix_operand():
    """Unwritten shared memory that ldmatrix brings into a product."""
    multiply = (
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r8]; mov.b32 %r9, 0; mov.f32 %f1, 0f00000000;\n"
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2,%f3,%f4,%f5}, {%r4,%r5,%r6,%r7}, {%r9,%r9}, {%f1,%f1,%f1,%f1}; st.global.f32 [%rd4], %f2;"
    )
    rows = "mov.u32 %r8, s; shl.b32 %r10, %r1, 4; add.u32 %r8, %r8, %r10; mov.u32 %r11, 0;"
    full = rows + "st.shared.v4.u32 [%r8], {%r11, %r11, %r11, %r11}; bar.sync 0;"
    some = rows + "st.shared.v2.u32 [%r8], {%r11, %r11}; bar.sync 0;"

    assert {line for line, _, _ in findings(some + multiply)} == {1}
    assert findings(full + multiply) == []


def test_device_memory():
    """device.empty is memory that nothing has written, until a kernel or set() writes it."""
    device = warpsim.Device("sm_80")
    fresh = device.empty(32, np.uint32)
    copy = "ld.global.u32 %r4, [%rd4];\nst.global.u32 [%rd5], %r4;"

    assert findings(copy, a=fresh, device=device) == [(1, 0, ALL)]
    fresh.set(np.zeros(32))
    assert findings(copy, a=fresh, device=device) == []
    fresh = device.empty(32, np.uint32)
    assert findings("st.global.u32 [%rd4], %r1;" + copy, a=fresh, device=device) == []
    assert findings(copy, a=fresh, device=device) == []


def test_atomic_on_unwritten_memory():
    """An atomic leaves unwritten memory undefined; an exchange writes it."""
    use = "ld.shared.u32 %r5, [%r3];\nst.global.u32 [%rd4], %r5;"

    assert findings("red.shared.add.u32 [%r3], 1;" + use) == [(1, 0, ALL)]
    assert findings("atom.shared.exch.b32 %r6, [%r3], %r1;" + use) == []


def test_cp_async_passes_undefined_bytes_on():
    """A copy of unwritten global memory is found when it is used."""
    device = warpsim.Device("sm_80")
    body = (
        "cp.async.ca.shared.global [%r3], [%rd4], 4; cp.async.wait_all; ld.shared.u32 %r4, [%r3];\n"
        "st.global.u32 [%rd5], %r4;"
    )

    assert findings(body, a=device.empty(32, np.uint32), device=device) == [(1, 0, ALL)]
    assert findings(body, a=device.array(np.zeros(32, np.uint32)), device=device) == []


@pytest.mark.parametrize(("written", "expected"), [(32, []), (31, [(3, 2, (31,))])])
def test_cp_async_by_a_number_of_bytes(written, expected):
    """CTAs that copy, and CTAs that only fill with zeros (src-size 0), each lane its own place."""
    device = warpsim.Device("sm_80")
    fresh = device.empty(32, np.uint32)
    warpsim.load(HEAD + f"setp.lt.u32 %p1, %r1, {written};\n@%p1 st.global.u32 [%rd4], %r1; ret;\n}}\n")["k"](
        1, 32, (fresh, fresh), device=device
    )
    body = (
        "mov.u32 %r9, %ctaid.x; setp.eq.u32 %p1, %r9, 0; selp.b32 %r8, 4, 0, %p1; \n"
        "cp.async.ca.shared.global [%r3], [%rd4], 4, %r8; cp.async.wait_all;\n"
        "ld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd5], %r4;"
    )

    assert findings(body, grid=2, a=fresh, device=device) == expected


@pytest.mark.parametrize("name", ["transpose", "reduce_shfl", "histogram", "mma_f16_gemm", "softmax_rows"])
def test_recorded_kernels_are_silent(ablation, name):
    """Correct programs break no rule."""
    assert ablation.findings(name, "init") == []


@pytest.mark.parametrize(
    ("name", "taken", "reported"),
    [
        ("transpose", "st.shared.f32 \t[%r7+1056]", "st.global.f32"),
        ("reduce_shfl", "st.shared.f32 \t[%r61]", "red.global|atom.global|st.global|bra"),
        ("histogram", "st.shared.u32 \t[%r16]", "bra|atom.global"),
        ("mma_f16_gemm", "cp.async.cg.shared.global [%r36]", "st.global"),
    ],
)
def test_a_store_taken_out(ablation, name, taken, reported):
    """Each store to shared memory that is taken out is found where the unwritten value matters."""
    lines = ablation.lines(name, taken)
    assert lines
    found = ablation.findings(name, "init", removed=lines)
    allowed = {line for text in reported.split("|") for line in ablation.lines(name, text)}

    assert found
    assert {f[0] for f in found} == {"uninitialised"}
    assert {f[2] for f in found} <= allowed


COLLECTIVES = {
    "shfl": ("shfl.sync.bfly.b32 %r5, %r4, 4, 31, -1;", ALL[16:]),
    "vote": ("setp.eq.u32 %p2, %r4, 40; vote.sync.any.pred %p3, %p2, -1; selp.u32 %r5, 1, 0, %p3;", ALL),
    "redux": ("redux.sync.add.u32 %r5, %r4, -1;", ALL),
}


@pytest.mark.parametrize("two", [False, True], ids=["at one place", "at two places"])
@pytest.mark.parametrize(("collective", "lanes"), COLLECTIVES.values(), ids=COLLECTIVES)
def test_what_lanes_exchange(collective, lanes, two):
    """A register that lanes 16 to 31 have not written, wherever they bring it to the collective."""
    split = f"@%p1 bra low; {collective} bra met; low: {collective} met:" if two else collective
    body = f"setp.lt.u32 %p1, %r1, 16; @%p1 mov.u32 %r4, %r1; {split} st.global.u32 [%rd4], %r5;"

    assert [found[2] for found in findings(body)] == [lanes]
    assert findings(body.replace("@%p1 mov", "mov")) == []


UNLIKE = {
    "their lanes": ("shfl.sync.bfly.b32 %r5, %r4, 4, 31, -1;", "shfl.sync.bfly.b32 %r5, %r4, 8, 31, -1;", ALL[16:]),
    "one constant": ("shfl.sync.bfly.b32 %r5, %r4, 16, 31, -1;", "shfl.sync.bfly.b32 %r5, 7, 16, 31, -1;", ALL[:16]),
    "the other constant": ("shfl.sync.bfly.b32 %r5, 7, 16, 31, -1;", "shfl.sync.bfly.b32 %r5, %r4, 16, 31, -1;", ()),
    "a mask in a register": ("mov.u32 %r8, -1; redux.sync.add.u32 %r5, %r4, %r8;", "redux.sync.add.u32 %r5, %r4, -1;", ALL),
    "a predicate and its opposite": (
        "setp.eq.u32 %p2, %r4, 40; vote.sync.ballot.b32 %r5, !%p2, -1;",
        "setp.eq.u32 %p2, %r4, 40; vote.sync.ballot.b32 %r5, %p2, -1;",
        ALL,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("high", "low", "lanes"), UNLIKE.values(), ids=UNLIKE)
def test_what_lanes_exchange_at_unlike_places(high, low, lanes):
    """A register that lanes 16 to 31 have not written, at two places whose operands differ in a constant."""
    body = f"setp.lt.u32 %p1, %r1, 16; @%p1 mov.u32 %r4, %r1; @%p1 bra low; {high} bra met; low: {low} met: st.global.u32 [%rd4], %r5;"

    assert [found[2] for found in findings(body)] == [lanes] * bool(lanes)
    assert findings(body.replace("@%p1 mov", "mov")) == []


@pytest.mark.parametrize("data", ["7", "%r8"])
def test_a_register_in_two_roles(data):
    """Data that lanes 0 to 15 have not written, in the register by which others name a lane."""
    high, low = f"shfl.sync.idx.b32 %r5, {data}, %r8, 31, -1;", "shfl.sync.idx.b32 %r5, %r8, %r7, 31, -1;"
    body = (
        "setp.lt.u32 %p1, %r1, 16; mov.u32 %r7, 17; @!%p1 mov.u32 %r8, 3; @%p1 bra low;"
        f"{high} bra met; low: {low} met: st.global.u32 [%rd4], %r5;"
    )

    assert [found[2] for found in findings(body)] == [ALL[16:]]
    assert findings(body.replace("@!%p1 mov", "mov")) == []


COPIES = {
    "shared": "st.shared.u32 [%r3], %r9;\nbar.sync 0; ld.shared.u32 %r4, [%r3]; st.global.u32 [%rd4], %r4;",
    "local": "st.local.u32 [t], %r9;\nld.local.u32 %r4, [t]; st.global.u32 [%rd4], %r4;",
    "a vector": "st.shared.v2.u32 [s], {%r1, %r9};\nbar.sync 0; ld.shared.u32 %r4, [s+4]; st.global.u32 [%rd4], %r4;",
    "generic": "cvt.u64.u32 %rd6, %r3; cvta.shared.u64 %rd6, %rd6; st.u32 [%rd6], %r9;\nld.u32 %r4, [%rd6]; st.global.u32 [%rd4], %r4;",
    "twice": "st.shared.u32 [%r3], %r9;\nld.shared.u32 %r4, [%r3]; st.local.u32 [t], %r4; ld.local.u32 %r5, [t]; st.global.u32 [%rd4], %r5;",
    "others": "ld.shared.u32 %r7, [s+512]; st.shared.u32 [%r3], %r9;\nst.local.u32 [t], %r7; ld.shared.u32 %r4, [%r3]; st.global.u32 [%rd4], %r4;",
}


@pytest.mark.parametrize("body", COPIES.values(), ids=COPIES)
def test_a_register_that_goes_through_memory(body):
    """The finding names the register that nothing wrote, and the store that copied it to memory."""
    data = np.zeros(256, np.uint32)
    with pytest.raises(warpsim.ExecutionError) as caught:
        warpsim.load(HEAD + body + "\nret;\n}\n")["k"](1, 32, (data, data))
    found = caught.value.findings[0]

    assert (found.rule, found.line - FIRST, found.other.line - FIRST) == ("uninitialised", 1, 0)
    assert "holds what comes from register %r9, which was never written" in found.message
    assert data.tolist() == [0] * 256


def test_undefined_data_for_another_cta():
    """st.async of undefined data runs like any other: it has operands that an ordinary store has not."""
    body = (
        ".shared .align 8 .b64 o; .shared .align 16 .b32 to[32]; .reg .b32 %at, %bar;\n"
        "mov.u32 %bar, o; mov.u32 %at, to; mbarrier.init.shared.b64 [%bar], 1; fence.mbarrier_init.release.cluster;\n"
        "ld.shared.u32 %r4, [%r3];\n"
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%at], %r4, [%bar];\n"
    )
    head = HEAD.replace(".version 8.0\n.target sm_80", ".version 8.1\n.target sm_90")
    result = warpsim.load(head + body + "ret;\n}\n")["k"](1, 1, (np.zeros(256, np.uint32),) * 2, checks="all")

    assert {f.rule for f in result.findings} == set()


@pytest.mark.parametrize(
    "load",
    [
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4,%r5,%r6,%r7}, [%r3];",
        "ldmatrix.sync.aligned.m8n8.x4.b16 {%r4,%r5,%r6,%r7}, [%rd1];",
    ],
)
def test_rows_that_nobody_wrote(load):
    """ldmatrix brings undefined bits to a product, by shared and by generic addresses."""
    text = f""".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{
    .reg .b32 %r<40>; .reg .b64 %rd<9>; .shared .align 128 .b8 s[512];
    mov.u32 %r1, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r1, 4; add.u32 %r3, %r3, %r2; cvt.u64.u32 %rd1, %r3;
    cvta.shared.u64 %rd1, %rd1; WRITE
    {load}
    mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {{%r10,%r11}}, {{%r4,%r5,%r6,%r7}}, {{%r1,%r1}}, {{%r1,%r1}};
    ld.param.u64 %rd2, [p]; st.global.u32 [%rd2], %r10;
    ret;\n}}"""
    found = []
    for write in ("", "st.shared.v4.b32 [%r3], {%r1,%r1,%r1,%r1}; bar.sync 0;"):
        kernel = warpsim.load(text.replace("WRITE", write))["k"]
        result = kernel((1,), (32,), (np.zeros(4, np.uint32),), on_finding="collect")
        found.append([(f.rule, f.line) for f in result.findings])

    assert found == [[("uninitialised", 11)], []]


@pytest.mark.parametrize(("written", "expected"), [(16, []), (15, [("uninitialised", 10)])])
def test_lanes_that_take_no_part(written, expected):
    """The result of a warp is undefined with the lanes that take part in it, and not with others."""
    text = f""".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{
    .reg .b32 %r<9>; .reg .b64 %rd; .reg .pred %p, %q; .shared .b32 s[32];
    ld.param.u64 %rd, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, s; mad.lo.u32 %r2, %r1, 4, %r2;
    setp.lt.u32 %q, %r1, {written}; @%q st.shared.u32 [%r2], %r1; ld.shared.u32 %r3, [%r2];
    setp.ge.u32 %p, %r1, 16; @%p bra END; redux.sync.add.u32 %r4, %r3, 0xFFFF;
    st.global.u32 [%rd], %r4;\nEND: ret;\n}}"""
    result = warpsim.load(text)["k"]((1,), (32,), (np.zeros(4, np.uint32),), on_finding="collect")

    assert [(f.rule, f.line) for f in result.findings] == expected


SAME = (
    module_head()
    + ".visible .entry k(.param .u64 p, .param .u64 o)\n{\n.reg .b32 %r<9>; .reg .b64 %rd<9>; ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [o]; mov.u32 %r1, 7;\n"
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("atom.global.exch.b32 %r3, [%rd1], %r1;\nld.global.u32 %r2, [%rd1];", []),
        ("atom.global.add.u32 %r2, [%rd1], %r1;\n", [("uninitialised", 9)]),
        ("red.global.add.u32 [%rd1], %r1;\nld.global.u32 %r2, [%rd1];", [("uninitialised", 9)]),
        (
            "stacksave.u64 %rd5; alloca.u64 %rd3, 16; st.local.u32 [%rd3], %r1; ld.local.u32 %r2, [%rd3];\n"
            "stackrestore.u64 %rd5; alloca.u64 %rd3, 16;",
            [],
        ),
        (
            "stacksave.u64 %rd5; alloca.u64 %rd3, 16; st.local.u32 [%rd3], %r1;\n"
            "stackrestore.u64 %rd5; alloca.u64 %rd3, 16; ld.local.u32 %r2, [%rd3];",
            [("uninitialised", 9)],
        ),
    ],
)
def test_memory_that_is_given_empty(body, expected):
    """Global memory of the device and a stack that grows hold nothing; an exchange writes, an addition does not."""
    module = warpsim.load(SAME + body + "\nst.global.u32 [%rd2], %r2; ret; }\n")
    empty = module.device.empty((64,), np.uint32)
    result = module["k"]((1,), (1,), (empty, np.zeros(64, np.uint32)), on_finding="collect")

    assert [(f.rule, f.line) for f in result.findings] == expected


@pytest.mark.parametrize(
    "place", ["xor.b32 %r3, %r1, 5;", "mov.u32 %r3, %r1;", "sub.u32 %r3, 31, %r1;", "shr.u32 %r3, %r1, 31;"]
)
def test_stores_write_where_they_go(place):
    """A store in any order of the lanes, or of all to one place, writes these words and no others."""
    body = (
        f"mov.u32 %r4, %tid.x; mov.u32 %r1, %r4; {place} mul.wide.u32 %rd3, %r3, 4; add.u64 %rd4, %rd1, %rd3;\n"
        "st.global.u32 [%rd4], %r4; ld.global.u32 %r2, [%rd4];\n"
    )
    for use, expected in (("", []), ("ld.global.u32 %r2, [%rd1+128];", [("uninitialised", 10)])):
        module = warpsim.load(SAME + body + use + "\nst.global.u32 [%rd2], %r2; ret; }\n")
        empty = module.device.empty((64,), np.uint32)
        result = module["k"]((1,), (32,), (empty, np.zeros(64, np.uint32)), on_finding="collect", checks="default-race")
        assert [(f.rule, f.line) for f in result.findings] == expected


def test_padding_where_another_call_has_stored():
    """What a function leaves in its local memory is not there any more when it is called again."""
    text = (
        HEAD.replace(
            ".visible .entry",
            """.func f(.param .u64 to, .param .u32 first) {
.reg .b64 %to; .reg .b32 %x<4>; .reg .pred %q; .local .align 8 .b32 v[2];
ld.param.u64 %to, [to]; ld.param.u32 %x1, [first]; st.local.u32 [v], 5; setp.ne.u32 %q, %x1, 0;
@%q add.u32 %x2, %x3, 1; @%q st.local.u32 [v+4], %x2; @%q ret;
ld.local.v2.u32 {%x1, %x2}, [v]; st.global.v2.u32 [%to], {%x1, %x2}; ret; }
.visible .entry""",
        )
        + "call f, (%rd1, 1); call f, (%rd1, 0); ret; }"
    )
    result = warpsim.load(text)["k"](1, 1, [np.zeros(8, np.uint32)] * 2, on_finding="collect")

    assert result.findings == ()

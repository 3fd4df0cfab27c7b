"""Undefined values that reach a result, and such that do not: six sources, and for each five uses of either kind."""

import itertools

import numpy as np
import pytest

import warpsim
from docs.tools import faulty

SOURCES = {
    "a register": "",
    "shared memory": "ld.shared.u32 %r4, [%own];",
    "local memory": ".local .b32 mine[1]; ld.local.u32 %r4, [mine];",
    "some lanes": "@%low mov.u32 %r4, %t;",
    "a shuffle": "ld.shared.u32 %r6, [%own]; shfl.sync.bfly.b32 %r4, %r6, 1, 31, -1;",
    "a sum": "ld.shared.u32 %r6, [%own]; add.u32 %r4, %r6, %t;",
}
LOOP = "and.b32 %r6, %r4, 7; mov.u32 %r5, 0;\nL: add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r6;\n@%p1 bra L; // here\n"
BRANCH = "mov.u32 %r5, 1; setp.gt.s32 %p1, %r4, 100;\n@%p1 bra E; // here\nmov.u32 %r5, 2; E:\n"
REACH = {
    "a store": "st.global.u32 [%at], %r4; // here\n",
    "an address": "and.b32 %r5, %r4, 60; cvt.u64.u32 %x1, %r5; add.u64 %x1, %x1, %a;\nld.global.u32 %r6, [%x1]; // here\n",
    "a branch": BRANCH + "st.global.u32 [%at], %r5;\n",
    "a guard": "setp.gt.s32 %p1, %r4, 100; add.u32 %r5, %t, 9;\n@%p1 st.global.u32 [%at], %r5; // here\n",
    "a loop": LOOP + "st.global.u32 [%at], %r5;\n",
}
DO_NOT = {
    "a sum that cancels": "add.u32 %r5, %r4, %t; sub.u32 %r5, %r5, %r4; st.global.u32 [%at], %r5;\n",
    "a branch": BRANCH + "st.global.u32 [%at], %t;\n",
    "a vote": "setp.gt.s32 %p1, %r4, 100; vote.sync.ballot.b32 %r5, %p1, -1; and.b32 %r5, %r5, 0; st.global.u32 [%at], %r5;\n",
    "shared memory": "st.shared.u32 [%own+2048], %r4; st.global.u32 [%at], %t;\n",
    "a loop": LOOP + "st.global.u32 [%at], %t;\n",
    "a store that is replaced": "st.global.u32 [%at], %r4; st.global.u32 [%at], %t;\n",
}


def pairs(uses):
    """Each source with each use; those of two sources run by default."""
    default = "shared memory", "some lanes"
    return [
        pytest.param(source, use, marks=[] if source in default else [pytest.mark.long])
        for source, use in itertools.product(SOURCES, uses)
    ]


def found(source, use):
    """(line, severity) of each finding, and the line of the mark."""
    example = faulty.Example.of(SOURCES[source] + "\n" + use, "")
    text = example.module()
    data = np.zeros(4096, np.uint32)
    tensor = warpsim.TensorMap(data, global_dim=[32, 16], global_strides=[128], box_dim=[32, 16])
    findings = warpsim.load(text)["k"](1, 32, (data, data, tensor), on_finding="collect").findings
    assert {f.rule for f in findings} <= {"uninitialised"}
    marks = [number for number, line in enumerate(text.split("\n"), 1) if line.endswith("// here")]
    return [(f.line, f.severity) for f in findings], marks


@pytest.mark.parametrize(("source", "use"), pairs(REACH))
def test_what_reaches_a_result(source, use):
    """An error, at the use."""
    findings, marks = found(source, REACH[use])

    assert findings == [(marks[0], "error")]


@pytest.mark.parametrize(("source", "use"), pairs(DO_NOT))
def test_what_reaches_none(source, use):
    """No error."""
    assert found(source, DO_NOT[use])[0] == []


EARLY = """\
@%first mbarrier.init.shared.b64 [%bar], 1; @%first fence.mbarrier_init.release.cluster; bar.sync 0;
@%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 1536; add.u32 %r1, %s, 512;
@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%b], 1536, [%bar]; wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %desc, %desc, 0, 1, 1, 0, 0; // here
wgmma.commit_group.sync.aligned;
setp.lt.u32 %p1, %warp, 2;
@%p1 bra E;
mov.u32 %r2, 1; E:
wgmma.wait_group.sync.aligned 0;
@%p1 bra F;
mov.u32 %r2, 2; F:
setp.lt.u32 %p1, %warp, WARPS; @%p1 st.global.f32 [%at], %f1;
"""


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize(("warps", "wrong"), [(1, False), (2, True)])
def test_a_product_that_is_early(effects, warps, wrong):
    """Rows that a copy was writing when wgmma began are undefined when it ends, too, though its warps part meanwhile."""
    example = faulty.Example.of(EARLY.replace("WARPS", str(warps)), f"block=128 wgmma checks=default effects={effects}")
    lines = [number for number, line in enumerate(example.module().split("\n"), 1) if line.endswith("// here")]

    found = {(f.line, f.rule) for f in faulty.findings(example)}

    assert found == ({(lines[0], "async-read-early")} if wrong else set())


def test_a_product_that_is_early_without_uninitialised():
    """A race is one where nobody follows what is undefined."""
    words = "block=128 wgmma checks=none+race+async-read-early"

    assert {f.rule for f in faulty.findings(faulty.Example.of(EARLY.replace("WARPS", "1"), words))} == {
        "race",
        "async-read-early",
    }


EARLY_LOADS = {
    "ld": "ld.shared.u32 %r4, [%own];  // early",
    "a vector": "and.b32 %r3, %own, -16; ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r3];  // early",
    "ldmatrix": "shl.b32 %r3, %lane, 4; add.u32 %r3, %s, %r3;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r3];  // early",
}


@pytest.mark.parametrize("effects", ["eager", pytest.param("at_wait", marks=pytest.mark.long)])
@pytest.mark.parametrize("load", ["ld", *(pytest.param(k, marks=pytest.mark.long) for k in ("a vector", "ldmatrix"))])
@pytest.mark.parametrize(("uses", "error"), [(REACH, True), (DO_NOT, False)])
def test_what_is_loaded_while_a_copy_writes_it(load, effects, uses, error):
    """An error at the load, where it reaches a result."""
    copy = "cp.async.ca.shared.global [%own], [%bt], 4;\n"
    for use in uses.values():
        example = faulty.Example.of(f"{copy}{EARLY_LOADS[load]}\n{use}", f"checks=default effects={effects}")
        line = next(n for n, text in enumerate(example.module().split("\n"), 1) if text.endswith("// early"))
        found = [(f.line, f.rule, f.severity) for f in faulty.findings(example)]

        assert found == [(line, "async-read-early", "error")] * error, use


WHOLE = """\
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b)
{
.reg .b32 %r<4>, %t; .reg .b64 %a, %b, %x; .reg .pred %p1; .shared .align 16 .b8 s[1024];
ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; mov.u32 %t, %tid.x; mul.wide.u32 %x, %t, 4; add.u64 %a, %a, %x; add.u64 %b, %b, %x;
mov.u32 %r1, %t; mov.u32 %r3, s;
W: shl.b32 %r2, %r1, 2; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1; add.u32 %r1, %r1, 64; setp.lt.u32 %p1, %r1, 256; @%p1 bra W;
shl.b32 %r1, %t, 2; cp.async.ca.shared.global [%r1], [%b], 4;
ld.shared.u32 %r2, [%r1]; // early
st.global.u32 [%a], %r2; ret;
}
"""


def test_what_is_loaded_early_where_all_shared_memory_is_written():
    """An error there, too."""
    found = faulty.findings(faulty.Example.of(WHOLE, "block=64 checks=default"))

    assert [(f.rule, f.severity, f.line) for f in found] == [("async-read-early", "error", 11)]


HALF_EARLY = """\
mov.f32 %f9, %f8;
mov.b32 %r12, 0x3C003C00; mad.lo.u32 %r14, %t, 16, %s; st.shared.v4.b32 [%r14], {%r12, %r12, %r12, %r12}; fence.proxy.async;
@%first mbarrier.init.shared.b64 [%bar], 1; @%first fence.mbarrier_init.release.cluster; bar.sync 0;
@%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 128; add.u32 %r1, %s, 640;
@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%b], 128, [%bar]; wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %desc, %desc, 0, 1, 1, 0, 0; // here
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
mov.f32 %f10, SUM; setp.eq.f32 %p1, %f1, %f10; mov.u32 %r2, 1;
@%p1 bra E;
mov.u32 %r2, VALUE; E: mbarrier.try_wait.parity.shared.b64 %p2, [%bar], 0;
@!%p2 bra E;
st.global.u32 [%at], %r2;
"""


@pytest.mark.parametrize(
    ("effects", "sum", "which"),
    [("eager", "0f41800000", "from before the copy"), ("at_wait", "0f41000000", "that the copy brings")],
)
def test_the_bytes_of_a_copy(effects, sum, which):
    """A sum of 16 products of ones, of which a copy makes 8 zero, is found by a run in which it reads the other bytes."""
    words = f"block=128 wgmma checks=default effects={effects}"
    text = HALF_EARLY.replace("SUM", sum)
    example = faulty.Example.of(text.replace("VALUE", "2"), words)
    lines = [number for number, line in enumerate(example.module().split("\n"), 1) if line.endswith("// here")]

    (found,) = faulty.findings(example)

    assert (found.rule, found.severity, found.line) == ("async-read-early", "error", lines[0])
    assert f"with the bytes {which} in its place, byte" in found.message
    for silent in (text, text.partition("\n")[2]):  # where the copy begins after the first undefined value, and before
        assert faulty.findings(faulty.Example.of(silent.replace("VALUE", "1"), words)) == ()


CANCELS = "add.u32 %r5, %r4, %t; sub.u32 %r5, %r5, %r4;"
LOAD = "ld.shared.u32 %r4, [%own];"


def lines(body):
    """The lines of what is found, and of the marks."""
    example = faulty.Example.of(body, "checks=default")
    marks = [n for n, line in enumerate(example.module().split("\n"), 1) if line.endswith("// here")]
    return [(f.line, f.severity) for f in faulty.findings(example)], [(n, "error") for n in marks]


def test_what_cancels_beside_what_does_not():
    """In a launch that goes on after an error, each place is judged by itself, also those behind the next ones."""
    store = "st.global.u32 [%at+{}], {};"
    after = (
        store.format(512, "%r5") + "\n" + store.format(1024, "%r4") + "  // here\n" + store.format(1536, "%r5") + "\n"
    )
    found, marks = lines(f"{LOAD}\n{store.format(0, '%r4')}  // here\n{CANCELS}\n{after}")

    assert found == marks


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_each_use_of_an_early_load(effects):
    """That its value cancels in one place says nothing of the next."""
    body = f"cp.async.ca.shared.global [%own], [%bt], 4;\n{LOAD}\n{CANCELS} st.global.u32 [%at], %r5;\nst.global.u32 [%at+512], %r4;\n"
    example = faulty.Example.of(body, f"checks=default effects={effects}")

    assert [(f.rule, f.severity) for f in faulty.findings(example)] == [("async-read-early", "error")]


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_each_time_of_a_bulk_copy(effects):
    """Nor that it cancels the first time that an instruction stores it."""
    body = f"""ld.shared.u32 %r4, [%own+1024]; {CANCELS} mov.u32 %r6, 0;
L: add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 2; st.shared.u32 [%own], %r5; mov.u32 %r5, %r4; fence.proxy.async; bar.sync 0;
@%first cp.async.bulk.global.shared::cta.bulk_group [%a], [%s], 128; @%first cp.async.bulk.commit_group;
@%first cp.async.bulk.wait_group 0; bar.sync 0; @%p1 bra L;
"""
    (found,) = faulty.findings(faulty.Example.of(body, f"checks=default effects={effects}"))

    assert (found.rule, found.severity) == ("uninitialised", "error")


STORE = "st.global.u32 [%at], %r4;  // here\n"
AGAIN = "st.global.u32 [%at], %t;\n"
OTHERS = "xor.b32 %r6, %t, 1; mul.wide.u32 %x1, %r6, 4; add.u64 %x1, %a, %x1;\n"
BULK = "fence.proxy.async; bar.sync 0; @%first cp.async.bulk.global.shared::cta.bulk_group [%a], [%s], 128;\n"
COUNTED = "mov.u32 %r5, 0; L: add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 3;\n"


@pytest.mark.parametrize(
    "body",
    [
        STORE + AGAIN,
        STORE + "st.global.u16 [%at], 0; st.global.u16 [%at+2], 0;\n",
        COUNTED + STORE + AGAIN + "@%p1 bra L;\n",
        "st.u32 [%at], %r4;\n" + AGAIN,
        STORE
        + "and.b32 %r6, %t, 16; shr.u32 %r6, %r6, 2;\n@%low cp.async.ca.shared.global [%own], [%b], 4, %r6;\n"
        + AGAIN,
    ],
)
def test_what_its_thread_replaces(body):
    """What is stored in global memory and replaced by the same thread before anybody sees it is no error."""
    assert lines(f"{LOAD}\n{body}")[0] == []


@pytest.mark.parametrize(
    "body",
    [
        STORE + "st.global.u16 [%at], 0;\n",
        STORE + "@%low st.global.u32 [%at], %t;\n",
        STORE.replace("st.", "st.volatile.") + AGAIN.replace("st.", "st.volatile."),
        STORE + "ld.global.u32 %r5, [%at];\n" + AGAIN,
        STORE + "atom.global.exch.b32 %r5, [%at], %t;\n",
        OTHERS + STORE + "st.global.u32 [%x1], %t;\n",
        OTHERS + STORE + "bar.sync 0; ld.global.u32 %r5, [%x1]; bar.sync 0;\n" + AGAIN,
        STORE + "bar.sync 0;\n" + BULK + AGAIN,
        COUNTED + AGAIN + STORE + "@%p1 bra L;\n",
        STORE + "trap;\n" + AGAIN,
        STORE + "W: bra W;\n" + AGAIN,
        "@%low st.global.u32 [%a], %r4;  // here\n@%first st.global.u32 [%a], %t;\n",
    ],
)
def test_what_others_may_see(body):
    """It is one where another thread replaces it (the order of the two may be another), where anybody reads it (or may, of strong
    accesses), and where the launch ends before."""
    found, marks = lines(f"{LOAD}\n{body}")

    assert marks[0] in found


def test_what_is_replaced_in_a_loop_without_end():
    """Nobody can say that each store is replaced."""
    example = faulty.Example.of(f"{LOAD}\nL: mov.u32 %r5, 1;\n{STORE}{AGAIN}bra L;\n", "checks=default")
    kernel, grid, block, args, _ = faulty.launch_of(example)

    with pytest.raises(warpsim.ExecutionError) as caught:
        kernel(grid, block, args, on_finding="collect", max_instructions=300)

    assert {f.rule for f in caught.value.findings if f.severity == "error"} == {"limit", "uninitialised"}


def test_a_value_replaced_by_what_it_decides():
    """What replaces an undefined value is compared, though that was stored silently."""
    decides = "setp.gt.s32 %p1, %r4, 100;  // here\nselp.u32 %r5, 1, 2, %p1; mov.u32 %r6, 3;\n@%p1 bra E;\nmov.u32 %r6, 4; E:\n"
    found, _ = lines(f"{LOAD}\n{STORE}{decides}st.global.u32 [%at], %r6;\n")

    assert [severity for _, severity in found] == ["error"]


STACK = """.reg .b64 %q; stacksave.u64 %q; alloca.u64 %x1, 16; st.local.u32 [%x1], 1; stackrestore.u64 %q;
alloca.u64 %x1, 16; ld.local.u32 %r5, [%x1]; setp.gt.s32 %p1, %r5, SMALL; mov.u32 %r6, 3;
@%p1 bra F;
mov.u32 %r6, 4; F: st.global.u32 [%at], %r6;
"""


@pytest.mark.parametrize(("small", "severities"), [("100", ["error"]), ("0x7fffffff", [])])
def test_a_stack_that_grows_behind_the_first_use(small, severities):
    """What is allocated again is undefined again; the top of the stack never is."""
    before = f"{LOAD} setp.gt.s32 %p1, %r4, 100;\n@%p1 bra A;\nA:\n"

    assert [severity for _, severity in lines(before + STACK.replace("SMALL", small))[0]] == severities


def test_a_rule_that_other_values_do_not_break():
    """What something undefined decided comes before what followed from it."""
    body = f"{LOAD} setp.gt.s32 %p1, %r4, 100;\n@%p1 bra E;\nst.shared.u32 [%s+512], %t;\nE:\n"
    found = faulty.findings(faulty.Example.of(body, "checks=default+race"))

    assert [(f.rule, f.severity) for f in found] == [("uninitialised", "error"), ("race", "error")]
    assert "does not break race" in found[0].message


def test_places_far_behind():
    """What cancels after many times as many instructions as were executed before the first error."""
    loop = "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000; @%p1 bra L;"
    found, marks = lines(
        f"{LOAD}\nst.global.u32 [%at], %r4;  // here\n{CANCELS} {loop}\nst.global.u32 [%at+512], %r5;\n"
    )

    assert found == marks


@pytest.mark.parametrize(("register", "mark"), [("%r4", "  // here"), ("%r5", "")])
def test_bulk_copies(register, mark):
    """Shared memory with undefined bits that a bulk copy stores is an error unless its bytes are the same whatever is undefined."""
    start = (
        f"{LOAD} {CANCELS} st.shared.u32 [%own+2048], {register}; fence.proxy.async; bar.sync 0; add.u32 %r6, %s, 2048;"
    )
    copy = f"@%first cp.async.bulk.global.shared::cta.bulk_group [%a], [%r6], 128;{mark}"
    found, marks = lines(f"{start}\n{copy}\ncp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n")

    assert found == marks


def test_padding_that_a_bulk_copy_stores():
    """Bytes beside written ones that go silently to global memory are not compared when something else is decided."""
    write = "shl.b32 %r1, %t, 3; add.u32 %r1, %s, %r1; add.u32 %r1, %r1, 2048; st.shared.u32 [%r1], %t; fence.proxy.async; bar.sync 0;"
    copy = "add.u32 %r6, %s, 2048; @%first cp.async.bulk.global.shared::cta.bulk_group [%a], [%r6], 256;"
    wait = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"

    assert lines(f"{LOAD} {DO_NOT['a branch'].partition('E:')[0]} E: {write} {copy} {wait}\n")[0] == []


def test_the_first_of_several():
    """Of several lines that break a rule in one of two runs only, the first is named, in every process."""
    stores = "".join(f"st.shared.u32 [s+{4 * k}], %t;\n" for k in range(12))
    text = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k() {{ .reg .b32 %t; .reg .pred %q; .shared .b32 s[16]; mov.u32 %t, %tid.x;
@%q bra L;
{stores}L: ret; }}"""

    result = warpsim.load(text)["k"]((1,), (64,), (), engine="interpreter", checks="all", on_finding="collect")

    (found,) = [finding for finding in result.findings if finding.rule == "uninitialised"]
    assert found.message.endswith("line 6 does not break race")

"""Races of matrix rows: errors where what is read reaches a result, notes where it reaches none."""

import pytest

from docs.tools import faulty

WGMMA = """\
@%first mbarrier.init.shared.b64 [%bar], 1; @%first fence.mbarrier_init.release.cluster;
setp.eq.u32 %p1, %warp, 4; shl.b32 %r1, %t, 4; add.u32 %r1, %s, %r1; mov.u32 %r2, 0;
@!%p1 st.shared.v4.b32 [%r1], {%r2, %r2, %r2, %r2}; fence.proxy.async; bar.sync 0;
@%p1 bra COPY;
shr.u32 %r1, %s, 4; cvt.u64.u32 %x1, %r1; or.b64 %x1, %x1, 0x1000080000; wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %x1, %x1, 0, 1, 1, 0, 0; // other
wgmma.commit_group.sync.aligned;
WAITS
setp.lt.u32 %p1, %warp, WARPS; @%p1 st.global.f32 [%at], %f1; bra DONE;
COPY: BARRIERS
add.u32 %r1, %s, 512; setp.eq.u32 %p1, %lane, 0; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 1536;
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%b], 1536, [%bar]; // here
BEHIND
DONE:
"""
WAIT = "wgmma.wait_group.sync.aligned 0;"
ORDERS = {
    "copied in flight": (f"bar.sync 1, 160; bar.sync 2, 160; {WAIT}", "bar.sync 1, 160;", "bar.sync 2, 160;"),
    "copied before the wait is known": (f"bar.sync 1, 160; {WAIT}", "bar.sync 1, 160;", ""),
}


def races(body, **options):
    """The races in a program (line, severity, line of the other), and the lines of the marks."""
    example = faulty.Example.of(body, "")
    example.options.update(options)
    text = example.module().split("\n")
    marks = {
        mark: n
        for mark in ("here", "other", "read", "write")
        for n, line in enumerate(text, 1)
        if line.endswith(f"// {mark}")
    }
    found = faulty.findings(example)
    return [(f.line, f.severity, f.other.line) for f in found if f.rule == "race"], marks


@pytest.mark.parametrize("effects", ["eager", pytest.param("at_wait", marks=pytest.mark.long)])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("warps", "severity"), [(1, "note"), (2, "error")])
def test_rows_of_a_product(order, effects, warps, severity):
    """A copy overwrites the rows of warps 1 to 3 while nothing says that they have been multiplied."""
    waits, barriers, behind = ORDERS[order]
    body = WGMMA.replace("WARPS", str(warps))
    body = body.replace("WAITS", waits).replace("BARRIERS", barriers).replace("BEHIND", behind)

    found, marks = races(body, block="160", effects=effects)

    assert found == [(marks["here"], severity, marks["other"])]


READ = """\
shl.b32 %r2, %lane, 4; add.u32 %r2, %s, %r2; cp.async.commit_group;
ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r2]; // read
"""
WRITE = "st.shared.u32 [%own+-128], 7; // write\n"
START = "st.shared.u32 [%own], %t; bar.sync 0; setp.eq.u32 %p1, %warp, 1;\n"
FIRST = {
    "read": START + f"@%p1 bra WRITE;\n{READ}USE bra DONE;\nWRITE: {WRITE}DONE:\n",
    "write": START + f"@!%p1 bra READ;\n{WRITE}bra DONE;\nREAD: {READ}USE DONE:\n",
}
USES = {
    "a store": ("st.global.u32 [%at], %r3;", "error"),
    "shared memory": ("st.shared.u32 [%own+2048], %r3;", "note"),
    "a branch": ("setp.eq.u32 %p2, %r3, 5; @%p2 bra SKIP; st.global.u32 [%at], %t; SKIP:", "error"),
    "a branch around nothing": ("setp.eq.u32 %p2, %r3, 5; @%p2 bra SKIP; mov.u32 %r4, %t; SKIP:", "note"),
}


@pytest.mark.parametrize("first", ["read", pytest.param("write", marks=pytest.mark.long)])
@pytest.mark.parametrize("use", USES)
def test_rows_that_ldmatrix_reads(first, use):
    """One warp reads rows that another writes, in either order."""
    text, severity = USES[use]
    found, marks = races(FIRST[first].replace("USE", text), block="64")

    second = "write" if first == "read" else "read"
    assert found == [(marks[second], severity, marks[first])]


def test_rows_that_are_read_again():
    """What is read behind a barrier is defined, though a race was for the same rows."""
    again = READ.replace("// read\n", "\n") + "st.global.u32 [%at], %r3;\n"
    found, marks = races(FIRST["read"].replace("USE", "") + "bar.sync 0;\n" + again, block="64")

    assert found == [(marks["write"], "note", marks["read"])]


def test_each_race_by_itself():
    """Of two races, the one whose rows reach a result is an error, the other a note."""
    second = "add.u32 %r4, %r2, 512;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r4]; // other\n"
    body = FIRST["read"].replace("USE", f"{second}st.shared.u32 [%own+2048], %r3; st.global.u32 [%at], %r5;")
    body = body.replace("DONE:", "st.shared.u32 [%own+384], 7; // here\nDONE:")
    found, marks = races(
        body.replace(START, START.replace("[%own], %t;", "[%own], %t; st.shared.u32 [%own+512], %t;")), block="64"
    )

    assert set(found) == {(marks["write"], "note", marks["read"]), (marks["here"], "error", marks["other"])}


@pytest.mark.parametrize("stored", [0, 3])
def test_many_races(stored):
    """Of four, the one whose rows are stored is an error."""
    starts = "".join(f" st.shared.u32 [%own+{512 * k}], %t;" for k in range(4))
    reads = "".join(
        f"add.u32 %r4, %r2, {512 * k};\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r3}}, [%r4];\n"
        + ("st.global.u32 [%at], %r3;\n" if k == stored else "st.shared.u32 [%own+2048], %r3;\n")
        for k in range(4)
    )
    writes = "".join(f"st.shared.u32 [%own+{512 * k - 128}], 7;\n" for k in range(4))
    start = f"{starts} bar.sync 0; setp.eq.u32 %p1, %warp, 1;\n"
    setup = "shl.b32 %r2, %lane, 4; add.u32 %r2, %s, %r2; cp.async.commit_group;\n"
    found, _ = races(f"{start}@%p1 bra WRITE;\n{setup}{reads}bra DONE;\nWRITE: {writes}DONE:\n", block="64")

    lines = sorted(line for line, _, _ in found)
    assert len(lines) == 4
    assert [line for line, severity, _ in found if severity == "error"] == [lines[stored]]

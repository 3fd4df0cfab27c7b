"""async-read-early in global memory: what a bulk store writes is there behind the full wait, not behind ``.read``."""

import numpy as np
import pytest

import warpsim

KERNEL = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out, .param .u64 seen)
{{
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<9>;
.shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 bar;
mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, tile; mov.u32 %r3, bar; mov.u32 %r4, 0; mov.u32 %r5, 7;
cvta.param.u64 %rd1, map; ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [seen];
mov.u32 %r9, %ctaid.x; mul.wide.u32 %rd4, %r9, {shift}; add.u64 %rd2, %rd2, %rd4; add.u64 %rd3, %rd3, %rd4;
shl.b32 %r6, %r1, 5; add.u32 %r6, %r6, %r2;
st.shared.v4.b32 [%r6], {{%r5, %r5, %r5, %r5}}; st.shared.v4.b32 [%r6+16], {{%r5, %r5, %r5, %r5}};
@%p1 mbarrier.init.shared.b64 [%r3], 1; @%p1 fence.mbarrier_init.release.cluster;
fence.proxy.async; bar.sync 0;
@!%p1 bra NEXT;
{copy}//@copy
cp.async.bulk.commit_group;
{wait}
NEXT: bar.sync 0;
@!%p1 bra END;
{access}//@access
END: ret;
}}
"""
BULK = "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 512;"
TENSOR = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r4, %r4}], [%r2];"
REDUCE = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [%r2], 512;"
READ, WAIT = "cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group 0;"
LOOK = "ld.global.b32 %r7, [%rd2{}]; st.global.b32 [%rd3], %r7;"
LOAD = (
    "mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 128;"
    " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+512], [%rd2{}], 128, [%r3];"
    " W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra W;"
)


def run(copy, wait, access, grid=1, shift=0, **options):
    """What a thread saw, and the lines of the findings and of their other parties by tags."""
    out, seen = np.full((32, 64), 3, np.uint32), np.zeros(2048, np.uint32)
    tensor = warpsim.TensorMap(out, global_dim=[60, 32], global_strides=[256], box_dim=[64, 2])
    text = KERNEL.format(copy=copy, wait=wait, access=access, shift=shift)
    lines = text.split("\n")
    result = warpsim.load(text)["k"](grid, 32, (tensor, out, seen), on_finding="collect", **options)
    tags = [
        (f.rule, lines[f.line - 1].split("//@")[-1], lines[f.other.line - 1].split("//@")[-1]) for f in result.findings
    ]
    return int(seen[0]), tags


EARLY = [("async-read-early", "access", "copy")]


@pytest.mark.parametrize("copy", [BULK, TENSOR])
@pytest.mark.parametrize(
    ("access", "at"),
    [
        (LOOK, ""), (LOOK, "+236"), ("st.global.b32 [%rd2{}], %r4;", "+4"), ("atom.global.add.u32 %r7, [%rd2{}], 1;", "+128"),
        (LOAD, "+0"), ("ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd2{}];", "+32"),
    ],
)  # fmt: skip
def test_before_the_full_wait(copy, access, at):
    """Reads and writes of the destination behind ``.read``, also by other copies: at their line, with the copy's."""
    assert run(copy, READ, access.format(at))[1] == EARLY
    assert run(copy, WAIT, access.format(at))[1] == []
    assert run(copy, "", access.format(at))[1] == EARLY


@pytest.mark.parametrize(
    ("copy", "at"), [(BULK, "+512"), (TENSOR, "+240"), (TENSOR, "+252"), (TENSOR, "+512"), (BULK, "+4096")]
)
def test_beside_the_destination(copy, at):
    """What lies behind the run, between the rows of the box, or outside of the tensor, no copy writes."""
    assert run(copy, READ, LOOK.format(at))[1] == []
    assert run(copy, READ, LOAD.format("+512"))[1] == []


@pytest.mark.parametrize("copy", [BULK, TENSOR])
def test_values_are_late(copy):
    """With late effects the old value is there until the full wait."""
    assert run(copy, READ, LOOK.format(""), checks="none", async_effects="at_wait")[0] == 3
    assert run(copy, READ, LOOK.format(""), async_effects="at_wait")[1] == EARLY
    assert run(copy, WAIT, LOOK.format(""), async_effects="at_wait") == (7, [])


def test_beside_a_box_outside_the_tensor():
    """Boxes that write nothing may be in flight where others meet."""
    outside = TENSOR.replace("%r4, %r4", "%r4, %r1")
    copy = f"mov.u32 %r1, 32; {outside} {TENSOR}"

    assert run(copy, READ, TENSOR, async_effects="at_wait") == (0, [])


def test_reductions_and_atomics():
    """Atomics may meet reductions in flight, of other copies too; reads come too early."""
    assert run(REDUCE, READ, "red.global.add.u32 [%rd2], 1;" + REDUCE, grid=3)[1] == []
    assert run(REDUCE, READ, LOOK.format(""))[1] == EARLY


def test_stores_of_each_cta():
    """CTAs that go on behind ``.read`` and read what is theirs alone, or was nobody's."""
    assert run(BULK, READ, LOOK.format("+512"), grid=3, shift=1024)[1] == []
    assert run(BULK, READ, LOOK.format("+508"), grid=3, shift=1024)[1] == EARLY

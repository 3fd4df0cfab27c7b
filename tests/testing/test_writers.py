"""The last write to an element: which instruction, CTA, warp and lanes, of stores, atomics and bulk copies."""

import numpy as np
import pytest

import warpsim
from warpsim.testing.replaying import Writers, sentence

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<4>; .reg .b16 %h<2>;
.shared .align 128 .b8 tile[256];
ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 64, %r1; mov.u32 %r4, tile;
mul.wide.u32 %d2, %r3, 4; add.u64 %d2, %d1, %d2; setp.eq.u32 %p1, %r1, 37;
"""
LINE = HEAD.count("\n") + 1
"""Of what follows."""


def written(body, *elements):
    """What wrote elements, given as offset and size in bytes; two CTAs of two warps."""
    device = warpsim.Device("sm_90")
    out = device.array(np.zeros(256, np.uint32))
    watcher = Writers([(out.ptr + at, size) for at, size in elements])
    kernel = warpsim.load(f"{HEAD}{body}\nret;\n}}\n")["k"]
    kernel((2,), (64,), (out,), device=device, watchers=[watcher], checks="none", engine="interpreter")
    return watcher.found


@pytest.mark.parametrize("at", range(0, 20, 4))
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_bytes_that_overlap(at, size):
    """Lane 37 of each CTA stores 8 bytes: CTA 0 at 8, CTA 1 at 264."""
    body = "mul.wide.u32 %d3, %r2, 256; add.u64 %d3, %d1, %d3;\n@%p1 st.global.u64 [%d3+8], %d3;"
    first, second = written(body, (at, size), (256 + at, size))
    overlaps = at < 16 and at + size > 8

    assert (first.count, second.count) == (overlaps, overlaps)
    if overlaps:
        assert [(w.last.line, w.last.cta, w.last.warp, w.last.lanes) for w in (first, second)] == [
            (LINE + 1, (0, 0, 0), 1, (5,)),
            (LINE + 1, (1, 0, 0), 1, (5,)),
        ]


def test_the_last_of_several():
    """Stores of all, an atomic of one: the element of lane 37 has three writes in two lines, its neighbour two."""
    body = "st.global.u32 [%d2], %r1;\nst.global.u32 [%d2], %r2;\n@%p1 red.global.add.u32 [%d2], 1;"
    first, second = written(body, (148, 4), (152, 4))

    assert (first.count, first.lines, first.last.line, first.last.lanes) == (3, {LINE, LINE + 1, LINE + 2}, LINE + 2, (5,))  # fmt: skip
    assert (second.count, second.lines, second.last.line, second.last.lanes) == (2, {LINE, LINE + 1}, LINE + 1, (6,))
    assert "lane 5" in sentence("out[37]", first)[0]


def test_reads_and_other_memory_do_not_count():
    """A load of the element, and a store of shared memory at the same time."""
    (found,) = written("ld.global.u32 %r5, [%d2];\nst.shared.u32 [%r4], %r1;", (0, 1024))

    assert found.count == 0
    assert sentence("out[0]", found) == ["  nothing wrote out[0] in this launch"]


def test_bulk_copies():
    """Of each CTA 64 bytes, to 0 and to 256: the thread that started the copy is named; a copy to shared memory reads."""
    start = "setp.eq.u32 %p1, %r1, 0; mad.lo.u32 %r5, %r1, 4, %r4; st.shared.u32 [%r5], %r1; fence.proxy.async.shared::cta; bar.sync 0;\n"  # fmt: skip
    copy = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r4], 64;\n@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;"  # fmt: skip
    found = written(start + copy, (60, 4), (64, 4), (256, 1), (255, 1), (319, 1), (320, 1))

    assert [w.count for w in found] == [1, 0, 1, 0, 1, 0]
    assert [(w.last.line, w.last.cta) for w in found if w.last] == [(LINE + 1, (c, 0, 0)) for c in (0, 1, 1)]
    assert found[0].last.lanes[0] == 0

"""Loads and stores of one element at affine addresses take a shorter way when nobody is told of them, with the same result."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import warpsim
from warpsim.machine.memory.access import Memory

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q)
{{
    .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<4>; .reg .pred %p<2>;
    .shared .align 8 .b8 s[512];
    ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r7, %tid.y;
    mad.lo.u32 %r1, %r7, 16, %r1;
    mad.lo.u32 %r3, %r2, 64, %r1; mul.wide.u32 %rd3, %r3, 4; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
    mov.u32 %r4, s; shl.b32 %r5, %r1, 2; add.u32 %r6, %r4, %r5; mov.u32 %r8, 7;
    {fill} {body}
    st.global.u32 [%rd5], %r8; ret;
}}
"""
BODIES = {
    "a row of shared memory": "ld.global.u32 %r8, [%rd4]; st.shared.u32 [%r6], %r8; bar.sync 0; ld.shared.u32 %r8, [%r6+16];",
    "backward": "st.shared.u32 [%r6], %r1; bar.sync 0; sub.u32 %r6, 252, %r5; add.u32 %r6, %r6, %r4; ld.shared.u32 %r8, [%r6];",
    "one word": "st.shared.u32 [%r6], %r3; bar.sync 0; ld.shared.u32 %r8, [%r4+20];",
    "one place for many": "st.shared.u32 [%r4], %r3; bar.sync 0; ld.shared.u32 %r8, [%r4];",
    "every second": "shl.b32 %r5, %r1, 3; add.u32 %r6, %r4, %r5; st.shared.u32 [%r6], %r1; bar.sync 0; ld.shared.u32 %r8, [%r6];",
    "an even constant": "st.shared.u32 [%r6], 5; bar.sync 0; ld.shared.u32 %r8, [%r6];",
    "uniform": "ld.global.u32 %r8, [%rd1+12];",
    "in a branch": "setp.lt.u32 %p1, %r1, 40; @%p1 bra A; ld.global.u32 %r8, [%rd4]; bra B; A: ld.global.u32 %r8, [%rd1]; B:",
    "lane by lane": "ld.global.u32 %r7, [%rd4]; and.b32 %r7, %r7, 1; setp.eq.u32 %p1, %r7, 0; @%p1 bra A;"
    " ld.global.u32 %r8, [%rd4]; ld.global.u32 %r7, [%rd1+8]; add.u32 %r8, %r8, %r7; A:",
    "guarded": "setp.lt.u32 %p1, %r1, 40; @%p1 ld.global.u32 %r8, [%rd4];",
    "under a guard that all pass": "setp.lt.u32 %p1, %r1, 640; @%p1 ld.global.u32 %r8, [%rd4];",
    "under a guard that none passes": "setp.gt.u32 %p1, %r1, 640; @%p1 ld.global.u32 %r8, [%rd4];",
    "pairs": "shl.b32 %r5, %r1, 3; add.u32 %r6, %r4, %r5; st.shared.v2.u32 [%r6], {%r3, %r1}; bar.sync 0;"
    " ld.shared.v2.u32 {%r7, %r8}, [%r6]; mad.lo.u32 %r8, %r8, 1000, %r7;",
    "pairs of the array": "mul.wide.u32 %rd6, %r1, 8; add.u64 %rd6, %rd6, %rd1; ld.global.v2.u32 {%r7, %r8}, [%rd6];"
    " st.global.v2.u32 [%rd6+8], {%r8, %r7}; mad.lo.u32 %r8, %r8, 3, %r7;",
    "one of a pair": "and.b32 %r7, %r1, 62; mul.wide.u32 %rd6, %r7, 4; add.u64 %rd6, %rd6, %rd1; ld.global.v2.u32 {_, %r8}, [%rd6];",
    "a pair and a constant": "mul.wide.u32 %rd6, %r1, 8; add.u64 %rd6, %rd6, %rd1; st.global.v2.u32 [%rd6], {%r1, 9};",
    "misaligned pairs": "ld.global.v2.u32 {%r7, %r8}, [%rd4];",
    "bytes": "ld.global.u8 %r8, [%rd4+1];",
    "twice as wide": "and.b32 %r7, %r1, 62; mul.wide.u32 %rd6, %r7, 4; add.u64 %rd6, %rd6, %rd1; ld.global.u64 %rd7, [%rd6]; cvt.u32.u64 %r8, %rd7;",
    "beyond shared memory": "st.shared.u32 [%r6+260], %r1;",
    "beyond the array": "ld.global.u32 %r8, [%rd4+4096];",
    "misaligned": "ld.global.u32 %r8, [%rd4+2];",
    "of a register that nothing wrote": "st.global.u32 [%rd4], %r0;",
    "never written": "ld.shared.u32 %r8, [%r6];",
}  # fmt: skip


FILL = "st.shared.u32 [%r6], %r3; st.shared.u32 [%r6+256], %r1;"


class Everything(warpsim.Watcher):
    """Listens to every access."""

    def memory_accessed(self, machine, group, access):
        """Hears it."""


def outcome(body, **options):
    """What a launch of 3 CTAs stores and finds."""
    x = np.arange(1, 193, dtype=np.uint32) * np.uint32(2654435761)
    out = np.zeros(192, np.uint32)
    result = warpsim.load(KERNEL.format(fill="" if body == BODIES["never written"] else FILL, body=body))["k"](
        (3,), (16, 4), (x, out), engine="interpreter", on_finding="collect", **options
    )
    return out.tolist(), [(f.rule, f.message, f.count) for f in result.findings]


class Copies(warpsim.Watcher):
    """Copies shared memory at every barrier; either side must then make its words its own before it writes."""

    def __init__(self):
        self.kept = []

    def barrier_left(self, machine, group, number, partial):
        """Keeps a copy."""
        self.kept.append(copy.deepcopy(machine.batch.shared))


def test_a_loop_takes_its_rows_from_words_that_a_copy_has_replaced():
    """Rows are remembered by their addresses, but not beyond the words in which they are."""
    loop = """mov.u32 %r7, 0; A: add.u32 %r3, %r3, 1; st.shared.u32 [%r6], %r3; bar.sync 0;
    ld.shared.u32 %r2, [%r6+16]; mad.lo.u32 %r8, %r8, 3, %r2; bar.sync 0;
    add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, 5; @%p1 bra A;"""
    copies = Copies()
    assert outcome(loop, watchers=[copies]) == outcome(loop)
    assert len({one.words.tobytes() for one in copies.kept}) == 5


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_both_ways_do_the_same(body):
    """With somebody who hears of every access, and without."""
    assert outcome(body) == outcome(body, watchers=[Everything()])


def test_the_shorter_way_is_taken(monkeypatch):
    """Affine addresses need no port, once all of shared memory is written."""
    made = []
    real = Memory.__init__
    monkeypatch.setattr(
        Memory, "__init__", lambda self, *a, **k: (made.append(a[1].instruction.text), real(self, *a, **k))[1]
    )
    outcome(BODIES["a row of shared memory"])

    assert made == ["st.shared.u32"] * 2


class Heard(warpsim.Watcher):
    """Keeps the loads of shared memory that it hears of: for each lane its address and its CTA."""

    def __init__(self):
        self.loads = []

    def memory_accessed(self, machine, group, access):
        """Keeps one."""
        if access.space == "shared" and not access.writes:
            shape = group.selection.shape
            at, ctas = (np.broadcast_to(x, shape).reshape(64, 3).tolist() for x in (access.places, access.columns))
            self.loads.append((at, ctas, access.nbytes, access.active, access.everywhere))


@pytest.mark.parametrize("name", ["a row of shared memory", "backward", "one word", "pairs"])
def test_loads_that_are_heard(name):
    """A listener hears of the addresses of all lanes, in each CTA."""
    lane = np.arange(64)
    at, nbytes = {
        "a row of shared memory": (4 * lane + 16, 4),
        "backward": (252 - 4 * lane, 4),
        "one word": (0 * lane + 20, 4),
        "pairs": (8 * lane, 8),
    }[name]
    outcome(BODIES[name], watchers=[heard := Heard()])
    ctas = [[0, 1, 2]] * 64
    assert heard.loads == [(np.repeat(at[:, None], 3, 1).tolist(), ctas, nbytes, None, True)]

"""Accesses that are kept as they are, or looked at as strided views of cells, against the cells lane by lane."""

import numpy as np
import pytest

import warpsim
from warpsim.checks.race import RULE, detector

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y) {
.reg .b32 %r<8>; .reg .b64 %d<9>; .reg .pred %p;
ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r1;
mul.wide.u32 %d3, %r4, 4; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;
"""
BODIES = {
    "own elements": "ld.global.u32 %r5, [%d4]; add.u32 %r5, %r5, 1; st.global.u32 [%d5], %r5; ld.global.u32 %r6, [%d5];",
    "in place": "ld.global.u32 %r5, [%d4]; add.u32 %r5, %r5, 1; st.global.u32 [%d4], %r5; st.global.u32 [%d4], %r6;",
    "neighbours read": "ld.global.u32 %r5, [%d4]; ld.global.u32 %r6, [%d4+4]; st.global.u32 [%d5], %r6;",
    "neighbours written": "ld.global.u32 %r5, [%d4+4]; st.global.u32 [%d4], %r5;",
    "another half": "st.global.u32 [%d4], %r1; ld.global.u16 %r5, [%d4+2];",
    "halves": "st.global.u16 [%d4], %r1; st.global.u16 [%d4+2], %r1; ld.global.u32 %r5, [%d4];",
    "one word for all": "ld.global.u32 %r5, [%d1]; st.global.u32 [%d5], %r5;",
    "one word written by all": "ld.global.u32 %r5, [%d4]; st.global.u32 [%d1], %r1;",
    "structures": "add.s64 %d6, %d1, %d3; add.s64 %d6, %d6, %d3; st.global.u32 [%d6], %r1; st.global.u32 [%d6+4], %r2;",
    "others' structures": "add.s64 %d6, %d4, %d3; st.global.u32 [%d6], %r1; ld.global.u32 %r5, [%d6+8];",
    "backwards": "sub.s64 %d6, %d1, %d3; st.global.u32 [%d6+1020], %r1; ld.global.u32 %r5, [%d4];",
    "a loop": """mov.u32 %r5, 0;
L: st.global.u32 [%d4], %r5; ld.global.u32 %r6, [%d4]; add.u32 %r5, %r5, 1; setp.lt.u32 %p, %r5, 3;
@%p bra L;""",
    "far apart": """mov.u32 %r5, 0;
L: st.global.u32 [%d4], %r5; add.s64 %d4, %d4, 1024; add.u32 %r5, %r5, 1; setp.lt.u32 %p, %r5, 80;
@%p bra L;""",
    "then an atomic": "st.global.u32 [%d4], %r1; atom.global.add.u32 %r5, [%d1], 1;",
    "after an atomic": "red.global.add.u32 [%d4], 1; ld.global.u32 %r5, [%d4]; st.global.u32 [%d4], %r5;",
}


class Cells(warpsim.Watcher):
    """Keeps what the rule remembers of each allocation in the end."""

    def launch_ended(self, launch):
        """All kinds of cells, with the places where somebody has been."""
        self.found = {
            number: {kind: held.tolist() for kind, held in cells.kinds.items() if held.any()}
            for number, cells in launch.notes[RULE].cells.items()
        }


def outcome(body, same):
    """Findings of a kernel, and the cells in the end."""
    x = np.zeros(1 << 15, np.uint32)
    watcher = Cells()
    kernel = warpsim.load(HEAD + body + " ret; }")["k"]
    result = kernel(
        4, 64, (x, x if same else x.copy()), checks="race", on_finding="collect", watchers=[watcher], batch_threads=128
    )
    return [(f.line, f.message, f.lanes, f.cta, f.count) for f in result.findings], watcher.found


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_strided_accesses_are_those_of_lanes(body, same, monkeypatch):
    """Findings and cells are the same as where each access is looked at lane by lane."""
    strided = outcome(body, same)
    monkeypatch.setattr(detector, "note_strided", lambda *args, **more: False)

    assert outcome(body, same) == strided


def test_accesses_are_kept():
    """Where each thread has elements of its own no cell is made."""

    class Kept(warpsim.Watcher):
        def launch_ended(self, launch):
            self.kinds = [cells._kinds for cells in launch.notes[RULE].cells.values()]

    watcher, x = Kept(), np.zeros(256, np.uint32)
    warpsim.load(HEAD + BODIES["own elements"] + " ret; }")["k"](
        4, 64, (x, x.copy()), checks="race", watchers=[watcher]
    )

    assert watcher.kinds == [{}, {}]

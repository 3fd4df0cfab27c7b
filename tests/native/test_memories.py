"""What compiled code is told of memory is what is there when it is called."""

import copy
import ctypes

import numpy as np
import pytest

import warpsim

pytest.importorskip("llvmlite", reason="the extra jit is not installed")

from warpsim.machine.state.global_memory import Allocation, GlobalMemory
from warpsim.machine.state.word_space import WordSpace
from warpsim.native.compiling.compiler import library_function
from warpsim.native.runtime.memory import MemoryViews
from warpsim.native.runtime.run import Runner

FIELDS = 5
"""Of an allocation in the table: start, end, its bytes, those of its shadow, whether it is only read."""


def bytes_told(memories, memory):
    """Where the bytes of the first allocation are said to lie, and those beside them."""
    _, address = memories.allocations(memory)
    return list((ctypes.c_int64 * FIELDS).from_address(address))[2:4]


def test_bytes_that_move():
    """A copy of the state that writes first has its bytes elsewhere from then on; a shadow may come later."""
    memory, memories = GlobalMemory(), MemoryViews()
    memory.map(np.zeros(64, np.uint8))
    state = copy.deepcopy(memory)
    (allocation,) = state.allocations
    before = bytes_told(memories, state)
    assert before == [allocation.data.ctypes.data, 0]

    allocation.own()
    allocation.shadow = Allocation(allocation.start, np.zeros(64, np.uint8), "beside", read_only=False)
    after = bytes_told(memories, state)
    assert after == [allocation.data.ctypes.data, allocation.shadow.data.ctypes.data]
    assert after[0] != before[0]


COPIED_LATE = """.version 8.6\n.target sm_90a\n.address_size 64
.visible .entry k(.param .u64 out) {
    .reg .b32 r<4>; .reg .b64 a; .reg .pred p; .shared .align 16 .b8 tile[4096];
    mov.u32 r0, %tid.x; mov.u32 r1, 0; mov.u32 r3, tile; ld.param.u64 a, [out];
    cp.async.bulk.global.shared::cta.bulk_group [a], [tile], 16;
    LOOP: atom.shared.add.u32 r2, [r3], r0; add.u32 r1, r1, 1; setp.lt.u32 p, r1, 3; @p bra LOOP;
    ret; }"""


def test_copies_that_end_after_all_threads(done):
    """With late effects, a copy that nobody waits for reads shared memory as the last thread leaves it."""
    out = np.zeros(4, np.uint32)
    warpsim.load(COPIED_LATE)["k"](1, 64, (out,), engine="compiled", async_effects="at_wait", checks="none")

    assert done[-1].variant.private
    assert out.tolist() == [3 * sum(range(64)), 0, 0, 0]


def test_shared_memory_of_nobody(monkeypatch):
    """CTAs that run one after the other, each in the same memory, need none in the batch."""
    made = []
    have = WordSpace._have
    monkeypatch.setattr(WordSpace, "_have", lambda self, words: (made.append(words.nbytes), have(self, words))[1])
    kernel = warpsim.load(
        """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 o) { .reg .b32 %r<4>; .reg .b64 %d<4>; .shared .b32 tile[64];
ld.param.u64 %d1, [o]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2;
st.shared.u32 [%r3], %r1; bar.sync 0; ld.shared.u32 %r1, [%r3];
mov.u32 %r2, %ctaid.x; mad.lo.u32 %r2, %r2, 64, %r1; mul.wide.u32 %d2, %r2, 4; add.u64 %d2, %d2, %d1;
st.global.u32 [%d2], %r1; ret; }"""
    )["k"]
    for _ in range(2):
        made.clear()
        out = np.zeros(64 * 64, np.uint32)
        kernel((64,), (64,), (out,), engine="compiled", batch_threads=128)
        assert out.tolist() == list(range(64)) * 64
    assert sum(made) < 64 * 256


GENERIC = """.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 o) {{
.reg .b32 %r<20>; .reg .b64 %d<12>; .reg .pred %p<5>; .shared .align 16 .b8 tile[256]; .local .align 8 .b8 mine[16];
ld.param.u64 %d1, [a]; ld.param.u64 %d2, [o]; mov.u32 %r2, %tid.x; mul.wide.u32 %d3, %r2, 4; add.u64 %d2, %d2, %d3;
add.u64 %d1, %d1, %d3; mov.u64 %d5, tile; cvta.shared.u64 %d5, %d5; add.u64 %d5, %d5, %d3;
mov.u64 %d6, mine; cvta.local.u64 %d6, %d6; add.u32 %r3, %r2, 100; st.u32 [%d5], %r3; {written}
and.b32 %r7, %r2, 3; setp.eq.u32 %p1, %r7, 1; setp.eq.u32 %p2, %r7, 2; mov.u64 %d7, {first}; {rest}
mov.u32 %r9, 0; mov.u32 %r8, 0;
L: ld.u32 %r10, [%d7]; add.u32 %r9, %r9, %r10; st.u32 [%d7], %r9; add.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, 3;
@%p3 bra L; st.global.u32 [%d2], %r9; ret; }}"""


@pytest.mark.parametrize(
    ("first", "rest", "written", "served"),
    [
        ("%d5", "", "", True),
        ("%d6", "", "st.local.u32 [mine], %r3;", True),
        ("%d6", "", "", False),  # nothing is written there
        ("%d5", "@%p1 mov.u64 %d7, %d1;", "", False),
        ("%d6", "@%p1 mov.u64 %d7, %d1;", "st.local.u32 [mine], %r3;", False),
        ("%d1", "@%p1 mov.u64 %d7, %d5; @%p2 mov.u64 %d7, %d6;", "st.local.u32 [mine], %r3;", False),
    ],
)
def test_generic_addresses(first, rest, written, served, done):
    """Lanes of a warp that go to one space, whichever, are served; where they go to several, or find nothing written, the
    interpreter serves them: the first allocation lies where the low half of its addresses are those of shared memory."""
    text, found = GENERIC.format(first=first, rest=rest, written=written), []
    for engine in ("compiled", "interpreter"):
        given, out = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32)
        result = warpsim.load(text)["k"](
            (1,), (32,), (given, out), engine=engine, device=warpsim.Device(), on_finding="collect"
        )
        findings = [(f.rule, f.line, f.lanes) for f in result.findings]
        found.append((given.tolist(), out.tolist(), result.instructions, dict(result.opcodes), findings))
    assert found[0] == found[1]
    assert any(code.region.loops for code in done) == served


@pytest.mark.parametrize("size", [4, 60, 64, 200, 1024])
def test_how_far_memory_is_written(size):
    """The marks of what is written are read from any place on, up to the first byte that is not."""
    marks = np.full(size + 64, 0xFF, np.uint8)
    clean = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        library_function("ws_clean")
    )
    for hole in {0, 1, size // 2, size - 4, size - 1, size, size + 1}:
        marks[hole] = 0xFE
        for first in {0, 1, 8, size // 2, hole}:
            end = hole if first <= hole < size else size
            if first <= size:
                assert clean(marks.ctypes.data, first, size) == end
        marks[hole] = 0xFF
    assert clean(None, 0, size) == size


@pytest.mark.parametrize(
    "instruction",
    [
        "st.global.u32 [%a], %v",
        "ld.global.u32 %v, [%a]",
        "st.u32 [%a], %v",
        "red.global.add.u32 [%a], %v",
        "atom.global.max.u32 %v, [%a], %v",
    ],
)
def test_no_memory_at_all(instruction, monkeypatch):
    """A GPU on which nothing is allocated: each access is out of bounds, in machine code, too."""
    called = []
    run = Runner.run
    monkeypatch.setattr(Runner, "run", lambda *given, **named: (called.append(given), run(*given, **named))[1])
    text = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 at) {{ .reg .b32 %v; .reg .b64 %a, %t; ld.param.u64 %a, [at]; mov.u32 %v, %tid.x;
mul.wide.u32 %t, %v, 4; add.u64 %a, %a, %t; {instruction}; ret; }}"""
    with pytest.raises(warpsim.ExecutionError, match="out-of-bounds"):
        warpsim.load(text)["k"]((1,), (32,), (0x7F0000001000,), engine="compiled", device=warpsim.Device("sm_80"))
    assert called

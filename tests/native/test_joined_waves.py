"""Once a region has run several waves of CTAs to their end, the next ones are one batch. What comes of it is the interpreter's."""

import numpy as np
import pytest

import warpsim

pytest.importorskip("llvmlite", reason="the extra jit is not installed")

from warpsim.machine.watcher import Watcher
from warpsim.native.runtime.calls import Calls

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n) { .reg .b32 %r<12>; .reg .b64 %d<6>; .reg .pred %q;
.shared .align 4 .b8 tile[256];
ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n];
mov.u32 %r2, %ctaid.y; mov.u32 %r3, %nctaid.x; mov.u32 %r4, %ctaid.x; mad.lo.u32 %r4, %r2, %r3, %r4;
mov.u32 %r5, %tid.x; mad.lo.u32 %r6, %r4, 64, %r5; mul.wide.u32 %d2, %r6, 4; add.u64 %d3, %d1, %d2;
mov.u32 %r7, tile; shl.b32 %r8, %r5, 2; add.u32 %r7, %r7, %r8;
"""
STORE, END = "st.global.u32 [%d3], %r9; ", "ret; }"
DOUBLE = "ld.global.u32 %r9, [%d3]; add.u32 %r9, %r9, %r9; "
SWAP = """ld.global.u32 %r9, [%d3]; st.shared.u32 [%r7], %r9; bar.sync 0;
xor.b32 %r10, %r8, 252; mov.u32 %r11, tile; add.u32 %r10, %r10, %r11; ld.shared.u32 %r9, [%r10]; """
NEIGHBOUR = "ld.global.u32 %r9, [%d3+-256]; add.u32 %r9, %r9, 1; "
STALE = """setp.ge.u32 %q, %r4, %r1; @%q bra L; st.shared.u32 [%r7], %r6;
L: bar.sync 0; ld.shared.u32 %r9, [%r7]; add.u32 %r9, %r9, 1; """
FAR = """setp.lt.u32 %q, %r4, %r1; @%q bra L; add.u64 %d3, %d3, 1048576;
L: add.u32 %r9, %r6, 1; """


@pytest.fixture
def batches(monkeypatch):
    """How many CTAs were run to their end as one batch, of each, 0 where that failed."""
    found, run_through = [], Calls.run_through

    def noted(self, machine, *more, **options):
        done = run_through(self, machine, *more, **options)
        found.append(machine.batch.shape.n_ctas if done else 0)
        return done

    monkeypatch.setattr(Calls, "run_through", noted)
    return found


def outcome(body, engine, grid=(40,), n=40, **options):
    """What a launch of the kernel gives: memory, counts and findings."""
    words = np.arange(64 * 41, dtype=np.uint32) * 3
    kernel = warpsim.load(HEAD + body + STORE + END)["k"]
    given = {"on_finding": "collect", "engine": engine, "batch_threads": 64, **options}
    try:
        result = kernel(grid, (64,), (words[64:], n), **given)
    except warpsim.ExecutionError as problem:
        return words.tolist(), [str(finding) for finding in problem.findings]
    counts = result.instructions, result.thread_instructions, dict(result.opcodes)
    return words.tolist(), counts, [str(finding) for finding in result.findings]


@pytest.mark.parametrize(
    ("body", "grid", "threads", "expected"),
    [
        (DOUBLE, (40,), 64, [32]),
        (SWAP, (40,), 64, [32]),
        (DOUBLE, (4, 10), 256, [8]),
        (SWAP, (20, 2), 64, [12, 20]),
    ],
)
def test_the_rest_of_the_grid(batches, body, grid, threads, expected):
    """Eight waves one by one, and then all the others; a wave that is part of a row goes with others of the row."""
    found = outcome(body, "compiled", grid, batch_threads=threads)
    assert found == outcome(body, "interpreter", grid, batch_threads=threads)
    assert batches == expected


def test_ctas_that_see_each_other(batches):
    """CTAs that read what others of another wave have stored do so in the order of the waves."""
    assert outcome(NEIGHBOUR, "compiled", checks="none") == outcome(NEIGHBOUR, "interpreter", checks="none")
    assert 0 in batches


def test_shared_memory_begins_anew(batches):
    """A CTA does not see what one before it has left in shared memory."""
    found = outcome(STALE, "compiled", n=20)
    assert found == outcome(STALE, "interpreter", n=20)
    assert 0 in batches
    assert len(found[2]) == 1


def test_a_fault_in_a_later_wave(batches):
    """What a fault finds, and the memory that it leaves, are those of waves that run one by one."""
    found = outcome(FAR, "compiled", n=20)
    assert found == outcome(FAR, "interpreter", n=20)
    assert 0 in batches
    assert len(found[2]) == 1


def test_a_budget_that_ends_within(batches):
    """A launch ends where its budget does."""
    found = outcome(DOUBLE, "compiled", max_instructions=800)
    assert found == outcome(DOUBLE, "interpreter", max_instructions=800)
    assert 0 in batches


def test_a_watcher_of_batches(batches):
    """Whoever is told of batches is told of those that run."""

    class Seen(Watcher):
        def __init__(self):
            self.ctas = []

        def batch_began(self, machine):
            self.ctas += machine.batch.ctas.tolist()

    seen = Seen()
    outcome(DOUBLE, "compiled", watchers=[seen])
    assert seen.ctas == list(range(40))
    assert batches == []

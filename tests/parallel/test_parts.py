"""What parts of a launch say of their bytes, and how they are joined: against sets of plain integers."""

import copy
import io
import os
import pickle
import random
import signal
import subprocess
import sys

import attrs
import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.checks.written import LEFT, spoil
from warpsim.errors import Finding
from warpsim.machine.state.global_memory import GlobalMemory
from warpsim.machine.values import Affine
from warpsim.parallel import divide, part, processes
from warpsim.parallel.divide import apply, independent
from warpsim.parallel.part import Change, Footprint, Marks, Outcome, _all_marked, mark, mark_affine, marks_of
from warpsim.parallel.processes import Files, Here, Mapped, Pickled, Processes

from .test_divided import Elsewhere, Kept, kernel

U64 = np.dtype(np.uint64)


def marks(members, size=64):
    """Marks as a part has them: one byte for each, whole units of 16."""
    found = np.zeros(-(-size // 16) * 16, np.uint8)
    found[list(members)] = 1
    return Marks.of(found)


def bytes_of(one, size=64):
    """The members of marks."""
    return set() if one is None else set(np.flatnonzero(one.bits(0, size)).tolist())


SETS = [set(random.Random(seed).sample(range(64), random.Random(seed).randrange(1, 20))) for seed in range(12)]
SETS += [set(range(first, last)) for first, last in ((0, 64), (0, 1), (63, 64), (7, 9), (8, 16), (5, 40), (40, 64))]


@pytest.mark.parametrize("members", SETS, ids=range(len(SETS)))
def test_sets_of_bytes(members):
    """From the first to the last, whichever part of it is asked for, and as an index."""
    one = marks(members)

    assert (one.first, one.last) == (min(members), max(members) + 1)
    assert (one.packed is None) == (len(members) == one.last - one.first)
    for first, last in ((0, 64), (3, 50), (one.first, one.last), (10, 11), (0, one.first), (one.last, 64)):
        assert (np.flatnonzero(one.bits(first, last)) + first).tolist() == sorted(m for m in members if first <= m < last)  # fmt: skip
    assert np.arange(64)[one.index()].tolist() == sorted(members)
    for other in SETS:
        assert one.overlaps(marks(other)) == bool(members & other)
    assert Marks.of(np.zeros(16, np.uint8)) is None


@pytest.mark.parametrize("nbytes", [1, 2, 4, 8, 12, 16, 24, 32])
def test_marked_places(nbytes):
    """Runs of any size from any place that is a multiple of what divides the size."""
    generator = random.Random(nbytes)
    step = nbytes & -nbytes
    for count in (1, 2, 5, 0):
        for unit in (1, step, 16):
            places = [generator.randrange(0, (256 - nbytes) // unit) * unit for _ in range(count)]
            found = np.zeros(256, np.uint8)
            mark(found, np.array(places, np.int64), nbytes)
            assert set(found.tolist()) <= {0, 1}
            assert set(np.flatnonzero(found).tolist()) == {p + k for p in places for k in range(nbytes)}


@pytest.mark.parametrize("nbytes", [1, 2, 4, 8, 12, 16, 32])
def test_marked_rows(nbytes):
    """Affine places are marked without being expanded, aligned or not."""
    generator = random.Random(nbytes)
    for _ in range(60):
        extents = tuple(generator.choice([1, 2, 3]) for _ in range(4))
        unit = generator.choice([1, nbytes])
        strides = tuple(generator.randrange(-4, 5) * unit if e > 1 else 0 for e in extents)
        start = 4096
        base = start + 800 + generator.choice([0, 1, 8, 16])
        found = np.zeros(2048, np.uint8)
        at = Affine(base, strides, extents, U64)
        places = [
            base - start + sum(s * i for s, i in zip(strides, index, strict=True)) for index in np.ndindex(extents)
        ]
        wanted = {p + k for p in places for k in range(nbytes)}
        mark_affine(found, at, start, nbytes)
        assert set(np.flatnonzero(found).tolist()) == wanted
        assert set(found.tolist()) <= {0, 1}


@pytest.mark.parametrize(("size", "padded"), [(0, 0), (1, 16), (16, 16), (17, 32)])
def test_marks_hold_whole_units(size, padded):
    """An allocation's marks are made once, for whole units of 16 bytes."""
    memory, found = GlobalMemory(), {}
    at = memory.map(np.zeros(size, np.uint8))
    one = marks_of(found, "key", memory.at(at))

    assert one.size == padded
    assert marks_of(found, "key", memory.at(at)) is one


# ---- what a part tells ----------------------------------------------------------------------------


def told(body, grid=2, n=4096, engine="interpreter", **options):
    """The bytes that the parts of a launch of CTAs read, wrote and reduced into, in the array."""
    words, there = np.arange(n, dtype=np.uint32), Kept()
    kernel(body, **options)((grid,), (32,), (words,), executor=there, workers=grid, engine=engine, checks="none")
    assert len(there.outcomes) == grid
    found = []
    for outcome in there.outcomes:
        assert outcome.known
        (reads,) = list(outcome.read.values()) or [None]
        (writes,) = list(outcome.written.values()) or [None]
        reduces = {kind: bytes_of(c.marks, 4 * n) for (_, kind), c in outcome.reduced.items()}
        found.append((bytes_of(reads, 4 * n), bytes_of(writes and writes.marks, 4 * n), reduces))
    return found


def run(first, count):
    """A run of bytes."""
    return set(range(first, first + count))


HEAD_90 = module_head("sm_90")
BULK = """.reg .pred %p9; .shared .align 16 .b8 s[64]; .shared .b64 bar; .reg .b64 %e; .reg .b32 %q;
setp.eq.u32 %p9, %r2, 0; mov.u32 %r6, %ctaid.x; mul.wide.u32 %rd2, %r6, 64; add.u64 %rd2, %rd0, %rd2;
mov.u32 %r7, s; mov.u32 %r8, bar;
@%p9 mbarrier.init.shared.b64 [bar], 1; @%p9 fence.mbarrier_init.release.cluster; bar.sync 0;
@%p9 mbarrier.arrive.expect_tx.shared.b64 %e, [bar], 48;
@%p9 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd2], 48, [bar];
W: mbarrier.test_wait.parity.shared.b64 %p8, [bar], 0; @!%p8 bra W; fence.proxy.async; bar.sync 0;
@%p9 cp.async.bulk.global.shared::cta.bulk_group [%rd2+8192], [s], 32; @%p9 cp.async.bulk.commit_group; @%p9 cp.async.bulk.wait_group 0;"""
TOLD = [
    # CTA c's threads have the words 32 c to 32 c + 31
    ("st.global.u32 [%rd1], 1;", lambda c: (set(), run(128 * c, 128), {})),
    ("ld.global.u32 %r3, [%rd1+8]; st.global.u32 [%rd1+8192], %r3;", lambda c: (run(128 * c + 8, 128), run(8192 + 128 * c, 128), {})),
    ("ld.global.u8 %r3, [%rd1+1]; st.global.u16 [%rd1+2], %r3;", lambda c: ({128 * c + 4 * t + 1 for t in range(32)}, {128 * c + 4 * t + k for t in range(32) for k in (2, 3)}, {})),
    ("setp.lt.u32 %p1, %r2, 5; @%p1 st.global.u32 [%rd1], 1;", lambda c: (set(), run(128 * c, 20), {})),
    ("and.b32 %r3, %r2, 5; setp.eq.u32 %p1, %r3, 5; @%p1 st.global.u32 [%rd1], 1;", lambda c: (set(), {128 * c + 4 * t + k for t in range(32) if t & 5 == 5 for k in range(4)}, {})),
    ("mul.wide.u32 %rd2, %r1, 16; add.u64 %rd2, %rd0, %rd2; st.global.v4.u32 [%rd2], {%r1, %r1, %r1, %r1};", lambda c: (set(), run(512 * c, 512), {})),
    # not affine: 16 bytes at places that nobody can tell beforehand
    ("mul.lo.u32 %r3, %r2, %r2; and.b32 %r3, %r3, 31; mad.lo.u32 %r3, %r3, 16, 0; cvt.u64.u32 %rd2, %r3; add.u64 %rd2, %rd0, %rd2; mov.u32 %r4, %ctaid.x; mul.wide.u32 %rd3, %r4, 1024; add.u64 %rd2, %rd2, %rd3; st.global.v4.u32 [%rd2], {%r2, %r2, %r2, %r2};", lambda c: (set(), {1024 * c + 16 * (t * t % 32) + k for t in range(32) for k in range(16)}, {})),
    ("red.global.add.u32 [%rd1+4], 1; red.global.max.s32 [%rd0+4096], %r1;", lambda c: (set(), set(), {("add", "u32"): run(128 * c + 4, 128), ("max", "s32"): run(4096, 4)})),
    # the same tile again in a loop
    ("mov.u32 %r3, 0; L: ld.global.u32 %r4, [%rd1]; st.global.u32 [%rd1+4096], %r4; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 3; @%p1 bra L;", lambda c: (run(128 * c, 128), run(4096 + 128 * c, 128), {})),
    ("ld.global.u32 %r4, [%rd1]; st.global.u32 [%rd1], %r4;", lambda c: (run(128 * c, 128), run(128 * c, 128), {})),
    ("ld.global.u64 %rd2, [%rd0]; st.global.u32 [%rd1+64], 5;", lambda c: (run(0, 8) if c < 3 else set(), run(128 * c + 64, 128), {})),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), TOLD, ids=range(len(TOLD)))
def test_what_a_part_touches(body, expected):
    """Exactly the bytes of each access, by lanes that make it."""
    assert told(body) == [expected(c) for c in range(2)]


def test_what_bulk_copies_touch():
    """Runs of bytes in both directions."""
    registers = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;"
    found = told(BULK.replace(".reg .pred %p9; ", ".reg .pred %p9; "), head=HEAD_90, registers=registers)

    assert found == [(run(64 * c, 48), run(8192 + 64 * c, 32), {}) for c in range(2)]


def test_only_plain_global_memory_counts():
    """What lies in shared or local memory, or in parameters, is a part's own."""
    body = ".shared .b32 s[32]; .local .b32 l[4]; st.local.u32 [l], %r1; ld.local.u32 %r3, [l]; st.shared.u32 [s], %r3; ld.shared.u32 %r3, [s]; st.global.u32 [%rd1], %r3;"
    assert told(body) == [(set(), run(128 * c, 128), {}) for c in range(2)]


# ---- joining --------------------------------------------------------------------------------------

BLANK = Outcome({}, {}, {}, True, 1, 1, 1, 1, {}, {}, (), None)
KINDS = [("add", "u32"), ("max", "u32")]


def drawn(generator):
    """An outcome over two arrays of 64 bytes, and its sets: read, written, and reduced into by kind."""
    read, written, reduced, sets = {}, {}, {}, {}
    for at in (0x1000, 0x2000):
        for name in generator.sample(["read", "written", *KINDS], generator.randrange(3)):
            first = generator.randrange(0, 64, 4)
            members = run(first, generator.choice([4, 8])) & run(0, 64)
            sets[at, name] = members
            if name == "read":
                read[at] = marks(members)
            elif name == "written":
                written[at] = Change(marks(members), np.full(len(members), generator.randrange(1, 256), np.uint8))
            else:
                reduced[at, name] = Change(marks(members), np.zeros(len(members), np.uint8))
    return attrs.evolve(BLANK, read=read, written=written, reduced=reduced), sets


def meet(one, other):
    """Whether what a part changes is anything to another, other than reductions of one kind."""
    for (at, name), members in one.items():
        for (there, what), others in other.items():
            harmless = (name == what and name != "written") or {name, what} == {"read"}
            if at == there and members & others and not harmless:
                return True
    return False


def own_conflict(sets):
    """Whether a part both reduces into bytes and writes them, or reads them, or reduces in two ways."""
    names = list(sets)
    return any(
        a[0] == b[0] and a[1] in KINDS and b[1] != "read" and a != b and sets[a] & sets[b] for a in names for b in names
    )


def test_independent_parts():
    """Parts are independent if no two of them meet, but in what both read or reduce in one way. Where one part alone does two
    things with a byte that it reduces into, either answer is right if no other part comes to it."""
    generator, seen = random.Random(5), {True: 0, False: 0}
    for _ in range(1500):
        parts = [drawn(generator) for _ in range(generator.randrange(1, 4))]
        expected = not any(meet(a, b) for i, (_, a) in enumerate(parts) for _, b in parts[:i])
        if any(own_conflict(sets) for _, sets in parts):
            continue
        seen[expected] += 1
        assert independent([outcome for outcome, _ in parts]) == expected
    assert min(seen.values()) > 200
    assert independent([])
    assert independent([BLANK, BLANK])
    assert not independent([BLANK, attrs.evolve(BLANK, known=False)])


def test_parts_that_write_what_they_reduce_into():
    """Such bytes cannot be joined, not even of one part, since the reduction would count from the wrong value."""
    members, values = marks(run(4, 4)), np.zeros(4, np.uint8)
    both = attrs.evolve(BLANK, written={0: Change(members, values)}, reduced={(0, KINDS[0]): Change(members, values)})
    assert not independent([both])
    apart = attrs.evolve(both, written={0: Change(marks(run(8, 4)), values)})
    assert independent([apart])


def test_applied():
    """Written bytes stay; reductions add up over what was there; other bytes and copies are left alone."""
    memory = GlobalMemory()
    array = np.arange(64, dtype=np.uint8)
    at = memory.map(array)
    before, words = array.copy(), array.view(np.uint32).copy()
    kept, version = copy.deepcopy(memory), memory.version

    def reduced(word, *results):
        return {(at, KINDS[0]): Change(marks(run(4 * word, 4 * len(results))), np.array(results, np.uint32).view(np.uint8))}  # fmt: skip

    parts = [
        attrs.evolve(BLANK, written={at: Change(marks({1, 5}), np.array([91, 95], np.uint8))}, reduced=reduced(4, words[4] + 10, words[5] + 20)),
        attrs.evolve(BLANK, written={at: Change(marks(run(8, 4)), np.array([1, 2, 3, 4], np.uint8))}, reduced=reduced(5, words[5] + 300)),
    ]  # fmt: skip
    apply(memory, parts)

    wanted = before.copy()
    wanted[[1, 5]] = 91, 95
    wanted[8:12] = 1, 2, 3, 4
    wanted.view(np.uint32)[4] += 10
    wanted.view(np.uint32)[5] += 320
    assert array.tolist() == wanted.tolist()
    assert kept.bytes_at(at).tolist() == before.tolist()
    assert memory.version > version


@pytest.mark.parametrize("size", [40, 37])
@pytest.mark.parametrize("changed", [(), (3,), (8, 9), (35,), (36,), (3, 36)])
@pytest.mark.parametrize("marked", [(), (3,), (8, 9), (35, 36), (3, 36)])
def test_changes_that_nobody_noted(size, changed, marked):
    """A part knows what it did if every byte that differs was noted as written or reduced into."""
    for kind in ("written", "reduced"):
        memory, footprint = GlobalMemory(), Footprint()
        at = memory.map(np.zeros(size, np.uint8))
        after = copy.deepcopy(memory)
        noted = marks_of(footprint.written if kind == "written" else footprint.reduced, at if kind == "written" else (at, KINDS[0]), memory.at(at))  # fmt: skip
        noted[list(marked)] = 1
        assert _all_marked(memory, after, footprint)
        after.own(at)
        after.bytes_at(at)[list(changed)] = 1
        assert _all_marked(memory, after, footprint) == (set(changed) <= set(marked))
    after.unmap(at)
    assert not _all_marked(memory, after, footprint)


def test_undefined_bytes_that_are_withheld():
    """They are no marks: such a launch runs in one piece."""
    memory = GlobalMemory()
    at = memory.map(np.zeros(64, np.uint8))
    memory.at(at).withheld = {}
    after = copy.deepcopy(memory)
    assert _all_marked(memory, after, Footprint())
    finding = Finding("uninitialised", "what is stored")
    spoil(after, finding, np.array([at]), np.array([LEFT]))
    assert not _all_marked(memory, after, Footprint())

    more = copy.deepcopy(after)
    assert _all_marked(after, more, Footprint())
    spoil(more, finding, np.array([at + 1]), np.array([LEFT]))
    assert not _all_marked(after, more, Footprint())


# ---- whether a launch may be divided ---------------------------------------------------------------


def reason(body, functions="", cooperative=False, target="sm_90"):
    """Why the CTAs of a kernel stay together."""
    text = f""".version 8.0\n.target {target}\n.address_size 64\n{functions}
.visible .entry k(.param .u64 p) {{ .reg .b32 a, b; .reg .b64 o; .reg .f32 f; .reg .pred g; .shared .align 8 .b64 s[4]; .local .b32 l; ld.param.u64 o, [p]; {body} ret; }}
"""
    plan = warpsim.load(text).image(warpsim.Device(target)).plan("k")
    return divide.kept_together(plan, cooperative=cooperative)


TALK = ".func talk(.reg .b64 o) { .reg .b32 a; atom.global.add.u32 a, [o], 1; st.global.u32 [o+4], a; ret; }\n"
CLOCK = ".func talk(.reg .b64 o) { .reg .b32 a; mov.u32 a, %clock; st.global.u32 [o+4], a; ret; }\n"
HEAP = ".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
TOGETHER = [
    ("st.global.u32 [o], 1;", "", None),
    ("red.global.add.u32 [o], 1;", "", None),
    ("atom.global.add.u32 a, [o], 1;", "", None),
    ("atom.global.add.u32 a, [o], 1; st.global.u32 [o+4], a;", "", "atom.global.add.u32"),
    ("atom.global.add.u32 _, [o], 1;", "", None),
    ("red.global.add.f32 [o], 0f3F800000;", "", "red.global.add.f32"),
    ("red.global.inc.u32 [o], 5;", "", "red.global.inc.u32"),
    ("atom.global.exch.b32 a, [o], 1;", "", "atom.global.exch.b32"),
    ("red.shared.inc.u32 [s], 5;", "", None),
    ("red.shared::cta.add.f32 [s], 0f3F800000;", "", None),
    ("red.inc.u32 [o], 5;", "", "red.inc.u32"),
    ("ld.volatile.global.u32 a, [o];", "", "ld.volatile.global.u32"),
    ("ld.acquire.gpu.global.u32 a, [o];", "", "ld.acquire.gpu.global.u32"),
    ("ld.volatile.shared.u32 a, [s];", "", None),
    ("mbarrier.init.shared.b64 [s], 1; mbarrier.test_wait.parity.shared.b64 g, [s], 0;", "", None),
    ("mov.u32 a, %clock; st.global.u32 [o], a;", "", "k reads a clock"),
    ("st.global.u32 [o], 1;", TALK, None),
    ("call talk, (o);", TALK, "atom.global.add.u32"),
    ("call talk, (o);", CLOCK, "talk reads a clock"),
    ("st.global.u32 [o], 1;", CLOCK, None),
    ("st.global.u32 [o], 1;", HEAP, "memory from the device's heap"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "functions", "said"), TOGETHER)
def test_what_keeps_ctas_together(body, functions, said):
    """What other CTAs can observe: order of atomics whose result is used, polls, clocks, the heap; in functions that are called, too."""
    found = reason(body, functions)

    assert (found is None) == (said is None)
    assert said is None or said in found
    assert reason(body, functions, cooperative=True) == "a cooperative launch"


def test_a_named_place():
    """The instruction is named by its line."""
    assert reason("\natom.global.exch.b32 a, [o], 1;") == "line 6: atom.global.exch.b32"


# ---- the launch as a whole -------------------------------------------------------------------------


def test_what_is_counted_and_said():
    """Progress after each part, text in the order of CTAs, and CTAs, instructions and cycles as in one piece."""
    said = []
    device, other = warpsim.Device("sm_80"), warpsim.Device("sm_80")
    k = kernel("st.global.u32 [%rd1], %r1;")
    words = np.zeros(384, np.uint32)
    alone = k((12,), (32,), (words,), device=device)
    there = Elsewhere()
    parts = k((12,), (32,), (words,), device=other, executor=there, workers=4, progress=lambda *n: said.append(n))

    assert said == [(3 * n * 8, 3 * n, 12) for n in range(1, 5)]
    assert (parts.instructions, parts.thread_instructions) == (alone.instructions, alone.thread_instructions)
    assert device.memory.nanoseconds == other.memory.nanoseconds


def test_printed_text_of_parts():
    """What CTAs print comes in their order, once."""
    head = (
        module_head()
        + ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n.global .align 1 .b8 f[4] = {37, 100, 32, 0};\n"
    )
    body = """.local .align 8 .b32 l[2]; .param .b64 x; .param .b64 y; .param .b32 z; setp.ne.u32 %p1, %r2, 0; @%p1 ret;
    mov.u32 %r3, %ctaid.x; st.local.u32 [l], %r3; mov.u64 %rd3, l; cvta.local.u64 %rd3, %rd3; mov.u64 %rd4, f; cvta.global.u64 %rd4, %rd4;
    st.param.b64 [x], %rd4; st.param.b64 [y], %rd3; call (z), vprintf, (x, y);"""
    there = Elsewhere()
    result = kernel(body, head=head)((12,), (32,), (np.zeros(1, np.uint32),), executor=there, workers=4)

    assert there.calls == 4
    assert result.stdout == "".join(f"{n} " for n in range(12))


@pytest.mark.parametrize(("limit", "over"), [(95, True), (96, False), (None, False)])
def test_the_limit_of_instructions(limit, over):
    """Twelve warps of eight instructions: 96 may run in parts under a limit of as many, and without any."""
    there = Elsewhere()
    k = kernel("st.global.u32 [%rd1], 1;")
    given = {"executor": there, "workers": 4, "max_instructions": limit}
    if over:
        with pytest.raises(warpsim.ExecutionError, match="more than 95 warp-instructions"):
            k((12,), (32,), (np.zeros(400, np.uint32),), **given)
    else:
        assert k((12,), (32,), (np.zeros(400, np.uint32),), **given).instructions == 96
    assert there.calls == 4


class Broken(Elsewhere):
    """Takes some calls, and then none at all."""

    def submit(self, fn, /, *args, **kwargs):
        """Take it, or fail."""
        if self.calls >= 4:
            self.calls += 1
            raise RuntimeError("cannot schedule new futures after shutdown")
        return super().submit(fn, *args, **kwargs)


def test_an_executor_that_breaks():
    """Where nothing can be submitted any more, what is lost is done here."""
    words, there = np.zeros(384, np.uint32), Broken(lost=[1, 3])
    kernel("st.global.u32 [%rd1], %r1;")((12,), (32,), (words,), executor=there, workers=4)

    assert words.tolist() == list(range(384))
    assert there.calls == 6


class Interrupted(Elsewhere):
    """A part is interrupted."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def submit(self, fn, /, *args, **kwargs):
        """Interrupt."""
        future = super().submit(fn, *args, **kwargs)
        if self.calls == self.part:
            future.result = self.stop
        return future

    def stop(self, timeout=None):
        """Ctrl-C."""
        raise KeyboardInterrupt


@pytest.mark.parametrize("part", [1, 2, 3, 4])
def test_an_interrupted_launch(part):
    """What parts before the interruption have written stays."""
    words = np.zeros(384, np.uint32)
    with pytest.raises(KeyboardInterrupt):
        kernel("st.global.u32 [%rd1], 1;")((12,), (32,), (words,), executor=Interrupted(part), workers=4)

    assert words.tolist() == [1] * 96 * (part - 1) + [0] * 96 * (5 - part)


def test_an_interrupted_launch_whose_parts_meet():
    """Where parts before the interruption have written the same word, memory stays as it was: no order of theirs is known."""
    words = np.full(4, 77, np.uint32)
    with pytest.raises(KeyboardInterrupt):
        kernel("st.global.u32 [%rd0], %r1;")((12,), (32,), (words,), executor=Interrupted(3), workers=4)

    assert words.tolist() == [77] * 4


def test_what_parts_have_done_is_not_done_again(monkeypatch):
    """Their memory, counts and text are the launch's; nothing runs here."""
    monkeypatch.setattr("warpsim.host.kernel.run", None)
    words = np.zeros(384, np.uint32)
    k = kernel("ld.global.u32 %r3, [%rd1]; add.u32 %r3, %r3, %r1; st.global.u32 [%rd1], %r3;")
    result = k((12,), (32,), (words,), executor=Elsewhere(), workers=4)

    assert words.tolist() == list(range(384))
    assert sum(result.opcodes.values()) == result.instructions


@pytest.mark.parametrize("on_finding", ["raise", "collect"])
def test_findings_that_end_a_part(on_finding):
    """Where findings are collected, those of all parts before the end are said, with their counts; else the last alone."""
    body = """mov.u32 %r3, %ctaid.x; setp.eq.u32 %p1, %r3, 7; setp.lt.u32 %p2, %r3, 5; add.u64 %rd2, %rd1, 65536;
    @%p2 st.global.u32 [%rd2], 1; @!%p1 bra D; L: bra L; D: st.global.u32 [%rd1], 1;"""
    found = []
    for options in ({}, {"executor": Elsewhere(), "workers": 4}):
        words = np.zeros(384, np.uint32)
        with pytest.raises(warpsim.ExecutionError) as raised:
            kernel(body)((12,), (32,), (words,), on_finding=on_finding, batch_threads=96, max_instructions=2000, **options)  # fmt: skip
        found.append([(f.rule, f.cta, f.count) for f in raised.value.findings])

    assert found[0] == found[1]
    assert len(found[0]) == (2 if on_finding == "collect" else 1)


def test_modules_that_a_worker_keeps():
    """A worker binds each text once, and keeps the last ones that it has met."""
    worker, there = part._Worker(), Kept()
    kernel("st.global.u32 [%rd1], %r1;")((2,), (32,), (np.zeros(64, np.uint32),), executor=there, workers=2)
    given = attrs.evolve(there.parts[0], addresses={})
    first = worker.image(given)
    assert worker.image(given) is first
    assert worker.image(attrs.evolve(given, file="other")) is not first
    assert worker.image(attrs.evolve(given, addresses={"x": 5})).addresses == {"x": 5}
    for number in range(part.KEPT - 1):
        worker.image(given)
        worker.image(attrs.evolve(given, file=str(number)))
    assert worker.image(given) is first
    assert len(worker.images) == part.KEPT
    for number in range(part.KEPT):
        worker.image(attrs.evolve(given, file=str(number)))
    assert worker.image(given) is not first


# ---- memory and messages on their way --------------------------------------------------------------


@pytest.fixture
def memory():
    """Two arrays, one of them empty, and one that nobody may write."""
    made = GlobalMemory()
    for number, size in enumerate((100, 0, 64)):
        made.map(np.arange(size, dtype=np.uint8) + number, name=f"a{number}", read_only=number == 2)
    return made


def ways(memory, tmp_path):
    """Memory as executors get it."""
    pickled, buffers = processes.taken_apart(memory)
    path = tmp_path / "memory"
    path.write_bytes(b"")
    yield Here(memory)
    yield pickle.loads(pickle.dumps(Pickled.of(memory)))
    yield Mapped(pickled, str(path), processes._write(str(path), buffers))


def test_memory_arrives(memory, tmp_path):
    """By any way the same arrays at the same addresses; the copy to work on has bytes of its own when it writes."""
    for sent in ways(memory, tmp_path):
        for _ in range(2):
            before, work = sent.load()
            assert work is not before
            for one in (before, work):
                assert [(a.start, a.name, a.read_only, a.data.tolist()) for a in one.allocations] == [
                    (a.start, a.name, a.read_only, a.data.tolist()) for a in memory.allocations
                ]
            at = work.allocations[0].start
            work.own(at)
            work.bytes_at(at)[:] = 200
            assert before.bytes_at(at).tolist() == list(range(100))


def test_no_memory_at_all(tmp_path):
    """An empty memory, and one of empty arrays, need no file."""
    for sizes in ((), (0, 0)):
        memory = GlobalMemory()
        for size in sizes:
            memory.map(np.zeros(size, np.uint8))
        pickled, buffers = processes.taken_apart(memory)
        before, work = Mapped(pickled, str(tmp_path / "none"), tuple((0, b.size) for b in buffers)).load()
        assert len(before.allocations) == len(work.allocations) == len(sizes)


def test_no_room_for_a_file(memory, monkeypatch):
    """Where no file can be made, memory goes as bytes."""

    def full(path, buffers):
        raise OSError(28, "No space left on device")

    files = Files()
    with files.mapped(memory) as sent:
        assert isinstance(sent, Mapped)
    monkeypatch.setattr(processes, "_write", full)
    with files.mapped(memory) as sent:
        assert isinstance(sent, Pickled)
        assert sent.load()[0].allocations[0].data.tolist() == list(range(100))
    files.end()


@pytest.mark.skipif(sys.platform == "win32", reason="files are not locked there")
def test_files_that_are_left_are_swept(tmp_path, monkeypatch):
    """Whoever makes a file deletes those of processes that are gone; what it makes is its own until it ends."""
    monkeypatch.setattr(processes, "IN_MEMORY", str(tmp_path))
    left = tmp_path / "warpsim-left.memory"
    left.write_bytes(b"")
    os.utime(left, (0, 0))
    files = Files()
    one, other = files._take(), files._take()
    left.write_bytes(b"")
    os.utime(left, (0, 0))
    handle = os.open(os.devnull, os.O_RDONLY)
    os.close(handle)
    processes.sweep(str(tmp_path))
    again = os.open(os.devnull, os.O_RDONLY)
    os.close(again)

    assert again == handle  # nothing is left open
    assert sorted(map(str, tmp_path.iterdir())) == sorted([one, other])
    handles = list(files.paths.values())
    files.end()
    assert not list(tmp_path.iterdir())
    for handle in handles:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(handle)


def message(*calls):
    """Requests as a worker reads them."""
    pipe = io.BytesIO()
    for call in calls:
        processes._send(pipe, call)
    return io.BytesIO(pipe.getvalue())


def test_a_worker_answers():
    """Each request gets an answer, its result or its error, until there are no more; arrays come as they are."""
    array = np.arange(1000, dtype=np.uint32)
    sink = io.BytesIO()
    processes.serve(message((divmod, (7, 2), {}), (int, ("x",), {}), (np.flip, (array,), {}), (sorted, ([2, 3],), {"reverse": True})), sink)  # fmt: skip
    answers = io.BytesIO(sink.getvalue())

    assert processes._receive(answers) == (True, (3, 1))
    good, error = processes._receive(answers)
    assert not good
    assert isinstance(error, ValueError)
    assert np.array_equal(processes._receive(answers)[1], array[::-1])
    assert processes._receive(answers) == (True, [3, 2])
    with pytest.raises(EOFError, match="the pipe is closed"):
        processes._receive(answers)


def test_a_message_that_is_cut():
    """Whatever of a message is missing, it is none."""
    whole = message((divmod, (np.arange(9), 2), {})).getvalue()
    for end in range(len(whole)):
        with pytest.raises(EOFError):
            processes._receive(io.BytesIO(whole[:end]))


def test_a_worker_as_a_process():
    """It takes requests from its input, answers on its output, and prints what its functions print elsewhere."""
    request = message((print, ("said",), {"flush": True}), (divmod, (7, 2), {})).getvalue()
    done = subprocess.run([sys.executable, "-c", processes.WORKER], input=request, capture_output=True)
    answers = io.BytesIO(done.stdout)

    assert processes._receive(answers) == (True, None)
    assert processes._receive(answers) == (True, (3, 1))
    assert answers.read() == b""
    assert done.stderr.decode().split() == ["said"]
    assert done.returncode == 0


def test_a_process_loads_nothing_from_the_current_folder(tmp_path, monkeypatch):
    """A stranger's files may lie there."""
    for name in ("numpy", "pickle", "warpsim", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the current folder has run')")
    monkeypatch.chdir(tmp_path)
    with Processes(1) as pool:
        assert pool.submit(divmod, 7, 2).result(60) == (3, 1)


@pytest.mark.skipif(sys.platform == "win32", reason="a process group has no Ctrl-C there")
def test_a_worker_leaves_ctrl_c_to_its_parent():
    """It answers what comes after the signal."""
    command = [sys.executable, "-c", processes.WORKER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        for _ in range(2):
            processes._send(worker.stdin, (divmod, (7, 2), {}))
            assert processes._receive(worker.stdout) == (True, (3, 1))
            worker.send_signal(signal.SIGINT)
        worker.stdin.close()
        assert worker.wait(60) == 0


def test_processes_are_used_again_and_end(monkeypatch):
    """A process that is idle takes the next call, and computes in one thread unless told otherwise; all end with the pool, and its files
    go."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    with Processes(1) as pool:
        assert pool.submit(os.getenv, "OPENBLAS_NUM_THREADS").result(60) == "3"
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    with Processes(2) as pool:
        assert pool.submit(os.getenv, "OPENBLAS_NUM_THREADS").result(60) == "1"
        numbers = {pool.submit(os.getpid).result(60) for _ in range(3)}
        assert len(numbers) == 1
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 1, 0).result(60)
        assert pool.submit(os.getpid).result(60) in numbers
        running = list(pool._running)
        assert [p.poll() for p in running] == [None]
    assert all(p.poll() is not None for p in running)

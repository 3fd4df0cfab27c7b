"""What runs as machine code, and in how many calls: regions that end early, give up or are left to the interpreter cost no bit,
so that only these numbers tell."""

import numpy as np
import pytest

import warpsim

pytest.importorskip("llvmlite", reason="the extra jit is not installed")

from warpsim.native.runtime.run import Runner

HEAD = """.version 8.4
.target sm_90
.address_size 64
.const .b32 constants[4] = {5, 7, 11, 13};
.visible .entry k(.param .u64 a, .param .u64 o, .param .u32 n, .param .align 4 .b8 s[16]) {
.reg .b32 %r<20>; .reg .b64 %d<12>; .reg .f32 %f<8>; .reg .f64 %g<4>; .reg .pred %p<5>; .reg .b16 %h<4>;
.shared .align 16 .b8 tile[2048]; .local .align 8 .b8 mine[64];
ld.param.u64 %d1, [a]; ld.param.u64 %d2, [o]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r0, tile;
mad.lo.u32 %r4, %r3, 64, %r2; mul.wide.u32 %d3, %r4, 4; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3; and.b32 %r5, %r2, 31;
mov.u32 %r6, 0; mov.u32 %r7, 1; shl.b32 %r8, %r2, 2; add.u32 %r8, %r8, %r0;
"""
TAIL = "st.global.u32 [%d2], %r7; ret; }"
LOOP = "L: {} add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r1; @%p1 bra L;"
BODIES = {
    "straight": "ld.global.u32 %r7, [%d1]; ld.global.u8 %r9, [%d1+1]; mad.lo.u32 %r7, %r7, 3, %r9;",
    "a loop": LOOP.format("mad.lo.u32 %r7, %r7, 3, %r2;"),
    "loops in a loop": LOOP.format("mov.u32 %r9, 0; M: add.u32 %r7, %r7, %r9; add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 4; @%p2 bra M;"),
    "loads in a loop": LOOP.format("ld.global.u32 %r9, [%d1]; xor.b32 %r7, %r7, %r9;"),
    "stores in a loop": LOOP.format("st.global.u32 [%d2], %r6; ld.global.u32 %r9, [%d2]; add.u32 %r7, %r7, %r9;"),
    "lanes that wrap round": LOOP.format("sub.u32 %r9, %r2, 5; cvt.u64.u32 %d5, %r9; shr.u64 %d5, %d5, 3; cvt.u32.u64 %r9, %d5; add.u32 %r7, %r7, %r9;"),
    "shuffles": LOOP.format("shfl.sync.bfly.b32 %r9, %r7, 1, 31, -1; add.u32 %r7, %r9, %r2;"),
    "votes": LOOP.format("setp.lt.u32 %p2, %r2, %r6; vote.sync.ballot.b32 %r9, %p2, -1; add.u32 %r7, %r7, %r9;"),
    "a shared row": "st.shared.u32 [%r8], %r2; " + LOOP.format("ld.shared.u32 %r9, [%r8]; add.u32 %r7, %r7, %r9;"),
    "barriers": LOOP.format("st.shared.u32 [%r8], %r7; bar.sync 0; xor.b32 %r9, %r8, 128; ld.shared.u32 %r9, [%r9]; add.u32 %r7, %r7, %r9; bar.sync 0;"),
    "guards": LOOP.format("setp.lt.u32 %p2, %r5, 7; @%p2 add.u32 %r7, %r7, 5; @!%p2 xor.b32 %r7, %r7, %r6;"),
    "branches that part": LOOP.format("setp.lt.u32 %p2, %r5, 7; @%p2 bra M; add.u32 %r7, %r7, 5; bra N; M: xor.b32 %r7, %r7, %r6; N:"),
    "branches of whole warps": LOOP.format("setp.lt.u32 %p2, %r2, 32; @%p2 bra M; add.u32 %r7, %r7, 5; bra N; M: xor.b32 %r7, %r7, %r6; N:"),
    "rounds of their own": "add.u32 %r1, %r1, %r5; " + LOOP.format("mad.lo.u32 %r7, %r7, 3, %r2;"),
    "an early end": "setp.ge.u32 %p2, %r2, 40; @%p2 bra E; " + LOOP.format("mad.lo.u32 %r7, %r7, 3, %r2;") + "E:",
    "sums of all": "cvta.to.global.u64 %d4, %d2; " + LOOP.format("red.global.add.u32 [%d4], 1;") + "ld.global.u32 %r7, [%d2];",
    "sums in shared memory": "st.shared.u32 [tile], 0; bar.sync 0; " + LOOP.format("red.shared.add.u32 [tile], %r2;") + "bar.sync 0; ld.shared.u32 %r7, [tile];",
    "once in a large shared memory": ".shared .align 4 .b8 more[4096]; mov.u32 %r9, more; mad.lo.u32 %r8, %r2, 4, %r9; st.shared.u32 [%r8], %r2; red.shared.add.u32 [%r8], 5; ld.shared.u32 %r9, [%r8]; mad.lo.u32 %r7, %r9, 100, %r7;",
    "local memory": LOOP.format("st.local.u32 [mine], %r6; ld.local.u32 %r9, [mine]; add.u32 %r7, %r7, %r9;"),
    "generic addresses": "cvt.u64.u32 %d5, %r8; cvta.shared.u64 %d5, %d5; " + LOOP.format("st.u32 [%d5], %r6; ld.u32 %r9, [%d5]; add.u32 %r7, %r7, %r9;"),
    "a debugger's local memory": "mov.u64 %d5, mine; cvta.local.u64 %d5, %d5; " + LOOP.format("st.u32 [%d5+8], %r6; ld.u32 %r9, [%d5+8]; st.u32 [%d5+12], %r9; ld.v2.u32 {%r9, %r10}, [%d5+8]; mad.lo.u32 %r7, %r7, %r9, %r10;"),
    "constants": LOOP.format("ld.const.u32 %r9, [constants+8]; add.u32 %r7, %r7, %r9;"),
    "parameters": LOOP.format("ld.param.u32 %r9, [s+4]; add.u32 %r7, %r7, %r9;"),
    "vectors": "shl.b32 %r13, %r2, 4; add.u32 %r13, %r13, %r0; st.shared.v4.u32 [%r13], {%r6, %r6, %r6, %r6}; " + LOOP.format("st.shared.v2.u32 [%r13+8], {%r6, %r7}; ld.shared.v4.u32 {%r9, %r10, %r11, %r12}, [%r13]; add.u32 %r7, %r11, %r12;"),
    "floating point": LOOP.format("cvt.rn.f32.u32 %f1, %r7; fma.rn.f32 %f1, %f1, 0f3F000000, 0f3F800000; sqrt.rn.f32 %f1, %f1; ex2.approx.ftz.f32 %f2, %f1; add.f32 %f1, %f1, %f2; cvt.rzi.u32.f32 %r7, %f1;"),
    "double precision": LOOP.format("cvt.rn.f64.u32 %g1, %r7; fma.rn.f64 %g1, %g1, 0d3FE0000000000000, 0d3FF0000000000000; div.rn.f64 %g1, %g1, 0d4008000000000000; cvt.rzi.u32.f64 %r7, %g1; add.u32 %r7, %r7, 9;"),
    "halves": LOOP.format("cvt.rn.f16.u32 %h1, %r5; fma.rn.f16 %h2, %h1, %h1, %h1; mov.b32 %r9, {%h1, %h2}; add.u32 %r7, %r7, %r9;"),
    "lanes that are named": LOOP.format("activemask.b32 %r9; popc.b32 %r9, %r9; add.u32 %r7, %r7, %r9; bfe.u32 %r10, %r7, 3, 7; prmt.b32 %r7, %r7, %r10, 0x2103;"),
    "a clock": LOOP.format("mov.u32 %r9, %clock; and.b32 %r9, %r9, 0; add.u32 %r7, %r7, %r9;"),
    "an atomic that is read": LOOP.format("atom.global.add.u32 %r9, [%d2], 1; add.u32 %r7, %r7, %r9;"),
    "ctas that meet": LOOP.format("ld.param.u64 %d6, [o]; ld.global.u32 %r9, [%d6]; and.b32 %r9, %r9, 0; add.u32 %r7, %r7, %r9; st.global.u32 [%d2], %r7;"),
    "some lanes of a warp": "setp.lt.u32 %p3, %r5, 20; @%p3 bra S; bra E; S: " + LOOP.format("shfl.sync.bfly.b32 %r9, %r7, 1, 31, 0xfffff; add.u32 %r7, %r9, %r2;") + "E:",
}  # fmt: skip


WHOLE = ["DONE"], {(False, True, True, True, True)}, [], 0
"""One call runs the launch to its end: outcomes of the calls, options of the regions, reasons against machine code, and how many
warp-instructions were interpreted."""
EXPECTED = {
    "lanes that wrap round": (["DONE"], {(False, True, True, True, False)}, [], 0),
    "generic addresses": (["DONE"], {(False, False, True, False, True)}, [], 192),
    "a clock": (["DONE"], {(False, True, True, True, True)}, ["a clock"], 192),
    "an atomic that is read": (["DONE"], {(False, True, True, True, True)}, [], 162),
    "ctas that meet": (["DONE"] * 5, {(False, False, True, False, True)}, [], 12),
    "some lanes of a warp": (["DONE"], {(False, True, False, True, True)}, [], 162),
}
"""What is less than that: values whose strides do not hold, clocks, atomics whose order is seen, shuffles of a part of a warp, and stores that may meet those of
other CTAs."""


def launch(body, engine):
    """The module, and what a launch leaves and counts."""
    module = body if isinstance(body, warpsim.Module) else warpsim.load(HEAD + body + TAIL)
    given, out = (np.arange(192, dtype=np.uint32) * 7919) % 1000, np.zeros(192, np.uint32)
    result = module["k"]((3,), (64,), (given, out, 5, np.arange(4, dtype=np.uint32)), engine=engine)
    return module, (out.tolist(), result.instructions, result.thread_instructions, dict(result.opcodes))


@pytest.mark.parametrize("name", BODIES)
def test_calls(name, monkeypatch):
    """After a few launches, in which regions find out what they may not do."""
    calls, run = [], Runner.run

    def noted(self, machine, *more, **options):
        before = machine.launch.instructions
        outcome = run(self, machine, *more, **options)
        calls.append((outcome.name, machine.launch.instructions - before))
        return outcome

    monkeypatch.setattr(Runner, "run", noted)
    _, expected = launch(BODIES[name], "interpreter")
    assert calls == []
    module = warpsim.load(HEAD + BODIES[name] + TAIL)
    for _ in range(5):
        calls.clear()
        _, found = launch(module, "compiled")
        assert found == expected

    native = module.image(module.device).plan("k").main.notes["native"]
    options = {tuple(entry.options[:5]) for entry in native.entries.values() if any(entry.codes.values())}
    outcomes = [outcome for outcome, _ in calls]
    left = expected[1] - sum(count for _, count in calls)
    assert (outcomes, options, sorted(set(native.reasons.values())), left) == EXPECTED.get(name, WHOLE)


def test_a_warp_of_few_lanes(done):
    """Rows are loaded whole, but stored only by the lanes that there are."""
    given, out = (np.arange(192, dtype=np.uint32) * 7919) % 1000, np.full(192, 7, np.uint32)
    module = warpsim.load(HEAD + BODIES["straight"] + TAIL)
    module["k"]((3,), (40,), (given, out, 5, np.arange(4, dtype=np.uint32)), engine="compiled")

    assert done
    expected = np.where(np.arange(192) % 64 < 40, given * 3 + (given >> 8), 7)
    assert (out == expected).all()


def test_nobody_looks_on(done):
    """Regions that leave something in shared memory, with nobody who wants to know."""
    body = "st.shared.u32 [%r8], %r2; " + BODIES["a clock"] + "ld.shared.u32 %r9, [%r8]; mad.lo.u32 %r7, %r9, 2, %r7;"
    out = np.zeros(192, np.uint32)
    module = warpsim.load(HEAD + body + TAIL)
    module["k"]((3,), (64,), (out, out, 5, np.arange(4, dtype=np.uint32)), engine="compiled", checks="none")

    assert done
    assert (out == 2 * (np.arange(192) % 64) + 1).all()

"""What is known of registers before anything runs, against what they hold when random kernels have run; and how much must be known."""

import random

import numpy as np
import pytest

import warpsim
from warpsim.analysis.facts import Facts
from warpsim.analysis.values import Spread

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 16 data, .param .u32 n) {directives}
{{
.reg .b16 h<3>; .reg .b32 r<20>, g, t, k; .reg .b64 a, b, q<4>; .reg .pred p<4>, w;
.shared .align 64 .b8 pad[12]; .shared .align 16 .b8 s[64];
ld.param.u64 a, [data]; ld.param.u32 r2, [n]; mov.u32 t, %tid.x; mov.u32 k, %ntid.x; mov.u32 g, %ctaid.x; mad.lo.u32 g, g, k, t;
mov.u32 r0, t; mov.u32 r1, %laneid; mul.wide.u32 b, g, 4; add.u64 b, b, a; ld.global.u32 r3, [b]; mov.u32 r4, s; mov.u32 r5, %lanemask_le;
mov.u32 r6, 48; shr.u32 r7, t, 5; shl.b32 r8, r3, 4; mul.lo.u32 r9, r2, 24; cvt.u32.u64 r10, a; and.b32 r11, t, 96; mov.u32 r12, %ctaid.x;
setp.lt.u32 p0, r1, 7; setp.lt.u32 p1, r2, 5; setp.lt.u32 p2, r3, 99; setp.ge.u32 p3, t, 64;
"""
PREDICATES, REGISTERS = 4, 13
TWO = [
    "add.u32",
    "sub.u32",
    "mul.lo.u32",
    "and.b32",
    "or.b32",
    "xor.b32",
    "min.u32",
    "max.s32",
    "mul.hi.u32",
    "mul24.lo.u32",
]
UNARY = ["not.b32", "neg.s32", "popc.b32", "brev.b32", "clz.b32", "abs.s32", "mov.u32"]
WARP = [
    "shfl.sync.idx.b32 {d}, {a}, {i}, 31, -1;", "shfl.sync.bfly.b32 {d}, {a}, {i}, 31, -1;", "shfl.sync.up.b32 {d}, {a}, {i}, 0, -1;",
    "shfl.sync.idx.b32 {d}, {a}, {b}, 31, -1;", "vote.sync.ballot.b32 {d}, {p}, -1;", "redux.sync.add.u32 {d}, {a}, -1;",
    "shfl.sync.idx.b32 {d}, {a}, {i}, 0x1c1f, -1;", "activemask.b32 {d};",
]  # fmt: skip


class Random:
    """A kernel of random instructions, branches and loops."""

    def __init__(self, seed, directives):
        self.rng = random.Random(seed)
        self.lines, self.labels = [], 0
        self.block(12, 2)
        stores = "".join(f"st.global.u32 [a+{16 * 4 * 1024 + 4096 * 4 * k}], r{k};\n" for k in range(REGISTERS))
        stores += "".join(
            f"selp.u32 k, 1, 0, p{k}; st.global.u32 [a+{16 * 4 * 1024 + 4096 * 4 * (REGISTERS + k)}], k;\n"
            for k in range(PREDICATES)
        )
        end = "mul.wide.u32 b, g, 4; add.u64 a, a, b;\nEND:\n" + stores + "ret;\n}\n"
        self.text = HEAD.format(directives=directives) + "\n".join(self.lines) + "\n" + end

    def register(self):
        """Any of them."""
        return f"r{self.rng.randrange(REGISTERS)}"

    def operand(self):
        """A register or a literal."""
        return (
            self.register()
            if self.rng.random() < 0.7
            else str(self.rng.choice([0, 1, 2, 3, 4, 8, 12, 16, 31, 32, 64, 0xFF, 0xFFFF0000, -4]))
        )

    def block(self, count, depth, *, together=True):
        """Instructions; ``together``: by whole warps."""
        rng = self.rng
        for _ in range(count):
            kind = rng.random()
            d, a, b, c = self.register(), self.register(), self.operand(), self.operand()
            p, i = f"p{rng.randrange(PREDICATES)}", rng.randrange(32)
            guard = rng.choice(["", "", "", f"@{p} ", f"@!{p} "])
            if kind < 0.30:
                self.lines.append(f"{guard}{rng.choice(TWO)} {d}, {a}, {b};")
            elif kind < 0.36:
                self.lines.append(f"{guard}mad.lo.u32 {d}, {a}, {b}, {c};")
            elif kind < 0.46:
                self.lines.append(
                    f"{guard}{rng.choice(['shl.b32', 'shr.u32', 'shr.s32'])} {d}, {a}, {rng.choice([0, 1, 2, 4, 5, 31, 32, 40, a])};"
                )
            elif kind < 0.54:
                self.lines.append(f"{guard}{rng.choice(UNARY)} {d}, {a};")
            elif kind < 0.60:
                self.lines.append(f"{guard}selp.b32 {d}, {a}, {b}, {p};")
            elif kind < 0.68:
                self.lines.append(f"setp.{rng.choice(['lt', 'eq', 'ge'])}.{rng.choice('us')}32 {p}, {a}, {b};")
            elif kind < 0.74:
                self.lines.append(rng.choice([
                    f"cvt.u16.u32 h0, {a}; cvt.{rng.choice('us')}32.{rng.choice('us')}16 {d}, h0;", f"mov.b32 {{h0, h1}}, {a}; mov.b32 {d}, {{h1, h0}};",
                    f"cvt.u64.u32 q0, {a}; mul.lo.u64 q1, q0, 3; cvt.u32.u64 {d}, q1;", f"prmt.b32 {d}, {a}, {b}, 0x3210;", f"bfe.u32 {d}, {a}, 3, 6;",
                    f"bfi.b32 {d}, {a}, {b}, 8, 4;", f"cvt.s32.s8 {d}, {a};", f"mov.b64 q2, {{{a}, {d}}}; shr.u64 q2, q2, 8; cvt.u32.u64 {d}, q2;",
                ]))  # fmt: skip
            elif kind < 0.82 and together:
                self.lines.append(rng.choice(WARP).format(d=d, a=a, b=b, i=i, p=p))
            elif depth and kind < 0.93:
                self.labels += 1
                label = f"L{self.labels}"
                self.lines.append(f"@{rng.choice(['', '!'])}{p} bra {label};")
                self.block(rng.randint(1, 4), depth - 1, together=False)
                if rng.random() < 0.5:
                    self.lines.append(f"bra {label}E;\n{label}:")
                    self.block(rng.randint(1, 4), depth - 1, together=False)
                    label += "E"
                self.lines.append(f"{label}:")
            elif depth:
                self.labels += 1
                label = f"L{self.labels}"
                self.lines.append(f"mov.u32 r{13 + depth}, {rng.choice([0, 1])}; {label}:")
                self.block(rng.randint(1, 3), 0, together=False)
                self.lines.append(
                    f"add.u32 r{13 + depth}, r{13 + depth}, 1; setp.lt.u32 w, r{13 + depth}, 3; @w bra {label};"
                )


def results(kernel, threads, n=3):
    """What each register holds in the end, ``[register, CTA, thread]``."""
    memory = np.zeros(16 * 1024 + 4096 * (REGISTERS + PREDICATES) + 4096, np.uint32)
    memory[: 2 * threads] = np.random.default_rng(threads).integers(0, 200, 2 * threads)
    warpsim.load(kernel.text)["k"](2, threads, (memory, n), checks="none")
    rows = memory[16 * 1024 :][: 4096 * (REGISTERS + PREDICATES)].reshape(-1, 4096)
    return rows[:, : 2 * threads].reshape(-1, 2, threads)


ALU = {
    "add", "sub", "mul", "mad", "and", "or", "xor", "min", "max", "not", "neg", "popc", "brev", "clz", "abs", "mov", "shl", "shr",
    "selp", "setp", "prmt", "bfe", "bfi",
}  # fmt: skip
SIZES = {Spread.CTA: 1024, Spread.WARPGROUP: 128, Spread.WARP: 32}


def sound(value, held):
    """Whether a register may hold these values in the threads of a CTA."""
    bits = np.broadcast_to(value.bits, max(len(value.bits), len(held)))[: len(held)]
    known = (np.uint64(1) << np.uint64(value.zeros)) - np.uint64(1) if value.zeros < 64 else np.uint64(2**64 - 1)
    if ((held.astype(np.uint64) ^ bits) & known & np.uint64(0xFFFFFFFF)).any():
        return False
    size = SIZES.get(value.spread, len(held) if value.spread is Spread.KNOWN else 1)
    return all(len(set(held[at : at + size].tolist())) == 1 for at in range(0, len(held), size))


KERNELS = [*range(30), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(30, 600))]
BLOCKS = [(".reqntid 96", 96), (".reqntid 160", 160), (".maxntid 64", 64), ("", 96)]


@pytest.mark.parametrize("seed", KERNELS)
def test_what_is_known_is_so(seed):
    """Bits, and over which threads a register is the same."""
    directives, threads = BLOCKS[seed % len(BLOCKS)]
    kernel = Random(seed, directives)
    program = warpsim.load(kernel.text).program
    facts = Facts(program, program.functions["k"])
    block = facts.place[program.functions["k"].labels["END"]]
    held, checked = results(kernel, threads), set()
    for step in (step for step in facts.steps if step.block == block):
        instruction = step.instruction
        register = instruction.operands[-1].register if instruction.form.root in ("selp", "st") else None
        if register is not None and register.name != "k":
            row = int(register.name[1:]) + (REGISTERS if register.name[0] == "p" else 0)
            assert all(sound(step.read(register.index), cta) for cta in held[row]), (register.name, kernel.text)
            checked.add(row)

    assert len(checked) == REGISTERS + PREDICATES


def least(instruction, values):
    """How many low bits of a result must be known, and over which threads it must be the same: by arithmetic."""
    name = instruction.op.text.split(".")[0]
    spread = max(v.spread for v in values)
    if all(v.exact for v in values):
        return 64, spread
    zeros = [64 if v.exact else v.zeros for v in values]
    low = [int(np.bitwise_or.reduce(v.bits)) for v in values]
    factors = [(x & -x).bit_length() - 1 if x else 32 for x in low]
    if name in ("add", "sub", "or", "xor"):
        return min(zeros), spread
    if name == "and":
        return max(min(zeros), *(f if v.exact else 0 for f, v in zip(factors, values, strict=True))), spread
    if name == "mul" and ".lo" in instruction.op.text and any(v.exact for v in values):
        return min(zeros) + factors[0 if values[0].exact else 1], spread
    if name == "shl" and values[1].constant is not None and values[1].constant < 32:
        return zeros[0] + values[1].constant, spread
    if name == "shr" and values[1].constant is not None and values[1].constant < 32:
        return zeros[0] - values[1].constant, spread
    return (zeros[0], spread) if name == "mov" else (0, spread)


@pytest.mark.parametrize("seed", range(8))
def test_as_much_is_known_as_can_be(seed):
    """Results of known operands are known; sums, products, shifts and masks keep low bits; and all are as uniform as their operands."""
    kernel = Random(f"exact {seed}", BLOCKS[seed % len(BLOCKS)][0])
    program = warpsim.load(kernel.text).program
    facts = Facts(program, program.functions["k"])
    checked = 0
    for step in facts.steps:
        instruction = step.instruction
        sources = instruction.operands[1:]
        name = instruction.op.text.split(".")[0]
        if name not in ALU:
            continue
        target = instruction.operands[0]
        if target.register is None or not all(o.is_plain for o in sources):
            continue
        values = [step.value(o) for o in sources]
        (made,) = facts.evaluator.results(instruction, step.read).values()
        zeros, spread = least(instruction, values)
        bits = 1 if target.register.type.kind == "p" else target.register.type.bits
        assert made.exact or min(made.zeros, bits) >= min(zeros, bits), (instruction.text, values, made)
        assert made.spread <= max(spread, Spread.CTA), (instruction.text, values, made)
        checked += 1

    assert checked > 10

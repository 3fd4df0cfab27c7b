"""Approximate functions of constants, which the assembler computes itself: what a GPU gives for them.

foldings.py FILE.npz           needs libcuda and NumPy only; runs every program of `programs` and stores the results
foldings.py FILE.npz more      the same for those of `more`
"""

import random
import struct
import sys

FUNCTIONS = ("sin", "cos", "ex2", "lg2", "rcp", "rsqrt", "sqrt")
SPECIAL = (0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x80000001, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0x409CE074,
           0x49742400, 0x00800000, 0x80800000, 0x007FFFFF, 0x7E800001, 0xC2FC0001, 0xC3150000, 0x42FFFFFF)  # fmt: skip
OPS = (  # destination, sources, text
    *[("f", "ff", f"{op}{rnd}{ftz}.f32") for op in ("add", "sub", "mul") for rnd in ("", ".rn", ".rz") for ftz in ("", ".ftz")],
    *[("f", "ff", f"{op}.f32") for op in ("min", "max", "add.sat", "mul.ftz.sat", "mul.rn.sat", "min.NaN", "copysign", "div.rn")],
    *[("f", "ff", f"div.{kind}{ftz}.f32") for kind in ("approx", "full") for ftz in ("", ".ftz")],
    *[("f", "f", f"{op}.f32") for op in ("abs", "neg", "neg.ftz", "mov", "rcp.rn", "sqrt.rn", "tanh.approx", "sin.approx", "ex2.approx.ftz", "rsqrt.approx")],
    *[("f", "f", f"cvt.{rnd}.f32.f32") for rnd in ("rni", "rzi.ftz", "rmi", "rpi", "sat")],
    ("f", "fff", "fma.rn.f32"), ("f", "ffp", "selp.f32"), ("f", "ffr", "slct.f32.s32"), ("f", "r", "mov.b32"),
    ("f", "r", "cvt.rn.f32.u32"), ("f", "r", "cvt.rn.f32.s32"), ("f", "r", "cvt.rz.f32.u32"), ("f", "d", "cvt.rn.f32.f64"),
    ("f", "d", "cvt.rz.f32.f64"), ("f", "h", "cvt.f32.f16"), ("f", "l", "cvt.rn.f32.u64"),
    *[("r", "rr", op) for op in ("add.u32", "sub.s32", "mul.lo.u32", "mul.hi.s32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "shl.b32", "shr.u32", "shr.s32", "mul24.lo.u32", "add.sat.s32", "div.u32", "rem.s32")],
    *[("r", "r", op) for op in ("not.b32", "neg.s32", "abs.s32", "popc.b32", "clz.b32", "brev.b32", "cnot.b32", "bfind.u32")],
    ("r", "rrr", "mad.lo.s32"), ("r", "rrr", "sad.u32"), ("r", "rrr", "shf.l.wrap.b32"), ("r", "rrr", "bfe.u32"), ("r", "rrp", "selp.b32"),
    ("r", "rrr", "prmt.b32"), ("r", "rr", "set.lt.u32.s32"), ("r", "ff", "set.ge.u32.f32"), ("r", "f", "cvt.rzi.s32.f32"),
    ("r", "f", "cvt.rmi.s32.f32"), ("r", "f", "mov.b32"), ("r", "l", "cvt.u32.u64"), ("r", "d", "cvt.rni.s32.d"), ("l", "rr", "mul.wide.u32"),
    ("l", "r", "cvt.u64.u32"), *[("l", "ll", op) for op in ("add.u64", "mul.lo.u64", "and.b64", "min.u64", "sub.s64")],
    ("l", "lr", "shl.b64"), ("l", "lr", "shr.u64"), ("d", "f", "cvt.f64.f32"), ("d", "r", "cvt.rn.f64.s32"),
    *[("d", "dd", f"{op}.f64") for op in ("add", "mul", "sub.rn", "max", "div.rn")], ("h", "f", "cvt.rn.f16.f32"), ("h", "hh", "add.f16"),
    ("h", "h", "neg.f16"), ("p", "ff", "setp.lt.f32"), ("p", "rr", "setp.ge.s32"), ("p", "ll", "setp.eq.u64"), ("p", "pp", "and.pred"),
)  # fmt: skip
WIDTH = {"f": ".f32", "r": ".b32", "l": ".b64", "d": ".f64", "h": ".b16", "p": ".pred"}


def number(rng):
    """An f32 as bits: of any size, more often near 1."""
    if rng.random() < 0.7:
        return struct.unpack("<I", struct.pack("<f", rng.uniform(-12, 12)))[0]
    return rng.getrandbits(32)


def literal(rng, kind):
    """A constant of a kind of register, as an operand."""
    if kind == "f":
        return f"0f{number(rng):08X}"
    if kind == "d":
        return "0d" + struct.pack(">d", rng.uniform(-12, 12)).hex().upper()
    if kind == "h":
        return str(rng.randrange(0x2000, 0x5000))
    return str(rng.choice([rng.randrange(40), rng.getrandbits(31)]))


def of_literal(rng):
    """A function of one literal."""
    if rng.random() < 0.25:
        terms = ", ".join(f"0f{rng.choice([number(rng), number(rng), rng.choice(SPECIAL)]):08X}" for _ in range(2))
        return [f"div.{rng.choice(['approx', 'full', 'approx.ftz', 'full.ftz'])}.f32 %f9, {terms};"]
    value = rng.choice([number(rng), number(rng), rng.getrandbits(32), rng.getrandbits(31), rng.choice(SPECIAL)])
    return [f"{rng.choice(FUNCTIONS)}.approx{rng.choice(['', '.ftz'])}.f32 %f9, 0f{value:08X};"]


def of_arithmetic(rng):
    """A function of what arithmetic on constants gives, in straight code or behind a branch that data decide."""
    held = {kind: [] for kind in WIDTH}
    lines = []

    def new(kind):
        held[kind].append(f"%{kind}{len(held[kind])}")
        return held[kind][-1]

    for kind in "ffrrld h".replace(" ", ""):
        value = literal(rng, kind)
        lines.append(f"mov{WIDTH[kind]} {new(kind)}, {value};")
    lines.append(f"setp.lt.s32 {new('p')}, {rng.randrange(9)}, 4;")
    for _ in range(rng.randrange(1, 6)):
        kind, sources, text = rng.choice(OPS)
        terms = [rng.choice(held[s][-3:]) for s in sources]
        text = text.replace("s32.d", "s32.f64")
        if len(held[kind]) < 9:
            lines.append(f"{text} {new(kind)}, {', '.join(terms)};")
    way = rng.randrange(6)
    last = held["f"][-1]
    if way < 3:  # where ways meet
        again = f"0f{number(rng):08X}"
        if way:
            lines.append(f"mov.f32 {last}, {again};")
        lines.append("setp.ne.u32 %p9, %n, 0; @%p9 bra MEET; st.global.u32 [%a], %n;")
        lines.append(f"mov.f32 {last}, {again if way == 1 else literal(rng, 'f')}; MEET:")
    elif way == 3:
        lines.append(f"@{rng.choice(held['p'])} mov.f32 {last}, {literal(rng, 'f')};")
    lines.append(f"{rng.choice(FUNCTIONS)}.approx{rng.choice(['', '.ftz'])}.f32 %f9, {last};")
    return lines


def of_sum(rng):
    """A product of constants and its sum with what only the GPU knows: no fused operation."""
    kind = rng.choice(["", ".ftz"])
    return [
        f"mul{kind}.f32 %f1, 0f{number(rng):08X}, 0f{number(rng):08X};",
        f"cvt.rn.f32.u32 %f2, %n; add.f32 %f2, %f2, 0f{number(rng):08X};",
        f"{rng.choice(['add', 'sub'])}{kind}.f32 %f9, %f1, %f2;",
    ]


def programs(count, seed=0):
    """Lines of PTX that leave an f32 in %f9; %n is 0."""
    rng = random.Random(seed)
    return [rng.choice([of_literal, of_arithmetic, of_arithmetic, of_sum])(rng) for _ in range(count)]


def of_pair(rng):
    """A flushing product or quotient of two literals, each subnormal, infinite, zero or a number."""
    literals = [f"0f{rng.choice([number(rng), *SPECIAL]):08X}" for _ in range(2)]
    op = rng.choice(["mul.ftz", "mul.ftz.sat", "mul.rn.ftz", "div.approx.ftz", "div.full.ftz", "mul", "div.approx"])
    return [f"{op}.f32 %f9, {', '.join(literals)};"]


def of_choice(rng):
    """A function of what a constant predicate chooses among constants and what only the GPU knows."""

    def literal():
        return f"0f{number(rng):08X}"

    lines = [f"cvt.rn.f32.u32 %f1, %n; add.f32 %f1, %f1, {literal()}; mov.b32 %f2, %n; add.rn.f32 %f2, %f2, {literal()};",
             f"mov.f32 %f3, {literal()}; mov.f32 %f4, {literal()}; mov.u32 %r1, {rng.choice([0, 1, 5])};",
             f"setp.{rng.choice(['eq', 'ne', 'gt'])}.s32 %p1, %r1, {rng.choice([0, 1, 5])};"]  # fmt: skip
    for _ in range(rng.randrange(1, 5)):
        d, a, b = (rng.randrange(1, 5) for _ in range(3))
        lines.append(rng.choice([f"selp.f32 %f{d}, %f{a}, %f{b}, %p1;", f"slct.f32.s32 %f{d}, %f{a}, %f{b}, %r1;",
                                 f"@%p1 mov.f32 %f{d}, %f{a};", f"@!%p1 add.f32 %f{d}, %f{a}, %f{b};"]))  # fmt: skip
    return [*lines, f"{rng.choice(FUNCTIONS)}.approx{rng.choice(['', '.ftz'])}.f32 %f9, %f{rng.randrange(1, 5)};"]


def more(count, seed=1):
    """Further lines of the same kind."""
    rng = random.Random(seed)
    return [rng.choice([of_pair, of_choice])(rng) for _ in range(count)]


def kernel(texts, target="sm_80"):
    """One thread runs all programs; results from the second word on."""
    text = [f".version 8.0\n.target {target}\n.address_size 64\n\n.visible .entry foldings(.param .u64 a, .param .u32 n)\n{{",
            ".reg .b64 %a; .reg .b32 %n;\nld.param.u64 %a, [a]; ld.param.u32 %n, [n];"]  # fmt: skip
    for number, lines in enumerate(texts):
        text.append("{ " + " ".join(f".reg {WIDTH[kind]} %{kind}<10>;" for kind in WIDTH))
        text += [line.replace("MEET", f"MEET{number}") for line in lines]
        text.append(f"st.global.f32 [%a+{4 * number + 4}], %f9;\n}}")
    return "\n".join([*text, "ret;\n}\n"])


def main():
    """Run all programs on a GPU, a hundred in a kernel."""
    import numpy as np

    from record import Gpu, launch

    gpu, results = Gpu(), []
    all = (more if "more" in sys.argv else programs)(COUNT)
    for at in range(0, COUNT, 100):
        texts = all[at : at + 100]
        case = {
            "buffers": [{"name": "a", "nbytes": 404, "in": None, "out": "out", "shape": [101], "dtype": "u32"}],
            "params": [
                {"kind": "ptr", "buffer": "a", "byte_offset": 0},
                {"kind": "scalar", "dtype": "u32", "value": 0},
            ],
            "cluster": None,
            "cooperative": False,
            "dynamic_smem": 0,
            "grid": [1, 1, 1],
            "block": [1, 1, 1],
        }
        results.append(launch(gpu, gpu.kernel(kernel(texts).encode(), "foldings"), case, {})["out"][1:])
    np.savez_compressed(sys.argv[1], bits=np.concatenate(results))


COUNT = 3000

if __name__ == "__main__":
    main()

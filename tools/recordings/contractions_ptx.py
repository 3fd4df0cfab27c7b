"""Random sums of products, of which the assembler fuses some: one program for each CTA, in f32, f64, f16x2 and bf16x2."""

import random

TYPES = {"f32": (".f32", 4), "ftz.f32": (".f32", 4), "f64": (".f64", 8), "f16x2": (".b32", 4), "bf16x2": (".b32", 4)}
INPUTS, OUTPUTS = 8, 6


def program(rng, type):
    """Products first and sums of few terms of them, or anything in any order; registers may be written twice."""
    dense, lines = rng.random() < 0.5, []
    old = [f"x{k}" for k in range(INPUTS)]
    products = []
    for number in range(rng.randrange(6, 16)):
        first = dense and number < 4
        op = (
            "mul"
            if first
            else rng.choice(
                ["add", "sub"]
                if dense
                else ["mul", "mul", "add", "sub", "add", "sub", "neg", "mov", "fma.rn", "add.rn", "mul.rn"]
            )
        )
        pool = products if dense and not first and products else old[-7:]
        terms = [rng.choice(pool), rng.choice(pool if rng.random() < 0.6 else old), rng.choice(old)]
        count = {"neg": 1, "mov": 1, "fma.rn": 3}.get(op, 2)
        plain = type.removeprefix("ftz.")
        kind = {"f16x2": "b32", "bf16x2": "b32"}.get(plain, plain) if op == "mov" else type
        name = rng.choice(old) if not dense and rng.random() < 0.3 else f"y{number}"
        lines.append(f"{op}.{kind} {name}, {', '.join(terms[:count])};")
        products += [name] * (op == "mul")
        old = [o for o in old if o != name] + [name]
    results = [rng.choice(old[-6:]) for _ in range(OUTPUTS - 1)] + [old[-1]]
    return lines, results


def kernel(count, seed=0):
    """PTX and the type of each program; inputs and results of a program lie 128 bytes apart."""
    rng = random.Random(seed)
    types = [list(TYPES)[k % len(TYPES)] for k in range(count)]
    text = [".version 9.0\n.target sm_90\n.address_size 64\n\n.visible .entry contractions(.param .u64 a, .param .u64 b)\n{",
            ".reg .b64 %a, %b, %at; .reg .b32 %n; .reg .pred %p;\nld.param.b64 %a, [a]; ld.param.b64 %b, [b]; mov.u32 %n, %ctaid.x;",
            "mul.wide.u32 %at, %n, 128; add.u64 %a, %a, %at; add.u64 %b, %b, %at;"]  # fmt: skip
    for number, type in enumerate(types):
        register, size = TYPES[type]
        lines, results = program(rng, type)
        text.append(f"setp.ne.u32 %p, %n, {number};\n@%p bra AFTER{number};\n{{")
        text.append(f".reg {register} x<{INPUTS}>, y<20>;")
        text += [f"ld.global{register} x{k}, [%a+{size * k}];" for k in range(INPUTS)]
        text += lines
        text += [f"st.global{register} [%b+{size * k}], {name};" for k, name in enumerate(results)]
        text.append(f"ret;\n}}\nAFTER{number}:")
    return "\n".join([*text, "ret;\n}\n"]), types

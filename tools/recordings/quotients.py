"""Random sums of approximate quotients, reciprocals and products, of which the assembler fuses some: what a GPU gives.

quotients.py FILE.npz     needs libcuda and NumPy only
"""

import random
import struct
import sys

INPUTS, OUTPUTS, COUNT = 6, 4, 600
OPS = ["div.approx", "div.approx", "div.full", "rcp.approx", "mul", "mul", "add", "add", "sub", "sub", "neg", "mov", "add.rn", "sqrt.approx"]  # fmt: skip
TERMS = {"neg": 1, "mov": 1, "rcp.approx": 1, "sqrt.approx": 1}


def program(rng):
    """Lines that leave their results in four registers."""
    ftz, lines, old = rng.choice(["", ".ftz"]), [], [f"x{k}" for k in range(INPUTS)]
    products = []
    for number in range(rng.randrange(4, 12)):
        op = rng.choice(OPS)
        pool = products[-3:] if op in ("add", "sub") and products and rng.random() < 0.7 else old[-6:]
        terms = [rng.choice(pool), rng.choice(old)][: TERMS.get(op, 2)]
        if rng.random() < 0.15 and op not in TERMS:
            terms[1] = f"0f{struct.unpack('<I', struct.pack('<f', rng.uniform(0.5, 9)))[0]:08X}"
        name = f"y{number}"
        lines.append(f"{op}{'' if op == 'mov' else ftz}.f32 {name}, {', '.join(terms)};")
        products += [name] * (op.startswith(("div", "mul", "rcp")))
        old.append(name)
    return lines, [rng.choice(old[-5:]) for _ in range(OUTPUTS - 1)] + [old[-1]]


def kernel(first, count, target="sm_80"):
    """Program ``first + k`` for CTA k; inputs and results of a program lie 32 bytes apart."""
    text = [f".version 8.0\n.target {target}\n.address_size 64\n\n.visible .entry quotients(.param .u64 a, .param .u64 b)\n{{",
            ".reg .b64 %a, %b, %at; .reg .b32 %n; .reg .pred %p;\nld.param.b64 %a, [a]; ld.param.b64 %b, [b]; mov.u32 %n, %ctaid.x;",
            "mul.wide.u32 %at, %n, 32; add.u64 %a, %a, %at; add.u64 %b, %b, %at;"]  # fmt: skip
    for number in range(count):
        lines, results = program(random.Random(first + number))
        text.append(f"setp.ne.u32 %p, %n, {number};\n@%p bra AFTER{number};\n{{\n.reg .f32 x<{INPUTS}>, y<20>;")
        text += [f"ld.global.f32 x{k}, [%a+{4 * k}];" for k in range(INPUTS)]
        text += lines
        text += [f"st.global.f32 [%b+{4 * k}], {name};" for k, name in enumerate(results)]
        text.append(f"ret;\n}}\nAFTER{number}:")
    return "\n".join([*text, "ret;\n}\n"])


def inputs(first, count):
    """Numbers near 1, small and large ones, those that a reciprocal has to be scaled for, and their negatives."""
    rng = random.Random(first)
    rows = []
    for _ in range(count):
        row = [
            rng.choice(
                [rng.uniform(0.5, 2), rng.uniform(-9, 9), rng.uniform(1, 2) * 2.0 ** rng.choice([-130, 126, 127, -40])]
            )
            for _ in range(8)
        ]
        rows.append(row if rng.random() < 0.2 else [rng.choice([-1, 1]) * rng.uniform(0.5, 2) for _ in range(8)])
    return struct.pack(f"<{8 * count}f", *[x for row in rows for x in row])


def main():
    """Run all programs on a GPU, a hundred in a kernel."""
    import numpy as np

    from record import Gpu, launch

    gpu, results = Gpu(), []
    for first in range(0, COUNT, 100):
        buffer = {"nbytes": 3200, "shape": [100, 8], "dtype": "u32"}
        case = {
            "buffers": [
                {**buffer, "name": "a", "in": "a", "out": None},
                {**buffer, "name": "b", "in": None, "out": "b"},
            ],
            "params": [{"kind": "ptr", "buffer": name, "byte_offset": 0} for name in "ab"],
            "cluster": None,
            "cooperative": False,
            "dynamic_smem": 0,
            "grid": [100, 1, 1],
            "block": [1, 1, 1],
        }
        data = {"a": np.frombuffer(inputs(first, 100), np.uint32).reshape(100, 8)}
        results.append(launch(gpu, gpu.kernel(kernel(first, 100).encode(), "quotients"), case, data)["b"][:, :OUTPUTS])
    np.savez_compressed(sys.argv[1], bits=np.concatenate(results))


if __name__ == "__main__":
    main()

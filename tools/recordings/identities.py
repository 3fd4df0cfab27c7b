"""Products by one, minima of one value and repeated negations beside sums and products: what the assembler drops, and what it
then fuses.

identities.py FILE.npz     needs libcuda and NumPy only; runs every program of `kernel` and stores the results
"""

import sys

import numpy as np

TYPES = {"f32": ".f32", "ftz.f32": ".f32", "f64": ".f64", "f16": ".b16", "ftz.f16": ".b16", "bf16": ".b16",
         "f16x2": ".b32", "ftz.f16x2": ".b32", "bf16x2": ".b32"}  # fmt: skip
LANES = 128
ONE = {
    "f32": "0f{}3F800000",
    "f64": "0d{}3FF0000000000000",
    "f16": 0x3C00,
    "bf16": 0x3F80,
    "f16x2": 0x3C003C00,
    "bf16x2": 0x3F803F80,
}
SIGN = {"f16": 0x8000, "bf16": 0x8000, "f16x2": 0x80008000, "bf16x2": 0x80008000}
BY_ONE = """
mul u, x0, K; mov y, u;
mul u, K, x0; mov y, u;
mul.rn u, x0, K; mov y, u;
mul u, x0, K; mul v, x1, x2; add y, u, v;
mul v, x1, x2; mul u, x0, K; add y, u, v;
mul v, x1, x2; mul u, K, x0; sub y, v, u;
mul u, x0, K; mul v, x1, x2; sub y, u, v;
mul v, x1, x2; mul u, x0, K; @p add y, u, v;
@p mul u, x0, K; mul v, x1, x2; add y, u, v;
mul u, x0, K; mul w, u, K; mul v, x1, x2; add y, w, v;
mul u, K, x0; neg w, u; mul v, x1, x2; add y, w, v;
mul.rn u, x0, K; mul v, x1, x2; add y, u, v;
mul u, x0, x1; mul v, u, K; add y, v, x2;
mul u, x0, x1; mul v, u, K; sub y, x2, v;
mul u, x0, x1; mul.rn v, u, K; add y, v, x2;
mul.rn u, x0, x1; mul v, u, K; add y, v, x2;
mul u, x0, x1; fma.rn y, u, K, x2;
mul u, x0, x1; fma.rn y, x2, K, u;
mul v, x1, x2; fma.rn u, x0, K, v; mov y, u;
mul u, x0, K; mul v, u, x1; add y, v, x2;
mul u, x0, x1; mul v, u, K; mul w, x2, x3; add y, v, w;
mul u, x0, K; add y, u, u;
""".strip().splitlines()
OTHER = """
mul u, x0, x1; neg v, u; add y, v, x2;
mul u, x0, x1; neg v, u; add y, x2, v;
mul u, x0, x1; neg v, u; sub y, v, x2;
mul u, x0, x1; neg v, u; sub y, x2, v;
mul u, x0, x1; neg v, u; neg w, v; add y, w, x2;
mul u, x0, x1; neg v, u; neg w, v; sub y, x2, w;
neg u, x0; mul v, x1, x2; add y, u, v;
neg u, x0; mul v, x1, x2; sub y, u, v;
mul v, x1, x2; neg u, x0; add y, u, v;
mul v, x1, x2; neg u, x0; sub y, v, u;
neg u, x0; sub y, x1, u;
neg u, x0; add y, x1, u;
neg u, x0; neg v, u; mov y, v;
neg u, x0; mov v, u; neg w, v; mov y, w;
neg u, x0; neg v, u; neg w, v; mov y, w;
neg u, x0; @p neg y, u;
neg v, x0; mul u, v, x1; add y, u, x2;
neg v, x0; neg w, x1; mul u, v, w; add y, u, x2;
neg v, x0; fma.rn y, v, x1, x2;
mul v, x1, x2; neg u, v; neg w, x0; add y, u, w;
mul u, x0, x1; abs v, u; add y, v, x2;
abs u, x0; abs v, u; mov y, v;
neg u, x0; abs v, u; mov y, v;
""".strip().splitlines()
SAME = """
MIN u, x0, x0; mov y, u;
mov v, x0; MIN u, x0, v; mov y, u;
MIN v, x0, x0; MIN u, v, v; mov y, u;
@p MIN y, x0, x0;
mul u, x0, x1; MIN v, u, u; add y, v, x2;
mul u, x0, x1; mul v, x2, x3; MIN w, u, u; add y, w, v;
mul u, x0, x1; MIN v, u, x2; add y, v, x2;
MIN u, x0, x0; mul v, x1, x2; add y, u, v;
""".strip().splitlines()
BETWEEN = """
mul u, x0, x1; neg v, u; MIN w, v, v; add y, w, x2;
mul u, x0, x1; neg v, u; MIN w, v, v; neg k, w; add y, k, x2;
neg u, x0; MIN v, u, u; mov y, v;
mul.f32 u, x0, x1; MIN.ftz.f32 v, u, u; add.f32 y, v, x2;
mul.f32 u, x0, x1; neg.ftz.f32 v, u; add.f32 y, v, x2;
mul.f32 u, x0, x1; mul.ftz.f32 v, u, 0f3F800000; add.f32 y, v, x2;
mul.ftz.f32 u, x0, x1; neg.f32 v, u; add.ftz.f32 y, v, x2;
mul.ftz.f32 u, x0, x1; neg.f32 v, u; sub.ftz.f32 y, x2, v;
mul.ftz.f32 u, x0, x1; MIN.f32 v, u, u; add.ftz.f32 y, v, x2;
mul.ftz.f32 u, x0, x1; MIN.f32 v, u, u; sub.ftz.f32 y, x2, v;
mul.ftz.f32 u, x0, x1; mul.f32 v, u, 0f3F800000; sub.ftz.f32 y, x2, v;
neg.ftz.f32 u, x0; neg.f32 v, u; mov y, v;
neg.f32 u, x0; neg.ftz.f32 v, u; mov y, v;
MIN.ftz.f32 u, x0, x0; MIN.f32 v, u, x0; mov y, v;
MIN.ftz.f32 u, x0, x0; MIN.f32 v, u, u; mov y, v;
MIN.f32 u, x0, x0; MIN.ftz.f32 v, u, x0; mov y, v;
""".strip().splitlines()
QUOTIENTS = """
div u, x0, K; mov y, u;
div u, x0, K; mul v, x1, x2; add y, u, v;
mul u, x0, x1; div v, u, K; add y, v, x2;
""".strip().splitlines()


def programs():
    """``(type, text)`` of every program: sources x0 to x3, a predicate p that half of the lanes have, a result y."""
    for type in TYPES:
        plain = type.removeprefix("ftz.")
        one = ONE[plain]
        ones = (
            [one.format(""), one.format("").replace("3F", "BF")] if isinstance(one, str) else [one, one ^ SIGN[plain]]
        )
        texts = [text.replace("K", str(value)) for value in ones for text in BY_ONE]
        texts += OTHER
        texts += [text.replace("MIN", root) for root in ("min", "max") for text in SAME]
        if plain == "f32":
            roots = ("div.approx", "div.full")
            texts += [t.replace("div", r).replace("K", str(v)) for v in ones for r in roots for t in QUOTIENTS]
        texts += [
            t.replace("MIN", root) for root in ("min", "max") for t in (BETWEEN if type == "f32" else BETWEEN[:3])
        ]
        for text in texts:
            yield type, " ".join(_typed(line, type) for line in text.split("; "))


def _typed(line, type):
    """One instruction with its type; halves are constants in a register."""
    guard = "@p " if line.startswith("@p ") else ""
    root, operands = line.removeprefix(guard).strip(";").split(" ", 1)
    before = ""
    if TYPES[type].startswith(".b"):
        number = next((o for o in operands.split(", ") if o.isdigit()), None)
        if number is not None:
            before, operands = f"mov{TYPES[type]} k, {number}; ", operands.replace(number, "k")
    name = f"mov{TYPES[type]}" if root == "mov" else root if root.endswith("f32") else f"{root}.{type}"
    return f"{before}{guard}{name} {operands};"


def kernel(count=None, first=0):
    """One program for each CTA of 128 threads; sources of a lane lie 128 elements apart, results at the program's number."""
    text = [".version 9.0\n.target sm_90\n.address_size 64\n\n.visible .entry identities(.param .u64 a, .param .u64 b)\n{",
            ".reg .b64 %a, %b, %at; .reg .b32 %n, %t; .reg .pred %p, p;\nld.param.b64 %a, [a]; ld.param.b64 %b, [b]; mov.u32 %n, %ctaid.x;",
            "mov.u32 %t, %tid.x; setp.lt.u32 p, %t, 64; mad.wide.u32 %a, %t, 8, %a; mad.wide.u32 %b, %t, 8, %b; mul.wide.u32 %at, %n, 1024; add.u64 %b, %b, %at;"]  # fmt: skip
    chosen = list(programs())[first : None if count is None else first + count]
    for number, (type, body) in enumerate(chosen):
        r = TYPES[type]
        at = LANES * 32 * (list(TYPES).index(type))
        text.append(f"setp.ne.u32 %p, %n, {number};\n@%p bra AFTER{number};\n{{ .reg {r} x<4>, u, v, w, k, y;")
        text += [f"ld.global{r} x{i}, [%a+{at + 8 * LANES * i}];" for i in range(4)]
        text += [f"mov{r} u, x3; mov{r} y, x3;", body, f"st.global{r} [%b], y;", f"ret;\n}}\nAFTER{number}:"]
    return "\n".join([*text, "ret;\n}\n"]), len(chosen)


def operands():
    """``[type, source, lane]`` as 64 bits: numbers near one; in the last lanes x0 is a NaN, infinite, tiny or zero."""
    rng = np.random.default_rng(1)
    out = np.zeros((len(TYPES), 4, LANES), np.uint64)
    special = (0x7FF0000000000001, 0xFFF8123456789ABC, 0x7FF0 << 48, 1 << 63, 1, (1 << 52) - 1)
    halves = {"f16": (0x7C01, 0xFFEC, 0xFC00, 0x8000, 1, 0x3FF), "bf16": (0x7F81, 0xFFC5, 0xFF80, 0x8000, 1, 0x7F)}
    for number, type in enumerate(TYPES):
        plain = type.removeprefix("ftz.")
        values = np.ldexp(rng.integers(-1 << 52, 1 << 52, (4, LANES)).astype(float), rng.integers(-55, -49, (4, LANES)))
        if plain == "f64":
            bits = values.view(np.uint64)
            bits[0, -6:] = special
        elif plain == "f32":
            bits = values.astype(np.float32).view(np.uint32)
            bits[0, -6:] = (0x7F800001, 0xFFC12345, 0xFF800000, 0x80000000, 1, 0x7FFFFF)
        else:
            half = plain.removesuffix("x2")
            bits = (
                values.astype(np.float32).view(np.uint32) >> 16
                if half == "bf16"
                else values.astype(np.float16).view(np.uint16)
            ).astype(np.uint64)
            bits[0, -6:] = halves[half]
            if plain.endswith("x2"):
                bits = bits | np.roll(bits, 1, axis=1) << np.uint64(16)
        out[number] = bits
    return out


def main():
    """Run all on a GPU."""
    import ctypes

    import record

    gpu = record.Gpu()
    text, count = kernel()
    function = gpu.kernel(text.encode(), "identities")
    given, out = operands(), np.zeros((count, LANES), np.uint64)
    places = []
    for array in (given, out):
        place = ctypes.c_uint64()
        gpu("cuMemAlloc_v2", ctypes.byref(place), array.nbytes)
        gpu("cuMemcpyHtoD_v2", place, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))
        places.append(place)
    arguments = (ctypes.c_void_p * 2)(*[ctypes.addressof(p) for p in places])
    gpu("cuLaunchKernel", function, count, 1, 1, LANES, 1, 1, 0, None, arguments, None)
    gpu("cuCtxSynchronize")
    gpu("cuMemcpyDtoH_v2", out.ctypes.data_as(ctypes.c_void_p), places[1], ctypes.c_size_t(out.nbytes))
    np.savez_compressed(sys.argv[1], bits=out)


if __name__ == "__main__":
    main()

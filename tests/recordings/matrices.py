"""mma and mma.sp on new operands, as a GPU computes them: record once, compare whenever wanted.

    python tests/recordings/matrices.py record OUT.npz      on a machine with a GPU of sm_90; needs NumPy and the driver
    python tests/recordings/matrices.py compare OUT.npz     the same operands in the simulator; names what differs

The forms are those of ``tests/data/mma_h100.npz``. A case is a warp; operands are any bits, numbers near one another,
specials and subnormals, the same ones in both modes.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import numpy as np

FORMS = Path(__file__).parents[1] / "data" / "mma_h100.npz"
CASES = 48
FORMATS = {
    "f16": (5, 10),
    "bf16": (8, 7),
    "tf32": (8, 23),
    "f32": (8, 23),
    "f64": (11, 52),
    "e4m3": (4, 3),
    "e5m2": (5, 2),
}
"""Bits of the exponent and of the fraction."""


def module(name: str, arrays: dict[str, np.ndarray]) -> str:
    """A kernel of one warp a case that loads the operands, runs the instruction and stores what it wrote."""
    opcode, _, operands = name.split(" #")[0].partition(" ")
    lines = [".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k("]
    lines.append(", ".join(f".param .u64 p_{key}" for key in arrays))
    lines.append(") {\n.reg .b32 t, n; .reg .b64 q, w; mov.u32 t, %tid.x; mov.u32 n, %ctaid.x; mad.lo.u32 t, n, 32, t;")
    for key, array in arrays.items():
        count, width = array.shape[2], array.itemsize
        kind = ".f64" if width == 8 else ".b32"
        lines.append(f".reg {kind} {key}<{count}>; .reg .b64 p{key};")
        lines.append(f"ld.param.u64 q, [p_{key}]; mul.wide.u32 w, t, {count * width}; add.u64 p{key}, q, w;")
        if key != "d":
            lines += [f"ld.global{kind} {key}{i}, [p{key}+{i * width}];" for i in range(count)]
        registers = "e0" if key == "e" else "{" + ", ".join(f"{key}{i}" for i in range(count)) + "}"
        operands = operands.replace(f"{key},", f"{registers},").replace(f"{key};", f"{registers};")
    lines.append(f"{opcode} {operands}")
    array = arrays["d"]
    kind = ".f64" if array.itemsize == 8 else ".b32"
    lines += [f"st.global{kind} [pd+{i * array.itemsize}], d{i};" for i in range(array.shape[2])]
    return "\n".join([*lines, "ret; }"])


def elements(rng: np.random.Generator, kind: str, count: int) -> np.ndarray:
    """Bits of ``count`` elements (uint64)."""
    exponent, fraction = FORMATS[kind]
    width, top = 1 + exponent + fraction, (1 << exponent) - 1
    any_bits = rng.integers(0, 1 << 63, count, dtype=np.uint64) << np.uint64(1) >> np.uint64(64 - width)
    clear = any_bits & np.uint64(((1 << 64) - 1) ^ (top << fraction))
    spread = rng.choice([1, 3, min(12, top // 2 - 1)])
    field = rng.integers(top // 2 - spread, top // 2 + spread + 1, count).astype(np.uint64)
    names = np.array(
        [0, 1 << (width - 1), top << fraction, (1 << width) - 1, ((top - 1) << fraction) | 1, 1], np.uint64
    )
    near, odd = clear | field << np.uint64(fraction), rng.choice(names, count)
    rare = rng.choice([0.0, 0.002, 0.05])
    which = rng.choice(4, count, p=[0.1, 0.85 - rare, 0.05, rare])
    return np.choose(which, [any_bits, near, clear, odd])


def registers(rng: np.random.Generator, kind: str, like: np.ndarray) -> np.ndarray:
    """Operands ``[CASES, lanes, registers]`` of a type."""
    shape = (CASES, *like.shape[1:])
    size = int(np.prod(shape))
    if kind in FORMATS and kind != "f64":
        width = 1 + sum(FORMATS[kind]) if kind != "tf32" else 32
        per = 32 // width
        parts = np.stack([elements(rng, kind, size // CASES * per) for _ in range(CASES)]).reshape(-1, per)
        words = np.zeros(len(parts), np.uint64)
        for i in range(per):
            words |= parts[:, i] << np.uint64(i * width)
        return words.astype(np.uint32).reshape(shape)
    if kind == "f64":
        return np.stack([elements(rng, kind, size // CASES) for _ in range(CASES)]).reshape(shape)
    words = rng.integers(0, 1 << 32, size, dtype=np.uint64)
    if kind == "s32":
        words = np.where(
            rng.random(size) < 0.3, rng.choice(np.array([0x7FFFFFF0, 0x80000010, 0], np.uint64), size), words
        )
    return words.astype(np.uint32).reshape(shape)


def metadata(rng: np.random.Generator, name: str, like: np.ndarray) -> np.ndarray:
    """Valid indices in every lane: increasing where the form wants it."""
    nibbles = [0b1110, 0b0100]
    if ".tf32." not in name:
        nibbles = [low | high << 2 for low in range(4) for high in range(4) if low < high]
        if "ordered" not in name:
            nibbles += [low | high << 2 for low in range(4) for high in range(4) if low > high]
    chosen = rng.choice(np.array(nibbles, np.uint64), (CASES, *like.shape[1:], 8))
    return sum(chosen[..., i] << np.uint64(4 * i) for i in range(8)).astype(np.uint32)


def cases():
    """(name, operands by letter) of every form; ``d`` is zero."""
    with np.load(FORMS) as stored:
        data = dict(stored)
    for number, name in enumerate(str(n) for n in data["names"]):
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        words = name.split()[0].split(".")
        types = [w for w in words if w in FORMATS or w in ("s32", "s8", "u8", "s4", "u4", "b1")]
        arrays = {}
        for letter, kind in zip("abc", types[1:4], strict=True):
            arrays[letter] = registers(rng, kind, data[f"{number}_{letter}"])
        like = data[f"{number}_d"]
        arrays["d"] = np.zeros((CASES, *like.shape[1:]), like.dtype)
        if f"{number}_e" in data:
            arrays["e"] = metadata(rng, name, data[f"{number}_e"])
        yield name, arrays


def record(path: str) -> int:
    """Run every form on the GPU and keep D by number."""
    sys.path.insert(0, str(Path(__file__).parent))
    import record as recorder

    gpu, results = recorder.Gpu(), {}
    for number, (name, arrays) in enumerate(cases()):
        function = gpu.kernel(module(name, arrays).encode(), "k")
        buffers = [
            {
                "name": key,
                "nbytes": array.nbytes,
                "in": None if key == "d" else key,
                "out": key if key == "d" else None,
                "shape": array.shape,
                "dtype": "u64" if array.itemsize == 8 else "u32",
            }
            for key, array in arrays.items()
        ]
        case = {
            "buffers": buffers,
            "params": [{"kind": "ptr", "buffer": key, "byte_offset": 0} for key in arrays],
            "cluster": None,
            "dynamic_smem": 0,
            "grid": [CASES, 1, 1],
            "block": [32, 1, 1],
        }
        results[str(number)] = recorder.launch(gpu, function, case, arrays)["d"]
    np.savez_compressed(path, **results)
    return 0


def compare(path: str) -> int:
    """Names of the forms whose bits differ; how many."""
    import warpsim

    wrong = 0
    with np.load(path) as recorded:
        for number, (name, arrays) in enumerate(cases()):
            warpsim.load(module(name, arrays))["k"](CASES, 32, tuple(arrays.values()), checks="none")
            different = np.argwhere(arrays["d"] != recorded[str(number)])
            if len(different):
                wrong += 1
                print(f"{name}: {len(different)} registers, the first at case, lane, register {different[0]}")
    print(f"{wrong} forms differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit({"record": record, "compare": compare}[sys.argv[1]](sys.argv[2]))

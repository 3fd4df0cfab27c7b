"""What instructions round: the real functions behind floating-point forms, without the rounding that their bodies are.

A shadow in higher precision (`warpsim.observe.accuracy`) evaluates these beside the bodies.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from warpsim.isa.spec import Form, Scope
from warpsim.isa.traits import Access
from warpsim.numerics.arrays import Array, DType
from warpsim.numerics.floating import fma64
from warpsim.records import frozen

PRECISION = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
"""Bits of a significand."""
LEAST = {"f16": -24, "bf16": -133, "f32": -149, "f64": -1074}
"""The exponent of the smallest subnormal."""
DTYPES: dict[str, DType] = {
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
}  # fmt: skip
HALVES = {"f16x2": "f16", "bf16x2": "bf16"}


def _fma(a: Array, b: Array, c: Array, out: Array | None = None, dtype: DType | None = None) -> Array:
    product = np.multiply(a, b, out=out, dtype=dtype)
    return np.add(product, c, out=out, dtype=dtype)


def _rsqrt(a: Array, out: Array | None = None, dtype: DType | None = None) -> Array:
    return np.reciprocal(np.sqrt(a, out=out, dtype=dtype), out=out)


EXACT: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "fma": _fma, "mad": _fma,
    "div": np.divide, "rcp": np.reciprocal, "sqrt": np.sqrt, "rsqrt": _rsqrt, "ex2": np.exp2, "lg2": np.log2,
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "neg": np.negative, "abs": np.abs, "min": np.fmin, "max": np.fmax,
}  # fmt: skip
"""The real functions that instructions round. With ``dtype``, computed in that type, with ``out`` into that array."""
DIFFERENCE = "sub"
SUMS = frozenset({"add", DIFFERENCE, "fma", "mad"})
GROWS = SUMS | {"mma", "wgmma"}
"""Operations in which numbers may cancel."""
FUSED = "fma"
HALF = frozenset(HALVES.values())
LOGIC: dict[str, Callable[..., Array]] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
COMPARES: dict[str, Callable[..., Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


def two_sum(a: Array, b: Array, s: Array) -> Array:
    """What is lost in a sum ``s`` of f64 (Knuth)."""
    t = s - a
    return (a - (s - t)) + (b - t)


def _fma_error(a: Array, b: Array, c: Array, ea: Array, eb: Array, ec: Array, r: Array) -> Array:
    p = a * b
    s = p + c
    low = two_sum(p, c, s) + fma64(a, b, -p, "rn")
    return (s - r) + (low + (a * eb + b * ea + ea * eb + ec))


DOUBLED: dict[str, Callable[..., Array]] = {
    "add": lambda a, b, ea, eb, r: two_sum(a, b, a + b) + ((a + b) - r) + (ea + eb),
    "sub": lambda a, b, ea, eb, r: two_sum(a, -b, a - b) + ((a - b) - r) + (ea - eb),
    "mul": lambda a, b, ea, eb, r: fma64(a, b, -r, "rn") + (a * eb + b * ea + ea * eb),
    "fma": _fma_error,
    "mad": _fma_error,
    "div": lambda a, b, ea, eb, r: (fma64(-r, b, a, "rn") + (ea - r * eb)) / (b + eb),
    "rcp": lambda b, eb, r: (fma64(-r, b, np.ones(1), "rn") - r * eb) / (b + eb),
    "sqrt": lambda a, ea, r: (fma64(-r, r, a, "rn") + ea) / (2 * r),
    "neg": lambda a, ea, r: -ea,
    "abs": lambda a, ea, r: np.where(np.signbit(a), -ea, ea),
}
"""What f64 loses: the rest of the operation on the values, and the operands' errors carried on."""


ACCESSES = {Access.LOAD: "load", Access.STORE: "store"}
_INTEGERS = frozenset(f"{sign}{bits}" for sign in "su" for bits in (8, 16, 32, 64))


MOVES = {"mov": "move", "selp": "select", "shfl": "shuffle", "movmatrix": "transpose"}
MATRICES = {"ldmatrix": "load_matrices", "stmatrix": "store_matrices"}
FACTORS = frozenset(("f16", "bf16", "tf32", "e4m3", "e5m2", "f64"))


@frozen
class Rounding:
    """What an instruction ``does`` to real numbers: from elements of the type ``kind`` it makes some of the type ``to`` (for
    "compare" the comparison), ``count`` of them in a register."""

    does: str
    kind: str = ""
    to: str = ""
    count: int = 1


def rounding_of(form: Form, text: str, access: Access | None) -> Rounding | None:
    """What an instruction as written rounds, or moves; None for anything else."""
    words, root = text.split(".")[1:], form.root
    if form.scope is Scope.THREAD and access in ACCESSES:
        return Rounding(ACCESSES[access]) if "param" not in words else None
    if access is Access.ATOMIC and form.scope is Scope.THREAD:
        return _atomic(words)
    if root in MOVES:
        return Rounding(MOVES[root], next((w for w in words if w in DTYPES), ""))
    if root in MATRICES:
        return Rounding(MATRICES[root]) if "b16" in words and "m8n8" in words else None
    if root == "tcgen05":
        moves = words[0] in ("ld", "st") and not {"red", "pack::16b", "unpack::16b"}.intersection(words)
        return Rounding(f"{'load' if words[0] == 'ld' else 'store'}_cells") if moves else None
    if root in ("mma", "wgmma"):
        return _product(root, words)
    if root == "wmma":
        return _of_fragments(words)
    if root in ("setp", "cvt"):
        return _comparison(words) if root == "setp" else _conversion(words)
    if (root in LOGIC or root == "not") and words == ["pred"]:
        return Rounding("decide")
    return _operation(words) if root in EXACT and form.scope is Scope.THREAD else None


def _product(root: str, words: list[str]) -> Rounding | None:
    """A product of matrices of floats; not those of blocks with scales, nor those of quads."""
    types = [w for w in words if w in FACTORS or w in ("f32", "s32")]
    scaled = {"block_scale", "m8n8k4"}.intersection(words) and "f64" not in words
    if len(types) < 3 or types[0] not in ("f16", "f32", "f64") or types[1] not in FACTORS or scaled:
        return None
    return Rounding("multiply_in_groups" if root == "wgmma" else "multiply", types[1], types[0])


def _of_fragments(words: list[str]) -> Rounding | None:
    """``wmma``; products only where C and D have one type."""
    kind = "f32" if words[-1] == "tf32" else words[-1]
    if words[0] in ("load", "store"):
        return Rounding(f"{words[0]}_fragment", kind) if kind in DTYPES else None
    to, *others = [w for w in words if w in FACTORS or w in ("f32", "s32")] or [""]
    factors = ["f16"] if len(others) == 1 else others[:1]
    return Rounding("multiply", factors[0], to) if to in DTYPES and others[-1:] == [to] else None


def adds(text: str) -> bool:
    """Whether a reduction, as written, makes sums."""
    return "add" in text.split(".")


def _atomic(words: list[str]) -> Rounding | None:
    """Sums of floats, and exchanges of bits."""
    if "add" in words:
        kind = HALVES.get(words[-1], words[-1])
        return Rounding("add_to", kind, kind, 2 if words[-1] in HALVES else 1) if kind in DTYPES else None
    exchanges = {"exch", "cas"}.intersection(words) and words[-1] in ("b16", "b32", "b64")
    return Rounding("exchange") if exchanges else None


def _comparison(words: list[str]) -> Rounding | None:
    compare = next((w.rstrip("u") for w in words if w.rstrip("u") in COMPARES), "")
    return Rounding("compare", words[-1], compare) if compare and words[-1] in DTYPES else None


def _conversion(words: list[str]) -> Rounding | None:
    to, kind = words[-2:]
    if to == "tf32":
        to = "f32"
    if to in HALVES and kind == "f32":
        return Rounding("convert", "f32", HALVES[to], 2)
    plain = (
        to in DTYPES and (kind in DTYPES or kind in _INTEGERS) and not {"sat", "relu", "satfinite"}.intersection(words)
    )
    return Rounding("convert", kind, to) if plain and not words[0].endswith("i") else None


def _operation(words: list[str]) -> Rounding | None:
    floats = [w for w in words if w in DTYPES or w in HALVES]
    if len(floats) != 1 or {"sat", "relu", "xorsign", "abs", "oob"}.intersection(words):
        return None
    kind = HALVES.get(floats[0], floats[0])
    return Rounding("compute", kind, kind, 2 if floats[0] in HALVES else 1)

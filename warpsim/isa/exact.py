"""What instructions round: the real functions behind floating-point forms, without the rounding that their bodies are.

A shadow in higher precision (`warpsim.observe.accuracy`) evaluates these beside the bodies.
"""

from __future__ import annotations

import math
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
SMALL = {"f16": 2.0**-14, "bf16": 2.0**-100, "f32": 2.0**-100, "f64": 2.0**-1022}
"""Values of which errors may be too small for an f32, or which are below the least normal one."""
LEAST_NORMAL = {kind: math.ldexp(1.0, LEAST[kind] + PRECISION[kind] - 1) for kind in DTYPES}
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
    "copysign": lambda a, b, **how: np.copysign(b, a, **how), "pos": np.positive,
    "exchanged": lambda a, b, **how: np.subtract(b, a, **how),
}  # fmt: skip
"""The real functions that instructions round. With ``dtype``, computed in that type, with ``out`` into that array."""
DIFFERENCE = "sub"
SUMS = frozenset({"add", DIFFERENCE, "fma", "mad"})
TERMS: dict[str, list[tuple[int, bool, tuple[int, ...]]]] = {
    "add": [(0, False, (1,)), (1, False, (0,))],
    "sub": [(0, False, (1,)), (1, True, (0,))],
    "fma": [(2, False, (0, 1))],
    "mad": [(2, False, (0, 1))],
}
"""The terms of sums, whether they are subtracted, and what the other one consists of."""
GROWS = SUMS | {"mma", "wgmma"}
"""Operations in which numbers may cancel."""
DROPPED = frozenset({"mul", "div", "min", "max", "neg"})
"""Operations of which the assembler drops some: products by one, minima of one value, negations of negations."""
FUSED = "fma"
HALF = frozenset(HALVES.values())
LOGIC: dict[str, Callable[..., Array]] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
COMPARES: dict[str, Callable[..., Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


INTEGRAL: dict[str, Callable[..., Array]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
"""Conversions of floats to integers in their own type."""


def two_sum(a: Array, b: Array, s: Array) -> Array:
    """What is lost in a sum ``s`` of f64 (Knuth)."""
    t = s - a
    return (a - (s - t)) + (b - t)


def _fma_error(a: Array, b: Array, c: Array, ea: Array, eb: Array, ec: Array, r: Array) -> Array:
    p = a * b
    s = p + c
    low = two_sum(p, c, s) + fma64(a, b, -p, "rn")
    return (s - r) + (low + (a * eb + b * ea + ea * eb + ec))


def _copysign_error(a: Array, b: Array, ea: Array, eb: Array, r: Array) -> Array:
    sign = np.where(np.signbit(a + ea) == np.signbit(b), 1.0, -1.0)
    return (sign * b - r) + sign * eb


DOUBLED: dict[str, Callable[..., Array]] = {
    "add": lambda a, b, ea, eb, r: two_sum(a, b, a + b) + ((a + b) - r) + (ea + eb),
    "sub": lambda a, b, ea, eb, r: two_sum(a, -b, a - b) + ((a - b) - r) + (ea - eb),
    "exchanged": lambda a, b, ea, eb, r: two_sum(b, -a, b - a) + ((b - a) - r) + (eb - ea),
    "mul": lambda a, b, ea, eb, r: fma64(a, b, -r, "rn") + (a * eb + b * ea + ea * eb),
    "fma": _fma_error,
    "mad": _fma_error,
    "div": lambda a, b, ea, eb, r: (fma64(-r, b, a, "rn") + (ea - r * eb)) / (b + eb),
    "rcp": lambda b, eb, r: (fma64(-r, b, np.ones(1), "rn") - r * eb) / (b + eb),
    "sqrt": lambda a, ea, r: (fma64(-r, r, a, "rn") + ea) / (2 * r),
    "rsqrt": lambda a, ea, r: 0.5 * r * (fma64(-a, r * r, np.ones(1), "rn") - a * fma64(r, r, -(r * r), "rn") - ea / a),
    "min": lambda a, b, ea, eb, r: np.where((a - b) + (ea - eb) < 0, (a - r) + ea, (b - r) + eb),
    "max": lambda a, b, ea, eb, r: np.where((a - b) + (ea - eb) > 0, (a - r) + ea, (b - r) + eb),
    "neg": lambda a, ea, r: -ea,
    "pos": lambda a, ea, r: ea,
    "copysign": _copysign_error,
    "abs": lambda a, ea, r: np.where(np.signbit(a), -ea, ea),
}
"""What f64 loses: the rest of the operation on the values, and the operands' errors carried on."""


ACCESSES = {Access.LOAD: "load", Access.STORE: "store"}
_INTEGERS = frozenset(f"{sign}{bits}" for sign in "su" for bits in (8, 16, 32, 64))


MOVES = {"mov": "move", "selp": "select", "slct": "choose", "shfl": "shuffle", "movmatrix": "transpose"}
MATRICES = {"ldmatrix": "load_matrices", "stmatrix": "store_matrices"}
FACTORS = frozenset(("f16", "bf16", "tf32", "e4m3", "e5m2", "f64"))


@frozen
class Rounding:
    """What an instruction ``does`` to real numbers: from elements of the type ``kind`` it makes some of the type ``to`` (for
    "compare" the comparison), ``count`` of them in a register. Results may be integers (one of `INTEGRAL`), or kept within
    ``limits``."""

    does: str
    kind: str = ""
    to: str = ""
    count: int = 1
    integral: str = ""
    limits: tuple[float, float] | None = None

    def applied(self, exact: Array) -> Array:
        """Exact results, made integers or kept within limits as the instruction does."""
        whole = INTEGRAL[self.integral](exact) if self.integral else exact
        return whole if self.limits is None else np.clip(whole, *self.limits)


def rounding_of(form: Form, text: str, access: Access | None) -> Rounding | None:
    """What an instruction as written rounds, or moves; None for anything else."""
    words, root = text.split(".")[1:], form.root
    if form.scope is Scope.THREAD and access in ACCESSES:
        return Rounding(ACCESSES[access]) if "param" not in words else None
    if access is Access.ATOMIC and form.scope is Scope.THREAD:
        return _atomic(words)
    if root in MOVES:
        chosen_by = words.pop() if MOVES[root] == "choose" else ""
        return Rounding(MOVES[root], next((w for w in words if w in DTYPES), ""), chosen_by)
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
    limits = _limits(words)
    if to in HALVES and kind == "f32":
        return Rounding("convert", "f32", HALVES[to], 2, limits=limits)
    if to not in DTYPES or (kind not in DTYPES and kind not in _INTEGERS):
        return None
    return Rounding("convert", kind, to, integral=words[0] if words[0] in INTEGRAL else "", limits=limits)


def _limits(words: list[str]) -> tuple[float, float] | None:
    return (0.0, 1.0) if "sat" in words else (0.0, math.inf) if "relu" in words else None


def _operation(words: list[str]) -> Rounding | None:
    floats = [w for w in words if w in DTYPES or w in HALVES]
    if len(floats) != 1 or {"xorsign", "abs", "oob"}.intersection(words):
        return None
    kind = HALVES.get(floats[0], floats[0])
    return Rounding("compute", kind, kind, 2 if floats[0] in HALVES else 1, limits=_limits(words))

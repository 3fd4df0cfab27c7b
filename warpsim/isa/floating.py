"""Floating-point arithmetic of f32 and f64 (PTX ISA: Floating-Point Instructions)."""

from __future__ import annotations

import functools
from collections.abc import Callable

import attrs
import numpy as np

from warpsim.isa.ports import Lanes
from warpsim.isa.spec import Body, Op, instruction
from warpsim.isa.traits import Contraction, Traits
from warpsim.numerics import approx, floating
from warpsim.numerics.floating import flush, saturate
from warpsim.types import TYPES

_float = functools.partial(instruction, chapter="floating-point-instructions")

RND = ".rnd = { .rn, .rz, .rm, .rp };"


_CONTRACTED = frozenset({"f16", "bf16", "f16x2", "bf16x2", "f32", "f64"})
_ROLES = {"mul": Contraction.PRODUCT, "add": Contraction.SUM, "sub": Contraction.DIFFERENCE}


def contractible(op: Op) -> Traits:
    """For add, sub, mul, neg and abs: those without a rounding modifier; a product must not be saturated. A neg of
    bf16x2, or one of halves that flushes, is itself a product."""
    root, *words = op.text.split(".")
    type = words.pop()
    if root == "neg":
        product = type == "bf16x2" or ("ftz" in words and type.startswith("f16"))
        negation = Contraction.NEGATION if type in _CONTRACTED and not product else None
        return Traits(contraction=negation, changes_sign=type == "f64")
    plain = type in _CONTRACTED and set(words) <= ({"ftz"} if root == "mul" else {"ftz", "sat"})
    role, f64 = _ROLES.get(root), type == "f64"
    return Traits(
        contraction=role if plain else None, sorts=f64 and role is not None, changes_sign=f64 and role is None
    )


_QUOTIENTS = {
    (False, False): approx.div_factors,
    (False, True): approx.div_ftz_factors,
    (True, False): approx.div_full_factors,
    (True, True): approx.div_full_ftz_factors,
}


def quotient(op: Op) -> Traits:
    """For approximate div: the assembler multiplies by the reciprocal, and contracts that product like any other."""
    return Traits(contraction=Contraction.PRODUCT, factors=_QUOTIENTS[bool(op.full), bool(op.ftz)])


def reciprocal(op: Op) -> Traits:
    """For rcp.approx: without .ftz, a final product scales the result."""
    return Traits() if op.ftz else Traits(contraction=Contraction.PRODUCT, factors=approx.rcp_factors)


def _flushed(op: Op, *values: Lanes) -> tuple[Lanes, ...]:
    return tuple([flush(v) for v in values]) if op.ftz else values


def _finish(op: Op, r: Lanes) -> Lanes:
    if op.ftz:
        r = flush(r)
    return saturate(r) if op.sat else r


@_float(f"add{{.rnd}}.f64 d, a, b; {RND}", traits=contractible)
@_float(f"add{{.rnd}}{{.ftz}}{{.sat}}.f32 d, a, b; {RND}", traits=contractible)
def add(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """d = a + b."""
    a, b = _flushed(op, a, b)
    return _finish(op, floating.add(a, b, op.rnd or "rn"))


@_float(f"sub{{.rnd}}{{.ftz}}{{.sat}}.f32 d, a, b; {RND}", traits=contractible)
def sub_f32(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """d = a - b."""
    a, b = _flushed(op, a, b)
    return _finish(op, floating.add(a, -b, op.rnd or "rn"))


def _negated_sum(op: Op, b: Lanes, a: Lanes) -> Lanes:
    """d = -b + a, which is a - b, but of two NaNs another stays."""
    return floating.add(np.where(np.isnan(b), b, -b), a, op.rnd or "rn")


@_float(f"sub{{.rnd}}.f64 d, a, b; {RND}", traits=lambda op: attrs.evolve(contractible(op), exchanged=_negated_sum))
def sub_f64(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """d = a - b."""
    return floating.add(a, np.where(np.isnan(b), b, -b), op.rnd or "rn")


@_float(f"mul{{.rnd}}.f64 d, a, b; {RND}", traits=contractible)
@_float(f"mul{{.rnd}}{{.ftz}}{{.sat}}.f32 d, a, b; {RND}", traits=contractible)
def mul(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """d = a * b."""
    a, b = _flushed(op, a, b)
    r = floating.mul(a, b, op.rnd or "rn")
    if op.ftz:
        r = floating.flush_product(r, op.rnd or "rn", a, b)
    return saturate(r) if op.sat else r


@_float(f"fma.rnd.f64 d, a, b, c; mad.rnd.f64 d, a, b, c; {RND}", traits=Traits(sorts=True))
@_float(f"fma.rnd{{.ftz}}{{.sat}}.f32 d, a, b, c; mad.rnd{{.ftz}}{{.sat}}.f32 d, a, b, c; {RND}")
def fma(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """d = a * b + c, rounded once."""
    a, b, c = _flushed(op, a, b, c)
    r = floating.fma(a, b, c, op.rnd)
    if op.ftz:
        r = floating.flush_product(r, op.rnd, a, b, c)
    return saturate(r) if op.sat else r


def fused_f32(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a * b + c, rounded once, with the modifiers of an add or sub."""
    a, b, c = _flushed(op, a, b, c)
    return _finish(op, floating.fma(a, b, c, "rn"))


_pairs = functools.partial(
    _float, types=dict.fromkeys("dabc", ".b64"), exact="dabc", registers="abc", needs=(100, (8, 6)), traits=contractible
)


@_pairs(
    f"add{{.rnd}}{{.ftz}}.f32x2 d, a, b; sub{{.rnd}}{{.ftz}}.f32x2 d, a, b; mul{{.rnd}}{{.ftz}}.f32x2 d, a, b; {RND}"
)
@_pairs(f"fma.rnd{{.ftz}}.f32x2 d, a, b, c; {RND}")
def pairs_f32(op: Op, a: Lanes, b: Lanes, c: Lanes | None = None) -> Lanes:
    """The same on two f32 in a 64-bit register."""
    root = op.text.split(".")[0]
    bodies: dict[str, Body] = {"add": add, "sub": sub_f32, "mul": mul, "fma": fma}
    operands = [a, b] if c is None else [a, b, c]
    single = Op(op.text, op.modifiers, {"rnd": op.rnd, "ftz": op.ftz, "sat": False})
    halves = []
    for shift in (0, 32):
        parts = [(x >> np.uint64(shift)).astype(np.uint32).view(np.float32) for x in operands]
        halves.append(bodies[root](single, *parts).view(np.uint32).astype(np.uint64) << np.uint64(shift))
    return halves[0] | halves[1]


@_float("div.approx{.ftz}.f32 d, a, b; div.full{.ftz}.f32 d, a, b;", traits=quotient)
def div_approx(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """a / b by the approximate reciprocal."""
    if op.full:
        return approx.div_full_ftz(a, b) if op.ftz else approx.div_full(a, b)
    return approx.div_ftz(a, b) if op.ftz else approx.div(a, b)


@_float(f"div.rnd.f64 d, a, b; {RND}")
@_float(f"div.rnd{{.ftz}}.f32 d, a, b; {RND}")
def div(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """a / b, correctly rounded."""
    a, b = _flushed(op, a, b)
    r = floating.div(a, b, op.rnd)
    return floating.flush_quotient(r, op.rnd, a, b) if op.ftz else r


@_float("rcp.approx{.ftz}.f32 d, a;", traits=reciprocal)
def rcp_approx(op: Op, a: Lanes) -> Lanes:
    """1 / a, approximately."""
    return approx.rcp_ftz(a) if op.ftz else approx.rcp(a)


@_float(f"rcp.rnd{{.ftz}}.f32 d, a; {RND}")
def rcp_f32(op: Op, a: Lanes) -> Lanes:
    """1 / a, correctly rounded."""
    (a,) = _flushed(op, a)
    one = np.ones(1, np.float32)
    r = floating.div(one, a, op.rnd)
    return floating.flush_quotient(r, op.rnd, one, a) if op.ftz else r


@_float(f"rcp.rnd{{.ftz}}.f64 d, a; {RND}")
def rcp_f64(op: Op, a: Lanes) -> Lanes:
    """1 / a, correctly rounded."""
    return floating.div(np.ones(1), a, op.rnd)


@_float("sqrt.approx{.ftz}.f32 d, a;")
def sqrt_approx(op: Op, a: Lanes) -> Lanes:
    """Square root, approximately."""
    return approx.sqrt_ftz(a) if op.ftz else approx.sqrt(a)


@_float(f"sqrt.rnd.f64 d, a; {RND}")
@_float(f"sqrt.rnd{{.ftz}}.f32 d, a; {RND}")
def sqrt(op: Op, a: Lanes) -> Lanes:
    """Square root, correctly rounded."""
    (a,) = _flushed(op, a)
    return floating.sqrt(a, op.rnd)


_UNARY = {
    "rsqrt": (approx.rsqrt_ftz, approx.rsqrt),
    "lg2": (approx.lg2_ftz, approx.lg2),
    "ex2": (approx.ex2_ftz, approx.ex2),
}


@_float("rsqrt.approx{.ftz}.f32 d, a; lg2.approx{.ftz}.f32 d, a; ex2.approx{.ftz}.f32 d, a;", anchor="ex2")
def unary_approx(op: Op, a: Lanes) -> Lanes:
    """Reciprocal square root, base-2 logarithm, or base-2 exponential."""
    return _UNARY[op.text.split(".")[0]][0 if op.ftz else 1](a)


@_float("rcp.approx.ftz.f64 d, a; rsqrt.approx{.ftz}.f64 d, a;", anchor="rcp-approx-ftz-f64")
def approx_f64(op: Op, a: Lanes) -> Lanes:
    """Reciprocal or reciprocal square root from the high word."""
    if op.text.startswith("rcp"):
        return approx.rcp_f64(a)
    return approx.rsqrt_ftz_f64(a) if op.ftz else approx.rsqrt_f64(a)


@_float("sin.approx{.ftz}.f32 d, a; cos.approx{.ftz}.f32 d, a;")
def trigonometric(op: Op, a: Lanes) -> Lanes:
    """Sine or cosine; .ftz makes no difference."""
    return approx.sin(a) if op.text.startswith("sin") else approx.cos(a)


@_float("tanh.approx.f32 d, a;", needs=(75, (7, 0)))
def tanh(op: Op, a: Lanes) -> Lanes:
    """Hyperbolic tangent."""
    return approx.tanh(a)


@_float("abs{.ftz}.f32 d, a; neg{.ftz}.f32 d, a;", traits=contractible)
def sign_f32(op: Op, a: Lanes) -> Lanes:
    """Absolute value or negation: operations on the sign; NaN becomes canonical."""
    (a,) = _flushed(op, a)
    return floating.canonical(np.abs(a) if op.text.startswith("abs") else -a)


@_float("abs.f64 d, a; neg.f64 d, a;", traits=contractible)
def sign_f64(op: Op, a: Lanes) -> Lanes:
    """Absolute value and negation."""
    r = np.abs(a) if op.text.startswith("abs") else np.where(np.isnan(a), a, -a)
    return floating.nan64(r, a)


@_float(
    """
    min{.ftz}{.NaN}{.xorsign.abs}.f32 d, a, b;  max{.ftz}{.NaN}{.xorsign.abs}.f32 d, a, b;
    min.f64 d, a, b;                            max.f64 d, a, b;
    """,
    types=dict.fromkeys("dab", lambda op: TYPES["f64" if op.text.endswith("f64") else "f32"]),
    gates={"NaN": (80, (7, 0)), "xorsign": (86, (7, 2))},
    traits=lambda op: Traits(sorts=op.text.endswith("f64")),
)
def min_max(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Minimum or maximum; a number wins over a NaN, unless .NaN."""
    a, b = _flushed(op, a, b)
    r = extremes(op, a, b)
    if r.dtype != np.float32:
        return floating.nan64(r, b, a)
    return floating.canonical(r) if op.NaN or "xorsign" in op.text else r


def extremes(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """The minima or maxima of f32 or f64, subnormals kept; with .xorsign.abs, of absolute values, with the sign of the product."""
    sign = None
    if "xorsign" in op.text:
        sign = np.signbit(a) ^ np.signbit(b)
        a, b = np.abs(a), np.abs(b)
    r = floating.extreme(a, b, is_least=op.text.startswith("min"))
    if op.NaN:
        r = np.where(np.isnan(a) | np.isnan(b), r.dtype.type(np.nan), r)
    return r if sign is None else np.where(sign, -r, r)


@_float("min{.ftz}{.NaN}{.abs}.f32 d, a, b, c;  max{.ftz}{.NaN}{.abs}.f32 d, a, b, c;", needs=(100, (8, 8)))
def min_max_three(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Minimum or maximum of three, or of their absolute values."""
    if op.abs:
        a, b, c = np.abs(a), np.abs(b), np.abs(c)
    return min_max(op, min_max(op, a, b), c)


@_float("copysign.type d, a, b; .type = { .f32, .f64 };")
def copysign(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """The magnitude of b with the sign of a."""
    return np.copysign(b, a)


@_float(
    "testp.op.type p, a; .op = { .finite, .infinite, .number, .notanumber, .normal, .subnormal }; .type = { .f32, .f64 };",
    types={"p": ".pred"},
)
def testp(op: Op, a: Lanes) -> Lanes:
    """Classify a number."""
    tiny = np.finfo(a.dtype).tiny
    size = np.abs(a)
    table: dict[str, Callable[[], Lanes]] = {
        "finite": lambda: np.isfinite(a),
        "infinite": lambda: np.isinf(a),
        "number": lambda: ~np.isnan(a),
        "notanumber": lambda: np.isnan(a),
        "normal": lambda: np.isfinite(a) & ((size >= tiny) | (size == 0)),  # zeros count, as on an H100
        "subnormal": lambda: (size < tiny) & (size > 0),
    }
    return table[op.op]()

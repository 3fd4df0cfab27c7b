"""Which floating-point additions, products and negations the assembler contracts to fused multiply-adds."""

from __future__ import annotations

from warpsim.isa.spec import Op
from warpsim.isa.traits import Contraction, Traits
from warpsim.numerics import approx

TYPES = frozenset({"f16", "bf16", "f16x2", "bf16x2", "f32", "f64"})
_ROLES = {"mul": Contraction.PRODUCT, "add": Contraction.SUM, "sub": Contraction.DIFFERENCE}


def contractible(op: Op) -> Traits:
    """For add, sub, mul, neg and abs: those without a rounding modifier; a product must not be saturated. A neg of bf16x2, or
    one of halves that flushes, is itself a product.
    """
    root, *words = op.text.split(".")
    type = words.pop()
    if root == "neg":
        product = type == "bf16x2" or ("ftz" in words and type.startswith("f16"))
        negation = Contraction.NEGATION if type in TYPES and not product else None
        return Traits(contraction=negation, changes_sign=type == "f64")
    plain = type in TYPES and set(words) <= ({"ftz"} if root == "mul" else {"ftz", "sat"})
    role, f64 = _ROLES.get(root), type == "f64"
    return Traits(
        contraction=role if plain else None,
        sorts=f64 and role is not None,
        changes_sign=f64 and role is None,
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

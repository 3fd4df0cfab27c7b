"""Which additions, products and negations of floats the assembler contracts to fused multiply-adds."""

from __future__ import annotations

from warpsim.isa.spec import Op
from warpsim.isa.traits import Contraction, Traits

TYPES = frozenset({"f16", "bf16", "f16x2", "bf16x2", "f32", "f64"})
_ROLES = {"mul": Contraction.PRODUCT, "add": Contraction.SUM, "sub": Contraction.DIFFERENCE}


def contractible(op: Op) -> Traits:
    """Of add, sub, mul and neg: without a rounding modifier, a product not clamped. A neg of bf16 is a product itself."""
    root, *words = op.text.split(".")
    type = words.pop()
    if root == "neg":
        return Traits(contraction=Contraction.NEGATION if type in TYPES and not type.startswith("bf16") else None)
    plain = type in TYPES and set(words) <= ({"ftz"} if root == "mul" else {"ftz", "sat"})
    return Traits(contraction=_ROLES.get(root) if plain else None, absorbs=root == "mul")

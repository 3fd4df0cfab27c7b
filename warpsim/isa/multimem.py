"""multimem: accesses to memory of which several GPUs hold copies (PTX ISA: multimem).

One GPU is simulated, so every address is that of a multicast object with one device: a reduction over its copies is the
value itself, and a broadcast goes to the single copy.
"""

from __future__ import annotations

import functools

from warpsim.isa.atomics import atomic
from warpsim.isa.ports import Address, Elements, MemoryPort
from warpsim.isa.spec import Op, instruction
from warpsim.types import ScalarType

_ANCHOR = "data-movement-and-conversion-instructions-multimem"
_SCOPE = ".scope = { .cta, .cluster, .gpu, .sys };"
_HALVES = ".htype = { .f16, .bf16, .f16x2, .bf16x2 }; .vec = { .v2, .v4, .v8 };"
_INTEGERS = ".type = { .b32, .b64, .u32, .u64, .s32, .s64 };"
_options = functools.partial(instruction, anchor=_ANCHOR, needs=(90, (8, 1)))
_OF_INTEGERS = {
    "add": ("u32", "s32", "u64"),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64")),
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64")),
}


def _size(op: Op) -> int:
    return int(op.vec[1:]) if op.vec else 1


def _checked_as(op: Op) -> str | None:
    """Values of bf16 are loaded into and stored from any registers of their size."""
    return {"bf16": ".b16", "bf16x2": ".b32"}.get(op.htype.name)


def _type(op: Op) -> ScalarType:
    found: ScalarType = op.type or op.htype or op.ftype
    return found


def _legal(op: Op) -> str | None:
    type, name = _type(op), op.get("op")
    if type.kind in "us" or type.name in ("b32", "b64"):
        allowed = _OF_INTEGERS.get(name, ()) if name else ("b32", "b64", "u32", "u64", "s32", "s64")
        return None if type.name in allowed else f".{name} takes {', '.join('.' + t for t in allowed)}"
    if type.bits * _size(op) > 128:
        return "a vector has at most 128 bits"
    if not op.vec and type.bits < 32:
        return f"a single .{type.name} is too small: .{type.name}x2, or a vector"
    if "red" in op.modifiers and not op.vec and type.bits == 32 and type.kind == "b" and name != "add":
        return f".{name} of packed halves needs a vector"
    return None


def _legal_float(op: Op) -> str | None:
    return (
        "a vector has at most 128 bits" if op.ftype.bits * _size(op) > 128 or (op.ftype.bits == 64 and op.vec) else None
    )


_LOADS = """
    multimem.ld_reduce{.weak}{.global}.op.WHAT         d, [a];
    multimem.ld_reduce.sem.scope{.global}.op.WHAT      d, [a];
    .sem = { .relaxed, .acquire };
"""


@_options(
    f"{_LOADS.replace('.WHAT', '.type')} {_INTEGERS} .op = {{ .add, .min, .max, .and, .or, .xor }}; {_SCOPE}",
    legal=_legal,
)
@_options(
    f"{_LOADS.replace('.WHAT', '{.acc::f32}{.vec}.htype')} {_HALVES} .op = {{ .add }}; {_SCOPE}",
    checked_as={"d": _checked_as},
    legal=_legal,
    gates={"acc::f32": (90, (8, 2))},
)
@_options(
    f"{_LOADS.replace('.WHAT', '{.vec}.htype')} {_HALVES} .op = {{ .min, .max }}; {_SCOPE}",
    checked_as={"d": _checked_as},
    legal=_legal,
)
@_options(
    f"{_LOADS.replace('.WHAT', '{.vec}.ftype')} .ftype = {{ .f32, .f64 }}; .vec = {{ .v2, .v4 }}; .op = {{ .add }}; {_SCOPE}",
    legal=_legal_float,
)
def multimem_ld_reduce(op: Op, a: Address, *, memory: MemoryPort) -> Elements:
    """d = the reduction over all copies of the value at a."""
    count = _size(op)
    values = memory.load("global", a, _type(op), count)
    return values if count > 1 else values[0]


_STORES = """
    multimem.st{.weak}{.global}.WHAT     [a], b;
    multimem.st.sem.scope{.global}.WHAT  [a], b;
    .sem = { .relaxed, .release };
"""


@_options(f"{_STORES.replace('.WHAT', '.type')} {_INTEGERS} {_SCOPE}", legal=_legal)
@_options(f"{_STORES.replace('.WHAT', '{.vec}.htype')} {_HALVES} {_SCOPE}", checked_as={"b": _checked_as}, legal=_legal)
@_options(
    f"{_STORES.replace('.WHAT', '{.vec}.ftype')} .ftype = {{ .f32, .f64 }}; .vec = {{ .v2, .v4 }}; {_SCOPE}",
    legal=_legal_float,
)
def multimem_st(op: Op, a: Address, b: Elements, *, memory: MemoryPort) -> None:
    """All copies of the value at a = b."""
    memory.store("global", a, _type(op), b if isinstance(b, tuple) else (b,))


_REDUCTIONS = """
    multimem.red{.global}.op.WHAT            [a], b;
    multimem.red.sem.scope{.global}.op.WHAT  [a], b;
    .sem = { .relaxed, .release };
"""


@_options(
    f"{_REDUCTIONS.replace('.WHAT', '.type')} {_INTEGERS} .op = {{ .add, .min, .max, .and, .or, .xor }}; {_SCOPE}",
    legal=_legal,
)
@_options(
    f"{_REDUCTIONS.replace('.WHAT', '{.vec}.htype')} {_HALVES} .op = {{ .add, .min, .max }}; {_SCOPE}", legal=_legal
)
@_options(
    f"{_REDUCTIONS.replace('.WHAT', '{.vec}.ftype')} .ftype = {{ .f32, .f64 }}; .vec = {{ .v2, .v4 }}; .op = {{ .add }}; {_SCOPE}",
    legal=_legal_float,
)
def multimem_red(op: Op, a: Address, b: Elements, *, memory: MemoryPort) -> None:
    """All copies of the value at a = the value at a op b."""
    whole = Op(op.text, op.modifiers, {**op.given, "type": _type(op), "space": "global"})
    atomic(whole, a, b, memory, returns=False)

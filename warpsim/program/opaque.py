"""Textures, samplers and surfaces: what their declarations may be. Nothing of them is simulated."""

from __future__ import annotations

from collections.abc import Iterator

from warpsim.ptx import ast

_FILTERED = "filter_mode addr_mode_0 addr_mode_1 addr_mode_2"
_SIZED = "width height depth channel_data_type channel_order array_size"
FIELDS = {
    "texref": frozenset(f"{_SIZED} {_FILTERED} normalized_coords num_mipmap_levels num_samples".split()),
    "samplerref": frozenset(f"{_FILTERED} force_unnormalized_coords".split()),
    "surfref": frozenset(f"{_SIZED} memory_layout".split()),
}
"""The opaque types, and what an initial value may name."""
VALUES = frozenset({"nearest", "linear", "wrap", "mirror", "clamp_ogl", "clamp_to_edge", "clamp_to_border"})
Wrong = tuple[str, str]
"""A rule, and what breaks it."""


def fault_of(node: ast.Variable, place: str, target: tuple[str, ...]) -> Wrong:
    """What is wrong with variables or a parameter of an opaque type in a ``place`` ("module", "function", "entry", "func"): at best
    that they are not simulated."""
    item = node.declarators[0]
    if node.vector > 1:
        return "directive", f"a vector cannot have elements of .{node.type}"
    if place not in ("module", "entry") or (place == "module" and node.space != "global"):
        return (
            "directive",
            f".{node.type} {item.name} is neither a .global variable of the module nor a parameter of an .entry",
        )
    if node.linkage == "common":
        return "linkage", f".{node.type} {item.name} cannot be .common"
    if node.type == "samplerref" and "texmode_independent" not in target:
        return "directive", ".samplerref needs the option texmode_independent of .target"
    for one in node.declarators:
        if one.initialiser is None:
            if None in one.dimensions and node.linkage != "extern":
                return "directive", f"{one.name} has no size; [] needs .extern or initial values"
        elif node.linkage == "extern":
            return "linkage", f"{one.name} is .extern, but has an initial value here"
        elif wrong := _wrong_value(one.initialiser, len(one.dimensions), node.type):
            return "initialiser", wrong
    return "unsupported", f".{node.type} variables are not supported: textures and surfaces are not simulated"


def _wrong_value(tree: ast.InitialiserTree, depth: int, type: str) -> str:
    """What is wrong with an initial value of an array of so many dimensions; empty if nothing is."""
    if not isinstance(tree, tuple):
        return f"an initial value of .{type} is a list of fields in braces"
    if depth:
        return next((wrong for part in tree if (wrong := _wrong_value(part, depth - 1, type))), "")
    return next(_wrong_fields(tree, type), "")


def _wrong_fields(parts: tuple[ast.InitialiserTree, ...], type: str) -> Iterator[str]:
    for part in parts:
        if not isinstance(part, ast.Field):
            yield f"an initial value of .{type} names its fields"
        elif part.name not in FIELDS[type]:
            yield f".{type} has no field {part.name}"
        elif isinstance(part.value, ast.Name) and part.value.text not in VALUES:
            yield f"{part.value.text} is not a value of a field"

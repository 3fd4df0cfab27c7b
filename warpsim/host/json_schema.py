"""The subset of JSON Schema that warpsim's schemas use: finds where a document does not fit, and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from warpsim.errors import shown

Schema = dict[str, Any]
Problems = Iterator[tuple[str, str]]
"""Pairs of a place in the document (``buffers[2].dtype``) and the problem there."""
_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "null": lambda v: v is None,
}


def problems(value: Any, schema: Schema, root: Schema | None = None, at: str = "") -> Problems:
    """Find where a value does not fit a schema; ``root`` is the schema that ``$ref`` refers to.

    Supports type, enum, const, pattern, minimum, maximum, items, minItems, maxItems, required, properties,
    additionalProperties, oneOf (selected by its constants), and $ref within the schema.
    """
    root = schema if root is None else root
    if "$ref" in schema:
        target: Any = root
        for word in schema["$ref"].removeprefix("#/").split("/"):
            target = target[word]
        schema = {**target, **{key: rule for key, rule in schema.items() if key != "$ref"}}
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_TYPES[kind](value) for kind in kinds):
        yield at, f"must be of type {' or '.join(kinds)}, not {shown(value)}"
        return
    if "const" in schema and value != schema["const"]:
        yield at, f"must be {schema['const']!r}, not {shown(value)}"
    if "enum" in schema and not any(
        value is known or (type(value) is type(known) and value == known) for known in schema["enum"]
    ):
        yield at, f"must be one of {', '.join(map(str, schema['enum']))}, not {shown(value)}"
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield at, f"must match {schema['pattern']}, not {shown(value)}"
    yield from _number(value, schema, at)
    yield from _array(value, schema, root, at)
    yield from _object(value, schema, root, at)
    if "oneOf" in schema:
        yield from _one_of(value, schema["oneOf"], root, at)


def _number(value: Any, schema: Schema, at: str) -> Problems:
    if not _TYPES["number"](value):
        return
    if "minimum" in schema and not value >= schema["minimum"]:
        yield at, f"must be at least {schema['minimum']}, not {shown(value)}"
    if "maximum" in schema and not value <= schema["maximum"]:
        yield at, f"must be at most {schema['maximum']}, not {shown(value)}"


def _array(value: Any, schema: Schema, root: Schema, at: str) -> Problems:
    if not isinstance(value, list):
        return
    if len(value) < schema.get("minItems", 0) or len(value) > schema.get("maxItems", len(value)):
        yield (
            at,
            f"must have {schema.get('minItems', 0)} to {schema.get('maxItems', 'any number of')} elements, not {len(value)}",
        )
    for index, element in enumerate(value if "items" in schema else []):
        yield from problems(element, schema["items"], root, f"{at}[{index}]")


def _object(value: Any, schema: Schema, root: Schema, at: str) -> Problems:
    if not isinstance(value, dict):
        return
    for name in schema.get("required", []):
        if name not in value:
            yield at, f"lacks {name!r}"
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, element in value.items():
        place = f"{at}.{name}" if at else name
        if name in known:
            yield from problems(element, known[name], root, place)
        elif others is False:
            yield place, f"is not among {', '.join(known)}"
        elif isinstance(others, dict):
            yield from problems(element, others, root, place)


def _one_of(value: Any, choices: list[Schema], root: Schema, at: str) -> Problems:
    """The problems of the choice that the value's constants (or its type) select."""
    found = [list(problems(value, choice, root, at)) for choice in choices]
    if [] in found:
        return
    picked = [f for f, c in zip(found, choices, strict=True) if _picked(value, c)]
    if picked:
        yield from picked[0]
        return
    words = [str(rule["const"]) for c in choices for rule in c.get("properties", {}).values() if "const" in rule]
    yield at, f"must be one of {', '.join(words)}, not {shown(value)}" if words else found[-1][0][1]


def _picked(value: Any, choice: Schema) -> bool:
    constants = {name: rule["const"] for name, rule in choice.get("properties", {}).items() if "const" in rule}
    return isinstance(value, dict) and bool(constants) and all(value.get(n) == c for n, c in constants.items())

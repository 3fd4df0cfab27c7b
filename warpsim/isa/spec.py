"""Declaring an instruction: the manual's syntax block above, the array meaning below.

`instruction` records a block with the function that gives its meaning. Blocks are parsed when their opcode is first
used, into `Form` records: one for each line of a block. An instruction matches a form as the assembler does it: as a
set of modifiers, of which only the element types keep their order.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import attrs

from warpsim.isa.syntax import OperandPattern, Pattern, Slot, parse_block
from warpsim.types import TYPES, ScalarType


class Scope(enum.Enum):
    """How many threads an instruction's body sees at once, and who executes it."""

    THREAD = "thread"
    WARP = "warp"
    WARPGROUP = "warpgroup"
    SYNC = "sync"
    CONTROL = "control"


class Op:
    """The chosen modifiers of an instruction: an attribute for each slot of its form, None or False where absent."""

    def __init__(self, text: str, values: dict[str, Any]) -> None:
        self.text = text
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self.text} has no modifier slot {name}")

    def __repr__(self) -> str:
        return f"Op({self.text})"


TypeRule = str | Callable[[Op], ScalarType]


@attrs.frozen(eq=False)
class OperandSpec:
    """One operand of a form. ``kind`` is value, address, label, callee, list or targets."""

    name: str
    kind: str
    dest: bool
    optional: bool
    negatable: bool
    rule: TypeRule
    count: Callable[[Op], int] | None

    def type(self, op: Op) -> ScalarType:
        """The type that the operand has under these modifiers."""
        rule = self.rule
        if not isinstance(rule, str):
            return rule(op)
        if rule.startswith("."):
            return TYPES[rule[1:]]
        if rule.startswith("2*"):
            narrow: ScalarType = getattr(op, rule[2:])
            return TYPES[f"{narrow.kind}{narrow.bits * 2}"]
        found: ScalarType = getattr(op, rule)
        return found


@attrs.frozen(eq=False)
class Form:
    """One line of a syntax block."""

    root: str
    pattern: Pattern
    operands: tuple[OperandSpec, ...]
    n_dest: int
    function: Callable[..., Any]
    anchor: str
    scope: Scope
    ports: frozenset[str]
    linear: bool
    relaxed: bool
    version: tuple[int, int]
    target: int
    arch: str
    legal: Callable[[Op], str | None] | None
    gates: Mapping[str, tuple[int, tuple[int, int]]]

    @property
    def syntax(self) -> str:
        """The line as declared."""
        return self.pattern.line


@attrs.frozen(eq=False)
class _Declaration:
    block: str
    function: Callable[..., Any]
    options: dict[str, Any]


_DECLARED: dict[str, list[_Declaration]] = {}
_FORMS: dict[str, list[Form]] = {}


def instruction(
    block: str,
    *,
    anchor: str,
    scope: Scope = Scope.THREAD,
    types: Mapping[str, TypeRule] | None = None,
    vectors: Mapping[str, Callable[[Op], int]] | None = None,
    linear: bool = False,
    relaxed: bool = False,
    version: tuple[int, int] = (1, 0),
    target: int = 0,
    arch: str = "",
    legal: Callable[[Op], str | None] | None = None,
    gates: Mapping[str, tuple[int, tuple[int, int]]] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the forms of a syntax block; the decorated function is their meaning.

    Args:
        block: lines of the manual's syntax, ended by semicolons, and definitions ``.class = { .a, .b };``.
        anchor: HTML id of the section in the PTX ISA.
        scope: THREAD bodies see arrays over any lanes, WARP ``[n, 32, m]``, WARPGROUP ``[n, 128, m]``.
        types: for operands that are not of ``.type``: a class name, ``.u32``, ``2*type``, or a function of the Op.
        vectors: how many elements a ``{...}`` operand has.
        linear: the body uses only + - * << and conversions, and may run on affine values.
        relaxed: registers may be wider than the operand's type (ld, st, cvt).
        version, target, arch: least PTX version, least capability times ten, or a specific architecture (``90a``).
        legal: says why a combination of modifiers is illegal, or None.
        gates: for a modifier, the least (target, version) it needs.
    """
    options = {
        "anchor": anchor,
        "scope": scope,
        "types": types or {},
        "vectors": vectors or {},
        "linear": linear,
        "relaxed": relaxed,
        "version": version,
        "target": target,
        "arch": arch,
        "legal": legal,
        "gates": gates or {},
    }

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for root in _roots(block):
            _DECLARED.setdefault(root, []).append(_Declaration(block, function, options))
        return function

    return declare


def _roots(block: str) -> list[str]:
    roots: list[str] = []
    for line in block.split(";"):
        text = "\n".join(part.split("//")[0] for part in line.split("\n")).strip()
        if not text or text.startswith("."):
            continue
        root = text.split()[0].replace("{", ".").split(".")[0]
        if root not in roots:
            roots.append(root)
    return roots


def opcodes() -> list[str]:
    """Every declared opcode root."""
    return list(_DECLARED)


def forms(root: str) -> list[Form]:
    """The forms of an opcode, parsed at first use."""
    found = _FORMS.get(root)
    if found is None:
        found = _FORMS[root] = [form for d in _DECLARED.get(root, ()) for form in _parse(root, d)]
    return found


def _parse(root: str, declaration: _Declaration) -> list[Form]:
    options = dict(declaration.options)
    types, vectors = options.pop("types"), options.pop("vectors")
    names, ports = _signature(declaration.function)
    result = []
    for pattern in parse_block(declaration.block):
        if pattern.root != root:
            continue
        specs = tuple(_spec(p, names, types, vectors) for p in pattern.operands)
        n_dest = sum(s.dest for s in specs)
        if any(s.dest for s in specs[n_dest:]):
            raise ValueError(f"destinations must come first: {pattern.line}")
        result.append(Form(root=root, pattern=pattern, operands=specs, n_dest=n_dest, function=declaration.function, ports=ports, **options))
    return result


def _signature(function: Callable[..., Any]) -> tuple[frozenset[str], frozenset[str]]:
    parameters = inspect.signature(function).parameters.values()
    names = frozenset(p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY))
    return names, frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def _spec(pattern: OperandPattern, names: frozenset[str], types: Mapping[str, TypeRule], vectors: Mapping[str, Any]) -> OperandSpec:
    rule = types.get(pattern.name, "type")
    return OperandSpec(pattern.name, pattern.kind, pattern.name not in names, pattern.optional, pattern.negatable, rule, vectors.get(pattern.name))


@lru_cache(maxsize=65536)
def candidates(root: str, modifiers: tuple[str, ...]) -> tuple[tuple[Form, Op], ...]:
    """Forms that these modifiers fit, most specific first in the order of declaration."""
    found = []
    for form in forms(root):
        values = match(form.pattern.slots, modifiers)
        if values is not None:
            text = ".".join((root, *modifiers))
            found.append((form, Op(text, {k: TYPES[v] if isinstance(v, str) and "type" in k and v in TYPES else v for k, v in values.items()})))
    return tuple(found)


def match(slots: tuple[Slot, ...], modifiers: tuple[str, ...]) -> dict[str, Any] | None:
    """The value of each slot, or None where the modifiers do not fit."""
    left = list(modifiers)
    values: dict[str, Any] = {}
    for slot in slots:
        chosen = None
        for modifier in left:
            if modifier in slot.values:
                chosen = modifier
                break
        if chosen is None:
            if not slot.optional:
                return None
            values[slot.name] = False if slot.literal else None
            continue
        left.remove(chosen)
        values[slot.name] = True if slot.literal else chosen
    return None if left else values

"""What a declaration of instructions consists of, and the forms that it stands for: one per line of its syntax block."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import attrs

from warpsim.errors import InternalError
from warpsim.isa import syntax
from warpsim.isa.traits import PLAIN, Traits

Target = int | str | tuple[int | str, ...]
"""80: sm_80 and newer. "90a": that target alone. "100f": that family (sm_100a, sm_103f ...). A tuple: any of these."""
Gate = tuple[Target | None, tuple[int, int] | None]
"""(targets, minimum PTX version) that something requires; None for no requirement."""
Limit = tuple[int, int] | Collection[int]
"""The allowed values of an immediate: (least, greatest), a set or a range. A list has one of these per element of a
vector.
"""


@attrs.frozen
class LowBits(Collection[int]):
    """The numbers whose low 32 bits are ``allowed``: the assembler looks at no others of some immediates."""

    allowed: Collection[int]

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and value & 0xFFFFFFFF in self.allowed

    def __iter__(self) -> Iterator[int]:
        return iter(self.allowed)

    def __len__(self) -> int:
        return len(self.allowed)


class Scope(enum.Enum):
    """The threads that execute an instruction together, which determines the shape of its arrays."""

    THREAD = "thread"
    WARP = "warp"
    WARPGROUP = "warpgroup"
    SYNC = "sync"
    CONTROL = "control"


class Op:
    """The modifiers of one instruction, one attribute per slot of its block.

    A class of types (``.type``, ``.atype``, any with "type" in its name) gives a `ScalarType`, any other class its
    text, an optional literal a bool; an absent modifier is None (False for a literal). ``text`` is the opcode with all
    modifiers as written, ``modifiers`` its words, ``given`` the slots of the form itself.
    """

    given: Mapping[str, Any]
    text: str
    modifiers: tuple[str, ...]

    def __init__(
        self,
        text: str,
        modifiers: tuple[str, ...],
        values: Mapping[str, Any],
        absent: Mapping[str, object] | None = None,
    ) -> None:
        given = dict(values, text=text, modifiers=modifiers)
        self.__dict__.update(absent or {})  # slots of other lines with the same function
        self.__dict__.update(given, given=given)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("an Op is frozen")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self.__dict__.get('text')} has no modifier slot {name!r}")

    def get(self, name: str) -> Any:
        """The value of a slot that the form may lack."""
        return self.given.get(name)

    def __repr__(self) -> str:
        return f"Op({self.text})"


@attrs.frozen
class OperandSpec:
    """One operand of a form. ``kind``: value, address, sink, carry (never written), target, tlist, fname, ret_list,
    param_list or flist.

    ``rule`` determines its type; ``count`` is its number of elements (None: not a vector). ``constant``: it must be an
    immediate; ``register``: it must not be one; ``limit``: the allowed immediates. ``coordinates`` names what follows
    the comma in its brackets, which is part of the same argument. ``bare`` is what the assembler accepts for it without
    brackets. ``checked_as`` is the type whose registers it takes, if that is not its own. ``sign`` is ``-`` for a mandatory minus, ``{-}`` for an optional one, or empty.
    """

    name: str
    kind: str
    dest: bool
    rule: Any = None
    count: Any = None
    braces: bool = False
    constant: bool = False
    register: Any = False
    limit: Any = None
    negatable: bool = False
    sign: str = ""
    sink: bool = False
    optional: bool = False
    pair: bool = False
    relaxed: Any = False
    exact: Any = False
    checked_as: Any = None
    spaces: Any = None
    bare: Any = None
    coordinates: tuple[str, ...] = ()
    selectors: frozenset[str] = frozenset()


@attrs.frozen(eq=False)
class Form:
    """One line of a syntax block, with the function that gives its meaning.

    ``function(op, *sources, **ports)``: the sources are the operands other than destinations, in order; operands that
    this form lacks are filled in as None.
    """

    root: str
    pattern: syntax.Pattern
    operands: tuple[OperandSpec, ...]
    n_dest: int
    function: Callable[..., Any]
    anchor: str
    scope: Scope
    ports: frozenset[str]
    name: str
    version: tuple[int, int] | None = None
    target: Target | None = None
    until: tuple[int, tuple[int, int]] | None = None
    gates: Mapping[str, Gate] = attrs.field(factory=dict)
    gate: Callable[[Op], Gate | None] | None = None
    legal: Callable[[Op], str | None] | None = None
    names: Mapping[str, object] = attrs.field(factory=dict)
    traits: Traits | Callable[[Op], Traits] = PLAIN

    @property
    def syntax(self) -> str:
        """The line as declared."""
        return self.pattern.line


@attrs.frozen(slots=False, eq=False)
class Declaration:
    """A syntax block, its function and what else was declared."""

    block: str
    function: Callable[..., Any]
    options: dict[str, Any]

    @functools.cached_property
    def lines(self) -> list[syntax.Pattern]:
        """The lines of the block."""
        return syntax.parse_block(self.block, self.options["classes"])


# ---- from a declaration to its forms -------------------------------------------------------------


def plain(name: str) -> str:
    """An operand's name without spelling variants: ``cache-policy`` and ``cache_policy`` are the same."""
    return name.replace("-", "").replace("_", "").lower()


def forms_of(declaration: Declaration, blocks: list[Declaration]) -> list[Form]:
    """The forms of one block among the ``blocks`` of its function; an op has the slots of all of them."""
    options, function, lines = declaration.options, declaration.function, declaration.lines
    positional: list[str] = []
    ports: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            positional.append("*")
        else:
            (ports if parameter.kind is inspect.Parameter.KEYWORD_ONLY else positional).append(parameter.name)
    names: dict[str, object] = {}
    for line in (line for block in blocks for line in block.lines):
        names.update((slot.name, False if slot.literal else None) for slot in line.slots)
    forms = []
    for line in lines:
        operands = _operands(line, positional[1:], options)
        forms.append(
            Form(
                root=line.root,
                pattern=line,
                operands=operands,
                n_dest=_leading(operands, line),
                function=_filled(function, positional[1:], operands, line.line, options["scope"]),
                anchor=options["anchor"],
                scope=options["scope"],
                ports=frozenset(ports),
                name=getattr(function, "__name__", "?"),
                version=options["version"],
                target=options["target"],
                until=options["until"],
                gates=options["gates"],
                gate=options["gate"],
                legal=options["legal"],
                names=names,
                traits=options["traits"],
            )
        )
    return forms


def _leading(operands: tuple[OperandSpec, ...], line: syntax.Pattern) -> int:
    count = sum(operand.dest for operand in operands)
    if any(operand.dest for operand in operands[count:]):
        raise InternalError(f"destinations must come first: {line.line}")
    return count


def _operands(line: syntax.Pattern, parameters: list[str], options: dict[str, Any]) -> tuple[OperandSpec, ...]:
    sources = {plain(name) for name in parameters}
    declared = options["destinations"]
    slots = {slot.name for slot in line.slots}
    found: list[OperandSpec] = []
    for atom in line.operands:
        kind = options["kinds"].get(atom.name, "value" if atom.kind == "vector" else atom.kind)
        if declared is not None:
            destination = atom.name in declared
        else:
            destination = kind in ("value", "sink", "carry") and plain(atom.name) not in sources
        rule = options["types"].get(atom.name)
        if rule is None and (atom.negatable or kind == "carry"):
            rule = ".pred"
        count = options["vectors"].get(atom.name, atom.count or None)
        if count is None and "vec" in slots and atom.name in ("d", "b"):
            count = "vec"
        relaxed = options["relaxed"]
        found.append(
            OperandSpec(
                name=atom.name,
                kind=kind,
                dest=destination,
                rule=rule,
                count=count,
                braces=options["scope"] in (Scope.WARP, Scope.WARPGROUP) or ".aligned" in line.line,
                constant=atom.name in options["constants"],
                register=_chosen(options["registers"], atom.name),
                limit=options["constants"].get(atom.name, options["limits"].get(atom.name)),
                negatable=atom.negatable,
                sign=atom.sign,
                sink=atom.name in options["sinks"] or bool(atom.second) or atom.kind == "sink",
                pair=bool(atom.second),
                relaxed=relaxed if isinstance(relaxed, bool) or callable(relaxed) else atom.name in relaxed,
                exact=_chosen(options["exact"], atom.name),
                checked_as=options["checked_as"].get(atom.name),
                spaces=options["spaces"].get(atom.name, _space_slot(slots)) if kind == "address" else None,
                bare=options["bare"].get(atom.name),
                coordinates=atom.extra,
                selectors=atom.selectors,
            )
        )
        if atom.second:
            found.append(
                OperandSpec(
                    name=atom.second,
                    kind="sink" if atom.second == "_" else kind,
                    dest=destination,
                    rule=options["types"].get(atom.second, ".pred"),
                    sink=True,
                    optional=atom.second_optional,
                    register=atom.second in options["registers"],
                )
            )
    return tuple(found)


def _chosen(operands: Any, name: str) -> Any:
    """Whether an option names an operand, or the function that says so."""
    return operands.get(name, False) if isinstance(operands, Mapping) else name in operands


def _space_slot(slots: set[str]) -> Any:
    """Where an address gets its state space: from a slot, or from whether ``.global`` is written."""
    if "global" in slots:
        return lambda op: {"global"} if op.get("global") else None
    return next((name for name in ("space", "ss", "state_space") if name in slots), None)


def _filled(
    function: Callable[..., Any], parameters: list[str], operands: tuple[OperandSpec, ...], text: str, scope: Scope
) -> Callable[..., Any]:
    """The function itself, or a wrapper that passes None for operands that this form lacks; ``places`` says where each
    is.
    """
    if scope is Scope.CONTROL or parameters[-1:] == ["*"]:
        return function
    wanted = [plain(name) for name in parameters]
    given: list[str] = []
    for operand in operands:
        if not operand.dest:
            name = plain(operand.name)
            if name not in wanted and operand.kind == "address" and "address" in wanted and "address" not in given:
                name = "address"
            given.append(name)
    unknown = [name for name in given if name not in wanted]
    if unknown:
        raise InternalError(f"{text}: {function.__name__} has no parameter for {unknown}")
    if given == wanted[: len(given)]:
        return function
    places = [given.index(name) if name in given else -1 for name in wanted]

    @functools.wraps(function)
    def fill(op: Op, *sources: Any, **ports: Any) -> Any:
        return function(op, *(sources[place] if place >= 0 else None for place in places), **ports)

    fill.places = places  # type: ignore[attr-defined]
    return fill

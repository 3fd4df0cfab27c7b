"""How instructions are declared: the manual's syntax block above a function on arrays that gives its meaning.

`instruction` registers a function under the opcodes of its block; blocks are parsed when an opcode is first looked up, to
one `Form` for each of their lines.
"""

from __future__ import annotations

import copy
import enum
import functools
import inspect
import itertools
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar, Union

from warpsim.errors import InternalError
from warpsim.isa import syntax
from warpsim.isa.traits import PLAIN, Traits
from warpsim.records import cached_property, frozen
from warpsim.types import ScalarType

Target = int | str | tuple[int | str, ...]
"""80: sm_80 and newer. "90a": that target alone. "100f": that family (sm_100a, sm_103f ...). A tuple: any of these."""
Gate = tuple[Target | None, tuple[int, int] | None]
"""(targets, minimum PTX version) that something requires; None for no requirement."""
Limit = tuple[int, int] | Collection[int]
"""The allowed values of an immediate: (least, greatest), a set or a range."""
T = TypeVar("T")
PerOp = Union[T, Callable[["Op"], T]]  # noqa: UP007  a generic alias
"""An option: a value, or a function of the modifiers of one instruction that gives it."""
TypeRule = PerOp[Union[str, "ScalarType", None]]
Body = Callable[..., Any]
"""The meaning of a form: ``body(op, *sources, **ports)`` on arrays gives its results."""


def chosen(option: PerOp[T], op: Op) -> T:
    """The value of an option for an instruction."""
    return option(op) if callable(option) else option


@frozen
class LowBits(Collection[int]):
    """The numbers whose low 32 bits are ``allowed``: the assembler looks at no others of some immediates."""

    allowed: Collection[int]

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and value & 0xFFFFFFFF in self.allowed

    def __iter__(self) -> Iterator[int]:
        return iter(self.allowed)

    def __len__(self) -> int:
        return len(self.allowed)


@frozen
class Each:
    """The limits of a vector's elements."""

    limits: tuple[Limit, ...]


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


def vector_size(op: Op) -> int:
    """Number of elements of the .vec modifier."""
    vec = op.get("vec")
    return int(vec[1:]) if vec else 1


def oversized(op: Op, type: ScalarType) -> str | None:
    """Why a vector has too many bits; None if it has not."""
    return "a vector has at most 128 bits" if vector_size(op) * type.bits > 128 else None


@frozen
class OperandSpec:
    """One operand of a form. ``kind``: value, address, sink, carry (never written), target, tlist, fname, ret_list,
    param_list or flist.

    ``rule`` determines its type; ``count`` is its number of elements (None: not a vector). ``constant``: it must be an
    immediate; ``register``: it must not be one; ``limit``: the allowed immediates. ``coordinates`` names what follows
    the comma in its brackets, which is part of the same argument. ``bits``: numbers in its vectors are bits. ``bare`` is what the assembler accepts for it without
    brackets. ``checked_as`` is the type whose registers it takes, if that is not its own; ``single``: targets where its elements are single operands;
    ``no_specials``: targets where none of them is a special register. ``sign`` is ``-`` for a mandatory minus, ``{-}`` for an optional one, or empty.
    """

    name: str
    kind: str
    dest: bool
    rule: TypeRule = None
    count: PerOp[int | str | None] = None
    braces: bool = False
    enclosed: bool = False
    bits: bool = False
    constant: bool = False
    register: PerOp[bool] = False
    limit: PerOp[Limit | Each | None] = None
    negatable: bool = False
    sign: str = ""
    sink: bool = False
    optional: bool = False
    pair: bool = False
    relaxed: PerOp[bool] = False
    exact: PerOp[bool] = False
    checked_as: PerOp[str | None] = None
    single: PerOp[Target | None] = None
    no_specials: PerOp[Target | None] = None
    spaces: PerOp[Collection[str] | str | None] = None
    bare: PerOp[str | None] = None
    coordinates: tuple[str, ...] = ()
    selectors: frozenset[str] = frozenset()


class Form:
    """One line of a syntax block, with the function that gives its meaning, of which all ``blocks`` are given. What only some of
    an opcode's forms are asked for is made when it is."""

    def __init__(
        self, root: str, pattern: syntax.Pattern, declared: Declaration, meaning: Body, blocks: Sequence[Declaration]
    ) -> None:
        self.root, self.pattern, self.declared, self.meaning, self.blocks = root, pattern, declared, meaning, blocks

    @property
    def syntax(self) -> str:
        """The line as declared."""
        return self.pattern.line

    @property
    def anchor(self) -> str:
        """The ``id`` of the section in the PTX ISA."""
        return self.declared.section

    @property
    def block(self) -> str:
        """Its syntax block, one statement to a line."""
        lines = self.declared.block.replace("; ", ";\n").split("\n")
        return "\n".join(line.strip() for line in lines if line.strip())

    @property
    def purpose(self) -> str:
        """What it does: the first paragraph of the function's docstring."""
        return " ".join((self.function.__doc__ or "").partition("\n\n")[0].split())

    @cached_property
    def scope(self) -> Scope:
        """The threads that execute it together."""
        return self.declared.scope

    @cached_property
    def parameters(self) -> tuple[list[str], frozenset[str]]:
        """The names of the function's positional parameters, with ``*`` for all that are left, and of its ports."""
        code = getattr(self.meaning, "__code__", None)
        if code is not None and not hasattr(self.meaning, "__wrapped__") and not code.co_flags & inspect.CO_VARKEYWORDS:
            first, behind = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
            rest = ["*"] if code.co_flags & inspect.CO_VARARGS else []
            return [*code.co_varnames[1:first], *rest], frozenset(code.co_varnames[first:behind])
        given = list(inspect.signature(self.meaning).parameters.values())[1:]
        ports = frozenset(p.name for p in given if p.kind is inspect.Parameter.KEYWORD_ONLY)
        return [
            "*" if p.kind is inspect.Parameter.VAR_POSITIONAL else p.name for p in given if p.name not in ports
        ], ports

    @cached_property
    def ports(self) -> frozenset[str]:
        """Through which the function acts on state."""
        return self.parameters[1]

    @cached_property
    def names(self) -> Mapping[str, object]:
        """The slots of all blocks of the function, as of an absent modifier."""
        slots = [slot for block in self.blocks for line in _lines(block) for slot in line.slots]
        return {slot.name: False if slot.literal else None for slot in slots}

    @cached_property
    def operands(self) -> tuple[OperandSpec, ...]:
        """The operands, destinations first."""
        found = _operands(self.pattern, self.parameters[0], self.declared)
        if any(after.dest and not before.dest for before, after in itertools.pairwise(found)):
            raise InternalError(f"destinations must come first: {self.syntax}")
        return found

    @cached_property
    def n_dest(self) -> int:
        """How many of them are destinations."""
        return sum(operand.dest for operand in self.operands)

    @cached_property
    def function(self) -> Body:
        """``function(op, *sources, **ports)``: the sources are the operands other than destinations, in order; operands that
        this form lacks are filled in as None."""
        return _filled(self.meaning, self.parameters[0], self.operands, self.syntax, self.scope)

    def replaced(self, **made: object) -> Form:
        """A copy with another ``function``, other ``operands`` ..."""
        other = copy.copy(self)
        other.__dict__.update(made)
        return other


Function = TypeVar("Function", bound=Body)


@frozen(eq=False)
class Declaration:
    """Declares the forms of a ``block``, with the function below as their meaning. May be stacked.

    Options by operand are mappings from its name. Where a function of the op is allowed, it gets the modifiers of one
    instruction. A requirement is ``(target, PTX version)``, such as ``(80, (7, 0))``.
    """

    block: str
    """Lines in the manual's notation (`warpsim.isa.syntax`)."""
    anchor: str = ""
    """The ``id`` of the section in the PTX ISA: what follows the ``chapter`` in it, if that is given; by default the first opcode."""
    chapter: str = ""
    scope: Scope = Scope.THREAD
    types: Mapping[str, TypeRule] = {}
    """Operand -> ``".u32"``, the name of a slot (``"atype"``), ``"2*type"``, ``"type/2"`` (bits of half the width), ``"bits"`` or
    ``"bits:atype"`` (untyped, of the same width), or a function of the op. Default: ``.pred`` for ``{!}c`` and the second of
    ``d|p``, else the slot ``type``. ``".u32"`` is a count or a mask, which no register of a pair of halves can hold;
    ``TYPES["u32"]`` is an operand of the instruction's own type, which one can."""
    vectors: Mapping[str, PerOp[int | str | None]] = {}
    """Operand -> number of elements in braces, the name of a slot (``"vec"``: ``.v4`` is 4), or a function of the op. 1 is a scalar
    without braces, or in warp-wide instructions one element in braces; 0 takes as many elements as the type needs (mov).
    Default: ``d`` and ``b`` follow the slot ``.vec``, if the block has one."""
    relaxed: bool | Collection[str] | Callable[[Op], bool] = False
    """Registers may be wider than the type: all operands, those named, or all where a function of the op says so."""
    needs: Gate = (None, None)
    """What all forms require."""
    until: tuple[int, tuple[int, int]] | None = None
    """The target and PTX version from which on, together, the forms no longer exist."""
    gates: Mapping[str, Gate] = {}
    """Modifier word -> what it requires; a key ``"atype.e4m3"`` applies to that slot only."""
    gate: Callable[[Op], Gate | None] | None = None
    """The same as a function of the op."""
    legal: Callable[[Op], str | None] | None = None
    """Why these modifiers cannot be combined, or None."""
    classes: Mapping[str, Sequence[str]] = {}
    """Modifier classes besides those of the block: name -> words without dots."""
    constants: Mapping[str, PerOp[Limit | Each | None]] = {}
    """Operand -> the values of a mandatory immediate: ``(least, greatest)``, a set, None for any, or a function of the op."""
    limits: Mapping[str, PerOp[Limit | Each | None]] = {}
    """The same for operands that may also be registers."""
    registers: Collection[str] | Mapping[str, Callable[[Op], bool]] = ()
    """Operands that are never immediates, and never ``_``; in a mapping, if its function of the op says so."""
    bits: Collection[str] = ()
    """Operands in whose vectors a number is its bits, whatever the type; in instructions of warps, all are."""
    enclosed: Collection[str] = ()
    """Operands that stand in braces even as one element, as all vectors do in instructions of warps."""
    repeated: Collection[str] = ()
    """Operands of one element that may be vectors of two or four: each gets what is loaded, the first is what is stored."""
    sinks: Collection[str] = ()
    """Destinations for which ``_`` is allowed (it always is for elements of vectors and halves of pairs), and sources of which elements
    may be; ``op.missing`` are these."""
    exact: Collection[str] | Mapping[str, Callable[[Op], bool]] = ()
    """Operands whose register must be declared ``.bN``; in a mapping, if its function of the op says so."""
    checked_as: Mapping[str, PerOp[str | None]] = {}
    """Operand -> the type whose registers it takes, without pairs of halves if that is an integer; for where the assembler does
    not go by the operand's own type. As in ``types``, or None from a function of the op."""
    single: Mapping[str, PerOp[Target | None]] = {}
    """Operand -> the targets for which the assembler makes other instructions of this one, so that each element of the vector
    must be what they take: mov where it multiplies, add where it is summed. Its own type counts there, not ``checked_as``."""
    no_specials: Mapping[str, PerOp[Target | None]] = {}
    """Operand -> the targets for which the assembler passes it to other instructions or a function, which take no special registers."""
    spaces: Mapping[str, PerOp[Collection[str] | str | None]] = {}
    """Address operand -> the spaces of a symbol in it (``{"shared"}``); by default the slot ``space`` or ``ss``."""
    bare: Mapping[str, PerOp[str | None]] = {}
    """Address operand -> ``"address"`` if the assembler accepts it without brackets, ``"value"`` if it accepts a 64-bit register or
    a number, or a function of the op."""
    destinations: Collection[str] | None = None
    """The operands written; by default those that are not parameters of the function."""
    traits: Traits | Callable[[Op], Traits] = PLAIN
    """What passes and checks must know."""

    @property
    def section(self) -> str:
        """The ``id`` of the section in the PTX ISA."""
        name = self.anchor or syntax.roots(self.block)[0]
        return f"{self.chapter}-{name}" if self.chapter else name

    def __call__(self, function: Function) -> Function:
        """Register the forms with a function as their meaning."""
        REGISTRY.declare(self, function)
        return function


instruction = Declaration


class Registry(Mapping[str, list[Form]]):
    """Every opcode with its forms. An opcode's blocks are parsed on first use, and the modules of some imported."""

    def __init__(self) -> None:
        self.revision = 0
        """Counts declarations outside of `warpsim.isa`, for users that cache results."""
        self.later: dict[str, tuple[str, ...]] = {}
        """The modules that declare an opcode, as no other does, until it is looked up and they are imported."""
        self._declared: dict[str, list[tuple[Declaration, Body]]] = {}
        self._forms: dict[str, list[Form]] = {}
        self._blocks: dict[Body, list[Declaration]] = {}
        self._lock = threading.RLock()

    def declare(self, declaration: Declaration, function: Body) -> None:
        """Keep a block for later."""
        declaring = str(function.__module__)
        self._blocks.setdefault(function, []).append(declaration)
        for root in syntax.roots(declaration.block):
            self._import(root, declaring)
            self._declared.setdefault(root, []).append((declaration, function))
            self._forms.pop(root, None)
        self.revision += not declaring.startswith("warpsim.isa.")

    def _import(self, root: str, declaring: str = "") -> None:
        """Import the modules that declare an opcode; where one of them is ``declaring``, those before it: forms have numbers."""
        for module in self.later.get(root, ()):
            if module == declaring:
                return
            try:
                import_module(module)
            except BaseException:  # Ctrl-C: the next import declares all of it again
                for declared in self._declared.values():
                    declared[:] = [one for one in declared if one[1].__module__ != module]
                raise
        self.later.pop(root, None)

    def __getitem__(self, root: str) -> list[Form]:
        forms = self._forms.get(root)
        if forms is None:
            self._import(root)
            with self._lock:
                declared = self._declared[root]
                forms = [
                    Form(root, line, d, f, self._blocks[f])
                    for d, f in declared
                    for line in _lines(d)
                    if line.root == root
                ]
                self._forms[root] = forms
        return forms

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({**self.later, **self._declared}))

    def __len__(self) -> int:
        return len({**self.later, **self._declared})

    def __contains__(self, root: object) -> bool:
        return root in self.later or root in self._declared  # in this order: another thread may be importing


REGISTRY = Registry()


def opcodes() -> list[str]:
    """Every declared opcode."""
    return list(REGISTRY)


def forms(root: str) -> list[Form]:
    """The forms of an opcode; empty if it is not declared."""
    return REGISTRY.get(root, [])


# ---- from a declaration to its forms -------------------------------------------------------------


def plain(name: str) -> str:
    """An operand's name without spelling variants: ``cache-policy`` and ``cache_policy`` are the same."""
    return name.replace("-", "").replace("_", "").lower()


@functools.cache
def _lines(declaration: Declaration) -> list[syntax.Pattern]:
    return syntax.parse_block(declaration.block, declaration.classes)


def _operands(line: syntax.Pattern, parameters: list[str], options: Declaration) -> tuple[OperandSpec, ...]:
    sources = {plain(name) for name in parameters}
    declared = options.destinations
    slots = {slot.name for slot in line.slots}
    found: list[OperandSpec] = []
    for atom in line.operands:
        kind = "value" if atom.kind == "vector" else atom.kind
        if declared is not None:
            destination = atom.name in declared
        else:
            destination = kind in ("value", "sink", "carry") and plain(atom.name) not in sources
        rule = options.types.get(atom.name)
        if rule is None and (atom.negatable or kind == "carry"):
            rule = ".pred"
        count = options.vectors.get(atom.name, atom.count or None)
        if count is None and "vec" in slots and atom.name in ("d", "b"):
            count = "vec"
        relaxed = options.relaxed
        found.append(
            OperandSpec(
                name=atom.name,
                kind=kind,
                dest=destination,
                rule=rule,
                count=count,
                braces=(braces := options.scope in (Scope.WARP, Scope.WARPGROUP) or ".aligned" in line.line),
                enclosed=braces or atom.name in options.enclosed,
                bits=braces or atom.name in options.bits,
                constant=atom.name in options.constants,
                register=_named(options.registers, atom.name),
                limit=options.constants.get(atom.name, options.limits.get(atom.name)),
                negatable=atom.negatable,
                sign=atom.sign,
                sink=atom.name in options.sinks or bool(atom.second) or atom.kind == "sink",
                pair=bool(atom.second),
                relaxed=relaxed if isinstance(relaxed, bool) or callable(relaxed) else atom.name in relaxed,
                exact=_named(options.exact, atom.name),
                checked_as=options.checked_as.get(atom.name),
                single=options.single.get(atom.name),
                no_specials=options.no_specials.get(atom.name),
                spaces=options.spaces.get(atom.name, _space_slot(slots)) if kind == "address" else None,
                bare=options.bare.get(atom.name),
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
                    rule=options.types.get(atom.second, ".pred"),
                    sink=True,
                    optional=atom.second_optional,
                    register=atom.second in options.registers,
                )
            )
    return tuple(found)


def _named(operands: Collection[str] | Mapping[str, Callable[[Op], bool]], name: str) -> PerOp[bool]:
    """Whether an option names an operand, or the function that says so."""
    return operands.get(name, False) if isinstance(operands, Mapping) else name in operands


def _space_slot(slots: set[str]) -> PerOp[Collection[str] | str | None]:
    """Where an address gets its state space: from a slot, or from whether ``.global`` is written."""
    if "global" in slots:
        return lambda op: {"global"} if op.get("global") else None
    return next((name for name in ("space", "ss", "state_space") if name in slots), None)


def _filled(function: Body, parameters: list[str], operands: tuple[OperandSpec, ...], text: str, scope: Scope) -> Body:
    """The function itself, or a wrapper that passes None for operands that this form lacks; ``places`` says where each
    is."""
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
    def fill(op: Op, *sources: object, **ports: object) -> Any:
        return function(op, *(sources[place] if place >= 0 else None for place in places), **ports)

    fill.places = places  # type: ignore[attr-defined]
    return fill

"""Programs on disk: what was read of a text, the code of its functions and what is derived of it, each when it is first asked for;
shapes of lines.

A file belongs to a text and to those files of this package that decide what is read in it, so none is ever out of date. Forms are
found again by their place among those of an opcode. A file can make nothing but what `_KNOWN` lists, whoever has written it.
"""

from __future__ import annotations

import functools
import io
import os
import pickle
import sys
from collections.abc import Callable, Hashable
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import NoReturn, TypeVar

import attrs

import warpsim.isa
from warpsim.cache import digest, has_folder, read_object, write_object
from warpsim.errors import Span
from warpsim.isa.matching import traits_of
from warpsim.isa.spec import REGISTRY, Form, Op
from warpsim.isa.traits import Traits
from warpsim.program.initial_values import HANDLES, OPAQUE
from warpsim.program.names import Place
from warpsim.program.program import (
    Body,
    Function,
    Instruction,
    Operand,
    Param,
    Program,
    Register,
    Relocation,
    Uses,
    Variable,
    once,
)
from warpsim.program.statements import Shape
from warpsim.program.uses import uses_of
from warpsim.ptx.ast import Section
from warpsim.types import TYPES, ScalarType, StateSpace

_PARTS = ("", "analysis", "graph", "isa", "layout", "numerics", "program", "ptx")
"""The folders of the package whose files decide what is read, and what is derived of it."""


@functools.lru_cache(maxsize=1)
def _version() -> str | None:
    """What this package is, and the Python that runs it; None where its files cannot be looked at."""
    package, found = Path(warpsim.isa.__file__).parent.parent, [sys.version]
    try:
        for part in _PARTS:
            with os.scandir(package / part) as entries:
                files = sorted((entry.name, entry.stat()) for entry in entries if entry.name.endswith(".py"))
            found += [f"{part}/{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in files]
    except OSError:
        return None
    return digest(*found)


def name_of(text: str, file: str) -> str | None:
    """The name under which the program of a text is kept; None where none is: there is no folder, or others declare instructions."""
    return _name("program", file, text)


def _name(*parts: object) -> str | None:
    if not has_folder() or REGISTRY.revision != warpsim.isa.DECLARED or (version := _version()) is None:
        return None
    return digest(version, *parts)


def find(name: str, text: str, again: Callable[[], Program]) -> Program | None:
    """The program of a text, if it is kept; ``again`` reads the text, for the code of a function that is not."""
    found = _read(name)
    if not isinstance(found, tuple):
        return None
    program, kinds = found

    @functools.cache
    def samples() -> dict[str, tuple[Instruction, ...]]:
        return dict(_loaded(kinds))  # type: ignore[call-overload]

    def found_again(function: Function) -> Function:
        called = function.name
        stored = digest(name, called)

        def body() -> Body:
            found = _read(stored)
            return found if isinstance(found, Body) else again().functions[called].body

        samples_of = function.samples and (lambda: samples()[called])
        return attrs.evolve(function, made=once(body), samples=samples_of, stored=stored)

    functions = {called: found_again(function) for called, function in program.functions.items()}
    return attrs.evolve(program, functions=functions, source=text, shown=text)


def keep(name: str, program: Program) -> Program:
    """Keep what was read. The code of a function is kept when it is made."""
    functions = program.functions
    kinds = {called: function.kinds for called, function in functions.items() if function.samples is not None}
    bare = {
        called: attrs.evolve(function, made=_later, samples=function.samples and _later)
        for called, function in functions.items()
    }
    bare_program = attrs.evolve(program, functions=bare, source="", shown="", uses=uses_of(program))
    try:
        write_object(name, _dumped((bare_program, _dumped(kinds))))
    except _Unkept:
        return program

    def kept(function: Function) -> Function:
        stored = digest(name, function.name)

        def body() -> Body:
            made = function.made()
            with suppress(_Unkept):
                write_object(stored, _dumped(made))
            return made

        return attrs.evolve(function, made=once(body), stored=stored)

    return attrs.evolve(program, functions={called: kept(function) for called, function in functions.items()})


T = TypeVar("T")


def derived(function: Function, what: str, make: Callable[[], T]) -> T:
    """What ``make`` derives of a function: numbers, texts, and tuples, lists, sets and mappings of them. It is kept with the code."""
    if function.stored is None:
        return make()
    name = digest(function.stored, what)
    found: T | None = _read(name)  # type: ignore[assignment]
    if found is None:
        found = make()
        write_object(name, _dumped(found))
    return found


# ---- shapes ----------------------------------------------------------------------------------------

LONG = 0.003
"""Seconds of finding shapes from which on they are kept on disk."""
WRITING = 3e-5
"""Seconds that this takes for each that is there already: more have to be spent."""
MOST = 1 << 10
"""Most shapes of modules with one header that are kept: so many are read in the time of checking about 15."""


class Shelf:
    """What is known of lines in modules with one header: the ``shapes`` that were found, packed, by their text; and ``limits``,
    whether an instruction limits a number, by its name."""

    def __init__(self, *header: object) -> None:
        self._header = header
        self.shapes: dict[str, bytes] = {}
        self.limits: dict[str, bool | None] = {}
        self._new: dict[str, Shape | None] = {}
        self._spent = 0.0
        self._join(self._name())

    def find(self, text: str) -> tuple[Shape | None] | None:
        """The shape of a text, if it was kept."""
        data = self.shapes.get(text)
        return None if data is None else _unpacked(data)  # type: ignore[return-value]

    def add(self, text: str, shape: Shape | None, seconds: float) -> None:
        """Add a shape that was found in some ``seconds``."""
        if len(self._new) < MOST:
            self._new[text] = shape
        self._spent += seconds

    def keep(self) -> None:
        """Keep the shapes that were found, and the limits, if finding them took a while: when the process ends, or sooner."""
        name = self._name() if self._spent > max(LONG, WRITING * len(self.shapes)) else None
        if name is None:
            return
        for text, shape in list(self._new.items()):
            with suppress(_Unkept):
                self.shapes[text] = _dumped((shape,))
        self._join(name)
        if len(self.shapes) > MOST:
            self.shapes = {text: self.shapes[text] for text in self._new if text in self.shapes}
        limits = {instruction: found for instruction, found in dict(self.limits).items() if found is not None}
        write_object(name, _dumped((self.shapes, limits)))

    def _name(self) -> str | None:
        return _name("shapes", *self._header)

    def _join(self, name: str | None) -> None:
        """Take what is on disk."""
        found = name and _read(name)
        if isinstance(found, tuple):
            self.shapes, self.limits = found[0] | self.shapes, found[1] | self.limits


def _later() -> NoReturn:
    """Stands in a file for what makes a body, or samples."""
    raise AssertionError


# ---- files -----------------------------------------------------------------------------------------


class _Unkept(Exception):
    """A program has a form that is none of a declaration."""


def _dumped(made: object) -> bytes:
    file = io.BytesIO()
    _Writer(file).dump(made)
    return file.getvalue()


def _read(name: str) -> object:
    """What a file holds; None where it is missing or damaged."""
    data = read_object(name)
    return None if data is None else _unpacked(data)


def _unpacked(data: bytes) -> object:
    with suppress(pickle.UnpicklingError, LookupError, TypeError, ValueError, AttributeError, EOFError):
        return _loaded(data)
    return None


def _loaded(data: bytes) -> object:
    return _Reader(io.BytesIO(data)).load()


Kind = tuple[str, int, str, tuple[str, ...], tuple[tuple[str, object], ...]]
"""An opcode, which of its forms it is, and an `Op`: text, modifiers and slots."""
_RECORDS = (Body, Function, Param, Program, Register, Section, Shape, Uses, Variable)


class _Named:
    """A form, an op and traits, by their `Kind`."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind


class _Writer(pickle.Pickler):
    """Writes the parts of a program."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, 5)
        self.kinds: dict[tuple[int, int], _Named] = {}
        """By the ids of a form and an op."""

    def reducer_override(self, made: object) -> str | tuple[Callable[..., object], tuple[object, ...]]:
        """How an object is made again."""
        kind = type(made)
        if isinstance(made, Operand):
            # behind its register or constant, an operand has nothing but defaults
            n_given = 3 if made.register is not None else 4 if made.constant is not None else None
            return kind, tuple(made)[:n_given]
        if isinstance(made, Instruction):
            rest = made.operands, made.guard, *made.span
            return _instruction, (self._kind(made), *rest, made.source, made.inlined_at)
        if kind in _RECORDS:
            return kind, _fields(kind)(made)
        if isinstance(made, (Relocation, Span)):
            return kind, tuple(made)
        if isinstance(made, _Named):
            return _triple, (made.kind,)
        return (_type, (made.name, made.kind)) if isinstance(made, ScalarType) else NotImplemented

    def _kind(self, instruction: Instruction) -> _Named:
        """How the form, op and traits of an instruction are found again.

        Raises:
            _Unkept: the form is none of a declaration.
        """
        form, op = instruction.form, instruction.op
        found = self.kinds.get((id(form), id(op)))
        if found is None:
            root = op.text.partition(".")[0]
            if form not in REGISTRY[root]:
                raise _Unkept
            kind = root, REGISTRY[root].index(form), op.text, op.modifiers, tuple(op.given.items())
            found = self.kinds[id(form), id(op)] = _Named(kind)
        return found


@functools.cache
def _fields(record: Hashable) -> Callable[[object], tuple[object, ...]]:
    return attrgetter(*[field.name for field in attrs.fields(record) if field.init])  # type: ignore[arg-type]


class _Reader(pickle.Unpickler):
    """Reads the parts of a program, and nothing else."""

    def find_class(self, module: str, name: str) -> Callable[..., object]:
        """What a file may call."""
        if name not in _KNOWN:
            raise pickle.UnpicklingError(name)
        return _KNOWN[name]


def _triple(kind: Kind) -> tuple[Form, Op, Traits]:
    """The form, op and traits of a kind: the same for all modules, unless the op tells how operands were written."""
    return _triple_made(kind) if "selectors" in dict(kind[-1]) else _triple_once(kind)


def _triple_made(kind: Kind) -> tuple[Form, Op, Traits]:
    root, number, text, modifiers, given = kind
    form = REGISTRY[root][number]
    op = Op(text, modifiers, dict(given), form.names)
    return form, op, traits_of(form, op)


_triple_once = functools.cache(_triple_made)


def _instruction(
    triple: tuple[Form, Op, Traits],
    operands: tuple[Operand, ...],
    guard: tuple[Register, bool] | None,
    file: str,
    line: int,
    column: int,
    length: int,
    source: Place | None,
    inlined_at: tuple[Place, ...],
) -> Instruction:
    return Instruction(*triple, operands, guard, Span(file, line, column, length), source, inlined_at)


def _type(name: str, kind: str) -> ScalarType:
    return _TYPES[name, kind]


_TYPES = {(type.name, type.kind): type for types in (TYPES, OPAQUE, HANDLES) for type in types.values()}


_KNOWN: dict[str, Callable[..., object]] = {
    known.__name__: known
    for known in (*_RECORDS, Operand, Relocation, Span, _instruction, _triple, _type, _later, StateSpace)
}

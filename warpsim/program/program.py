"""The immutable, typed program: made by `resolve` and `typecheck`, bound by the machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import attrs

from warpsim.errors import Span
from warpsim.graph.nodes import Graph
from warpsim.isa.graphs import EVERYBODY, POINTER, Given, graph_of
from warpsim.isa.spec import Form, Op, OperandSpec
from warpsim.isa.traits import Ending, Family, Stage, Traits
from warpsim.program.problems import lines_of
from warpsim.ptx import ast
from warpsim.records import SharedByCopies, cached_property, frozen
from warpsim.types import TYPES, ScalarType, StateSpace


@frozen
class Register:
    """A scalar register of one function; ``index`` counts from 0 within the function."""

    name: str
    index: int
    type: ScalarType

    @property
    def hidden(self) -> bool:
        """Whether it holds a sum that stands as an operand (``%r+4``): no text names it."""
        return "+" in self.name or "-" in self.name


CARRY = "CC.CF"
"""The name of the register that is the carry flag of extended-precision arithmetic, which PTX programs cannot write."""


def called(name: str) -> str:
    """A register in a message."""
    return f"the carry flag {name}" if name == CARRY else f"register {name}"


class Relocation(NamedTuple):
    """The address of a symbol among initial values: at which byte it stands, with how many bytes, what is added to it,
    whether it is generic, and which byte of it is taken (None: all)."""

    offset: int
    width: int
    symbol: str
    addend: int
    generic: bool
    mask: int | None


@frozen
class Variable:
    """A variable in memory. ``size`` in bytes (0 for ``[]``); ``initial`` its bytes before symbols are placed;
    ``relocations`` are the addresses of symbols among the initial values.
    ``array`` where it has dimensions.
    ``unique`` tells equal names of different scopes apart (``function::name``, ``function::name#2``)."""

    name: str
    unique: str
    space: StateSpace
    type: ScalarType
    size: int
    align: int
    initial: bytes = b""
    relocations: tuple[Relocation, ...] = ()
    linkage: str | None = None
    span: Span | None = None
    array: bool = False
    managed: bool = False
    """Whether the host sees it too, at the same address."""

    @property
    def in_frame(self) -> bool:
        """Whether it lies in the frame of a function, so that its address differs by thread."""
        return self.space in (StateSpace.LOCAL, StateSpace.PARAM)


@frozen
class Param:
    """A parameter of a kernel or function at ``offset`` in its parameter block; ``array`` for ``.b8 x[N]``.

    ``registers`` are those of a function's ``.reg`` parameter, which is not in a block.
    """

    name: str
    type: ScalarType
    size: int
    align: int
    offset: int
    array: bool = False
    pointer: tuple[str | None, int | None] | None = None
    registers: tuple[Register, ...] = ()

    @property
    def unique(self) -> str:
        """A name that no variable has."""
        return f"param {self.name}"


MAX_PARAM_BYTES = 32764
"""The most bytes that a kernel's parameters may have."""
ADDRESS = TYPES["u64"]
"""The type of addresses."""


class Operand(NamedTuple):
    """What an instruction reads or writes as ``type``. Of the other fields, those that do not apply are None or empty.

    ==================  ===========================================================================================
    a register          ``register``; ``negated`` for ``!p``
    an immediate        ``constant``, its bits
    a special register  ``special``, its name with the component but without the percent sign: ``tid.x``
    an address          of a ``variable`` or ``parameter`` plus ``offset``; ``generic`` if as a generic one
    a function          ``function``, its name
    in brackets         ``base`` (a register, an address, or the constant 0) plus ``offset``; ``coordinates`` of a tensor
    in braces           ``elements``; those of a list of arguments, too, of which a .param variable is in brackets
    a branch target     ``targets``, as indices into ``Function.code``; of ``brx.idx`` all of its list
    ``_``               nothing
    ==================  ===========================================================================================
    """

    type: ScalarType
    register: Register | None = None
    negated: bool = False
    constant: int | None = None
    special: str = ""
    variable: Variable | None = None
    parameter: Param | None = None
    function: str = ""
    offset: int = 0
    generic: bool = False
    base: Operand | None = None
    coordinates: tuple[Operand, ...] = ()
    elements: tuple[Operand, ...] | None = None
    targets: tuple[int, ...] = ()

    @staticmethod
    def number(type: ScalarType, value: int) -> Operand:
        """An immediate. Integers of PTX have 64 bits; the assembler extends them to ``.b128`` by zeros."""
        return Operand(type, constant=value & ((1 << min(type.bits, 64)) - 1))

    @property
    def is_plain(self) -> bool:
        """Whether it is a register or an immediate."""
        return self.register is not None or self.constant is not None

    @property
    def parts(self) -> tuple[Operand, ...]:
        """The elements of a vector; any other operand itself."""
        return (self,) if self.elements is None else self.elements

    @property
    def registers(self) -> list[int]:
        """Indices of all registers in it."""
        if self.register is not None:
            return [self.register.index]
        if self.constant is not None:
            return []
        return _registers((*(self.elements or ()), *([self.base] if self.base is not None else ()), *self.coordinates))


def _registers(operands: Iterable[Operand]) -> list[int]:
    """Indices of all registers in operands."""
    found = []
    for operand in operands:
        if operand.register is not None:
            found.append(operand.register.index)
        elif operand.constant is None:
            found += operand.registers
    return found


def vector(elements: Iterable[Operand]) -> Operand:
    """Operands in braces."""
    each = tuple(elements)
    return Operand(each[0].type, elements=each)


@frozen(slots=False)
class Instruction(SharedByCopies):
    """One typed instruction.

    ``operands`` are in the order of ``form.operands`` (destinations first); a ``d|p`` pair counts as two. ``guard`` is
    (predicate register, negated). ``traits`` describe it to the passes. ``source`` is the (file, line) of its ``.loc``;
    ``inlined_at`` are those of the calls that brought it there, innermost first.
    """

    form: Form
    op: Op
    traits: Traits
    operands: tuple[Operand, ...]
    guard: tuple[Register, bool] | None
    span: Span
    source: tuple[str, int] | None = None
    inlined_at: tuple[tuple[str, int], ...] = ()

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """Indices of the registers that it reads; a guarded instruction also reads those that it may leave unchanged."""
        found = _registers(self.inputs)
        if "accumulator" in self.form.ports:
            found += self.writes
        if self.guard is not None:
            found += [self.guard[0].index, *self.writes]
        return tuple(found)

    @cached_property
    def writes(self) -> tuple[int, ...]:
        """Indices of the registers that it writes."""
        return tuple(_registers(self.outputs))

    @cached_property
    def registers(self) -> frozenset[int]:
        """Indices of the registers that it reads or writes."""
        return frozenset((*self.reads, *self.writes))

    def touches(self, registers: AbstractSet[int]) -> bool:
        """Whether it reads or writes one of these registers."""
        return bool(registers) and not (registers.isdisjoint(self.reads) and registers.isdisjoint(self.writes))

    @property
    def whole(self) -> bool:
        """Whether its result is undefined once a lane of the warp has exited: matrix instructions, and moves to and from tensor
        memory and its allocation (PTX ISA: tcgen05.alloc, tcgen05.ld, tcgen05.st)."""
        traits = self.traits
        moves = "tensor" in self.form.ports and not traits.is_async(Family.TCGEN05, Stage.WAIT)
        return traits.matrix is not None or moves

    @property
    def text(self) -> str:
        """The opcode with all modifiers, as written."""
        return self.op.text

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """The destinations."""
        return self.operands[: self.form.n_dest]

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """The sources."""
        return self.operands[self.form.n_dest :]

    @property
    def graph(self) -> Graph:
        """What it does to the values of its sources, whatever its guard and, if it has one, its membermask.

        Raises:
            Untraceable: where its body does more than arithmetic and accesses of memory.
        """
        specs = self.form.operands[self.form.n_dest :]
        given = tuple([_given(spec, operand) for spec, operand in zip(specs, self.inputs, strict=False)])
        counts = tuple([None if o.elements is None else len(o.elements) for o in self.outputs])
        return graph_of(self.form, self.op, given, counts)

    @property
    def named(self) -> dict[str, Operand]:
        """The operands by the names that the form gives them."""
        return {spec.name: o for spec, o in zip(self.form.operands, self.operands, strict=False)}

    @property
    def address(self) -> Operand | None:
        """The first operand in brackets."""
        return next((o for o in self.operands if o.base is not None), None)

    @property
    def targets(self) -> tuple[int, ...]:
        """Where a branch may jump to."""
        return next((o.targets for o in self.operands if o.targets), ())

    @property
    def callee(self) -> str:
        """The function that it calls by name; empty if it calls none, or through a register."""
        return self.operands[1].function if self.traits.ending is Ending.CALL else ""


def line_column(instruction: Instruction) -> tuple[int, int]:
    """The place of an instruction in its text."""
    return instruction.span.line, instruction.span.column


def _given(spec: OperandSpec, operand: Operand) -> Given:
    """What a graph has to know of a source."""
    if operand.base is not None:
        return POINTER
    if spec.name == "membermask":
        return operand.type, EVERYBODY
    if spec.constant:
        return operand.type, operand.constant
    return operand.type.dtype if operand.elements is None else tuple([e.type.dtype for e in operand.elements])


@frozen
class Body:
    """The registers of a function and its code, flattened: in text order, with ``labels`` as indices into it."""

    registers: tuple[Register, ...]
    code: tuple[Instruction, ...]
    labels: dict[str, int]


def once(make: Callable[[], Body]) -> Callable[[], Body]:
    """A function that makes a body when it is first called, whichever thread does that."""
    lock = threading.Lock()
    made: list[Body] = []

    def body() -> Body:
        with lock:
            if not made:
                made.append(make())
            return made[0]

    return body


@frozen(slots=False, eq=False)
class Function:
    """A function with a body, which is ``made`` when it is first asked for."""

    name: str
    entry: bool
    params: tuple[Param, ...]
    returns: tuple[Param, ...]
    variables: tuple[Variable, ...]
    made: Callable[[], Body] = attrs.field(repr=False)
    directives: dict[str, tuple[int | str, ...]]
    span: Span
    linkage: str | None = None
    noreturn: bool = False
    samples: Callable[[], tuple[Instruction, ...]] | None = attrs.field(default=None, repr=False)
    stored: str | None = attrs.field(default=None, repr=False)
    """The name under which `warpsim.program.stored` keeps its code, or what is derived of it."""
    flow: Any = attrs.field(default=None, init=False, repr=False)
    """Its blocks, cached by `warpsim.analysis.flow.blocks_of`."""

    @cached_property
    def body(self) -> Body:
        """Its registers, code and labels."""
        return self.made()

    @cached_property
    def parameter_bytes(self) -> int:
        """Size of the parameter block."""
        return max([p.offset + p.size for p in self.params], default=0)

    @property
    def registers(self) -> tuple[Register, ...]:
        """Its registers, by index."""
        return self.body.registers

    @cached_property
    def code(self) -> tuple[Instruction, ...]:
        """Its instructions in text order."""
        return self.body.code

    @property
    def labels(self) -> dict[str, int]:
        """Its labels, as indices into ``code``."""
        return self.body.labels

    @cached_property
    def kinds(self) -> tuple[Instruction, ...]:
        """An instruction of each kind in its code, with anybody's registers and branch targets, for those who look at others
        than these in functions that may never run."""
        return self.code if self.samples is None else self.samples()

    def with_code(self, code: Iterable[Instruction], registers: Iterable[Register] = ()) -> Function:
        """The function with other instructions, and with further ``registers`` behind its own."""
        body = Body((*self.registers, *registers), tuple(code), self.labels)
        return attrs.evolve(self, made=lambda: body, samples=None, stored=None)


@frozen
class Uses:
    """What the instructions of a module use: the async proxy (wgmma, bulk copies, tcgen05); anything asynchronous (these,
    cp.async, mbarriers); tcgen05; setmaxnreg; wmma fragments; clusterlaunchcontrol."""

    async_proxy: bool
    asynchronous: bool
    tensor_memory: bool
    register_counts: bool
    fragments: bool
    cancels: bool


@frozen
class Program:
    """A loaded module. ``externs`` are declared functions without a body (``vprintf``, ``malloc`` ...). ``debug``: it is compiled
    for debugging (``.target sm_90, debug``): the assembler then does not optimise. ``files`` are CUDA's, by number."""

    target: str
    version: tuple[int, int]
    address_size: int
    functions: dict[str, Function]
    variables: tuple[Variable, ...]
    externs: dict[str, tuple[tuple[Param, ...], tuple[Param, ...]]]
    aliases: dict[str, str]
    source: str = attrs.field(repr=False)
    debug: bool
    files: dict[int, str]
    sections: tuple[ast.Section, ...] = attrs.field(repr=False)
    file: str = "<ptx>"
    shown: str = attrs.field(repr=False, default="")
    """The source as given: of a snippet, without what was put around it."""
    uses: Uses | None = attrs.field(repr=False, default=None)
    """Cached by `warpsim.program.stored`."""
    symbols: Any = attrs.field(default=None, init=False, eq=False, repr=False)
    """The variables of C++, cached by `warpsim.debug.symbols.symbols_of`."""

    @property
    def lines(self) -> tuple[str, ...]:
        """Those of ``shown``."""
        return lines_of(self.shown)

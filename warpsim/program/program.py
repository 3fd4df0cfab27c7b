"""The immutable, typed program: made by `resolve` and `typecheck`, bound by the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from warpsim.errors import Span
from warpsim.types import ScalarType, StateSpace

if TYPE_CHECKING:
    from warpsim.isa.spec import Form, Op
    from warpsim.isa.traits import Traits
    from warpsim.ptx import ast


@attrs.frozen
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


@attrs.frozen
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


@attrs.frozen
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


# ---- operands: what a typed instruction holds ---------------------------------------------------


@attrs.frozen
class Reg:
    """A register accessed as ``type`` (of the instruction); ``register.type`` is the declared type."""

    register: Register
    type: ScalarType
    negated: bool = False


@attrs.frozen
class Imm:
    """An immediate as the bits of ``type``."""

    bits: int
    type: ScalarType


@attrs.frozen
class Special:
    """A special register; ``name`` includes the component but not the percent sign: ``tid.x``."""

    name: str
    type: ScalarType


@attrs.frozen
class SymbolAddress:
    """The address of a variable in its own space, or of a function or kernel, as an operand (``mov``, ``cvta``)."""

    symbol: Variable | Param | str
    offset: int
    type: ScalarType


@attrs.frozen
class Addr:
    """``[base + offset]``. ``base`` is a register, a variable (``Param`` for kernel parameters), or None for an
    absolute address.

    ``coordinates`` are those of a tensor address. ``generic``: a variable in an instruction without a state space; the
    assembler uses the variable's own.
    """

    base: Reg | Variable | Param | None
    offset: int
    coordinates: tuple[Operand, ...] = ()
    generic: bool = False


@attrs.frozen
class Vec:
    """``{a, b, c, d}``."""

    elements: tuple[Operand, ...]


@attrs.frozen
class Discard:
    """``_``."""

    type: ScalarType | None = None


@attrs.frozen
class LabelRef:
    """A branch target, as an index into ``Function.code``."""

    name: str
    target: int


@attrs.frozen
class FunctionRef:
    """A function named as an operand of ``call`` or ``mov``."""

    name: str


@attrs.frozen
class Targets:
    """The list of a ``.branchtargets`` (``labels``) or ``.calltargets`` (``functions``) or a ``.callprototype``."""

    labels: tuple[LabelRef, ...] = ()
    functions: tuple[str, ...] = ()


@attrs.frozen
class Arguments:
    """A parenthesised list of ``call``: each a Reg, Imm or param Variable."""

    elements: tuple[Operand, ...]


Operand = Reg | Imm | Special | SymbolAddress | Addr | Vec | Discard | LabelRef | FunctionRef | Targets | Arguments


def type_of(operand: Operand) -> ScalarType | None:
    """The type with which an operand is read or written; None if it has none of its own."""
    return operand.type if isinstance(operand, (Reg, Imm, Special, SymbolAddress, Discard)) else None


@attrs.frozen
class Instruction:
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
    uses: tuple[tuple[int, ...], tuple[int, ...]] | None = attrs.field(default=None, init=False, eq=False, repr=False)
    """The registers that it reads and writes, cached by `warpsim.analysis.flow.reads_and_writes`."""

    def __deepcopy__(self, memo: object) -> Instruction:
        return self  # immutable

    @property
    def text(self) -> str:
        """The opcode with all modifiers, as written."""
        return self.op.text


@attrs.frozen
class Function:
    """A function with a body, flattened: ``code`` in text order, ``labels`` as indices into it."""

    name: str
    entry: bool
    params: tuple[Param, ...]
    returns: tuple[Param, ...]
    registers: tuple[Register, ...]
    variables: tuple[Variable, ...]
    code: tuple[Instruction, ...]
    labels: dict[str, int]
    directives: dict[str, tuple[int | str, ...]]
    span: Span
    linkage: str | None = None
    noreturn: bool = False
    flow: Any = attrs.field(default=None, init=False, eq=False, repr=False)
    """Its blocks, cached by `warpsim.analysis.flow.blocks_of`."""


@attrs.frozen
class Program:
    """A loaded module. ``externs`` are declared functions without a body (``vprintf``, ``malloc`` ...)."""

    target: str
    version: tuple[int, int]
    address_size: int
    functions: dict[str, Function]
    variables: tuple[Variable, ...]
    externs: dict[str, tuple[tuple[Param, ...], tuple[Param, ...]]]
    aliases: dict[str, str]
    module: ast.Module = attrs.field(repr=False)
    file: str = "<ptx>"
    lines: tuple[str, ...] = attrs.field(repr=False, default=())

    @property
    def debug(self) -> bool:
        """Whether the module is compiled for debugging (``.target sm_90, debug``): the assembler then does not
        optimise.
        """
        return "debug" in self.module.target

"""What names mean: those that PTX itself defines, and those of a function's body in their scopes."""

from __future__ import annotations

import itertools
from bisect import bisect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from typing import TypeAlias

from warpsim.errors import Span
from warpsim.program.program import CARRY, Param, Register, Variable
from warpsim.program.statements import Statement, Written
from warpsim.ptx import ast
from warpsim.records import define
from warpsim.types import TYPES, ScalarType

_THREE = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
_PLAIN32 = """
laneid warpid nwarpid smid nsmid lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt clock clock_hi
cluster_ctarank cluster_nctarank globaltimer_lo globaltimer_hi total_smem_size aggr_smem_size
dynamic_smem_size reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap
reserved_smem_offset_0 reserved_smem_offset_1 gridid
"""
SPECIALS: dict[str, str] = {
    **{f"{name}.{c}": "u32" for name in _THREE for c in "xyzw"},
    **dict.fromkeys(_PLAIN32.split(), "u32"),
    **dict.fromkeys(("clock64", "globaltimer", "current_graph_exec"), "u64"),
    **{f"envreg{i}": "b32" for i in range(32)},
    **{f"pm{i}": "u32" for i in range(8)},
    **{f"pm{i}_64": "u64" for i in range(8)},
    "is_explicit_cluster": "pred",
    "gridid": "u64",
}
"""The type of every special register, by name without the percent sign."""

SPECIAL_GATES: dict[str, tuple[int | None, tuple[int, int]]] = {
    **dict.fromkeys(("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"), (90, (7, 8))),
    **dict.fromkeys(("is_explicit_cluster", "cluster_ctarank", "cluster_nctarank"), (90, (7, 8))),
    **{f"reserved_smem_offset_{part}": (80, (7, 6)) for part in ("begin", "end", "cap", "0", "1")},
    "aggr_smem_size": (90, (8, 1)),
    "current_graph_exec": (None, (8, 0)),
}
"""Minimum target and PTX version of special registers that not every module has, by name without component."""

SPECIAL_WIDTHS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("tid", "ntid", "ctaid", "nctaid"), (16, 32)),
    "gridid": (16, 32, 64),
}
"""Widths in which a special register may be read, if there is more than one; by name without component."""

BUILTINS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "vprintf": ((8, 8), (4,)),
    "malloc": ((8,), (8,)),
    "free": ((8,), ()),
    "__assertfail": ((8, 8, 4, 8, 8), ()),
}
"""System functions, with the sizes in bytes of their parameters and results."""

DEVICE_RUNTIME: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "GetParameterBuffer": ((8, 8), (8,)),
    "GetParameterBufferV2": ((8, 12, 12, 4), (8,)),
    "LaunchDevice": ((8, 8, 12, 12, 4, 8), (4,)),
    "LaunchDeviceV2": ((8, 8), (4,)),
    "MemcpyAsync": ((8, 8, 8, 4, 8), (4,)),
    "MemsetAsync": ((8, 4, 8, 8), (4,)),
    "StreamCreateWithFlags": ((8, 4), (4,)),
    "StreamDestroy": ((8,), (4,)),
    "StreamWaitEvent": ((8, 8, 4), (4,)),
    "EventCreateWithFlags": ((8, 4), (4,)),
    "EventRecord": ((8, 8), (4,)),
    "EventRecordWithFlags": ((8, 8, 4), (4,)),
    "EventDestroy": ((8,), (4,)),
    "GetLastError": ((), (4,)),
    "PeekAtLastError": ((), (4,)),
    "GetErrorName": ((4,), (8,)),
    "GetErrorString": ((4,), (8,)),
    "DeviceGetLimit": ((8, 4), (4,)),
    "GetDevice": ((8,), (4,)),
    "GetDeviceCount": ((8,), (4,)),
    "RuntimeGetVersion": ((8,), (4,)),
    "FuncGetAttributes": ((8, 8), (4,)),
    "Malloc": ((8, 8), (4,)),
    "Free": ((8,), (4,)),
}
"""The same of the device runtime, with which kernels launch kernels, without the beginning and the end of their names."""
BUILTINS |= {
    f"{begin}{name}{end}": sizes
    for name, sizes in DEVICE_RUNTIME.items()
    for begin in ("cuda", "__cudaCDP2")
    for end in ("", "_ptsz")
}


def device_function(name: str) -> str:
    """The name in `DEVICE_RUNTIME` of a system function; empty if it is not of the device runtime."""
    own = name.removeprefix("__cudaCDP2").removeprefix("cuda").removesuffix("_ptsz")
    return own if name in BUILTINS and own in DEVICE_RUNTIME else ""


Place: TypeAlias = tuple[str, int]
"""A file and a line of it."""
Symbol: TypeAlias = "Register | VectorRegister | Variable | Param | ast.Function | None"
"""What a name means."""


@define
class VectorRegister:
    """The elements of ``.reg .v2 .f32 v``."""

    elements: tuple[Register, ...]


@define
class Prototype:
    """A ``.callprototype``."""

    params: tuple[ast.Variable, ...]
    returns: tuple[ast.Variable, ...]


@define
class Label:
    """A label, as an index into ``Function.code``."""

    target: int


@define
class TargetList:
    """A ``.branchtargets`` (``labels``) or a ``.calltargets`` (``functions``)."""

    labels: tuple[int, ...] = ()
    functions: tuple[str, ...] = ()


class Ranges:
    """Registers declared as ``%r<N>``, made on first use."""

    def __init__(self) -> None:
        self.by_prefix: dict[str, tuple[int, ScalarType, int]] = {}

    def find(self, name: str) -> tuple[ScalarType, int] | None:
        """Type and number of elements (1 if not a vector) of ``%r17``, if a range covers it."""
        prefix = name.rstrip(DIGITS)
        found = self.by_prefix.get(prefix)
        if found is None:
            return None
        number = _number(name[len(prefix) :])
        return found[1:] if number is not None and number < found[0] else None


DIGITS = "0123456789"


def numbered(name: str) -> tuple[str, int | None]:
    """Split a name such as ``%r17`` into prefix and number, for lookup in ranges; the number is None if no range can
    cover it."""
    prefix = name.rstrip(DIGITS)
    return prefix, _number(name[len(prefix) :])


def _number(digits: str) -> int | None:
    return int(digits) if digits and len(digits.lstrip("0")) <= 10 else None


class Scope:
    """The names of a block; lookup continues outward."""

    def __init__(self, outer: Scope | None) -> None:
        self.outer = outer
        self.symbols: dict[str, Symbol] = {}
        self.numbers: dict[str, set[int]] = {}  # symbols that look like those of a range, by prefix
        self.labels: dict[str, Label | TargetList | Prototype] = {}
        self.ranges = Ranges()
        self.made: dict[str, Register | VectorRegister] = {}
        self.since: dict[str, int] = {}  # the first instruction after the declaration of a name, or of a range: %r<
        self.lists: dict[str, Span] = {}

    def chain(self) -> Iterator[Scope]:
        """The scope and those around it, outward."""
        at: Scope | None = self
        while at is not None:
            yield at
            at = at.outer

    def of_range(
        self, name: str, builder: FunctionBuilder, type: ScalarType, elements: int
    ) -> Register | VectorRegister:
        """Make the register of a range on its first use; ``%r01`` is ``%r1``."""
        own = "{}{}".format(*numbered(name)) if "0" in name else name
        if own not in self.made:
            self.made[own] = builder.declared(own, type, elements)
        self.made[name] = found = self.made[own]
        return found

    def declared_later(self, name: str, span: Span) -> bool:
        """Whether the target list of this name is declared after a place in the text."""
        found = self.lists.get(name) or (self.outer.lists.get(name) if self.outer else None)
        return found is not None and (found.line, found.column) > (span.line, span.column)

    def label(self, name: str, by: int | None = None) -> Label | TargetList | Prototype | None:
        """Look up a label, innermost scope first. ``by``: a list named by a call must be declared before that instruction."""
        at: Scope | None = self
        while at is not None:
            if name in at.labels and (by is None or at.since.get(name, 0) <= by):
                return at.labels[name]
            at = at.outer
        return None


Run: TypeAlias = tuple[int, Scope, "tuple[Place, ...]", int]
"""Instructions that see the same names and are at the same places: which of the code is the first, those names and places, and its
row. That is its line in the body, if it is a statement, or which it is of its group; the next ones have the next rows."""


class FunctionBuilder:
    """Collects the flattened code of a function."""

    def __init__(self, name: str, *, entry: bool = False) -> None:
        self.name = name
        self.entry = entry
        self.registers: list[Register] = []
        self.variables: list[Variable] = []
        self.code: list[ast.Instruction | Statement | Written] = []
        self.runs: list[Run] = []
        """Where the instructions are: each of these holds until the next one."""
        self.labels: dict[str, int] = {}
        self.pending: list[tuple[str, ast.Directive, Scope]] = []
        self.results: frozenset[str] = frozenset()
        self.at = 0  # index of the current instruction
        self.end = 0  # the line of the closing brace
        self._carry: Register | None = None

    def begin(self, scope: Scope, places: tuple[Place, ...], row: int = 0) -> None:
        """Say where the instructions are that come next."""
        self.runs.append((len(self.code), scope, places, row))

    def cut(self, number: int) -> None:
        """Take instructions away, from this one on."""
        del self.code[number:]
        while self.runs and self.runs[-1][0] >= number:
            del self.runs[-1]

    def all(self) -> Iterator[tuple[ast.Instruction | Statement | Written, Run]]:
        """The instructions, and where they are."""
        ends = [*[run[0] for run in self.runs[1:]], len(self.code)]
        for run, end in zip(self.runs, ends, strict=True):
            yield from zip(self.code[run[0] : end], itertools.repeat(run), strict=False)

    def run(self, number: int) -> Run:
        """Where an instruction is."""
        return self.runs[bisect(self.runs, number, key=itemgetter(0)) - 1]

    def register(self, name: str, type: ScalarType) -> Register:
        """Make a register."""
        made = Register(name, len(self.registers), type)
        self.registers.append(made)
        return made

    def declared(self, name: str, type: ScalarType, elements: int) -> Register | VectorRegister:
        """Make a register, or the registers of a vector: name.x, name.y ..."""
        if elements == 1:
            return self.register(name, type)
        return VectorRegister(tuple([self.register(f"{name}.{c}", type) for c in "xyzw"[:elements]]))

    def carry(self) -> Register:
        """The carry flag of extended-precision arithmetic, as a register without a name."""
        if self._carry is None:
            self._carry = self.register(CARRY, TYPES["pred"])
        return self._carry

    @contextmanager
    def trial(self, numbers: Iterable[int]) -> Iterator[None]:
        """Look up names of the code at these places, and afterwards have no register that was made for it."""
        inner = dict.fromkeys([self.run(number)[1] for number in numbers])
        scopes = dict.fromkeys(each for scope in inner for each in scope.chain())
        before, made = len(self.registers), [(scope, dict(scope.made)) for scope in scopes]
        yield
        del self.registers[before:]
        self._carry = None
        for scope, known in made:
            scope.made = known

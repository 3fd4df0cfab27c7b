"""Values in LLVM's text: vectors of the 32 lanes of a warp, scalars where all lanes share one, and values that are a first
lane's and two strides.

Vectors are written as such, never left to LLVM's vectoriser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import ml_dtypes
import numpy as np

from warpsim.graph.nodes import LANES
from warpsim.numerics.arrays import Array, DType
from warpsim.records import frozen

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = {"half": (16, 0x7C00), "float": (32, 0x7F800000), "double": (64, 0x7FF0000000000000)}


class Unlowerable(Exception):
    """A graph holds an operation that has no machine code here."""


@frozen
class Val:
    """A value in the code: LLVM type of an element, its text, whether it is a scalar that all lanes share, and its bits where
    they are known.

    ``strides``: the text is the first lane's, and the others follow by strides along a row of lanes and from row to row (see
    `IRBuilder.row`). The ``zeros`` lowest bits of the scalar or of the first lane are 0, and every lane fits into ``top`` bits.
    ``lanes`` holds the same as a predicate's vector, as the bits of a 32-bit scalar."""

    type: str
    text: str
    uniform: bool
    known: int | None = None
    strides: tuple[Val, Val] | None = None
    zeros: int = 0
    top: int = 64
    lanes: str | None = None


def scalar(type: str, text: str) -> Val:
    """A value that all lanes share."""
    return Val(type, text, uniform=True)


def bits_of(value: Array) -> int:
    """The bits of a number of NumPy's."""
    return int.from_bytes(np.asarray(value).tobytes(), "little")


def element(dtype: DType) -> str:
    """The LLVM type of an element."""
    if dtype.kind == "b":
        return "i1"
    if dtype == BF16:
        return "i16"
    if dtype.kind in "iu" and dtype.itemsize <= 8:
        return f"i{dtype.itemsize * 8}"
    if dtype.kind == "f" and dtype.itemsize in (2, 4, 8):
        return {2: "half", 4: "float", 8: "double"}[dtype.itemsize]
    raise Unlowerable(str(dtype))


def width(type: str) -> int:
    """Bits of an element."""
    return FLOATS[type][0] if type in FLOATS else int(type[1:])


def memory(type: str) -> str:
    """The type that an element has in memory: predicates are bytes."""
    return "i8" if type == "i1" else type


class Function:
    """The text of one function, with what it declares. Operands are names or constants whose types the caller knows."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.declared: dict[str, str] = {}
        self._count = 0

    def fresh(self, stem: str = "v") -> str:
        """A name that nothing else has."""
        self._count += 1
        return f"{stem}{self._count}"

    def line(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        """Where a block begins."""
        self.lines.append(f"{name}:")

    def make(self, text: str) -> str:
        """An instruction with a result."""
        name = f"%{self.fresh()}"
        self.lines.append(f"  {name} = {text}")
        return name

    def slot(self, type: str) -> str:
        """Room on the stack."""
        name = f"%{self.fresh('s')}"
        self.entry.append(f"  {name} = alloca {type}, align 64")
        return name

    def call(self, name: str, result: str, *arguments: str) -> str:
        """A call of a function from elsewhere; arguments have their types in front."""
        types = [a[: a.index(">") + 1] if a[0] == "<" else a.split(" ")[0] for a in arguments]
        self.declared[name] = f"declare {result} @{name}({', '.join(types)})"
        text = f"call {result} @{name}({', '.join(arguments)})"
        if result != "void":
            return self.make(text)
        self.line(text)
        return ""

    # ---- memory -----------------------------------------------------------------------------------

    def at(self, pointer: str, type: str, index: str | int) -> str:
        """The address of an element."""
        return self.make(f"getelementptr {type}, ptr {pointer}, i64 {index}")

    def load(self, type: str, pointer: str, align: int = 0) -> str:
        """An element or a vector."""
        return self.make(f"load {type}, ptr {pointer}" + (f", align {align}" if align else ""))

    def store(self, type: str, value: str | int, pointer: str, align: int = 0) -> None:
        """An element or a vector."""
        self.line(f"store {type} {value}, ptr {pointer}" + (f", align {align}" if align else ""))

    def pick(self, type: str, count: int, value: str, order: Sequence[int], other: str = "poison") -> str:
        """Elements of a vector of ``count`` (and of another) in an order."""
        vector, mask = f"<{count} x {type}>", ", ".join(f"i32 {k}" for k in order)
        return self.make(f"shufflevector {vector} {value}, {vector} {other}, <{len(order)} x i32> <{mask}>")

    # ---- control ----------------------------------------------------------------------------------

    def fall(self, name: str) -> None:
        """Where a block begins; the one before leads to it."""
        self.line(f"br label %{name}")
        self.label(name)

    def branch(self, condition: str, yes: str, no: str) -> None:
        """To one label or to the other."""
        self.line(f"br i1 {condition}, label %{yes}, label %{no}")

    @contextmanager
    def when(self, condition: str, *, leaves: bool = False) -> Iterator[None]:
        """What is done only where a condition holds; ``leaves``: it does not go on behind it."""
        then, on = self.fresh("then"), self.fresh("on")
        self.branch(condition, then, on)
        self.label(then)
        yield
        if leaves:
            self.label(on)
        else:
            self.fall(on)

    @contextmanager
    def loop(self, count: str | int) -> Iterator[str]:
        """A loop that runs at least once; gives its counter, an i64."""
        number = self.fresh("")
        before, head, latch, end = (f"{stem}{number}" for stem in ("before", "head", "latch", "end"))
        self.fall(before)
        self.fall(head)
        counter = f"%i{number}"
        self.line(f"{counter} = phi i64 [ 0, %{before} ], [ %n{number}, %{latch} ]")
        yield counter
        self.fall(latch)
        self.line(f"%n{number} = add nuw nsw i64 {counter}, 1")
        self.line(f"%c{number} = icmp ult i64 %n{number}, {count}")
        self.branch(f"%c{number}", head, end)
        self.label(end)


class IRBuilder(Function):
    """A function on the lanes of warps."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[Array] = []
        self.products: dict[str, str] = {}
        """Machine code of products that it calls, by its names; and the arguments and registers of each."""
        self.frames: dict[str, tuple[str, list[str]]] = {}
        self.row = LANES
        """How many lanes of a warp lie in a row, where values may be given by strides."""
        self.speculate: Callable[[str], None] | None = None
        """Goes on only where a condition holds; None where nothing may be taken for granted."""
        self._hidden: dict[int, str] = {}

    # ---- values -----------------------------------------------------------------------------------

    def typed(self, type: str, *, uniform: bool) -> str:
        """The type of a scalar or of a vector."""
        return type if uniform else f"<{LANES} x {type}>"

    def of(self, value: Val) -> str:
        """A value with its type in front."""
        value = self.flat(value)
        return f"{self.typed(value.type, uniform=value.uniform)} {value.text}"

    def put(self, value: Val, pointer: str, align: int = 0) -> None:
        """Store a value."""
        self.line(f"store {self.of(value)}, ptr {pointer}" + (f", align {align}" if align else ""))

    def number(self, bits: int, type: str) -> Val:
        """A constant by its bits."""
        n = width(type)
        bits &= (1 << n) - 1
        if type in FLOATS:
            return Val(type, self.make(f"bitcast i{n} {bits} to {type}"), uniform=True, known=bits)
        if type == "i1":
            return Val(type, "true" if bits else "false", uniform=True, known=bits)
        return Val(type, str(bits - (1 << n) if bits >> (n - 1) else bits), uniform=True, known=bits)

    def hidden(self, number: int) -> Val:
        """An i64 that LLVM does not know at compile time."""
        if number not in self._hidden:
            place = self.slot("i64")
            self._hidden[number] = f"%{self.fresh('hidden')}"
            self.entry += [f"  store volatile i64 {number}, ptr {place}", f"  {self._hidden[number]} = load volatile i64, ptr {place}"]  # fmt: skip
        return scalar("i64", self._hidden[number])

    def splat(self, value: Val) -> Val:
        """A scalar in every lane, strides as lanes."""
        if value.strides is not None:
            return self._spread(value)
        if not value.uniform:
            return value
        if not value.text.startswith("%"):
            return Val(value.type, f"splat ({value.type} {value.text})", uniform=False, known=value.known)
        one = self.make(f"insertelement <{LANES} x {value.type}> poison, {value.type} {value.text}, i32 0")
        vector = f"<{LANES} x {value.type}>"
        text = self.make(f"shufflevector {vector} {one}, {vector} poison, <{LANES} x i32> zeroinitializer")
        return Val(value.type, text, uniform=False, known=value.known)

    def lanes(self, bits: str) -> Val:
        """A predicate that holds in the lanes whose bits are set."""
        return Val("i1", self.make(f"bitcast i32 {bits} to <{LANES} x i1>"), uniform=False, lanes=bits)

    def flat(self, value: Val) -> Val:
        """A scalar or a vector."""
        return value if value.strides is None else self._spread(value)

    def _spread(self, value: Val) -> Val:
        assert value.strides is not None
        out = self.splat(Val(value.type, value.text, uniform=True, known=value.known))
        whole = f"<{LANES} x {value.type}>"
        for stride, places in zip(value.strides, self.places(), strict=True):
            if stride.known == 0 or not any(places):
                continue
            lanes = f"<{', '.join(f'{value.type} {p}' for p in places)}>"
            if stride.known != 1:
                lanes = self.make(f"mul {whole} {lanes}, {self.splat(stride).text}")
            out = Val(value.type, self.make(f"add {whole} {out.text}, {lanes}"), uniform=False)
        return out

    def places(self) -> tuple[list[int], list[int]]:
        """Where in its row each lane is, and in which row."""
        return [i % self.row for i in range(LANES)], [i // self.row for i in range(LANES)]

    def alike(self, values: Sequence[Val]) -> list[Val]:
        """All as scalars, or all as vectors."""
        return list(values) if all(v.uniform for v in values) else [self.splat(v) for v in values]

    def op(self, text: str, *values: Val, type: str | None = None) -> Val:
        """``text`` of values, with ``T`` for their type: ``add T`` of two, ``icmp eq T`` to ``i1``."""
        values = tuple(self.alike(values))
        first = values[0]
        whole = self.typed(first.type, uniform=first.uniform)
        body = f"{text} {whole} " + ", ".join(v.text for v in values)
        return Val(type or first.type, self.make(body), first.uniform)

    def select(self, condition: Val, yes: Val, no: Val) -> Val:
        """A choice lane by lane."""
        if condition.known is not None:
            return yes if condition.known else no
        if condition.uniform:  # one branch for all lanes, though these may hold a vector
            yes, no = self.alike((self.flat(yes), self.flat(no)))
            return Val(yes.type, self.make(f"select i1 {condition.text}, {self.of(yes)}, {self.of(no)}"), yes.uniform)
        condition, yes, no = self.alike((condition, yes, no))
        return Val(yes.type, self.make(f"select {self.of(condition)}, {self.of(yes)}, {self.of(no)}"), yes.uniform)

    def convert(self, how: str, value: Val, type: str) -> Val:
        """zext, trunc, bitcast and the like."""
        if how == "bitcast" and value.type == type:
            return value
        value = self.flat(value)
        target = self.typed(type, uniform=value.uniform)
        known = value.known if how == "bitcast" else None
        return Val(type, self.make(f"{how} {self.of(value)} to {target}"), value.uniform, known)

    def wide(self, address: Val) -> Val:
        """An address of 32 or 64 bits in 64."""
        return self.convert("zext", address, "i64") if address.type == "i32" else address

    def intrinsic(self, name: str, *values: Val, type: str | None = None) -> Val:
        """``llvm.name`` of values of one type."""
        values = tuple(self.alike(values))
        first = values[0]
        type = type or first.type
        short = {"float": "f32", "double": "f64", "half": "f16"}
        suffix = short.get(first.type, first.type) if first.uniform else f"v{LANES}{short.get(first.type, first.type)}"
        if ".sat" in name:
            suffix = (type if first.uniform else f"v{LANES}{type}") + "." + suffix
        result = self.typed(type, uniform=first.uniform)
        return Val(type, self.call(f"llvm.{name}.{suffix}", result, *map(self.of, values)), first.uniform)

    def bits(self, value: Val) -> Val:
        """A value as an integer of its width."""
        return self.convert("bitcast", value, f"i{width(value.type)}") if value.type in FLOATS else value

    def spill(self, value: Val) -> str:
        """A pointer to the 32 elements of a value, in memory."""
        value = self.splat(value)
        if value.type == "i1":
            value = self.convert("zext", value, "i8")
        place = self.slot(f"[{LANES} x {value.type}]")
        self.line(f"store {self.of(value)}, ptr {place}, align 64")
        return place

    def filled(self, place: str, type: str) -> Val:
        """The 32 elements in memory as a value."""
        inner = memory(type)
        value = Val(inner, self.make(f"load <{LANES} x {inner}>, ptr {place}, align 64"), uniform=False)
        return self.convert("trunc", value, "i1") if type == "i1" else value


class NullBuilder(IRBuilder):
    """Emits nothing: for an analysis of what values operations give, not of how they are computed."""

    def line(self, text: str) -> None:
        """Nothing."""

    def label(self, name: str) -> None:
        """Nothing."""

    def make(self, text: str) -> str:
        """The name of what would have been computed."""
        return f"%{self.fresh()}"

"""Text of LLVM on vectors of eight, for the matrix cores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

WIDE = 8
"""Elements of a vector."""


class Text:
    """The body of a function. Values are names (or constants) whose types the caller knows."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.declared: dict[str, str] = {}
        self._count = 0

    def fresh(self, stem: str) -> str:
        """A name that nothing else has."""
        self._count += 1
        return f"{stem}{self._count}"

    def line(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"  {text}")

    def make(self, text: str) -> str:
        """An instruction with a result."""
        name = "%" + self.fresh("v")
        self.lines.append(f"  {name} = {text}")
        return name

    def label(self, name: str) -> None:
        """Where a block begins; the one before leads to it."""
        self.line(f"br label %{name}")
        self.lines.append(f"{name}:")

    def slot(self, type: str, count: int) -> str:
        """Room on the stack."""
        name = "%" + self.fresh("s")
        self.entry.append(f"  {name} = alloca [{count} x {type}], align 64")
        return name

    def call(self, name: str, result: str, *arguments: str) -> str:
        """An intrinsic of vectors, given with their types."""
        types = ", ".join(a[: a.index(">") + 1] for a in arguments)
        self.declared[name] = f"declare {result} @{name}({types})"
        return self.make(f"call {result} @{name}({', '.join(arguments)})")

    @contextmanager
    def loop(self, count: str | int) -> Iterator[str]:
        """A loop that runs at least once; gives its counter, an i64."""
        number = self.fresh("")
        before, head, latch, end = (f"{stem}{number}" for stem in ("before", "head", "latch", "end"))
        self.label(before)
        self.line(f"br label %{head}")
        self.lines.append(f"{head}:")
        counter = f"%i{number}"
        self.lines.append(f"  {counter} = phi i64 [ 0, %{before} ], [ %n{number}, %{latch} ]")
        yield counter
        self.label(latch)
        self.lines.append(f"  %n{number} = add nuw nsw i64 {counter}, 1")
        self.lines.append(f"  %c{number} = icmp ult i64 %n{number}, {count}")
        self.line(f"br i1 %c{number}, label %{head}, label %{end}")
        self.lines.append(f"{end}:")

    # ---- places -----------------------------------------------------------------------------------

    def at(self, pointer: str, type: str, index: str | int) -> str:
        """The address of an element."""
        return self.make(f"getelementptr {type}, ptr {pointer}, i64 {index}")

    def index(self, *terms: tuple[str | int, int]) -> str:
        """A sum of (counter, factor)."""
        total = ""
        for value, factor in terms:
            one = str(value) if factor == 1 else self.make(f"mul nsw i64 {value}, {factor}")
            total = one if not total else self.make(f"add nsw i64 {total}, {one}")
        return total

    def load(self, type: str, pointer: str, align: int = 4) -> str:
        """An element or a vector."""
        return self.make(f"load {type}, ptr {pointer}, align {align}")

    def store(self, type: str, value: str, pointer: str, align: int = 4) -> None:
        """An element or a vector."""
        self.line(f"store {type} {value}, ptr {pointer}, align {align}")

    # ---- vectors ----------------------------------------------------------------------------------

    def splat(self, type: str, value: str, n: int = WIDE) -> str:
        """A scalar in every element."""
        vector = f"<{n} x {type}>"
        one = self.make(f"insertelement {vector} poison, {type} {value}, i32 0")
        return self.make(f"shufflevector {vector} {one}, {vector} poison, <{n} x i32> zeroinitializer")

    def pick(self, type: str, count: int, value: str, order: Sequence[int], other: str = "poison") -> str:
        """Elements of a vector of ``count`` (and of another) in an order."""
        vector, mask = f"<{count} x {type}>", ", ".join(f"i32 {k}" for k in order)
        return self.make(f"shufflevector {vector} {value}, {vector} {other}, <{len(order)} x i32> <{mask}>")

    def op(self, name: str, type: str, *values: str, n: int = WIDE) -> str:
        """``name`` of vectors."""
        return self.make(f"{name} <{n} x {type}> {', '.join(values)}")

    def to(self, how: str, source: str, value: str, target: str, n: int = WIDE) -> str:
        """A conversion."""
        return self.make(f"{how} <{n} x {source}> {value} to <{n} x {target}>")

    def select(self, condition: str, type: str, yes: str, no: str, n: int = WIDE) -> str:
        """A choice by element."""
        return self.make(f"select <{n} x i1> {condition}, <{n} x {type}> {yes}, <{n} x {type}> {no}")

    def extreme(self, name: str, type: str, a: str, b: str, n: int = WIDE) -> str:
        """``smax``, ``umax``, ``smin`` or ``umin``."""
        vector = f"<{n} x {type}>"
        return self.call(f"llvm.{name}.v{n}{type}", vector, f"{vector} {a}", f"{vector} {b}")

    def trunc(self, type: str, value: str) -> str:
        """Toward zero."""
        short = {"float": "f32", "double": "f64"}[type]
        vector = f"<{WIDE} x {type}>"
        return self.call(f"llvm.trunc.v{WIDE}{short}", vector, f"{vector} {value}")

    def any(self, mask: str, n: int = WIDE) -> str:
        """Whether any element of a mask is set."""
        bits = self.make(f"bitcast <{n} x i1> {mask} to i{n}")
        return self.make(f"icmp ne i{n} {bits}, 0")


def same(type: str, value: int | str, n: int = WIDE) -> str:
    """A constant vector of equal elements."""
    return f"splat ({type} {value})"


def real(value: float, type: str = "float") -> str:
    """A constant vector of a power of two (or of a small number), as LLVM spells it."""
    import struct

    return same(type, f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}")

"""Text of LLVM on vectors of eight, for the matrix cores."""

from __future__ import annotations

import struct

from warpsim.native.lowering.values import Function

WIDE = 8
"""Elements of a vector."""


class Text(Function):
    """The text of a function."""

    def buffer(self, type: str, count: int) -> str:
        """Room on the stack."""
        return self.slot(f"[{count} x {type}]")

    def load(self, type: str, pointer: str, align: int = 4) -> str:
        """An element or a vector."""
        return super().load(type, pointer, align)

    def store(self, type: str, value: str | int, pointer: str, align: int = 4) -> None:
        """An element or a vector."""
        super().store(type, value, pointer, align)

    def index(self, *terms: tuple[str | int, int]) -> str:
        """A sum of (counter, factor)."""
        total = ""
        for value, factor in terms:
            one = str(value) if factor == 1 else self.make(f"mul nsw i64 {value}, {factor}")
            total = one if not total else self.make(f"add nsw i64 {total}, {one}")
        return total

    def pointer(self, base: str, number: str, size: str) -> str:
        """Where the ``number``-th of things of so many bytes stands, from an address on."""
        place = self.make(f"add i64 {base}, {self.make(f'mul i64 {number}, {size}')}")
        return self.make(f"inttoptr i64 {place} to ptr")

    # ---- vectors ----------------------------------------------------------------------------------

    def splat(self, type: str, value: str, n: int = WIDE) -> str:
        """A scalar in every element."""
        vector = f"<{n} x {type}>"
        one = self.make(f"insertelement {vector} poison, {type} {value}, i32 0")
        return self.make(f"shufflevector {vector} {one}, {vector} poison, <{n} x i32> zeroinitializer")

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

    def turned(self, type: str, rows: list[str]) -> list[str]:
        """The columns of a matrix of `WIDE` columns; rows are a power of two and at most `WIDE`."""
        n = len(rows)
        for _ in range(n.bit_length() - 1):  # the elements of both halves in turn
            pairs = list(zip(rows[: n // 2], rows[n // 2 :], strict=True))
            halves = [[k // 2 + first + WIDE * (k % 2) for k in range(WIDE)] for first in (0, WIDE // 2)]
            rows = [self.pick(type, WIDE, low, half, high) for low, high in pairs for half in halves]
        return [
            self.pick(type, WIDE, rows[at // WIDE], range(at % WIDE, at % WIDE + n)) for at in range(0, WIDE * n, n)
        ]

    def any(self, mask: str, n: int = WIDE) -> str:
        """Whether any element of a mask is set."""
        bits = self.make(f"bitcast <{n} x i1> {mask} to i{n}")
        return self.make(f"icmp ne i{n} {bits}, 0")


def same(type: str, value: int | str, n: int = WIDE) -> str:
    """A constant vector of equal elements."""
    return f"splat ({type} {value})"


def real(value: float, type: str = "float") -> str:
    """A constant vector of a power of two (or of a small number), as LLVM spells it."""
    return same(type, f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}")

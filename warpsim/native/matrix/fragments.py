"""Fragments in machine code: registers to matrices in memory and back, one warp at a time."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from warpsim.layout.fragment import Fragment, gather, scatter
from warpsim.native.matrix.text import Text

LANES = 32


@attrs.frozen(eq=False)
class Moved:
    """The registers of an operand of one warp: ``places`` ``[registers, lanes, parts]`` are where their parts stand, of ``bits``
    each, among ``size`` in memory; what comes a second time stands behind the end."""

    places: Any
    bits: int
    size: int

    @property
    def registers(self) -> int:
        """How many there are."""
        return len(self.places)

    @property
    def parts(self) -> int:
        """Parts of a register."""
        return int(self.places.shape[2])

    @property
    def register_bits(self) -> int:
        """Bits of a register."""
        return max(self.bits, 32)


def gathered(fragment: Fragment, count: int, *, row_major: bool) -> Moved:
    """What `gather` does with ``count`` registers."""
    bits, per = fragment.bits, fragment.per_register
    ids = np.arange(count * LANES * per, dtype=np.int64).reshape(count, LANES, per)  # an element of 16 bits holds each
    words = (ids << bits * np.arange(per)).sum(axis=2) if per > 1 else ids[:, :, 0]
    dtype = np.dtype(np.uint64 if bits == 64 else np.uint32)
    held = tuple(word.astype(dtype).reshape(1, LANES, 1) for word in words)
    found = gather(fragment, held, 1, 1, row_major=row_major).astype(np.int64)
    places = np.full(ids.size, found.size, np.int32)
    places[found.reshape(-1)] = np.arange(found.size)
    return Moved(places.reshape(count, LANES, per), bits, found.size)


def scattered(fragment: Fragment, *, row_major: bool) -> Moved:
    """What `scatter` does."""
    bits, size = fragment.bits, fragment.rows * fragment.columns
    ids = np.arange(size, dtype=f"u{bits // 8}")
    shape = (fragment.rows, fragment.columns) if row_major else (fragment.columns, fragment.rows)
    words = np.stack(scatter(fragment, ids.reshape(*shape, 1), 1, 1, row_major=row_major))
    parts = np.ascontiguousarray(words.reshape(len(words), LANES, 1)).view(ids.dtype)
    return Moved(parts.astype(np.int32), bits, size)


def as_they_are(count: int, bits: int = 32) -> Moved:
    """Registers one after the other, ``[registers, lanes]``."""
    places = np.arange(count * LANES, dtype=np.int32).reshape(count, LANES, 1)
    return Moved(places, bits, count * LANES)


class Mover:
    """Emits the moves of one function. Registers are described in ``args`` from a word on: address, and the strides of
    warps, lanes and CTAs in bytes."""

    def __init__(self, text: Text, warp: str, cta: str) -> None:
        self.text = text
        self.warp, self.cta = warp, cta
        self.tables: list[str] = []

    def _table(self, places: Any) -> str:
        name = f"@places{len(self.tables)}"
        flat = places.reshape(-1)
        values = ", ".join(f"i32 {int(v)}" for v in flat)
        self.tables.append(f"{name} = private unnamed_addr constant [{len(flat)} x i32] [{values}], align 64")
        return name

    def _lanes(self, first: int, register: str) -> tuple[str, str]:
        """The address of lane 0 of a register, and the step between lanes."""
        text = self.text
        word = text.index((register, 4), (first, 1))
        base, warps, lanes, ctas = (
            text.load("i64", text.at("%args", "i64", text.index((word, 1), (k, 1))), 8) for k in range(4)
        )
        for stride, number in ((warps, self.warp), (ctas, self.cta)):
            base = text.make(f"add i64 {base}, {text.make(f'mul i64 {stride}, {number}')}")
        return base, lanes

    def gather(self, operand: Moved, first: int, target: str) -> None:
        """Registers into memory."""
        text, bits, parts = self.text, operand.bits, operand.parts
        table = self._table(operand.places)
        whole = f"i{operand.register_bits}"
        with text.loop(operand.registers) as register:
            base, step = self._lanes(first, register)
            with text.loop(LANES) as lane:
                at = text.make(f"add i64 {base}, {text.make(f'mul i64 {step}, {lane}')}")
                word = text.load(whole, text.make(f"inttoptr i64 {at} to ptr"), operand.register_bits // 8)
                for part in range(parts):
                    place = self._place(table, register, lane, parts, part)
                    value = word
                    if parts > 1:
                        value = text.make(f"lshr {whole} {word}, {part * bits}") if part else word
                        value = text.make(f"trunc {whole} {value} to i{bits}")
                    text.store(f"i{bits}", value, text.at(target, f"i{bits}", place), bits // 8)

    def scatter(self, operand: Moved, first: int, source: str) -> None:
        """Memory into registers."""
        text, bits, parts = self.text, operand.bits, operand.parts
        table = self._table(operand.places)
        whole = f"i{operand.register_bits}"
        with text.loop(operand.registers) as register:
            base, step = self._lanes(first, register)
            with text.loop(LANES) as lane:
                word = ""
                for part in range(parts):
                    place = self._place(table, register, lane, parts, part)
                    value = text.load(f"i{bits}", text.at(source, f"i{bits}", place), bits // 8)
                    if parts > 1:
                        value = text.make(f"zext i{bits} {value} to {whole}")
                        value = text.make(f"shl {whole} {value}, {part * bits}") if part else value
                    word = value if not word else text.make(f"or {whole} {word}, {value}")
                at = text.make(f"add i64 {base}, {text.make(f'mul i64 {step}, {lane}')}")
                text.store(whole, word, text.make(f"inttoptr i64 {at} to ptr"), operand.register_bits // 8)

    def _place(self, table: str, register: str, lane: str, parts: int, part: int) -> str:
        text = self.text
        place = text.index((register, LANES * parts), (lane, parts), (part, 1))
        return text.make(f"sext i32 {text.load('i32', text.at(table, 'i32', place))} to i64")

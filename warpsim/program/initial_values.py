"""Initial values of variables: their bytes, and the places of symbol addresses in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from warpsim.errors import Span
from warpsim.program.fitting import float_bits
from warpsim.program.problems import Problems
from warpsim.program.program import Relocation, Variable
from warpsim.ptx import ast
from warpsim.types import ScalarType, StateSpace


class InitialValues:
    """Converts initialisers; ``symbols`` are the module's symbols declared so far."""

    def __init__(self, symbols: Mapping[str, object], problems: Problems) -> None:
        self._symbols = symbols
        self._problems = problems

    def bytes_of(self, tree: ast.InitialiserTree, type: ScalarType, span: Span) -> tuple[bytes, tuple[Relocation, ...]]:
        """The bytes of an initialiser, and the symbol addresses in it."""
        data = bytearray()
        relocations: list[Relocation] = []
        for leaf in _leaves(tree):
            if isinstance(leaf, ast.Numbers):
                self._allowed(leaf.span, type, floating=leaf.width > 0)
                if type.bytes > 8:
                    data += b"".join([value.to_bytes(type.bytes, "little") for value in leaf.values])
                    continue
                values: np.ndarray[Any, Any] = np.array(leaf.values, np.uint64)
                if leaf.width > type.bits == 32:
                    with np.errstate(all="ignore"):
                        values = values.view(np.float64).astype(np.float32).view(np.uint32)
                data += values.astype(f"<u{type.bytes}").tobytes()
            elif isinstance(leaf, ast.Addresses):
                relocations += self._addresses(leaf, type, data)
            elif leaf.symbol is not None:
                self._address(leaf, leaf.symbol.text, type)
                place = len(data), type.bytes, leaf.symbol.text
                relocations.append(Relocation(*place, leaf.offset, leaf.generic, leaf.mask))
                data += bytes(type.bytes)
            else:
                data += self._literal(leaf, type)
        return bytes(data), tuple(relocations)

    def _addresses(self, many: ast.Addresses, type: ScalarType, data: bytearray) -> list[Relocation]:
        """Append the bytes of many leaves, zeros for addresses, and return these. The first of each kind is judged."""
        kinds: dict[tuple[str | None, bool, bool, bool], int] = {}
        for number, (symbol, offset, generic, mask) in enumerate(many.values):
            kinds.setdefault((symbol, generic, offset != 0, mask is not None), number)
        for (symbol, *_), number in kinds.items():
            leaf = many.leaf(number)
            if symbol is not None:
                self._address(leaf, symbol, type)
            else:
                self._allowed(leaf.span, type, floating=False)
        start, size, most = len(data), type.bytes, (1 << 8 * type.bytes) - 1
        data += b"".join(
            [(0 if leaf[0] is not None else leaf[1] & most).to_bytes(size, "little") for leaf in many.values]
        )
        return [
            Relocation(start + size * number, size, symbol, offset, generic, mask)
            for number, (symbol, offset, generic, mask) in enumerate(many.values)
            if symbol is not None
        ]

    def _address(self, leaf: ast.Initialiser, name: str, type: ScalarType) -> None:
        """Check a symbol's address as an initial value."""
        symbol = self._symbols.get(name)
        if symbol is None:
            self._problems.add("initialiser", leaf.span, f"{name} is not declared before this initial value")
        elif type.name not in ("u32", "u64") and not (leaf.mask is not None and type.name == "u8"):
            self._problems.add(
                "initialiser",
                leaf.span,
                f"the address of {name} cannot initialise a .{type.name}",
                "use .u64, or 0xFF(name) for a .u8",
            )
        elif isinstance(symbol, ast.Function) and (leaf.generic or leaf.offset):
            self._problems.add("initialiser", leaf.span, f"{name} is a function, which has only one address")
        elif isinstance(symbol, Variable) and symbol.space not in (StateSpace.GLOBAL, StateSpace.CONST):
            self._problems.add(
                "initialiser", leaf.span, f"{name} is in .{symbol.space.value}, so it has no fixed address"
            )

    def _literal(self, leaf: ast.Initialiser, type: ScalarType) -> bytes:
        """Convert a literal to the bytes of a type, as the assembler does."""
        value = leaf.value
        self._allowed(leaf.span, type, floating=isinstance(value, ast.Float))
        if isinstance(value, ast.Float):
            bits = float_bits(value, 32) if type.bits == 32 else value.bits
        else:
            assert isinstance(value, ast.Integer)
            bits = value.value & (2**64 - 1)
        return (bits & ((1 << (8 * type.bytes)) - 1)).to_bytes(type.bytes, "little")

    def _allowed(self, span: Span, type: ScalarType, *, floating: bool) -> None:
        """Whether a type takes literals of a kind."""
        if floating and (type.kind not in "fb" or type.name in ("f16", "f16x2")):
            message = f"a .{type.name} variable cannot have a floating-point initial value"
            self._problems.add("initialiser", span, message)
        elif not floating and (type.kind == "f" or type.name == "f16x2"):
            message = f"an integer cannot initialise a .{type.name}"
            self._problems.add("initialiser", span, message, "write a decimal point, or 0f...")


def _leaves(tree: ast.InitialiserTree) -> list[ast.Initialiser | ast.Numbers | ast.Addresses]:
    if not isinstance(tree, tuple):
        return [tree]
    return [leaf for part in tree for leaf in _leaves(part)]

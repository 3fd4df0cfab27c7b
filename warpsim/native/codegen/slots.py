"""Stack slots of registers that are live across blocks: a scalar, a base with strides, or a vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.native.codegen.inputs import key_type
from warpsim.native.codegen.register_kinds import AFFINE, UNIFORM, VARYING
from warpsim.native.lowering.affine import first_of, strides_of, top_of, zeros_of
from warpsim.native.lowering.values import Val
from warpsim.native.regions.forms import Key

if TYPE_CHECKING:
    from warpsim.native.codegen.builder import RegionBuilder


class Slots:
    """The registers of a converged warp."""

    def __init__(self, builder: RegionBuilder) -> None:
        self.builder = builder
        self._places: dict[tuple[Key, int], str] = {}

    def form(self, key: Key) -> int:
        """A register's form."""
        return self.builder.kinds.form(key)

    def _type(self, key: Key) -> str:
        return key_type(self.builder.region, key)

    def _place(self, key: Key, part: int) -> str:
        found = self._places.get((key, part))
        if found is None:
            type = self._type(key)
            whole = f"<32 x {type}>" if self.form(key) == VARYING else type
            found = self._places[key, part] = self.builder.code.slot(whole)
        return found

    def parts(self, key: Key) -> list[tuple[str, str]]:
        """The slots of a register, with their types."""
        type = self._type(key)
        if self.form(key) == VARYING:
            return [(self._place(key, 0), f"<32 x {type}>")]
        known = self._strides(key)
        return [(self._place(key, k), type) for k in range(3) if k == 0 or known[k - 1] is None]

    def _strides(self, key: Key) -> tuple[int | None, int | None]:
        return self.builder.kinds.strides.get(key, (0, 0))

    def get(self, key: Key) -> Val:
        """Load a register."""
        code, type = self.builder.code, self._type(key)
        self.builder.kinds.read(key)
        loads = [code.make(f"load {t}, ptr {p}") for p, t in self.parts(key)]
        if self.form(key) == VARYING:
            return Val(type, loads[0], uniform=False)
        zeros, top = self.builder.kinds.limits.get(key, (0, 64))
        if self.form(key) == UNIFORM:
            return Val(type, loads[0], uniform=True, zeros=zeros, top=top)
        rest = iter(loads[1:])
        x, y = (Val(type, next(rest), uniform=True) if s is None else code.number(s, type) for s in self._strides(key))
        return Val(type, loads[0], uniform=False, strides=(x, y), zeros=zeros, top=top)

    def put(self, key: Key, value: Val) -> None:
        """Store a register."""
        code, kinds = self.builder.code, self.builder.kinds
        kinds.widen(key, AFFINE if value.strides is not None else UNIFORM if value.uniform else VARYING)
        form = self.form(key)
        if form != VARYING:
            kinds.limit(key, zeros_of(value), top_of(value))
        if form == AFFINE:
            x, y = strides_of(code, value)
            kinds.stride(key, (_signed(x), _signed(y)))
            first, places = first_of(value), self.parts(key)
            dynamic = [s for s, known in zip((x, y), self._strides(key), strict=True) if known is None]
            for (place, type), part in zip(places, (first, *dynamic), strict=True):
                code.line(f"store {type} {part.text}, ptr {place}")
            return
        if form == VARYING:
            value = code.splat(value)
        for place, type in self.parts(key):
            code.line(f"store {type} {value.text}, ptr {place}")

    def clear(self, key: Key) -> None:
        """Zero a register."""
        for place, type in self.parts(key):
            self.builder.code.line(f"store {type} zeroinitializer, ptr {place}")


def _signed(stride: Val) -> int | None:
    if stride.known is None:
        return None
    n = int(stride.type[1:])
    return stride.known - (1 << n) if stride.known >> (n - 1) else stride.known

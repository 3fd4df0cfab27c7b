"""Registers and addresses: mov, cvta, isspacep, mapa (PTX ISA: Data Movement and Conversion Instructions)."""

from __future__ import annotations

import functools

import numpy as np

from warpsim.isa.ports import ClusterPort, Lanes
from warpsim.isa.spec import Op, instruction
from warpsim.isa.traits import Traits
from warpsim.numerics.arrays import DType
from warpsim.types import TYPES, ScalarType

_move = functools.partial(instruction, chapter="data-movement-and-conversion-instructions")

SHARED_WINDOW = 0x7E00_0000_0000
WINDOWS = {"const": 0x7C00_0000_0000, "local": 0x7D00_0000_0000, "param": 0x7B00_0000_0000, "shared": SHARED_WINDOW}
"""Where each state space begins among the generic addresses; .global is where it is."""
WINDOW = 1 << 32
_mov = functools.partial(_move, traits=Traits(copies=True, special_registers=True, symbols=""))


@_mov(
    "mov.type d, a;  .type = { .pred, .b16, .b32, .b64, .b128, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64 };",
    gates={"b128": (70, (8, 3))},
)
def mov(op: Op, a: Lanes) -> Lanes:
    """d = a."""
    return a


@_mov(
    "mov.v2.type d, a;  .type = { .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64 };",
    vectors={"d": 2, "a": 2},
)
@_mov("mov.v4.type d, a;  .type = { .b16, .b32, .u16, .u32, .s16, .s32, .f32 };", vectors={"d": 4, "a": 4})
def mov_vector(op: Op, a: tuple[Lanes, ...]) -> tuple[Lanes, ...]:
    """d = a per element; not in the text, but the assembler accepts it."""
    return a


@_mov("mov.pred d, {!}a;")
def mov_not(op: Op, a: Lanes) -> Lanes:
    """d = a, where the assembler accepts a negated."""
    return a


@_mov(
    "mov.type d, a;  .type = { .b16, .b32, .b64, .b128 };",
    anchor="mov-2",
    vectors={"a": 0},
    gates={"b128": (70, (8, 3))},
)
def mov_pack(op: Op, a: tuple[Lanes, ...]) -> Lanes:
    """Pack several registers into a wide one, the first lowest."""
    part = op.type.bits // len(a)
    if op.type.bits < 128:
        return _join(a, part, op.type.dtype)
    half = len(a) // 2
    word = np.dtype(np.uint64)
    low, high = _join(a[:half], part, word), _join(a[half:], part, word)
    out = np.zeros(np.broadcast_shapes(low.shape, high.shape), op.type.dtype)
    out["lo"], out["hi"] = low, high
    return out


def _join(parts: tuple[Lanes, ...], bits: int, dtype: DType) -> Lanes:
    total, *others = [part.view(f"u{bits // 8}").astype(dtype) for part in parts]
    for k, word in enumerate(others, 1):
        total = total | (word << dtype.type(bits * k))
    return total


@_mov(
    "mov.type d, a;  .type = { .b16, .b32, .b64, .b128 };",
    anchor="mov-2",
    vectors={"d": 0},
    gates={"b128": (70, (8, 3))},
)
def mov_unpack(op: Op, a: Lanes) -> Unpacked:
    """Unpack a wide register, the lowest part first; the machine takes as many parts as the vector has."""
    return Unpacked(a)


class Unpacked(tuple):  # type: ignore[type-arg]
    """A register to be split into the parts of a destination vector."""

    def __new__(cls, value: Lanes) -> Unpacked:
        """Keep the register."""
        made = super().__new__(cls, (value,))
        return made

    def parts(self, count: int) -> tuple[Lanes, ...]:
        """``count`` equal parts, the lowest first."""
        value = self[0]
        if value.dtype.names is not None:
            half = count // 2
            return (*Unpacked(value["lo"]).parts(half), *Unpacked(value["hi"]).parts(half))
        size = value.dtype.itemsize // count
        return tuple([(value >> value.dtype.type(8 * size * k)).astype(f"u{size}") for k in range(count)])


# ---- generic addresses --------------------------------------------------------------------------

_SPACES = """
    .space = { .const, .global, .local, .shared, .shared::cta, .shared::cluster, .param, .param::entry };
    .size = { .u64 };
"""
_CVTA_GATES = {
    "param": (70, (7, 7)),
    "param::entry": (70, (8, 3)),
    "shared::cta": (0, (7, 8)),
    "shared::cluster": (90, (7, 8)),
}


def _address_type(op: Op) -> ScalarType:
    return TYPES[op.size]


def _window(op: Op) -> np.uint64:
    return np.uint64(WINDOWS.get(op.space.split("::")[0], 0))


@_move(
    "cvta.space.size p, a;" + _SPACES,
    needs=(20, (2, 0)),
    gates=_CVTA_GATES,
    traits=lambda op: Traits(generic_address=True, symbols=op.space.split("::")[0]),
)
def cvta(op: Op, a: Lanes) -> Lanes:
    """Convert an address in a state space to a generic one."""
    return a + _window(op)


@_move("cvta.to.space.size p, a;" + _SPACES, needs=(20, (2, 0)), gates=_CVTA_GATES, traits=Traits(generic_address=True))
def cvta_to(op: Op, a: Lanes) -> Lanes:
    """Convert a generic address to one in a state space."""
    return a - _window(op)


_isspacep = functools.partial(_move, needs=(20, (2, 0)), gates={"const": (0, (3, 1)), **_CVTA_GATES})


def _within(a: Lanes, space: str) -> Lanes:
    first = WINDOWS[space.split("::")[0]]
    return (a >= np.uint64(first)) & (a < np.uint64(first + WINDOW))


_ELSEWHERE = "isspacep.space p, a; .space = { .const, .global, .local, .shared::cluster, .param, .param::entry };"


@_isspacep(_ELSEWHERE, types={"p": ".pred", "a": ".u32"})
@_isspacep(_ELSEWHERE, types={"p": ".pred", "a": ".u64"})
def isspacep(op: Op, a: Lanes) -> Lanes:
    """Whether a generic address is in a state space."""
    a = a.astype(np.uint64)
    if op.space == "global":  # parameters are global too, as on an H100
        return ~(_within(a, "shared") | _within(a, "local") | _within(a, "const"))
    return _within(a, op.space)


_OWN = "isspacep.space p, a; .space = { .shared, .shared::cta };"


@_isspacep(_OWN, types={"p": ".pred", "a": ".u32"})
@_isspacep(_OWN, types={"p": ".pred", "a": ".u64"})
def isspacep_own(op: Op, a: Lanes, *, cluster: ClusterPort) -> Lanes:
    """Whether a generic address is in the shared memory of the thread's own CTA."""
    a = a.astype(np.uint64)
    return _within(a, "shared") & cluster.is_own(a - np.uint64(SHARED_WINDOW))


# ---- clusters -----------------------------------------------------------------------------------

_mapa = functools.partial(
    _move,
    types={"d": _address_type, "a": _address_type, "b": ".u32"},
    traits=Traits(symbols="shared"),
    needs=(90, (7, 8)),
)


def _origin(op: Op, a: Lanes) -> np.generic:
    """Where shared memory begins among the addresses that an instruction takes: generic ones, or those of shared memory."""
    return np.uint64(0 if op.modifiers[0] == "shared::cluster" else SHARED_WINDOW).astype(a.dtype)


@_mapa("mapa.shared::cluster.size d, a, b; mapa.size d, a, b;  .size = { .u32, .u64 };")
def mapa(op: Op, a: Lanes, b: Lanes, *, cluster: ClusterPort) -> Lanes:
    """The address in CTA b of the cluster that corresponds to a shared-memory address, or a generic one."""
    return cluster.map_shared(a - _origin(op, a), b) + _origin(op, a)


def even_of_pair(op: Op, a: Lanes, b: Lanes, *, cluster: ClusterPort) -> Lanes:
    """The address in the even CTA of the pair of the address's CTA, where there are clusters; else without the bits that b lacks."""
    return cluster.even(a, b)


_rank = functools.partial(
    _move, types={"d": ".u32", "a": _address_type}, traits=Traits(symbols="shared"), needs=(90, (7, 8))
)


@_rank("getctarank.shared::cluster.size d, a; getctarank.size d, a;  .size = { .u32, .u64 };")
def getctarank(op: Op, a: Lanes, *, cluster: ClusterPort) -> Lanes:
    """The rank in the cluster of the CTA that contains a shared-memory address, or a generic one."""
    return cluster.rank_of(a - _origin(op, a))

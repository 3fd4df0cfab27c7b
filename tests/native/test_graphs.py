"""Arithmetic of arrays as machine code: what NumPy gives for the same operations on the same lanes.

Functions of arrays are called once with stand-ins and once with arrays, for values that all lanes share and for others; all of
them are one function for LLVM, compiled once."""

import ctypes
import itertools
import random

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the extra jit is not installed")

from warpsim.graph.nodes import LANES, Node, Untraceable
from warpsim.graph.trace import Lane, trace
from warpsim.native.compiling.compiler import compiler
from warpsim.native.lowering.graphs import Lowering
from warpsim.native.lowering.values import BF16, IRBuilder, Unlowerable, Val, element, memory
from warpsim.numerics import floating
from warpsim.numerics.arrays import lookup
from warpsim.numerics.floating import directed_quotient, fma64

SHAPE = (1, LANES, 1)
NUMBERS = itertools.count()
HARD = {
    "f2": [0x0000, 0x8000, 0x7C00, 0xFC00, 0x7E01, 0x3C00, 0xBC00, 0x0001, 0x83FF, 0x7BFF, 0x4248, 0xC500],
    "f4": [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00001, 0x3F800000, 0xBFC00000, 1, 0x807FFFFF, 0x4F000000, 0x4B800001, 0xCF000001],
    "f8": [0, 1 << 63, 0x7FF << 52, 0xFFF << 52, (0x7FF8 << 48) + 1, 0x3FF << 52, 0xBFF8 << 48, 1, (1 << 63) + 5, 0x43F0 << 48, 0x41F0000010000000, 0x3CA << 52],
    "bf": [0x0000, 0x8000, 0x7F80, 0xFF80, 0x7FC1, 0x3F80, 0xBF80, 0x0001, 0x807F, 0x7F7F, 0x4049, 0xC0A0],
}  # fmt: skip


def values(kind, seed):
    """Lanes of a type, the hard ones first."""
    rng = np.random.default_rng(seed)
    dtype = BF16 if kind == "bf" else np.dtype(kind)
    if dtype.kind == "b":
        return rng.integers(0, 2, SHAPE).astype(bool)
    raw = rng.integers(0, 1 << 8 * dtype.itemsize, SHAPE, dtype=np.uint64).astype(f"u{dtype.itemsize}")
    edge = HARD.get(kind) or [
        0,
        1,
        2,
        3,
        7,
        31,
        32,
        33,
        -1,
        -2,
        1 << 8 * dtype.itemsize - 1,
        (1 << 8 * dtype.itemsize - 1) - 1,
    ]
    order = rng.permutation(len(edge) * 2) % len(edge)
    raw.reshape(-1)[: len(order)] = [edge[k] & (1 << 8 * dtype.itemsize) - 1 for k in order]
    return raw.view(dtype)


INTEGERS = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")
FLOATS = ("f4", "f8", "f2")
BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "minimum": np.minimum, "maximum": np.maximum,
    "less": np.less, "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal,
    "equal": np.equal, "not_equal": np.not_equal,
}  # fmt: skip
LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
GRAPHS = {}
"""A function of arrays, and the kinds of those."""
for kind in INTEGERS:
    GRAPHS |= {f"{name} {kind}": (f, (kind, kind)) for name, f in (BINARY | LOGIC).items()}
    GRAPHS |= {
        f"shift left {kind}": (np.left_shift, (kind, kind)),
        f"shift right {kind}": (np.right_shift, (kind, kind)),
        f"shift by 3 {kind}": (lambda a: (a << a.dtype.type(3)) + (a >> a.dtype.type(3)), (kind,)),
        f"shift by all {kind}": (lambda a: np.right_shift(a, a.dtype.type(8 * a.dtype.itemsize)), (kind,)),
        f"quotient {kind}": (np.floor_divide, (kind, kind)),
        f"remainder {kind}": (np.remainder, (kind, kind)),
        f"fmod {kind}": (np.fmod, (kind, kind)),
        f"invert {kind}": (np.invert, (kind,)),
        f"negative {kind}": (np.negative, (kind,)),
        f"absolute {kind}": (np.absolute, (kind,)),
        f"count {kind}": (np.bitwise_count, (kind,)),
        **({f"sign {kind}": (np.sign, (kind,))} if kind[0] == "i" else {}),
        **({} if kind[1] == "1" else {f"swapped {kind}": (lambda a: a.byteswap(), (kind,))}),
        f"in place {kind}": (lambda a, b: in_place(a, b), (kind, kind)),
        f"logical {kind}": (lambda a, b: np.logical_and(a, b) | np.logical_not(a) ^ np.logical_or(a, b), (kind, kind)),
        f"clip {kind}": (lambda a: np.clip(a, a.dtype.type(3), a.dtype.type(90)), (kind,)),
        f"least lane {kind}": (lambda a: a.min(axis=1, keepdims=True), (kind,)),
        f"greatest lane {kind}": (lambda a: a.max(axis=1, keepdims=True), (kind,)),
        f"any {kind}": (lambda a: np.bitwise_or.reduce(a, axis=1, keepdims=True), (kind,)),
        f"lane 5 {kind}": (lambda a: a[:, 5:6] + a, (kind,)),
        f"first lane {kind}": (lambda a: a[:, :1] ^ a, (kind,)),
        **{f"{kind} as {other}": (lambda a, other=other: a.astype(other), (kind,)) for other in (*INTEGERS, *FLOATS, "?") if other != kind},
    }  # fmt: skip
for kind in FLOATS:
    GRAPHS |= {f"{name} {kind}": (f, (kind, kind)) for name, f in BINARY.items() if name not in ("minimum", "maximum")}
    GRAPHS |= {
        f"divide {kind}": (np.divide, (kind, kind)),
        **{f"{f.__name__} {kind}": (f, (kind,)) for f in (np.isnan, np.isinf, np.isfinite, np.signbit, np.negative, np.absolute, np.sqrt, np.rint, np.trunc, np.floor, np.ceil)},
        f"copysign {kind}": (np.copysign, (kind, kind)),
        f"sign {kind}": (np.sign, (kind,)),
        f"bits {kind}": (lambda a: a.view(f"u{a.dtype.itemsize}") + a.dtype.type(1).view(f"u{a.dtype.itemsize}"), (kind,)),
        f"as predicate {kind}": (lambda a: a.astype("?"), (kind,)),
    }  # fmt: skip
GRAPHS |= {f"{name} ?": (f, ("?", "?")) for name, f in (LOGIC | {"equal": np.equal, "not_equal": np.not_equal}).items()}
GRAPHS |= {
    "f4 as f8": (lambda a: a.astype("f8"), ("f4",)),
    "f8 as f4": (lambda a: a.astype("f4"), ("f8",)),
    "f4 as f2": (lambda a: a.astype("f2"), ("f4",)),
    "f2 as f4": (lambda a: a.astype("f4"), ("f2",)),
    "f2 as f8": (lambda a: a.astype("f8"), ("f2",)),
    "bf as f4": (lambda a: a.astype("f4"), ("bf",)),
    "bf as f8": (lambda a: a.astype("f8"), ("bf",)),
    "bf as i4": (lambda a: a.astype("i4"), ("bf",)),
    "f8 as f2": (lambda a: a.astype("f2"), ("f8",)),
    **{f"{kind} as {other}": (lambda a, kind=kind, other=other: whole(a).astype(other), (kind,)) for kind in FLOATS for other in INTEGERS},
    "a sum of bf": (np.add, ("bf", "bf")),
    "a sum of lanes of f4": (lambda a: np.add.reduce(a, axis=1, keepdims=True), ("f4",)),
    "lanes of numbers": (lambda a: a * np.arange(LANES, dtype="f4").reshape(SHAPE), ("f4",)),
    "predicates of bytes": (lambda a: (a & np.uint8(1)).view("?"), ("u1",)),
    "a table": (lambda a: lookup(SQUARES, a & np.uint32(31)), ("u4",)),
    "another table, twice": (lambda a, b: lookup(CUBES, a & np.uint32(31)) - lookup(CUBES, b & np.uint32(31)), ("u4", "u4")),
    **{f"a table of {t}": (lambda a, t=t: lookup(SQUARES.astype(t), a & np.uint32(31)), ("u4",)) for t in ("u1", "u2", "u4", "f4")},
    **{f"{mode} quotient {kind}": (lambda a, b, mode=mode: numbers(directed_quotient(a, b, mode)), (kind, kind)) for mode in ("rz", "rm", "rp") for kind in ("f4", "f8")},
    **{f"{mode} product and sum": (lambda a, b, c, mode=mode: fma64(a, b, c, mode), ("f8",) * 3) for mode in ("rn", "rz", "rm", "rp")},
    "nextafter f8": (np.nextafter, ("f8", "f8")),
    "least and greatest": (lambda a, b: np.where(a < b, a, b) + np.where(a > b, a, b), ("f4", "f4")),
    "never": (lambda a: np.where(np.bool_(False), a, a + 1), ("u4",)),
    "always": (lambda a: np.where(np.bool_(True), a, a + 1), ("u4",)),
    "assigned everywhere": (lambda a, b: everywhere(a, b), ("u4", "u4")),
    "a choice of types": (lambda c, a: np.where(c, a, 1.5), ("?", "f4")),
    "numbers on the left": (lambda a: 100 - a + (7 & a) + (1 << (a & np.int32(7))), ("i4",)),
    "shifts in place": (lambda a: shifted(a), ("u4",)),
    "the sum of bits": (lambda a: np.add.reduce(a, axis=1, keepdims=True, dtype="u4"), ("?",)),
    "all bits": (lambda a: np.bitwise_and.reduce(a, axis=1, keepdims=True), ("u4",)),
    "of a shape": (lambda a: np.broadcast_to(a.reshape(SHAPE), np.shape(a)) + a.ndim + len(a.shape) + a.size, ("u4",)),
    "broadcast": (lambda a, b: np.add(*np.broadcast_arrays(a, b)), ("u4", "u4")),
    "taken": (lambda a: a.take(np.arange(31, -1, -1), axis=1), ("u4",)),
    **{f"{f.__name__} bf": (f, ("bf",) * f.nin) for f in (np.isnan, np.signbit, np.less, np.equal, np.greater_equal)},
    "nextafter": (np.nextafter, ("f4", "f4")),
    "not": (np.invert, ("?",)),
    "? as f4": (lambda a: a.astype("f4"), ("?",)),
    "? as i8": (lambda a: a.astype("i8"), ("?",)),
    "bytes of ?": (lambda a: a.view("u1"), ("?",)),
    "where": (lambda c, a, b: np.where(c, a, b), ("?", "f4", "f4")),
    "where, a number": (lambda c, a: np.where(c, a, 7), ("?", "u4")),
    "assigned": (lambda c, a: assigned(c, a), ("?", "i4")),
    "copied": (lambda c, a: copied(c, a), ("?", "u8")),
    "anywhere": (lambda a: a.any(axis=1, keepdims=True), ("?",)),
    "everywhere": (lambda a: a.all(axis=1, keepdims=True), ("?",)),
    "sum": (lambda a: np.add.reduce(a, axis=1, keepdims=True, dtype="u8"), ("u4",)),
    "parity": (lambda a: np.bitwise_xor.reduce(a, axis=1, keepdims=True), ("u4",)),
    "lanes that are named": (lambda a, i: np.take_along_axis(a, i & np.int32(31), 1), ("u4", "i4")),
    "predicates of lanes that are named": (lambda a, i: np.take_along_axis(a, i & np.int32(31), 1), ("?", "i4")),
    "lanes in reverse": (lambda a: np.take_along_axis(a, np.arange(31, -1, -1).reshape(SHAPE), 1), ("u2",)),
    "of the lane's number": (lambda a: a * np.arange(LANES, dtype="u4").reshape(SHAPE), ("u4",)),
    "zeros and ones": (lambda a: np.zeros_like(a) + np.ones_like(a, "u4") + np.full_like(a, 5) - a, ("u4",)),
    "a number": (lambda a: (a + 3) * 2 - 1, ("u4",)),
    "a double of singles": (lambda a: a * 1.5 + 2, ("f4",)),
    "in a type": (lambda a: np.add(a, a, dtype="u8"), ("u4",)),
    "wider": (lambda a, b: a.astype("u8") * b, ("u4", "u4")),
    "ranges": (lambda a: ((a & np.uint32(31)) << np.uint32(4) | np.uint32(3)).astype("u8") + np.uint64(1 << 40), ("u4",)),
}  # fmt: skip


SQUARES, CUBES = np.array([k * k - 5 for k in range(32)]), np.array([k**3 for k in range(32)])


def numbers(a):
    """Without NaNs, whose bits are decided elsewhere."""
    return np.where(np.isnan(a), a.dtype.type(0), a)


def whole(a):
    """Numbers that every type of integers holds, of both signs for none: what is out of range is not NumPy's to say."""
    return np.minimum(np.abs(np.where(np.isfinite(a), a, a.dtype.type(3))), a.dtype.type(100))


def everywhere(a, b):
    """Written through an ellipsis, and by a number."""
    a, c = a.copy(), a.copy()
    a[...] = b
    c[...] = 5
    return a - c


def shifted(a):
    """In place, from the right, and with an array of one element."""
    a = a.copy()
    a <<= np.uint32(3)
    a ^= np.array([5], np.uint32)
    return np.uint32(77) >> (a & np.uint32(7))


def in_place(a, b):
    """Written through a view, and through ``out``."""
    a = a.copy()
    view = a.view(f"u{a.dtype.itemsize}")
    view[...] = view ^ b.view(view.dtype)
    np.add(a, b, out=a)
    a += a.dtype.type(1)
    return a


def assigned(c, a):
    """Where a mask holds."""
    a = a.copy()
    a[c] = 9
    return a


def copied(c, a):
    """Where a mask holds, and everywhere."""
    a, b = a.copy(), a.copy()
    np.copyto(a, np.uint64(9), where=c)
    np.copyto(b, a + a)
    return b


STRIDED = {
    "sum": lambda a, b, s: a + b,
    "difference": lambda a, b, s: a - b,
    "sum with a scalar": lambda a, b, s: s - a,
    "product": lambda a, b, s: a * s,
    "product of two": lambda a, b, s: a * b,
    "shifted left": lambda a, b, s: (a << a.dtype.type(3)) + b,
    "shifted right": lambda a, b, s: a >> a.dtype.type(5),
    "shifted a little": lambda a, b, s: a >> a.dtype.type(4),
    "low bits": lambda a, b, s: a & a.dtype.type(31),
    "high bits": lambda a, b, s: a & a.dtype.type(0x7FFFFFE0),
    "bits between": lambda a, b, s: a & a.dtype.type(0x1F0),
    "one bit": lambda a, b, s: a & a.dtype.type(64),
    "or": lambda a, b, s: a | (s << a.dtype.type(16)),
    "or of a table's row": lambda a, b, s: (s << a.dtype.type(5)) | (a & a.dtype.type(31)),
    "narrow": lambda a, b, s: a.astype("u2") + np.uint16(5),
    "wide": lambda a, b, s: (a & a.dtype.type(31)).astype("u8") * 12,
    "wide by a doubt": lambda a, b, s: a.astype("u8") + 5,
    "signed by a doubt": lambda a, b, s: a.view("i4").astype("i8") * 3 if a.dtype.itemsize == 4 else a,
    "choice": lambda a, b, s: np.where(s > s.dtype.type(7), a, b) + a,
    "choice of lanes": lambda a, b, s: np.where(a > b, a, b),
    "as signed": lambda a, b, s: a.view(f"i{a.dtype.itemsize}") - 1,
    "compared": lambda a, b, s: a < b,
    "shifted left by what nobody knows": lambda a, b, s: a << (s & s.dtype.type(3)),
    "shifted out": lambda a, b, s: (
        (a << a.dtype.type(8 * a.dtype.itemsize)) + (a >> a.dtype.type(8 * a.dtype.itemsize))
    ),
    "shifted by lanes": lambda a, b, s: s << (a & a.dtype.type(7)),
    "nothing": lambda a, b, s: (a - a) + (b - b),
    "of one width": lambda a, b, s: a.astype(f"i{a.dtype.itemsize}") + 1,
    "low bits from the left": lambda a, b, s: a.dtype.type(31) & a,
    "a mask that nobody knows": lambda a, b, s: a & s,
    "or with a number": lambda a, b, s: (a << a.dtype.type(6)) | a.dtype.type(0x2A),
    "or of what overlaps": lambda a, b, s: a | a.dtype.type(0x7F),
    "or of two": lambda a, b, s: a | b,
    "product with a number": lambda a, b, s: a * a.dtype.type(12) + a * a.dtype.type(1) + a * a.dtype.type(0),
    "product from the left": lambda a, b, s: a.dtype.type(12) * a + s * b,
    "signed, shifted right": lambda a, b, s: (
        (a.view(f"i{a.dtype.itemsize}") - 900) >> a.dtype.type(5).astype(f"i{a.dtype.itemsize}")
    ),
    "narrow and wide again": lambda a, b, s: a.astype("u2").astype("u8") * 3,
    "narrow and signed": lambda a, b, s: (a - a.dtype.type(800)).astype("i2").astype("i4"),
    "a predicate": lambda a, b, s: (a & a.dtype.type(1)).astype("?"),
    "a number": lambda a, b, s: a.astype("f8") * 0.5,
    "choice of strides": lambda a, b, s: np.where(s == s.dtype.type(20), a, s),
    "choice by lanes": lambda a, b, s: np.where(a > a.dtype.type(750), b, s),
    "below a bound": lambda a, b, s: (a & a.dtype.type(63)) < s,
    "not below a bound": lambda a, b, s: s <= (a & a.dtype.type(31)),
    "at a number": lambda a, b, s: a == s + a.dtype.type(730),
    "not at a number": lambda a, b, s: a.dtype.type(745) != a,
    "below zero": lambda a, b, s: (a - a.dtype.type(745)).view(f"i{a.dtype.itemsize}") < 0,
    "bits of a row": lambda a, b, s: (a & a.dtype.type(31)) | (s << s.dtype.type(5)),
    "negative": lambda a, b, s: -a,
    "inverted": lambda a, b, s: ~a,
    "quotient": lambda a, b, s: a // s + a % s,
}
"""Of two values that lie in strides along the lanes, and one that all lanes share."""
KNOWN = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: b - a,
    "product": lambda a, b: a * b,
    "common bits": lambda a, b: a & b,
    "shifted": lambda a, b: (a << a.dtype.type(3)) + b,
    "wide": lambda a, b: a.astype("u8") - b,
    "signed and wide": lambda a, b: (b - a).view(f"i{a.dtype.itemsize}").astype("i8"),
    "narrow": lambda a, b: (b - a).astype("u2"),
    "shifted out": lambda a, b: (
        (a << a.dtype.type(8 * a.dtype.itemsize)) + (b - a >> a.dtype.type(8 * a.dtype.itemsize))
    ),
    "signed and shifted out": lambda a, b: (
        (b - a).view(f"i{a.dtype.itemsize}") >> a.dtype.type(8 * a.dtype.itemsize).astype(f"i{a.dtype.itemsize}")
    ),
    "either": lambda a, b: (a | b) + (a ^ b),
    "the lesser": lambda a, b: np.where(a < b, a, b) + np.minimum(a, b) * np.maximum(a, b),
    "compared": lambda a, b: (a > b) & (a != b),
}
"""Of two numbers that the code knows."""


class Writer:
    """One function, which stores the results of many graphs side by side; what goes in lies in rows of 32 elements of 8 bytes."""

    def __init__(self, row=LANES):
        self.code, self.given, self.wanted, self.refused, self.doubts = IRBuilder(), [], [], {}, 0
        self.code.row, self.code.speculate = row, self.speculate

    def add(self, name, function, arrays, inputs=None):
        """One graph of arrays, that come in as they are unless values are given."""
        with np.errstate(all="ignore"):
            expected = np.broadcast_to(np.asarray(function(*arrays)), SHAPE)
        lanes = [Lane(Node("input", (), a.dtype, k), SHAPE) for k, a in enumerate(arrays)]
        try:
            node = trace(function, *lanes).node
            value = Lowering(self.code, inputs or [self.read(a) for a in arrays])(node)
        except (Untraceable, Unlowerable) as problem:
            self.refused[name] = str(problem)
            return
        assert node.dtype == expected.dtype, name
        value = self.code.splat(value)
        if value.type == "i1":
            value = self.code.convert("zext", value, "i8")
        place = self.code.make(f"getelementptr i8, ptr %out, i64 {256 * len(self.wanted)}")
        self.code.line(f"store {self.code.of(value)}, ptr {place}, align 1")
        self.wanted.append((name, expected))

    def speculate(self, good):
        """The function goes on only where a condition holds."""
        self.doubts += 1
        on, bad = self.code.fresh("on"), self.code.fresh("bad")
        self.code.line(f"br i1 {good}, label %{on}, label %{bad}")
        self.code.label(bad)
        self.code.line("ret i32 7")
        self.code.label(on)

    def read(self, array):
        """An array's lanes, or the value that they share."""
        uniform = array.strides == (0, 0, 0)
        inner = memory(element(array.dtype))
        place = self.code.make(f"getelementptr i8, ptr %in, i64 {256 * len(self.given)}")
        self.given.append(array.tobytes().ljust(256, b"\0"))
        type = inner if uniform else f"<{LANES} x {inner}>"
        value = Val(inner, self.code.make(f"load {type}, ptr {place}, align 1"), uniform)
        return self.code.convert("trunc", value, "i1") if array.dtype.kind == "b" else value

    def strided(self, kind, first, strides, zeros=0):
        """Values along the lanes, as an array and as code that knows the strides below 5."""
        dtype = np.dtype(kind)
        row = self.code.row
        numbers = [first + strides[0] * (i % row) + strides[1] * (i // row) for i in range(LANES)]
        array = (
            np.array([n % (1 << 8 * dtype.itemsize) for n in numbers], np.uint64)
            .astype(f"u{dtype.itemsize}")
            .view(dtype)
            .reshape(SHAPE)
        )
        one = self.read(shared(np.array([first]).astype(dtype)))
        steps = [self.code.number(s, one.type) if s < 5 else self.read(shared(np.array([s], dtype))) for s in strides]
        return array, Val(one.type, one.text, uniform=False, strides=(steps[0], steps[1]), zeros=zeros)

    def call(self):
        """Compile and call: the status, and the graphs that gave something else than NumPy."""
        code, name = self.code, f"graphs_of_arrays_{next(NUMBERS)}"
        head = ["  %in = load ptr, ptr %all", "  %o = getelementptr ptr, ptr %all, i64 1", "  %out = load ptr, ptr %o"]
        head += ["  %t = getelementptr ptr, ptr %all, i64 2", "  %tables = load ptr, ptr %t"]
        lines = [
            *code.declared.values(),
            f"define i32 @{name}(ptr %all) {{",
            *head,
            *code.entry,
            *code.lines,
            "  ret i32 0",
            "}",
        ]
        given = np.frombuffer(b"".join(self.given), np.uint8).copy()
        out = np.zeros(256 * len(self.wanted), np.uint8)
        tables = np.array([t.ctypes.data for t in code.tables] or [0], np.uint64)
        whole = np.array([given.ctypes.data, out.ctypes.data, tables.ctypes.data], np.uint64)
        function = compiler().function("\n".join(lines), name, [n for n in code.declared if n.startswith("ws_")], 0)
        status = function(ctypes.c_void_p(whole.ctypes.data))
        found = []
        for k, (what, expected) in enumerate(self.wanted):
            raw = out[256 * k : 256 * k + LANES * expected.dtype.itemsize].view(expected.dtype).reshape(SHAPE)
            if not same(raw, expected).all():
                lane = int(np.flatnonzero(~same(raw, expected).reshape(-1))[0])
                found.append(f"{what}: lane {lane} has {raw.reshape(-1)[lane]}, not {expected.reshape(-1)[lane]}")
        return status, found


def same(found, expected):
    """Which lanes hold the same number; one NaN is as good as another."""
    if expected.dtype.kind != "f":
        return found == expected
    return ((found == expected) & (np.signbit(found) == np.signbit(expected))) | (np.isnan(found) & np.isnan(expected))


def shared(array, lane=0):
    """One lane's value in all lanes."""
    return np.broadcast_to(array.reshape(-1)[lane], SHAPE)


def checked(ways):
    """All graphs, with lanes of their own, or with values that all lanes share."""
    writer = Writer()
    for number, (name, (function, kinds)) in enumerate(GRAPHS.items()):
        for uniform in ways(number):
            arrays = [values(kind, 10 * number + k) for k, kind in enumerate(kinds)]
            writer.add(
                f"{name}{', shared' * uniform}",
                function,
                [shared(a, k) for k, a in enumerate(arrays, 3)] if uniform else arrays,
            )
    return writer


def test_every_operation():
    """With lanes of their own or with shared values, as it comes."""
    draw = random.Random(1)
    writer = checked(lambda number: [draw.random() < 0.5])

    assert writer.call() == (0, [])
    assert set(writer.refused.values()) <= REFUSED


REFUSED = {
    "a wide integer as f16", "bfloat16 as int32", "f64 as f16", "add of bf16", "a sum of floating-point lanes",
    "a vector of floating-point constants",
}  # fmt: skip
"""Whose machine code would be another number, or another order of additions; or that no body asks for."""


@pytest.mark.long
def test_every_operation_in_both_ways():
    """With lanes of their own and with shared values."""
    writer = checked(lambda number: (False, True))
    assert writer.call() == (0, [])
    assert set(writer.refused.values()) == REFUSED


UNTRACEABLE = {
    "a truth": (lambda a: 1 if a > 3 else 2, "a number is wanted"),
    "an integer": (lambda a: range(int(a)), "a number is wanted"),
    "a length": (lambda a: len(a), "a number is wanted"),
    "an element": (lambda a: list(a), "a number is wanted"),
    "an array": (lambda a: np.frombuffer(a.__array__(), "u1"), "an array is wanted"),
    "an index": (lambda a: a[3], "an index"),
    "several lanes": (lambda a: a[:, 3:7], "an index"),
    "a place": (lambda a: a.copy().__setitem__(3, 1), "an index"),
    "a mask of numbers": (lambda a: a.copy().__setitem__(a, 1), "an index"),
    "two results": (lambda a: np.divmod(a, a), "divmod"),
    "a running sum": (lambda a: np.add.accumulate(a), "add.accumulate"),
    "an outer product": (lambda a: np.multiply.outer(a, a), "multiply.outer"),
    "a function of arrays": (lambda a: np.sort(a), "np.sort"),
    "another width": (lambda a: a.view("u2"), "a view of uint32 as uint16"),
    "another axis": (lambda a: a.max(axis=0), "a reduction along axis 0"),
    "lanes of another axis": (lambda a: np.take_along_axis(a, a, 0), "take"),
    "objects": (lambda a: a + np.array([None, 1]), "object"),
    "an array of another shape": (lambda a: a + np.arange(5, dtype="u4"), "a constant array of shape (5,)"),
    "types that do not go together": (lambda a: np.bitwise_and(a, 1.5), "bitwise_and"),
    "a fault of its own": (lambda a: a.nothing, "AttributeError"),
}
"""What bodies may do with arrays of which no graph can be made, and what is said of it."""


@pytest.mark.parametrize("name", UNTRACEABLE)
def test_what_is_no_graph(name):
    """It is left to the interpreter, by a name."""
    function, said = UNTRACEABLE[name]
    with pytest.raises(Untraceable) as refused:
        trace(function, Lane(Node("input", (), np.dtype("u4"), 0), SHAPE))
    assert said in str(refused.value)


def test_lanes_that_lie_otherwise():
    """A reduction needs the lanes of one warp."""
    for shape in ((2,), (1, 16, 1), (2, LANES, 1)):
        lane = Lane(Node("input", (), np.dtype("u4"), 0), shape)
        with pytest.raises(Untraceable, match="along axis 1"):
            trace(lambda a: a.max(axis=1), lane)
        with pytest.raises(Untraceable, match="an index"):
            trace(lambda a: a[:, 5:6], lane)


def test_a_number_of_all_lanes():
    """Nobody knows it: what is asked of it holds, so that the way is taken on which nothing is assumed."""
    lane = Lane(Node("input", (), np.dtype("f4"), 0), SHAPE)
    for ask in (
        lambda a: a.min() > 0,
        lambda a: np.isnan(np.minimum.reduce(a, axis=None)),
        lambda a: np.minimum(a, a.max()),
        lambda a: a.min() != a,
        lambda a: bool(a.max()),
        lambda a: a.max() > 3,
    ):
        assert trace(ask, lane) is True
    assert trace(lambda a: (a.any(), a.all()), lane) == (True, False)


def test_what_numpy_lacks_is_asked_of_the_operands():
    """fma, quotients and tables are operations of a graph where a stand-in is among the operands, and of arrays elsewhere."""
    lane, ones = Lane(Node("input", (), np.dtype("f4"), 0), SHAPE), np.ones(3, np.float32)
    seen = []

    def body(a):
        seen.append(floating.fma32(ones, ones, ones).tolist())
        return lookup(SQUARES, floating.fma32(ones, a, ones).astype("i8"))

    assert {"fma", "table"} <= {node.op for node in nodes(trace(body, lane).node)}
    assert seen == [[2.0] * 3]
    with pytest.raises(Untraceable):
        trace(lambda a: a.nothing, None)


def nodes(node):
    """A graph's."""
    yield node
    for argument in node.args:
        yield from nodes(argument)


@pytest.mark.parametrize(("kind", "row"), [("u4", 32), ("u8", 8)])
def test_strides(kind, row):
    """Sums, products and parts of what lies in strides along the lanes, where none wraps round."""
    writer = Writer(row)
    ways = [(736, (1, 0), 5), (736, (1, 0), 0), (96, (4, 1), 0), (5000, (3, 1000), 0)]
    for first, strides, zeros in ways if kind == "u4" else ways[1:3]:
        for name, function in STRIDED.items():
            a, b, scalar = (
                writer.strided(kind, first, strides, zeros),
                writer.strided(kind, 77, (2, 9)),
                shared(np.array([20], kind)),
            )
            writer.add(f"{name} {first} {strides}", function, [a[0], b[0], scalar], (a[1], b[1], writer.read(scalar)))
    numbers = [writer.code.number(n, element(np.dtype(kind))) for n in (20, 7)]
    for name, function in KNOWN.items():
        writer.add(name, function, [shared(np.array([n], kind)) for n in (20, 7)], numbers)

    assert writer.call() == (0, [])
    assert writer.doubts > 0


WRAPS = {
    "upwards": ("u4", (1 << 32) - 5, (1, 0), "u8"),
    "upwards, signed": ("i4", (1 << 31) - 5, (1, 0), "i8"),
    "downwards": ("u4", 5, ((1 << 32) - 1, 0), "u8"),
    "downwards, signed": ("i4", -(1 << 31) + 5, (-1, 0), "i8"),
    "from row to row": ("u4", (1 << 32) - 20, (0, 12), "u8"),
}


@pytest.mark.parametrize("name", WRAPS)
def test_what_wraps_round(name):
    """Where lanes wrap round before they are widened, the code says that its strides do not hold."""
    kind, first, strides, target = WRAPS[name]
    statuses = []
    for near in (0, 1):
        writer = Writer(8)
        at = first if near else 0 if "down" not in name or "signed" in name else 400
        array, value = writer.strided(kind, at, strides)
        writer.add(name, lambda a: a.astype(target), [array], [value])
        assert writer.doubts == 1
        statuses.append(writer.call()[0])

    assert statuses == [0, 7]

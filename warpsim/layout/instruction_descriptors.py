"""Instruction descriptors of tcgen05.mma: shapes, types and options of a product (PTX ISA: Instruction descriptor)."""

from __future__ import annotations

import functools

from warpsim.records import frozen

NARROW = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
ELEMENTS: dict[str, dict[int, str]] = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": NARROW,
    "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": NARROW,
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
"""By kind: the types of A and B, by the fields' values."""
RESULTS: dict[str, dict[int, str]] = {
    "f16": {0: "f16", 1: "f32"},
    "tf32": {1: "f32"},
    "f8f6f4": {0: "f16", 1: "f32"},
    "i8": {2: "s32"},
}
"""The types of D; the scaled kinds have f32."""
DEPTHS = {"tf32": 8, "f16": 16, "mxf4": 64, "mxf4nvf4": 64}
"""K of dense products; 32 for other kinds, twice as much for sparse ones."""
FOUR = frozenset(("mxf4", "mxf4nvf4"))
"""Kinds whose elements are packed in halves of bytes."""
SCALED = FOUR | {"mxf8f6f4"}
WHOLE_BYTES = frozenset(("e4m3", "e5m2", "s8", "u8"))


@frozen
class Product:
    """What a descriptor says; ``a``, ``b`` and ``d`` are types, ``scale`` that of block scales ("" without), and ``cta_group``
    how many CTAs hold the matrices."""

    kind: str
    sparse: bool
    weights: bool
    cta_group: int
    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    scale: str
    saturate: bool
    negate_a: bool
    negate_b: bool
    transpose_a: bool
    transpose_b: bool
    selector: int
    scale_a_id: int
    scale_b_id: int
    shift: int

    @property
    def bits_a(self) -> int:
        """Bits of an element of A in shared memory, counting the padding of 6-bit and 4-bit types."""
        return _bits(self.kind, self.a)

    @property
    def bits_b(self) -> int:
        """The same for B."""
        return _bits(self.kind, self.b)

    @property
    def stored(self) -> int:
        """Elements of A stored in a row."""
        return self.k // 2 if self.sparse else self.k


def _bits(kind: str, element: str) -> int:
    if kind in FOUR:
        return 4
    return {"tf32": 32, "f16": 16, "bf16": 16}.get(element, 8)


def _field(bits: int, low: int, width: int) -> int:
    return bits >> low & (1 << width) - 1


@functools.lru_cache(1024)
def decode(bits: int, kind: str, *, weights: bool, cta_group: int) -> Product | str:
    """The product that a descriptor asks of an instruction: of a ``kind``, weight-stationary (``.ws``), of one CTA or a pair;
    or why there is none."""
    for what, low, width in _reserved(kind):
        if _field(bits, low, width):
            return f"{what} must be 0 for .kind::{kind}, not {_field(bits, low, width)}"
    names = ELEMENTS[kind]
    a, b = (names.get(_field(bits, low, 3)) for low in (7, 10))
    if a is None or b is None:
        name, low = ("A", 7) if a is None else ("B", 10)
        return f"{_field(bits, low, 3)} is no type of {name} for .kind::{kind}"
    sparse, scaled = bool(_field(bits, 2, 1)), kind in SCALED
    d = "f32" if scaled else RESULTS[kind].get(_field(bits, 4, 2))
    if d is None:
        return f"{_field(bits, 4, 2)} is no type of D for .kind::{kind}"
    if "bf16" in (a, b) and d == "f16":
        return "D is f32 if A or B is bf16"
    ue8m0 = bool(_field(bits, 23, 1))
    if scaled and not ue8m0 and kind != "mxf4nvf4":
        return f"scales of .kind::{kind} are ue8m0: bit 23 must be 1"
    wide = kind in FOUR and bool(_field(bits, 31, 1))
    if wide and sparse:
        return "K = 96 is for dense A"
    k = 96 if wide else DEPTHS.get(kind, 32) * (2 if sparse else 1)
    found = Product(
        kind,
        sparse,
        weights,
        cta_group,
        _field(bits, 27, 2) * 128 if scaled else _field(bits, 24, 5) * 16,
        _field(bits, 17, 6) * 8,
        k,
        a,
        b,
        d,
        ("ue8m0" if ue8m0 else "ue4m3") if scaled else "",
        bool(_field(bits, 3, 1)),
        bool(_field(bits, 13, 1)),
        bool(_field(bits, 14, 1)),
        bool(_field(bits, 15, 1)),
        bool(_field(bits, 16, 1)),
        0 if scaled or not sparse else _field(bits, 0, 2),
        _field(bits, 29, 2) if scaled else 0,
        _field(bits, 4, 2) if scaled else 0,
        0 if scaled else (0, 8, 16, 32)[_field(bits, 30, 2)],
    )
    return _problem(found, bits) or found


def _reserved(kind: str) -> list[tuple[str, int, int]]:
    """Fields that must be zero: what, the lowest bit, the number of bits."""
    if kind in SCALED:
        found = [("bits 0 and 1", 0, 2), ("bit 3", 3, 1), ("bit 6", 6, 1), ("bits 24 to 26", 24, 3)]
        if kind == "mxf8f6f4":
            return [*found, ("bit 31", 31, 1)]
        return [*found, ("the transposition of A", 15, 1), ("the transposition of B", 16, 1)]
    found = [("bit 6", 6, 1), ("bit 23", 23, 1), ("bit 29", 29, 1)]
    if kind == "i8":
        return [*found, ("the negation of A", 13, 1), ("the negation of B", 14, 1)]
    return [*found, ("saturation", 3, 1)]


def _problem(p: Product, bits: int) -> str | None:
    """Why the fields contradict each other."""
    if not p.sparse and p.kind not in SCALED and _field(bits, 0, 2):
        return "the sparsity selector must be 0 for dense A"
    if p.sparse and p.kind in ("i8", "f8f6f4") and p.selector:
        return f"the sparsity selector must be 0 for .kind::{p.kind}"
    if p.shift and not p.weights:
        return "the maximum shift of B is for .ws"
    if p.shift == 32 and p.m == 32:
        return "the maximum shift of B is 16 for M = 32"
    if p.m not in _rows(p):
        return f"M is {' or '.join(map(str, _rows(p)))} here, not {p.m}"
    if not _columns(p):
        return f"N = {p.n} is not possible for .kind::{p.kind}, M = {p.m}"
    for name, transposed, element in (("A", p.transpose_a, p.a), ("B", p.transpose_b, p.b)):
        if transposed and p.kind in ("f8f6f4", "mxf8f6f4", "i8") and element not in WHOLE_BYTES:
            return f"{name} of {element} cannot be transposed"
    step = 16 * p.cta_group
    if p.transpose_b and p.bits_b == 8 and p.n % step:
        return f"N of a transposed 8-bit B is a multiple of {step}, not {p.n}"
    return None


def _rows(p: Product) -> tuple[int, ...]:
    if p.weights:
        return 32, 64, 128
    if p.cta_group == 1:
        return (128,) if p.kind in SCALED else (64, 128)
    return (256,) if p.kind in SCALED and p.sparse else (128, 256)


def _columns(p: Product) -> bool:
    """Whether N fits the kind."""
    if p.weights:
        return p.n in ((64, 128) if p.sparse else (64, 128, 256))
    if not 0 < p.n <= 256:
        return False
    if p.kind == "i8":
        return p.n % 32 == 0 if p.cta_group == 2 else p.n <= 32 or p.n % 16 == 0
    return p.n % (8 * p.cta_group) == 0


def zero_columns(bits: int, m: int, n: int) -> list[bool]:
    """The columns of B that count as zero, by a zero-column mask descriptor (PTX ISA: Zero-Column Mask Descriptor).

    Runs of columns that are zero (the skip span) and that are used alternate. The text's names of the two spans are
    exchanged against its examples, which are followed here.
    """
    if not _field(bits, 39, 1):
        return [False] * n
    parts = 128 // m
    zero, used = _field(bits, 40, 8) + 1, _field(bits, 48, 8) + 1
    found: list[bool] = []
    for part in range(parts):
        start = _field(bits, 8 * part, 8)
        first = _field(bits, 32 + part, 1)
        for column in range(start, start + n // parts):
            place = column % (zero + used)
            found.append(place < zero if first else place >= used)
    return found


def encode(
    kind: str,
    m: int,
    n: int,
    a: str,
    b: str,
    d: str = "f32",
    *,
    scale: str = "ue8m0",
    sparse: bool = False,
    transpose_a: bool = False,
    transpose_b: bool = False,
    negate_a: bool = False,
    negate_b: bool = False,
    saturate: bool = False,
) -> int:
    """Encode a descriptor with selectors, identifiers and shifts of 0."""
    codes = {name: code for code, name in ELEMENTS[kind].items()}
    found = sparse << 2 | codes[a] << 7 | codes[b] << 10 | negate_a << 13 | negate_b << 14
    found |= transpose_a << 15 | transpose_b << 16 | n >> 3 << 17
    if kind in SCALED:
        return found | (scale == "ue8m0") << 23 | m >> 7 << 27
    results = {name: code for code, name in RESULTS[kind].items()}
    return found | saturate << 3 | results[d] << 4 | m >> 4 << 24

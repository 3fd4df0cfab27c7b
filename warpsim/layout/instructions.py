"""Finds an instruction's fragments from its spelling, in full or abbreviated as ``mma.m16n8k16...f16``.

Raises `ValueError` for anything but a matrix instruction; the message says what was expected.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import attrs

from warpsim.layout import fragments, tensor_fragments, tensor_memory, wmma_fragments
from warpsim.layout.drawing import Drawing, part
from warpsim.layout.fragment import Fragment, Holder
from warpsim.layout.tensor_tiles import layout_name
from warpsim.layout.wmma_fragments import ACCUMULATOR_BITS as ACCUMULATORS
from warpsim.layout.wmma_fragments import SHAPES, USUAL
from warpsim.records import frozen

BITS = {
    **wmma_fragments.BITS,
    **dict.fromkeys(("e4m3", "e5m2", "e3m2", "e2m3"), 8),
    "e2m1": 4,
}
"""Bits of a multiplicand in its register. Six-bit types occupy a byte, as do four-bit types under .kind::f8f6f4."""
INTEGERS = frozenset(("s8", "u8", "s4", "u4", "b1"))
_SHAPE = re.compile(r"m(\d+)n(\d+)(?:k(\d+))?")
_SCALES = ("ue8m0", "ue4m3")


@frozen(eq=False)
class Operand:
    """A matrix operand: its fragment, the names of its rows and columns, and whether it is shown transposed.

    ``name`` is the letter of its registers, which count from ``first``. ``swapped`` is for B, whose fragment has n as
    rows and k as columns.
    """

    name: str
    fragment: Fragment
    axes: tuple[str, str]
    swapped: bool = False
    note: str = ""
    first: int = 0

    def holders(self) -> list[list[list[Holder]]]:
        """All holders of each element, by row and column as shown."""
        return self.fragment.holders(self.first, swapped=self.swapped)

    def formula(self) -> str:
        """The layout in CuTe's notation, and what its values mean."""
        row, column = self.axes[::-1] if self.swapped else self.axes
        return self.fragment.formula((row, column))

    def drawing(self, title: str = "") -> Drawing:
        """Draw a cell per element, coloured by lane, with lane, register and part."""
        notes = (self.note,) if self.note else ()
        return self.fragment.drawing(
            self.name, title or self.name.upper(), self.axes, self.first, notes, swapped=self.swapped
        )

    def _repr_html_(self) -> str:
        return part(self.drawing())


def operands(text: str, sm: int = 90) -> dict[str, Operand]:
    """The register operands of a matrix instruction, by name, for a GPU (capability times ten)."""
    root, words = split(text)
    makers = {
        **{"mma": _mma, "wmma": _wmma, "wgmma": _wgmma, "tcgen05": _tcgen05},
        **dict.fromkeys(("ldmatrix", "stmatrix", "movmatrix"), _moved),
    }
    if root not in makers:
        raise ValueError(f"{root or text!r} is not a matrix instruction; choose from " + ", ".join(makers))
    return makers[root](root, words, sm)


def split(text: str) -> tuple[str, list[str]]:
    """Split a spelling into root and modifiers, ignoring anything after a blank."""
    first = (text.replace(";", " ").split() or [""])[0]
    root, *words = [word for word in first.split(".") if word] or [""]
    return root, words


def _shape(root: str, words: list[str], example: str) -> tuple[str, int, int, int]:
    found = next((word for word in words if _SHAPE.fullmatch(word)), None)
    match = _SHAPE.fullmatch(found or "")
    if found is None or match is None:
        raise ValueError(f"{root} needs a shape, for example .{example}")
    return found, int(match[1]), int(match[2]), int(match[3] or 0)


def types(root: str, words: list[str]) -> tuple[str, str, str, str]:
    """Types of d, a, b and c, with defaults for what the spelling leaves out."""
    known = [word for word in words if (word in BITS or word in ACCUMULATORS) and word not in _SCALES]
    if len(known) == 4:
        d, a, b, c = known
    elif len(known) == 3:
        d, a, b, c = (*known, known[0])
    else:
        both = [word for word in known if word in BITS]
        if root == "wmma" and len(known) == 2:
            d, a, b, c = known[0], "f16", "f16", known[1]
        elif not both:
            raise ValueError(f"{root} needs the type of its elements, one of " + ", ".join(f".{t}" for t in BITS))
        else:
            a, b = both[0], both[-1]
            d = c = "f64" if a == "f64" else "s32" if a in INTEGERS else "f32"
    for name in (a, b):
        _check_type(name, "A or B", BITS)
    for name in (d, c):
        _check_type(name, "C or D", ACCUMULATORS)
    return d, a, b, c


def _check_type(name: str, what: str, types: Collection[str]) -> None:
    if name not in types:
        raise ValueError(f".{name} is not a type of {what}; choose from " + ", ".join(f".{t}" for t in types))


def _depths(m: int, type: str, bits: int, *, sparse: bool) -> list[int]:
    """Every k of mma with this number of rows."""
    if sparse and type in ("f64", "b1"):
        return []
    if type == "f64":
        return [4, 8, 16] if m == 16 else [4]
    if m == 8:
        return [4] if type == "f16" else [128 // bits] if type in INTEGERS else []
    row = [128 // bits, 256 // bits]
    if type in ("e3m2", "e2m3", "e2m1") or (sparse and type in ("e4m3", "e5m2")):
        row = row[1:]
    return [2 * k for k in row] if sparse else row


def _mma(root: str, words: list[str], sm: int) -> dict[str, Operand]:
    shape, m, n, k = _shape(root, words, "m16n8k16")
    d, a, b, c = types(root, words)
    sparse = words[0] in ("sp", "sp::ordered_metadata")
    four = "kind::mxf4" in words or "kind::mxf4nvf4" in words or (a == b == "e2m1" and k >= 64 * (1 + sparse))
    bits_a, bits_b = (8 if t == "e2m1" and not four else BITS[t] for t in (a, b))
    depths = _depths(m, a, bits_a, sparse=sparse)
    if n != 8 or m not in (8, 16) or k not in depths or (sparse and m == 8):
        legal = [f".m{x}n8k{y}" for x in ((16,) if sparse else (8, 16)) for y in _depths(x, a, bits_a, sparse=sparse)]
        choice = f"; choose from {', '.join(legal)}" if legal else ""
        raise ValueError(f"no mma{'.sp' if sparse else ''} of .{a} has the shape .{shape}{choice}")
    if shape == "m8n8k4" and a == "f16":
        return _quad_pairs(words, d, c)
    stored = k // 2 if sparse else k
    found = {"a": Operand("a", fragments.multiplicand(m, stored, bits_a), ("m", "k"))}
    if sparse:
        pairs = bits_a == 4
        chunks = k // 8 if pairs else k // 2 if bits_a == 32 else k // 4
        selectors = max(4 // (chunks // 4), 1)
        found["e"] = Operand(
            "e",
            fragments.metadata(chunks, 0, floats=bits_a >= 16),
            ("m", "chunk"),
            note="two 2-bit indices for each chunk of k"
            + (f"; shown for selector 0 of 0 to {selectors - 1}" if selectors > 1 else ""),
        )
        found["a"] = attrs.evolve(found["a"], axes=("m", "stored k"))
    found["b"] = Operand("b", fragments.multiplicand(8, k, bits_b), ("k", "n"), swapped=True)
    if "block_scale" in words:
        size = next((word[-2] for word in words if word.startswith("scale_vec::")), "2" if four else "1")
        for name in "ab":
            axes = ("m", "chunk") if name == "a" else ("chunk", "n")
            scale = fragments.scales(name, int(size))
            found[f"scale_{name}"] = Operand("s" + name, scale, axes, name == "b", "for byte-id and thread-id 0")
    found["c"] = Operand("c", fragments.accumulator(m, n, ACCUMULATORS[c]), ("m", "n"))
    found["d"] = Operand("d", fragments.accumulator(m, n, ACCUMULATORS[d]), ("m", "n"))
    return found


def _quad_pairs(words: list[str], d: str, c: str) -> dict[str, Operand]:
    layouts = [word for word in words if word in ("row", "col")] or ["row", "col"]
    note = "four matrices side by side, one for each pair of quads (lanes 4q to 4q + 3 and 16 more)"
    return {
        "a": Operand("a", fragments.quad_pair("a", 16, by_rows=layouts[0] == "row"), ("m", "k"), note=note),
        "b": Operand(
            "b", fragments.quad_pair("b", 16, by_rows=layouts[-1] == "col"), ("k", "n"), swapped=True, note=note
        ),
        "c": Operand("c", fragments.quad_pair("c", ACCUMULATORS[c], by_rows=False), ("m", "n"), note=note),
        "d": Operand("d", fragments.quad_pair("c", ACCUMULATORS[d], by_rows=False), ("m", "n"), note=note),
    }


def _wmma(root: str, words: list[str], sm: int) -> dict[str, Operand]:
    shape, *_ = _shape(root, words, "m16n16k16")
    if words[0] in ("load", "store") and words[1] in "abcd":
        wanted = words[1]
        held = [word for word in words if word in BITS or word in ACCUMULATORS] or ["f16"]
        d = a = b = c = held[0]
        if wanted in "cd":
            _check_type(d, "C or D", ACCUMULATORS)
    else:
        wanted = "abcd"
        d, a, b, c = types(root, words)
    if wanted not in ("c", "d"):
        if shape not in SHAPES.get(a, ()):
            legal = ", ".join(SHAPES.get(a, USUAL))
            raise ValueError(f"no wmma of .{a} has the shape .{shape}; choose from {legal}")
    elif shape not in {shape for shapes in SHAPES.values() for shape in shapes}:
        raise ValueError(f".{shape} is not a shape of wmma")
    layouts = [word for word in words if word in ("row", "col")]
    by_row = not layouts or layouts[0] == "row"
    by_col = (layouts[0] if wanted == "b" and layouts else layouts[-1] if len(layouts) > 1 else "col") == "col"
    note = "the text leaves wmma's fragments open: " + (
        "as observed on a V100" if wmma_fragments.is_older(sm, shape) else "as an H100 holds them"
    )
    found = {}
    if "a" in wanted:
        found["a"] = Operand("a", wmma_fragments.multiplicand("a", shape, a, sm, along_k=by_row), ("m", "k"), note=note)
    if "b" in wanted:
        held_b = wmma_fragments.multiplicand("b", shape, b, sm, along_k=by_col)
        found["b"] = Operand("b", held_b, ("k", "n"), swapped=True, note=note)
    for name, type in (("c", c), ("d", d)):
        if name in wanted:
            found[name] = Operand(name, wmma_fragments.accumulator(shape, type, sm), ("m", "n"), note=note)
    return found


def _wgmma(root: str, words: list[str], sm: int) -> dict[str, Operand]:
    shape, m, n, k = _shape(root, words, "m64n64k16")
    d, a, _, _ = types(root, words)
    sparse = "sp" in words
    if m != 64 or not 8 <= n <= 256 or n % 8 or k * BITS[a] != 256 * (1 + sparse):
        raise ValueError(
            f"no wgmma of .{a} has the shape .{shape}: it is .m64nNk{256 * (1 + sparse) // BITS[a]}, N from 8 to 256"
        )
    whole = "lanes count through the warpgroup"
    held_a = fragments.warpgroup_multiplicand(BITS[a])
    found = {"a": Operand("a", held_a, ("m", "stored k" if sparse else "k"), note=f"A in registers; {whole}")}
    if sparse:
        chunks = k // (2 if BITS[a] == 32 else 4)
        held_e = fragments.metadata(chunks, 0, 64, floats=BITS[a] >= 16)
        selectors = "; shown for selector 0 of 0 to 1" if BITS[a] >= 16 else ""
        note = f"two 2-bit indices for each chunk of k; {whole}{selectors}"
        found["e"] = Operand("e", held_e, ("m", "chunk"), note=note)
    found["d"] = Operand("d", fragments.accumulator(64, n, ACCUMULATORS[d]), ("m", "n"), note=whole)
    return found


def _tcgen05(root: str, words: list[str], sm: int) -> dict[str, Operand]:
    """tcgen05.ld and .st, and .mma, with M and N, and what else its instruction descriptor says, among the modifiers: ``.m128n64.f32.f16.f16``."""
    if {"ld", "st"} & set(words):
        return _tensor_memory(words)
    p = tensor_fragments.product_of(words if words[:1] == ["mma"] else [])
    whole = "lanes and columns of tensor memory" + (", lanes of the odd CTA from 128 on" if p.cta_group == 2 else "")
    found = {"d": Operand("d", tensor_fragments.accumulator(p), ("m", "n"), note=f"layout {layout_name(p)}; {whole}")}
    axes = ("m", "stored k" if p.sparse else "k")
    found["a"] = Operand("a", tensor_fragments.multiplicand(p), axes, note=f"A in tensor memory; {whole}")
    if p.sparse:
        note = f"two 2-bit indices for each chunk of k; {whole}"
        found["metadata"] = Operand("e", tensor_fragments.metadata(p), ("m", "chunk"), note=note)
    if p.scale:
        size = tensor_fragments.vector_size(p, words)
        note = "identifier 0; the same in the other three partitions of 32 lanes"
        rows = p.m // p.cta_group
        found["scale_a"] = Operand("sa", tensor_fragments.scales(rows, size), ("m", "chunk"), note=note)
        found["scale_b"] = Operand("sb", tensor_fragments.scales(p.n, size), ("chunk", "n"), swapped=True, note=note)
    return found


def _moved(root: str, words: list[str], sm: int) -> dict[str, Operand]:
    shape = next((word for word in words if _SHAPE.fullmatch(word)), "m8n8")
    legal = {"ldmatrix": ("m8n8", "m16n16", "m8n16"), "stmatrix": ("m8n8", "m16n8"), "movmatrix": ("m8n8",)}[root]
    if shape not in legal:
        raise ValueError(f".{shape} is not a shape of {root}; choose from " + ", ".join(f".{s}" for s in legal))
    if root == "movmatrix":
        return {
            "a": Operand("a", fragments.moved(shape, transposed=False), ("row", "column")),
            "d": Operand(
                "d", fragments.moved(shape, transposed=True), ("row", "column"), note="rows and columns of the source"
            ),
        }
    lanes = 16 if shape == "m16n16" else 8
    note = f"rows are those whose addresses lanes {lanes}i to {lanes}i + {lanes - 1} give for matrix i, whose registers follow one another"
    return {"r": Operand("r", fragments.moved(shape, transposed="trans" in words), ("row", "column"), note=note)}


def _tensor_memory(words: list[str]) -> dict[str, Operand]:
    """The registers of tcgen05.ld and .st as cells of tensor memory."""
    shape = next((word for word in words if word in tensor_memory.SHAPES), None)
    num = next((word for word in words if re.fullmatch(r"x\d+", word)), "x1")
    if shape is None:
        legal = ", ".join(f".{each}" for each in tensor_memory.SHAPES)
        raise ValueError(
            f"tcgen05.ld and .st need a shape, one of {legal}, and a number such as .x4; tcgen05.mma a kind"
        )
    count = int(num[1:])
    if count not in (1, 2, 4, 8, 16, 32, 64, 128) or tensor_memory.registers(shape, count) > 128:
        raise ValueError(f".{num} repeats .{shape} no legal number of times")
    packed = "pack::16b" in words or "unpack::16b" in words
    note = "rows are lanes of tensor memory, from that of the address on"
    if shape == "16x32bx2":
        note = "rows 0 to 15 are lanes from that of the address on, rows 16 to 31 the same lanes, behind the offset"
    if packed:
        note += "; an element is the low half of a cell"
    return {"r": Operand("r", tensor_memory.fragment_of(shape, count, packed=packed), ("lane", "column"), note=note)}

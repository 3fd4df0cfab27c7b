"""What is tried of the matrix instructions: one kernel for each form, with the operands of every case.

A kernel runs one CTA a case. It loads its registers, and where the form reads memory its image (to shared memory, or from
where it lies), runs the one instruction, and stores what that wrote.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import matrix_operands as operands
import numpy as np
from matrix_operands import BITS, CASES, CATEGORIES, EACH, Draw

FORMS = Path(__file__).parents[1] / "data" / "mma_h100.npz"
FILL = 0xA5A5A5A5
"""What is in memory before an instruction stores to it."""
SMEM = 48 << 10


@attrs.define
class Trial:
    """A form: its kernel, the inputs ``[cases, ...]`` by parameter, and the output as it is before the launch."""

    name: str
    text: str
    inputs: dict[str, np.ndarray]
    output: np.ndarray
    threads: int
    family: str

    @property
    def arrays(self) -> list[np.ndarray]:
        """Arguments of a launch."""
        return [*self.inputs.values(), self.output.copy()]


def stacked(name: str, kinds: tuple[str, str, str], shapes: tuple) -> list[np.ndarray]:
    """A, B and C ``[cases, ...]`` of all categories."""
    parts = [operands.triple(name, category, kinds, shapes) for category in CATEGORIES]
    return [np.concatenate([part[i] for part in parts]) for i in range(3)]


def kernel(
    body: str, inputs: dict[str, np.ndarray], output: np.ndarray, threads: int, *, image: int = 0, shared: int = 0
) -> str:
    """Text around an instruction.

    Inputs ``[cases, threads, n]`` come in registers ``name0``, ... (``.b32``; ``.f64`` for 8 bytes), inputs ``[cases, n]`` in
    64-bit ones that all threads share; ``image`` bytes of a case lie at ``img``, and in shared memory at ``sm`` where
    ``shared``. The output ``[cases, threads, n]`` is what registers ``d0``, ... hold; of ``[cases, n]``, memory at ``out``.
    """
    lines = [f".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k({parameters([*inputs, 'd'])}) {{"]
    if shared:
        lines.append(f".shared .align 1024 .b8 smem[{shared}];")
    lines.append(".reg .b32 t, n, g, sm, i, x; .reg .b64 q, w, img, out; .reg .pred p;")
    lines.append(f"mov.u32 t, %tid.x; mov.u32 n, %ctaid.x; mad.lo.u32 g, n, {threads}, t;")
    for name, array in inputs.items():
        count, width = array.shape[-1], array.itemsize
        lines.append(f"ld.param.u64 q, [p_{name}]; mul.wide.u32 w, {'g' if array.ndim == 3 else 'n'}, {count * width};")
        lines.append("add.u64 q, q, w;")
        if name == "img":
            lines.append("mov.b64 img, q;")
            continue
        kind = "f64" if width == 8 and array.ndim == 3 else f"b{8 * width}"
        lines.append(f".reg .{kind} {name}<{count}>;")
        lines += [f"ld.global.{kind} {name}{i}, [q+{i * width}];" for i in range(count)]
    count, width = output.shape[-1], output.itemsize
    lines.append(f"ld.param.u64 out, [p_d]; mul.wide.u32 w, {'g' if output.ndim == 3 else 'n'}, {count * width};")
    lines.append("add.u64 out, out, w;")
    kind = "f64" if width == 8 else "b32"
    if output.ndim == 3:
        lines.append(f".reg .{kind} d<{count}>;")
    if shared:
        lines.append("mov.u32 sm, smem;")
        if image:
            lines.append(copied(image, threads, "IN", "ld.global.b32 x, [w];", "st.shared.b32 [i], x;", "img"))
        lines.append("fence.proxy.async.shared::cta; bar.sync 0;")
    lines.append(body)
    if output.ndim == 3:
        lines += [f"st.global.{kind} [out+{i * width}], d{i};" for i in range(count)]
    elif shared:
        lines.append("bar.sync 0;")
        lines.append(copied(count * width, threads, "OUT", "ld.shared.b32 x, [i];", "st.global.b32 [w], x;", "out"))
    return "\n".join([*lines, "ret; }"])


def parameters(names: list[str]) -> str:
    """Of the kernel."""
    return ", ".join(f".param .u64 p_{name}" for name in names)


def copied(nbytes: int, threads: int, label: str, load: str, store: str, place: str) -> str:
    """A loop over words that all threads share."""
    return (
        f"shl.b32 i, t, 2; {label}: setp.ge.u32 p, i, {nbytes}; @p bra {label}_DONE; cvt.u64.u32 w, i; add.u64 w, {place}, w;"
        f" add.u32 i, i, sm; {load} {store} sub.u32 i, i, sm; add.u32 i, i, {4 * threads}; bra {label}; {label}_DONE:"
    )


def vector(name: str, count: int) -> str:
    """Registers in braces."""
    return "{" + ", ".join(f"{name}{i}" for i in range(count)) + "}"


# ---- registers only ------------------------------------------------------------------------------


def metadata(draw: Draw, pairs: bool, ordered: bool, shape: tuple[int, ...]) -> np.ndarray:
    """Valid words in every lane: nibbles of 32-bit elements (not ``pairs``), or two indices, increasing where ``ordered``."""
    nibbles = [low | high << 2 for low in range(4) for high in range(4) if low < high or (low > high and not ordered)]
    chosen = draw.pick(np.array(nibbles if pairs else [0b1110, 0b0100], np.uint64), *shape, 8)
    return sum(chosen[..., i] << np.uint64(4 * i) for i in range(8)).astype(np.uint32)


def register_kernel(name: str, inputs: dict[str, np.ndarray], output: np.ndarray) -> str:
    """A form written as ``opcode d, a, b, c, e, 0;``, its operands replaced by registers."""
    opcode, _, rest = name.split(" #")[0].partition(" ")
    for letter, array in {**inputs, "d": output}.items():
        found = "e0" if letter == "e" else vector(letter, array.shape[2])
        rest = re.sub(rf"\b{letter}\b(?=[,;])", found, rest, count=1)
    return kernel(f"{opcode} {rest}", inputs, output, 32)


def register_trials() -> Iterator[Trial]:
    """mma and mma.sp."""
    with np.load(FORMS) as stored:
        data = {key: stored[key].shape for key in stored.files if key != "names"}
        numbers = {str(name): number for number, name in enumerate(stored["names"])}
    for name, number in numbers.items():
        opcode = name.split()[0]
        kinds = [word for word in opcode.split(".") if word in BITS]
        d, *abc = kinds[:4]
        counts = {letter: data[f"{number}_{letter}"][2] for letter in "abcd"}
        shapes = tuple((32, counts[x] * max(32 // BITS[k], 1)) for x, k in zip("abc", abc, strict=True))
        found = stacked(name, (abc[0], abc[1], abc[2]), shapes)
        inputs = {x: operands.packed(v, BITS[k]) for x, v, k in zip("abc", found, abc, strict=True)}
        output = np.zeros((CASES, 32, counts["d"]), "u8" if d == "f64" else "u4")
        if f"{number}_e" in data:
            inputs["e"] = metadata(Draw(name), abc[0] != "tf32", "ordered" in name, (CASES, 32, 1))
        family = "mma.sp" if ".sp" in opcode else "mma"
        yield Trial(name, register_kernel(name, inputs, output), inputs, output, 32, family)
    draw = Draw("movmatrix")
    inputs = {"a": operands.packed(draw.words(CASES, 32, 2) & np.uint64(0xFFFF), 16)}
    output = np.zeros((CASES, 32, 1), np.uint32)
    name = "movmatrix.sync.aligned.m8n8.trans.b16"
    yield Trial(name, kernel(f"{name} d0, a0;", inputs, output, 32), inputs, output, 32, "movmatrix")


# ---- rows in shared memory -----------------------------------------------------------------------


def row_trials() -> Iterator[Trial]:
    """ldmatrix and stmatrix: rows anywhere, also of one another."""
    forms = itertools.product((1, 2, 4), ("", ".trans"), ("", ".shared", ".shared::cta"))
    for count, trans, space in forms:
        suffix = f".sync.aligned.m8n8.x{count}{trans}{space}.b16"
        draw = Draw(suffix)
        place = "cvt.u64.u32 w, i; cvta.shared.u64 w, w;" if not space else ""
        at = "[w]" if not space else "[i]"
        image = (draw.words(CASES, 1024) >> np.uint64(32)).astype(np.uint32)
        rows = np.argsort(draw.words(CASES, 256), axis=1)[:, :32, None].astype(np.uint32) * 16
        inputs = {"row": rows, "img": image}
        output = np.zeros((CASES, 32, count), np.uint32)
        name = f"ldmatrix{suffix}"
        body = f"add.u32 i, sm, row0; {place} {name} {vector('d', count)}, {at};"
        text = kernel(body, inputs, output, 32, image=4096, shared=4096)
        yield Trial(name, text, inputs, output, 32, "ldmatrix")

        inputs = {
            "row": rows,
            "r": (draw.words(CASES, 32, count) >> np.uint64(32)).astype(np.uint32),
            "img": np.full((CASES, 1024), FILL, np.uint32),
        }
        output = np.zeros((CASES, 1024), np.uint32)
        name = f"stmatrix{suffix}"
        body = f"add.u32 i, sm, row0; {place} {name} {at}, {vector('r', count)};"
        text = kernel(body, inputs, output, 32, image=4096, shared=4096)
        yield Trial(name, text, inputs, output, 32, "stmatrix")


# ---- wmma ------------------------------------------------------------------------------------------

BIG = ("m16n16k16", "m8n32k16", "m32n8k16")
SMALL_COUNTS = {"m16n16k16": (1, 1), "m8n32k16": (0.5, 2), "m32n8k16": (2, 0.5)}
"""Registers of A and B beside those of m16n16k16."""


def dimensions(shape: str) -> tuple[int, int, int]:
    """M, N and K."""
    m, n, k = re.findall(r"\d+", shape)
    return int(m), int(n), int(k)


def wmma_shapes(kind: str) -> tuple[str, ...]:
    """Shapes of multiplicands."""
    other = {"tf32": "m16n16k8", "f64": "m8n8k4", "s4": "m8n8k32", "u4": "m8n8k32", "b1": "m8n8k128"}
    return (other[kind],) if kind in other else BIG


def wmma_count(letter: str, shape: str, kind: str) -> int:
    """Registers of a fragment."""
    if letter in "cd":
        m, n, _ = dimensions(shape)
        return m * n // 32 // (2 if kind == "f16" else 1)
    if kind == "f16":
        return 8
    base = {"bf16": 4, "s8": 2, "u8": 2}.get(kind)
    if base is None:
        return 4 if kind == "tf32" else 1
    return int(base * SMALL_COUNTS[shape]["ab".index(letter)])


def lines_of(letter: str, layout: str, shape: str) -> tuple[int, int]:
    """How many lines a matrix has in memory, and how many elements a line."""
    m, n, k = dimensions(shape)
    rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}[letter]
    return (rows, columns) if layout == "row" else (columns, rows)


def strides(draw: Draw, line: int, kind: str, cases: int) -> np.ndarray:
    """Elements from line to line: none between, or up to the next multiples of 64 bytes."""
    per = 64 * 8 // BITS[kind]
    wide = -(-line // per) * per
    return draw.pick([line, wide, wide + per], cases).astype(np.uint64)[:, None]


def reach(line: int, lines: int, kind: str) -> int:
    """Bytes of the widest image."""
    per = 64 * 8 // BITS[kind]
    return lines * (-(-line // per) + 1) * 64


def wmma_load_trials() -> Iterator[Trial]:
    """wmma.load of every operand, layout, shape, type and space, with and without stride."""
    forms = [
        (letter, layout, shape, kind)
        for letter, kinds in (("a", MULTIPLICANDS), ("b", MULTIPLICANDS))
        for kind in kinds
        for shape in wmma_shapes(kind)
        for layout in ("row", "col")
        if BITS[kind] >= 8 or layout == ("row" if letter == "a" else "col")
    ] + [("c", layout, shape, kind) for kind, shape in accumulators() for layout in ("row", "col")]
    for (letter, layout, shape, kind), space, strided in itertools.product(forms, SPACES, (True, False)):
        name = f"wmma.load.{letter}.sync.aligned.{layout}.{shape}{space}.{kind} {'strided' if strided else 'dense'}"
        draw, (lines, line) = Draw(name), lines_of(letter, layout, shape)
        cases, size = 4 * EACH, reach(line, lines, kind)
        inputs = {"img": (draw.words(cases, size // 4) >> np.uint64(32)).astype(np.uint32)}
        if strided:
            inputs["ld"] = strides(draw, line, kind, cases)
        count = wmma_count(letter, shape, kind)
        output = np.zeros((cases, 32, count), "u8" if kind == "f64" else "u4")
        shared = size if "shared" in space else 0
        stride = ", i" if strided else ""
        body = (
            "cvt.u32.u64 i, ld0; " if strided else ""
        ) + f"{name.split()[0]} {vector('d', count)}, [{'sm' if shared else 'img'}]{stride};"
        text = kernel(body, inputs, output, 32, image=size if shared else 0, shared=shared)
        yield Trial(name, text, inputs, output, 32, "wmma.load")


MULTIPLICANDS = ("f16", "bf16", "tf32", "f64", "s8", "u8", "s4", "u4", "b1")
SPACES = ("", ".global", ".shared", ".shared::cta")


def accumulators() -> list[tuple[str, str]]:
    """Types and shapes of C and D."""
    small = [("s32", "m8n8k32"), ("s32", "m8n8k128"), ("f64", "m8n8k4"), ("f32", "m16n16k8")]
    return [*itertools.product(("f16", "f32", "s32"), BIG), *small]


def wmma_store_trials() -> Iterator[Trial]:
    """wmma.store of every layout, shape, type and space, with and without stride."""
    forms = itertools.product(accumulators(), ("row", "col"), SPACES, (True, False))
    for (kind, shape), layout, space, strided in forms:
        name = f"wmma.store.d.sync.aligned.{layout}.{shape}{space}.{kind} {'strided' if strided else 'dense'}"
        draw, (lines, line) = Draw(name), lines_of("d", layout, shape)
        cases, size = 4 * EACH, reach(line, lines, kind)
        count = wmma_count("d", shape, kind)
        words = draw.words(cases, 32, count)
        inputs = {"r": words if kind == "f64" else (words >> np.uint64(32)).astype(np.uint32)}
        if strided:
            inputs["ld"] = strides(draw, line, kind, cases)
        fill = np.full((cases, size // 4), FILL, np.uint32)
        shared = size if "shared" in space else 0
        if shared:
            inputs["img"] = fill
        stride = ", i" if strided else ""
        body = (
            "cvt.u32.u64 i, ld0; " if strided else ""
        ) + f"{name.split()[0]} [{'sm' if shared else 'out'}], {vector('r', count)}{stride};"
        text = kernel(body, inputs, fill, 32, image=shared, shared=shared)
        yield Trial(name, text, inputs, fill, 32, "wmma.store")


def wmma_products() -> Iterator[tuple[str, str, tuple[str, str, str, str], str, str]]:
    """Instruction, shape, types of D, A, B and C, layouts of A and B."""
    for shape, la, lb in itertools.product(BIG, ("row", "col"), ("row", "col")):
        head = f"wmma.mma.sync.aligned.{la}.{lb}.{shape}"
        for d, c in itertools.product(("f16", "f32"), repeat=2):
            yield f"{head}.{d}.{c}", shape, (d, "f16", "f16", c), la, lb
        yield f"{head}.f32.bf16.bf16.f32", shape, ("f32", "bf16", "bf16", "f32"), la, lb
        for kind, tail in itertools.product(("s8", "u8"), ("", ".satfinite")):
            yield f"{head}.s32.{kind}.{kind}.s32{tail}", shape, ("s32", kind, kind, "s32"), la, lb
    for la, lb in itertools.product(("row", "col"), repeat=2):
        head = f"wmma.mma.sync.aligned.{la}.{lb}"
        yield f"{head}.m16n16k8.f32.tf32.tf32.f32", "m16n16k8", ("f32", "tf32", "tf32", "f32"), la, lb
        for mode in ("", ".rn", ".rz", ".rm", ".rp"):
            yield f"{head}.m8n8k4{mode}.f64.f64.f64.f64", "m8n8k4", ("f64", "f64", "f64", "f64"), la, lb
    for kind, tail in itertools.product(("s4", "u4"), ("", ".satfinite")):
        text = f"wmma.mma.sync.aligned.row.col.m8n8k32.s32.{kind}.{kind}.s32{tail}"
        yield text, "m8n8k32", ("s32", kind, kind, "s32"), "row", "col"
    for op in ("xor", "and"):
        text = f"wmma.mma.{op}.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32"
        yield text, "m8n8k128", ("s32", "b1", "b1", "s32"), "row", "col"


def wmma_mma_trials() -> Iterator[Trial]:
    """wmma.mma between loads and registers: matrices in memory, without padding."""
    for name, shape, (d, *kinds), la, lb in wmma_products():
        m, n, k = dimensions(shape)
        found = stacked(name, (kinds[0], kinds[1], kinds[2]), ((m * k,), (k * n,), (m * n,)))
        words = [operands.packed(v, BITS[kind]) for v, kind in zip(found, kinds, strict=True)]
        raw = np.concatenate([w.view(np.uint8).reshape(CASES, -1) for w in words], axis=1)
        inputs = {"img": np.ascontiguousarray(raw).view(np.uint32)}
        starts = np.cumsum([0, *[w.view(np.uint8).reshape(CASES, -1).shape[1] for w in words]])
        body = []
        for letter, kind, layout, start in zip("abc", kinds, (la, lb, "row"), starts, strict=False):
            count = wmma_count(letter, shape, kind)
            body.append(f".reg .{'f64' if kind == 'f64' else 'b32'} {letter}<{count}>;")
            load = f"wmma.load.{letter}.sync.aligned.{layout}.{shape}.global.{kind}"
            body.append(f"add.u64 w, img, {start}; {load} {vector(letter, count)}, [w];")
        counts = [wmma_count(letter, shape, kind) for letter, kind in zip("dabc", (d, *kinds), strict=True)]
        arguments = ", ".join(vector(letter, count) for letter, count in zip("dabc", counts, strict=True))
        body.append(f"{name} {arguments};")
        output = np.zeros((CASES, 32, counts[0]), "u8" if d == "f64" else "u4")
        yield Trial(name, kernel("\n".join(body), inputs, output, 32), inputs, output, 32, "wmma.mma")


# ---- wgmma -----------------------------------------------------------------------------------------

WIDTH = {0: 16, 1: 128, 2: 64, 3: 32}
"""Bytes of a row by swizzle mode."""
SHARED_A, SHARED_B = 0, 12 << 10
POOL = 1531
"""Elements of a case that differ: a prime number, so that rows do."""


def wgmma_types() -> Iterator[tuple[str, str, str, bool]]:
    """Types of D, A and B, and .satfinite."""
    yield from (("f16", "f16", "f16", False), ("f32", "f16", "f16", False), ("f32", "bf16", "bf16", False))
    yield "f32", "tf32", "tf32", False
    for d, a, b in itertools.product(("f16", "f32"), ("e4m3", "e5m2"), ("e4m3", "e5m2")):
        yield d, a, b, False
    for a, b, saturate in itertools.product(("s8", "u8"), ("s8", "u8"), (False, True)):
        yield "s32", a, b, saturate
    yield "s32", "b1", "b1", False


def wgmma_trials() -> Iterator[Trial]:
    """All types and sources of A at N = 8 with every immediate; at larger N some cases each."""
    for sparse, (d, a, b, saturate), by_descriptor in itertools.product((False, True), wgmma_types(), (False, True)):
        if sparse and a == "b1":
            continue
        floating, turns = d != "s32", BITS[a] == 16
        ns = range(8, 257, 8) if floating else (8, 16, 24, *range(32, 257, 16))
        signs = tuple(itertools.product((1, -1), repeat=2)) if floating else ((None, None),)
        turned = tuple(itertools.product((0, 1) if by_descriptor else (None,), (0, 1))) if turns else ((None, None),)
        selectors = ((0, 1) if BITS[a] >= 16 else (0,)) if sparse else (None,)
        for n in ns:
            immediates = list(itertools.product(signs, turned, selectors))
            whole = n == 8
            for (sa, sb), (ta, tb), selector in immediates if whole else immediates[n // 8 % len(immediates) :][:1]:
                k = 256 // BITS[a] * (2 if sparse else 1)
                shape = f"m64n{n}k{k}"
                head = f"wgmma.mma_async{'.sp' if sparse else ''}.sync.aligned.{shape}"
                tail = ".and.popc" if a == "b1" else ".satfinite" if saturate else ""
                opcode = f"{head}.{d}.{a}.{b}{tail}"
                extra = [str(x) for x in (sa, sb, ta, tb) if x is not None]
                yield wgmma_trial(
                    opcode, (d, a, b), n, by_descriptor, selector, extra, (ta or 0, tb or 0), EACH if whole else 2
                )


@functools.lru_cache(maxsize=2)
def stacked_pools(name: str, kinds: tuple[str, str, str]) -> list[np.ndarray]:
    """Some of each operand ``[categories, EACH, POOL]``, that images repeat."""
    found = stacked(name, kinds, ((POOL,),) * 3)
    return [x.reshape(len(CATEGORIES), EACH, POOL) for x in found]


def wgmma_trial(
    opcode: str,
    kinds: tuple[str, str, str],
    n: int,
    by_descriptor: bool,
    selector: int | None,
    immediates: list[str],
    turned: tuple[int, int],
    each: int,
) -> Trial:
    """A kernel of one warpgroup; matrices lie at random strides, so that rows of one may be of another."""
    d, a, b = kinds
    name = f"{opcode} {'desc' if by_descriptor else 'regs'} {selector} {' '.join(immediates)}"
    draw, cases = Draw(name), each * len(CATEGORIES)
    d_count = n // 4 if d == "f16" else n // 2
    image_a, image_b = (SHARED_B - SHARED_A) * 8 // BITS[a], (SMEM - SHARED_B) * 8 // BITS[b]
    shape_a = (image_a,) if by_descriptor else (128, 128 // BITS[a])
    shape_d = (128, d_count * (32 // BITS[d]))
    pools = stacked_pools(name if each == EACH else f"wgmma {kinds}", (a, b, d))
    found = [
        np.tile(pool[:, :each].reshape(cases, POOL), -(-int(np.prod(shape)) // POOL))[:, : np.prod(shape)].reshape(
            cases, *shape
        )
        for pool, shape in zip(pools, (shape_a, (image_b,), shape_d), strict=True)
    ]
    words_a, words_b, words_c = (operands.packed(v, BITS[k]) for v, k in zip(found, (a, b, d), strict=True))
    if not by_descriptor:
        words_b = np.concatenate([np.zeros((cases, (SHARED_B - SHARED_A) // 4), np.uint32), words_b], axis=1)
    inputs = {"img": words_b if not by_descriptor else np.concatenate([words_a, words_b], axis=1), "c": words_c}
    if not by_descriptor:
        inputs["a"] = words_a
    inputs["desc"] = np.stack([descriptor(draw, start, cases) for start in (SHARED_A, SHARED_B)], axis=1)
    inputs["keep"] = draw.pick([0, 1, 1, 1], cases).astype(np.uint64)[:, None]
    if selector is not None:
        inputs["e"] = metadata(draw, a != "tf32", True, (cases, 128, 1))
    output = np.zeros((cases, 128, d_count), np.uint32)
    left = "desc0" if by_descriptor else vector("a", 4)
    sparse = f", e0, {selector}" if selector is not None else ""
    arguments = ", ".join([f"{vector('d', d_count)}, {left}, desc1{sparse}, p", *immediates])
    body = "\n".join(
        [
            "cvt.u64.u32 w, sm; shr.u64 w, w, 4; add.u64 desc0, desc0, w; add.u64 desc1, desc1, w; setp.ne.u64 p, keep0, 0;",
            *[f"mov.b32 d{i}, c{i};" for i in range(d_count)],
            f"wgmma.fence.sync.aligned; {opcode} {arguments};",
            "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        ]
    )
    text = kernel(body, inputs, output, 128, image=SMEM, shared=SMEM)
    return Trial(name, text, inputs, output, 128, "wgmma" + (".sp" if selector is not None else ""))


def descriptor(draw: Draw, start: int, cases: int) -> np.ndarray:
    """Any swizzle, strides that stay within the image: 8-row groups at most 1 KB apart."""
    mode = draw.below(4, cases).astype(np.uint64)
    row = np.array([WIDTH[i] for i in range(4)], np.uint64)[mode.astype(np.int64)]
    steps = 1024 // (8 * row)
    leading, stride = ((draw.words(cases) % steps + np.uint64(1)) * 8 * row for _ in range(2))
    return (np.uint64(start >> 4) | leading >> np.uint64(4) << np.uint64(16) | stride >> np.uint64(4) << np.uint64(32)
            | mode << np.uint64(62))  # fmt: skip


def trials() -> Iterator[Trial]:
    """Everything."""
    for family in (register_trials, row_trials, wmma_load_trials, wmma_store_trials, wmma_mma_trials, wgmma_trials):
        yield from family()

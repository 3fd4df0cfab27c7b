"""Which instructions on tensor memory ptxas takes, on which targets, written to isa/tensor_memory_verdicts.txt: tensor_memory.py

A line is the targets, a tab, the instruction; an instruction that no target takes has no targets before the tab."""

import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from families import taken

OUT = Path(__file__).parents[2] / "tests" / "isa" / "tensor_memory_verdicts.txt"
TARGETS = [
    "sm_90a",
    "sm_100",
    "sm_100a",
    "sm_100f",
    "sm_103",
    "sm_103a",
    "sm_103f",
    "sm_110",
    "sm_110a",
    "sm_110f",
    "sm_120a",
    "sm_121f",
]
SHAPES = {"16x64b": 1, "16x128b": 2, "16x256b": 4, "32x32b": 1, "16x32bx2": 1}
NUMS = [1, 2, 4, 8, 16, 32, 64, 128]


def registers(count: int) -> str:
    """A vector."""
    return "{" + ",".join(f"b{i}" for i in range(count)) + "}"


def short(text: str) -> str:
    """The text with long vectors as their first and last register."""
    return re.sub(r"\{b0,b1,b2,[b,\d]*?,b(\d+)\}", r"{b0..b\1}", text)


def moves() -> Iterator[str]:
    """Loads and stores: all shapes, and what is wrong with vectors, offsets, modifiers and their order."""
    for (shape, per), num, packs in itertools.product(SHAPES.items(), [*NUMS, 3, 256], (False, True)):
        count, offset = per * num, ", 16" if shape.endswith("x2") else ""
        if count <= 256:
            pack, unpack = (".pack::16b", ".unpack::16b") if packs else ("", "")
            yield f"tcgen05.ld.sync.aligned.{shape}.x{num}{pack}.b32 {registers(count)}, [b200]{offset};"
            yield f"tcgen05.st.sync.aligned.{shape}.x{num}{unpack}.b32 [b200]{offset}, {registers(count)};"
    for operation in ("min", "max"):
        for flags, kind, shape, num in itertools.product(
            ("", ".abs", ".NaN", ".abs.NaN", ".NaN.abs"), ("f32", "u32", "s32", "b32"), SHAPES, (1, 2, 16)
        ):
            offset = ", 16" if shape.endswith("x2") else ""
            many = registers(SHAPES[shape] * num)
            if (flags in ("", ".abs") or shape == "32x32b") and (num == 2 or (shape, flags) == ("32x32b", "")):
                yield f"tcgen05.ld.red.sync.aligned.{shape}.x{num}.{operation}{flags}.{kind} {many}, b210, [b200]{offset};"
    yield from (
        "tcgen05.ld.red.sync.aligned.32x32b.x128.max.f32 " + registers(128) + ", b210, [b200];",
        "tcgen05.ld.red.sync.aligned.32x32b.x2.f32.max {b0,b1}, b210, [b200];",
        "tcgen05.ld.red.sync.aligned.16x32bx2.x2.u32.max {b0,b1}, b210, [b200], 16;",
        "tcgen05.ld.red.sync.aligned.32x32b.x2.max.pack::16b.f32 {b0,b1}, b210, [b200];",
        "tcgen05.ld.sync.aligned.red.32x32b.x2.max.f32 {b0,b1}, b210, [b200];",
        "tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {f0,f1}, f2, [b200];",
        "tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {b0,b1}, [b200];",
        *(f"tcgen05.ld.red.sync.aligned.32x32b.x2.max.{kind} {{{r}0,{r}1}}, {v}3, [b200];" for kind, r, v in itertools.product(("f32", "u32", "s32"), "bufsx", "bufsx")),
        "tcgen05.ld.red.sync.aligned.32x32b.x2.max.u32 {b0,b1}, _, [b200];",
        "tcgen05.ld.red.sync.aligned.32x32b.x2.max.u32 {_,b1}, b2, [b200];",
        "tcgen05.ld.red.sync.aligned.32x32b.x2.max.u32 {b0,b1}, b0, [b200];",
        "tcgen05.ld.red.sync.aligned.16x32bx2.x2.max.NaN.f32 {b0,b1}, b2, [b200], 4;",
        "tcgen05.ld.red.sync.aligned.16x32bx2.x1.max.f32 {b0}, b2, [b200], 4;",
        "tcgen05.ld.red.sync.32x32b.x2.max.f32 {b0,b1}, b2, [b200];",
        "tcgen05.st.sync.32x32b.x2.b32 [b200], {b0,b1};",
        "tcgen05.ld.sync.aligned.x2.32x32b.b32 {b0,b1}, [b200];",
        "tcgen05.ld.aligned.sync.32x32b.x2.b32 {b0,b1}, [b200];",
        "tcgen05.ld.sync.aligned.b32.32x32b.x2 {b0,b1}, [b200];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32.pack::16b {b0,b1}, [b200];",
        "tcgen05.sync.ld.aligned.32x32b.x2.b32 {b0,b1}, [b200];",
        "tcgen05.ld.sync.32x32b.x2.b32 {b0,b1}, [b200];",
        "tcgen05.ld.aligned.32x32b.x2.b32 {b0,b1}, [b200];",
        "tcgen05.ld.sync.aligned.32x32b.x2 {b0,b1}, [b200];",
        "tcgen05.ld.sync.aligned.32x32b.b32 {b0,b1}, [b200];",
        "tcgen05.ld.sync.aligned.32x32b.x2.u32 {b0,b1}, [b200];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {b0,b1}, [b200+16];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {b0,b1}, [b200+-4];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {b0,b1}, [65536];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {b0,b1}, [0];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {b0,b1}, [smem];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {b0,b1}, [gmem];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {b0,b1}, b200;",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {b0,b1}, [q0];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {b0,b1}, [u0];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {b0,b1}, [s0];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {b0,b1}, [f0];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {b0,b1}, [h0];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {f0,f1}, [b200];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {u0,s1}, [b200];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {x0,x1}, [b200];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {q0,q1}, [b200];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {h0,h1}, [b200];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {_,b1}, [b200];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {b1,b1}, [b200];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {b1}, [b200];",
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 b1, [b200];",
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {b1}, [b200];",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {b0,b1}, [b200], 16;",
        "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {b0,b1}, [b200];",
        *(f"tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {{b0,b1}}, [b200], {n};" for n in (0, 1, -1, 3, 511, 512, 65535, 65536, 1 << 31, "b3", "0f3F800000", 1 << 33)),
        "tcgen05.ld.sync.aligned.8x64b.x2.b32 {b0,b1}, [b200];",
        "tcgen05.st.sync.aligned.32x32b.x2.b32 [b200], {1,2};",
        "tcgen05.st.sync.aligned.32x32b.x2.b32 [b200], {b0,2};",
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [b200], 7;",
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [b200], b1;",
        "tcgen05.st.sync.aligned.32x32b.x2.b32 [b200], {f0,f1};",
        "tcgen05.st.sync.aligned.32x32b.x2.b32 [b200], {q0,q1};",
        "tcgen05.st.sync.aligned.32x32b.x2.b32 [b200], {_,b1};",
        "tcgen05.st.sync.aligned.32x32b.x2.b32 b200, {b0,b1};",
        "tcgen05.st.sync.aligned.32x32b.x2.pack::16b.b32 [b200], {b0,b1};",
        "tcgen05.ld.sync.aligned.32x32b.x2.unpack::16b.b32 {b0,b1}, [b200];",
        "tcgen05.st.sync.aligned.16x32bx2.x2.b32 [b200], {b0,b1}, 16;",
        "tcgen05.st.sync.aligned.16x32bx2.x2.b32 [b200], b3, {b0,b1};",
        "@p0 tcgen05.ld.sync.aligned.32x32b.x2.b32 {b0,b1}, [b200];",
        "tcgen05.wait::ld.sync.aligned;",
        "tcgen05.wait::st.sync.aligned;",
        "tcgen05.wait::st.aligned.sync;",
        "tcgen05.wait::st.sync;",
        "tcgen05.wait::ld;",
        "tcgen05.wait.ld.sync.aligned;",
        "tcgen05.wait::ld.wait::st.sync.aligned;",
        "@p0 tcgen05.wait::st.sync.aligned;",
    )  # fmt: skip


def allocations() -> Iterator[str]:
    """Allocation, with numbers of columns and addresses of every kind."""
    for group in ("cta_group::1", "cta_group::2", "cta_group::3", ""):
        dot = f".{group}" if group else ""
        yield f"tcgen05.alloc{dot}.sync.aligned.shared::cta.b32 [b0], 32;"
        yield f"tcgen05.alloc{dot}.sync.aligned.b32 [q0], 32;"
        yield f"tcgen05.dealloc{dot}.sync.aligned.b32 b0, 32;"
        yield f"tcgen05.relinquish_alloc_permit{dot}.sync.aligned;"
    for columns in (
        "0",
        "16",
        "32",
        "33",
        "48",
        "96",
        "512",
        "1024",
        "b1",
        "u1",
        "s1",
        "q1",
        "h1",
        "f1",
        "0x20U",
        "-32",
        "0f42000000",
        str((1 << 32) + 32),
    ):
        yield f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [b0], {columns};"
        yield f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 b0, {columns};"
    for place in ("[smem]", "[smem+4]", "[gmem]", "[q0]", "[b0]", "[b0+8]", "[64]", "b0", "smem", "[f0]", "[lmem]"):
        for space in (".shared::cta", "", ".shared", ".shared::cluster"):
            yield f"tcgen05.alloc.cta_group::1.sync.aligned{space}.b32 {place}, 64;"
    for address in ("u0", "s0", "f0", "q0", "h0", "0", "64", "[b0]", "x0"):
        yield f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 {address}, 64;"
    yield from (
        "tcgen05.alloc.sync.aligned.cta_group::1.shared::cta.b32 [b0], 32;",
        "tcgen05.alloc.cta_group::1.shared::cta.sync.aligned.b32 [b0], 32;",
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.u32 [b0], 32;",
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta [b0], 32;",
        "tcgen05.alloc.cta_group::1.shared::cta.b32 [b0], 32;",
        "tcgen05.cta_group::1.alloc.sync.aligned.shared::cta.b32 [b0], 32;",
        "@p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [b0], 32;",
        "tcgen05.dealloc.cta_group::1.b32.sync.aligned b0, 32;",
        "tcgen05.dealloc.cta_group::1.sync.aligned b0, 32;",
        "tcgen05.relinquish_alloc_permit.sync.aligned.cta_group::1;",
    )


def copies() -> Iterator[str]:
    """Copies from shared memory, and shifts."""
    shapes = ("128x256b", "4x256b", "128x128b", "64x128b", "32x128b", "16x64b")
    casts = ("", ".warpx2::02_13", ".warpx2::01_23", ".warpx4")
    formats = ("", ".b8x16.b6x16_p32", ".b8x16.b4x16_p64", ".b6x16_p32", ".b8x16", ".b6x16_p32.b8x16")
    for group, shape, cast, form in itertools.product((1, 2), shapes, casts, formats):
        if group == 1 or form in formats[:2]:
            yield f"tcgen05.cp.cta_group::{group}.{shape}{cast}{form} [b0], q1;"
    for place, descriptor in itertools.product(
        ("[b0]", "[b0+16]", "[u0]", "[s0]", "[x0]", "[0]", "[q0]", "b0", "[smem]", "[f0]"),
        ("q1", "b1", "5", "uq1", "d1", "sq1"),
    ):
        if place == "[b0]" or descriptor == "q1":
            yield f"tcgen05.cp.cta_group::1.128x128b {place}, {descriptor};"
    yield from (
        "tcgen05.cp.128x128b.cta_group::1 [b0], q1;",
        "tcgen05.cta_group::1.cp.128x128b [b0], q1;",
        "tcgen05.cp.cta_group::1.warpx4.32x128b [b0], q1;",
        "tcgen05.cp.cta_group::1.32x128b.b8x16.b6x16_p32.warpx4 [b0], q1;",
        "tcgen05.cp.128x128b [b0], q1;",
        "@p0 tcgen05.cp.cta_group::1.128x128b [b0], q1;",
        *(f"tcgen05.shift.cta_group::{group}.down [b0];" for group in (1, 2, 3)),
        "tcgen05.shift.down.cta_group::1 [b0];",
        "tcgen05.down.shift.cta_group::1 [b0];",
        "tcgen05.shift.cta_group::1 [b0];",
        "tcgen05.shift.down [b0];",
        "tcgen05.shift.cta_group::1.up [b0];",
        "tcgen05.shift.cta_group::1.down b0;",
        "tcgen05.shift.cta_group::1.down [b0+16];",
        "tcgen05.shift.cta_group::1.down [u0];",
        "tcgen05.shift.cta_group::1.down [s0];",
        "tcgen05.shift.cta_group::1.down [q0];",
        "tcgen05.shift.cta_group::1.down [7];",
        "@p0 tcgen05.shift.cta_group::1.down [b0];",
    )  # fmt: skip


def judged(target: str, texts: list[str]) -> set[str]:
    """The instructions that the assembler takes; those at which it ends without a word are refused."""
    try:
        return taken(target, texts)
    except SystemExit:
        half = len(texts) // 2
        return judged(target, texts[:half]) | judged(target, texts[half:]) if half else set()


def main() -> int:
    """Ask, write."""
    every = list(dict.fromkeys([*moves(), *allocations(), *copies()]))
    having = {target: judged(target, every) for target in TARGETS}
    rows = [f"{' '.join(t for t in TARGETS if text in having[t])}\t{short(text)}" for text in every]
    OUT.write_text("\n".join(rows) + "\n")
    print(len(rows), "written")
    return 0


if __name__ == "__main__":
    sys.exit(main())

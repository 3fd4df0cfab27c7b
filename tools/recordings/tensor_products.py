"""Which forms of tcgen05.mma ptxas takes, on which targets, written to isa/tcgen05_mma_verdicts.txt: tensor_products.py

Lines are as in tensor_memory.py. A part is drawn of all combinations of kinds, operands, collectors and sizes of scale factors."""

import random
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from tensor_memory import TARGETS, judged

OUT = Path(__file__).parents[2] / "tests" / "isa" / "tcgen05_mma_verdicts.txt"
PLAIN, SCALED = ("f16", "tf32", "f8f6f4", "i8"), ("mxf8f6f4", "mxf4", "mxf4nvf4")
USES = ("fill", "use", "lastuse", "discard")
MASKS = ("", "{b4,b5,b6,b7}, ", "{b4,b5,b6,b7,b8,b9,b10,b11}, ")
A = ("q1", "[b1]")
DRAWN = 700


def plain() -> Iterator[str]:
    """Products without scale factors, and the tails that belong to other forms."""
    collectors = ["", *(f".collector::{buffer}::{use}" for buffer in ("a", "b0") for use in USES)]
    tails = ["", ", 0", ", 15", ", 16", ", -1", ", b13", ", q3"]
    for sparse, group, kind, a, mask, tail, shift, use in product(
        ("", ".sp"), (1, 2), (*PLAIN, "mxf4"), A, MASKS, tails, ("", ".ashift"), collectors
    ):
        meta = "[b12], " if sparse else ""
        yield f"tcgen05.mma{sparse}.cta_group::{group}.kind::{kind}{shift}{use} [b0], {a}, q2, {meta}b3, {mask}p0{tail};"


def scaled() -> Iterator[str]:
    """Products with scale factors."""
    sizes = ("", ".scale_vec::1X", ".scale_vec::2X", ".scale_vec::4X", ".block16", ".block32")
    collectors = ("", *(f".collector::a::{use}" for use in USES), ".ashift", ".collector::b0::use")
    for sparse, group, kind, size, a, use in product(("", ".sp"), (1, 2), (*SCALED, "f16"), sizes, A, collectors):
        meta = "[b12], " if sparse else ""
        head = f"tcgen05.mma{sparse}.cta_group::{group}.kind::{kind}.block_scale{size}{use}"
        yield f"{head} [b0], {a}, q2, {meta}b3, [b14], [b15], p0;"


def weights() -> Iterator[str]:
    """Weight-stationary products."""
    collectors = ["", *(f".collector::{buffer}::{use}" for buffer in ("a", "b0", "b3", "b4") for use in USES)]
    tails = ["", ", q3", ", 5", ", b5", ", uq1"]
    for name, group, kind, a, tail, use in product(
        (".ws", ".ws.sp", ".sp.ws"), (1, 2), (*PLAIN, "mxf4"), A, tails, collectors
    ):
        meta = "[b12], " if "sp" in name else ""
        yield f"tcgen05.mma{name}.cta_group::{group}.kind::{kind}{use} [b0], {a}, q2, {meta}b3, p0{tail};"


def spellings() -> Iterator[str]:
    """Types of operands, and orders of modifiers."""
    for d in ("b0+4", "q1", "5", "u1", "s1", "f1", "h1", "b0+-4", "p1"):
        yield f"tcgen05.mma.cta_group::1.kind::f16 [{d}], q1, q2, b3, p0;"
        yield f"tcgen05.mma.sp.cta_group::1.kind::f16 [b0], q1, q2, [{d}], b3, p0;"
        yield f"tcgen05.mma.cta_group::1.kind::mxf4.block_scale [b0], q1, q2, b3, [{d}], [b1], p0;"
    for a in ("uq1", "sq1", "d1", "b1", "5", "-1", "p1", "q1+4", "1.0", "[u1]", "[q1]", "[5]"):
        yield f"tcgen05.mma.cta_group::1.kind::f16 [b0], {a}, q2, b3, p0;"
    for i, e in (
        ("u1", "!p0"),
        ("s1", "0"),
        ("f1", "p0"),
        ("h1", "p0"),
        ("q1", "p0"),
        ("5", "2"),
        ("-1", "-1"),
        ("b3", "b1"),
        ("b3", "1.0"),
    ):
        yield f"tcgen05.mma.cta_group::1.kind::f16 [b0], q1, q2, {i}, {e};"
    for v in ("{u1,u2,u3,u4}", "{f1,f2,f3,f1}", "{b4,b5,b6,7}", "{q1,q2,q3,q1}", "{h1,h2,h3,h1}", "{b1,b2,b3}", "b1"):
        yield f"tcgen05.mma.cta_group::1.kind::f16 [b0], q1, q2, b3, {v}, p0;"
    yield from (
        "tcgen05.mma.kind::f16.cta_group::1 [b0], q1, q2, b3, p0;",
        "tcgen05.mma.cta_group::1.sp.kind::f16 [b0], q1, q2, [b4], b3, p0;",
        "tcgen05.mma.cta_group::1.kind::mxf4.scale_vec::2X.block_scale [b0], q1, q2, b3, [b4], [b5], p0;",
        "tcgen05.mma.cta_group::1.kind::f16.collector::a::discard.ashift [b0], [b1], q2, b3, p0;",
        "tcgen05.mma.cta_group::1.kind::f16.ws [b0], q1, q2, b3, p0;",
        "tcgen05.mma.kind::f16 [b0], q1, q2, b3, p0;",
        "tcgen05.mma.cta_group::1 [b0], q1, q2, b3, p0;",
        "@p1 tcgen05.mma.cta_group::1.kind::f16 [b0], q1, q2, b3, p0;",
    )


def main() -> int:
    """Ask, draw, write: as many of those that are refused everywhere as of those that a target takes."""
    every = list(dict.fromkeys([*plain(), *scaled(), *weights()]))
    fixed = list(spellings())
    having = {target: judged(target, every + fixed) for target in TARGETS}
    rng = random.Random(0)
    some = [[text for text in every if any(text in h for h in having.values()) == taken] for taken in (True, False)]
    drawn = {text for texts in some for text in rng.sample(texts, DRAWN // 2)}
    rows = [
        f"{' '.join(t for t in TARGETS if text in having[t])}\t{text}"
        for text in [*(text for text in every if text in drawn), *fixed]
    ]
    OUT.write_text("\n".join(rows) + "\n")
    print(len(rows), "written, of", len(every) + len(fixed))
    return 0


if __name__ == "__main__":
    sys.exit(main())

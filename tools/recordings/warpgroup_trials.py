"""What is tried of wgmma: every type, source of A and immediate at N = 8, some cases of each at larger N."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np

import matrix_operands as operands
from matrix_kernels import Parts, Trial, kernel, metadata, stacked, vector
from matrix_operands import BITS, CATEGORIES, EACH, Draw

SMEM = 48 << 10
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
                name = f"{opcode} {'desc' if by_descriptor else 'regs'} {selector} {' '.join(extra)}"
                build = partial(wgmma, name, (d, a, b), n, by_descriptor, selector, extra, EACH if whole else 2)
                yield Trial(name, "wgmma.sp" if sparse else "wgmma", 128, build)


@functools.lru_cache(maxsize=2)
def stacked_pools(name: str, kinds: tuple[str, str, str]) -> list[np.ndarray]:
    """Some of each operand ``[categories, EACH, POOL]``, that images repeat."""
    found = stacked(name, kinds, ((POOL,),) * 3)
    return [x.reshape(len(CATEGORIES), EACH, POOL) for x in found]


def wgmma(
    name: str,
    kinds: tuple[str, str, str],
    n: int,
    by_descriptor: bool,
    selector: int | None,
    immediates: list[str],
    each: int,
) -> Parts:
    """A kernel of one warpgroup; matrices lie at random strides, so that rows of one may be of another."""
    d, a, b = kinds
    opcode = name.split()[0]
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
    return kernel(body, inputs, output, 128, image=SMEM, shared=SMEM), inputs, output


def descriptor(draw: Draw, start: int, cases: int) -> np.ndarray:
    """Any swizzle, strides that stay within the image: 8-row groups at most 1 KB apart."""
    mode = draw.below(4, cases).astype(np.uint64)
    row = np.array([WIDTH[i] for i in range(4)], np.uint64)[mode.astype(np.int64)]
    steps = 1024 // (8 * row)
    leading, stride = ((draw.words(cases) % steps + np.uint64(1)) * 8 * row for _ in range(2))
    return (np.uint64(start >> 4) | leading >> np.uint64(4) << np.uint64(16) | stride >> np.uint64(4) << np.uint64(32)
            | mode << np.uint64(62))  # fmt: skip

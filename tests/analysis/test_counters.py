"""Counters that end a loop, or never do: against every value that they take."""

import operator
import random

import numpy as np
import pytest

import warpsim
from warpsim.analysis.flow import blocks_of
from warpsim.analysis.loops import counter_of

TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{{
.reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;
{}
ret;
}}
"""
ORDER = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
STARTS = (0, 1, 2, 5, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF)
STRIDES = (1, 2, 6, 256, 0x7FFF, 0x8000, 0xC000, 0xFFFE)


def found(body):
    """The counter of the loop at L."""
    function = warpsim.load(TEXT.format(body)).program.functions["k"]
    blocks, _ = blocks_of(function)
    head = next(n for n, block in enumerate(blocks) if block.first == function.labels["L"])
    return counter_of(function, blocks, head)


@pytest.mark.parametrize("kind", ["u", "s"])
@pytest.mark.parametrize("compare", ORDER)
def test_every_value(compare, kind):
    """Of 16 bits: the loop stays where no value that the counter takes ends it, and nowhere else."""
    rng = random.Random(f"{compare} {kind}")
    dtype = np.dtype(f"{kind.replace('s', 'i')}2")
    for stride in STRIDES:
        negated, first = rng.random() < 0.5, rng.random() < 0.5
        sides = "%h1, %h2" if first else "%h2, %h1"
        text = f"L: add.{kind}16 %h1, %h1, {stride}; setp.{compare}.{kind}16 %p1, {sides}; @{'!' * negated}%p1 bra L;"
        starts = np.array([*STARTS, *(rng.randrange(65536) for _ in range(4))], np.uint16)
        bounds = np.array([rng.choice([*STARTS, int(start)]) for start in starts], np.uint16)
        stays = found(text).stays(starts, bounds)
        for start, bound, stay in zip(starts, bounds, stays.tolist(), strict=True):
            values = (start + np.arange(0, 65536 * stride, stride)).astype(np.uint16).view(dtype)
            limit = bound.view(dtype)
            results = ORDER[compare](values, limit) if first else ORDER[compare](limit, values)
            assert stay == bool(np.all(results != negated)), (text, start, bound)


OTHERS = {
    "another exit": "L: add.u32 %r1, %r1, 2; setp.eq.u32 %p2, %r1, 6; @%p2 exit; setp.ne.u32 %p1, %r1, 7; @%p1 bra L;",
    "a step that is not always made": "L: @%p2 add.u32 %r1, %r1, 2; setp.ne.u32 %p1, %r1, 7; @%p1 bra L;",
    "two steps": "L: add.u32 %r1, %r1, 2; add.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 7; @%p1 bra L;",
    "a bound that changes": "L: add.u32 %r1, %r1, 2; add.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r1, %r2; @%p1 bra L;",
    "a step of another register": "L: add.u32 %r1, %r2, 2; setp.ne.u32 %p1, %r1, 7; @%p1 bra L;",
    "a step that is read": "L: add.u32 %r1, %r1, %r2; setp.ne.u32 %p1, %r1, 7; @%p1 bra L;",
    "a comparison that is not always made": "L: add.u32 %r1, %r1, 2; @%p2 setp.ne.u32 %p1, %r1, 7; @%p1 bra L;",
    "a comparison and more": "L: add.u32 %r1, %r1, 2; setp.ne.and.u32 %p1, %r1, 7, %p2; @%p1 bra L;",
    "saturation": "L: add.sat.s32 %r1, %r1, 2; setp.ne.s32 %p1, %r1, 7; @%p1 bra L;",
    "numbers of floating point": "L: add.u32 %r1, %r1, 2; setp.ne.f32 %p1, %r1, 0f40E00000; @%p1 bra L;",
    "a multiple": "L: mul.lo.u32 %r1, %r1, 3; setp.ne.u32 %p1, %r1, 7; @%p1 bra L;",
    "halves of a register": "L: add.u32 %r1, %r1, 2; mov.b32 {%h1, %h2}, %r1; setp.ne.u16 %p1, %h1, 7; @%p1 bra L;",
    "a difference to it": "L: sub.u32 %r1, 2, %r1; setp.ne.u32 %p1, %r1, 7; @%p1 bra L;",
    "no end": "L: add.u32 %r1, %r1, 2; bra L;",
    "another loop": "L: add.u32 %r1, %r1, 2; setp.ne.u32 %p1, %r1, 7; @%p1 bra M; M: bra L;",
    "a trap": "L: add.u32 %r1, %r1, 2; setp.ne.u32 %p1, %r1, 7; @%p2 trap; @%p1 bra L;",
    "two predicates": "L: add.u32 %r1, %r1, 2; setp.ne.u32 %p1|%p2, %r1, 7; @%p1 bra L;",
    "bits of a narrower word": "L: add.u32 %r1, %r1, 2; cvt.u16.u32 %h1, %r1; setp.ne.u16 %p1, %h1, 7; @%p1 bra L;",
    "an atomic bound": "L: add.u32 %r1, %r1, 2; ld.global.u32 %r2, [%rd1]; setp.ne.u32 %p1, %r1, %r2; @%p1 bra L;",
}


@pytest.mark.parametrize("name", OTHERS)
def test_no_counter(name):
    """Loops of which a counter does not tell all."""
    assert found(OTHERS[name]) is None


@pytest.mark.parametrize(
    ("step", "stride"),
    [("add.u32 %r1, %r1, 2", 2), ("sub.u32 %r1, %r1, 2", -2), ("add.u32 %r1, 2, %r1", 2), ("add.s32 %r1, %r1, -2", -2)],
)
def test_counter(step, stride):
    """The nearest loop that is one."""
    counter = found(f"L: {step}; st.global.u32 [%rd1], %r1; setp.ne.u32 %p1, %r1, 7; @%p1 bra L;")

    assert (counter.name, counter.stride, counter.leaves) == ("%r1", stride, False)

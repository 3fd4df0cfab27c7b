"""What becomes of the bits of sources: what the graphs say of it holds for all values, and is what the manual describes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from warpsim.graph.evaluate import Arrays
from warpsim.graph.moves import NONE, Fate, Moves, dependence_of, moves_of
from warpsim.graph.nodes import LANES, Graph, Input, Node, Untraceable
from warpsim.graph.trace import Lane, trace
from warpsim.isa import matching, spec
from warpsim.isa.graphs import graph_of_spelling
from warpsim.isa.spec import Form, Scope

SHAPE = (1, LANES, 1)
COMPUTED, BITWISE = Moves(Fate.COMPUTED), Moves(Fate.BITWISE)


def moved(*places: int) -> Moves:
    """The sources at these places are moved."""
    return Moves(Fate.MOVED, frozenset(places))


TOLD = {
    "mov.f32": moved(0), "mov.v2.u32": moved(0), "cvt.u32.u64": moved(0), "cvt.s64.s8": moved(0), "shl.b32": moved(0), "shr.s32": moved(0),
    "shf.l.wrap.b32": moved(0, 1), "prmt.b32": moved(0, 1), "prmt.b32.f4e": moved(0, 1), "bfe.s32": moved(0), "bfi.b64": moved(0, 1),
    "selp.f32": moved(0, 1), "slct.u32.s32": moved(0, 1), "brev.b32": moved(0), "szext.clamp.u32": moved(0),
    "shfl.sync.idx.b32": moved(0), "movmatrix.sync.aligned.m8n8.trans.b16": moved(0),
    "and.b32": BITWISE, "or.pred": BITWISE, "xor.b64": BITWISE, "not.b16": BITWISE, "lop3.b32": BITWISE,
    "add.u32": COMPUTED, "mul.lo.u32": COMPUTED, "mad.wide.u32": COMPUTED, "add.f32": COMPUTED, "neg.s32": COMPUTED, "min.u32": COMPUTED,
    "setp.eq.u32": COMPUTED, "popc.b32": COMPUTED, "clz.b32": COMPUTED, "cnot.b32": COMPUTED, "cvt.rn.f32.u32": COMPUTED, "cvt.sat.u8.s32": COMPUTED,
    "cvt.rn.f16x2.e4m3x2": COMPUTED, "cvt.rn.satfinite.e4m3x2.f16x2": COMPUTED, "cvt.rn.bf16x2.ue8m0x2": COMPUTED,
    "add.cc.u32": COMPUTED, "ld.global.u32": COMPUTED,
}  # fmt: skip
CONSTANTS = (0xCA,)


@pytest.mark.parametrize("text", TOLD)
def test_told(text: str) -> None:
    """As the manual describes the instruction."""
    root, *modifiers = text.split(".")
    for candidate in matching.candidates(root, tuple(modifiers)):
        if all(typed.count != 0 for typed in candidate.operands):
            assert moves_of(graph_of_spelling(candidate, CONSTANTS)) == TOLD[text]


U32 = np.dtype(np.uint32)
BODIES: dict[str, tuple[Any, Moves]] = {
    "a mask": (lambda a, b: a & np.uint32(0xFF00) | b & np.uint32(0xFF), moved(0, 1)),
    "places that overlap": (lambda a, b: a & np.uint32(0xFF00) | b & np.uint32(0x1FF), BITWISE),
    "moved by itself": (lambda a, b: a << (a & np.uint32(31)), COMPUTED),
    "moved by another": (lambda a, b: a << (b & np.uint32(31)), moved(0)),
    "chosen by itself": (lambda a, b: np.where(a > 5, a, b), COMPUTED),
    "chosen, or a number": (lambda a, b: np.where(b > 5, a, np.uint32(1)), COMPUTED),
    "chosen, or none": (lambda a, b: np.where(b > 5, a, np.uint32(0)), moved(0)),
    "a bit, several times": (lambda a, b: np.where((a & np.uint32(4)).astype(bool), np.uint32(0xF0), np.uint32(0)), moved(0)),
    "two bits in one": (lambda a, b: np.where((a & np.uint32(6)).astype(bool), np.uint32(0xF0), np.uint32(0)), COMPUTED),
    "beside a number": (lambda a, b: a & np.uint32(0xFF) | np.uint32(0x100), BITWISE),
    "masked by one, and by its complement": (lambda a, b: a & (np.uint32(1) << b) | b & ~(np.uint32(1) << b), COMPUTED),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str) -> None:
    """What small bodies do with two sources."""
    body, told = BODIES[name]
    made = trace(body, *[Lane(Node("input", (), U32, k)) for k in range(2)])
    inputs = tuple([Input("ab"[k], U32, k) for k in range(2)])

    assert moves_of(Graph(inputs, ((made.node,),))) == told


def graph_for(form: Form, rng: random.Random) -> Graph | None:
    """The graph of a spelling drawn, if it has one."""
    groups = {slot.group for slot in form.pattern.slots if slot.group is not None and rng.random() < 0.4}
    present = [slot for slot in form.pattern.slots if slot.group is None or slot.group in groups]
    words = tuple(rng.choice(sorted(slot.values)) for slot in present)
    for candidate in matching.candidates(form.root, words):
        if candidate.form is form and not candidate.illegal:
            try:
                return graph_of_spelling(candidate, (rng.randrange(256),))
            except Untraceable:
                return None
    return None


def bits_of(array: Any) -> Any:
    """Any lanes as unsigned integers."""
    wide = np.ascontiguousarray(np.broadcast_to(array, SHAPE))
    return wide.astype(np.uint8) if wide.dtype.kind == "b" else wide.view(f"u{wide.dtype.itemsize}")


def holds(graph: Graph, moves: Moves, rng: np.random.Generator) -> bool:
    """Whether sources that differ in some bits give results that differ at most in the bits to which those are moved, or in the
    same."""
    values, masks = [], []
    for number in graph.inputs:
        size = 1 if number.dtype.kind == "b" else number.dtype.itemsize
        top = 2 if number.dtype.kind == "b" else 256**size
        value, mask, keep = (
            rng.integers(0, top - 1, SHAPE, np.uint64, endpoint=True).astype(f"u{size}") for _ in range(3)
        )
        value = value & 0x1F if rng.random() < 0.3 else value
        touched = moves.fate is Fate.BITWISE or number.source in moves.moved
        values.append(value)
        masks.append(mask & keep if touched else mask & 0)
    typed = [_typed(values, graph), _typed([v ^ m for v, m in zip(values, masks, strict=True)], graph)]
    moved_bits, none = (_typed(raw, graph) for raw in (masks, [m & 0 for m in masks]))
    places = [i.source in moves.moved for i in graph.inputs]
    shadows = [[m if p else v for v, m, p in zip(typed[0], ms, places, strict=True)] for ms in (moved_bits, none)]
    one, other, shadow, clean = (Arrays(inputs) for inputs in (*typed, *shadows))
    for node in graph.outputs[0]:
        differing = bits_of(one(node)) ^ bits_of(other(node))
        allowed = np.bitwise_or.reduce([m.astype(np.uint64) for m in masks])
        if moves.fate is Fate.MOVED:
            allowed = bits_of(shadow(node))
            if bits_of(clean(node)).any():  # what is undefined although nothing is
                return False
        if (differing & ~allowed.astype(differing.dtype)).any():
            return False
    return all(not (bits_of(one(n)) ^ bits_of(other(n))).any() for nodes in graph.outputs[1:] for n in nodes)


def _typed(raw: list[Any], graph: Graph) -> list[Any]:
    return [
        x.astype(np.bool_) if i.dtype.kind == "b" else x.view(i.dtype) for x, i in zip(raw, graph.inputs, strict=True)
    ]


def wrong(draws: int) -> tuple[int, list[str]]:
    """How many graphs do not compute, and those of which what is said does not hold."""
    rng, numbers, count, found = random.Random(draws), np.random.default_rng(draws), 0, list[str]()
    for root in spec.opcodes():
        for form in spec.forms(root):
            if form.scope not in (Scope.THREAD, Scope.WARP) or "memory" in form.ports:
                continue
            for _ in range(draws):
                graph = graph_for(form, rng)
                if graph is None or any(i.address or i.dtype.itemsize > 8 for i in graph.inputs):
                    continue
                moves = moves_of(graph)
                if moves.fate is not Fate.COMPUTED:
                    count += 1
                    with np.errstate(all="ignore"):
                        if not all(holds(graph, moves, numbers) for _ in range(4)):
                            found.append(f"{form.syntax}: {moves}")
    return count, found


def test_what_is_said_holds() -> None:
    """Two spellings of each form."""
    count, found = wrong(2)

    assert found == []
    assert count > 20


@pytest.mark.parametrize("draws", [pytest.param(10, marks=pytest.mark.long), pytest.param(60, marks=pytest.mark.sweep)])
def test_what_is_said_always_holds(draws: int) -> None:
    """Many of each."""
    assert wrong(draws)[1] == []


def packed(size: int, count: int, sources: int):
    """Elements of ``size`` bytes, each of those of the same place in all sources."""
    places = [frozenset((s, k) for s in range(sources) for k in range(e * size, e * size + size)) for e in range(count)]
    return (tuple(place for place in places for _ in range(size)),)


def upwards(size: int, sources: int, up_to: int = 8):
    """Carries: of each source, the bytes of the same place and below."""
    return (tuple(frozenset((s, b) for s in range(sources) for b in range(min(k + 1, up_to))) for k in range(size)),)


BYTES = {
    "add.bf16x2": packed(2, 2, 2),
    "fma.rn.f16x2": packed(2, 2, 3),
    "min.s16x2": packed(2, 2, 2),
    "add.rn.f32x2": packed(4, 2, 2),
    "neg.f16x2": packed(2, 2, 1),
    "and.b64": packed(1, 8, 2),
    "add.u32": upwards(4, 2),
    "sub.s16": upwards(2, 2),
    "mad.lo.s32": upwards(4, 3),
    "mul.wide.u16": upwards(4, 2, 2),
    "mul.hi.u32": None,
    "add.sat.s32": None,
    "mul.f32": None,
    "cvt.f32.f16": None,
    "cvt.rn.bf16x2.f32": (  # d, a, b: a is the upper half
        (*[frozenset((1, k) for k in range(4))] * 2, *[frozenset((0, k) for k in range(4))] * 2),
    ),
    "cvt.u64.u16": ((frozenset({(0, 0)}), frozenset({(0, 1)}), *[NONE] * 6),),
    "cvt.s64.s16": ((frozenset({(0, 0)}), *[frozenset({(0, 1)})] * 7),),
    "setp.eq.f16x2": (
        (frozenset((s, k) for s in (0, 1) for k in (0, 1)),),
        (frozenset((s, k) for s in (0, 1) for k in (2, 3)),),
    ),
}


@pytest.mark.parametrize("text", BYTES)
def test_bytes_told(text: str) -> None:
    """As the manual describes the instruction."""
    root, *modifiers = text.split(".")
    for candidate in matching.candidates(root, tuple(modifiers)):
        assert dependence_of(graph_of_spelling(candidate, ())) == BYTES[text]


def holds_by_bytes(graph: Graph, rng: np.random.Generator) -> bool:
    """Bytes on which a result's byte does not depend may be anything."""
    told = dependence_of(graph)
    assert told is not None
    drawn = [rng.integers(0, 256, i.dtype.itemsize, np.uint8) for i in graph.inputs]
    first = bytes_of(graph, drawn)
    for at, result in enumerate(told):
        for byte, depends in enumerate(result):
            others = [
                np.array([v if (i.source, k) in depends else rng.integers(256) for k, v in enumerate(data)], np.uint8)
                for i, data in zip(graph.inputs, drawn, strict=True)
            ]
            if bytes_of(graph, others)[at][byte] != first[at][byte]:
                return False
    return True


def bytes_of(graph: Graph, drawn: list[np.ndarray]) -> list[bytes]:
    """The results' bytes."""
    evaluate = Arrays([data.view(i.dtype) for data, i in zip(drawn, graph.inputs, strict=True)])
    with np.errstate(all="ignore"):
        return [np.asarray(evaluate(node)).tobytes() for nodes in graph.outputs for node in nodes]


def test_what_is_said_of_bytes_holds() -> None:
    """For random values of a spelling of each form."""
    rng, numbers, count = random.Random(3), np.random.default_rng(3), 0
    for form in (form for root in spec.opcodes() for form in spec.forms(root)):
        graph = graph_for(form, rng) if form.scope is Scope.THREAD and not form.ports else None
        if graph is None or dependence_of(graph) is None or any(i.dtype.kind == "b" for i in graph.inputs):
            continue
        count += 1
        assert holds_by_bytes(graph, numbers), form.syntax
    assert count > 30

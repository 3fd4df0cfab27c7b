"""The graph of a form does what its body does: both are asked on arrays, which are one more domain."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from warpsim.graph.evaluate import Arrays, Substitution
from warpsim.graph.nodes import LANES, Graph, Node, Untraceable, constant
from warpsim.isa import matching, spec
from warpsim.isa.data_movement import Unpacked
from warpsim.isa.graphs import EVERYBODY, graph_of_spelling
from warpsim.isa.matching import Candidate
from warpsim.isa.spec import Form, Scope
from warpsim.isa.traits import Matrix

SHAPE = (1, LANES, 1)
HARD = (0, 1, 2, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0x3F800000, 0x7F800000, 0x7F800001, 0x80000000, 0x807FFFFF, 0xFFFFFFFF,
        0x7FF0000000000000, 0x7FF8000000000001, 0x8000000000000000, 0x3FF0000000000000, 0x7C007C00, 0x3C00BC00)  # fmt: skip


def spelling(form: Form, rng: random.Random) -> Candidate | None:
    """A form with modifiers drawn, if they are legal."""
    groups = {slot.group for slot in form.pattern.slots if slot.group is not None and rng.random() < 0.5}
    present = [slot for slot in form.pattern.slots if slot.group is None or slot.group in groups]
    words = tuple(rng.choice(sorted(slot.values)) for slot in present)
    return next((c for c in matching.candidates(form.root, words) if c.form is form and not c.illegal), None)


def values(dtype: np.dtype[Any], rng: np.random.Generator) -> Any:
    """Lanes of a type, half of them hard."""
    if dtype.kind == "b":
        return rng.integers(0, 2, SHAPE).astype(np.bool_)
    raw = np.where(
        rng.random(SHAPE) < 0.5,
        rng.choice(np.array(HARD, np.uint64), SHAPE),
        rng.integers(0, 1 << 64, SHAPE, np.uint64),
    )
    return raw.astype(f"u{dtype.itemsize}").view(dtype)


def body(candidate: Candidate, graph: Graph, given: list[Any]) -> list[Any]:
    """The results of a form's body, with the same sources as its graph."""
    form, left, sources = candidate.form, list(given), list[Any]()
    for typed in candidate.operands[form.n_dest :]:
        if typed.type is None:
            sources.append(None)
        elif typed.spec.name == "membermask" or typed.spec.constant:
            number = EVERYBODY if typed.spec.name == "membermask" else 0
            sources.append(np.full((1, 1, 1), number, f"u{typed.type.dtype.itemsize}").view(typed.type.dtype))
        elif typed.count is None or (typed.count == 1 and not typed.spec.braces):
            sources.append(left.pop(0))
        else:
            sources.append(tuple(left.pop(0) for _ in range(typed.count or 2)))
    ports = {"active": np.ones(SHAPE, np.bool_), "report": lambda *_, **__: None}
    made = form.function(candidate.op, *sources, **{name: ports[name] for name in form.ports})
    results = () if made is None else (made,) if form.n_dest == 1 else made
    counts = [len(nodes) for nodes in graph.outputs]
    parts = [
        r.parts(n) if isinstance(r, Unpacked) else r if isinstance(r, tuple) else (r,)
        for r, n in zip(results, counts, strict=True)
    ]
    return [part for some in parts for part in some]


def differing(candidate: Candidate, seed: int) -> bool | None:
    """Whether body and graph differ in a bit; None where there is no graph to compare."""
    form, rng = candidate.form, np.random.default_rng(seed)
    wide = any(t.type is not None and t.type.bits > 64 for t in candidate.operands)
    if (
        wide
        or form.ports - {"active", "report"}
        or candidate.traits.matrix is Matrix.MULTIPLY
        or form.scope not in (Scope.THREAD, Scope.WARP)
    ):
        return None
    graph = graph_of_spelling(candidate)
    if any(i.address for i in graph.inputs):
        return None
    given = [values(i.dtype, rng) for i in graph.inputs]
    with np.errstate(all="ignore"):
        wanted = body(candidate, graph, [x.copy() for x in given])
        arrays = Arrays(given)
        found = [arrays(node) for nodes in graph.outputs for node in nodes]
    return any(not same(w, f) for w, f in zip(wanted, found, strict=True))


def same(one: Any, other: Any) -> bool:
    """Whether two arrays hold the same bits of one type."""
    a, b = (
        np.ascontiguousarray(np.broadcast_to(x.reshape((1,) * (3 - x.ndim) + x.shape) if x.ndim < 3 else x, SHAPE))
        for x in (one, other)
    )
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


def compared(draws: int) -> tuple[int, list[str]]:
    """How many spellings were compared, and those that differ."""
    rng, count, wrong = random.Random(draws), 0, []
    for root in spec.opcodes():
        for form in spec.forms(root):
            for _ in range(draws):
                candidate = spelling(form, rng)
                differs = None if candidate is None else differing(candidate, count)
                count += differs is not None
                if differs:
                    wrong.append(candidate.op.text)
    return count, wrong


def test_graphs_are_bodies() -> None:
    """One spelling of each form whose body computes."""
    count, wrong = compared(1)

    assert wrong == []
    assert count > 150


@pytest.mark.parametrize("draws", [pytest.param(10, marks=pytest.mark.long), pytest.param(60, marks=pytest.mark.sweep)])
def test_many_graphs_are_bodies(draws: int) -> None:
    """Many of each."""
    assert compared(draws)[1] == []


def test_a_graph_is_made_once() -> None:
    """For modifiers and types, whoever asks."""
    (one,), (other,) = (matching.candidates("add", (type,)) for type in ("u32", "u64"))

    assert graph_of_spelling(one) is graph_of_spelling(one)
    assert graph_of_spelling(one) is not graph_of_spelling(other)


@pytest.mark.parametrize(
    ("mode", "b", "c", "lanes"),
    [
        ("down", 4, 31, [i + 4 if i + 4 < 32 else i for i in range(LANES)]),
        ("up", 4, 0, [i - 4 if i >= 4 else i for i in range(LANES)]),
        ("bfly", 4, 31, [i ^ 4 for i in range(LANES)]),
        ("idx", 4, (24 << 8) | 31, [(i & 24) | 4 for i in range(LANES)]),
    ],
)
def test_what_constants_decide_is_folded(mode: str, b: int, c: int, lanes: list[int]) -> None:
    """The lanes that a shuffle by constants reads are known before anything runs."""
    (candidate,) = [
        x for x in matching.candidates("shfl", ("sync", mode, "b32")) if x.form.n_dest == 1 and not x.illegal
    ]
    word = np.dtype(np.uint32)
    bind = Substitution([Node("input", (), word, 0), constant(b, word), constant(c, word)])
    ((result,),) = graph_of_spelling(candidate).outputs
    value, index = bind(result).args

    assert (value.op, index.op) == ("input", "lanes")
    assert index.value.tolist() == lanes


def test_what_has_no_graph() -> None:
    """A body that does more than arithmetic and accesses of memory says so."""
    (fence,) = matching.candidates("wgmma", ("fence", "sync", "aligned"))
    with pytest.raises(Untraceable, match="warpgroup"):
        graph_of_spelling(fence)

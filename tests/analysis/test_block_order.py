"""Blocks in an order that keeps loops together, and where ways meet, held against their definitions on random graphs; the
first launch of long code takes time in proportion to its length."""

from __future__ import annotations

import random
import time

import pytest

import warpsim
from ptx_text import module_head
from warpsim.analysis.flow import Block, Graph, loop_order


def graphs(seed: int, count: int) -> list[list[list[int]]]:
    """Flow graphs as code has them: most nodes go on to the next, some anywhere."""
    rng, found = random.Random(seed), []
    for _ in range(count):
        nodes = rng.randrange(1, 14)
        edges: list[list[int]] = []
        for node in range(nodes):
            ways = rng.choice([0, 1, 1, 2, 2]) if node + 1 < nodes else 0
            targets = [node + 1] if ways and node + 1 < nodes and rng.random() < 0.8 else []
            if ways == 2 or (ways and not targets):
                targets.append(rng.randrange(nodes))
            edges.append(list(dict.fromkeys(targets)))
        found.append(edges)
    return found


def reached(edges: list[list[int]], start: int, nodes: set[int]) -> set[int]:
    """What can be reached within some nodes."""
    found, work = {start}, [start]
    while work:
        new = {t for t in edges[work.pop()] if t in nodes} - found
        found |= new
        work += new
    return found


def wrong_order(edges: list[list[int]], order: list[int]) -> bool:
    """Whether a loop is not in one piece, or something stands before what leads to it: of the graph, and of every loop
    without its first node."""
    reach = {node: reached(edges, node, set(order)) for node in order}
    together = [[m for m in order if m in reach[n] and n in reach[m]] for n in order]
    place = {node: at for at, node in enumerate(order)}
    for node, loop in zip(order, together, strict=True):
        places = [place[m] for m in loop]
        if places != list(range(places[0], places[0] + len(loop))):
            return True
        if any(place[m] < place[node] and m not in loop for m in reach[node]):
            return True
    return any(
        len(loop) > 1 and wrong_order([[t for t in e if t in loop[1:]] for e in edges], loop[1:]) for loop in together
    )


def test_loops_stay_together() -> None:
    """Every node once, loops in one piece at every depth, what leads to something before it."""
    for edges in graphs(1, 400):
        order = loop_order(edges)

        assert sorted(order) == list(range(len(edges)))
        assert not wrong_order(edges, order)


def test_many_entries_into_loops_in_loops() -> None:
    """Deeper than loops with several entries are taken apart, every node is still there once, and they are together."""
    rng, count = random.Random(3), 300
    edges = [sorted({min(i + 1, count - 1), rng.randrange(1, count)}) for i in range(count)]
    order = loop_order([[1], *edges[1:-1], []])

    assert sorted(order) == list(range(count))
    assert (order[0], order[-1]) == (0, count - 1)


def test_ways_meet() -> None:
    """The first node, other than the block itself, without which there is no way from the block to the end."""
    for edges in graphs(2, 400):
        blocks = [Block(i, i + 1, i, tuple(targets)) for i, targets in enumerate(edges)]
        meets, every = Graph(blocks).post_dominators, set(range(len(edges)))
        ends = {i for i in every if not edges[i]}
        for node in every:
            if not reached(edges, node, every) & ends:
                assert meets[node] == len(edges)
                continue
            needed = [m for m in every - {node} if not reached(edges, node, every - {m}) & ends]
            nearest = [m for m in needed if not any(n in reached(edges, node, every - {m}) for n in needed if n != m)]
            assert meets[node] == (nearest[0] if nearest else len(edges))


def straight(count: int) -> str:
    """Products that wait long for their sums."""
    lines = [f"mul.f32 %f{i}, %f0, %f1;" for i in range(2, count + 2)]
    lines += [f"add.f32 %f{i + count}, %f{i}, %f0;" for i in range(2, count + 2)]
    return f".reg .f32 %f<{2 * count + 2}>; mov.f32 %f0, 0f3F800000; mov.f32 %f1, %f0;" + "\n".join(lines)


def branching(count: int) -> str:
    """Many small blocks."""
    lines = [f"setp.eq.u32 %p1, %r{i}, 7; @%p1 bra L{i}; add.u32 %r{i + 1}, %r{i}, 3; bra M{i};" for i in range(count)]
    joined = "".join(f"{line}\nL{i}: mov.u32 %r{i + 1}, 1;\nM{i}:" for i, line in enumerate(lines))
    return f".reg .b32 %r<{count + 1}>; .reg .pred %p1; mov.u32 %r0, 0;{joined}"


def nested(count: int) -> str:
    """Loops in loops."""
    heads = "".join(f"mov.u32 %r{i}, 0;\nL{i}:" for i in range(count))
    tails = "".join(
        f"add.u32 %r{i}, %r{i}, 1; setp.lt.u32 %p1, %r{i}, 1; @%p1 bra L{i};\n" for i in range(count - 1, -1, -1)
    )
    return f".reg .b32 %r<{count}>; .reg .pred %p1;{heads}{tails}"


def seconds(code: str) -> float:
    """CPU time to load and launch it for the first time."""
    text = module_head("sm_90", "8.3") + f".entry k() {{ {code} ret; }}"
    started = time.process_time()
    warpsim.load(text)["k"]((1,), (32,), ())
    return time.process_time() - started


@pytest.mark.long
@pytest.mark.parametrize(("code", "few", "many"), [(straight, 300, 1200), (branching, 120, 480), (nested, 60, 240)])
def test_first_launch_is_linear(code, few: int, many: int) -> None:
    """Four times the code takes four times as long, and not sixteen times."""
    seconds(code(10))

    assert any(seconds(code(many)) < 9 * seconds(code(few)) for _ in range(3))

"""Groups of threads that part and meet at random: each thread keeps its registers, against a dictionary of plain integers."""

import copy
import random
from types import SimpleNamespace

import numpy as np
import pytest

from warpsim.machine.control import part
from warpsim.machine.selection import Rect
from warpsim.machine.state.group import Visit
from warpsim.machine.values import Affine, as_array

U32 = np.dtype(np.uint32)
BODY = "mov.u32 r0, 1; mov.u32 r1, 2; add.u32 r2, r0, r1; add.u32 r3, r2, r2;"


def value_for(group, generator):
    """A value that a step might leave, and the integers of its threads."""
    shape, n = group.selection.shape, group.selection.n
    kind = generator.choice(["constant", "one", "array", "affine", "axes", "float"])
    number = generator.randrange(1 << 32)
    if kind == "constant":
        return Affine.constant(number, U32), [number] * n
    if kind == "one":
        return np.full((1,) * len(shape), number, U32), [number] * n
    if kind == "affine" and isinstance(group.selection, Rect):
        strides = tuple(generator.randrange(1000) if e > 1 else 0 for e in shape)
        value = Affine(number, strides, shape, U32)
        return value, [
            (number + sum(s * i for s, i in zip(strides, at, strict=True))) & 0xFFFFFFFF for at in np.ndindex(shape)
        ]
    if kind == "axes":
        axes = [e if generator.random() < 0.5 else 1 for e in shape]
        value = np.random.default_rng(number).integers(0, 1 << 32, axes, np.uint32)
        return value, np.broadcast_to(value, shape).reshape(-1).tolist()
    value = np.random.default_rng(number).integers(0, 1 << 32, shape, np.uint32)
    return (value.view(np.float32) if kind == "float" else value), value.reshape(-1).tolist()


def threads(group):
    """Flat positions."""
    return group.selection.positions.reshape(-1).tolist()


@pytest.mark.parametrize(("n_threads", "ctas"), [(40, 1), (64, 2), (33, 3)])
@pytest.mark.parametrize("seed", range(6))
def test_registers_follow_their_threads(stage, n_threads, ctas, seed):
    """Whatever is set, cut and joined, and in copies of the state, too."""
    generator = random.Random(f"{seed}/{n_threads}")
    s = stage(n_threads, ctas, body=BODY)
    groups = [s.group()]
    known = {(p, r): 0 for p in threads(groups[0]) for r in range(4)}
    for _ in range(60):
        group = generator.choice(groups)
        action = generator.choice(["set", "set", "divide", "part", "merge", "copy"])
        if action == "set":
            register = generator.randrange(4)
            value, integers = value_for(group, generator)
            group.set(register, value)
            known.update({(p, register): i for p, i in zip(threads(group), integers, strict=True)})
        elif action in ("divide", "part") and group.selection.n > 1:
            flags = np.array([generator.random() < 0.5 for _ in range(group.selection.n)])
            if generator.random() < 0.5:
                flags = np.arange(group.selection.n) % generator.choice([2, 3, 5]) == 0
            flags[0], flags[-1] = True, False
            mask = flags.reshape(group.selection.shape)
            groups.remove(group)
            parts = s.machine.divide(group, mask) if action == "divide" else part(s.machine, group, mask)
            for one, wanted in zip(parts, (flags, ~flags), strict=True):
                assert threads(one) == [p for p, f in zip(threads(group), wanted, strict=True) if f]
            groups += parts
        elif action == "merge" and len(groups) > 1:
            chosen = generator.sample(groups, generator.randrange(2, len(groups) + 1))
            groups = [g for g in groups if not any(g is c for c in chosen)] + [s.machine.merge(chosen, None)]
        elif action == "copy":
            groups, before = copy.deepcopy(groups), groups
            for old in before:
                old.set(0, Affine.constant(12345, U32))
                old.flush(None)
            s.batch.frames = dict.fromkeys(s.batch.frames, groups[0].frame)
        for one in groups:
            for register in range(4):
                found = np.broadcast_to(as_array(one.read(register)).view(U32), one.selection.shape).reshape(-1)
                assert found.tolist() == [known[p, register] for p in threads(one)]
    assert sorted(p for g in groups for p in threads(g)) == sorted({p for p, _ in known})


def test_groups_that_may_join(stage):
    """Groups stand at one place if block, step, function, calls and frames are the same."""
    s = stage(64)
    one, other = s.group(*range(32)), s.group(*range(32, 64))
    assert one.same_place(other)
    for name, value in (("block", 1), ("at", 1), ("plan", None), ("stack", ((None, 0, 0, 0),)), ("local_base", 16)):
        changed = s.group(*range(32, 64))
        setattr(changed, name, value)
        assert not one.same_place(changed)
        assert not changed.same_place(one)


def test_the_order_of_groups(stage):
    """By generation, then by the blocks of the call stack, outermost first, then by step."""
    s = stage(64)
    made = []
    for generation, stack, block, at in ((0, (), 3, 9), (0, ((None, 4, 0, 0),), 0, 0), (0, ((None, 4, 0, 0), (None, 1, 0, 0)), 7, 2), (0, (), 5, 0), (1, (), 0, 0)):  # fmt: skip
        group = s.group(generation=generation)
        group.stack, group.block, group.at = stack, block, at
        made.append(group)
    keys = [group.order for group in made]

    assert [group.key for group in made] == [(3, 9), (4, 0, 0), (4, 1, 7, 2), (5, 0), (0, 0)]
    assert keys == sorted(keys)
    made[0].block = 8
    assert made[0].order == keys[0]  # it stays where it is until it is taken


@pytest.mark.parametrize(
    ("stack", "block", "mine", "inside"),
    [
        ((), 2, True, True),
        ((), 3, True, True),
        ((), 4, True, False),
        ((), 2, False, False),
        ((("own", 3),), 0, False, True),
        ((("own", 3), ("other", 9)), 0, False, True),
        ((("own", 5),), 0, False, False),
        ((("other", 3),), 0, False, False),
    ],
)
@pytest.mark.parametrize("depth", [0, 1])
def test_whether_a_group_is_still_in_a_loop(stack, block, mine, inside, depth):
    """In its blocks, or in a function that was called from one; not in another activation of the loop's function."""
    plans = {name: SimpleNamespace(loop=lambda head: SimpleNamespace(blocks={2, 3})) for name in ("own", "other")}
    outer = ((plans["other"], 1, 2, 0),) * depth
    visit = Visit(plans["own"], outer, 2, (0, 0), [])
    calls = tuple((plans[name], at, at + 1, 0) for name, at in stack)
    group = SimpleNamespace(stack=outer + calls, plan=plans["own" if mine else "other"], block=block)

    assert visit.encloses(group) == inside
    if depth:
        group.stack = calls
        assert not visit.encloses(group)

"""What groups of threads leave in a frame, at once or when others ask, is what each thread wrote last."""

import copy
import pickle
import random
from types import SimpleNamespace

import numpy as np

from warpsim.machine.selection import Rect, Shape, from_positions
from warpsim.machine.state.group import KEPT, Frame, Group
from warpsim.machine.values import Affine

SHAPE, REGISTERS = Shape(2, 8, 1, 4), 3
PLAN = SimpleNamespace(n_registers=REGISTERS, zeros=[np.zeros(1, np.uint32)] * REGISTERS)


def some_threads(draw):
    """Threads in steps along each axis, or any."""
    if draw.random() < 0.2:
        return from_positions(SHAPE, np.array(sorted(draw.sample(range(SHAPE.n), draw.randrange(1, 9)))))
    axes = []
    for extent in SHAPE.extents:
        start, step = draw.randrange(extent), draw.choice([1, 1, 2])
        axes.append((start, step, draw.randrange(1, (extent - 1 - start) // step + 2)))
    return Rect(SHAPE, tuple(axes))


def some_values(draw, selection):
    """A value of each thread, one for all, or one that is affine in the thread."""
    first, kind = draw.randrange(1 << 20), draw.randrange(3)
    if kind == 0 and len(selection.shape) == 4:
        return Affine(first, (0, 3, 0, 0), selection.shape, np.dtype(np.uint32))
    if kind == 1:
        return np.full((1,) * len(selection.shape), first, np.uint32)
    return np.arange(first, first + selection.n, dtype=np.uint32).reshape(selection.shape)


def test_random_groups():
    """Groups that come back, overlap or are new write and read; the model is one array for each register."""
    for seed in range(10):
        draw = random.Random(seed)
        known = [SHAPE.whole, *(some_threads(draw) for _ in range(draw.choice([3, 2 * KEPT])))]
        frame, model = Frame([None] * REGISTERS), np.zeros((REGISTERS, SHAPE.n), np.uint32)
        shadows = np.zeros((REGISTERS, SHAPE.n), np.uint32)
        kept = 0
        for _ in range(150):
            selection = draw.choice(known) if draw.random() < 0.9 else some_threads(draw)
            threads, positions = Group(frame, selection, PLAN, (), 0, 0, 0), selection.positions.reshape(-1)
            if draw.random() < 0.8:
                threads.recall()
            live = None if draw.random() < 0.5 else frozenset(draw.sample(range(REGISTERS), draw.randrange(REGISTERS)))
            for index in draw.sample(range(REGISTERS), draw.randrange(REGISTERS + 1)):
                found = threads.read(index)
                found = found.array() if type(found) is Affine else found
                assert np.broadcast_to(found, selection.shape).reshape(-1).tolist() == model[index, positions].tolist()
                shadow = threads.shadow("s", index)
                shadow = np.zeros(1, np.uint32) if shadow is None else shadow
                assert (
                    np.broadcast_to(shadow, selection.shape).reshape(-1).tolist() == shadows[index, positions].tolist()
                )
            for index in draw.sample(range(REGISTERS), draw.randrange(REGISTERS + 1)):
                value = some_values(draw, selection)
                threads.set(index, value)
                value = value.array() if type(value) is Affine else value
                shadow = np.zeros(1, np.uint32) if draw.random() < 0.8 else value | np.uint32(1)
                threads.set_shadow("s", index, shadow if shadow.any() else None)
                if live is None or index in live:
                    shadows[index, positions] = np.broadcast_to(shadow, selection.shape).reshape(-1)
                    model[index, positions] = np.broadcast_to(value, selection.shape).reshape(-1)
            threads.flush(live)
            kept += bool(frame._left)
            if draw.random() < 0.05:
                frame = draw.choice([copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))])(frame)
        assert kept > 20
        for index, value in enumerate(frame.values):
            if value is not None:
                value = value.array() if type(value) is Affine else value
                assert np.broadcast_to(value, SHAPE.extents).reshape(-1).tolist() == model[index].tolist()


def test_groups_side_by_side():
    """What a group has changed stays its own when others write, though these are threads here and there, not seen to be others."""
    frame, some = Frame([None] * REGISTERS), Rect(SHAPE, ((0, 1, 1), (0, 1, 4), (0, 1, 1), (0, 1, 4)))
    mine = some.positions.reshape(-1)
    others = from_positions(SHAPE, np.setdiff1d(np.arange(SHAPE.n), mine)[[0, 1, 3, 7]])
    for _ in range(2):  # what threads know is kept when they come again
        one = Group(frame, some, PLAN, (), 0, 0, 0)
    one.recall()
    one.set(0, np.full(some.shape, 7, np.uint32))
    one.set(1, np.full(some.shape, 8, np.uint32))
    beside = Group(frame, others, PLAN, (), 0, 0, 0)
    beside.set(0, np.full(others.shape, 9, np.uint32))
    beside.flush()

    assert one.read(0).tolist() == np.full(some.shape, 7).tolist()
    one.flush(frozenset({0}))
    again = Group(frame, some, PLAN, (), 0, 0, 0)
    again.recall()
    assert (again.read(0) == 7).all()
    assert (again.read(1) == 0).all()
    whole = np.broadcast_to(Group(frame, SHAPE.whole, PLAN, (), 0, 0, 0).read(0), SHAPE.extents).reshape(-1)
    assert (whole[mine] == 7).all()
    assert (whole[others.positions] == 9).all()

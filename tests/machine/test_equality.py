"""Equality of states: what differs is found, and named by its path; caches and identities do not count."""

import attrs
import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from state_equality import difference, equal
from warpsim.machine.selection import Shape, from_positions
from warpsim.machine.values import Affine

U32 = np.dtype(np.uint32)


@attrs.define(eq=False)
class Thing:
    """A state with a cache."""

    value: object
    cache: object = None

    CACHES = frozenset({"cache"})


class Slotted:
    """Slots, some of them of a base class, one never set."""

    __slots__ = ("first",)

    def __init__(self, first):
        self.first = first


class More(Slotted):
    """One slot, given as a single name; and attributes."""

    __slots__ = "second"


class Attributes(More):
    """With a dictionary."""


def attributes(first, second, third):
    """An object with all three kinds of fields."""
    made = Attributes(first)
    made.second, made.third = second, third
    return made


def loop(value):
    """A list that contains itself."""
    made = [value]
    made.append(made)
    return made


def threads(*positions):
    """Threads of a batch of 64."""
    return from_positions(Shape(1, 32, 1, 2), np.array(positions))


PAIRS = [
    (1, 1, None),
    (1, 2, ": 1 and 2"),
    (1, 1.0, ": int and float"),
    (True, 1, ": bool and int"),
    ("a", "b", ": 'a' and 'b'"),
    (float("nan"), float("nan"), None),
    ([1, 2], [1, 2], None),
    ([1, 2], [1, 2, 3], ": 2 and 3 elements"),
    ([1, [2, 3]], [1, [2, 4]], "[1][1]: 3 and 4"),
    ((1, 2), [1, 2], ": tuple and list"),
    ({"a": 1}, {"a": 2}, "['a']: 1 and 2"),
    ({"a": 1}, {"b": 1}, ": keys ['a', 'b']"),
    ({"a": 1}, {"a": 1, "b": 2}, ": keys ['b']"),
    ({1, 2}, {2, 1}, None),
    ({1, 2}, {1, 3}, ": {1, 2} and {1, 3}"),
    (np.arange(3), np.arange(3), None),
    (np.arange(3), np.arange(4), "."),
    (np.arange(3, dtype=U32), np.arange(3, dtype=np.int32), "."),
    (np.arange(4).reshape(2, 2), np.arange(4), "."),
    (np.array([np.nan, 0.0]), np.array([np.nan, 0.0]), None),
    (np.array([0.0]), np.array([-0.0]), "."),
    (np.arange(6).reshape(2, 3).T, np.array([[0, 3], [1, 4], [2, 5]]), None),
    (np.arange(6).reshape(2, 3).T, np.array([[0, 3], [1, 4], [2, 6]]), "."),
    ([np.arange(3)], [np.arange(1, 4)], "[0]"),
    (np.array([[1], "x"], object), np.array([[1], "x"], object), None),
    (np.array([[1], "x"], object), np.array([[2], "x"], object), "."),
    (Thing(1, 2), Thing(1, 3), None),
    (Thing(1), Thing(2), ".value: 1 and 2"),
    (Thing([Thing(1)]), Thing([Thing(3)]), ".value[0].value: 1 and 3"),
    (attributes(1, 2, 3), attributes(1, 2, 3), None),
    (attributes(1, 2, 3), attributes(0, 2, 3), ".first: 1 and 0"),
    (attributes(1, 2, 3), attributes(1, 0, 3), ".second: 2 and 0"),
    (attributes(1, 2, 3), attributes(1, 2, 0), ".third: 3 and 0"),
    (More(1), More(1), None),
    (loop(1), loop(1), None),
    (loop(1), loop(2), "[0]: 1 and 2"),
    (Affine.constant(1, U32), Affine.constant(1, U32), None),
    (Affine.constant(1, U32), Affine.constant(2, U32), "."),
    (Affine.constant(1, U32), Affine.constant(1, np.dtype(np.int32)), "."),
    (Affine(0, (0, 1, 0, 0), (1, 32, 1, 1), U32), Affine(0, (0, 2, 0, 0), (1, 32, 1, 1), U32), "."),
    (Affine(0, (0, 1, 0, 0), (1, 32, 1, 1), U32), Affine(0, (0, 1, 0, 0), (1, 64, 1, 1), U32), "."),
    (Shape(1, 32, 1, 2), Shape(1, 32, 1, 2), None),
    (Shape(1, 32, 1, 2), Shape(1, 32, 2, 1), "."),
    (threads(0, 5), threads(0, 5), None),
    (threads(0, 5), threads(0, 7), "."),
    ({Shape(1, 32, 1, 2): 1}, {Shape(1, 32, 1, 2): 2}, "[('shape', (1, 32, 1, 2))]: 1 and 2"),
    ([int, len], [int, len], None),
    ([int], [str], "[0]: <class 'int'> and <class 'str'>"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "expected"), PAIRS, ids=range(len(PAIRS)))
def test_pairs(one, other, expected):
    """The first difference, the same both ways round; a name alone stands for what has no values to show."""
    found, back = difference(one, other), difference(other, one)

    assert found == expected
    assert (found is None) == (back is None) == equal(one, other) == (expected is None)
    if expected and ": keys" not in expected and expected not in (".", "[0]"):
        path, _, values = expected.partition(": ")
        mirrored = " and ".join(reversed(values.removesuffix(" elements").split(" and ")))
        assert back == f"{path}: {mirrored}{' elements' if values.endswith(' elements') else ''}"


def test_parts_of_a_plan():
    """Instructions, blocks and functions are those of one place in one text, though bound anew."""
    text = module_head() + ".visible .entry k() {{ .reg .b32 a; mov.u32 a, {}; {} ret; }}"
    plans = [
        warpsim.load(text.format(n, more)).image(warpsim.Device("sm_80")).plan("k")
        for n, more in ((1, ""), (1, ""), (2, "bar.sync 0;"))
    ]
    first, same, other = [plan.main.function.code[0] for plan in plans]

    assert equal(plans[0], plans[1])
    assert equal([first], [same])
    assert not equal([plans[0].main.function.code[0]], [plans[0].main.function.code[-1]])
    assert equal(plans[0].main.blocks[0], plans[1].main.blocks[0])
    assert equal({plans[0].main.blocks[0]: 1}, {plans[1].main.blocks[0]: 1})
    assert equal(plans[0].main, plans[1].main)
    assert not equal(plans[0], plans[0].main)
    assert other is not first

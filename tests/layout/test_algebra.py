"""Laws of layouts, with values counted by hand or by plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsim.layout.algebra import Layout


def test_values_by_hand():
    """The first mode runs fastest; a coordinate and its index give the same."""
    layout = Layout.parse("((2,2),3):((1,6),2)")

    assert [layout(i) for i in range(12)] == [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11]
    assert layout(3, 2) == 7 + 4
    assert layout.size == 12
    assert repr(layout) == "((2,2),3):((1,6),2)"
    assert layout.is_bijection


def test_malformed():
    """Shape and stride are nested alike; a spelling that is none is refused."""
    for text in ("(2,2):1", "2", "(2,x):(1,2)", ""):
        with pytest.raises(ValueError, match=r"not a shape|not nested"):
            Layout.parse(text)


@st.composite
def bijections(draw):
    """Layouts onto 0 to size - 1: axes of a box in any order."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4, 8]), min_size=1, max_size=4))
    order = draw(st.permutations(range(len(sizes))))
    strides, reach = [0] * len(sizes), 1
    for axis in order:
        strides[axis] = reach
        reach *= sizes[axis]
    return Layout(tuple(sizes), tuple(strides))


@settings(max_examples=60, deadline=None)
@given(bijections())
def test_inverse(layout):
    """A bijection takes every value once; its inverse undoes it."""
    everything = np.arange(layout.size)

    assert sorted(layout(everything).tolist()) == everything.tolist()
    assert layout.is_bijection
    assert (layout(layout.right_inverse()(everything)) == everything).all()


@pytest.mark.parametrize(
    ("text", "bijection", "onto"),
    [("(2,4):(4,1)", True, True), ("(2,4):(1,1)", False, False), ("(2,4):(0,1)", False, True), ("2:2", False, False)],
)
def test_bijection(text, bijection, onto):
    """Overlap and gaps are seen; repeats (stride 0) are told apart from them."""
    layout = Layout.parse(text)

    assert (bijection, onto) == (layout.is_bijection, layout.is_onto)


def test_modes_of_a_number():
    """A layout of one number has none."""
    for layout in (Layout(8, 1), Layout.parse("8:2")):
        with pytest.raises(IndexError, match="has no modes"):
            layout[0]
    assert Layout.parse("(4,8):(1,4)")[1] == Layout(8, 4)

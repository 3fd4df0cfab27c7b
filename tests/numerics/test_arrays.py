"""Views of arrays over larger shapes."""

import numpy as np
import pytest

from warpsim.numerics.arrays import spread

ARRAY = np.arange(12, dtype=np.uint32).reshape(3, 4)


@pytest.mark.parametrize(
    ("array", "shape"),
    [
        (ARRAY, (3, 4)),
        (ARRAY, (2, 3, 4)),
        (ARRAY.T[:, ::-1], (2, 4, 3)),
        (ARRAY[:, :1], (3, 5)),
        (ARRAY[:1, :0], (3, 0)),
        (np.array(7.0), (1, 2)),
        (np.uint8(3), (2, 2)),
    ],
)
def test_spread(array, shape):
    """As NumPy's own, and what is repeated cannot be written."""
    view, wanted = spread(array, shape), np.broadcast_to(array, shape)

    assert (view.dtype, view.shape, view.tolist()) == (wanted.dtype, shape, wanted.tolist())
    assert view is array or not view.flags.writeable


@pytest.mark.parametrize("shape", [(4,), (3, 5), (4, 3), ()])
def test_shapes_that_do_not_fit(shape):
    """NumPy's error."""
    with pytest.raises(ValueError, match=r"dimensions|broadcast"):
        spread(ARRAY, shape)

"""Where arrays are."""

import numpy as np
import pytest

from warpsim.native.addresses import address_of


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32),
        np.arange(6)[2:],
        np.zeros((2, 3, 4)).transpose(2, 0, 1)[1:, :, ::2],
        np.frombuffer(b"read-only", np.uint8)[1:],
        np.broadcast_to(np.zeros(1), (4, 4)),
    ],
    ids=["whole", "part", "strided", "read-only", "repeated"],
)
def test_addresses_are_those_that_numpy_tells(array):
    """Whatever the layout of an array."""
    assert address_of(array) == array.__array_interface__["data"][0]

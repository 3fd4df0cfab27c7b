"""Names of addresses in shared memory."""

import pytest

from warpsim.analysis.shared_layout import SharedLayout

VARIABLES = (("a", 0, 4), ("b", 16, 8), ("c", 24, 4), ("one", 32, 0), ("other", 32, 0))
LAYOUT = SharedLayout({}, dynamic=32, open=True, variables=VARIABLES)


@pytest.mark.parametrize(("address", "name"), [
    (0, "a"),
    (3, "a+0x3"),
    (4, ""),
    (15, ""),
    (16, "b"),
    (23, "b+0x7"),
    (24, "c"),
    (28, ""),
    (32, "one"),
    (63, "one+0x1f"),
    (64, ""),
    (-4, ""),
])  # fmt: skip
def test_names(address, name):
    """The variable that contains the address: dynamic ones go on to the end; between variables there is none."""
    assert name == LAYOUT.name(address, 64)

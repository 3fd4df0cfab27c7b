"""A plugin of pytest for tinygrad's tests on its mock GPU: those that skip themselves there run too.

    DEV=MOCK+CUDA:PTX python -m pytest -p warpsim.compat.tinygrad -p tinygrad_plugin test/backend/test_randomness.py

What the tests ask is whether ``DEV`` names a mock interface; to them alone it does not.
"""

import pytest


class Hardware:
    """tinygrad's ``DEV``, with an interface that is not a mock one."""

    interface = ""

    def __init__(self, variable):
        self._variable = variable

    def __getattr__(self, name):
        return getattr(self._variable, name)


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    """Open the device while ``DEV`` still names the mock GPU; the tests' modules are imported later."""
    import test.helpers  # noqa: F401
    import tinygrad.helpers
    from tinygrad import Device, Tensor

    Device[Device.DEFAULT].renderer, (Tensor([1.0]) + 1).numpy()
    tinygrad.helpers.DEV = Hardware(tinygrad.helpers.DEV)

"""The libraries' functions as C calls them, with a driver of its own for each test."""

import ctypes

import pytest

from warpsim.driver.abi import binding
from warpsim.driver.abi.calls import CALLS, PROCESS, guarded


@pytest.fixture
def call(monkeypatch):
    """A function of a library by its name; arguments are numbers, or what ctypes has the address of."""
    for names in CALLS:
        binding.declared(names)
    monkeypatch.setattr(PROCESS, "_driver", None)
    monkeypatch.setattr(PROCESS, "_contexts", [])
    monkeypatch.setattr(PROCESS, "thread", type(PROCESS.thread)())
    monkeypatch.setenv("WARPSIM_QUIET", "1")
    monkeypatch.delenv("WARPSIM_DEVICE", raising=False)

    def made(name, *arguments):
        found = next(calls[name] for calls in CALLS.values() if name in calls)
        assert len(found.kinds) >= len(arguments)
        return guarded(found)(
            *(ctypes.addressof(a) if isinstance(a, (ctypes._SimpleCData, ctypes.Array)) else a for a in arguments)
        )

    return made


@pytest.fixture
def load(call):
    """A module's handle, of its text."""

    def made(text):
        image, module = ctypes.create_string_buffer(text.encode()), ctypes.c_uint64()
        assert call("cuModuleLoadData", module, image) == 0
        return module.value

    return made

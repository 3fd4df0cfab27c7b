"""The libraries' functions as C calls them, with a driver of its own for each test."""

import ctypes

import pytest

from driver_calls import KERNELS, string
from warpsim.driver.abi import binding
from warpsim.driver.abi.calls import CALLS, TYPES, guarded
from warpsim.driver.abi.process import PROCESS, Handles


class Words:
    """Calls functions whose results are one or two words behind pointers."""

    def __init__(self, call):
        self.call = call

    def __call__(self, name, *arguments, status=0):
        """Numbers, and ``...`` for each word that the function stores: these, or the only one."""
        cells = [ctypes.c_uint64(0) if a is ... else a for a in arguments]
        assert self.call(name, *cells) == status, name
        found = [c.value for c, a in zip(cells, arguments, strict=True) if a is ...]
        return found[0] if len(found) == 1 else found


NEW = {
    "_driver": lambda: None,
    "initialized": bool,
    "runtime": int,
    "_contexts": list,
    "handles": Handles,
    "objects": dict,
    "thread": type(PROCESS.thread),
}
"""What a process is that has not called the driver."""


@pytest.fixture
def call(monkeypatch):
    """A function of a library by its name; arguments are numbers, or what ctypes has the address of.

    The driver is initialised; ``call.renew()`` makes the process as new.
    """
    for names in CALLS:
        binding.declared(names)
    for name, value in NEW.items():
        monkeypatch.setattr(PROCESS, name, value())
    PROCESS.initialized = True
    monkeypatch.setenv("WARPSIM_QUIET", "1")
    monkeypatch.delenv("WARPSIM_DEVICE", raising=False)

    def made(name, *arguments):
        found = next(calls[name] for calls in CALLS.values() if name in calls)
        assert len(found.kinds) >= len(arguments)
        words = [ctypes.addressof(a) if isinstance(a, (ctypes._SimpleCData, ctypes.Array)) else a for a in arguments]
        words += [0] * (len(found.kinds) - len(words))
        types = (TYPES.get(kind, ctypes.c_uint64) for kind in found.kinds)
        return guarded(found)(*(kind(word).value for kind, word in zip(types, words, strict=True)))

    def renew():
        for name, value in NEW.items():
            setattr(PROCESS, name, value())

    made.renew = renew
    return made


@pytest.fixture
def load(call):
    """A module's handle, of its text."""

    def made(text):
        image, module = ctypes.create_string_buffer(text.encode()), ctypes.c_uint64()
        assert call("cuModuleLoadData", module, image) == 0
        return module.value

    return made


@pytest.fixture
def words_of():
    """`Words`, made of a caller."""
    return Words


@pytest.fixture
def ask(call):
    """A driver with the device's context current."""
    words = Words(call)
    assert call("cuInit", 0) == 0
    words("cuCtxSetCurrent", words("cuDevicePrimaryCtxRetain", ..., 0))
    return words


@pytest.fixture
def functions(ask, load):
    """A module and its functions by name."""
    module = load(KERNELS)
    names = ("put", "ranks", "wide", "paired")
    return module, {name: ask("cuModuleGetFunction", ..., module, string(name)) for name in names}


@pytest.fixture
def words(ask):
    """Device memory of 16 words, all 0: its address, and what is in it."""
    address = ask("cuMemAlloc_v2", ..., 64)
    ask("cuMemsetD32_v2", address, 0, 16)

    def read():
        found = (ctypes.c_uint32 * 16)()
        ask("cuMemcpyDtoH_v2", found, address, 64)
        return list(found)

    return address, read

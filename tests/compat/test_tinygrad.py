"""tinygrad's mock GPU without tinygrad: memory as its modules keep it, and a kernel as it renders one."""

import ctypes
import sys
import types

import numpy as np
import pytest

import warpsim
from warpsim.compat import tinygrad

PTX = b""".version 7.5
.target sm_35
.address_size 64
.visible .entry E_4(.param .u64 data0, .param .u64 data1, .param .s32 n) {
    .reg .b64 %d<4>; .reg .b32 %r<4>;
    ld.param.u64 %d1, [data0]; ld.param.u64 %d2, [data1]; ld.param.s32 %r2, [n];
    mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;
    ld.global.s32 %r3, [%d2]; add.s32 %r3, %r3, %r2; st.global.s32 [%d1], %r3; ret;
}"""


@pytest.fixture
def memory(monkeypatch):
    """What ``test.mockgpu.cuda.cuda`` keeps: a view of each allocation by its address."""
    buffers = [np.zeros(4, np.int32), np.arange(4, dtype=np.int32)]
    state = types.SimpleNamespace(memory={b.ctypes.data: memoryview(b) for b in buffers})
    module = types.ModuleType("test.mockgpu.cuda.cuda")
    module.cuda_state = state
    monkeypatch.setitem(sys.modules, "test.mockgpu.cuda.cuda", module)
    return buffers


def launch(threads, *values):
    """A launch as the mock GPU makes it."""
    args = (ctypes.c_void_p * 3)(*values)
    tinygrad.ptx_run(ctypes.c_char_p(PTX), 3, args, threads, 1, 1, 1, 1, 1, 0)


def test_ptx_run(memory):
    """Pointers are the buffers' own addresses, integers as wide as the kernel has them."""
    out, given = memory
    launch(4, out.ctypes.data, given.ctypes.data, 2**64 - 3)

    assert out.tolist() == [-3, -2, -1, 0]


def test_parameters_with_room_between(memory):
    """Each parameter lies where its alignment puts it."""
    text = PTX.replace(
        b"param .u64 data0, .param .u64 data1, .param .s32 n",
        b"param .s32 n, .param .u64 data0, .param .s32 m, .param .u64 data1",
    )
    out, given = memory
    args = (ctypes.c_void_p * 4)(7, out.ctypes.data, 9, given.ctypes.data)
    tinygrad.ptx_run(ctypes.c_char_p(text), 4, args, 4, 1, 1, 1, 1, 1, 0)

    assert out.tolist() == [7, 8, 9, 10]


def test_out_of_bounds(memory):
    """What lies beyond a buffer is not the kernel's."""
    out, given = memory
    with pytest.raises(warpsim.ExecutionError, match="out-of-bounds"):
        launch(5, out.ctypes.data, given.ctypes.data, 1)


def test_error_text(memory):
    """tinygrad asks the mock driver for the text of an error by a pointer to a pointer; the text is the finding's."""
    out, given = memory
    with pytest.raises(warpsim.ExecutionError):
        launch(5, out.ctypes.data, given.ctypes.data, 1)
    pointer = ctypes.POINTER(ctypes.c_char)()

    assert sys.modules["test.mockgpu.cuda.cuda"].cuGetErrorString(719, ctypes.byref(pointer)) == 0
    assert b"out-of-bounds" in ctypes.string_at(pointer)


def test_printed_errors(monkeypatch):
    """The mock NV driver prints an error and goes on: the test's teardown raises it, once."""
    monkeypatch.setitem(sys.modules, "test.mockgpu.cuda.cuda", None)
    tests = tinygrad.Tests()
    with pytest.raises(warpsim.PtxError):
        tests.ptx_run(b".version 7.5 .target sm_35 .entry E() { none; }", 0, (), 1, 1, 1, 1, 1, 1, 0)
    with pytest.raises(warpsim.PtxError):
        tests.pytest_runtest_teardown(None)

    tests.pytest_runtest_teardown(None)


def test_install(monkeypatch):
    """Modules that have the function get ours."""
    helpers, cuda = types.ModuleType(tinygrad.HELPERS), types.ModuleType(tinygrad.USERS[0])
    for name, module in ((tinygrad.HELPERS, helpers), (tinygrad.USERS[0], cuda)):
        monkeypatch.setitem(sys.modules, name, module)
    tinygrad.install()

    assert helpers.ptx_run is cuda.ptx_run is tinygrad.ptx_run

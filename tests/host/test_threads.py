"""Threads that launch at once: on one device one after the other, on several side by side, always with the right values."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import warpsim

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .f32 a) {
    .reg .f32 %f<5>; .reg .b64 %d<5>; .reg .b32 %r<5>;
    ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.f32 %f1, [a];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r1, %r1, 128, %r2;
    mul.wide.u32 %d3, %r1, 4; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;
    ld.global.f32 %f2, [%d1]; ld.global.f32 %f3, [%d2];
    fma.rn.f32 %f3, %f2, %f1, %f3; fma.rn.f32 %f3, %f2, %f1, %f3; fma.rn.f32 %f3, %f2, %f1, %f3;
    st.global.f32 [%d2], %f3;
    ret;
}"""


@pytest.fixture(autouse=True)
def often():
    """Python changes threads a thousand times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def launch(module, device, number, check_memory=True):
    """A launch with numbers of its own: whether the result is right."""
    x = np.arange(16384, dtype=np.float32) + number
    y = np.full(16384, number, np.float32)
    module["k"]((128,), (128,), (x, y, float(number)), device=device)
    if check_memory:
        kept = device.array(x)
        y += kept.get() - x
        kept.free()
    return bool((y == x * number * 3 + number).all())


def everywhere(tasks):
    """The results of calls that run in four threads, all at once."""
    gate = threading.Barrier(4)

    def run(k):
        gate.wait()
        return [task() for task in tasks[k::4]]

    with ThreadPoolExecutor(4) as pool:
        return [r for part in pool.map(run, range(4)) for r in part]


def test_one_device():
    """Launches on one device are ordered, and arrays come and go between them."""
    module, device = warpsim.load(KERNEL), warpsim.Device("sm_80")

    assert all(everywhere([lambda n=n: launch(module, device, n) for n in range(40)]))


def test_a_device_for_each_thread():
    """Nothing is shared between devices but modules."""
    module, devices = warpsim.load(KERNEL), [warpsim.Device("sm_80") for _ in range(4)]

    assert all(everywhere([lambda n=n: launch(module, devices[n % 4], n) for n in range(80)]))


def test_the_module_s_own_device():
    """The device that nobody names is one for all threads; so is the memory of the module's variables."""
    module = warpsim.load(KERNEL)

    found = everywhere([lambda: module.device] * 8)

    assert len({id(d) for d in found}) == 1


def test_loading():
    """Modules are loaded by several threads at once."""
    texts = [p.read_text() for p in sorted(Path(__file__).parents[2].glob("programs/*/kernel.ptx"))[:4]] * 2

    assert all(everywhere([lambda t=t: bool(warpsim.load(t).kernels) for t in texts]))

"""Arguments and limits of a launch."""

from pathlib import Path

import numpy as np
import pytest

import warpsim
from ptx_text import module_head

SAXPY = Path(__file__).parents[2] / "programs" / "saxpy" / "kernel.ptx"


@pytest.fixture
def saxpy():
    """The kernel y = a*x + y (n, a, x, y)."""
    return warpsim.load(SAXPY)["saxpy"]


def test_arrays_are_mapped_in_place(saxpy):
    """What the kernel writes is in the caller's array afterwards."""
    x, y = np.arange(8, dtype=np.float32), np.ones(8, np.float32)

    saxpy((1,), (32,), (8, 2.0, x, y))

    assert y.tolist() == [2.0 * i + 1 for i in range(8)]


def test_same_array_is_the_same_address(saxpy):
    """An array passed twice is read and written at one address."""
    x = np.ones(8, np.float32)

    saxpy((1,), (32,), (8, 2.0, x, x))

    assert x.tolist() == [3.0] * 8


def test_overlapping_views_share_their_bytes(saxpy):
    """A view and its base see the same memory, also where the view comes first."""
    base = np.ones(16, np.float32)

    saxpy((1,), (32,), (8, 2.0, base[4:12], base))

    assert base.tolist() == [3.0] * 8 + [1.0] * 8


def test_adjacent_arrays_are_apart(saxpy):
    """Views that only touch are separate allocations: running over the end of one is found."""
    base = np.ones(16, np.float32)

    with pytest.raises(warpsim.ExecutionError) as caught:
        saxpy((1,), (32,), (16, 2.0, base[8:], base[:8]))

    assert caught.value.findings[0].rule == "out-of-bounds"


def test_device_array_outlives_a_launch(saxpy):
    """A DeviceArray keeps its address and contents from launch to launch."""
    device = warpsim.Device("sm_80")
    x, y = device.array(np.ones(8, np.float32)), device.array(np.zeros(8, np.float32))

    for _ in range(2):
        saxpy((1,), (32,), (8, 2.0, x, y.ptr), device=device)

    assert y.get().tolist() == [4.0] * 8


def test_read_only_array(saxpy):
    """A store to a read-only array is refused and changes nothing."""
    x, y = np.ones(8, np.float32), np.ones(8, np.float32)
    y.flags.writeable = False

    with pytest.raises(warpsim.ExecutionError) as caught:
        saxpy((1,), (32,), (8, 2.0, x, y))

    assert caught.value.findings[0].rule == "read-only"
    assert y.tolist() == [1.0] * 8


@pytest.mark.parametrize(
    ("grid", "block", "args", "options", "words"),
    [
        ((1,), (32,), (8, 2.0), {}, "takes 4 arguments, not 2"),
        ((1,), (32,), (2**32, 2.0, None, None), {}, "argument 0"),
        ((1,), (32,), (8, "2", None, None), {}, "argument 1"),
        ((1,), (32,), (8, 2.0, 1.5, None), {}, "argument 2"),
        ((1,), (32,), (8, 2.0, np.ones((4, 4))[:, :2], None), {}, "C-contiguous"),
        ((0,), (32,), (8, 2.0, None, None), {}, "grid"),
        ((1,), (32, 64), (8, 2.0, None, None), {}, "1024"),
        ((1,), (32,), (8, 2.0, None, None), {"shared_mem": 1 << 20}, "shared memory"),
        ((3,), (32,), (8, 2.0, None, None), {"cluster": 2}, "clusters"),
        ((1,), (32,), (8, 2.0, None, None), {"checks": "everything"}, "neither a rule"),
        ((1,), (32,), (8, 2.0, None, None), {"on_finding": "ignore"}, "on_finding"),
    ],
)
def test_what_does_not_fit_is_refused(saxpy, grid, block, args, options, words):
    """Each unusable argument is a LaunchError that names it."""
    with pytest.raises(warpsim.LaunchError, match=words):
        saxpy(grid, block, args, **options)


def test_device_too_old():
    """A module for sm_80 does not run on sm_75."""
    with pytest.raises(warpsim.LaunchError, match="cannot run it"):
        warpsim.load(SAXPY)["saxpy"]((1,), (32,), (0, 2.0, None, None), device=warpsim.Device("sm_75"))


def test_tensor_map_of_a_numpy_array():
    """A TensorMap holds the address at which its array, passed beside it, is mapped."""
    text = """
    .version 8.0
    .target sm_90
    .address_size 64
    .visible .entry k(.param .align 64 .b8 map[128], .param .u64 array, .param .u64 out)
    {
        .reg .b64 %rd<4>;
        ld.param.u64 %rd0, [out];
        ld.param.u64 %rd1, [map];
        ld.param.u64 %rd2, [array];
        st.global.u64 [%rd0], %rd1;
        st.global.u64 [%rd0+8], %rd2;
        ret;
    }
    """
    array, out = np.zeros((16, 64), np.float16), np.zeros(2, np.uint64)
    tensor = warpsim.TensorMap(array, global_dim=(64, 16), global_strides=(128,), box_dim=(32, 8))

    warpsim.load(text)["k"]((1,), (1,), (tensor, array, out))

    assert tensor.encode(int(out[1]))[:8] == out[:1].tobytes()


def test_objects_have_no_bytes():
    """An array of Python objects is refused before anything is placed."""
    with pytest.raises(warpsim.LaunchError, match="objects"):
        warpsim.Device("sm_80").array([object()])


def test_array_of_another_device():
    """An array that lives elsewhere is refused by name, not read as a stray address."""
    text = ".version 8.0 .target sm_80 .address_size 64\n.visible .entry k(.param .u64 p) { ret; }"
    device = warpsim.Device("sm_90a")
    array = device.array(np.zeros(4, np.float32))
    kernel = warpsim.load(text)["k"]

    kernel((1,), (1,), (array,), device=device)
    with pytest.raises(warpsim.LaunchError, match="is not on"):
        kernel((1,), (1,), (array,))


@pytest.mark.parametrize(("target", "runs_on", "not_on"), [
    ("sm_90a", ["sm_90"], ["sm_80", "sm_100a"]),
    ("sm_100f", ["sm_100a", "sm_103a"], ["sm_90a", "sm_110a", "sm_120a"]),
    ("sm_120f", ["sm_120", "sm_121a"], ["sm_110a"]),
    ("sm_80", ["sm_80", "sm_90a", "sm_121a"], ["sm_75"]),
])  # fmt: skip
def test_targets_and_devices(target: str, runs_on: list[str], not_on: list[str]):
    """``a`` runs on one GPU, ``f`` on its generation from there on, others everywhere from there on (PTX ISA 11.1.2)."""
    kernel = warpsim.load(f".version 9.0 .target {target} .address_size 64\n.visible .entry k() {{ ret; }}")["k"]
    for name in runs_on:
        kernel((1,), (1,), (), device=warpsim.Device(name))
    for name in not_on:
        with pytest.raises(warpsim.LaunchError, match="cannot run it"):
            kernel((1,), (1,), (), device=warpsim.Device(name))


def test_parameters_as_they_are_declared():
    """A parameter of several bytes or words has its count, of two as of more."""
    text = module_head() + ".entry k(.param .u64 one, .param .b8 two[2], .param .f32 three[3]) { ret; }"

    assert [str(p) for p in warpsim.load(text)["k"].params] == [".u64 one", ".b8 two[2]", ".f32 three[3]"]

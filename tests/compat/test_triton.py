"""The parts of the Triton adapter that need no Triton, and a kernel where Triton is installed."""

import importlib.util
import pickle
import sys
import types

import ml_dtypes
import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.compat import triton
from warpsim.compat.triton import install
from warpsim.errors import ExecutionError, Finding, LaunchError
from warpsim.layout import tensor_map as layout


@pytest.mark.parametrize(
    ("kind", "value", "size", "expected"),
    [
        ("i32", -1, 4, b"\xff\xff\xff\xff"),
        ("i1", True, 1, b"\x01"),
        ("u64", 2**63, 8, b"\0\0\0\0\0\0\0\x80"),
        ("fp32", 1.5, 4, np.float32(1.5).tobytes()),
        ("fp16", 1.5, 2, np.float16(1.5).tobytes()),
        ("bf16", 1.5, 2, ml_dtypes.bfloat16(1.5).tobytes()),
        ("fp64", 0.1, 8, np.float64(0.1).tobytes()),
        ("*fp32", None, 8, bytes(8)),
        ("nvTmaDesc", bytes(range(128)), 128, bytes(range(128))),
    ],
)
def test_arguments(kind, value, size, expected):
    """Values take the form of their Triton types."""
    assert triton.packed(kind, value, size) == expected


def test_nested_arguments():
    """Tuples are flat in a kernel's parameters, and constants are not there."""
    array, found = triton.Arrays(np.zeros(4, np.float32)), []
    flat = list(
        triton.flattened(
            "xtn",
            ("*fp32", ("i32", "constexpr", ("*fp32",)), "constexpr"),
            (array, (1, 2, (array,)), 4),
            iter(()),
            found,
        )
    )

    assert flat == [("*fp32", array), ("i32", 1), ("*fp32", array)]
    assert found == [("x", array), ("t[2][0]", array)]


@pytest.mark.parametrize(
    "make",
    [lambda arg, metadata: [metadata, *arg.shape], lambda arg, metadata, _: [metadata, *arg.shape]],
    ids=["3.5", "3.8"],
)
def test_tensors_behind_descriptors(monkeypatch, make):
    """A descriptor's parameters are those that Triton makes of it, and its tensor is mapped for the launch."""
    for name in ("triton", "triton.backends", "triton.backends.nvidia"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    module = types.SimpleNamespace(make_tensordesc_arg=make)
    monkeypatch.setitem(sys.modules, "triton.backends.nvidia.driver", module)
    base, found = triton.Arrays(np.zeros(4)), []
    descriptor = types.SimpleNamespace(base=base, shape=[4])
    kinds = ("i32", ("tensordesc<fp32[4]>", "constexpr"), "tensordesc<fp32[4]>")
    flat = list(triton.flattened("nab", kinds, (1, (descriptor, 2), descriptor), iter(["first", "second"]), found))

    assert flat == [("i32", 1), ("", "first"), ("", 4), ("", "second"), ("", 4)]
    assert found == [("a[0]", base), ("b", base)]


def test_findings_are_errors_of_triton():
    """A launch that fails raises what Triton itself raises, in the words of CUDA that programs look for, in any process."""
    found = Finding("assert", "block: [0,0,0], thread: [0,0,0] Assertion `x < 3` failed.", kernel="k")
    error = pickle.loads(pickle.dumps(triton.KernelError.of(ExecutionError(findings=(found,)))))

    assert isinstance(error, RuntimeError)
    assert isinstance(error, ExecutionError)
    assert str(error).startswith("Triton Error [CUDA]: device-side assert triggered\n")
    assert error.findings == (found,)
    assert found.message in str(error)


def test_an_old_triton(monkeypatch):
    """A version that launches kernels in another way is refused by name."""
    monkeypatch.setitem(sys.modules, "triton", types.SimpleNamespace(__version__="3.4.0"))
    with pytest.raises(LaunchError, match=r"Triton 3\.4\.0 .* 3\.5 or later"):
        triton.Driver("sm_80")


def test_memory_of_views():
    """Views of one array are mapped once, with all of it; it is gone afterwards."""
    device, base = warpsim.Device("sm_90a"), np.zeros((8, 8), np.float32)
    given = {"x": base[2:, ::2], "y": base[:1], "z": np.zeros(3)}
    mapped = triton.Mapped(device, [(name, triton.Arrays(array)) for name, array in given.items()])

    assert len(mapped.maps) == 2
    whole = device.allocation(base.ctypes.data)
    assert whole.nbytes == 256
    assert sorted(whole.name.split(" and ")) == ["x (6, 4) of float32", "y (1, 8) of float32"]
    mapped.close()
    assert device.allocation(base.ctypes.data) is None


def test_descriptor():
    """A descriptor's shape, strides and block come outermost first; a tensor map has them the other way round."""
    made = triton.Utilities(warpsim.Device("sm_90a")).fill_tma_descriptor_tiled(
        0x1000, 3, 2, 6, [16, 64], [100, 128], [128, 1], 1
    )
    expected = warpsim.TensorMap(
        0x1000,
        data_type="FLOAT16",
        global_dim=[128, 100],
        global_strides=[256],
        box_dim=[64, 16],
        swizzle="128B",
        l2_promotion="L2_128B",
        oob_fill="nan",
    )

    assert layout.DATA_TYPES[6] == "FLOAT16"
    assert made == bytes(expected)


@pytest.mark.long
def test_words_at_the_end_of_a_tensor():
    """Atomics on 16 bits reach the word of four bytes that they lie in; other kernels find the end where it is."""
    device, alone = warpsim.Device("sm_80"), triton.Arrays(np.frombuffer(bytearray(6), np.uint16))
    for word, nbytes in ((1, 6), (4, 8)):
        mapped = triton.Mapped(device, [("x", alone)], word)
        found = device.allocation(alone.data_ptr())
        mapped.close()
        assert (found.address, found.nbytes) == (alone.data_ptr(), nbytes)


def test_events():
    """A benchmark's events have times, whatever it asks of them as they are made."""
    begin, end = triton.Event(enable_timing=True), triton.Event(enable_timing=True)
    begin.record()
    end.record()
    end.synchronize()

    assert 0 <= begin.elapsed_time(end) < 1e3


def parameters(count):
    """A launcher for a kernel of three values, and a kernel that takes some number of parameters of four bytes."""
    launcher = object.__new__(triton.Launcher)
    launcher.driver = types.SimpleNamespace(device=warpsim.Device("sm_80"), options={})
    names = "global_scratch_size global_scratch_align profile_scratch_size profile_scratch_align shared"
    sizes = dict.fromkeys(names.split(), 0)
    launcher.metadata = types.SimpleNamespace(num_ctas=1, num_warps=1, launch_cooperative_grid=False, **sizes)
    launcher.names, launcher.kinds = "n", ["i32"]
    params = ", ".join(f".param .u32 p{i}" for i in range(count))
    text = module_head() + f".visible .entry k({params}) {{ ret; }}"
    return launcher, warpsim.load(text)["k"]


def test_ptx_of_the_program_with_fewer_parameters():
    """PTX that an autotuner's configuration names may lack the scratch memory that Triton passes; more is an error."""
    for count in (1, 3):
        launcher, kernel = parameters(count)
        launcher._run((1, 1, 1), kernel, (7,))
    launcher, kernel = parameters(4)
    with pytest.raises(LaunchError, match="takes 4 parameters; Triton passes 3"):
        launcher._run((1, 1, 1), kernel, (7,))


def test_a_launch_that_fails():
    """The launcher raises the error with the finding."""
    launcher, _ = parameters(1)
    text = module_head() + ".visible .entry k() { trap; }"
    with pytest.raises(triton.KernelError, match=r"Triton Error \[CUDA\]: unspecified launch failure\n.*trap"):
        launcher._run((1, 1, 1), warpsim.load(text)["k"], (7,))


def test_one_cta_is_no_cluster():
    """A kernel is launched with a cluster only if it has several CTAs, as Triton's own launcher does."""
    launcher, _ = parameters(0)
    launcher.driver.device = warpsim.Device("sm_90")
    text = """.version 7.8
.target sm_90
.address_size 64
.visible .entry k() { .reg .pred %p; mov.pred %p, %is_explicit_cluster; @%p trap; ret; }"""
    launcher._run((1, 1, 1), warpsim.load(text)["k"], (7,))
    launcher.metadata.num_ctas = 2
    with pytest.raises(triton.KernelError, match="trap"):
        launcher._run((1, 1, 1), warpsim.load(text)["k"], (7,))


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_a_kernel():
    """Triton's own launch syntax, on NumPy arrays."""
    import triton as real
    import triton.language as tl

    def add(x, y, n, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)

    add.__annotations__["block"] = tl.constexpr
    install("sm_80")
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    real.jit(add)[(2,)](x, y, 100, block=64)

    assert (y == x + 1).all()

"""What modules, kernels, maps and recipes show of themselves; symbols among initial values; arrays by other doors."""

import struct

import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.host import sources
from warpsim.host.kernel import Kernel
from warpsim.testing import recipe

HEAD = module_head("sm_90a")
COPY = (
    HEAD
    + """.visible .entry copy(.param .u64 x, .param .u64 y) {
 .reg .b64 %d<2>; .reg .b32 %r; ld.param.u64 %d0, [x]; ld.param.u64 %d1, [y]; ld.global.u32 %r, [%d0]; st.global.u32 [%d1], %r; ret; }"""
)


def test_initial_values_of_symbols():
    """Addresses of variables, plus a number, whole or a byte of them; of functions."""
    text = (
        HEAD
        + """.func f() { ret; }
.global .align 8 .u64 a[2] = {5, 6};
.global .align 8 .u64 whole[3] = {a, a + 8, generic(a)};
.global .align 8 .u64 call[1] = {f};
.global .align 1 .u8 bytes[3] = {0xff(a), 0xff00(a), 0xff0000000000(a)};
.visible .entry k() { ret; }"""
    )
    module, device = warpsim.load(text), warpsim.Device()

    def words(name):
        return module.get_global(name, device).get().tolist()

    a = module.get_global("a", device).ptr
    assert words("whole") == [a, a + 8, a]
    assert words("bytes") == [a & 255, a >> 8 & 255, a >> 40 & 255]
    assert words("call") != [0]


def test_shown():
    """By names and numbers, as text and in a notebook."""
    module = warpsim.load(COPY)
    kernel = module["copy"]
    x, y = np.array([5], np.uint32), np.zeros(1, np.uint32)
    result = kernel(1, 1, (x, y))
    assert repr(kernel) == "Kernel('copy', target='sm_90a')"
    assert isinstance(kernel, Kernel)
    for page, words in (
        (module._repr_html_(), ("copy", "sm_90a")),
        (kernel._repr_html_(), ("copy", ".u64 x", "ld.param.u64")),
        (result._repr_html_(), ("5 warp-instructions", "5 thread-instructions", "0 findings")),
    ):
        assert all(word in page for word in words), page
    facts = kernel.facts()
    assert dict(facts.opcodes) == {"ld.param.u64": 2, "ld.global.u32": 1, "st.global.u32": 1, "ret": 1}
    with pytest.raises(warpsim.LaunchError, match="watchers must be"):
        kernel(1, 1, (x, y), watchers=[5])
    assert kernel(1, 1, (x, y), profile=True).profile is not None


def test_arrays_of_other_classes(tmp_path):
    """Memory of a file is mapped as any array is; a matrix, too; a number of no dimension is a scalar."""
    kernel = warpsim.load(COPY)["copy"]
    mapped = np.memmap(tmp_path / "file", np.uint32, "w+", shape=(2,))
    kernel(1, 1, (np.array([7], np.uint32), mapped))
    assert mapped.tolist() == [7, 0]
    device = warpsim.Device()
    target = device.array(np.zeros(1, np.uint32))
    kernel(1, 1, (np.array([8], np.uint32), np.array(target.ptr, np.uint64)), device=device)
    assert target.get().tolist() == [8]

    class Lent:
        """What CuPy's arrays offer."""

        def __init__(self, interface):
            self.__cuda_array_interface__ = interface

    kernel(1, 1, (np.array([9], np.uint32), Lent(target.__cuda_array_interface__)), device=device)
    assert target.get().tolist() == [9]
    for wrong in ({}, {"data": ()}, {"data": ("x",)}, 5, {"data": None}):
        with pytest.raises(warpsim.LaunchError, match="__cuda_array_interface__ has no address"):
            kernel(1, 1, (np.array([9], np.uint32), Lent(wrong)), device=device)


@pytest.mark.parametrize("write", [True, False])
def test_tensors_that_say_whether_they_can_be_written(write):
    """DLPack 1.0 says so; a read-only one is mapped so."""
    data = np.array([3], np.uint32)
    data.flags.writeable = write

    class Tensor:
        """Another library's."""

        def __dlpack__(self, **options):
            return data.__dlpack__(**options)

        def __dlpack_device__(self):
            return data.__dlpack_device__()

    kernel, out = warpsim.load(COPY)["copy"], np.array([8], np.uint32)
    try:
        kernel(1, 1, (out, Tensor()))
    except (warpsim.ExecutionError, warpsim.LaunchError):  # older NumPy does not export read-only arrays
        assert not write
    assert data.tolist() == ([8] if write else [3])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: bytes(warpsim.TensorMap(np.zeros(8, np.float16), global_dim=(8,), global_strides=(), box_dim=(8,))), "a host array has no device address outside a launch"),
        (lambda: warpsim.TensorMap(64, data_type="FLOAT16", global_dim=(), global_strides=(), box_dim=()), "1 to 5 dimensions, not 0"),
        (lambda: warpsim.TensorMap(64, data_type="FLOAT16", global_dim=(8,) * 6, global_strides=(16,) * 5, box_dim=(8,) * 6), "1 to 5 dimensions, not 6"),
        (lambda: warpsim.TensorMap(64, data_type="FLOAT16", global_dim=5, global_strides=(), box_dim=(8,)), "global_dim must be a sequence"),
        (lambda: warpsim.TensorMap(64, data_type="FLOAT16", global_dim=(8,), global_strides=(16,), box_dim=(8,)), "needs 0 integers here"),
        (lambda: warpsim.TensorMap(64, data_type="FLOAT17", global_dim=(8,), global_strides=(), box_dim=(8,)), "data_type must be one of"),
        (lambda: warpsim.TensorMap(64, global_dim=(8,), global_strides=(), box_dim=(8,)), "give data_type"),
        (lambda: warpsim.TensorMap(64, data_type="FLOAT16", global_dim=(8,), global_strides=(), box_dim=(8,)).encode(24), "is not a multiple of 16"),
        (lambda: warpsim.TensorMap(64, data_type="FLOAT16", global_dim=(8,), global_strides=(), box_dim=(8,)).encode(2**64), "the tensor's address must be"),
        (lambda: recipe("normal", 4, "f99").array(), "is not an element type; element types: "),
        (lambda: recipe("nothing", 4).array(), "'nothing' is not a generator; generators: "),
        (lambda: recipe("normal", 4, spread=1).array(), "normal takes "),
        (lambda: warpsim.mma("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", a=np.zeros((16, 16), "V3"), b=np.zeros((16, 8)), c=np.zeros((16, 8))), "a takes numbers, not |V3"),
        (lambda: warpsim.mma("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", a=np.full((16, 16), "x"), b=np.zeros((16, 8)), c=np.zeros((16, 8))), "a takes numbers, not <U1"),
    ],
)  # fmt: skip
def test_refused(call, said):
    """By what was given, and what may be."""
    with pytest.raises(warpsim.LaunchError) as caught:
        call()
    assert said in str(caught.value)


# ---- fatbins -------------------------------------------------------------------------------------


def entry(text, arch=90, flags=0, kind=1, header=64, size=None):
    """An entry of a fatbin: its head of 64 bytes, and what it holds."""
    stored = len(text) if size is None else size
    head = struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, header, stored, stored if flags else 0, 0, 0, 0, arch, 0, 0, flags, 0, len(text))  # fmt: skip
    return head.ljust(64, b"\0")[:64] + text


def test_entries_of_a_fatbin():
    """Texts of each architecture; machine code is passed over; what ends early ends the list."""
    assert sources._ENTRY.size == 64
    body = entry(b"one", 80) + entry(b"code", 90, kind=2) + entry(b"three", 100)
    for more, count in ((b"", 2), (b"rest", 2), (entry(b"four", header=16), 2), (entry(b"five"), 3)):
        whole = struct.pack("<4sHHQ", sources.MAGIC, 1, 16, len(body + more)) + body + more
        (unit,) = sources.units(b"before" + whole)
        assert [each.arch for each in unit][:2] == [80, 100]
        assert len(unit) == count
    assert sources.units(struct.pack("<4sHHQ", sources.MAGIC, 2, 16, len(body)) + body) == []
    assert sources.units(struct.pack("<4sHHQ", sources.MAGIC, 1, 16, len(body) + 1) + body) == []
    assert sources.units(struct.pack("<4sHHQ", sources.MAGIC, 1, 8, len(body)) + body) == []


@pytest.mark.parametrize(
    ("block", "size", "text"),
    [
        (b"\x30abc", 3, b"abc"),
        (b"\x31abc\x03\x00\x10z", 9, b"abcabcabz"),
        (b"\x1fa\x01\x00\x00\x10b", 21, b"a" * 20 + b"b"),
        (b"\xf0\x00" + b"x" * 15, 15, b"x" * 15),
        (b"\xf0\xff\x01" + b"y" * 271, 271, b"y" * 271),
        (b"\x30abc", 4, None),
        (b"\x31abc\x04\x00\x10z", 9, None),
        (b"\x31abc\x00\x00\x10z", 9, None),
        (b"\x31abc\x03\x00\x10z", 8, None),
        (b"\x31abc\x03", 9, None),
        (b"\xf0", 20, None),
    ],
)
def test_packed_texts(block, size, text):
    """LZ4 blocks by its description: literals, then copies from before, which may overlap; damaged ones are refused."""
    if text is None:
        with pytest.raises(sources.Packed, match=r"damaged|cut short"):
            sources.lz4_block(block, size)
    else:
        assert sources.lz4_block(block, size) == text

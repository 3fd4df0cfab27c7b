"""What a launch takes as arguments, sentence by sentence of the public face."""

import array as arrays
import ctypes
import gc
import itertools

import ml_dtypes
import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.host.arrays import array_of
from warpsim.host.dlpack import NARROW

HEAD = module_head()
RAW = """.visible .entry k(.param .u64 out, .param .align 4 .b8 p[16], .param .b16 h, .param .b32 w, .param .f64 d, .param .u32 u) {
    .reg .b64 %o; .reg .b32 %r<5>; .reg .b16 %h; .reg .f64 %d; .reg .b64 %q;
    ld.param.u64 %o, [out];
    ld.param.b32 %r1, [p+12]; st.global.b32 [%o], %r1;
    ld.param.b16 %h, [h]; st.global.b16 [%o+4], %h;
    ld.param.b32 %r2, [w]; st.global.b32 [%o+8], %r2;
    ld.param.u32 %r3, [u]; st.global.b32 [%o+12], %r3;
    ld.param.f64 %d, [d]; st.global.f64 [%o+16], %d;
    ret;
}"""
DOUBLE = """.visible .entry twice(.param .u64 x, .param .u64 y, .param .u32 n) {
    .reg .b64 %d<4>; .reg .b32 %r<4>; .reg .pred %p;
    ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;
    setp.ge.u32 %p, %r2, %r1; @%p ret;
    mul.wide.u32 %d3, %r2, 4; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;
    ld.global.b32 %r3, [%d1]; shl.b32 %r3, %r3, 1; st.global.b32 [%d2], %r3;
    ret;
}"""
WHERE = """.visible .entry where(.param .u64 x, .param .u64 y, .param .u64 out) {
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.u64 %d3, [out];
    st.global.v2.u64 [%d3], {%d1, %d2};
    ret;
}"""
MODULE = warpsim.load(HEAD + RAW + DOUBLE + WHERE)


def words(**given):
    """The words that the kernel with one parameter of each kind found: p[12:16], h, w, u, d."""
    values = {"p": bytes(16), "h": 0, "w": 0, "d": 0.0, "u": 0, **given}
    out = np.zeros(6, np.uint32)
    MODULE["k"]((1,), (1,), (out, *(values[k] for k in "phwdu")), checks="none")
    return {"p": int(out[0]), "h": int(out[1]), "w": int(out[2]), "u": int(out[3]), "d": out[4:].view(np.float64)[0]}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("u", -1, 0xFFFFFFFF),
        ("u", 2**32 - 1, 0xFFFFFFFF),
        ("u", np.int8(-2), 0xFFFFFFFE),
        ("u", True, 1),
        ("d", 3, 3.0),
        ("d", np.float32(0.1), float(np.float32(0.1))),
        ("d", 0.1, 0.1),
        ("w", 1.5, 0x3FC00000),
        ("w", np.float32(1.5), 0x3FC00000),
        ("w", np.array(0x7F800001, np.uint32).view(np.float32)[()], 0x7F800001),
        ("h", 1.5, 0x3E00),
        ("h", np.float16(1.5), 0x3E00),
        ("h", ml_dtypes.bfloat16(1.5), 0x3FC0),
        ("p", bytes(range(16)), 0x0F0E0D0C),
        ("p", bytearray(range(16)), 0x0F0E0D0C),
        ("p", np.array((1, 2.0, 3, 4), "<i4,<f4,<i4,<i4")[()], 4),
        ("p", np.arange(4, dtype=np.int32), 3),
        ("p", arrays.array("i", [1, 2, 3, 4]), 4),
    ],
)
def test_scalars_and_bytes(name, value, expected):
    """Integers fit as signed or unsigned, floats go where they have the width, bytes and structures fill ``.b8[]``."""
    assert words(**{name: value})[name] == expected


@pytest.mark.parametrize(
    ("name", "value", "words_of_it"),
    [
        ("u", 2**32, "does not fit 32 bits"),
        ("u", 1.0, "integer"),
        ("u", ml_dtypes.bfloat16(1), "integer"),
        ("w", np.float64(1.5), "float64 does not fit 32 bits"),
        ("h", np.float32(1.5), "float32 does not fit 16 bits"),
        ("d", "1", "number"),
        ("d", 10**400, "number"),
        ("p", bytes(15), "16 bytes"),
        ("p", "0123456789abcdef", "16 bytes"),
        ("p", np.zeros(4, ">i4"), "big-endian"),
        ("p", np.array((1, 2.0), ">i8,<f8")[()], "big-endian"),
    ],
)
def test_what_does_not_fit(name, value, words_of_it):
    """The message says which argument, and what it takes."""
    with pytest.raises(warpsim.LaunchError, match=words_of_it) as caught:
        words(**{name: value})

    assert f"({name}, " in str(caught.value)


def twice(x, y, n=4, **options):
    """y = 2 * x, on 32-bit words."""
    MODULE["twice"]((1,), (32,), (x, y, n), **options)


class Lent:
    """An array behind one of NumPy's ways to hand over memory."""

    def __init__(self, data, way):
        self.data = data
        if way == "interface":
            self.__array_interface__ = data.__array_interface__
        elif way == "dlpack":
            self.__class__ = type(
                "Tensor",
                (Lent,),
                {"__dlpack__": lambda s, **o: s.data.__dlpack__(**o), "__dlpack_device__": lambda s: (1, 0)},
            )
        else:
            self.__class__ = type(
                "Old",
                (Lent,),
                {"__dlpack__": lambda s, stream=None: s.data.__dlpack__(), "__dlpack_device__": lambda s: (1, 0)},
            )


@pytest.mark.parametrize("way", ["interface", "dlpack", "dlpack of old"])
def test_whatever_lends_its_memory(way):
    """``__array_interface__`` and ``__dlpack__`` are read and written in place."""
    x, y = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)

    twice(Lent(x, way), Lent(y, way))

    assert y.tolist() == [0, 2, 4, 6]


class Narrow:
    """A tensor whose elements NumPy has no type for, as DLPack before 1.0 describes it; strides count elements."""

    def __init__(self, data, code, *, strides, shape, device=1):
        class Described(ctypes.Structure):
            _fields_ = (
                ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("rank", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p),
            )  # fmt: skip

        numbers = ctypes.c_int64 * len(shape)
        self.kept = data, numbers(*shape), numbers(*(strides or shape))
        where = ctypes.addressof(self.kept[1]), ctypes.addressof(self.kept[2]) if strides else None
        self.device = (ctypes.c_int32 * 2)(device, 0)
        bits = 8 * data.itemsize
        self.described = Described(data.ctypes.data - 2, self.device, len(shape), code, bits, 1, *where, 2)

    def __dlpack__(self, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.argtypes, new.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.py_object
        return new(ctypes.addressof(self.described), b"dltensor", None)

    def __dlpack_device__(self):
        return tuple(self.device)


@pytest.mark.parametrize(
    ("dtype", "code"),
    [
        (ml_dtypes.bfloat16, 4),
        (ml_dtypes.float8_e4m3fn, 10),
        (ml_dtypes.float8_e5m2, 12),
        (ml_dtypes.float8_e8m0fnu, 14),
    ],
)
def test_narrow_floats_lend_their_memory(dtype, code):
    """NumPy cannot read them from DLPack; they are, with their strides, on the same memory."""
    data = np.arange(12, dtype=np.float32).astype(dtype)
    plain = array_of(Narrow(data, code, strides=None, shape=(3, 4)))
    turned = array_of(Narrow(data, code, strides=(1, 4), shape=(4, 3)))
    plain[0, 1] = 8

    assert (plain.dtype, plain.shape, turned.shape) == (dtype, (3, 4), (4, 3))
    assert turned.tobytes() == data.reshape(3, 4).T.tobytes()
    assert data[1] == 8
    assert array_of(Narrow(data, code, strides=None, shape=(3, 0))).shape == (3, 0)
    for other, device in ((17, 1), (code, 2)):
        with pytest.raises(warpsim.LaunchError, match="does not provide an array"):
            array_of(Narrow(data, other, strides=None, shape=(12,), device=device))


def test_buffers():
    """So are buffers; bytes can be read only."""
    y = arrays.array("i", [0] * 4)

    twice(np.arange(4, dtype=np.int32).tobytes() and memoryview(bytes(range(16))), y)

    assert y.tolist() == [2 * v for v in np.frombuffer(bytes(range(16)), np.int32).tolist()]
    with pytest.raises(warpsim.ExecutionError, match="read-only"):
        twice(y, memoryview(bytes(16)))


@pytest.mark.parametrize(
    "dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.complex64, "M8[s]", "<i2,<f4,<i2", np.bool_]
)
def test_any_type(dtype):
    """The kernel sees bytes, whatever NumPy calls them."""
    y = np.zeros(16, dtype)

    twice(np.full(4, 0x01020304, np.uint32), y)

    assert y.tobytes()[:16] == np.full(4, 0x02040608, np.uint32).tobytes()


@pytest.mark.parametrize(
    ("value", "words_of_it"),
    [
        (np.zeros(4, ">i4"), "big-endian"),
        (np.zeros(4, [("a", "<i4"), ("b", ">f4")]), "big-endian"),
        (np.zeros((4, 4), np.int32).T[:2], "C-contiguous"),
        (np.zeros(4, object), "objects"),
        ([1, 2], "an integer, an array or None"),
        ({}, "an integer, an array or None"),
    ],
)
def test_arrays_that_cannot_be_mapped(value, words_of_it):
    """Elements of the other byte order are refused, with what to do, as are strides and objects."""
    with pytest.raises(warpsim.LaunchError, match=words_of_it):
        twice(np.zeros(4, np.int32), value)
    if isinstance(value, np.ndarray) and value.flags.c_contiguous:
        with pytest.raises(warpsim.LaunchError, match=words_of_it):
            warpsim.Device("sm_80").array(value)


def test_addresses():
    """Arrays lie at multiples of 256; the same array twice at one place; None is 0; an int is itself."""
    x, y, out = np.zeros(3, np.uint8), np.zeros(300, np.uint16), np.zeros(2, np.uint64)

    MODULE["where"]((1,), (1,), (x, y, out))
    first, second = (int(v) for v in out)
    MODULE["where"]((1,), (1,), (x, x, out))

    assert first % 256 == second % 256 == 0 != first
    assert first != second
    assert out[0] == out[1]
    MODULE["where"]((1,), (1,), (None, 0x1234, out))
    assert out.tolist() == [0, 0x1234]


def test_read_only_arrays():
    """A read-only array is a read-only mapping."""
    y = np.zeros(4, np.int32)
    y.flags.writeable = False

    with pytest.raises(warpsim.ExecutionError) as caught:
        twice(np.zeros(4, np.int32), y)

    assert caught.value.findings[0].rule == "read-only"


# ---- DeviceArray ---------------------------------------------------------------------------------


def test_device_array():
    """get and set copy, NumPy copies, DLPack shares, and CUDA's interface has the address."""
    device = warpsim.Device("sm_80")
    x, y = device.array(np.arange(4, dtype=np.int32)), device.empty(4, np.int32)
    twice(x, y, device=device)

    assert np.asarray(y).tolist() == y.get().tolist() == [0, 2, 4, 6]
    assert np.asarray(y, np.float32).dtype == np.float32
    shared = np.from_dlpack(y)
    y.set([1, 2, 3, 4])
    assert shared.tolist() == [1, 2, 3, 4]
    assert y.__cuda_array_interface__["data"] == (y.ptr, False)
    assert y.__cuda_array_interface__["typestr"] == "<i4"
    twice(y, x, device=device)
    assert x.get().tolist() == [2, 4, 6, 8]


def test_freed():
    """After free() the address is not mapped, and the array refuses to be used."""
    device = warpsim.Device("sm_80")
    y = device.array(np.zeros(4, np.int32))
    address = y.ptr
    y.free()

    for use in (y.get, y.free, lambda: y.set(0), lambda: twice(y, y, device=device), lambda: np.asarray(y)):
        with pytest.raises(warpsim.LaunchError, match="freed"):
            use()
    with pytest.raises(warpsim.ExecutionError) as caught:
        twice(np.zeros(4, np.int32), address, device=device)
    assert caught.value.findings[0].rule == "out-of-bounds"


def test_dropped_arrays_are_released():
    """What nobody refers to any more is gone before the next allocation."""
    device = warpsim.Device("sm_80")
    address = device.array(np.zeros(1 << 16, np.int32)).ptr
    gc.collect()
    kept = [device.array(np.zeros(4, np.int32)) for _ in range(3)]

    assert device.memory.at(address) is None
    assert all(device.memory.at(k.ptr) is not None for k in kept)


def test_module_variables():
    """get_global gives a view of a variable in .global or .const, which cannot be freed."""
    module = warpsim.load(
        HEAD + ".global .align 4096 .u32 g[3] = {1, 2, 3};\n.const .align 512 .f32 c = 0f3F800000;\n" + DOUBLE
    )
    g, c = module.get_global("g"), module.get_global("c")

    assert g.get().tolist() == [1, 2, 3]
    assert c.get().tolist() == [1.0]
    assert (g.ptr % 4096, c.ptr % 512) == (0, 0)
    twice(g, g, 3, device=module.device)
    assert module.get_global("g").get().tolist() == [2, 4, 6]
    with pytest.raises(warpsim.LaunchError, match="freed"):
        g.free()


def test_mapped_memory():
    """map() gives host memory to the device, at its own address if wanted, until unmap()."""
    device = warpsim.Device("sm_80")
    x, y = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    own = y.__array_interface__["data"][0]
    first, second = device.map(x), device.map(y, address=own)
    twice(first, second, device=device)

    assert second.ptr == own
    assert y.tolist() == [0, 2, 4, 6]
    twice(first.ptr + 8, own, 2, device=device)
    assert y.tolist() == [4, 6, 4, 6]
    with pytest.raises(warpsim.LaunchError, match="overlap"):
        device.map(x, address=own + 4)
    second.unmap()
    with pytest.raises(warpsim.ExecutionError, match="out-of-bounds"):
        twice(x, own, device=device)
    with pytest.raises(warpsim.LaunchError, match="unmapped"):
        second.unmap()
    for wrong in (lambda: device.map(5), lambda: device.map(x, address=-1), lambda: device.map(x, address="a")):
        with pytest.raises(warpsim.LaunchError):
            wrong()


def test_allocations_go_around_mapped_memory():
    """Memory at a chosen address stays what it is, wherever the next array would have come."""
    device = warpsim.Device("sm_80")
    near = device.array(np.zeros(4, np.int32)).ptr + (1 << 20)
    kept = [device.map(np.zeros(1 << 12, np.uint8), address=(near & -4096) + (k << 21)) for k in range(4)]
    arrays_ = [device.array(np.zeros(1 << 20, np.uint8)) for _ in range(6)]
    spans = sorted([(a.ptr, a.nbytes) for a in arrays_] + [(k.ptr, k.nbytes) for k in kept])

    assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(spans))


# ---- devices -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target", ["nonsense", "sm_52", "sm_9", "sm_90b", "sm_90 ", "SM_90", "", None, 90, "sm_\u0669\u0660"]
)
def test_devices_that_do_not_exist(target):
    """The message lists those that can be simulated."""
    with pytest.raises(warpsim.LaunchError, match="sm_70, sm_72"):
        warpsim.Device(target)


@pytest.mark.parametrize("target", ["sm_90", "sm_90a"])
def test_a_device_is_a_gpu(target):
    """sm_90 and sm_90a name one GPU, which runs modules for both."""
    for needed in ("sm_80", "sm_90", "sm_90a"):
        y = np.zeros(4, np.int32)
        module = warpsim.load(HEAD.replace("sm_80", needed) + DOUBLE)
        module["twice"]((1,), (32,), (np.arange(4, dtype=np.int32), y, 4), device=warpsim.Device(target))

        assert y.tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize(("target", "sm"), [("sm_30", 70), ("sm_52", 70), ("sm_61", 70), ("sm_70", 70), ("sm_75", 75)])
def test_old_targets_run_on_the_oldest_gpu(target, sm):
    """Code for a GPU older than any that is simulated runs on the oldest of them, as it does on a real one."""
    module, y = warpsim.load(HEAD.replace("sm_80", target).replace("8.0", "6.5") + DOUBLE), np.zeros(4, np.int32)
    module["twice"]((1,), (32,), (np.arange(4, dtype=np.int32), y, 4))

    assert y.tolist() == [0, 2, 4, 6]
    assert module.device.sm == sm


# ---- raw bytes, memory by address ----------------------------------------------------------------


def test_packed_parameters():
    """A block of bytes goes in as it is; ``params`` say where what lies."""
    kernel, out = MODULE["k"], np.zeros(6, np.uint32)
    offsets = {p.name: p.offset for p in kernel.params}
    assert offsets == {"out": 0, "p": 8, "h": 24, "w": 28, "d": 32, "u": 40}
    assert [p.name for p in kernel.params if p.array] == ["p"]
    device = warpsim.Device("sm_80")
    block = bytearray(44)
    with_array = device.map(out)
    block[0:8] = with_array.ptr.to_bytes(8, "little")
    block[20:24] = b"abcd"
    block[40:44] = b"\1\0\xa0\x7f"
    kernel((1,), (1,), bytes(block), device=device)
    assert out.view(np.uint8)[:4].tobytes() == b"abcd"
    assert out[3] == 0x7FA00001
    with pytest.raises(warpsim.LaunchError, match="44 bytes"):
        kernel((1,), (1,), bytes(43), device=device)


def test_raw_scalars():
    """bytes of a scalar's width are its bits: a signalling NaN with its payload."""
    assert words(w=b"\x01\x00\xa0\x7f")["w"] == 0x7FA00001
    assert words(h=b"\x01\x7d")["h"] == 0x7D01
    with pytest.raises(warpsim.LaunchError, match="4 bytes"):
        words(w=b"\x01")


@pytest.mark.parametrize("value", [np.float16(1.5), ml_dtypes.bfloat16(1.5)])
def test_half_scalars_for_two_bytes(value):
    """A parameter of two bytes takes a scalar of either kind of half."""
    text = ".visible .entry two(.param .u64 o, .param .align 2 .b8 v[2]) { .reg .b64 %d; .reg .b16 %h;\n"
    text += "ld.param.u64 %d, [o]; ld.param.b16 %h, [v]; st.global.b16 [%d], %h; ret; }"
    out = np.zeros(1, np.uint16)
    warpsim.load(HEAD + text)["two"]((1,), (1,), (out, value))

    assert out.tobytes() == value.tobytes()


def test_memory_by_address():
    """Allocations are found, read and written by address; a part that was written is defined."""
    device = warpsim.Device("sm_80")
    x, y = device.empty(4, np.int32), np.zeros(4, np.int32)
    assert device.allocation(x.ptr + 15).address == x.ptr
    assert device.allocation(x.ptr + 16) is None
    device.write(x.ptr + 4, np.array([7, 8], np.int32))
    assert device.read(x.ptr + 4, 8) == np.array([7, 8], np.int32).tobytes()
    twice(x.ptr + 4, y, 2, device=device)
    assert y.tolist() == [14, 16, 0, 0]
    with pytest.raises(warpsim.ExecutionError, match="uninitialised"):
        twice(x.ptr, y, 2, device=device)
    device.written(x.ptr, 4)
    twice(x.ptr, y, 2, device=device)
    for wrong in (lambda: device.read(x.ptr, 17), lambda: device.write(x.ptr - 1, b"a"), lambda: device.written(0, 1)):
        with pytest.raises(warpsim.LaunchError):
            wrong()


def test_arrays_of_the_simulated_device():
    """What has ``__cuda_array_interface__`` alone is its address."""

    class Foreign:
        def __init__(self, array):
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    device = warpsim.Device("sm_80")
    x, y = device.array(np.arange(4, dtype=np.int32)), device.empty(4, np.int32)
    twice(Foreign(x), Foreign(y), device=device)

    assert y.get().tolist() == [0, 2, 4, 6]


def test_bytes_of_a_tensor_map():
    """For a tensor in device memory they are there without a launch."""
    device = warpsim.Device("sm_90a")
    x = device.array(np.zeros((8, 16), np.float32))
    made = warpsim.TensorMap(x, global_dim=[16, 8], global_strides=[64], box_dim=[8, 8])

    assert bytes(made) == made.encode(x.ptr)
    assert len(bytes(made)) == 128


def test_source_and_rules():
    """A module has the text that findings name lines of; a word of ``checks=`` has its rules."""
    module = warpsim.load(HEAD + DOUBLE)
    assert module.source.splitlines()[3].startswith(".visible .entry twice")
    assert warpsim.rules("default+race") - warpsim.rules("default") == {"race"}


def test_unload():
    """A module's variables leave a device's memory."""
    module, device = warpsim.load(HEAD + ".global .u32 g = 3;\n" + DOUBLE), warpsim.Device("sm_80")
    address = module.get_global("g", device).ptr
    module.unload(device)

    assert device.allocation(address) is None


def test_codes_of_narrow_types():
    """Types of 8 and 16 bits by the numbers of DLDataTypeCode (dlpack.h 1.1)."""
    codes = {4: "bfloat16", 7: "float8_e3m4", 8: "float8_e4m3", 9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn", 11: "float8_e4m3fnuz",
             12: "float8_e5m2", 13: "float8_e5m2fnuz", 14: "float8_e8m0fnu"}  # fmt: skip

    assert {code: np.dtype(dtype).name for (code, _), dtype in NARROW.items()} == codes
    assert all(np.dtype(dtype).itemsize * 8 == bits for (_, bits), dtype in NARROW.items())

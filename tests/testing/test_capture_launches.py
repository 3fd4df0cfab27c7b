"""Every way in which a program launches and loads, as CUPTI tells it, with a driver that is no GPU's."""

import ctypes

import attrs
import numpy as np
import pytest

from fake_driver import COUNTER, POOL, PTX, FakeDriver, GraphDriver, called
from ptx_text import module_head
from warpsim.capture import convert, gpu, launches
from warpsim.capture.gpu import ENTER, EXIT
from warpsim.capture.launches import Captured, Recorder
from warpsim.host.cases import Case, run_case

COPY_TILE = """.version 8.0
.target sm_90
.address_size 64
.visible .entry add(.param .align 64 .b8 map[128], .param .u64 out)
{
 .reg .b64 %m, %o, %t; .reg .b32 %s, %b, %v, %i; .reg .pred %p;
 .shared .align 128 .b8 tile[256]; .shared .align 8 .b64 bar;
 mov.b64 %m, map; cvta.param.u64 %m, %m; ld.param.u64 %o, [out]; mov.u32 %s, tile; mov.u32 %b, bar; mov.u32 %i, %tid.x;
 setp.ne.u32 %p, %i, 0;
 @%p bra REST;
 mbarrier.init.shared.b64 [%b], 1;
 fence.proxy.async.shared::cta;
 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%m, {4, 1}], [%b];
 mbarrier.arrive.expect_tx.shared.b64 _, [%b], 64;
REST: bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared.b64 %p, [%b], 0;
 @!%p bra WAIT;
 mad.lo.u32 %s, %i, 4, %s; ld.shared.u32 %v, [%s]; mul.wide.u32 %t, %i, 4; add.s64 %o, %o, %t; st.global.u32 [%o], %v;
 ret;
}
"""


@pytest.fixture
def recorder(monkeypatch):
    """Of the fake driver, without CUPTI."""
    monkeypatch.setattr(launches, "Driver", FakeDriver)
    return Recorder()


def load(recorder, image, name=b"cuModuleLoadData", handle=77):
    """Load an image, as the driver tells of it afterwards."""
    held, out = ctypes.create_string_buffer(image), ctypes.pointer(ctypes.c_void_p(handle))
    called(recorder, EXIT, name, gpu.Load(out=out, image=ctypes.addressof(held)))


def arguments(count=60):
    """Of ``add``, with what holds them."""
    values = [ctypes.c_uint64(POOL + 4096), ctypes.c_float(0.5), ctypes.c_uint32(count), ctypes.c_uint64(POOL + 8192)]
    return values, (ctypes.c_void_p * 4)(*[ctypes.addressof(v) for v in values])


CUBIN = b"\x7fELF" + bytes(36) + (64).to_bytes(8, "little") + bytes(16)
"""A head of an ELF file that says that its tables, which are empty, stand behind it."""
SHAPE = {"gx": 1, "gy": 2, "gz": 3, "bx": 64, "by": 4, "bz": 5, "shared": 48}


def launched(recorder, name, given, *, status=0, between=lambda: None, symbol=b"add"):
    """A launch from beginning to end."""
    called(recorder, ENTER, name, given, symbol=symbol)
    between()
    called(recorder, EXIT, name, given, status, symbol=symbol)


def plain(places, **more):
    """cuLaunchKernel's arguments."""
    return gpu.Launch(f=1, **{**SHAPE, **more}, params=ctypes.addressof(places))


def test_a_launch(recorder):
    """Its shape, its parameters, memory and variables before and after."""
    load(recorder, PTX.encode())
    values, places = arguments()

    def work():
        recorder.driver.pool[4096] = 7
        recorder.driver.counter[0] = 10

    launched(recorder, b"cuLaunchKernel", plain(places), between=work)

    (launch,) = recorder.launches
    assert (launch.grid, launch.block, launch.shared) == ((1, 2, 3), (64, 4, 5), 48)
    assert (launch.cluster, launch.cooperative) == (None, False)
    assert launch.params == [bytes(v) for v in values]
    ((before, after),) = launch.memory.values()
    assert (before[4096], after[4096], len(before)) == (0, 7, 1 << 20)
    assert launch.variables == {"counter": [b"\x09\0\0\0", b"\x0a\0\0\0"]}
    assert launch.places == {"counter": (COUNTER, 4)}
    assert launch.ptx == PTX


def test_a_launch_with_attributes(recorder):
    """cuLaunchKernelEx: the shape stands in a structure, clusters in its list."""
    load(recorder, PTX.encode())
    _, places = arguments()
    listed = (gpu.Attribute * 2)(
        gpu.Attribute(kind=gpu.CLUSTER, value=(ctypes.c_uint32 * 16)(1, 2, 1)),
        gpu.Attribute(kind=gpu.COOPERATIVE, value=(ctypes.c_uint32 * 16)(1)),
    )
    config = gpu.Config(**SHAPE, attributes=ctypes.addressof(listed), count=2)
    given = gpu.LaunchEx(config=ctypes.pointer(config), f=1, params=ctypes.addressof(places))
    launched(recorder, b"cuLaunchKernelEx", given)

    (launch,) = recorder.launches
    assert (launch.grid, launch.block, launch.shared) == ((1, 2, 3), (64, 4, 5), 48)
    assert (launch.cluster, launch.cooperative) == ((1, 2, 1), True)


def test_a_cooperative_launch(recorder):
    """cuLaunchCooperativeKernel has no ``extra``: what stands behind its arguments is not looked at."""
    load(recorder, PTX.encode())
    values, places = arguments()
    given = gpu.Launch(f=1, **SHAPE, params=ctypes.addressof(places), extra=1)
    launched(recorder, b"cuLaunchCooperativeKernel", given)

    (launch,) = recorder.launches
    assert launch.cooperative
    assert launch.params == [bytes(v) for v in values]


def test_which_launches_are_recorded(recorder):
    """Those whose name fits, as many as are wanted, the number counting those in progress, too; none while a graph is
    captured, none that failed.
    """
    load(recorder, PTX.encode())
    _, places = arguments()
    recorder.kernels = "a?d"
    launched(recorder, b"cuLaunchKernel", plain(places), symbol=b"sub")
    launched(recorder, b"cuLaunchKernel", plain(places), status=1)
    recorder.driver.capturing = lambda stream: stream == 9
    launched(recorder, b"cuLaunchKernel", plain(places, stream=9))
    assert recorder.launches == []
    assert recorder.notes == ["add: the launch failed"]
    recorder.most = 2
    given = plain(places)
    for site in (ENTER, ENTER, ENTER, EXIT, EXIT, EXIT):  # a launch that a driver makes for another
        called(recorder, site, b"cuLaunchKernel", given)
        recorder._local.busy = False
    assert len(recorder.launches) == 2
    launched(recorder, b"cuLaunchKernel", plain(places))
    assert len(recorder.launches) == 2


def test_an_end_without_a_beginning(recorder):
    """Recording began in the middle of a launch."""
    called(recorder, EXIT, b"cuLaunchKernel", gpu.Launch(f=1))

    assert (recorder.launches, recorder.notes) == ([], [])


def test_calls_of_our_own_are_not_recorded(recorder):
    """While a call is handled, those that it makes are left out; others of no interest always."""
    load(recorder, PTX.encode())
    _, places = arguments()
    recorder._local.busy = True
    launched(recorder, b"cuLaunchKernel", plain(places))
    recorder._local.busy = False
    launched(recorder, b"cuMemAlloc", gpu.Launch())

    assert (recorder.launches, recorder.notes) == ([], [])


def test_the_lowest_address(recorder):
    """From a megabyte on, a number may be one."""
    load(recorder, PTX.encode())
    recorder.driver.allocation = lambda address: (address, 64)
    values, places = arguments()
    values[0].value, values[3].value = 1 << 20, (1 << 20) - 1
    launched(recorder, b"cuLaunchKernel", plain(places))

    assert list(recorder.launches[0].memory) == [1 << 20]


def test_memory_that_is_too_large(recorder):
    """Is not copied: the launch is left out, and why is said."""
    load(recorder, PTX.encode())
    _, places = arguments()
    recorder.largest = (1 << 20) - 1
    launched(recorder, b"cuLaunchKernel", plain(places))
    assert recorder.launches == []
    assert recorder.notes == ["add: it can reach an allocation of more than 1048575 bytes"]
    recorder.largest += 1
    launched(recorder, b"cuLaunchKernel", plain(places))
    assert len(recorder.launches) == 1


def test_modules_of_all_kinds(recorder, tmp_path):
    """From files, in libraries, linked from texts; one that could not be loaded holds nothing."""
    sources = recorder.sources
    file = tmp_path / "k.ptx"
    file.write_text(PTX)
    load(recorder, str(file).encode(), b"cuModuleLoad", 5)
    load(recorder, str(file).encode(), b"cuLibraryLoadFromFile", 6)
    load(recorder, PTX.encode(), b"cuLibraryLoadData", 7)
    load(recorder, CUBIN, b"cuModuleLoadDataEx", 8)
    given = gpu.Load(out=ctypes.pointer(ctypes.c_void_p(9)), image=0)
    called(recorder, EXIT, b"cuModuleLoadData", given, status=200)
    called(recorder, ENTER, b"cuModuleLoadData", given)

    assert sources.modules == {5: PTX.encode(), 8: CUBIN}
    assert sources.libraries == {6: PTX.encode(), 7: PTX.encode()}
    assert sources.texts == [PTX]
    assert recorder.notes == []


def test_a_kernel_of_a_library(recorder):
    """Its function has a module that nobody loaded: that of the library in the context."""
    load(recorder, PTX.encode(), b"cuLibraryLoadData", 7)
    recorder.sources.texts.clear()
    _, places = arguments()
    recorder.driver.module_of = lambda function: (8, 0)
    launched(recorder, b"cuLaunchKernel", plain(places))
    assert recorder.launches == []
    recorder.driver.library_module = lambda library: {7: 8}[library]
    launched(recorder, b"cuLaunchKernel", plain(places))
    assert len(recorder.launches) == 1


def test_what_a_linker_is_given(recorder):
    """Texts count, other inputs do not; the cubin belongs to the first of them. An attempt that fails leaves nothing."""
    text, other = ctypes.create_string_buffer(PTX.encode() + b"\0garbage"), ctypes.create_string_buffer(b"\x7fELF")
    cubin = ctypes.create_string_buffer(CUBIN)
    for kind, held, size in ((0, other, 4), (gpu.PTX_INPUT, text, len(PTX) + 1)):
        given = gpu.LinkAdd(state=3, kind=kind, data=ctypes.addressof(held), size=size)
        called(recorder, ENTER, b"cuLinkAddData", given)
        called(recorder, EXIT, b"cuLinkAddData", given)
    out = ctypes.pointer(ctypes.c_void_p(ctypes.addressof(cubin)))
    done = gpu.LinkComplete(state=3, out=out)
    called(recorder, EXIT, b"cuLinkComplete", done, status=1)
    assert recorder.sources.cubins == {}
    called(recorder, EXIT, b"cuLinkComplete", done)
    called(recorder, EXIT, b"cuLinkComplete", gpu.LinkComplete(state=4, out=out))

    assert recorder.sources.cubins == {CUBIN: PTX}
    assert recorder.sources.texts == [PTX]


def words(kind, *values):
    """An array in memory, and its address."""
    held = (kind * len(values))(*values)
    return held, ctypes.addressof(held)


def test_maps(recorder):
    """What the driver was given is kept by the 128 bytes that it made; a call that failed made none."""
    u32, u64 = ctypes.c_uint32, ctypes.c_uint64
    raw = (ctypes.c_char * 128)(*b"tiled map")
    other = (ctypes.c_char * 128)(*b"im2col map")
    kept = [words(u64, 64, 32, 8, 4), words(u64, 128, 4096, 32768), words(u32, 16, 8, 2, 1), words(u32, 1, 2, 1, 1)]
    corners = [words(ctypes.c_int, -1, -2), words(ctypes.c_int, 1, 2)]
    (dims, strides, box, steps), (lower, upper) = [at for _, at in kept], [at for _, at in corners]
    common = {"kind": 6, "rank": 4, "address": POOL + 512, "dims": dims, "strides": strides, "steps": steps, "interleave": 0, "swizzle": 3, "l2": 2, "fill": 1}  # fmt: skip
    tiled = gpu.Tiled(map=ctypes.addressof(raw), box=box, **common)
    im2col = gpu.Im2col(map=ctypes.addressof(other), lower=lower, upper=upper, channels=64, pixels=9, **common)
    called(recorder, EXIT, b"cuTensorMapEncodeTiled", tiled, status=1)
    called(recorder, ENTER, b"cuTensorMapEncodeTiled", tiled)
    assert recorder.tensor_maps == {}
    called(recorder, EXIT, b"cuTensorMapEncodeTiled", tiled)
    called(recorder, EXIT, b"cuTensorMapEncodeIm2col", im2col)

    known = {
        "address": POOL + 512, "data_type": 6, "rank": 4, "global_dim": [64, 32, 8, 4],
        "global_strides_bytes": [128, 4096, 32768], "element_strides": [1, 2, 1, 1],
        "interleave": 0, "swizzle": 3, "l2_promotion": 2, "oob_fill": 1,
    }  # fmt: skip
    assert recorder.tensor_maps[raw.raw] == {**known, "box_dim": [16, 8, 2, 1]}
    assert recorder.tensor_maps[other.raw] == {
        **known,
        "im2col": {
            "pixel_box_lower_corner": [-1, -2],
            "pixel_box_upper_corner": [1, 2],
            "channels_per_pixel": 64,
            "pixels_per_column": 9,
        },
    }


def test_a_launch_with_a_map(recorder, tmp_path):
    """A box of 4 times 4 words from column 4 and row 1 of a tensor of 8 times 8, whose bytes only the map names: the case
    has the map, and its replay equals what the GPU left, which is written down here.
    """
    load(recorder, COPY_TILE.encode())
    u32, u64 = ctypes.c_uint32, ctypes.c_uint64
    raw = (ctypes.c_char * 128)(*b"the map")
    kept = [words(u64, 8, 8), words(u64, 32), words(u32, 4, 4), words(u32, 1, 1)]
    dims, strides, box, steps = [at for _, at in kept]
    tiled = gpu.Tiled(map=ctypes.addressof(raw), kind=2, rank=2, address=POOL + 1024, dims=dims, strides=strides, box=box, steps=steps)  # fmt: skip
    called(recorder, EXIT, b"cuTensorMapEncodeTiled", tiled)
    driver = recorder.driver
    driver.params = lambda function: [(0, 128), (128, 8)]
    driver.variable = lambda module, name: None
    driver.hardware = lambda: {"gpu": "none", "driver": "", "sm": "sm_90", "launches": 1}
    tensor = np.arange(64, dtype=np.uint32).reshape(8, 8)
    driver.pool[1024:1280].view(np.uint32)[:] = tensor.reshape(-1)
    out = ctypes.c_uint64(POOL + 8192)
    places = (ctypes.c_void_p * 2)(ctypes.addressof(raw), ctypes.addressof(out))

    def work():
        driver.pool[8192:8256].view(np.uint32)[:] = tensor[1:5, 4:8].reshape(-1)

    shape = {"gx": 1, "gy": 1, "gz": 1, "bx": 16, "by": 1, "bz": 1, "shared": 0}
    launched(recorder, b"cuLaunchKernel", gpu.Launch(f=1, **shape, params=ctypes.addressof(places)), between=work)  # fmt: skip
    (launch,) = recorder.launches
    folder = tmp_path / "case"

    assert convert.convert(launch, folder).bits_equal
    assert run_case(folder).bits_equal
    spec = Case.read(folder).description["params"][0]
    assert (spec["kind"], spec["data_type"], spec["swizzle"], spec["oob_fill"]) == ("tensormap", "UINT32", "none", "zero")  # fmt: skip
    assert (spec["global_dim"], spec["box_dim"]) == ([8, 8], [4, 4])
    lost = attrs.evolve(launch, memory={})
    with pytest.raises(Exception, match="add: the memory of a tensor map is not known"):
        convert.convert(lost, tmp_path / "other")


def test_parameters_of_a_case():
    """Pointers by buffer and offset, in structures, too; floats by value unless that has no finite one; signed integers."""
    text = module_head() + ".visible .entry k(.param .u64 p, .param .align 8 .b8 s[20], .param .f32 x, .param .f32 y, .param .s32 i, .param .u8 u, .param .f64 d, .param .u64 n)\n{ ret; }\n"  # fmt: skip
    number = (POOL + 24).to_bytes(8, "little")
    raw = [
        number, b"\1" * 8 + number + b"\2" * 4, np.float32(1.5).tobytes(), np.float32(np.nan).tobytes(),
        (-5).to_bytes(4, "little", signed=True), b"\xff", np.float64(-0.1).tobytes(), (POOL - 1).to_bytes(8, "little"),
    ]  # fmt: skip
    launch = Captured("k", text, (1, 1, 1), (32, 1, 1), 0, None, False, raw, {POOL: [bytes(64), bytes(64)]})
    module = convert.load_text(text, "k.ptx")
    description, _ = convert._describe(launch, module, {}, "k")

    assert description["params"] == [
        {"kind": "ptr", "buffer": "memory0", "byte_offset": 24},
        {"kind": "bytes", "size": 20, "hex": raw[1].hex(), "pointers": [{"at": 8, "buffer": "memory0", "byte_offset": 24}]},
        {"kind": "scalar", "dtype": "f32", "value": 1.5},
        {"kind": "scalar", "dtype": "u32", "value": int.from_bytes(raw[3], "little")},
        {"kind": "scalar", "dtype": "s32", "value": -5},
        {"kind": "scalar", "dtype": "u8", "value": 255},
        {"kind": "scalar", "dtype": "f64", "value": -0.1},
        {"kind": "scalar", "dtype": "u64", "value": POOL - 1},
    ]  # fmt: skip


@pytest.fixture
def graphed(monkeypatch):
    """A recorder of the driver with a graph, instantiated as executable 5."""
    monkeypatch.setattr(launches, "Driver", GraphDriver)
    made = Recorder()
    load(made, PTX.encode())
    graph = gpu.Instantiate(out=ctypes.pointer(ctypes.c_void_p(5)), graph=9)
    called(made, EXIT, b"cuGraphInstantiate", graph)
    return made


def graph_launched(recorder):
    """The beginning of a graph's launch, which is where its nodes run."""
    called(recorder, ENTER, b"cuGraphLaunch", gpu.GraphLaunch(executable=5))


def test_graphs_that_are_left_out(graphed):
    """While another is captured, when enough is recorded, when no kernel of it is wanted, when its memory is too large."""
    graphed.driver.capturing = lambda stream: True
    graph_launched(graphed)
    graphed.driver.capturing = lambda stream: False
    graphed.most = 0
    graph_launched(graphed)
    graphed.most, graphed.kernels = None, "other"
    graph_launched(graphed)
    graphed.kernels, graphed.largest = "*", 100
    graph_launched(graphed)
    assert graphed.driver.ran == []
    assert graphed.launches == []
    assert graphed.notes == ["a graph was not recorded: it can reach an allocation of more than 100 bytes"]


def test_a_node_that_fails_alone(graphed):
    """Nothing after it runs, and memory is as it was."""
    works = graphed.driver.ok
    graphed.driver.ok = lambda name, *args: works(name, *args) and name != "cuMemsetD2D32_v2"
    graph_launched(graphed)

    assert graphed.notes == ["a graph was not recorded: one of its nodes failed when run alone"]
    assert graphed.launches == []
    assert graphed.driver.ran == ["fill"]
    assert not graphed.driver.pool.any()


def test_an_executable_that_is_updated(graphed):
    """cuGraphExecUpdate: from then on it does what the other graph does; a failed one changes nothing."""
    cloned = []
    works = graphed.driver.ok

    def ok(name, *args):
        if name == "cuGraphClone":
            cloned.append(args[1].value)
        return works(name, *args)

    graphed.driver.ok = ok
    given = gpu.GraphUpdate(executable=5, graph=10)
    called(graphed, EXIT, b"cuGraphExecUpdate", given, status=1)
    called(graphed, ENTER, b"cuGraphExecUpdate", given)
    called(graphed, EXIT, b"cuGraphExecUpdate", given)

    assert cloned == [10]
    graph_launched(graphed)
    assert len(graphed.launches) == 1


def test_a_node_whose_change_cannot_be_followed(graphed):
    """The graph is left out from then on, until it is updated as a whole; a change that failed is none."""
    change = gpu.NodeChange(executable=5, node=1, params=0)
    works = graphed.driver.ok
    graphed.driver.ok = lambda name, *args: works(name, *args) and name != "cuGraphNodeFindInClone"
    called(graphed, EXIT, b"cuGraphExecKernelNodeSetParams", change, status=1)
    graph_launched(graphed)
    assert len(graphed.launches) == 1
    called(graphed, EXIT, b"cuGraphExecKernelNodeSetParams", change)
    graph_launched(graphed)
    assert len(graphed.launches) == 1
    assert graphed.notes == ["a graph was not recorded: a kernel node was changed after the graph was instantiated"]

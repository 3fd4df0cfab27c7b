"""The driver's model: memory by address, launches with packed parameters, streams, graphs, errors."""

import ctypes
import itertools
import struct
import threading

import numpy as np
import pytest

from ptx_text import module_head
from warpsim import driver
from warpsim.driver import Copy, DriverError, Fill, Kind, Launch, Result, Side, modules
from warpsim.errors import PtxError
from warpsim.host.defaults import listening
from warpsim.host.kernel import Kernel, load
from warpsim.host.sources import Entry

HEAD = module_head()
ADD = """.visible .entry add(.param .u64 x, .param .u32 n, .param .f32 v) {
    .reg .b64 %d<3>; .reg .b32 %r<3>; .reg .f32 %f<3>; .reg .pred %p;
    ld.param.u64 %d1, [x]; ld.param.u32 %r1, [n]; ld.param.f32 %f1, [v];
    mov.u32 %r2, %tid.x; setp.ge.u32 %p, %r2, %r1; @%p ret;
    mul.wide.u32 %d2, %r2, 4; add.u64 %d1, %d1, %d2;
    ld.global.f32 %f2, [%d1]; add.f32 %f2, %f2, %f1; st.global.f32 [%d1], %f2;
    ret;
}"""
RAW = """.visible .entry raw(.param .u64 out, .param .f32 v) {
    .reg .b64 %d; .reg .b32 %r;
    ld.param.u64 %d, [out]; ld.param.b32 %r, [v]; st.global.b32 [%d], %r; ret;
}"""
CHASE = """.visible .entry chase(.param .u64 table, .param .u64 out) {
    .reg .b64 %d<3>; .reg .b32 %r;
    ld.param.u64 %d1, [table]; ld.global.u64 %d2, [%d1]; ld.param.u64 %d1, [out];
    ld.global.b32 %r, [%d2]; st.global.b32 [%d1], %r; ret;
}"""

TILE = """.version 9.4\n.target sm_90a\n.address_size 64
.visible .entry tile(.param .u64 out) .reqntid 32 .reqnctapercluster 2 .blocksareclusters .language 7 {
    .reg .b64 %d<3>; .reg .b32 %r<4>; .shared .b8 room[65536];
    ld.param.u64 %d1, [out]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r1, %r1, 32, %r2;
    mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2; mov.u32 %r3, %clusterid.x; st.global.u32 [%d1], %r3; ret;
}"""


@pytest.fixture
def gpu():
    """A driver whose findings are not printed."""
    return driver.Driver(["sm_80"], quiet=True)


def read(gpu, address, dtype, count):
    """Memory of the device as an array."""
    out = np.zeros(count, dtype)
    gpu.copy(out.ctypes.data, address, out.nbytes)
    return out


def filled(gpu, values):
    """New device memory with the values of an array."""
    address = gpu.memory.allocate(values.nbytes)
    gpu.copy(address, values.ctypes.data, values.nbytes)
    return address


def test_launch_with_packed_parameters(gpu):
    """Parameters lie where the PTX ABI puts them; a stray kernel's error sticks until the driver is reset."""
    function = gpu.load(HEAD + ADD).function("add")
    x = filled(gpu, np.arange(32, dtype=np.float32))

    gpu.launch(function, (1, 1, 1), (32, 1, 1), struct.pack("<QIf", x, 30, 2.0))
    gpu.check()

    assert read(gpu, x, np.float32, 32).tolist() == [*range(2, 32), 30, 31]
    gpu.launch(function, (1, 1, 1), (64, 1, 1), struct.pack("<QIf", x, 33, 2.0))
    assert gpu.error is Result.ILLEGAL_ADDRESS
    with pytest.raises(DriverError) as caught:
        gpu.launch(function, (1, 1, 1), (32, 1, 1), struct.pack("<QIf", x, 30, 2.0))
    assert caught.value.result.driver_name == "CUDA_ERROR_ILLEGAL_ADDRESS"
    gpu.reset()
    assert gpu.error is Result.SUCCESS
    assert gpu.memory.used == 0


def test_tile_kernels():
    """A launch of a kernel of tileiras calls its blocks one thread, and its grid counts clusters (PTX ISA 11.8.1)."""
    gpu = driver.Driver(["sm_90a"], quiet=True)
    out = filled(gpu, np.zeros(192, np.uint32))

    gpu.launch(gpu.load(TILE).function("tile"), (3, 1, 1), (1, 1, 1), struct.pack("<Q", out), cluster=(2, 1, 1))
    gpu.check()

    assert read(gpu, out, np.uint32, 192).tolist() == [0] * 64 + [1] * 64 + [2] * 64
    with pytest.raises(DriverError):
        gpu.launch(gpu.load(TILE).function("tile"), (2, 1, 1), (64, 1, 1), struct.pack("<Q", out))
    with pytest.raises(PtxError, match="65536 bytes of shared variables"):
        load(TILE.replace(".language 7", ""))


def test_raw_bits_of_scalars(gpu):
    """The payload of a signalling NaN survives."""
    out = gpu.memory.allocate(4)
    gpu.launch(gpu.load(HEAD + RAW).function("raw"), (1, 1, 1), (1, 1, 1), struct.pack("<QI", out, 0x7F812345))

    assert read(gpu, out, np.uint32, 1)[0] == 0x7F812345


@pytest.mark.parametrize("kind", [Kind.PINNED, Kind.MANAGED])
def test_host_memory_has_its_own_address(gpu, kind):
    """A pointer to pinned or managed memory that is stored in memory works on both sides."""
    data, table = gpu.memory.allocate_host(4, kind), gpu.memory.allocate_host(8, kind)
    ctypes.c_uint32.from_address(data).value = 77
    ctypes.c_uint64.from_address(table).value = data
    out = gpu.memory.allocate(4)

    gpu.launch(gpu.load(HEAD + CHASE).function("chase"), (1, 1, 1), (1, 1, 1), struct.pack("<QQ", table, out))

    assert gpu.error is Result.SUCCESS
    assert read(gpu, out, np.uint32, 1)[0] == 77


def test_registered_memory(gpu):
    """Memory of the host is seen while it is registered, and not after."""
    values, out = np.array([5, 6], np.uint32), gpu.memory.allocate(4)
    table = filled(gpu, np.array([values.ctypes.data], np.uint64))
    function = gpu.load(HEAD + CHASE).function("chase")
    gpu.memory.register(values.ctypes.data, values.nbytes)
    with pytest.raises(DriverError) as twice:
        gpu.memory.register(values.ctypes.data, values.nbytes)

    gpu.launch(function, (1, 1, 1), (1, 1, 1), struct.pack("<QQ", table, out))
    gpu.check()
    gpu.memory.unregister(values.ctypes.data)
    gpu.launch(function, (1, 1, 1), (1, 1, 1), struct.pack("<QQ", table, out))

    assert twice.value.result is Result.HOST_MEMORY_ALREADY_REGISTERED
    assert gpu.error is Result.ILLEGAL_ADDRESS


def test_copies_of_boxes(gpu):
    """Rows and planes go from pitch to pitch; bytes between them stay."""
    source = np.arange(2 * 3 * 8, dtype=np.uint8).reshape(2, 3, 8)
    target = gpu.memory.allocate(2 * 4 * 16)
    gpu.fill(target, 0xEE, 1, 128)

    work = Copy(Side(target + 1, 16, 64), Side(source.ctypes.data, 8, 24), 5, 3, 2)
    gpu.submit(work)

    found = read(gpu, target, np.uint8, 128).reshape(2, 4, 16)
    assert (found[:, :3, 1:6] == source[:, :, :5]).all()
    assert (found[:, 3] == 0xEE).all()
    assert (found[:, :, 6:] == 0xEE).all()
    gpu.submit(Fill(target + 2, 0xABCD, 2, 3, 16, 2))
    after = read(gpu, target, np.uint8, 128).reshape(2, 4, 16)
    assert (after[0, :2, 2:8].copy().view(np.uint16) == 0xABCD).all()
    after[0, :2, 2:8] = found[0, :2, 2:8]
    assert (after == found).all()


@pytest.mark.parametrize(
    ("address", "nbytes"), [(0, 4), (60, 8), (-8, 4)], ids=["null", "past the end", "before the beginning"]
)
def test_copies_that_leave_their_allocation(gpu, address, nbytes):
    """They are refused; nothing of the host is touched."""
    base = gpu.memory.allocate(64)
    data = np.zeros(8, np.uint8)
    with pytest.raises(DriverError) as caught:
        gpu.copy(address + base if address else 0, data.ctypes.data, nbytes)

    assert caught.value.result is Result.INVALID_VALUE


def test_what_is_undefined_stays_undefined(gpu):
    """A copy of memory that nothing has written makes no value of it, and a copied part is defined alone."""
    function = gpu.load(HEAD + ADD).function("add")
    fresh, copied = gpu.memory.allocate(128), gpu.memory.allocate(128)
    gpu.fill(copied, 0, 1, 128)
    gpu.fill(fresh, 0, 4, 16)
    gpu.copy(copied, fresh, 128)

    gpu.launch(function, (1, 1, 1), (32, 1, 1), struct.pack("<QIf", copied, 16, 1.0))
    assert gpu.error is Result.SUCCESS
    gpu.launch(function, (1, 1, 1), (32, 1, 1), struct.pack("<QIf", copied, 17, 1.0))
    assert list(read(gpu, copied, np.float32, 16)) == [2.0] * 16
    with pytest.raises(DriverError):
        read(gpu, copied, np.float32, 17)
    assert gpu.error is Result.LAUNCH_FAILED


def test_free(gpu):
    """Memory is freed once, by the call for its kind."""
    address = gpu.memory.allocate(16)
    gpu.memory.free(0)
    with pytest.raises(DriverError):
        gpu.memory.free(address, Kind.PINNED)
    gpu.memory.free(address)
    for again in (lambda: gpu.memory.free(address), lambda: gpu.memory.allocate(0)):
        with pytest.raises(DriverError) as caught:
            again()
        assert caught.value.result is Result.INVALID_VALUE
    with pytest.raises(DriverError) as caught:
        gpu.memory.allocate(1 << 50)
    assert caught.value.result is Result.OUT_OF_MEMORY


def test_options_of_the_environment(monkeypatch):
    """WARPSIM_MAX_SECONDS and WARPSIM_MAX_INSTRUCTIONS are numbers, or "none"."""
    monkeypatch.setenv("WARPSIM_MAX_SECONDS", "none")
    monkeypatch.setenv("WARPSIM_MAX_INSTRUCTIONS", "7")
    made = driver.Driver.from_environment()

    assert (made.options["max_seconds"], made.options["max_instructions"]) == (None, 7)


def test_limits_of_contexts(gpu, monkeypatch):
    """A launch has the limit of its own context, whatever another thread launches meanwhile."""
    function, limits, seen = gpu.load(HEAD + ADD).function("add"), itertools.count(10), []
    monkeypatch.setattr(gpu, "pending", lambda: next(limits))
    work = Launch(function, (1, 1, 1), (4, 1, 1), struct.pack("<QIf", filled(gpu, np.zeros(4, np.float32)), 4, 1.0))
    other, launch = threading.Thread(target=lambda: work.run(gpu)), Kernel.__call__

    def launched(*given, **options):
        if not other.ident:
            other.start()
            other.join(0.05)
        return launch(*given, **options)

    monkeypatch.setattr(Kernel, "__call__", launched)
    with listening(lambda state: seen.append(state.device.pending_launches)):
        work.run(gpu)
        other.join()
    assert seen == [10, 11]


def test_graph_of_captured_streams(gpu):
    """Two streams that an event joins become one graph, which is done again in order; nothing runs while it is captured."""
    function = gpu.load(HEAD + ADD).function("add")
    x = filled(gpu, np.zeros(4, np.float32))
    work = Launch(function, (1, 1, 1), (4, 1, 1), struct.pack("<QIf", x, 4, 1.0))
    first, second = driver.Stream(gpu), driver.Stream(gpu)
    forked, joined = driver.Event(), driver.Event()

    first.begin()
    gpu.submit(work, first)
    first.record(forked)
    second.wait(forked)
    gpu.submit(work, second)
    second.record(joined)
    first.wait(joined)
    gpu.submit(work, first)
    graph = first.end()

    assert read(gpu, x, np.float32, 1)[0] == 0
    ready = driver.GraphExec(graph)
    gpu.replay(ready)
    gpu.replay(ready)
    assert read(gpu, x, np.float32, 1)[0] == 6
    ready.replace(graph.nodes[1], Launch(function, (1, 1, 1), (4, 1, 1), struct.pack("<QIf", x, 4, 10.0)))
    gpu.replay(ready)
    assert read(gpu, x, np.float32, 1)[0] == 18


@pytest.mark.parametrize(("flags", "timed"), [(0, True), (1, True), (2, False), (3, False)])
def test_time_between_events(gpu, flags, timed):
    """CU_EVENT_DISABLE_TIMING (2) alone takes the time from an event; how a host waits (1) does not."""
    first, last = driver.Event(flags), driver.Event()
    for event in (first, last):
        driver.Stream(gpu).record(event)
    if timed:
        assert last.since(first) >= 0
    else:
        with pytest.raises(DriverError):
            last.since(first)


def test_captures_that_are_not_joined(gpu):
    """Work of a stream that was drawn in and does not come back is an error."""
    first, second, event = driver.Stream(gpu), driver.Stream(gpu), driver.Event()
    first.begin()
    first.record(event)
    second.wait(event)
    second.submit(driver.Nothing())
    with pytest.raises(DriverError) as caught:
        first.end()

    assert caught.value.result is Result.STREAM_CAPTURE_UNJOINED
    assert first.capture is None
    assert second.capture is None


def test_graph_order(gpu):
    """Edges say what comes first; a cycle cannot be made ready."""
    graph = driver.Graph()
    last, middle = graph.add(driver.Nothing()), graph.add(driver.Nothing())
    start = graph.add(driver.Nothing())
    graph.connect(middle, last)
    graph.connect(start, middle)

    assert graph.order() == [start, middle, last]
    graph.connect(last, start)
    with pytest.raises(DriverError, match="cycle"):
        driver.GraphExec(graph)


def test_edges_stay_within_a_graph(gpu):
    """A node of another graph is no dependency, and none is twice."""
    one, other = driver.Graph(), driver.Graph()
    node = one.add(driver.Nothing())

    with pytest.raises(DriverError, match="repeated"):
        one.add(driver.Nothing(), [node, node])
    with pytest.raises(DriverError, match="another graph"):
        other.add(driver.Nothing(), [node])


def test_dynamic_shared_memory_has_to_be_asked_for(gpu):
    """More than 48 KiB takes an attribute, as on a GPU."""
    function = gpu.load(HEAD + ADD).function("add")
    x = filled(gpu, np.zeros(4, np.float32))
    params = struct.pack("<QIf", x, 4, 1.0)
    with pytest.raises(DriverError, match="MAX_DYNAMIC_SHARED"):
        gpu.launch(function, (1, 1, 1), (4, 1, 1), params, shared=50000)
    function.max_dynamic = 60000
    gpu.launch(function, (1, 1, 1), (4, 1, 1), params, shared=50000)
    with pytest.raises(DriverError):
        gpu.launch(function, (0, 1, 1), (4, 1, 1), params)
    with pytest.raises(DriverError) as caught:
        gpu.launch(function, (100000, 1, 1), (1024, 1, 1), params, cooperative=True)
    assert caught.value.result is Result.COOPERATIVE_LAUNCH_TOO_LARGE


def test_static_libraries(gpu, monkeypatch):
    """Of a library's objects those are linked that define what is missing; machine code and newer PTX are passed over."""

    def function(name, value, declared=""):
        return (
            HEAD
            + f"{declared}.visible .func (.param .b32 r) {name}() {{ .reg .b32 %r, %s; {value} st.param.b32 [r], %r; ret; }}"
        )

    six = ".extern .func (.param .b32 r) six();\n"
    call = "{ .param .b32 got; call (got), six, (); ld.param.b32 %s, [got]; } add.u32 %r, %s, 1;"
    texts = [
        function("seven", call, six),
        function("eight", "nonsense;"),
        function("six", "mov.b32 %r, 66;").replace("sm_80", "sm_100"),
        function("six", "mov.b32 %r, 6;"),
    ]
    units = [[Entry(80, 0, 0, text.encode())] for text in texts]
    monkeypatch.setattr(modules.sources, "units", lambda image: units)
    user = """.extern .func (.param .b32 r) seven();
.visible .entry k(.param .u64 out) { .reg .b64 %d; .reg .b32 %r; .param .b32 got;
    ld.param.u64 %d, [out]; { call (got), seven, (); } ld.param.b32 %r, [got]; st.global.b32 [%d], %r; ret; }"""
    linker, out = driver.Linker(), gpu.memory.allocate(4)
    linker.add(b"!<arch>\n", 80)
    linker.add((HEAD + user).encode(), 80)

    gpu.launch(gpu.load(linker.complete()).function("k"), (1, 1, 1), (1, 1, 1), struct.pack("<Q", out))
    assert read(gpu, out, np.uint32, 1)[0] == 7


@pytest.mark.parametrize(
    ("image", "result"),
    [
        (b"\x7fELF" + bytes(60), Result.NO_BINARY_FOR_GPU),
        (b"nothing", Result.INVALID_IMAGE),
        (HEAD.encode() + b".visible .entry k() { nonsense; }", Result.INVALID_PTX),
    ],
    ids=["cubin", "no image", "wrong PTX"],
)
def test_images_that_cannot_run(gpu, image, result):
    """The driver's code, and what to do."""
    with pytest.raises(DriverError) as caught:
        gpu.load(image)

    assert caught.value.result is result
    if result is Result.NO_BINARY_FOR_GPU:
        assert "-gencode" in str(caught.value)


def test_a_fatbin_for_newer_gpus(gpu, monkeypatch):
    """PTX that the GPU cannot run is as if there were none: the message says what there is."""
    entries = [Entry(n, 0, 0, HEAD.replace("sm_80", f"sm_{n}").encode()) for n in (100, 120)]
    monkeypatch.setattr(modules.sources, "units", lambda image: [entries])
    with pytest.raises(DriverError, match="holds PTX for compute_100, compute_120; the GPU is sm_90") as caught:
        modules._of_fatbin(b"", 90)

    assert caught.value.result is Result.NO_BINARY_FOR_GPU
    assert modules._of_fatbin(b"", 120) == HEAD.replace("sm_80", "sm_120").encode()


def test_the_ptx_of_a_fatbin_that_a_gpu_takes(monkeypatch):
    """Of PTX for the same capability, that for the architecture, then the family's: nvcc 13.0 marks them so with -arch=sm_100a."""
    flags = {"sm_100": 0, "sm_100a": 0x10_0000, "sm_100f": 0x20_0000}
    entries = [Entry(100, flag, 0, HEAD.replace("sm_80", target).encode()) for target, flag in flags.items()]
    monkeypatch.setattr(modules.sources, "units", lambda image: [entries])

    assert b"sm_100a" in modules._of_fatbin(b"", 100)
    assert b"sm_100f" in modules._of_fatbin(b"", 103)


def test_memory_of_a_function(gpu):
    """Bytes of shared and constant memory that it takes."""
    text = HEAD + ".const .b8 a[10];\n.const .align 16 .b8 b[80];\n.global .b8 c[7];\n.visible .entry k() {"
    function = gpu.load(text + " .shared .b8 s[12]; .reg .b32 %r; ld.shared.u8 %r, [s]; ret; }").function("k")

    assert (function.static_shared, function.const_bytes) == (12, 90)


def test_managed_variables(gpu):
    """A managed variable lies in memory of the host, at its own address."""
    module = gpu.load(HEAD + ".visible .global .attribute(.managed) .align 4 .u32 m = 5;\n" + RAW)
    address, size = module.variable("m")

    assert size == 4
    assert ctypes.c_uint32.from_address(address).value == 5
    gpu.launch(module.function("raw"), (1, 1, 1), (1, 1, 1), struct.pack("<QI", address, 9))
    assert ctypes.c_uint32.from_address(address).value == 9


def test_report(tmp_path):
    """The report has a document for each place where something was found, however often."""
    import json

    gpu = driver.Driver(["sm_80"], quiet=True, on_finding="collect", report=str(tmp_path / "report"))
    function = gpu.load(HEAD + ADD).function("add")
    x = filled(gpu, np.zeros(4, np.float32))
    for _ in range(2):
        gpu.launch(function, (1, 1, 1), (8, 1, 1), struct.pack("<QIf", x, 8, 1.0))

    records = [json.loads(line) for line in (tmp_path / "report").read_text().splitlines()]
    assert [r["rule"] for r in records] == ["out-of-bounds"]
    assert "at the end of allocation 1 (16 bytes of device memory) [" in records[0]["message"]
    assert {r["launch"] for r in records} == {1}
    assert gpu.error is Result.SUCCESS


@pytest.mark.parametrize(
    ("target", "sm", "expected"),
    [
        (b"", 90, True),
        (b".target sm_90", 90, True),
        (b".target sm_90", 100, True),
        (b".target sm_100", 90, False),
        (b".target sm_90a", 90, True),
        (b".target sm_90a", 100, False),
        (b".target sm_100f", 103, True),
        (b".target sm_100f", 120, False),
    ],
)
def test_which_targets_run(target, sm, expected):
    """Later GPUs run plain targets, those of the family its own, and no other one of the architecture alone."""
    assert modules.runs(b".version 8.8\n" + target + b"\n.address_size 64\n", sm) is expected

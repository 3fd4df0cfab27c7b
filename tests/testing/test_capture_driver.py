"""The calls that a recording makes itself, of a libcuda that answers as cuda.h says, and CUPTI's callbacks."""

import ctypes
import sys
import types

import pytest

import warpsim
from warpsim.capture import gpu

OK, INVALID = 0, 1


class Cuda:
    """libcuda: a function of two parameters, a kernel handle of a library, a graph of a diamond, one device."""

    EDGES = ((1, 2), (1, 3), (2, 4), (3, 4))

    def __init__(self):
        self.memory = bytearray(64)
        self.calls = []

    def __getattr__(self, name):
        raise AttributeError(name)  # what an older driver does not have

    def cuMemcpyDtoH_v2(self, buffer, address, size):
        """From the only 64 bytes."""
        ctypes.memmove(buffer, bytes(self.memory[address.value :][: size.value]), size.value)
        return OK if address.value + size.value <= 64 else INVALID

    def cuMemcpyHtoD_v2(self, address, held, size):
        """To them."""
        self.memory[address.value : address.value + size.value] = held
        return OK

    def cuCtxSynchronize(self):
        """Once, and then an error is found."""
        self.calls.append("synchronise")
        return OK if len(self.calls) == 1 else 719

    def cuStreamIsCapturing(self, stream, status):
        """Stream 5 only; stream 6 is none."""
        status._obj.value = 1 if stream.value == 5 else 0
        return INVALID if stream.value == 6 else OK

    def cuFuncGetParamInfo(self, function, index, offset, size):
        """A pointer and an integer, of function 10."""
        if function.value != 10 or index.value > 1:
            return INVALID
        offset._obj.value, size._obj.value = ((0, 8), (8, 4))[index.value]
        return OK

    def cuKernelGetParamInfo(self, function, index, offset, size):
        """Three bytes, of kernel 20."""
        offset._obj.value, size._obj.value = 0, 3
        return OK if function.value == 20 and index.value == 0 else INVALID

    def cuFuncGetModule(self, module, function):
        """10 is of module 77, and so is the function of kernel 20."""
        module._obj.value = 77
        return OK if function.value in (10, 11) else INVALID

    def cuKernelGetFunction(self, function, kernel):
        """11, of kernel 20."""
        function._obj.value = 11
        return OK if kernel.value == 20 else INVALID

    def cuKernelGetLibrary(self, library, kernel):
        """88."""
        library._obj.value = 88
        return OK

    def cuFuncGetName(self, name, function):
        """Of function 10."""
        name._obj.value = b"add"
        return OK if function.value == 10 else INVALID

    def cuKernelGetName(self, name, kernel):
        """Of kernel 20."""
        name._obj.value = b"sub"
        return OK if kernel.value == 20 else INVALID

    def cuLibraryGetModule(self, module, library):
        """As a number one higher."""
        module._obj.value = library.value + 1
        return OK

    def cuGraphGetNodes(self, graph, nodes, count):
        """Four, the last first."""
        count._obj.value = 4
        for place, node in enumerate((4, 3, 2, 1)) if nodes is not None else ():
            nodes[place] = node
        return OK

    def cuGraphGetEdges(self, graph, before, after, count):
        """Those of the diamond."""
        count._obj.value = len(self.EDGES)
        for place, (one, other) in enumerate(self.EDGES) if before is not None else ():
            before[place], after[place] = one, other
        return OK

    def cuGraphNodeGetType(self, node, kind):
        """The node's number."""
        kind._obj.value = node.value
        return OK

    def cuCtxGetDevice(self, device):
        """Device 3."""
        device._obj.value = 3
        return OK

    def cuDeviceGetName(self, name, size, device):
        """Of that device."""
        assert (size, device.value) == (100, 3)
        name.value = b"NVIDIA H100"
        return OK

    def cuDeviceGetAttribute(self, out, number, device):
        """9.0, by CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR."""
        out._obj.value = {75: 9, 76: 0}[number]
        return OK

    def cuDriverGetVersion(self, version):
        """12.8."""
        version._obj.value = 12080
        return OK


class Newer(Cuda):
    """A driver whose edges have data: the call has one more array."""

    def cuGraphGetEdges_v2(self, graph, before, after, data, count):
        """Those of the diamond."""
        assert (data is None) == (before is None)
        return self.cuGraphGetEdges(graph, before, after, count)


@pytest.fixture(params=[Cuda, Newer])
def driver(request, monkeypatch):
    """The driver's calls."""
    monkeypatch.setattr(gpu.ctypes, "CDLL", lambda name: request.param())
    return gpu.Driver()


def test_calls(driver):
    """What each says, and what is said where it fails."""
    driver.cuda.memory[8:12] = b"abcd"
    assert driver.read(8, 4) == b"abcd"
    assert driver.read(62, 4) is None
    assert driver.write(10, b"xy")
    assert driver.read(8, 4) == b"abxy"
    assert (driver.synchronise(), driver.synchronise()) == (True, False)
    assert [driver.capturing(stream) for stream in (0, 5, 6)] == [False, True, False]
    assert driver.params(10) == [(0, 8), (8, 4)]
    assert driver.params(20) == [(0, 3)]
    assert driver.params(30) == []
    assert (driver.module_of(10), driver.module_of(20), driver.module_of(30)) == ((77, 0), (77, 88), (77, 88))
    assert [driver.name_of(function) for function in (10, 20, 30)] == ["add", "sub", ""]
    assert driver.library_module(88) == 89
    assert driver.graph_node_type(4) == 4


def test_nodes_come_after_those_that_they_depend_on(driver):
    """Of the diamond 1, 2 and 3, 4."""
    order = driver.graph_nodes(9)

    assert sorted(order) == [1, 2, 3, 4]
    assert all(order.index(one) < order.index(other) for one, other in Cuda.EDGES)


def test_hardware(driver, monkeypatch):
    """The GPU, its architecture, and the version of the driver as its module gives it, if there is one."""
    monkeypatch.setattr(gpu, "driver_version", lambda: "570.124.06")
    known = {"gpu": "NVIDIA H100", "driver": "570.124.06", "sm": "sm_90", "launches": 1}
    assert driver.hardware() == known


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06  Wed Feb 26 2025\nGCC version: 12\n",
            "570.124.06",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65  Release\n", "580.65"),
        ("nothing of that kind", ""),
        (None, ""),
    ],
)
def test_the_version_of_the_driver(text, version, tmp_path, monkeypatch):
    """Two or three numbers with points between."""
    file = tmp_path / "version"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(gpu, "open", lambda path, **how: file.open(**how), raising=False)

    assert gpu.driver_version() == version


class Cupti:
    """CUPTI: keeps the callback; the function that it is told to refuse fails with status 15."""

    def __init__(self, refused=""):
        self.refused, self.calls = refused, []

    def cuptiSubscribe(self, handle, callback, user):
        """Give a handle."""
        handle._obj.value, self.callback = 4711, callback
        return 15 * (self.refused == "cuptiSubscribe")

    def cuptiEnableDomain(self, enable, handle, domain):
        """Of the driver's functions."""
        self.calls.append(("enable", enable.value, handle.value, domain.value))
        return 15 * (self.refused == "cuptiEnableDomain")

    def cuptiUnsubscribe(self, handle):
        """The end."""
        self.calls.append(("unsubscribe", handle.value))
        return 0

    def cuptiGetResultString(self, status, said):
        """What a status means."""
        said._obj.value = b"CUPTI_ERROR_%d" % status
        return 0


def test_callbacks(monkeypatch):
    """Those of the driver arrive, without the suffixes of their versions, until the subscription ends."""
    library, told = Cupti(), []
    monkeypatch.setattr(gpu, "library", lambda: library)
    subscription = gpu.Subscription(lambda *call: told.append(call[:3]))
    assert library.calls == [("enable", 1, 4711, 1)]
    for domain, name in ((1, b"cuLaunchKernel"), (1, b"cuMemcpyDtoH_v2"), (1, b"cuLaunchKernel_ptsz"), (1, b"cuMemsetD8_v2_ptsz"), (3, b"cudaMalloc")):  # fmt: skip
        data = gpu.CallbackData(site=gpu.EXIT, function=name, params=99)
        library.callback(None, domain, 0, ctypes.pointer(data))
    subscription.close()

    assert told == [(gpu.EXIT, name, 99) for name in ("cuLaunchKernel", "cuMemcpyDtoH", "cuLaunchKernel", "cuMemsetD8")]  # fmt: skip
    assert library.calls[1:] == [("unsubscribe", 4711)]


@pytest.mark.parametrize("refused", ["cuptiSubscribe", "cuptiEnableDomain"])
def test_a_profiler_is_there_before(refused, monkeypatch):
    """CUPTI has one subscriber in a process; what it says is passed on."""
    monkeypatch.setattr(gpu, "library", lambda: Cupti(refused))
    with pytest.raises(warpsim.LaunchError, match=rf"{refused}: CUPTI_ERROR_15 \(15\); does a profiler use CUPTI"):
        gpu.Subscription(lambda *call: None)


def test_where_cupti_is_looked_for(monkeypatch, tmp_path):
    """In the process first, then where WARPSIM_CUPTI says, in Python packages, the newest first, and in the toolkit."""
    package, toolkit = tmp_path / "site" / "nvidia", tmp_path / "cuda"
    for place in (package / "cu12", package / "cu13", package / "cuda_cupti"):
        (place / "lib").mkdir(parents=True)
        (place / "lib" / "libcupti.so.12").touch()
    for inside in ("lib64", "extras/CUPTI/lib64"):
        (toolkit / inside).mkdir(parents=True)
        (toolkit / inside / "libcupti.so").touch()
    maps = tmp_path / "maps"
    maps.write_text("7f00-7f01 r-xp 00 08:01 5 /opt/libcupti.so.12\n" * 2 + "7f02-7f03 r-xp 00 08:01 6 /opt/libc.so\n")
    monkeypatch.setattr(gpu, "open", lambda path, **how: maps.open(**how), raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    monkeypatch.setenv("WARPSIM_CUPTI", "/mine/libcupti.so")
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    found = [name for name in gpu.candidates() if not name.startswith("/usr")]

    assert found == [
        "/opt/libcupti.so.12",
        "/mine/libcupti.so",
        *(f"{package}/{name}/lib/libcupti.so.12" for name in ("cu13", "cu12", "cuda_cupti")),
        *(f"{toolkit}/{inside}/libcupti.so" for inside in ("lib64", "extras/CUPTI/lib64")),
        "libcupti.so.13",
        "libcupti.so.12",
        "libcupti.so",
    ]


def test_the_first_that_can_be_loaded(monkeypatch):
    """Others are passed over; if none can be, the message has the last problem and says where CUPTI comes from."""
    loaded = types.SimpleNamespace()

    def load(name):
        if name != "good":
            raise OSError(f"{name}: cannot open shared object file")
        return loaded

    monkeypatch.setattr(gpu.ctypes, "CDLL", load)
    monkeypatch.setattr(gpu, "candidates", lambda: iter(["bad", "good", "never"]))
    assert gpu.library() is loaded
    monkeypatch.setattr(gpu, "candidates", lambda: iter(["bad", "worse"]))
    with pytest.raises(warpsim.LaunchError, match=r"pip install nvidia-cuda-cupti; WARPSIM_CUPTI names the library\. worse: cannot"):  # fmt: skip
        gpu.library()

"""Recording at the driver, with a driver that is no GPU's: memory and names from a dictionary, arguments as ctypes structures."""

import ctypes
import sys
import types

import numpy as np
import pytest

import warpsim
from fake_driver import ADD, COUNTER, FILL, HOST, POOL, PTX, FakeDriver, GraphDriver, called
from warpsim.capture import gpu, graphs, launches
from warpsim.capture import session as capture_session
from warpsim.capture.gpu import ENTER, EXIT
from warpsim.capture.launches import VARIABLE, Sources
from warpsim.capture.session import recording
from warpsim.cli import main
from warpsim.errors import Finding
from warpsim.host.cases import Case, run_case


def test_an_allocation_whose_size_is_not_known(monkeypatch):
    """The driver knows where device memory begins, but does not say where it ends: nothing of it can be read."""
    refused = set()

    class Library:
        """An allocation of 256 bytes, and what is not told of it."""

        @staticmethod
        def cuPointerGetAttribute(out, number, address):
            """Its kind, start or size."""
            out._obj.value = {gpu.MEMORY_TYPE: gpu.DEVICE, gpu.RANGE_START: POOL, gpu.RANGE_SIZE: 256}[number]
            return int(number in refused)

        @staticmethod
        def cuModuleGetGlobal_v2(address, size, module, name):
            """One variable."""
            address._obj.value, size._obj.value = COUNTER, 4
            return int(name != b"counter")

    monkeypatch.setattr(gpu.ctypes, "CDLL", lambda name: Library())
    driver = gpu.Driver()
    assert driver.allocation(POOL + 4) == (POOL, 256)
    for number in (gpu.RANGE_START, gpu.RANGE_SIZE):
        refused.add(number)
        assert driver.allocation(POOL + 4) is None
        refused.clear()
    assert driver.variable(77, "counter") == (COUNTER, 4)
    assert driver.variable(77, "other") is None


@pytest.fixture
def session(monkeypatch, tmp_path):
    """A recording of the fake driver."""
    monkeypatch.setattr(launches, "Driver", FakeDriver)
    return recording(tmp_path / "cases")


def test_a_launch_that_makes_no_case(session, monkeypatch):
    """Why is noted, and the other launches are kept."""

    def convert(launch, folder):
        if launch.name == "first":
            raise ValueError("no such case")
        return types.SimpleNamespace(ok=True, bits_equal=True)

    monkeypatch.setattr(capture_session, "convert", convert)
    for name in ("first", "second"):
        session._keep(types.SimpleNamespace(name=name))

    assert session.notes == ["first: ValueError: no such case"]
    assert [folder.name for folder in session.cases] == ["second-0"]


def test_a_launch_becomes_a_case(session):
    """Its pool of a megabyte is cut to what the kernel touches, with the type of its accesses; variables come along."""
    recorder, driver = session.recorder, session.recorder.driver
    out = ctypes.pointer(ctypes.c_void_p(77))
    text = ctypes.create_string_buffer(PTX.encode())
    called(recorder, EXIT, b"cuModuleLoadData", gpu.Load(out=out, image=ctypes.addressof(text)))
    values = [ctypes.c_uint64(POOL + 4096), ctypes.c_float(0.5), ctypes.c_uint32(60), ctypes.c_uint64(POOL + 8192)]
    places = (ctypes.c_void_p * 4)(*[ctypes.addressof(v) for v in values])
    shape = {"gx": 1, "gy": 1, "gz": 1, "bx": 64, "by": 1, "bz": 1, "shared": 0}
    source = driver.pool[8192 : 8192 + 240].view(np.float32)
    source[:] = np.arange(60)
    launch = gpu.Launch(f=1, params=ctypes.addressof(places), **shape)
    called(recorder, ENTER, b"cuLaunchKernel", launch)
    driver.pool[4096 : 4096 + 240].view(np.float32)[:] = source * np.float32(0.5)
    driver.counter[0] += 1
    called(recorder, EXIT, b"cuLaunchKernel", launch)
    session.__exit__(None, None, None)

    assert session.notes == []
    (case,) = session.cases
    description = Case.read(case).description
    assert run_case(case).bits_equal
    assert description["buffers"][0]["dtype"] == "f32"
    assert description["buffers"][0]["nbytes"] == 4096 + 240
    assert [p.get("byte_offset") for p in description["params"]] == [0, None, None, 4096]
    assert description["globals"] == [{"name": "counter", "in": "in_variable_counter", "out": "out_variable_counter"}]
    assert description["hardware"]["sm"] == "sm_80"


def test_an_allocation_of_any_size_is_recorded_whole(session):
    """A driver gives 800 bytes where 800 were asked for: the last of them are read, too."""
    recorder, driver = session.recorder, session.recorder.driver
    driver.pool = np.zeros(800, np.uint8)
    driver.pool[400:].view(np.float32)[:] = np.arange(100)
    out, text = ctypes.pointer(ctypes.c_void_p(77)), ctypes.create_string_buffer(PTX.encode())
    called(recorder, EXIT, b"cuModuleLoadData", gpu.Load(out=out, image=ctypes.addressof(text)))
    values = [ctypes.c_uint64(POOL), ctypes.c_float(2), ctypes.c_uint32(100), ctypes.c_uint64(POOL + 400)]
    places = (ctypes.c_void_p * 4)(*[ctypes.addressof(v) for v in values])
    shape = {"gx": 1, "gy": 1, "gz": 1, "bx": 128, "by": 1, "bz": 1}
    launch = gpu.Launch(f=1, params=ctypes.addressof(places), **shape)
    called(recorder, ENTER, b"cuLaunchKernel", launch)
    driver.pool[:400].view(np.float32)[:] = 2 * np.arange(100)
    driver.counter[0] += 1
    called(recorder, EXIT, b"cuLaunchKernel", launch)
    session.__exit__(None, None, None)

    assert session.notes == []
    assert run_case(session.cases[0]).bits_equal


def test_what_cannot_be_recorded_is_said(session):
    """Machine code without PTX, a failed launch, and a surprise in between: a note, and the program goes on."""
    recorder = session.recorder
    launch = gpu.Launch(f=1)
    called(recorder, ENTER, b"cuLaunchKernel", launch)
    called(recorder, EXIT, b"cuLaunchKernel", launch)
    name = ctypes.create_string_buffer(b"/no/such/file")
    out = ctypes.pointer(ctypes.c_void_p(5))
    called(recorder, EXIT, b"cuModuleLoad", gpu.Load(out=out, image=ctypes.addressof(name)))
    session.__exit__(None, None, None)

    assert session.cases == []
    assert "no PTX found" in session.notes[0]
    assert "cuModuleLoad: FileNotFoundError" in session.notes[1]


def test_packed_parameters_and_attributes():
    """A launch may hand over its parameters as one buffer, and clusters as attributes."""
    packed = ctypes.create_string_buffer(bytes(range(24)), 24)
    size = ctypes.c_uint64(24)
    extra = (ctypes.c_uint64 * 5)(gpu.POINTER, ctypes.addressof(packed), gpu.SIZE, ctypes.addressof(size), 0)
    raw = (ctypes.c_uint32 * 36)(gpu.CLUSTER, 0, 2, 1, 1, *[0] * 13, gpu.COOPERATIVE, 0, 1)
    config = gpu.Config(attributes=ctypes.addressof(raw), count=2)

    assert gpu.params_of([(0, 8), (8, 4)], None, ctypes.addressof(extra)) == [
        bytes(range(8)),
        bytes(range(8, 12)),
    ]
    assert gpu.attributes_of(config) == ((2, 1, 1), True)


def test_variables_of_a_text():
    """Those in .global and .const, as compilers write them."""
    text = ".global .align 4 .u32 a = 5;\n.visible .const .align 8 .b8 b[16];\n.shared .u32 s;\n.global .u32 c;"

    assert VARIABLE.findall(text) == ["a", "b", "c"]
    sources = Sources()
    sources.see(PTX)
    assert sources.ptx(b"\x7fELF" + bytes(60), "add", 90) == PTX
    assert sources.ptx(b"", "sub", 90) is None


def test_without_a_gpu(tmp_path, monkeypatch, capfd):
    """A machine without a driver is told so; `warpsim record` runs a program all the same. It succeeds only if a case
    is written, whatever kept the program from it.
    """
    monkeypatch.setenv("PYTHONPATH", "")
    with pytest.raises(warpsim.LaunchError, match="needs a machine with an NVIDIA driver"):
        recording(tmp_path)
    monkeypatch.setenv(capture_session.FOLDER, str(tmp_path))
    capture_session.start_from_environment()
    assert "needs a machine with an NVIDIA driver" in capfd.readouterr().err
    monkeypatch.delenv(capture_session.FOLDER)
    folder = tmp_path / "case"
    writes = f"import os; os.makedirs({str(folder)!r}, exist_ok=True); open({str(folder / 'case.json')!r}, 'w')"
    fails = f"{writes}; open(os.environ['WARPSIM_RECORD_FAILED'], 'w')"
    assert main(["record", "-o", str(tmp_path), "--", sys.executable, "-c", "pass"]) == 2
    assert "nothing was recorded" in capfd.readouterr().err
    for text, status in (
        ("raise SystemExit(7)", 7),
        (writes, 0),
        ("pass", 2),
        (fails, 1),
        *[("import os; os.kill(os.getpid(), 9)", 137)] * (sys.platform != "win32"),
    ):
        # -I: the program starts without what records it, which takes its time
        assert main(["record", "-o", str(tmp_path), "--", sys.executable, "-I", "-c", text]) == status
        assert ("nothing was recorded" in capfd.readouterr().err) == (status == 2)


def test_what_record_starts_records_itself_until_its_end(tmp_path, monkeypatch, capsys):
    """A process in whose environment a folder stands opens a recording at once, closes it at its end, and says what it kept."""
    opened, ends = [], []
    monkeypatch.setattr(launches, "Driver", FakeDriver)
    monkeypatch.setattr(launches.Recorder, "open", lambda self: opened.append(self))
    monkeypatch.setattr(capture_session.atexit, "register", ends.append)
    monkeypatch.setenv(capture_session.FOLDER, str(tmp_path / "kept"))
    monkeypatch.setenv(capture_session.KERNELS, "add*")
    monkeypatch.setenv(capture_session.MOST, "3")
    capture_session.start_from_environment()

    (begun,) = opened
    assert (begun.kernels, begun.most) == ("add*", 3)
    (end,) = ends
    monkeypatch.setattr(launches.Recorder, "close", lambda self: self.notes.append("closed"))
    end()
    assert capsys.readouterr().err == "warpsim record: closed\n"


def test_a_case_whose_replay_fails(session, monkeypatch, tmp_path):
    """Is kept and noted, and the process says so to `warpsim record`."""
    wrong = types.SimpleNamespace(buffer="out", differing=3, bits_equal=False)
    results = {
        "good": types.SimpleNamespace(ok=True, bits_equal=True),
        "differs": types.SimpleNamespace(ok=False, bits_equal=False, error=None, outputs=[wrong], findings=()),
        "breaks": types.SimpleNamespace(ok=False, bits_equal=True, error=None, outputs=[], findings=[Finding("deadlock", "")]),
        "nothing": types.SimpleNamespace(ok=False, bits_equal=False, error="nothing to compare", outputs=[], findings=()),
    }  # fmt: skip
    monkeypatch.setattr(capture_session, "convert", lambda launch, folder: results[launch.name])
    for name in results:
        session._keep(types.SimpleNamespace(name=name))

    assert [folder.name for folder in session.cases] == ["good-0", "differs-0", "breaks-0", "nothing-0"]
    assert session.failed == session.cases[1:]
    said = ["out: 3 elements differ", "deadlock", "nothing to compare"]
    assert session.notes == [f"{f}: its replay fails ({why})" for f, why in zip(session.failed, said, strict=True)]
    ends = []
    monkeypatch.setattr(capture_session, "recording", lambda *given, **more: session)
    monkeypatch.setattr(capture_session.atexit, "register", ends.append)
    monkeypatch.setattr(launches.Recorder, "open", lambda self: None)
    monkeypatch.setattr(launches.Recorder, "close", lambda self: None)
    monkeypatch.setenv(capture_session.FOLDER, str(tmp_path))
    monkeypatch.setenv(capture_session.FAILED, str(tmp_path / "failed"))
    capture_session.start_from_environment()
    ends[0]()
    assert (tmp_path / "failed").exists()


# ---- graphs ---------------------------------------------------------------------------------------


@pytest.fixture
def graphed(monkeypatch, tmp_path):
    """A recording of that driver, with a graph that was instantiated as executable 5."""
    monkeypatch.setattr(launches, "Driver", GraphDriver)
    made = recording(tmp_path / "cases")
    image, out = ctypes.create_string_buffer(PTX.encode()), ctypes.pointer(ctypes.c_void_p(77))
    load = gpu.Load(out=out, image=ctypes.addressof(image))
    called(made.recorder, EXIT, b"cuModuleLoadData", load)
    graph = gpu.Instantiate(out=ctypes.pointer(ctypes.c_void_p(5)), graph=9)
    called(made.recorder, EXIT, b"cuGraphInstantiateWithFlags", graph)
    return made


def launch(recorder):
    """The graph's launch, and what it then does itself."""
    given, driver = gpu.GraphLaunch(executable=5), recorder.driver
    called(recorder, ENTER, b"cuGraphLaunch", given)
    before = driver.pool.copy(), int(driver.counter[0])
    driver.run_fill()
    driver.run_add()
    called(recorder, EXIT, b"cuGraphLaunch", given)
    return before


def test_a_kernel_of_a_graph_becomes_a_case(graphed):
    """It is given what the memset before it left; the graph finds memory and variables as they were."""
    pool, counter = launch(graphed.recorder)
    graphed.__exit__(None, None, None)

    assert graphed.notes == []
    (case,) = graphed.cases
    assert run_case(case).bits_equal
    assert Case.read(case).data["in_memory0"][:60].tolist() == [3.0] * 60
    assert not pool.any()
    assert counter == 9
    assert graphed.recorder.driver.ran == ["fill", "add", "fill", "add"]


def test_changed_nodes_are_followed(graphed):
    """A kernel node with new parameters is launched with those; a graph with another changed node is left out, and said so."""
    recorder, driver = graphed.recorder, graphed.recorder.driver
    values = [ctypes.c_uint64(POOL + 8192), *driver.values[1:]]
    places = (ctypes.c_void_p * 4)(*[ctypes.addressof(v) for v in values])
    params = gpu.KernelNode.from_buffer_copy(driver.kernel)
    params.params = ctypes.addressof(places)
    change = gpu.NodeChange(executable=5, node=ADD, params=ctypes.addressof(params))
    called(recorder, EXIT, b"cuGraphExecKernelNodeSetParams", change)
    launch(recorder)
    called(recorder, EXIT, b"cuGraphExecMemcpyNodeSetParams", change)
    launch(recorder)
    graphed.__exit__(None, None, None)

    assert [Case.read(c).description["params"][0]["byte_offset"] for c in graphed.cases] == [8192]
    assert graphed.notes == ["a graph was not recorded: a node was changed after the graph was instantiated"]


def test_what_cannot_run_alone(graphed):
    """Host functions would run twice: a note, and nothing runs but the graph."""
    recorder = graphed.recorder
    recorder.driver.nodes = [FILL, ADD, HOST]
    launch(recorder)
    called(recorder, ENTER, b"cuGraphExecDestroy", gpu.GraphLaunch(executable=5))
    launch(recorder)
    graphed.__exit__(None, None, None)

    assert graphed.cases == []
    assert recorder.driver.ran == ["fill", "add"] * 2
    assert graphed.notes == [
        "a graph was not recorded: it has a node of kind host function",
        "a graph was not recorded: it was instantiated before recording began, or cannot be cloned",
    ]


def test_a_node_of_a_kernel_handle():
    """Graphs hold functions of modules (func) or kernels of libraries (kern); either is what the node runs."""
    for f, kernel in ((7, 0), (0, 7)):
        assert graphs.Kernel(None, types.SimpleNamespace(f=f, kernel=kernel), None, cooperative=False).function == 7

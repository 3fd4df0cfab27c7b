"""Both sides of each limit of the public face, and what is said beyond it: registers of snippets, launches, device memory."""

import math
import threading
import types

import ml_dtypes
import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.host import launch_options, options
from warpsim.host.arrays import bytes_of
from warpsim.host.launch_options import chosen_engine, workers_of

HEAD = module_head("sm_90a")


def kernel(directives="", body="", text=""):
    """A kernel without parameters."""
    return warpsim.load(f"{HEAD}{text}.visible .entry k() {directives} {{ {body} ret; }}")["k"]


@pytest.mark.parametrize(
    ("code", "value", "expected"),
    [
        ("add.u32 d, a, 0;", 2**32 - 1, 2**32 - 1),
        ("add.u32 d, a, 0;", -(2**31), 2**31),
        ("add.s32 d, a, 0;", 2**32 - 1, -1),
        ("add.u64 d, a, 0;", 2**64 - 1, 2**64 - 1),
        ("add.u64 d, a, 0;", -(2**63), 2**63),
        ("add.u16 d, a, 0;", 65535, 65535),
        ("add.u32 d, a, 0;", True, 1),
        ("and.b32 d, a, -1;", 1.5, 0x3FC00000),
        ("and.b32 d, a, -1;", np.float32(1.5), 0x3FC00000),
        ("and.b16 d, a, -1;", 1.5, 0x3E00),
        ("and.b64 d, a, -1;", 1.5, 0x3FF8000000000000),
        ("and.b16 d, a, -1;", ml_dtypes.bfloat16(1.5), 0x3FC0),
        ("and.b32 d, a, -1;", np.float64(1.5), 0x3FC00000),
        ("add.f32 d, a, 0f00000000;", 0.1, float(np.float32(0.1))),
        ("add.f32 d, a, 0f00000000;", 3, 3.0),
        ("add.f64 d, a, 0d0000000000000000;", 0.1, 0.1),
        ("selp.u32 d, 7, 9, a;", True, 7),
        ("selp.u32 d, 7, 9, a;", 0, 9),
        ("selp.u32 d, 7, 9, a;", 2, 7),
    ],
)
def test_registers_of_a_snippet(code, value, expected):
    """Integers fit as signed or unsigned, floats are rounded to the type, or are its bits where it has none."""
    given = value if isinstance(value, int | float) else value[()]
    assert warpsim.run(code, registers={"a": given}, checks="none").registers["d"].tolist() == [expected] * 32


@pytest.mark.parametrize(
    ("code", "given", "said"),
    [
        ("add.u32 d, a, 0;", {"a": 2**32}, "register a: 4294967296 does not fit 32 bits"),
        ("add.u32 d, a, 0;", {"a": -(2**31) - 1}, "does not fit 32 bits"),
        ("add.s32 d, a, 0;", {"a": 2**32}, "does not fit 32 bits"),
        ("add.u16 d, a, 0;", {"a": 65536}, "does not fit 16 bits"),
        ("add.u64 d, a, 0;", {"a": 2**64}, "does not fit 64 bits"),
        ("add.u32 d, a, 0;", {"a": 10**40}, "does not fit 32 bits"),
        ("add.u32 d, a, 0;", {"a": np.arange(32) << 32}, "does not fit 32 bits"),
        ("add.u32 d, a, 0;", {"a": 1.5}, "register a (.u32) cannot hold float64 values"),
        ("add.u32 d, a, 0;", {"a": np.zeros((), "V4")}, "cannot hold"),
        ("add.u32 d, a, 0;", {"a": "text"}, "must be numbers"),
        ("add.u32 d, a, 0;", {"a": [1, [2]]}, "register 'a' is not an array"),
        ("add.u32 d, a, 0;", {"a": None}, "must be numbers"),
        ("add.u32 d, a, 0;", {"a": np.zeros((), "O,i4")}, "must be numbers"),
        ("add.u32 d, a, 0;", {"a": np.arange(31)}, "takes a scalar or 32 values, not [31]"),
        ("add.u32 d, a, 0;", {"a": np.zeros((1, 1, 1))}, "takes a scalar or 32 values, not [1, 1, 1]"),
        ("add.u32 d, a, 0;", {"q": 1}, "the instructions have no register q; registers: d, a"),
        ("add.u32 d, a, 0;", {5: 1}, "register names must be text, not 5"),
        ("add.u32 d, a, 0;", 5, "registers must map names to values, not 5"),
        (5, {}, "code must be PTX text, not 5"),
    ],
)
def test_registers_that_do_not_fit(code, given, said):
    """The message names the register, and what is wrong with its value."""
    with pytest.raises(warpsim.LaunchError) as caught:
        warpsim.run(code, registers=given)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("shared", "said"),
    [
        ([10**30], "shared has integers too large for NumPy"),
        (np.zeros(227 * 1024 + 1, np.uint8), "shared has 232449 bytes; sm_90a has 232448"),
        ("text", "shared must be numbers"),
        ([1, [2]], "shared is not an array"),
    ],
)
def test_shared_arrays_that_do_not_fit(shared, said):
    """What a CTA of the GPU has no room for, or what is no array."""
    with pytest.raises(warpsim.LaunchError) as caught:
        warpsim.run("mov.u32 d, 0;", shared=shared)
    assert said in str(caught.value)


@pytest.mark.parametrize("shared", [b"abcde", bytearray(b"abcdefgh"), np.arange(6, dtype=np.uint16).reshape(2, 3), []])
def test_shared_arrays(shared):
    """They begin with the given bytes; a snippet has sixteen at least."""
    result = warpsim.run("ld.shared.u8 d, [smem];" if len(shared) else "mov.u32 d, 0;", shared=shared)
    raw = shared.tobytes() if isinstance(shared, np.ndarray) else bytes(shared)
    assert result.shared.tobytes() == raw.ljust(16, b"\0")
    assert result.registers["d"][0] == (raw[0] if raw else 0)


def test_warps_of_a_snippet():
    """As many as are asked for, to 2**15."""
    assert warpsim.run("mov.u32 d, %tid.x;", warps=2).registers["d"].tolist() == list(range(64))
    for wrong in (0, (1 << 15) + 1, 1.0):
        with pytest.raises(warpsim.LaunchError, match="warps must be"):
            warpsim.run("mov.u32 d, 0;", warps=wrong)


# ---- launches ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("directives", "body", "given", "said"),
    [
        ("", "", {"block": 1024}, None),
        ("", "", {"block": 1025}, "a block of (1025, 1, 1) exceeds the limit (1024, 1024, 64)"),
        ("", "", {"block": (1, 1, 64)}, None),
        ("", "", {"block": (1, 1, 65)}, "exceeds the limit"),
        ("", "", {"block": (32, 33)}, "has 1056 threads; the limit is 1024"),
        ("", "", {"grid": (1, 65536)}, "a grid of (1, 65536, 1) exceeds the limit"),
        ("", "", {"grid": (1, 1, 65536)}, "exceeds the limit"),
        ("", "", {"grid": 2**31}, "exceeds the limit"),
        (".reqntid 8, 2", "", {"block": (8, 2)}, None),
        (".reqntid 8, 2", "", {"block": 16}, "requires blocks of (8, 2, 1) threads (.reqntid), not (16, 1, 1)"),
        (".maxntid 8, 2", "", {"block": 16}, None),
        (".maxntid 8, 2", "", {"block": 17}, "allows at most 16 threads per block (.maxntid), not 17"),
        (".reqnctapercluster 2, 1, 1", "", {"grid": 4}, None),
        (".reqnctapercluster 2, 1, 1", "", {"grid": 4, "cluster": 2}, None),
        (".reqnctapercluster 2, 1, 1", "", {"grid": 4, "cluster": 4}, "requires clusters of (2, 1, 1) CTAs"),
        (".reqnctapercluster 2, 1, 1", "", {"grid": 3}, "a grid of (3, 1, 1) CTAs cannot be divided into clusters of (2, 1, 1)"),
        ("", "", {"grid": 16, "cluster": 16}, None),
        ("", "", {"grid": 34, "cluster": 17}, "has 17 CTAs; the limit is 16"),
        ("", "", {"grid": (4, 3), "cluster": (2, 2)}, "cannot be divided"),
        ("", ".shared .b8 s[40000]; .reg .b32 r; mov.u32 r, s;", {"shared_mem": 227 * 1024 - 40000}, None),
        ("", ".shared .b8 s[40000]; .reg .b32 r; mov.u32 r, s;", {"shared_mem": 227 * 1024 - 39999}, "needs 232449 bytes of shared memory per CTA; sm_90a has 232448"),
        ("", ".local .b8 s[524288]; .reg .b32 r; mov.u32 r, s;", {}, None),
        ("", ".local .b8 s[524296]; .reg .b32 r; mov.u32 r, s;", {}, "of local memory per thread"),
        ("", "", {"batch_threads": 0}, "batch_threads must be"),
        ("", "", {"cooperative": 2}, "cooperative must be"),
        ("", "", {"shared_mem": -1}, "shared_mem must be"),
        ("", "", {"on_finding": "ask"}, "on_finding must be 'raise' or 'collect', not 'ask'"),
        ("", "", {"async_effects": "late"}, "async_effects must be 'eager' or 'at_wait', not 'late'"),
    ],
)  # fmt: skip
def test_launches(directives, body, given, said):
    """What fits the kernel and an H100 is launched, one more is refused."""
    given = {"grid": 1, "block": 1, **given}
    grid, block = given.pop("grid"), given.pop("block")
    made = kernel(directives, body)
    if said is None:
        made(grid, block, (), **given)
        return
    with pytest.raises(warpsim.LaunchError) as caught:
        made(grid, block, (), **given)
    assert said in str(caught.value)


def test_clusters_of_older_gpus():
    """A cluster of one runs on any GPU, one of two on sm_90 and newer."""
    made = warpsim.load(HEAD.replace("sm_90a", "sm_80") + ".visible .entry k() { ret; }")["k"]
    made(2, 1, (), cluster=1)
    with pytest.raises(warpsim.LaunchError, match="sm_80 has no clusters"):
        made(2, 1, (), cluster=2)
    made(2, 1, (), cluster=2, device=warpsim.Device("sm_90"))


@pytest.mark.parametrize(
    ("needed", "device", "runs"),
    [
        ("sm_80", "sm_80", True), ("sm_80", "sm_90a", True), ("sm_90", "sm_80", False), ("sm_90a", "sm_90", True),
        ("sm_90a", "sm_100", False), ("sm_100f", "sm_103", True), ("sm_100f", "sm_120", False), ("sm_100a", "sm_103", False),
    ],
)  # fmt: skip
def test_targets(needed, device, runs):
    """Plain targets on later GPUs, those of a family within it, those of an architecture there alone."""
    made = warpsim.load(HEAD.replace("8.0", "8.8").replace("sm_90a", needed) + ".visible .entry k() { ret; }")["k"]
    if runs:
        made(1, 1, (), device=warpsim.Device(device))
        return
    with pytest.raises(warpsim.LaunchError, match=f"the module is for {needed}; {device} cannot run it"):
        made(1, 1, (), device=warpsim.Device(device))


def test_options_are_remembered(monkeypatch):
    """As many combinations as there is room for; what is remembered is checked no second time, and nothing else."""
    made, checked = kernel(), []
    check = launch_options.LaunchOptions._check
    monkeypatch.setattr(
        launch_options.LaunchOptions, "_check", lambda self, *given: checked.append(given) or check(self, *given)
    )
    monkeypatch.setattr(launch_options, "KNOWN", 3)
    for block, count in ((1, 1), (1, 1), (2, 2), (1, 2), (3, 3), (2, 3), (4, 4), (1, 5), (4, 5)):
        made(1, block, ())
        assert len(checked) == count, block
    made(1, 4, (), cluster=1)
    made(1, 4, (), cluster=1)
    assert len(checked) == 7
    for order in (1, 1):
        made(1, 4, (), schedule=order)
    assert len(checked) == 9
    with pytest.raises(warpsim.LaunchError, match="shared_mem"):
        made(1, 4, (), shared_mem=0.0)


def test_a_schedule_s_batches():
    """A schedule that says how many CTAs run at once is obeyed, also where batches are smaller."""
    made = kernel()
    for ctas, batch, expected in ((2, 1 << 20, 64), (4, 96, 96), (None, 96, 96)):
        order = ctas and types.SimpleNamespace(ctas=ctas, late=False)
        device = made.module.device
        plan = made.module.image(device).plan("k")
        given = launch_options.Options(batch_threads=batch)
        found = launch_options.LaunchOptions("sm_90a", made.function).settings(
            plan, device, ((8, 1, 1), (32, 1, 1)), given, order
        )
        assert found.batch_threads == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (0, 0),
        (1.5, 1.5),
        (np.float32(2), 2),
        (np.int8(3), 3),
        (10**400, 2**63),
        (math.inf, 2**63),
        (True, 1),
    ],
)
def test_budgets(value, expected):
    """Any number that is not negative, and none for no limit."""
    assert options.budget("limit", value) == expected


@pytest.mark.parametrize("value", [-1, -0.5, math.nan, "5", b"5", [1], np.ones(1), object(), 1j])
def test_no_budgets(value):
    """What is no such number is refused."""
    with pytest.raises(warpsim.LaunchError, match="limit must be a nonnegative number"):
        options.budget("limit", value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, (5, 1, 1)), ((5,), (5, 1, 1)), ((5, 6), (5, 6, 1)), ((5, 6, 7), (5, 6, 7)), ([5, 6], (5, 6, 1)),
        (np.int32(5), (5, 1, 1)), (np.array([5, 6]), (5, 6, 1)), ((np.int64(5), 6), (5, 6, 1)), (np.array(5), (5, 1, 1)),
        ((True, 2), (1, 2, 1)), (iter([1, 2]), (1, 2, 1)),
    ],
)  # fmt: skip
def test_dimensions(value, expected):
    """One to three positive integers."""
    assert options.dims("grid", value) == expected


@pytest.mark.parametrize(
    "value",
    [0, -1, (), (1, 0), (0, 1), (1, 1, 0), (1, 1, 1, 1), (1.0,), "11", None, [[1]], np.ones((1, 1), int), {}, 1.0],
)
def test_no_dimensions(value):
    """What is none is refused by name."""
    with pytest.raises(warpsim.LaunchError, match="grid must be one to three positive integers"):
        options.dims("grid", value)


def test_engines_and_workers(monkeypatch):
    """As the launch says, or else the environment."""
    device = warpsim.Device()
    monkeypatch.delenv("WARPSIM_WORKERS", raising=False)
    monkeypatch.setenv("WARPSIM_ENGINE", "interpreter")
    assert chosen_engine(None) == "interpreter"
    assert chosen_engine("auto") == "auto"
    monkeypatch.setenv("WARPSIM_ENGINE", "quick")
    with pytest.raises(warpsim.LaunchError, match="engine must be 'auto' or 'interpreter' or 'compiled', not 'quick'"):
        chosen_engine(None)
    monkeypatch.setattr("warpsim.native.compiling.available", lambda: False)
    with pytest.raises(warpsim.LaunchError, match="needs llvmlite"):
        chosen_engine("compiled")
    monkeypatch.setattr("warpsim.native.compiling.available", lambda: True)
    assert chosen_engine("compiled") == "compiled"
    assert workers_of(device, None, None, "auto") == workers_of(device, 1, None, "auto") == (None, 1)
    threads, count = workers_of(device, 2, None, "compiled")
    assert (threads, count) == (device.workers(2, threads=True), 2)
    assert threads is device.workers(2, threads=True) is not device.workers(3, threads=True)
    processes, count = workers_of(device, 3, None, "auto")
    assert (processes, count) == (device.workers(3, threads=False), 3)
    assert device.workers(3, threads=False) is not device.workers(2, threads=False)
    monkeypatch.setenv("WARPSIM_WORKERS", "2")
    assert workers_of(device, None, None, "auto") == (device.workers(2, threads=False), 2)
    assert workers_of(device, 1, None, "auto") == (None, 1)
    for word in ("two", "0", "1025"):
        monkeypatch.setenv("WARPSIM_WORKERS", word)
        with pytest.raises(warpsim.LaunchError, match=r"WARPSIM_WORKERS must be a number|workers must be 1 to 1024"):
            workers_of(device, None, None, "auto")

    class Pool:
        """An executor."""

        def submit(self):
            """Take work."""

    class Client:
        """What has one."""

        def get_executor(self):
            """It."""
            return pool

    pool = Pool()
    monkeypatch.delenv("WARPSIM_WORKERS")
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    assert workers_of(device, None, pool, "auto") == workers_of(device, None, Client(), "auto") == (pool, 7)
    pool._max_workers = 5
    assert workers_of(device, None, pool, "auto") == (pool, 5)
    assert workers_of(device, 2, pool, "auto") == (pool, 2)
    with pytest.raises(warpsim.LaunchError, match="executor must be a concurrent"):
        workers_of(device, None, 5, "auto")


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda d: d.array(object()), "an array of Python objects cannot be mapped"),
        (lambda d: d.array([1, [2]]), "is not an array"),
        (lambda d: d.array(np.zeros(2, ">i4")), "big-endian"),
        (lambda d: d.empty(-1, np.uint8), "cannot make an array of shape -1"),
        (lambda d: d.empty(2, "nonsense"), "cannot make an array of shape 2 and type 'nonsense'"),
        (lambda d: d.empty(2, object), "Python objects"),
        (lambda d: d.map(5), "5 is not a buffer and cannot be mapped"),
        (lambda d: d.map(np.zeros((4, 4))[:, ::2]), "not C-contiguous"),
        (lambda d: d.map(np.zeros(4, ">i4")), "big-endian"),
        (lambda d: d.map(np.zeros(4, object)), "Python objects"),
        (lambda d: d.map(np.zeros(4), address=0), "address must be"),
        (lambda d: d.map(np.zeros(4), address=d.array(np.zeros(4)).ptr), "overlap"),
        (lambda d: d.read(5, 4), "4 bytes at address 0x5 do not lie in a single allocation"),
        (lambda d: d.write(5, b"abcd"), "4 bytes at address 0x5 do not lie"),
        (lambda d: d.written(5, 4), "4 bytes at address 0x5 do not lie"),
        (lambda d: d.read(5.0, 4), "address must be an integer"),
        (lambda d: warpsim.Device("sm_79"), "'sm_79' is not a GPU that warpsim simulates"),
        (lambda d: warpsim.Device("sm_90b"), "is not a GPU"),
        (lambda d: warpsim.Device(90), "90 is not a GPU"),
        (lambda d: warpsim.Device("sm_80", numerics="fast"), "numerics must be 'exact' or 'ieee', not 'fast'"),
    ],
)
def test_memory_that_is_refused(call, said):
    """By a message that says what was given."""
    with pytest.raises(warpsim.LaunchError) as caught:
        call(warpsim.Device())
    assert said in str(caught.value)


def test_memory_by_address():
    """What an address lies in, and its bytes."""
    device = warpsim.Device()
    array = device.array(np.arange(4, dtype=np.uint32))
    assert device.read(array.ptr + 4, 8) == np.array([1, 2], np.uint32).tobytes()
    device.write(array.ptr + 4, np.array([7], np.uint32))
    assert array.get().tolist() == [0, 7, 2, 3]
    found = device.allocation(array.ptr + 15)
    assert (found.address, found.nbytes, found.read_only) == (array.ptr, 16, False)
    assert device.allocation(array.ptr + 16) is None
    assert device.allocation(array.ptr - 1) is None
    data = np.arange(4, dtype=np.uint8)
    data.flags.writeable = False
    mapping = device.map(data)
    assert device.allocation(mapping.ptr).read_only
    assert repr(mapping) == f"Mapping(ptr=0x{mapping.ptr:x}, nbytes=4)"
    mapping.unmap()
    with pytest.raises(warpsim.LaunchError, match="this memory was unmapped"):
        mapping.unmap()
    assert (device.sm, device.max_shared, repr(device)) == (90, 227 * 1024, "Device('sm_90a', numerics='exact')")
    assert bytes_of(np.zeros((0, 4))).shape == (0,)
    assert bytes_of(np.zeros((2, 4))).shape == (64,)


def test_arrays_of_a_device():
    """Copied out and in, lent to others, and gone when they have been freed."""
    device = warpsim.Device()
    array = device.array(np.arange(4, dtype=np.float32))
    assert (array.shape, array.dtype, array.nbytes) == ((4,), np.float32, 16)
    array.set([4, 3, 2, 1])
    assert np.asarray(array).tolist() == array.get().tolist() == [4, 3, 2, 1]
    assert np.asarray(array, np.int16).dtype == np.int16
    with pytest.raises(ValueError, match="can only be copied"):
        array.__array__(copy=False)
    with pytest.raises(warpsim.LaunchError, match="cannot be written to DeviceArray"):
        array.set([1, 2, 3])
    assert array.__dlpack_device__() == (1, 0)
    lent = np.from_dlpack(array)
    lent[0] = 9
    assert array.get()[0] == 9
    interface = array.__cuda_array_interface__
    assert (interface["data"], interface["typestr"], interface["descr"]) == ((array.ptr, False), "<f4", [("", "<f4")])
    pairs = device.array(np.zeros(2, "<i4,<f4")).__cuda_array_interface__
    assert pairs["descr"] == [("f0", "<i4"), ("f1", "<f4")]
    other = warpsim.Device()
    taking = warpsim.load(HEAD + ".visible .entry k(.param .u64 p) { ret; }")["k"]
    with pytest.raises(warpsim.LaunchError, match="pass its own device with device="):
        taking(1, 1, (array,), device=other)
    taking(1, 1, (array,), device=device)
    array.free()
    for use in (array.get, lambda: array.set(1), array.free, lambda: taking(1, 1, (array,), device=device)):
        with pytest.raises(warpsim.LaunchError, match="this DeviceArray was freed"):
            use()
    variable = warpsim.load(HEAD + ".visible .global .u32 v;\n.visible .entry k() { ret; }").get_global("v", device)
    with pytest.raises(warpsim.LaunchError, match="lives as long as its module"):
        variable.free()


def test_snippets_in_threads():
    """Each has a device of its own."""
    found = {}

    def work(n):
        found[n] = warpsim.run("add.u32 d, a, 1;", registers={"a": n}).registers["d"][0]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: n + 1 for n in range(4)}

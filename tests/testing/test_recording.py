"""Cases that the simulator writes: what they hold, that they replay, and that a reader never sees half of one."""

import json
import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import warpsim
from warpsim.cli import main
from warpsim.debug import Session
from warpsim.host.cases import Case, run_case, schema
from warpsim.host.files import problems
from warpsim.host.recording import write_case
from warpsim.testing import recipe, record

PTX = """.version 8.0
.target sm_90a
.address_size 64
.global .align 4 .u32 counter = 5;
.visible .entry add(.param .u64 out, .param .f32 x, .param .u32 n, .param .align 8 .b8 both[16], .param .u64 table) {
 .reg .b64 %a, %b, %o, %t;
 .reg .f32 %x, %y, %z;
 .reg .b32 %i, %c;
 .reg .pred %p;
 ld.param.u64 %o, [out];
 ld.param.f32 %x, [x];
 ld.param.u64 %a, [both];
 ld.param.u64 %t, [table];
 ld.global.u64 %b, [%t+8];
 mov.u32 %i, %tid.x;
 mul.wide.u32 %t, %i, 4;
 add.s64 %a, %a, %t;
 add.s64 %b, %b, %t;
 add.s64 %o, %o, %t;
 ld.global.f32 %y, [%a];
 ld.global.f32 %z, [%b];
 fma.rn.f32 %y, %y, %x, %z;
 st.global.f32 [%o], %y;
 setp.eq.u32 %p, %i, 0;
 @%p atom.global.add.u32 %c, [counter], 1;
 ret;
}
"""


@pytest.fixture
def launch():
    """A launch with all kinds of arguments: arrays, numbers, a struct with an address, a table of addresses."""
    device = warpsim.Device("sm_90a")
    kernel = warpsim.load(PTX)["add"]
    a, b = device.array(np.arange(64, dtype=np.float32)), device.array(np.ones(80, np.float32))
    table = device.array(np.array([0, b.ptr + 64], np.uint64))
    both = a.ptr.to_bytes(8, "little") + b"\x01" * 8
    out = np.full(64, -1, np.float32)
    return kernel, (out, np.float32(0.5), 64, both, table), device, (a, b)


def test_every_kind_of_argument(launch, tmp_path):
    """The case replays to the byte: in another process's addresses, with the module's variable as it was."""
    kernel, args, device, _ = launch
    kernel.module.get_global("counter", device).set(9)
    record(kernel, 1, 64, args, tmp_path / "x", device=device, note="a note")
    description = json.loads((tmp_path / "x" / "case.json").read_text())

    assert run_case(tmp_path / "x").bits_equal
    assert description["params"][3]["pointers"] == [{"at": 0, "buffer": "pointed_to", "byte_offset": 0}]
    assert description["globals"] == [{"name": "counter", "in": "in_variable_counter", "out": "out_variable_counter"}]
    table = next(b for b in description["buffers"] if b.get("content") == "pointers")
    assert table["targets"] == [{"buffer": "pointed_to_2", "byte_offset": 64, "at": 8}]
    assert np.array_equal(args[0], 0.5 * np.arange(64, dtype=np.float32) + 1)
    assert list(problems(description, schema())) == []
    before = {name: (tmp_path / "x" / name).read_bytes() for name in os.listdir(tmp_path / "x")}
    args[0][:] = -1
    kernel.module.get_global("counter", device).set(9)
    record(kernel, 1, 64, args, tmp_path / "x", device=device, note="a note")
    assert {name: (tmp_path / "x" / name).read_bytes() for name in os.listdir(tmp_path / "x")} == before


def test_arrays_that_share_memory(tmp_path):
    """Views of one array are one buffer; the same array twice is one address."""
    kernel = warpsim.load(warpsim.load(PTX).to_ptx())["add"]
    memory = np.arange(128, dtype=np.float32)
    table = np.zeros(2, np.uint64)
    with pytest.raises(warpsim.ExecutionError):
        record(kernel, 1, 64, (memory[64:], 1.0, 0, bytes(16), table), tmp_path / "view")
    saxpy = warpsim.load(SAXPY)["saxpy"]
    record(saxpy, 1, 64, (64, 2.0, memory[:64], memory), tmp_path / "both")
    description = json.loads((tmp_path / "both" / "case.json").read_text())

    assert [p.get("buffer") for p in description["params"][2:]] == ["arg3", "arg3"]
    assert run_case(tmp_path / "both").bits_equal


TILES = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128], .param .u64 out) {
 .shared .align 128 .b8 tile[1024];
 .shared .align 8 .b64 full;
 .reg .b64 %rd<4>;
 .reg .b32 %r<4>;
 .reg .pred %p;
 ld.param.u64 %rd0, [out];
 cvta.param.u64 %rd2, from;
 cvta.param.u64 %rd3, to;
 mov.u32 %r0, %tid.x;
 setp.eq.u32 %p, %r0, 0;
 @%p mbarrier.init.shared.b64 [full], 1;
 fence.mbarrier_init.release.cluster;
 bar.sync 0;
 @%p mbarrier.arrive.expect_tx.shared.b64 _, [full], 1024;
 @%p cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd2, {4, 8}], [full];
wait: mbarrier.try_wait.parity.shared.b64 %p, [full], 0;
 @!%p bra wait;
 setp.eq.u32 %p, %r0, 0;
 shl.b32 %r1, %r0, 2;
 mov.u32 %r2, tile;
 add.u32 %r2, %r2, %r1;
 cvt.u64.u32 %rd1, %r1;
 add.u64 %rd1, %rd0, %rd1;
 ld.shared.b32 %r3, [%r2];
 st.global.b32 [%rd1], %r3;
 @%p cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd3, {0, 8}], [tile];
 @%p cp.async.bulk.commit_group;
 @%p cp.async.bulk.wait_group 0;
 ret;
}
"""


class OnDevice:
    """Another library's array on the device."""

    def __init__(self, array):
        self.array, self.dtype = array, array.dtype
        self.__cuda_array_interface__ = array.__cuda_array_interface__


@pytest.mark.parametrize("make", [np.asarray, memoryview, "device", "other", "part"])
def test_tensor_maps(tmp_path, make):
    """Whatever tensor a launch takes in a map is a buffer of the case, and what is copied to it is an output."""
    device = warpsim.Device("sm_90a")
    x, y, out = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32), np.zeros(32, np.float32)
    if make == "device":
        tensors = device.array(x), device.array(y)
    elif make == "other":
        kept = [device.array(x), device.array(y)]
        tensors = [OnDevice(array) for array in kept]
    elif make == "part":
        whole = np.zeros(2048, np.float32)
        whole[:1024] = x
        tensors = whole, whole[1024:]
    else:
        tensors = make(x), make(y)
    given = {"global_dim": (32, 32), "global_strides": (128,), "box_dim": (16, 16), "data_type": "FLOAT32"}
    maps = [warpsim.TensorMap(tensor, **given) for tensor in tensors]
    kernel = warpsim.load(TILES)["k"]
    result = record(kernel, 1, 32, (*maps, out), tmp_path / "x", device=device)
    described, replayed = Case.read(tmp_path / "x").description, run_case(tmp_path / "x")

    assert result.findings == ()
    assert out.tolist() == [*range(8 * 32 + 4, 8 * 32 + 20), *range(9 * 32 + 4, 9 * 32 + 20)]
    assert [p["kind"] for p in described["params"]] == ["tensormap", "tensormap", "ptr"]
    assert described["params"][1].get("byte_offset", 0) == (4096 if make == "part" else 0)
    assert replayed.ok
    assert replayed.bits_equal
    data = Case.read(tmp_path / "x").data
    wanted = next(b for b in described["buffers"] if b["name"] == described["params"][1]["buffer"])["out"]
    copied = data[wanted].reshape(-1).view(np.float32)[-1024:].reshape(32, 32)
    assert copied[8:24, :16].tolist() == x.reshape(32, 32)[8:24, 4:20].tolist()


def test_other_arrays_of_the_device(tmp_path):
    """Another library's array on the device is recorded as a launch takes it: by its address."""
    device = warpsim.Device("sm_80")
    kept = device.array(np.arange(64, dtype=np.float32))
    record(
        warpsim.load(SAXPY)["saxpy"],
        1,
        64,
        (64, 2.0, OnDevice(kept), np.ones(64, np.float32)),
        tmp_path / "x",
        device=device,
    )

    assert Case.read(tmp_path / "x").description["params"][2] == {"kind": "ptr", "buffer": "arg2", "byte_offset": 0}
    assert run_case(tmp_path / "x").bits_equal


@pytest.mark.parametrize("tensor", [b"bytes", "text", 1.5, object(), np.float32(2)])
def test_tensors_that_are_none(tensor):
    """A map of something that is no tensor is refused when it is passed."""
    tensors = warpsim.TensorMap(
        tensor, data_type="FLOAT32", global_dim=(32, 32), global_strides=(128,), box_dim=(16, 16)
    )
    with pytest.raises(warpsim.LaunchError, match="address must be an integer"):
        warpsim.load(TILES)["k"](1, 32, (tensors, tensors, 0))


SAXPY = os.path.join(os.path.dirname(__file__), "..", "..", "programs", "saxpy", "kernel.ptx")


def test_recipes(tmp_path):
    """An input that a generator makes is stored as how to make it."""
    kernel = warpsim.load(SAXPY)["saxpy"]
    y = np.zeros(1000, np.float32)
    record(kernel, 4, 256, (1000, 2.0, recipe("hurtful", 1000, seed=7), y), tmp_path / "x")
    description = json.loads((tmp_path / "x" / "case.json").read_text())

    assert description["buffers"][0]["recipe"] == {"generator": "hurtful", "seed": 7}
    assert "in_arg2" not in Case.read(tmp_path / "x").data
    assert run_case(tmp_path / "x").bits_equal


def test_recipes_are_the_same_everywhere():
    """Bits of each generator, worked out from Philox's words by hand."""
    words = [int(w) for w in np.random.Philox(key=3).random_raw(4)]

    assert recipe("bits", 4, "u32", seed=3).array().tolist() == [w >> 32 for w in words]
    assert recipe("uniform", 4, "f64", seed=3).array().tolist() == [(w >> 11) * 2.0**-53 for w in words]
    assert recipe("integers", 4, "s8", seed=3, low=-5, high=4).array().tolist() == [w % 10 - 5 for w in words]
    assert recipe("arange", 3, "bf16", start=1, step=0.5).array().tolist() == [1, 1.5, 2]
    hurt = recipe("hurtful", 400, ml_dtypes.float8_e5m2).array().astype(np.float64)
    assert np.isnan(hurt).any()
    assert np.isinf(hurt).any()
    with pytest.raises(warpsim.LaunchError, match="takes low, high, not mean"):
        recipe("uniform", 3, mean=1)


def test_a_launch_that_fails_is_kept(tmp_path):
    """Its case has the inputs and no outputs; replayed it fails in the same way."""
    kernel = warpsim.load(SAXPY)["saxpy"]
    with pytest.raises(warpsim.ExecutionError):
        record(kernel, 4, 256, (1024, 2.0, np.ones(1000, np.float32), np.ones(1000, np.float32)), tmp_path / "x")

    assert "out-of-bounds" in run_case(tmp_path / "x").error


def test_a_case_is_whole_or_not_there(tmp_path, monkeypatch):
    """A disk that fails leaves the old case and nothing beside it; other files of the folder stay; what is no case is kept."""
    kernel = warpsim.load(SAXPY)["saxpy"]
    args = (10, 2.0, np.ones(10, np.float32), np.ones(10, np.float32))
    record(kernel, 1, 32, args, tmp_path / "x")
    (tmp_path / "x" / "README.md").write_text("mine")
    before = (tmp_path / "x" / "case.json").read_bytes()

    def full(*args, **data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez_compressed", full)
        with pytest.raises(warpsim.LaunchError, match=r"cannot write .*No space left"):
            record(kernel, 1, 32, args, tmp_path / "x", note="new")
    assert (tmp_path / "x" / "case.json").read_bytes() == before
    record(kernel, 1, 32, args, tmp_path / "x", note="new")
    assert (tmp_path / "x" / "README.md").read_text() == "mine"
    assert os.listdir(tmp_path) == ["x"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(warpsim.LaunchError, match="is not a case; choose another folder"):
        record(kernel, 1, 32, args, tmp_path / "other")


def test_what_does_not_fit_the_schema(tmp_path):
    """A case that would not load is never written."""
    with pytest.raises(warpsim.LaunchError, match=r"buffers\[0\].dtype must be one of"):
        write_case(tmp_path / "x", {"entry": "k", "target": "sm_80", "grid": [1], "block": [1], "dynamic_smem": 0, "params": [],
                                    "check": {}, "buffers": [{"name": "a", "dtype": "f33", "shape": [1], "nbytes": 4}]}, {}, "")  # fmt: skip
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", [("optoins",), ("buffers", 0, "unwriten")], ids=lambda p: p[-1])
def test_a_field_that_nobody_knows(path):
    """A misspelt field is no field that is not there."""
    description = json.loads(Path(SAXPY).with_name("case.json").read_text())
    at = description
    for word in path[:-1]:
        at = at[word]
    at[path[-1]] = True

    assert [said.partition(" among ")[0] for _, said in problems(description, schema())] == ["is not"]


@pytest.mark.parametrize(("value", "said"), [
    ([1, 2.5], ["a[1] must be of type integer, not 2.5"]),
    ([True], ["a[0] must be of type integer, not True"]),
    ([], ["a must have 1 to 2 elements, not 0"]),
    ([3], ["a[0] must be at most 2, not 3"]),
    ("x", ["a must be of type array, not 'x'"]),
])  # fmt: skip
def test_the_schema_s_words(value, said):
    """What JSON Schema says of types, numbers and lengths: True is no integer."""
    rules = {
        "properties": {"a": {"type": "array", "items": {"type": "integer", "maximum": 2}, "minItems": 1, "maxItems": 2}}
    }

    assert [f"{at} {text}" for at, text in problems({"a": value}, rules)] == said


def test_run_record(tmp_path, capsys):
    """`warpsim run --record` writes a first case, which `warpsim replay` runs."""
    words = [
        "--grid",
        "1",
        "--block",
        "32",
        "--arg",
        "i32:20",
        "--arg",
        "f32:2",
        "--arg",
        "zeros:f32:20",
        "--arg",
        "zeros:f32:20",
    ]
    assert main(["run", SAXPY, *words, "--record", str(tmp_path / "x")]) == 0
    assert main(["replay", str(tmp_path / "x"), "--bits"]) == 0
    assert "x: equal in every bit" in capsys.readouterr().out


@pytest.mark.parametrize("ended", [False, True])
def test_a_session_is_recorded(tmp_path, ended):
    """The launch of a debugging session, before its end or behind it: what it was given, although it changes that in place."""
    text = """.version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 x, .param .u64 y)
{
 .reg .b64 %x, %y, %t; .reg .b32 %i, %v;
 ld.param.u64 %x, [x]; ld.param.u64 %y, [y];
 mov.u32 %i, %tid.x; mul.wide.u32 %t, %i, 4;
 add.s64 %x, %x, %t; add.s64 %y, %y, %t;
 ld.global.u32 %v, [%x]; add.u32 %v, %v, %v; st.global.u32 [%x], %v; st.global.u32 [%y], %v;
 ret;
}
"""
    kernel = warpsim.load(text)["twice"]
    x, y = np.arange(32, dtype=np.uint32), kernel.module.device.array(np.zeros(32, np.uint32))
    session = Session(kernel, 1, 32, (x, y))
    session.step(9)
    if ended:
        session.cont()
    session.record(tmp_path / "case", note="from a session")

    assert x.tolist() == [(2 if ended else 1) * i for i in range(32)]
    assert y.get().tolist() == [2 * i if ended else 0 for i in range(32)]
    assert Case.read(tmp_path / "case").data["in_x"].tolist() == list(range(32))
    assert run_case(tmp_path / "case").bits_equal
    session.cont()
    assert x.tolist() == y.get().tolist() == [2 * i for i in range(32)]

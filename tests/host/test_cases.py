"""Cases: how a launch is described, what of it is read, how outputs are compared; schemas, files, errors that nobody sees."""

import json
import os
import sys
import threading
import types
from concurrent.futures import Future
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.host import files, recording
from warpsim.host.arrays import DeviceArray
from warpsim.host.cases import Case, Comparison, bits_of, is_float, run_case
from warpsim.host.files import problems
from warpsim.host.recording import Description
from warpsim.host.unhandled import UnhandledErrors, launching
from warpsim.testing import record

HEAD = module_head("sm_90a")
TAKES = HEAD + ".visible .entry k({}) {{ {} ret; }}"
ADD = (
    HEAD
    + """.visible .global .align 4 .u32 count = 5;
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n) {
 .reg .b64 %d<3>; .reg .b32 %r<3>; ld.param.u64 %d0, [x]; ld.param.u64 %d1, [y]; ld.param.u32 %r0, [n];
 ld.global.u32 %r1, [%d0]; add.u32 %r1, %r1, %r0; st.global.u32 [%d1], %r1; ret; }"""
)


def described(parameters, *args, device=None, names="abcdefgh", body=""):
    """How a launch with these arguments is described."""
    given = ", ".join(f".param {kind} {name}" for kind, name in zip(parameters.split(), names, strict=False))
    made = warpsim.load(TAKES.format(given.replace("_", " "), body))["k"]
    return Description(made, args, device or made.module.device)


# ---- describing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (".u32", 5, ("u32", 5)),
        (".u32", -5, ("s32", -5)),
        (".u32", True, ("u32", 1)),
        (".s64", np.int64(-1), ("s64", -1)),
        (".f32", 1.5, ("f32", 1.5)),
        (".f32", 0.1, ("f32", float(np.float32(0.1)))),
        (".f32", 3, ("f32", 3.0)),
        (".f32", np.inf, ("f32", "inf")),
        (".f32", -np.inf, ("f32", "-inf")),
        (".f32", np.nan, ("f32", "nan")),
        (".f64", 0.1, ("f64", 0.1)),
        (".b32", 1.5, ("f32", 1.5)),
        (".b32", np.float32(1.5), ("f32", 1.5)),
        (".b16", np.float16(1.5), ("f16", 1.5)),
        (".b16", ml_dtypes.bfloat16(1.5), ("u16", 0x3FC0)),
        (".b32", 7, ("u32", 7)),
        (".u32", np.array(9, np.uint32), ("u32", 9)),
    ],
)
def test_numbers(kind, value, expected):
    """By a type and a value that JSON has; what has no such type by its bits."""
    (spec,) = described(kind, value).params
    assert spec == {"kind": "scalar", "dtype": expected[0], "value": expected[1]}


def test_pointers():
    """Arrays of the host and of the device, addresses in them, mappings, none, and numbers that are no addresses."""
    device = warpsim.Device()
    array, data = device.array(np.arange(8, dtype=np.float32)), np.arange(16, dtype=np.uint8)
    mapping = device.map(np.zeros(4, np.uint8))
    made = described(
        ".u64 .u64 .u64 .u64 .u64 .u64 .u64", array, array.ptr + 8, data, data[4:], mapping, None, 5, device=device
    )
    names = [(p.get("buffer"), p.get("byte_offset")) for p in made.params]
    assert names == [("a", 0), ("a", 8), ("c", 0), ("c", 4), ("e", 0), (None, 0), (None, None)]
    assert made.params[6] == {"kind": "scalar", "dtype": "u64", "value": 5}
    assert [(r.name, r.view.dtype, r.view.size) for r in made.regions] == [
        ("c", np.uint8, 16),
        ("a", np.float32, 8),
        ("e", np.uint8, 4),
    ]


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (".u64", "text", r"argument 0 \(a, .u64\) of k: takes an integer of 64 bits, not str"),
        (".u32", object(), "takes an integer, an array or None, not object"),
        (".u32", 1 << 32, "does not fit 32 bits"),
        (".f32", "text", "takes a number, not str"),
        (".b16", np.float32(1), "a float32 does not fit 16 bits"),
    ],
)
def test_arguments_that_do_not_fit(kind, value, said, tmp_path):
    """A launch that is recorded refuses them as any launch does, and leaves no case."""
    made = warpsim.load(TAKES.format(f".param {kind} a", ""))["k"]
    for start in (made, lambda *given: record(made, *given, tmp_path / "case")):
        with pytest.raises(warpsim.LaunchError, match=said):
            start(1, 1, (value,))
    block = warpsim.load(TAKES.format(".param .align 8 .b8 a[16]", ""))["k"]
    for wrong in ("0123456789abcdef", bytes(15), 5):
        for start in (block, lambda *given: record(block, *given, tmp_path / "case")):
            with pytest.raises(warpsim.LaunchError, match="takes 16 bytes"):
                start(1, 1, (wrong,))
    assert not (tmp_path / "case").exists()


def test_arrays_that_overlap():
    """Arrays that share bytes are one buffer, that of the array which has all of them, or bytes; neighbours are two."""
    data = np.arange(16, dtype=np.uint32)
    whole = described(".u64 .u64", data[4:8], data)
    assert [(r.name, r.view.dtype, r.view.size) for r in whole.regions] == [("b", np.uint32, 16)]
    assert [p["byte_offset"] for p in whole.params] == [16, 0]
    part = described(".u64 .u64", data[:8], data[4:12])
    assert [(r.name, r.view.dtype, r.view.size) for r in part.regions] == [("a", np.uint8, 48)]
    assert [p["byte_offset"] for p in part.params] == [0, 16]
    beside = described(".u64 .u64", data[:8], data[8:])
    assert [(r.name, r.view.size) for r in beside.regions] == [("a", 8), ("b", 8)]
    assert [p["byte_offset"] for p in beside.params] == [0, 0]
    chain = described(".u64 .u64 .u64", data[:6], data[10:], data[4:12])
    assert [(r.name, r.view.size) for r in chain.regions] == [("a", 64)]
    assert [p["byte_offset"] for p in chain.params] == [0, 40, 16]
    data.flags.writeable = False
    assert not described(".u64", data).regions[0].writable


def test_names():
    """A compiler's names are numbers; one name for two is told apart."""
    device = warpsim.Device()
    arrays = [device.array(np.zeros(2, np.uint64)) for _ in range(3)]
    table = device.array(np.array([a.ptr for a in arrays], np.uint64))
    text = TAKES.format(".param .u64 k_param_0, .param .u64 a$b, .param .u64 k_param_x", "")
    made = Description(warpsim.load(text)["k"], (np.zeros(2, np.uint32), np.zeros(2, np.uint8), table), device)
    assert [r.name for r in made.regions] == ["arg0", "a_b", "k_param_x", "pointed_to", "pointed_to_2", "pointed_to_3"]
    spec, _ = made.describe(ended=True)
    assert [t["buffer"] for t in spec["buffers"][2]["targets"]] == ["pointed_to", "pointed_to_2", "pointed_to_3"]
    assert [t["at"] for t in spec["buffers"][2]["targets"]] == [0, 8, 16]


def test_maps():
    """The fields of a tensor map, by the words of JSON; of a part of a buffer with its offset."""
    device = warpsim.Device()
    array = device.array(np.zeros((32, 64), np.float16))
    tiled = warpsim.TensorMap(array.ptr + 1024, data_type="FLOAT16", global_dim=(64, 24), global_strides=(128,), box_dim=(64, 8), swizzle="128B")  # fmt: skip
    columns = warpsim.TensorMap.im2col(
        array, data_type="FLOAT16", global_dim=(8, 4, 4, 2), global_strides=(16, 64, 256), pixel_box_lower_corner=(-1, 0),
        pixel_box_upper_corner=(1, 2), channels_per_pixel=8, pixels_per_column=4,
    )  # fmt: skip
    text = TAKES.format(".param .align 64 .b8 a[128], .param .align 64 .b8 b[128]", "")
    first, second = Description(warpsim.load(text)["k"], (tiled, columns), device).params
    assert (first["kind"], first["buffer"], first["byte_offset"], first["box_dim"]) == ("tensormap", "a", 1024, [64, 8])
    assert (first["data_type"], first["rank"], first["swizzle"]) == ("FLOAT16", 2, "128B")
    assert (first["global_dim"], first["global_strides_bytes"]) == ([64, 24], [128])
    assert second["im2col"] == {"pixel_box_lower_corner": [-1, 0], "pixel_box_upper_corner": [1, 2], "channels_per_pixel": 8, "pixels_per_column": 4}  # fmt: skip
    assert "byte_offset" not in second
    lost = warpsim.TensorMap(64, data_type="FLOAT16", global_dim=(64, 24), global_strides=(128,), box_dim=(64, 8))
    with pytest.raises(warpsim.LaunchError, match="the tensor map a describes unknown memory"):
        Description(warpsim.load(text)["k"], (lost, columns), device)


def test_buffers(tmp_path):
    """Which are read, written, both; zeros and unwritten memory are no data; -0.0 is; constants are not compared."""
    device = warpsim.Device()
    made = warpsim.load(ADD)["k"]
    x, y = np.array([3, 1], np.uint32), np.zeros(2, np.uint32)
    record(made, 1, 1, (x, y, 4), tmp_path / "new", device=device, note="words")
    case = json.loads((tmp_path / "new" / "case.json").read_text())
    by_name = {b["name"]: b for b in case["buffers"]}
    assert [by_name["x"][k] for k in ("role", "in", "out")] == ["in", "in_x", "in_x"]
    assert [by_name["y"][k] for k in ("role", "in", "out")] == ["out", None, "out_y"]
    assert (case["note"], case["grid"], case["block"], case["cluster"], case["cooperative"], case["dynamic_smem"]) == ("words", [1, 1, 1], [1, 1, 1], None, False, 0)  # fmt: skip
    assert "options" not in case
    assert "globals" not in case
    y[:] = [9, 9]
    options = {"checks": ["race", "out-of-bounds"], "schedule": 3, "async_effects": "eager", "shared_mem": 64, "cluster": (1, 1), "cooperative": True}  # fmt: skip
    record(made, (2,), [1], (x, y, 4), tmp_path / "old", device=warpsim.Device(numerics="ieee"), **options)
    case = json.loads((tmp_path / "old" / "case.json").read_text())
    assert case["options"] == {"checks": "out-of-bounds,race", "schedule": 3, "numerics": "ieee"}
    assert (case["cluster"], case["cooperative"], case["dynamic_smem"], case["grid"]) == (
        [1, 1, 1],
        True,
        64,
        [2, 1, 1],
    )
    assert next(b for b in case["buffers"] if b["name"] == "y")["role"] == "inout"
    record(made, 1, 1, (np.array([-0.0], np.float32), y, 4), tmp_path / "minus", device=device)
    assert json.loads((tmp_path / "minus" / "case.json").read_text())["buffers"][0]["in"] == "in_x"
    for name in ("new", "old", "minus"):
        assert run_case(tmp_path / name).bits_equal
    with pytest.raises(warpsim.LaunchError, match=r"check= names unknown buffers q, z; buffers: x, y"):
        record(made, 1, 1, (x, y, 4), tmp_path / "z", check={"z": {}, "q": {}})
    with pytest.raises(warpsim.LaunchError, match=r"device must be a warpsim.Device, not 'sm_90a'"):
        record(made, 1, 1, (x, y, 4), tmp_path / "z", device="sm_90a")
    with pytest.raises(warpsim.LaunchError, match="takes 3 arguments, not 2"):
        record(made, 1, 1, (x, y), tmp_path / "z")
    assert not (tmp_path / "z").exists()


def test_memory_that_nothing_has_written(tmp_path):
    """It stays so in the case, and what is read of it is found again."""
    device, made = warpsim.Device(), warpsim.load(ADD)["k"]
    x, y = device.empty(2, np.uint32), np.zeros(2, np.uint32)
    with pytest.raises(warpsim.ExecutionError, match="uninitialised"):
        record(made, 1, 1, (x, y, 4), tmp_path / "case", device=device)
    case = json.loads((tmp_path / "case" / "case.json").read_text())
    assert next(b for b in case["buffers"] if b["name"] == "x")["unwritten"] is True
    assert "uninitialised" in run_case(tmp_path / "case").error


def test_renewed(tmp_path):
    """New expectations where the simulator's differ; then the case is no GPU's any more. Else it is as it was."""
    made = warpsim.load(ADD)["k"]
    x, y = np.array([3, 1], np.uint32), np.zeros(2, np.uint32)
    folder = tmp_path / "case"
    record(made, 1, 1, (x, y, 4), folder)
    case = json.loads((folder / "case.json").read_text())
    del case["simulated"]
    case["hardware"] = {"sm": "sm_90a"}
    (folder / "case.json").write_text(json.dumps(case))
    recording.renew(folder)
    assert json.loads((folder / "case.json").read_text())["hardware"] == {"sm": "sm_90a"}
    data = dict(np.load(folder / "data.npz"))
    np.savez(folder / "data.npz", **{**data, "out_y": np.array([1, 1], np.uint32)})
    assert not run_case(folder).ok
    recording.renew(folder, checks="none")
    renewed = json.loads((folder / "case.json").read_text())
    assert "hardware" not in renewed
    assert renewed["simulated"]["device"] == "sm_90a"
    assert run_case(folder).bits_equal
    assert np.load(folder / "data.npz")["out_y"].tolist() == [7, 0]
    case = json.loads((folder / "case.json").read_text())
    case["buffers"][0] |= {"name": "x", "out": "in_x"}
    (folder / "kernel.ptx").write_text(ADD.replace("[%d1], %r1", "[%d0], %r1"))
    recording.renew(folder)
    changed = json.loads((folder / "case.json").read_text())
    assert [changed["buffers"][0][k] for k in ("role", "in", "out")] == ["inout", "in_x", "out_x"]
    assert np.load(folder / "data.npz")["in_x"].tolist() == [3, 1]
    assert np.load(folder / "data.npz")["out_x"].tolist() == [7, 1]
    assert run_case(folder).bits_equal
    assert not (folder / "stdout.txt").exists()
    (folder / "kernel.ptx").write_text(ADD.replace("[%d0]", "[%d2]"))
    before = (folder / "case.json").read_bytes()
    with pytest.raises(warpsim.LaunchError):
        recording.renew(folder)
    assert (folder / "case.json").read_bytes() == before


# ---- comparing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("got", "expected", "check", "ok", "differing", "ulp"),
    [
        (np.array([1.0, 2.0]), np.array([1.0, 2.0]), None, True, 0, 0),
        (np.array([1.0, np.nextafter(2.0, 3)]), np.array([1.0, 2.0]), None, False, 1, 1),
        (np.array([-0.0]), np.array([0.0]), None, False, 1, 0),
        (np.array([-5e-324]), np.array([5e-324]), None, False, 1, 2),
        (np.array([1, 2], np.int32), np.array([1, 3], np.int32), None, False, 1, None),
        (np.array([np.nan]), np.array([1.0]), None, False, 1, None),
        (np.array([np.nan]), np.array([-np.nan]), {"mode": "bits", "nan": "any"}, True, 0, 0),
        (np.array([np.nan]), np.array([1.0]), {"mode": "bits", "nan": "any"}, False, 1, None),
        (np.array([1.1]), np.array([1.0]), {"mode": "close", "atol": 0.1000001}, True, 1, None),
        (np.array([1.1]), np.array([1.0]), {"mode": "close", "atol": 0.09}, False, 1, None),
        (np.array([11.0]), np.array([10.0]), {"mode": "close", "rtol": 0.1}, True, 1, None),
        (np.array([10.0]), np.array([11.5]), {"mode": "close", "rtol": 0.1}, False, 1, None),
        (np.array([10.0]), np.array([11.5]), {"mode": "close", "rtol": 0.1, "atol": 0.4}, True, 1, None),
        (np.array([np.nextafter(2.0, 3)]), np.array([2.0]), {"mode": "close", "ulps": 1}, True, 1, 1),
        (np.array([np.nextafter(2.0, 3)]), np.array([2.0]), {"mode": "close", "ulps": 0}, False, 1, 1),
        (np.array([np.nan]), np.array([2.0]), {"mode": "close", "ulps": 2**60}, False, 1, None),
        (np.array([np.nan]), np.array([-np.nan]), {"mode": "close"}, True, 1, None),
        (np.array([np.inf]), np.array([np.inf]), {"mode": "close"}, True, 0, 0),
        (np.array([np.inf]), np.array([-np.inf]), {"mode": "close", "rtol": 0.5}, False, 1, None),
        (np.array([5.0]), np.array([np.inf]), {"mode": "close", "rtol": 0.5, "atol": 1}, False, 1, None),
        (np.array([np.inf]), np.array([5.0]), {"mode": "close", "rtol": 0.5, "atol": 1}, False, 1, None),
        (np.array([3, 1, 2], np.int32), np.array([1, 2, 3], np.int32), {"mode": "set"}, True, 0, None),
        (np.array([3, 1, 1], np.int32), np.array([1, 2, 3], np.int32), {"mode": "set"}, False, 1, None),
        (np.array([5], np.int32), np.array([6], np.int32), {"mode": "close", "atol": 5}, False, 1, None),
        (np.array([1, 2], ml_dtypes.bfloat16), np.array([1, 2.03], ml_dtypes.bfloat16), None, False, 1, 2),
        (np.array([(1, 2)], "<u8,<u8"), np.array([(1, 3)], "<u8,<u8"), None, False, 1, None),
        (np.array([(1, 2)], "<u8,<u8"), np.array([(1, 2)], "<u8,<u8"), None, True, 0, None),
    ],
)  # fmt: skip
def test_comparisons(got, expected, check, ok, differing, ulp):
    """Bits, units in the last place, tolerances, sets."""
    result = Comparison("y", got, expected, check).result()
    assert (result.ok, result.differing, result.bits_equal) == (ok, differing, differing == 0)
    if ulp is not None or not is_float(expected.dtype) or np.isnan(got.astype(np.float64)).any():
        assert result.max_ulp == ulp
    assert (result.first is None) is (differing == 0)


def test_the_first_difference():
    """Its place and both values, as JSON has them."""
    got, expected = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)
    got[1, 2], expected[1, 2] = 1.5, np.inf
    assert Comparison("y", got, expected).result().first == {"index": [1, 2], "got": 1.5, "expected": "inf"}
    got, expected = got.astype(np.uint8), np.ones((2, 3), np.uint8)
    assert Comparison("y", got, expected).result().first == {"index": [0, 0], "got": 0, "expected": 1}
    assert bits_of(np.zeros(3, "<u8,<u8")).shape == (3, 16)
    assert [is_float(np.dtype(d)) for d in (np.float32, ml_dtypes.float8_e4m3fn, "V3", "<u4,<u4", int)] == [True, True, False, False, False]  # fmt: skip


# ---- schemas -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "good", "bad", "said"),
    [
        ({"type": "integer"}, 5, 5.5, "must be of type integer, not 5.5"),
        ({"type": "integer"}, 5, True, "must be of type integer"),
        ({"type": "number"}, 5.5, False, "must be of type number"),
        ({"type": ["string", "null"]}, None, 5, "must be of type string or null"),
        ({"type": "boolean"}, True, 1, "must be of type boolean"),
        ({"const": 5}, 5, 6, "must be 5, not 6"),
        ({"enum": [1, "a"]}, "a", "b", "must be one of 1, a, not 'b'"),
        ({"enum": [1, "a"]}, 1, True, "must be one of"),
        ({"pattern": "^a+$"}, "aa", "ab", "must match ^a+$, not 'ab'"),
        ({"minimum": 2}, 2, 1, "must be at least 2, not 1"),
        ({"maximum": 2}, 2, 3, "must be at most 2, not 3"),
        ({"minItems": 2}, [1, 2], [1], "must have 2 to any number of elements, not 1"),
        ({"maxItems": 2}, [1, 2], [1, 2, 3], "must have 0 to 2 elements, not 3"),
        ({"items": {"type": "string"}}, ["a"], ["a", 5], "[1]: must be of type string"),
        ({"required": ["a"]}, {"a": 1}, {"b": 1}, "lacks 'a'"),
        ({"properties": {"a": {"minimum": 1}}}, {"a": 1, "b": 0}, {"a": 0}, "a: must be at least 1"),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, {"b": 1}, "b: is not among a"),
        ({"additionalProperties": {"type": "string"}}, {"x": "y"}, {"x": 5}, "x: must be of type string"),
        ({"properties": {"a": {"items": {"const": 1}}}}, {"a": [1]}, {"a": [1, 2]}, "a[1]: must be 1"),
        ({"$ref": "#/defs/n", "defs": {"n": {"minimum": 3}}}, 3, 2, "must be at least 3"),
        (
            {"oneOf": [{"properties": {"k": {"const": "p"}}, "required": ["x"]}, {"properties": {"k": {"const": "q"}}}]},
            {"k": "q"},
            {"k": "p"},
            "lacks 'x'",
        ),
        ({"oneOf": [{"properties": {"k": {"const": "p"}}}, {"properties": {"k": {"const": "q"}}}]}, {"k": "p"}, {"k": "r"}, "must be one of p, q, not {'k': 'r'}"),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, None, 5, "must be of type null, not 5"),
    ],
)  # fmt: skip
def test_words_of_schemas(schema, good, bad, said):
    """What fits has no problem; what does not has one, with its place."""
    assert list(problems(good, schema)) == []
    ((at, text),) = problems(bad, schema)
    assert said in (f"{at}: {text}" if at else text)


# ---- files ---------------------------------------------------------------------------------------


def test_texts_have_an_end(tmp_path, monkeypatch):
    """As many bytes as a text of its kind may have, and one more is too long."""
    monkeypatch.setattr(files, "LARGEST_TEXT", 10)
    (tmp_path / "text").write_bytes(b"0123456789")
    assert files.contents(tmp_path / "text") == b"0123456789"
    (tmp_path / "text").write_bytes(b"0123456789a")
    with pytest.raises(ValueError, match="has more than 10 bytes"):
        files.contents(tmp_path / "text")
    (tmp_path / "text").write_bytes(b"a\r\nb")
    assert files.text_of(tmp_path / "text") == "a\nb"


def test_archives(tmp_path, monkeypatch):
    """By name; one that claims to be larger than memory, or holds what is no array, is refused."""
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.ones(2))
    assert {k: v.tolist() for k, v in files.read_archive(tmp_path / "a.npz").items()} == {"x": [0, 1, 2], "y": [1, 1]}
    import zipfile

    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("text", "no array")
    with pytest.raises(warpsim.LaunchError, match="its member text is not an array"):
        files.read_archive(tmp_path / "b.npz")
    size = sum(member.file_size for member in zipfile.ZipFile(tmp_path / "a.npz").infolist())
    monkeypatch.setattr(files, "LARGEST", size)
    files.read_archive(tmp_path / "a.npz")
    monkeypatch.setattr(files, "LARGEST", size - 1)
    with pytest.raises(warpsim.LaunchError, match=f"unpacks to {size} bytes"):
        files.read_archive(tmp_path / "a.npz")


def test_arrays_of_negative_extents(tmp_path):
    """A header of either version that says so is damaged."""
    for version, head in (((1, 0), "<H"), ((2, 0), "<I")):
        import struct

        text = b"{'descr': '<u4', 'fortran_order': False, 'shape': (-1,), }\n"
        (tmp_path / "x.npy").write_bytes(b"\x93NUMPY" + bytes(version) + struct.pack(head, len(text)) + text + bytes(4))
        with pytest.raises(warpsim.LaunchError, match="cannot read"):
            files.read_array(tmp_path / "x.npy")
    np.save(tmp_path / "y.npy", np.arange(6).reshape(2, 3).T)
    assert files.read_array(tmp_path / "y.npy").tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions of POSIX")
def test_places_to_write(tmp_path, monkeypatch):
    """The old file stays until the new one is whole; its permissions stay; what cannot be written is told at once."""
    path = tmp_path / "file"
    path.write_text("old text")
    path.chmod(0o640)
    target = files.Target(path)
    assert path.read_text() == "old text"
    target.write(lambda stream: stream.write(b"new"))
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)
    abandoned = files.Target(path)
    abandoned.abandon()
    assert os.listdir(tmp_path) == ["file"]

    def fails(stream):
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(warpsim.LaunchError, match=r"cannot write .*: No space left on device"):
        files.Target(path).write(fails)
    assert (path.read_text(), os.listdir(tmp_path)) == ("new", ["file"])
    with pytest.raises(warpsim.LaunchError, match="cannot write"):
        files.Target(tmp_path / "none" / "file")
    monkeypatch.setattr(files.os, "access", lambda place, mode: str(place) != str(path))
    with pytest.raises(warpsim.LaunchError, match=r"cannot write .*: Permission denied"):
        files.Target(path)
    monkeypatch.setattr(files.os, "access", lambda place, mode: str(place) == str(path))
    files.Target(path).write(lambda stream: stream.write(b"ab"))
    assert path.read_text() == "ab"
    assert files.named("..").name == Path("..").resolve().name
    assert files.named(tmp_path / "file") == tmp_path / "file"
    assert [files.reason(p) for p in (OSError(2, "No such"), ValueError("why"), ValueError())] == ["No such", "why", "ValueError"]  # fmt: skip


def test_a_case_that_cannot_be_put_in_its_place(tmp_path, monkeypatch):
    """The old one is back where it was."""
    made = warpsim.load(ADD)["k"]
    args = np.array([3], np.uint32), np.zeros(1, np.uint32), 4
    record(made, 1, 1, args, tmp_path / "case")
    before = {p.name: p.read_bytes() for p in (tmp_path / "case").iterdir()}
    replace, done = os.replace, []

    def fails(source, target):
        done.append(target)
        if len(done) == 2:
            raise OSError(5, "Input/output error")
        replace(source, target)

    monkeypatch.setattr("warpsim.host.recording.os.replace", fails)
    with pytest.raises(warpsim.LaunchError, match="Input/output error"):
        record(made, 1, 1, args, tmp_path / "case", note="other")
    assert {p.name: p.read_bytes() for p in (tmp_path / "case").iterdir()} == before
    assert os.listdir(tmp_path) == ["case"]


PRINTS = (
    HEAD
    + """.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 words[4] = {104, 105, 10, 0};
.visible .entry k() { .reg .b64 %d; .reg .b32 %r; .param .b64 f; .param .b64 a; .param .b32 r;
  cvta.global.u64 %d, words; st.param.b64 [f], %d; mov.u64 %d, 0; st.param.b64 [a], %d; call (r), vprintf, (f, a); ret; }"""
)
"""Prints "hi", and ends the line."""


def test_what_a_kernel_printed(tmp_path):
    """It is part of the case, and compared."""
    record(warpsim.load(PRINTS)["k"], 1, 1, (), tmp_path / "case", device=warpsim.Device(stdout=lambda text: None))
    assert (tmp_path / "case" / "stdout.txt").read_text() == "hi\n"
    assert Case.read(tmp_path / "case").stdout == "hi\n"
    assert run_case(tmp_path / "case").ok
    (tmp_path / "case" / "stdout.txt").write_text("ho\n")
    assert run_case(tmp_path / "case").error == r"printed 'hi\n', not 'ho\n'"


def test_printed_text_that_is_not_compared(tmp_path):
    """A case without a recorded text has none when it is renewed, either; one that has is renewed with it."""
    folder = tmp_path / "case"
    record(warpsim.load(PRINTS)["k"], 1, 1, (), folder, device=warpsim.Device(stdout=lambda text: None))
    (folder / "stdout.txt").write_text("ho\n")
    recording.renew(folder)
    assert (folder / "stdout.txt").read_text() == "hi\n"
    (folder / "stdout.txt").unlink()
    recording.renew(folder)
    assert not (folder / "stdout.txt").exists()
    assert run_case(folder).error.startswith("nothing to compare")


@pytest.mark.parametrize(("body", "fails"), [("trap;", True), ("", False), ("ld.global.u32 %r, [5];", False)])
def test_cases_that_are_to_fail(body, fails, tmp_path):
    """A case whose kernel has to trap is good if it does, and in no other way."""
    record(warpsim.load(HEAD + ".visible .entry k() { ret; }")["k"], 1, 1, (), tmp_path / "case")
    case = json.loads((tmp_path / "case" / "case.json").read_text())
    (tmp_path / "case" / "case.json").write_text(json.dumps({**case, "expect_error": True}))
    (tmp_path / "case" / "kernel.ptx").write_text(HEAD + f".visible .entry k() {{ .reg .b32 %r; {body} ret; }}")
    result = run_case(tmp_path / "case")
    assert (result.ok, result.bits_equal) == (fails, fails)
    if not body:
        assert result.error == "the launch was expected to fail, and did not"


def test_inputs_that_are_shorter(tmp_path):
    """Behind what is recorded a buffer has zeros."""
    made = warpsim.load(ADD)["k"]
    record(made, 1, 1, (np.array([3, 1], np.uint32), np.zeros(3, np.uint32), 4), tmp_path / "case")
    case = json.loads((tmp_path / "case" / "case.json").read_text())
    case["buffers"][0] |= {"shape": [4], "nbytes": 16, "out": None}
    (tmp_path / "case" / "case.json").write_text(json.dumps(case))
    ready = Case.read(tmp_path / "case").prepare()
    assert ready.buffers["x"].get().view(np.uint32).tolist() == [3, 1, 0, 0]


def test_variables_that_are_not_on_a_device(tmp_path):
    """Shared variables of a module are no part of what is recorded."""
    text = HEAD + ".shared .align 4 .u32 s;\n.global .align 4 .u32 g = 3;\n.visible .entry k() { .reg .b32 %r; st.shared.u32 [s], 1; st.global.u32 [g], 5; ret; }"  # fmt: skip
    record(warpsim.load(text)["k"], 1, 1, (), tmp_path / "case")
    case = json.loads((tmp_path / "case" / "case.json").read_text())
    assert case["globals"] == [{"name": "g", "out": "out_variable_g"}]


# ---- errors that nobody sees ---------------------------------------------------------------------


def test_unseen_errors(monkeypatch):
    """Of threads and destructors, told at once; those of others only where a launch has ended, if at all."""
    said, threads, others = [], [], []
    monkeypatch.setattr(threading, "excepthook", lambda args: threads.append(args))
    monkeypatch.setattr(sys, "unraisablehook", lambda args: others.append(args))
    before = threading.excepthook, sys.unraisablehook
    unhandled = UnhandledErrors(said.append)
    error = warpsim.LaunchError("lost")
    with unhandled.hooks():
        threading.excepthook(types.SimpleNamespace(thread=threading.current_thread(), exc_value=error))
        threading.excepthook(types.SimpleNamespace(thread=None, exc_value=error))
        sys.unraisablehook(types.SimpleNamespace(object="it", exc_value=error))
        sys.unraisablehook(types.SimpleNamespace(object="it", exc_value=ValueError("other")))
        threading.excepthook(types.SimpleNamespace(thread=None, exc_value=AssertionError("no launch")))
        unhandled.launches = 1
        threading.excepthook(types.SimpleNamespace(thread=None, exc_value=AssertionError("wrong")))
    assert (threading.excepthook, sys.unraisablehook) == before
    assert said == [
        "in thread MainThread: LaunchError: lost",
        "in a thread: LaunchError: lost",
        "in 'it': LaunchError: lost",
        "in a thread: AssertionError: wrong",
    ]
    assert (len(threads), len(others)) == (4, 2)
    with unhandled.hooks():
        threading.excepthook = before[0]
    assert threading.excepthook is before[0]


def test_futures_that_nobody_asks():
    """Each error once, when its future is gone, or at the end; one that was looked at is none."""
    unhandled, before = UnhandledErrors(), Future.set_exception
    with unhandled.session():
        kept, lost, asked, looked, other = (Future() for _ in range(5))
        for future in (kept, lost, asked, looked):
            future.set_exception(warpsim.LaunchError("lost"))
        other.set_exception(ValueError("of others"))
        with pytest.raises(warpsim.LaunchError):
            asked.result()
        assert isinstance(looked.exception(), warpsim.LaunchError)
        assert unhandled.take() == []
        del lost
        assert unhandled.take() == ["in a future that nobody asked: LaunchError: lost"]
        assert unhandled.take() == []
        assert unhandled.take_all() == ["in a future that nobody asked: LaunchError: lost"]
        late = Future()
        late.set_exception(warpsim.LaunchError("late"))
        assert unhandled.take() == ["in a future that nobody asked: LaunchError: late"]
        unhandled.forget()
        again = Future()
        again.set_exception(warpsim.LaunchError("late"))
        assert unhandled.take() == []
    assert Future.set_exception is before
    assert isinstance(kept, Future)
    assert isinstance(again, Future)


def test_threads_that_launch():
    """Whether a thread that Python waits for is in a launch."""
    begun, goes_on = threading.Event(), threading.Event()
    device = warpsim.Device(stdout=lambda text: (begun.set(), goes_on.wait(30)))
    made = warpsim.load(PRINTS)["k"]
    for daemon in (False, True):
        begun.clear()
        goes_on.clear()
        thread = threading.Thread(target=made, args=(1, 1, ()), kwargs={"device": device}, daemon=daemon)
        assert not launching()
        thread.start()
        assert begun.wait(30)
        assert launching() is not daemon
        goes_on.set()
        thread.join()
    assert not launching()


def test_an_array_of_a_device_is_no_host_array():
    """It is passed by its address, whatever else it offers."""
    device = warpsim.Device()
    made = described(".u64", device.array(np.zeros(2, np.uint16)), device=device)
    assert isinstance(made.args[0], DeviceArray)
    assert made.regions[0].elements()[0] == "u16"
    structured = described(".u64", np.zeros(2, "<u4,<u4"))
    assert structured.regions[0].elements()[0] == "u8"
    assert structured.regions[0].elements()[1].shape == (16,)

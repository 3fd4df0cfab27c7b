"""Textures and surfaces in cases and debug sessions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import warpsim
from warpsim.debug import Session
from warpsim.host.cases import Case, run_case
from warpsim.testing import record

TEXT = """.version 8.6
.target sm_90
.address_size 64
.global .texref named;
.visible .entry k(.param .texref first, .param .u64 table, .param .b8 pair[16], .param .surfref sums, .param .u64 out)
{
    .reg .b64 %t, %o; .reg .b32 %x, %a; .reg .f32 %f, %d<4>, %sum;
    ld.param.u64 %o, [out];
    mov.u32 %x, %tid.x; cvt.rn.f32.u32 %f, %x; shl.b32 %a, %x, 2;
    tex.1d.v4.f32.f32 {%sum, %d1, %d2, %d3}, [first, {%f}];
    tex.1d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [named, {%f}];
    add.f32 %sum, %sum, %d0;
    ld.param.u64 %t, [table]; ld.global.u64 %t, [%t+8];
    tex.1d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%t, {%f}];
    add.f32 %sum, %sum, %d0;
    ld.param.u64 %t, [pair+8];
    tex.1d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%t, {%f}];
    add.f32 %sum, %sum, %d0;
    sust.b.1d.b32.trap [sums, {%a}], %sum;
    mad.wide.u32 %o, %x, 4, %o; st.global.f32 [%o], %sum;
    ret;
}
"""


class Launch:
    """A kernel that reads textures by all their names: each thread adds up 1 + 10 + 100 + 1000."""

    def __init__(self) -> None:
        self.module = warpsim.load(TEXT)
        first, named, listed, packed = (np.full(8, 10.0**k, np.float32) for k in range(4))
        self.first = first
        self.module.get_global("named").set(warpsim.Texture(named))
        self.kept = warpsim.Texture(listed), warpsim.Texture(self.module.device.array(packed))
        self.sums, self.out = np.zeros(8, np.float32), np.zeros(8, np.float32)
        self.table = np.array([0, self.kept[0].handle], np.uint64)
        pair = np.array([7, self.kept[1].handle], np.uint64).tobytes()
        self.args = (warpsim.Texture(first), self.table, pair, warpsim.Surface(self.sums), self.out)

    def result(self) -> list[list[float]]:
        """What it left."""
        return [self.sums.tolist(), self.out.tolist()]


DONE = [[1111.0] * 8] * 2


def check(folder: Path) -> None:
    """A case replays to the byte, and fails where a texture holds something else."""
    described = json.loads((folder / "case.json").read_text())
    result = run_case(folder)
    assert (result.ok, result.bits_equal, {o.buffer for o in result.outputs} >= {"sums_elements", "out"}) == (True,) * 3
    data = dict(np.load(folder / "data.npz"))
    for texture in described["textures"]:
        key = next(b["in"] for b in described["buffers"] if b["name"] == texture["levels"][0]["buffer"])
        if texture.get("kind") == "surfref":
            continue
        changed = {**data, key: data[key] + 1}
        np.savez(folder / "data.npz", **changed)
        assert not run_case(folder).bits_equal, texture["name"]
    np.savez(folder / "data.npz", **data)


def test_record(tmp_path: Path) -> None:
    """A case holds arguments, handles in tables and structures, what is bound to variables, and their arrays."""
    launch = Launch()
    record(launch.module["k"], 1, 8, launch.args, tmp_path / "case")
    assert launch.result() == DONE
    check(tmp_path / "case")
    described = json.loads((tmp_path / "case" / "case.json").read_text())
    assert sorted((t["name"], t.get("kind", "texref")) for t in described["textures"]) == [
        ("first", "texref"), ("named", "texref"), ("pointed_to", "texref"), ("pointed_to_2", "texref"), ("sums", "surfref"),
    ]  # fmt: skip
    assert described["globals"] == [{"name": "named", "textures": ["named"]}]


def test_options_are_kept(tmp_path: Path) -> None:
    """How a texture is read is part of the case."""
    text = TEXT[: TEXT.index("    ld.param.u64 %t, [table]")] + "    st.global.f32 [%o], %sum; ret;\n}\n"
    module, out = warpsim.load(text), np.zeros(1, np.float32)
    rows = [np.arange(16 >> k, dtype=np.uint8) for k in range(2)]
    texture = warpsim.Texture(
        rows[0], mipmaps=rows[1:], filter="linear", address="mirror", normalized=True, border=(1, 2, 3, 4)
    )
    module.get_global("named").set(warpsim.Texture(np.full((2, 8, 2), 3, np.float32), layered=True, channels=2))
    args = (texture, None, bytes(16), None, out)
    record(module["k"], 1, 1, args, tmp_path / "case")
    result = run_case(tmp_path / "case")
    described = json.loads((tmp_path / "case" / "case.json").read_text())

    assert result.bits_equal
    assert described["textures"][0] == {
        "name": "first", "rank": 1, "size": [16, 1, 1], "format": "u8", "channels": 1, "address": ["mirror"] * 3, "linear": True,
        "normalized": True, "most": 2.0, "border": [1.0, 2.0, 3.0, 4.0],
        "levels": [{"buffer": "first_elements", "byte_offset": 0}, {"buffer": "first_elements_2", "byte_offset": 0}],
    }  # fmt: skip


def test_session(tmp_path: Path) -> None:
    """A session goes back over stores to a surface, and writes the same case; the caller's arrays change when it ends."""
    launch = Launch()
    session = Session(launch.module["k"], 1, 8, launch.args)
    session.break_at("op:sust*")
    session.cont()
    before = session.stop.step
    session.step()
    session.back()
    assert launch.result() == [[0.0] * 8] * 2
    session.record(tmp_path / "case")
    session.goto(before)
    assert session.cont().reason == "end"
    assert launch.result() == DONE
    check(tmp_path / "case")


@pytest.mark.long
def test_workers() -> None:
    """Launches that are divided over processes or threads read textures, too."""
    launch = Launch()
    launch.module["k"](2, 8, launch.args, workers=2)

    assert launch.result() == DONE


def test_renewed(tmp_path: Path) -> None:
    """A case that is renewed keeps its textures."""
    from warpsim.host.recording import renew

    launch = Launch()
    record(launch.module["k"], 1, 8, launch.args, tmp_path / "case")
    renew(tmp_path / "case")

    check(tmp_path / "case")


def test_recorded_again(tmp_path: Path) -> None:
    """Objects that lie in device memory, as the driver's do, are recorded like those of Python."""
    launch = Launch()
    record(launch.module["k"], 1, 8, launch.args, tmp_path / "case")
    ready = Case.read(tmp_path / "case").prepare()
    first, _, *others = ready.args
    args = (first, ready.buffers["table"], *others)
    record(ready.kernel, 1, 8, args, tmp_path / "again", device=ready.device)
    described = [json.loads((tmp_path / name / "case.json").read_text())["textures"] for name in ("case", "again")]

    assert run_case(tmp_path / "again").bits_equal
    kinds = [sorted((t.get("kind", ""), len(t["levels"])) for t in each) for each in described]
    assert kinds[0] == kinds[1]


def test_unknown_memory(tmp_path: Path) -> None:
    """A case of a texture from another device is refused."""
    launch, other = Launch(), warpsim.Device("sm_90a")
    launch.args = (warpsim.Texture(other.array(np.ones(8, np.float32))), *launch.args[1:])
    with pytest.raises(warpsim.LaunchError, match=r"unknown memory|is not on"):
        record(launch.module["k"], 1, 8, launch.args, tmp_path / "case")

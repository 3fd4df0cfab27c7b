"""Textures and surfaces in the debugger."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import warpsim
from warpsim.cli.debug.shell import Shell
from warpsim.debug import Session
from warpsim.testing import record

TEXT = """.version 8.6
.target sm_90
.address_size 64
.global .texref named;
.global .surfref listed[2];
.visible .entry k(.param .texref first, .param .u64 handle, .param .u64 n)
{
    .reg .b64 %t, %n; .reg .b32 %x; .reg .f32 %d<4>;
    ld.param.u64 %t, [handle]; ld.param.u64 %n, [n];
    mov.u32 %x, 0;
    tex.1d.v4.f32.s32 {%d0, %d1, %d2, %d3}, [first, {%x}];
    ret;
}
"""
IMAGE = "texture of 8 x 4 u8, 2 channels, linear, wrap/clamp/clamp, normalized; at 0x"


def arguments() -> tuple[object, ...]:
    """Of the kernel."""
    image = np.zeros((4, 8, 2), np.uint8)
    texture = warpsim.Texture(image, channels=2, filter="linear", address=["wrap"], normalized=True)
    return texture, warpsim.Surface(np.zeros((3, 8), np.float16), layered=True), 7


@pytest.fixture
def session() -> Session:
    """A session in front of the tex."""
    module = warpsim.load(TEXT)
    module.get_global("listed").set([warpsim.Surface(np.zeros((2, 2, 2), np.float32)), None])
    made = Session(module["k"], 1, 32, arguments())
    made.break_at("op:tex*")
    made.cont()
    return made


def said(session: Session, command: str) -> str:
    """What the prompt answers."""
    out = io.StringIO()
    Shell(session, out, colour=False).execute(command)
    return out.getvalue().rstrip()


def test_print(session: Session) -> None:
    """The value of a handle says of what: a parameter, a register, a variable, an element of an array of variables."""
    assert IMAGE in said(session, "print first")
    assert "<surface of 8 f16, 3 layers; at 0x" in said(session, "print %t")
    assert "<surface of 8 f16, 3 layers; at 0x" in said(session, "print handle")
    assert said(session, "print named").endswith("<texture with nothing bound to it>")
    assert "<surface of 2 x 2 x 2 f32; at 0x" in said(session, "print listed[0]")
    assert said(session, "print listed[1]").endswith("<surface with nothing bound to it>")
    assert said(session, "print n") == "n = 7"
    assert said(session, "print %n").startswith("%n = 7")


def test_info(session: Session) -> None:
    """Variables, arguments and what is bound to variables are listed."""
    lines = said(session, "info textures").splitlines()
    listed = [line.split(maxsplit=1)[1].split(";")[0] for line in lines]
    for line in [
        "named: texture with nothing bound to it",
        "listed: surface of 2 x 2 x 2 f32",
        "listed: surface with nothing bound to it",
        "Texture(8x4, u8x2, 1 level): " + IMAGE.split(";")[0],
        "Surface(8, f16x1, 1 level): surface of 8 f16, 3 layers",
        "Surface(2x2x2, f32x1, 1 level): surface of 2 x 2 x 2 f32",
    ]:
        assert line in listed


def test_editor(client, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """An editor shows the same."""
    record(warpsim.load(TEXT)["k"], 1, 32, arguments(), tmp_path / "case")
    client.start(case=str(tmp_path / "case"))
    thread = client.event("stopped")["threadId"]
    frame = client.ask("stackTrace", threadId=thread)["stackFrames"][0]["id"]

    assert IMAGE in client.ask("evaluate", expression="first", frameId=frame)["result"]

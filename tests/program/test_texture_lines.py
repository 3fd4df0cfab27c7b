"""Lines with textures and surfaces: what ptxas 13.0 takes and refuses (tools/recordings/texture_lines.py)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import texture_lines
import warpsim

ANSWERS = json.loads(gzip.decompress((Path(__file__).parents[1] / "data" / "texture_lines.json.gz").read_bytes()))
D, AT = texture_lines.FLOATS, "[%t, {%f0,%f1}]"
ODD = {
    f"tex.1d.v4.f32.f32 {D}, [%t, {{%f0}}], {{%r0,%r1}};", f"tex.2d.v4.f32.f32 {D}, {AT}, {{%r0,%r1,%r2,%r3}};", f"tex.2d.v4.f32.f32 {D}, {AT}, 1.0;",
    f"tex.grad.cube.v4.f32.f32 {D}, [%t, {{%f0,%f1,%f2,%f3}}], {{%f0,%f1}}, {{%f0,%f1}};", f"tex.2d.v4.f32.s32 {D}, [%t, %r0];",
    f"tex.3d.v4.f32.s32 {D}, [%t, %r0];",
    f"tex.2d.v2.f16x2.f32 {{_,%r5}}, {AT};", f"tex.2d.v4.f32.f32 {D}|_, {AT};", f"tex.2d.v4.f32.f32 {{%hx0,%hx1,%hx2,%hx3}}, {AT};",
}  # fmt: skip
"""Of 577 operands, those that ptxas takes or refuses for no reason that the manual gives, or that other instructions share."""


def is_taken(line: str, group: str) -> bool:
    """Whether a module with a line loads."""
    try:
        warpsim.load(texture_lines.module([line], texture_lines.SETTINGS[group]))
    except warpsim.PtxError:
        return False
    return True


@pytest.mark.parametrize(
    "group", [pytest.param(g, marks=[pytest.mark.long] * (not g.startswith("names in"))) for g in ANSWERS]
)
def test_lines(group: str) -> None:
    """A line is taken where ptxas takes it, and refused where it refuses it."""
    answers = ANSWERS[group]
    wrong = {line for line in answers["taken"] if not is_taken(line, group)}
    wrong |= {line for line in answers["refused"] if is_taken(line, group)}

    assert wrong - ODD == set()

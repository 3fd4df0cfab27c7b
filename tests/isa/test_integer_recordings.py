"""Integer, logic, comparison, video and conversion instructions give the bits that a Hopper GPU gave.

``integer_recordings.npz`` has 32 operand sets for each form: rows of the sources in operand order, then of the result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsim

WIDTHS = {"f16": 16, "bf16": 16, "b16": 16, "u16": 16, "s16": 16}


def _recordings() -> dict[str, list[tuple[dict[str, Any], np.ndarray]]]:
    with np.load(Path(__file__).parents[1] / "data" / "integer_recordings.npz") as data:
        forms, rows = json.loads(str(data["forms"])), data["rows"]
    found: dict[str, list[tuple[dict[str, Any], np.ndarray]]] = {}
    at = 0
    for form in forms:
        count = len(form["operands"]) + 1
        found.setdefault(form["text"].split(".")[0], []).append((form, rows[at : at + count]))
        at += count
    return found


RECORDINGS = _recordings()


def _width(type: str) -> int:
    return 64 if type.endswith("64") else WIDTHS.get(type, 32)


def _module(form: dict[str, Any]) -> str:
    operands = list(zip("abce", form["operands"], strict=False))
    lines = [
        ".version 9.0",
        ".target sm_90a",
        ".address_size 64",
        ".visible .entry k(.param .u64 p_in, .param .u64 p_out) {",
        f".reg .b64 qi, qo, qt; .reg .b32 t, w; .reg .pred p, q; .reg .b{_width(form['result'])} d;",
        *[f".reg .b{_width(type)} {name};" for name, type in operands],
        "mov.u32 t, %tid.x; mul.wide.u32 qt, t, 32; ld.param.u64 qi, [p_in]; ld.param.u64 qo, [p_out];",
        "add.u64 qi, qi, qt; mul.wide.u32 qt, t, 8; add.u64 qo, qo, qt;",
        *[f"ld.global.b{_width(type)} {name}, [qi+{8 * i}];" for i, (name, type) in enumerate(operands)],
        form["before"],
        form["text"],
        f"st.global.b{_width(form['result'])} [qo], d; ret; }}",
    ]
    return "\n".join(lines)


@pytest.mark.parametrize("root", RECORDINGS)
def test_recorded(root: str) -> None:
    """Every recorded form of an opcode, bit for bit."""
    wrong = []
    for form, rows in RECORDINGS[root]:
        operands = np.zeros((32, 4), np.uint64)
        operands[:, : len(rows) - 1] = rows[:-1].T
        out = np.zeros(32, np.uint64)
        warpsim.load(_module(form))["k"]((1,), (32,), (operands, out))
        if not np.array_equal(out, rows[-1]):
            lane = int(np.flatnonzero(out != rows[-1])[0])
            wrong.append(f"{form['text']} {[hex(v) for v in rows[:, lane]]} gave {out[lane]:#x}")
    assert not wrong

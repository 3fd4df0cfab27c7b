"""Integer, logic, comparison, video and conversion instructions give the bits that a Hopper GPU gave.

``integer_recordings.npz`` has 32 operand sets for each form: rows of the sources in operand order, then of the result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsim

TOGETHER = 100
"""Forms in a kernel."""
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


def _block(number: int, form: dict[str, Any]) -> str:
    """A form in a scope of its own: operands in, result out."""
    operands = list(zip("abce", form["operands"], strict=False))
    lines = [
        f"{{ .reg .b32 t, w; .reg .pred p, q; .reg .b{_width(form['result'])} d; mov.u32 t, %tid.x;",
        *[f".reg .b{_width(type)} {name};" for name, type in operands],
        *[
            f"ld.global.b{_width(type)} {name}, [qi+{1024 * number + 8 * i}];"
            for i, (name, type) in enumerate(operands)
        ],
        form["before"],
        form["text"],
        f"st.global.b{_width(form['result'])} [qo+{256 * number}], d; }}",
    ]
    return "\n".join(lines)


def _module(forms: list[dict[str, Any]]) -> str:
    lines = [
        ".version 9.0",
        ".target sm_90a",
        ".address_size 64",
        ".visible .entry k(.param .u64 p_in, .param .u64 p_out) {",
        ".reg .b64 qi, qo, qt; .reg .b32 tid;",
        "mov.u32 tid, %tid.x; mul.wide.u32 qt, tid, 32; ld.param.u64 qi, [p_in]; ld.param.u64 qo, [p_out];",
        "add.u64 qi, qi, qt; mul.wide.u32 qt, tid, 8; add.u64 qo, qo, qt;",
        *[_block(number, form) for number, form in enumerate(forms)],
        "ret; }",
    ]
    return "\n".join(lines)


@pytest.mark.parametrize("third", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2))])
@pytest.mark.parametrize("root", RECORDINGS)
def test_recorded(root: str, third: int) -> None:
    """Every recorded form of an opcode, bit for bit; by default every third."""
    wrong = []
    forms = RECORDINGS[root][third::3]
    for start in range(0, len(forms), TOGETHER):
        part = forms[start : start + TOGETHER]
        operands, out = np.zeros((len(part), 32, 4), np.uint64), np.zeros((len(part), 32), np.uint64)
        for number, (_, rows) in enumerate(part):
            operands[number, :, : len(rows) - 1] = rows[:-1].T
        warpsim.load(_module([form for form, _ in part]))["k"]((1,), (32,), (operands, out))
        for (form, rows), found in zip(part, out, strict=True):
            if not np.array_equal(found, rows[-1]):
                lane = int(np.flatnonzero(found != rows[-1])[0])
                wrong.append(f"{form['text']} {[hex(v) for v in rows[:, lane]]} gave {found[lane]:#x}")
    assert not wrong

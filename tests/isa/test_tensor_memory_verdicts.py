"""Instructions on tensor memory are taken on the targets on which ptxas 13.0 takes them, and nowhere else.

``tensor_memory_verdicts.txt`` holds a line for each: the targets, a tab, the instruction (`tools/recordings/tensor_memory.py`);
``tcgen05_mma_verdicts.txt`` those of products (`tools/recordings/tensor_products.py`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from instruction_heads import head
from tensor_memory import TARGETS

FILES = ("tensor_memory_verdicts.txt", "tcgen05_mma_verdicts.txt")
ROWS = [line.split("\t") for name in FILES for line in Path(__file__).with_name(name).read_text().splitlines()]


def whole(text: str) -> str:
    """The instruction with the registers of long vectors."""
    return re.sub(r"\{b0\.\.b(\d+)\}", lambda m: "{" + ",".join(f"b{i}" for i in range(int(m[1]) + 1)) + "}", text)


USUAL = ("sm_100a",)


@pytest.mark.parametrize("target", [pytest.param(t, marks=() if t in USUAL else [pytest.mark.long]) for t in TARGETS])
def test_verdicts(target: str, refused: Callable[[str, list[str]], set[int]]) -> None:
    """What a target has is taken; the rest is refused."""
    given = [whole(instruction) for _, instruction in ROWS]
    found = refused(head(target, "9.0", 250), given)
    expected = {number for number, (targets, _) in enumerate(ROWS, 1) if target not in targets.split()}

    assert [given[n - 1] for n in sorted(found ^ expected)] == []

"""Random kernels leave the same bytes, text, counts and findings under both engines: with machine code for whatever can be
compiled, and with machine code that is there only now and then, so that it begins at any place and ends at any other."""

from __future__ import annotations

import contextlib
import io
import os
import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import warpsim
from random_kernels import WORDS, Kernel, kernel

pytest.importorskip("llvmlite", reason="the extra jit is not installed")

from warpsim.native.tiering.engine import CompiledEngine

MANY = int(os.environ.get("WARPSIM_RANDOM_KERNELS", "2000"))
FIRST = int(os.environ.get("WARPSIM_RANDOM_SEED", "116"))
"""How many kernels the sweep takes, and its first seed."""


def outcome(made: Kernel, engine: str) -> dict[str, Any]:
    """What a launch leaves, prints, counts and finds, or how it ends."""
    given = np.random.default_rng(1).integers(0, 1 << 32, 4 * WORDS, dtype=np.uint64).astype(np.uint32)
    work, out = np.zeros(WORDS, np.uint32), np.zeros(made.grid * made.block[0] * made.block[1], np.uint32)
    cluster = (made.cluster,) if made.cluster else None
    options: dict[str, Any] = {"checks": made.checks, "on_finding": "collect", "max_instructions": 3_000_000}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            kernel = warpsim.load(made.text)["k"]
            result = kernel((made.grid,), made.block, (given, work, out), engine=engine, cluster=cluster, **options)
            found: dict[str, Any] = {
                "findings": [str(f) for f in result.findings],
                "instructions": (result.instructions, result.thread_instructions, dict(result.opcodes)),
            }
        except warpsim.ExecutionError as problem:
            found = {"error": str(problem)}
    return found | {"printed": printed.getvalue(), "arrays": [a.tobytes() for a in (given, work, out)]}


def differing(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What differs between the engines for the kernel of a seed."""
    made, rng, advance = kernel(seed), random.Random(seed), CompiledEngine.advance
    expected = outcome(made, "interpreter")

    def sometimes(self: CompiledEngine, *place: Any) -> bool:
        return rng.random() < 0.6 and advance(self, *place)

    found = {"at once": outcome(made, "compiled")}
    with monkeypatch.context() as patched:  # the default pace: from the disk, where the launch before has left its code
        patched.delenv("WARPSIM_COMPILE", raising=False)
        found["by default"] = outcome(made, "auto")
    with monkeypatch.context() as patched:
        patched.setattr(CompiledEngine, "advance", sometimes)
        found["now and then"] = outcome(made, "compiled")
    return [
        f"seed {seed}, {when}: {name}"
        for when, left in found.items()
        for name in sorted({*expected, *left})
        if expected.get(name) != left.get(name)
    ]


def compared(seeds: Iterable[int], monkeypatch: pytest.MonkeyPatch, done: list[Any]) -> tuple[list[str], int]:
    """What differs, and in how many kernels machine code took part."""
    bad, compiled = [], 0
    for seed in seeds:
        before = len(done)
        bad += differing(seed, monkeypatch)
        compiled += len(done) > before
    return bad, compiled


def test_some_kernels(monkeypatch: pytest.MonkeyPatch, done: list[Any]) -> None:
    """A few seeds, of kernels that compile in no time."""
    bad, compiled = compared((4, 6, 16), monkeypatch, done)

    assert bad == []
    assert compiled > 1


@pytest.mark.long
def test_more_kernels(monkeypatch: pytest.MonkeyPatch, done: list[Any]) -> None:
    """Machine code takes part in most of them."""
    bad, compiled = compared(range(100, 116), monkeypatch, done)

    assert bad == []
    assert compiled > 13


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(8))
def test_many_kernels(part: int, monkeypatch: pytest.MonkeyPatch, done: list[Any]) -> None:
    """As many as the environment says."""
    seeds = range(FIRST + part, FIRST + MANY, 8)
    bad, compiled = compared(seeds, monkeypatch, done)

    assert bad == []
    assert compiled > 0.8 * len(seeds)

"""Random kernels leave the same bytes, text, counts and findings under both engines: with machine code for whatever can be
compiled, and with machine code that is there only now and then, so that it begins at any place and ends at any other."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

pytest.importorskip("llvmlite", reason="the extra jit is not installed")

from random_kernels import kernel
from random_ways import WAYS, differing

MANY = int(os.environ.get("WARPSIM_RANDOM_KERNELS", "2000"))
FIRST = int(os.environ.get("WARPSIM_RANDOM_SEED", "116"))
"""How many kernels the sweep takes, and its first seed."""


def compared(seeds: Iterable[int], done: list[Any], *, branches: bool = False) -> tuple[list[str], int]:
    """What differs, and in how many kernels machine code took part; kernels take turns at the ways."""
    bad, compiled = [], 0
    for seed in seeds:
        before, way = len(done), WAYS[seed % len(WAYS)]
        made = kernel(seed, more=True, branches=branches)
        bad += [f"seed {seed}, {way}: {name}" for name in differing(seed, way, made)]
        compiled += len(done) > before
    return bad, compiled


@pytest.mark.parametrize(("seeds", "branches"), [((2, 7, 39), False), ((2, 7, 89), True)])
def test_some_kernels(seeds: tuple[int, ...], branches: bool, done: list[Any]) -> None:
    """A few seeds, of kernels that compile in no time."""
    bad, compiled = compared(seeds, done, branches=branches)

    assert bad == []
    assert compiled > 1


@pytest.mark.long
@pytest.mark.parametrize("branches", [False, True])
def test_more_kernels(branches: bool, done: list[Any]) -> None:
    """Machine code takes part in most of them."""
    bad, compiled = compared(range(100, 150), done, branches=branches)

    assert bad == []
    assert compiled > 40


@pytest.mark.long
def test_undefined_bits_by_ctas(done: list[Any]) -> None:
    """Machine code leaves undefined bits with the CTA as the slowest axis, where the interpreter has it fastest."""
    bad, compiled = compared([92002468], done, branches=True)

    assert bad == []
    assert compiled == 1


@pytest.mark.sweep
@pytest.mark.parametrize("branches", [False, True])
@pytest.mark.parametrize("part", range(8))
def test_many_kernels(part: int, branches: bool, done: list[Any]) -> None:
    """As many as the environment says."""
    seeds = range(FIRST + part, FIRST + MANY, 8)
    bad, compiled = compared(seeds, done, branches=branches)

    assert bad == []
    assert compiled > 0.8 * len(seeds)

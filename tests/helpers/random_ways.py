"""Ways to run a random kernel, which must all leave, print, count and find what the interpreter does."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import os
import random
import re
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

import attrs
import numpy as np

import warpsim
from random_kernels import WORDS, Kernel
from state_equality import seen
from warpsim.checks.race.reports import UNCHANGED
from warpsim.debug import Session
from warpsim.machine import plan, waiting

WAYS = (
    *["at once"] * 5,
    *["in places"] * 5,
    "now and then",
    "by default",
    "session",
    "in parts",
    "late",
    "in waves",
    "profiled",
    "stepped",
)
"""Kernels take turns at them by their seeds."""

OPTIONS: dict[str, dict[str, Any]] = {
    "late": {"async_effects": "at_wait"},
    "in waves": {"batch_threads": 64},
    "profiled": {"profile": True},
}


def arrays(made: Kernel) -> tuple[Any, ...]:
    """What a launch is given."""
    given = np.random.default_rng(1).integers(0, 1 << 32, 4 * WORDS, dtype=np.uint64).astype(np.uint32)
    return given, np.zeros(WORDS, np.uint32), np.zeros(made.grid * made.block[0] * made.block[1], np.uint32)


def maps(made: Kernel, given: tuple[Any, ...]) -> tuple[warpsim.TensorMap, ...]:
    """Maps of the first two arrays, as squares, if the kernel takes any."""
    if made.maps is None:
        return ()
    box, swizzle = made.maps
    sides = [math.isqrt(array.size) for array in given[:2]]
    return tuple(
        warpsim.TensorMap(array, global_dim=(side, side), global_strides=(4 * side,), box_dim=box, swizzle=swizzle)
        for array, side in zip(given, sides, strict=False)
    )


def options(made: Kernel, engine: str) -> dict[str, Any]:
    """How it is launched."""
    cluster = (made.cluster,) if made.cluster else None
    most = made.most
    return {
        "engine": engine,
        "cluster": cluster,
        "checks": made.checks,
        "on_finding": "collect",
        "max_instructions": most,
    }


def outcome(made: Kernel, engine: str, **more: Any) -> dict[str, Any]:
    """What a launch leaves, prints, counts and finds, or how it ends."""
    given = arrays(made)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            launched = warpsim.load(made.text)["k"]
            result = launched((made.grid,), made.block, (*given, *maps(made, given)), **options(made, engine), **more)
            found: dict[str, Any] = {
                "findings": [str(f) for f in result.findings],
                "instructions": (result.instructions, result.thread_instructions, dict(result.opcodes)),
                "lines": [str((x.number, attrs.evolve(x.counts, seconds=0.0))) for x in result.profile.lines]
                if result.profile
                else [],
            }
        except warpsim.ExecutionError as problem:
            found = {"error": str(problem)}
    return found | {"printed": printed.getvalue(), "arrays": [a.tobytes() for a in given]}


class Follows(warpsim.Watcher):
    """Follows single steps and groups: then each step runs by itself, and branches are taken by groups."""

    def step_before(self, machine: Any, group: Any, instruction: Any) -> None:
        """Nothing."""

    def group_split(self, machine: Any, group: Any, parts: Any) -> None:
        """Nothing."""


def session(made: Kernel, engine: str, seed: int, *, stepped: bool = False) -> dict[str, Any]:
    """What a session sees at some steps (``stepped``: to which it goes one by one), and what it leaves; it runs past findings."""
    given, rng = arrays(made), random.Random(seed)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        launched = warpsim.load(made.text)["k"]
        one = Session(launched, (made.grid,), made.block, (*given, *maps(made, given)), **options(made, engine))
        one.stop_at_findings = False
        looks, places = [], [0, rng.randrange(500), rng.randrange(500)]
        for before, place in itertools.pairwise(places):
            for step in range(before, place) if stepped else ():
                one.goto(step)
            looks.append(str(one.goto(place)))
            looks.append(seen(one))
        end = one.cont()
    found = {"looks": looks, "end": str(end), "error": str(one.error), "findings": [str(f) for f in one.findings]}
    if one.error is None and one.result is not None:
        found["instructions"] = (one.result.instructions, dict(one.result.opcodes))
    return found | {"printed": printed.getvalue(), "arrays": [a.tobytes() for a in given]}


@contextlib.contextmanager
def there(chance: float, seed: int, *, always: bool) -> Iterator[None]:
    """Machine code is there with a chance: at some visits to a place, or ``always`` at some places."""
    from warpsim.native.tiering.engine import CompiledEngine

    rng, places, advance = random.Random(seed), {}, CompiledEngine.advance

    def sometimes(self: CompiledEngine, machine: Any, group: Any, *rest: Any) -> bool:
        place = (group.plan.function.name, group.block, group.at) if always else len(places)
        if place not in places:
            places[place] = rng.random() < chance
        return places[place] and advance(self, machine, group, *rest)

    with mock.patch.object(CompiledEngine, "advance", sometimes):
        yield


def _is_error(note: str, findings: list[str]) -> bool:
    """Whether a race that changes nothing in one CTA is an error in others: of CTAs that go together the error is told only."""
    place = note.split(" race: ")[0]
    return any(each.startswith(f"{place} race: ") and UNCHANGED not in each for each in findings)


def _told(findings: Iterable[str]) -> list[str]:
    """Findings of a launch in parts, without what depends on which CTAs go together."""
    met = [re.sub(r"\n +\d+ times here", "", each) for each in findings]
    return [each for each in met if UNCHANGED not in each or not _is_error(each, met)]


def _places(findings: list[str], parts: int) -> set[str]:
    """Where rules are broken: file, line and column; with four ``parts``, which ones."""
    return {":".join(each.split(":")[:parts]) for each in findings}


def differing(seed: int, way: str, made: Kernel) -> list[str]:
    """What differs between a way and the interpreter."""
    if way == "session":
        expected, found = (session(made, engine, seed) for engine in ("interpreter", "compiled"))
    elif way == "stepped":
        expected, found = session(made, "interpreter", seed), session(made, "compiled", seed, stepped=True)
        for one in (expected, found):  # but for the thread that is looked at, which goes its own way
            one["looks"] = one["looks"][1::2]
    elif way == "followed":
        with mock.patch.object(waiting, "LOOK_EVERY", 2), mock.patch.object(waiting, "PATIENCE", 4):
            expected = outcome(made, "interpreter", watchers=[Follows()])
            with mock.patch.object(plan, "OFTEN", 1):
                found = outcome(made, "interpreter")
    elif way in OPTIONS:
        expected = outcome(made, "interpreter", **OPTIONS[way])
        found = outcome(made, "compiled", **OPTIONS[way])
    elif way == "in parts":
        made = made if made.grid > 1 else attrs.evolve(made, grid=3)  # or there are none
        expected, found = outcome(made, "interpreter"), outcome(made, "compiled", workers=2)
        if "error" in expected:  # how far the other CTAs have come depends on which go together
            errors = [re.sub(r"\d+ (threads?) ", r"\1 ", str(one.get("error"))) for one in (expected, found)]
            return [] if errors[0] == errors[1] else ["error"]
        for one in (expected, found):  # as do how often each was met, and who prints first
            one["printed"] = sorted(one["printed"].split("\n"))
            one["findings"] = _told(one.get("findings", ()))
        whole, parts = expected["findings"], found["findings"]
        same = _places(whole, 4) <= _places(parts, 4) and _places(whole, 3) == _places(parts, 3)
        if whole != parts and same:  # and which of several faults is told there
            expected["findings"] = _told(outcome(made, "interpreter", workers=2).get("findings", ()))
    else:
        expected = outcome(made, "interpreter")
        if way == "by default":
            outcome(made, "compiled")
            with mock.patch.dict(os.environ):  # from the disk, where the launch before has left its code
                os.environ.pop("WARPSIM_COMPILE", None)
                found = outcome(made, "auto")
        elif way == "at once":
            found = outcome(made, "compiled")
        else:
            with there(0.4 if way == "in places" else 0.6, seed, always=way == "in places"):
                found = outcome(made, "compiled")
    return [name for name in sorted({*expected, *found}) if expected.get(name) != found.get(name)]

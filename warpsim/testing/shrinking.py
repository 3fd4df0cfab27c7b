"""Shrinks a failing launch to a smaller one that fails in the same way: first the grid, then the buffers, then the
instructions."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from warpsim.errors import LaunchError, WarpsimError
from warpsim.host.cases import Case, run_prepared
from warpsim.host.files import named
from warpsim.host.recipes import DTYPES
from warpsim.host.recording import FORMAT, write_case
from warpsim.numerics.arrays import Array
from warpsim.records import frozen
from warpsim.types import JsonObject
from warpsim.version import VERSION

SLOWER = 4.0
"""Time limit of a candidate, as a multiple of the case's own time (plus one second)."""


_IDLE = re.compile(r"\s*(//.*)?$")
_DEBUGGING = re.compile(r"\s*\.loc\b")
_FUNCTION = re.compile(r"^(?:\.(?:visible|weak) )*\.(?:entry|func)\b.*?^}", re.MULTILINE | re.DOTALL)
"""A function as compilers print it."""


@frozen
class Symptom:
    """How a case fails: the rules that it breaks and the instructions where it does, or the first wrong element."""

    rules: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    element: tuple[str, int, bytes] | None = None
    """The output's key, the element's byte offset, and its wrong bytes."""

    def __str__(self) -> str:
        if self.element is not None:
            return f"a wrong element of {self.element[0]}"
        return ", ".join(sorted(self.rules))


def symptom_of(
    case: Case, expected: Array | None = None, at: tuple[str, int] | None = None, **options: object
) -> Symptom | None:
    """How a case fails; None if it does not. With ``at``, only that element is compared, with ``expected``."""
    ready = case.prepare()
    kept: dict[str, Array] = {}
    result = run_prepared(ready, keep=kept, on_finding="collect", **options)
    errors = [f for f in result.findings if f.severity == "error"]
    if errors:
        return Symptom(frozenset(f.rule for f in errors), frozenset(f.text.strip() for f in errors))
    if at is not None and expected is not None:
        key, place = at
        got = kept[key].reshape(-1).view(np.uint8)[place : place + expected.size]
        return None if got.tobytes() == expected.tobytes() else Symptom(element=(key, place, got.tobytes()))
    for comparison, described in zip(
        ready.comparisons(), [b for b in case.description["buffers"] if b.get("out")], strict=False
    ):
        if comparison.wrong.any():
            size = comparison.expected.dtype.itemsize
            place = int(np.flatnonzero(comparison.wrong.reshape(-1))[0]) * size
            raw = comparison.got.reshape(-1).view(np.uint8)[place : place + size]
            return Symptom(element=(described["out"], place, raw.tobytes()))
    return None


class Shrinker:
    """A failing case that shrinks as long as it fails in the same way."""

    def __init__(self, case: Case, seconds: float, said: Callable[[str], object], **options: Any) -> None:
        self.case, self.options, self.said = case, options, said
        self.deadline = time.monotonic() + seconds
        started = time.monotonic()
        found = symptom_of(case, **options)
        if found is None:
            raise LaunchError(f"{case.path} does not fail, so there is nothing to shrink")
        self.symptom: Symptom = found
        self.options["max_seconds"] = SLOWER * (time.monotonic() - started) + 1
        self.expected: Array | None = None
        self.at: tuple[str, int] | None = None
        if found.element is not None:
            key, place, raw = found.element
            self.at = key, place
            self.expected = case.data[key].reshape(-1).view(np.uint8)[place : place + len(raw)].copy()
        self.tries = 0

    def fails(self, candidate: Case) -> bool:
        """Whether a candidate fails in the same way."""
        self.tries += 1
        try:
            found = symptom_of(candidate, self.expected, self.at, **self.options)
        except WarpsimError:
            return False
        if found is None:
            return False
        if self.symptom.element is not None:
            return found.element == self.symptom.element
        return bool(found.rules) and found.rules <= self.symptom.rules and found.texts <= self.symptom.texts

    def keep(self, **changes: Any) -> bool:
        """Change parts of the case if it then fails in the same way; ``text`` is its PTX."""
        if "text" in changes:
            changes["source"] = changes.pop("text"), self.case.source[1]
        candidate = attrs.evolve(self.case, stdout=None, **changes)
        if time.monotonic() > self.deadline or not self.fails(candidate):
            return False
        self.case = candidate
        return True

    # ---- the grid ----------------------------------------------------------------------------

    def grid(self) -> None:
        """Try fewer CTAs, and fewer threads per CTA."""
        for what in ("grid", "block"):
            for axis in range(2, -1, -1):
                for smaller in _smaller(self.case.description[what], axis, self.case.description.get("cluster")):
                    if self.keep(description={**self.case.description, what: smaller}):
                        self.said(f"{what} {smaller}")
                        break

    # ---- the buffers -------------------------------------------------------------------------

    def buffers(self) -> None:
        """Try zeros in place of a buffer's content, and shorter buffers."""
        for index in range(len(self.case.description["buffers"])):
            if not self._change(
                index, lambda b: {**b, "in": None, "recipe": None} if b.get("in") or b.get("recipe") else None
            ):
                for _ in range(12):
                    if not self._change(index, _halved):
                        break
            else:
                while self._change(index, _halved):
                    pass

    def _change(self, index: int, change: Callable[[JsonObject], JsonObject | None]) -> bool:
        case = self.case
        changed = change(case.description["buffers"][index])
        if changed is None:
            return False
        changed = {key: value for key, value in changed.items() if not (key == "recipe" and value is None)}
        data = dict(case.data)
        for side in ("in", "out"):
            key = changed.get(side)
            if key and key in data:
                data[key] = np.ascontiguousarray(data[key]).reshape(-1).view(np.uint8)[: changed["nbytes"]]
                dtype = DTYPES[changed["dtype"]]
                data[key] = data[key].view(dtype).reshape(changed["shape"])
        buffers = [changed if i == index else b for i, b in enumerate(case.description["buffers"])]
        if self.at is not None and changed.get("out") == self.at[0] and self.at[1] >= changed["nbytes"]:
            return False
        kept = self.keep(description={**case.description, "buffers": buffers}, data=data)
        if kept:
            self.said(
                f"buffer {changed['name']}: {changed['nbytes']} bytes{'' if changed.get('in') or changed.get('recipe') else ', zeros'}"
            )
        return kept

    # ---- the instructions --------------------------------------------------------------------

    def instructions(self) -> None:
        """Try fewer lines of PTX: remove the other functions, then runs of lines, long ones first."""
        self._functions()
        lines = self._without(_IDLE, _DEBUGGING)
        size = max(len(lines) // 2, 1)
        while size >= 1 and time.monotonic() < self.deadline:
            at = 0
            while at < len(lines) and time.monotonic() < self.deadline:
                shorter = lines[:at] + lines[at + size :]
                if len(shorter) < len(lines) and self.keep(text="\n".join(shorter)):
                    lines = shorter
                else:
                    at += size
            size = size // 2
        self.said(f"{len(lines)} lines of PTX")

    def _functions(self) -> None:
        """Remove all functions that are not launched at once, or else each by itself."""
        launched = re.compile(rf"\b{re.escape(self.case.description['entry'])}\s*\(")
        others = [f for f in _FUNCTION.findall(self.case.source[0]) if not launched.search(f.partition("{")[0])]
        for some in ([others], [[other] for other in others]):
            for group in some:
                text = self.case.source[0]
                for function in group:
                    text = text.replace(function, "")
                if text != self.case.source[0]:
                    self.keep(text=text)

    def _without(self, *kinds: re.Pattern[str]) -> list[str]:
        """The lines of PTX without those of some kinds; each kind is removed as a whole."""
        for kind in kinds:
            shorter = [line for line in self.case.source[0].split("\n") if not kind.match(line)]
            self.keep(text="\n".join(shorter))
        return self.case.source[0].split("\n")

    # ---- the result --------------------------------------------------------------------------

    def write(self, directory: str | os.PathLike[str]) -> Path:
        """Write the case. If an element is wrong, everything else is recorded as the simulator computes it."""
        description, data = dict(self.case.description), dict(self.case.data)
        description["name"] = named(directory).name
        description["note"] = f"shrunk: {self.symptom}"
        description["format"] = FORMAT
        description.pop("hardware", None)
        description["simulated"] = {"warpsim": VERSION, "device": self.case.target}
        if self.at is None or self.expected is None:
            description["buffers"] = [{**b, "out": None} for b in description["buffers"]]
            description["check"] = {}
        else:
            kept: dict[str, Array] = {}
            run_prepared(self.case.prepare(), keep=kept, on_finding="collect", **self.options)
            for key, values in kept.items():
                data[key] = (
                    values.reshape(-1).view(np.uint8)[: data[key].nbytes].view(data[key].dtype).reshape(data[key].shape)
                )
            raw = data[self.at[0]].reshape(-1).view(np.uint8)
            raw[self.at[1] : self.at[1] + self.expected.size] = self.expected
        used = {
            b.get(side) for b in [*description["buffers"], *description.get("globals", [])] for side in ("in", "out")
        }
        data = {key: values for key, values in data.items() if key in used}
        options = {
            k: v for k, v in self.options.items() if k in ("checks", "async_effects", "schedule") and v is not None
        }
        if options:
            description["options"] = {**description.get("options", {}), **options}
        return write_case(directory, description, data, self.case.source[0])


def _smaller(extents: list[int], axis: int, cluster: list[int] | None) -> Iterator[list[int]]:
    """Smaller extents along an axis, smallest first."""
    known = [*extents, 1, 1][:3]
    least = cluster[axis] if cluster and axis < len(cluster) else 1
    value = least
    while value < known[axis]:
        yield [*known[:axis], value, *known[axis + 1 :]]
        value *= 2


def _halved(buffer: JsonObject) -> JsonObject | None:
    count = buffer["nbytes"] // DTYPES[buffer["dtype"]].itemsize
    if count < 2 or buffer.get("content") or buffer.get("recipe"):
        return None
    kept = count // 2
    return {**buffer, "shape": [kept], "nbytes": kept * DTYPES[buffer["dtype"]].itemsize}


def shrink(
    case: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    seconds: float = 60.0,
    said: Callable[[str], object] = lambda text: None,
    **options: object,
) -> Path:
    """Write a smaller case that fails in the same way.

    It breaks the same rules at the same instructions, or has the same wrong bits in the first wrong element.

    Args:
        case: a recorded launch that fails.
        directory: where to write the smaller case.
        seconds: how long to try.
        said: called with a line of text about each step.
        options: options of the launch, for example ``checks="all"``.

    Raises:
        LaunchError: the case does not fail.
    """
    shrinker = Shrinker(Case.read(case), seconds, said, **options)
    said(f"it fails: {shrinker.symptom}")
    shrinker.grid()
    shrinker.buffers()
    shrinker.instructions()
    shrinker.grid()
    shrinker.buffers()
    said(f"{shrinker.tries} launches tried")
    return shrinker.write(directory)

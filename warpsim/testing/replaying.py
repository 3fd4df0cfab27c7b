"""Runs a recorded launch as a test; a failure says what is wrong, where to look and what to do next."""

from __future__ import annotations

import contextlib
import os
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from warpsim.errors import Finding, WarpsimError, describe
from warpsim.host.cases import Case, CaseResult, Prepared, counting, run_prepared
from warpsim.host.comparing import Comparison
from warpsim.testing.differences import explain, index_text
from warpsim.testing.writers import Writers, sentence

TRACED = 3
"""Number of wrong elements whose store is traced."""


def failure_of(case: str | os.PathLike[str], *, bits: bool = False, **options: Any) -> str | None:
    """Replay a case; returns a full description of what is wrong, or None.

    Findings of severity error count even if the outputs are right.
    """
    found = Case.read(shown_path(Path(case)))  # findings name the file as whoever reads them would
    device, numerics = options.pop("device", None), options.pop("numerics", None)
    options.setdefault("on_finding", "collect")
    ready = found.prepare(device=device, numerics=numerics)
    result = run_prepared(ready, **options)
    if result.ok and (result.bits_equal or not bits):
        return None
    errors = counting(found.description, result.findings)
    compared = [] if result.error is not None and not result.outputs else ready.comparisons()
    wrong = [Comparison(c.name, c.got, c.expected, None if bits else c.check) for c in compared]
    return report(ready, result, errors, [c for c in wrong if c.wrong.any()], device, numerics, options)


def report(
    ready: Prepared,
    result: CaseResult,
    errors: list[Finding],
    wrong: list[Comparison],
    device: str | None,
    numerics: str | None,
    options: dict[str, Any],
) -> str:
    """The message of a failed case."""
    path = ready.case.path
    lines = [f"{shown_path(path)}: {_summary(result, errors, wrong)}"]
    if result.error is not None and not errors:
        lines += ["", result.error]
    for finding in errors:
        times = f" ({finding.count:,} times)" if finding.count > 1 else ""
        lines += ["", f"{finding.severity}{times}: {describe(finding)}"]
    stores: list[Finding] = []
    for comparison in wrong:
        lines += ["", *explain(comparison)]
        traced, found = _writers(ready, comparison, device, numerics, options)
        lines += traced
        stores += found
    stop = f"break {_place(stores[0], ready)}" if stores and not errors and result.error is None else None
    given = {**options, "device": device, "numerics": numerics}
    lines += ["", f"next: {_command(path, stop, given)}"]
    return "\n".join(lines)


def _summary(result: CaseResult, errors: list[Finding], wrong: list[Comparison]) -> str:
    said = []
    if wrong:
        said.append(
            f"{', '.join(c.name for c in wrong)} {'differs' if len(wrong) == 1 else 'differ'} from the recording"
        )
    if errors:
        rules = ", ".join(dict.fromkeys(f.rule for f in errors))
        said.append(f"it breaks {rules}{'' if len(errors) == 1 else f' at {len(errors)} places'}")
    if result.error is not None and not errors:
        said.append("it failed")
    return "; ".join(said) or "the launch differs from the recording"


def _writers(
    ready: Prepared, comparison: Comparison, device: str | None, numerics: str | None, options: dict[str, Any]
) -> tuple[list[str], list[Finding]]:
    """Find who wrote the first wrong elements, in a second run; returns a description and the stores."""
    if comparison.name not in ready.buffers or comparison.check.get("mode") == "set":
        return [], []
    again = ready.case.prepare(device=device, numerics=numerics)
    size = comparison.expected.dtype.itemsize
    places = [tuple(int(i) for i in at) for at in np.argwhere(comparison.wrong)[:TRACED]]
    base = again.buffers[comparison.name].ptr
    flat = [int(np.ravel_multi_index(p, comparison.expected.shape)) if p else 0 for p in places]
    watcher = Writers([(base + n * size, size) for n in flat])
    given = {**options, "watchers": [*options.get("watchers", ()), watcher]}
    with contextlib.suppress(WarpsimError):  # the findings are already in the message
        again.launch(**given)
    lines: list[str] = []
    for place, writer in zip(places, watcher.found, strict=True):
        lines += sentence(f"{comparison.name}{index_text(place)}", writer)
    return lines, [w.last for w in watcher.found if w.last is not None]


def _place(store: Finding, ready: Prepared) -> str:
    """The debugger's words for a store by its first lane."""
    assert store.cta is not None
    assert store.warp is not None
    wide, tall, _ = ready.block
    thread = store.warp * 32 + store.lanes[0]
    ids = {
        "ctaid": (store.cta, ready.grid),
        "tid": ((thread % wide, thread // wide % tall, thread // (wide * tall)), ready.block),
    }
    wanted = [
        f"%{name}.{axis} == {value}"
        for name, (place, extents) in ids.items()
        for axis, value, extent in zip("xyz", place, extents, strict=True)
        if extent > 1
    ]
    return f"{store.line} if {' && '.join(wanted)}" if wanted else str(store.line)


def _command(path: Path, stop: str | None, options: dict[str, Any]) -> str:
    """A debugger command that stops where things went wrong: at a finding it does so by itself."""
    words = ["warpsim", "debug", "replay", shown_path(path)]
    for name in ("checks", "async_effects", "schedule", "device", "numerics"):
        value = options.get(name)
        if isinstance(value, str | int) and value != "eager":
            words += [f"--{name.replace('_', '-')}", str(value)]
    words += [word for command in (stop, "continue") if command for word in ("-ex", command)]
    return shlex.join(words)


def shown_path(path: Path) -> str:
    """The shortest form of a path from here."""
    try:
        return os.path.relpath(path) if len(os.path.relpath(path)) < len(str(path)) else str(path)
    except ValueError:  # another drive
        return str(path)

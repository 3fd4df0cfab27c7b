"""Findings as plain data and as SARIF 2.1.0, the format of code scanning services; one sentence per rule."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import attrs

from warpsim.errors import Finding, describe, where

RULES = {
    # module text
    "unreadable": "A file is missing or contains no PTX.",
    "syntax": "The text is not PTX.",
    "undeclared": "A register, label, variable or function is not declared.",
    "redeclared": "A name is declared twice in one scope.",
    "operand-type": "An operand's class, type or size does not fit the instruction.",
    "operand-count": "An instruction has too many or too few operands, or vector elements.",
    "illegal-form": "No target supports this combination of modifiers.",
    "target": "The instruction is legal, but not on the module's .target or in its .version.",
    "immediate-range": "A constant operand is out of range.",
    "directive": "A directive is misused.",
    "initialiser": "An initial value does not fit its variable.",
    "linkage": "A symbol is used but not defined.",
    "unsupported": "Legal PTX that this version does not run.",
    "internal": "A defect of warpsim itself.",
    # warps and barriers
    "aligned-divergence": "An aligned instruction is not executed by all threads of its warp or warpgroup.",
    "exited-lane": "A warp executes a matrix instruction after some of its lanes have exited.",
    "nonuniform-operand": "An operand differs between threads that must agree on it.",
    "membermask": "A membermask omits a lane that executes the instruction, or names one that never arrives.",
    "barrier-divergence": "The thread counts of a barrier cannot add up.",
    "setmaxnreg": "setmaxnreg has an invalid count, or is not executed by a whole warpgroup.",
    "deadlock": "No thread can make progress.",
    # matrix operands
    "wmma-stride": "A wmma stride is below the leading dimension.",
    "wmma-alignment": "A wmma address or stride is not aligned.",
    "matrix-address-space": "A matrix instruction's address is outside the state space that it needs.",
    "matrix-alignment": "A matrix row or start address is not aligned.",
    "fragment-mismatch": "Registers hold a wmma fragment that does not match the operand.",
    "sparse-metadata": "Sparsity metadata names the wrong elements.",
    "sparse-selector": "A sparsity selector does not fit the shape.",
    "scale-selector": "A scale selector does not fit the shape.",
    "descriptor": "A matrix descriptor contradicts itself or leaves shared memory.",
    # asynchronous operations
    "wgmma-missing-fence": "wgmma reads registers that were written with no wgmma.fence in between.",
    "wgmma-in-flight": "Registers of a wgmma in flight are accessed before it is waited for.",
    "wgmma-uncommitted": "The code relies on a wgmma that was never committed.",
    "proxy-fence": "Memory is accessed through the generic and the async proxy with no proxy fence in between.",
    "async-smem-overwrite": "Shared memory is written while an asynchronous operation still reads it.",
    "async-read-early": "The destination of an asynchronous copy is accessed before the copy is waited for.",
    "mbarrier": "An mbarrier is used before it is initialised, initialised twice, or counts beyond its limits.",
    "tensor-map": "A tensor map, its coordinates or its box are malformed.",
    # memory
    "out-of-bounds": "An access lies outside any live allocation.",
    "misaligned": "An address is not a multiple of the access size.",
    "read-only": "A store targets read-only memory.",
    "uninitialised": "A value that was never written affects the result.",
    "race": "Two threads access the same byte, one of them writes, and nothing orders the two.",
    "limit": "A limit on instructions, time, memory or call depth is exceeded.",
    "trap": "The kernel executed trap.",
    "assert": "An assertion of the kernel failed.",
}


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MANUAL = "https://docs.nvidia.com/cuda/parallel-thread-execution/"


def finding_record(finding: Finding) -> dict[str, Any]:
    """Convert a finding to plain data, for JSON."""
    record: dict[str, Any] = attrs.asdict(finding, recurse=False)
    record["other"] = finding_record(finding.other) if finding.other else None
    record["values"] = {k: _plain(v) for k, v in finding.values.items()}
    return record


def _plain(value: object) -> Any:
    """Convert a value to JSON's types: no infinities, nothing from NumPy."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if isinstance(value, int | str | None) else str(value)


def sarif(findings: Iterable[Finding], version: str = "") -> dict[str, Any]:
    """Convert findings to a SARIF log, as plain data.

    A finding's location is its CUDA line if `.loc` gives one; the PTX line, the calls that it is inlined at and
    the conflicting access are related locations.
    """
    found = list(findings)
    names = sorted({finding.rule for finding in found})
    driver: dict[str, Any] = {
        "name": "warpsim",
        "rules": [{"id": name, "shortDescription": {"text": RULES.get(name, name)}} for name in names],
        **({"semanticVersion": version} if version else {}),
    }
    results = [_result(finding, names.index(finding.rule)) for finding in found]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    text = [f"{finding.message}.", *([f"{where(finding)}."] if where(finding) else []), finding.advice]
    places = [_place(finding, "the PTX line")]
    if finding.source is not None:
        places.insert(0, _cuda(finding, finding.source, ""))
    places += [_cuda(finding, call, "inlined at") for call in finding.inlined_at]
    if finding.other is not None:
        places.append(_place(finding.other, finding.other.message))
        if finding.other.source is not None:
            places.append(_cuda(finding.other, finding.other.source, finding.other.message))
    key = f"{finding.rule}\0{finding.kernel}\0{finding.source or (finding.file, finding.line)}\0{finding.text.strip()}"
    properties = {
        "kernel": finding.kernel,
        "instruction": finding.instruction,
        "cta": list(finding.cta) if finding.cta else None,
        "warp": finding.warp,
        "lanes": list(finding.lanes),
        "values": {k: _plain(v) for k, v in finding.values.items()},
        "section": MANUAL + "#" + finding.section if finding.section else None,
        "text": describe(finding),
    }
    first, *related = places
    first.pop("message", None)
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.severity if finding.severity in ("error", "warning", "note") else "none",
        "message": {"text": " ".join(part for part in text if part)},
        "locations": [first],
        "relatedLocations": [{"id": number, **place} for number, place in enumerate(related, 1)],
        "occurrenceCount": finding.count,
        "partialFingerprints": {"warpsim/v1": hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()},
        "properties": {name: value for name, value in properties.items() if value is not None},
    }


def _place(finding: Finding, message: str) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": max(finding.line, 1), "startColumn": max(finding.column, 1)}
    if finding.text:
        region["snippet"] = {"text": finding.text}
    return {
        "physicalLocation": {"artifactLocation": {"uri": _uri(finding.file)}, "region": region},
        "message": {"text": message or "the PTX line"},
    }


def _cuda(finding: Finding, source: tuple[str, int], message: str) -> dict[str, Any]:
    file, line = source
    beside = os.path.join(os.path.dirname(finding.file), file)
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(beside if os.path.isfile(beside) else file)},
            "region": {"startLine": max(line, 1)},
        },
        "message": {"text": message or "the CUDA line"},
    }


def _uri(file: str) -> str:
    """A file's URI: relative if it lies below the working directory, as in a checkout."""
    if os.path.isabs(file):
        path = Path(file)
        try:
            return quote(path.relative_to(Path.cwd()).as_posix())
        except ValueError:
            return path.as_uri()
    return quote(file.replace(os.sep, "/"))

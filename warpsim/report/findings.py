"""Findings as plain data and as SARIF 2.1.0, the format of code scanning services."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

import attrs

from warpsim.errors import Finding, describe, where
from warpsim.report.rules import RULES
from warpsim.types import JsonObject

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MANUAL = "https://docs.nvidia.com/cuda/parallel-thread-execution/"


def finding_record(finding: Finding) -> JsonObject:
    """Convert a finding to plain data, for JSON."""
    record: JsonObject = attrs.asdict(finding, recurse=False)
    record["other"] = finding_record(finding.other) if finding.other else None
    record["values"] = {k: _plain(v) for k, v in finding.values.items()}
    return record


def _plain(value: object) -> object:
    """Convert a value to JSON's types: no infinities, nothing from NumPy."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if isinstance(value, int | str | None) else str(value)


def sarif(findings: Iterable[Finding], version: str = "") -> JsonObject:
    """Convert findings to a SARIF log, as plain data.

    A finding's location is its CUDA line if `.loc` gives one; the PTX line, the calls that it is inlined at and
    the conflicting access are related locations.
    """
    found = list(findings)
    names = sorted({finding.rule for finding in found})
    driver: JsonObject = {
        "name": "warpsim",
        "rules": [
            {"id": name, "shortDescription": {"text": RULES[name].sentence if name in RULES else name}}
            for name in names
        ],
        **({"semanticVersion": version} if version else {}),
    }
    results = [_result(finding, names.index(finding.rule)) for finding in found]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    }


def _result(finding: Finding, index: int) -> JsonObject:
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
    import hashlib

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


def _place(finding: Finding, message: str) -> JsonObject:
    region: JsonObject = {"startLine": max(finding.line, 1), "startColumn": max(finding.column, 1)}
    if finding.text:
        region["snippet"] = {"text": finding.text}
    return {
        "physicalLocation": {"artifactLocation": {"uri": _uri(finding.file)}, "region": region},
        "message": {"text": message or "the PTX line"},
    }


def _cuda(finding: Finding, source: tuple[str, int], message: str) -> JsonObject:
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

"""Findings as plain data and as SARIF 2.1.0, the format of code scanning services."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

import attrs

from warpsim.errors import Finding, describe, source_lines, where
from warpsim.report.rules import RULES, page_of
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
    import hashlib  # OpenSSL, which it loads, takes 6 ms

    names = sorted({finding.rule for finding in found})
    driver: JsonObject = {
        "name": "warpsim",
        "rules": [_rule(name) for name in names],
        **({"semanticVersion": version} if version else {}),
    }
    results = [_result(finding, names.index(finding.rule)) for finding in found]
    seen: Counter[str] = Counter()
    for finding, result in zip(found, results, strict=True):
        key = _key(finding)
        text = f"{key}\0{seen[key]}".encode("utf-8", "replace")
        result["partialFingerprints"] = {"warpsim/v2": hashlib.sha256(text).hexdigest()}
        seen[key] += 1
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    }


def _rule(name: str) -> JsonObject:
    sentence, page = RULES[name].sentence if name in RULES else name, page_of(name)
    rule: JsonObject = {"id": name, "name": name, "shortDescription": {"text": sentence}}
    if page:
        said = f"{sentence} A faulty and a mended program: "
        rule["helpUri"] = page
        rule["help"] = {"text": f"{said}{page}", "markdown": f"{said}[{name}]({page})"}
    return rule


def _key(finding: Finding) -> str:
    """What stays of a finding when lines move: its rule, its kernel, and the text of its lines."""
    source = finding.source
    lines = [] if source is None else source_lines(source[0], finding.file)
    cuda = lines[source[1] - 1].strip() if source is not None and 0 < source[1] <= len(lines) else ""
    file = _uri(finding.file) if source is None else source[0]
    return "\0".join(map(str, (finding.rule, finding.kernel, file, cuda, finding.text.strip())))


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

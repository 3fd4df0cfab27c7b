"""Prints the results of launches and recorded cases, and determines the exit status."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np

from warpsim.cli.launching import Launched
from warpsim.cli.outcome import document, end
from warpsim.errors import Finding, WarpsimError, plural
from warpsim.host.cases import CaseResult
from warpsim.host.files import Target
from warpsim.report.findings import finding_record, sarif
from warpsim.report.profile import Profile
from warpsim.version import VERSION


def print_findings(findings: tuple[Finding, ...]) -> None:
    """Print findings to standard error."""
    for finding in findings:
        print(f"{finding.severity}: {finding}", file=sys.stderr)


def show_profile(profile: Profile | None, options: Namespace) -> None:
    """Print a profile, or write it to a file."""
    if profile is None:
        return
    if options.profile_to:
        text = (
            profile.html() if options.profile_to.endswith((".html", ".htm")) else json.dumps(profile.record(), indent=1)
        )
        Target(options.profile_to).write(lambda stream: stream.write(text.encode()))
    if options.profile and not options.json:
        print(profile)


def write_sarif(path: str | None, findings: Iterable[Finding]) -> None:
    """Write the findings as SARIF, if a file was given."""
    if path:
        text = json.dumps(sarif(findings, VERSION), indent=1)
        Target(path).write(lambda stream: stream.write(text.encode()))


def report_cases(results: list[CaseResult], options: Namespace, *, interrupted: bool = False) -> int:
    """Print the JSON document of some cases, if requested; returns the status."""
    if options.json:
        document({"cases": [_case_json(r) for r in results], **({"error": "interrupted"} if interrupted else {})})
    if interrupted:
        return end("interrupted", 130, as_json=False)
    good = all(r.bits_equal if options.bits else r.ok for r in results)
    if options.checks:
        good = good and not any(
            f.severity == "error" and f.rule not in ("assert", "trap") for r in results for f in r.findings
        )
    return 0 if good else 1


def _case_json(result: CaseResult) -> dict[str, Any]:
    record: dict[str, Any] = attrs.asdict(
        result, recurse=True, filter=lambda field, value: field.name not in ("profile", "fidelity")
    )
    record["fidelity"] = [form.plain() for form in result.fidelity]
    if result.profile is not None:
        record["profile"] = result.profile.record()
    record["findings"] = [finding_record(f) for f in result.findings]
    return record


def print_case(result: CaseResult, *, bits: bool) -> None:
    """Print the result of a case."""
    good = result.bits_equal if bits else result.ok
    sys.stdout.write(result.stdout)
    print(
        f"{result.case}: {'equal in every bit' if result.bits_equal else 'within tolerance' if good else 'FAILED'}, {plural(result.instructions, 'warp-instruction')} in {result.seconds:.2f} s"
    )
    if result.error:
        print(result.error)
    for output in result.outputs:
        if output.differing:
            first = output.first or {}
            ulps = "" if output.max_ulp is None else f", up to {plural(output.max_ulp, 'ulp')}"
            print(
                f"  {output.buffer}: {plural(output.differing, 'element')} differ{'s' if output.differing == 1 else ''}{ulps}; first at {first.get('index')}: got {first.get('got')}, recorded {first.get('expected')}"
            )
    if not result.error:
        print_findings(result.findings)


def report_launch(launch: Launched, *, as_json: bool) -> int:
    """Print the result of a launch; returns the status."""
    result = launch.result
    if as_json:
        record = attrs.asdict(result, recurse=False)
        record["fidelity"] = [form.plain() for form in result.fidelity]
        record["profile"] = result.profile.record() if result.profile else None
        if launch.timing is not None:
            record["timing"] = launch.timing.record()
        record["findings"] = [finding_record(f) for f in result.findings]
        document({**record, **({"error": "; ".join(launch.unsaved)} if launch.unsaved else {})})
    else:
        print(
            f"{plural(result.instructions, 'warp-instruction')}, {plural(result.thread_instructions, 'thread-instruction')} in {result.seconds:.3f} s"
        )
        for number, argument in enumerate(launch.arguments):
            value, target = argument.value, f" -> {argument.path}" if argument.path else ""
            if isinstance(value, np.ndarray):
                shown = np.array2string(value.reshape(-1)[:6], threshold=6)
                print(f"  argument {number}: {value.dtype} {value.shape} {shown}{target}")
        if launch.timing is not None:
            print(launch.timing)
        print_findings(result.findings)
    if launch.unsaved:
        return end("; ".join(launch.unsaved), 2, as_json=False)
    return int(any(f.severity == "error" for f in result.findings))


def failed(problem: WarpsimError, *, as_json: bool) -> int:
    """Report a faulty module or launch; returns status 1."""
    if as_json:
        document({"error": str(problem), "findings": [finding_record(f) for f in problem.findings]})
    else:
        print(problem, file=sys.stderr)
    return 1

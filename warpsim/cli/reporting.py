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
from warpsim.cli.output import document, end
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


def report_cases(results: list[CaseResult], options: Namespace, *, error: str | None = None) -> int:
    """Print the JSON document of some cases, if requested, with what kept others from running; returns the status."""
    if options.json:
        document({"cases": [_case_json(r) for r in results], **({} if error is None else {"error": error})})
    return 0 if all(_good(r, bits=options.bits) for r in results) else 1


def _good(result: CaseResult, *, bits: bool) -> bool:
    return result.ok and (result.bits_equal or not bits)


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
    broken = sum(f.severity == "error" for f in result.findings)
    same = "equal in every bit" if result.bits_equal else "within tolerance"
    verdict = "FAILED" if not _good(result, bits=bits) else "fails as recorded" if broken else same
    sys.stdout.write(result.stdout)
    print(f"{result.case}: {verdict}, {plural(result.instructions, 'warp-instruction')} in {result.seconds:.2f} s")
    if result.error:
        print(result.error)
    for output in result.outputs:
        if output.differing:
            first = output.first or {}
            ulps = "" if output.max_ulp is None else f", up to {plural(output.max_ulp, 'ulp')}"
            print(
                f"  {output.buffer}: {plural(output.differing, 'element')} differ{'s' if output.differing == 1 else ''}{ulps}; first at {first.get('index')}: got {first.get('got')}, recorded {first.get('expected')}"
            )
    if broken and not (result.ok or result.error):
        also = f"; outputs {same}" if all(output.ok for output in result.outputs) else ""
        print(f"  {plural(broken, 'finding')} of severity error{also}")
    print_findings(tuple([f for f in result.findings if f.headline() not in (result.error or "")]))


def report_launch(launch: Launched, problems: Iterable[str] = (), *, as_json: bool) -> int:
    """Print the result of a launch, with the problems beside it; returns the status."""
    result, error = launch.result, "; ".join([*problems, *launch.unsaved])
    if as_json:
        record = attrs.asdict(result, recurse=False)
        record["fidelity"] = [form.plain() for form in result.fidelity]
        record["profile"] = result.profile.record() if result.profile else None
        if launch.timing is not None:
            record["timing"] = launch.timing.record()
        record["findings"] = [finding_record(f) for f in result.findings]
        document({**record, **({"error": error} if error else {})})
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
    if error:
        return end(error, 2, as_json=False)
    return int(any(f.severity == "error" for f in result.findings))


def failed(problem: WarpsimError, *, as_json: bool) -> int:
    """Report a faulty module or launch; returns status 1."""
    if as_json:
        document({"error": str(problem), "findings": [finding_record(f) for f in problem.findings]})
    else:
        print(problem, file=sys.stderr)
    return 1

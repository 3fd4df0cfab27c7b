"""The commands run, replay and trace: run what the command line describes, print the results, determine the exit status."""

from __future__ import annotations

import json
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from warpsim.cli.arguments import dims
from warpsim.cli.grammar import debug_words
from warpsim.cli.launching import PROGRESS, Launched, find_case, launch_from, launch_options, results_of
from warpsim.cli.output import Unusable, document, end
from warpsim.errors import ExecutionError, Finding, PtxError, plural
from warpsim.host.cases import CaseResult, run_case
from warpsim.host.files import Target
from warpsim.host.kernel import LaunchResult
from warpsim.host.options import resolve_checks
from warpsim.machine.fidelity import Badge, Executed, shown
from warpsim.report.findings import finding_record, sarif
from warpsim.types import JsonObject
from warpsim.version import VERSION

if TYPE_CHECKING:
    from warpsim.trace import Tracer

Launch = Callable[..., LaunchResult]


def run_one(options: Namespace, launch: Launch, problems: Sequence[str] = ()) -> int:
    """Run what follows ``trace run`` or ``debug replay``, with ``launch`` in place of the kernel's call, and report it
    with the problems that came up; returns the status."""
    if options.kind == "run":
        launched = launch_from(options, launch)
        show_reports(launched.result, options)
        return report_launch(launched, problems, as_json=options.json)
    path = find_case(options.case[0])
    result = run_case(path, launch=launch, **_case_options(options))
    if not options.json:
        print_case(result, bits=options.bits)
    show_reports(result, options)
    status = report_cases([result], options, error="; ".join(problems) or None)
    return end("; ".join(problems), 2, as_json=False) if problems else status


def _case_options(options: Namespace) -> JsonObject:
    return {"device": options.device, "numerics": options.numerics, **launch_options(options)}


def command_run(options: Namespace) -> int:
    """Run a kernel."""
    try:
        launch = launch_from(options)
    except ExecutionError as problem:
        write_sarif(options.sarif, problem.findings)
        if options.debug_on_finding:
            print(f"error: {problem}", file=sys.stderr)
            options.then = _at_finding(options, problem.findings)
            return 1
        say = "" if options.json else _debug_this(options, problem.findings)
        raise ExecutionError("\n".join(filter(None, [str(problem), say])), problem.findings) from None
    except PtxError as problem:
        write_sarif(options.sarif, problem.findings)
        raise
    write_sarif(options.sarif, launch.result.findings)
    show_reports(launch.result, options)
    status = report_launch(launch, as_json=options.json)
    if options.fidelity and not options.json:
        print_fidelity(launch.result.fidelity, whole=True)
    if launch.result.findings and options.debug_on_finding:
        options.then = _at_finding(options, launch.result.findings)
    elif launch.result.findings and not options.json:
        print(_debug_this(options, launch.result.findings), file=sys.stderr)
    if not (options.json or launch.result.findings or "race" in resolve_checks(options.checks)):
        print("  no findings; add --checks default+race to check for races")
    return status


def command_replay(options: Namespace) -> int:
    """Run recorded launches and compare their outputs."""
    if options.profile_to and len(options.case) > 1:
        raise Unusable("--profile-to needs a single case; replay it alone, or use --json")
    results: list[CaseResult] = []
    unusable: list[str] = []
    interrupted = False
    try:
        for name, (result, usable) in zip(options.case, results_of(options.case, _case_options(options)), strict=False):
            PROGRESS.erase()
            results.append(result)
            if not usable:
                unusable.append(str(result.error))
                end(unusable[-1], 2, as_json=False)
            elif not options.json:
                print_case(result, bits=options.bits)
                if options.fidelity or _good(result, bits=options.bits):
                    print_fidelity(result.fidelity, whole=options.fidelity)
                if result.findings:
                    print(_debug_this(options, result.findings, name), file=sys.stderr)
            show_reports(result, options)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        PROGRESS.erase()
    write_sarif(options.sarif, [f for result in results for f in result.findings])
    error = "interrupted" if interrupted else "; ".join(unusable) or None
    status = report_cases(results, options, error=error)
    if interrupted:
        return end("interrupted", 130, as_json=False)
    found = next(((r.findings, name) for r, name in zip(results, options.case, strict=False) if r.findings), None)
    if options.debug_on_finding and found is not None:
        options.then = _at_finding(options, *found)
    return 2 if unusable else status


def _debug_this(options: Namespace, findings: Sequence[Finding], case: str | None = None) -> str:
    """How to look at the first finding that counts."""
    return f"debug this: {shlex.join(['warpsim', *_at_finding(options, findings, case)])}"


def _at_finding(options: Namespace, findings: Sequence[Finding], case: str | None = None) -> list[str]:
    """The command that opens the debugger at the first finding that counts."""
    errors = [number for number, finding in enumerate(findings, 1) if finding.severity == "error"]
    return debug_words(options.words, case, errors[0] if errors else 1)


# ---- trace --------------------------------------------------------------------------------------


def command_trace(options: Namespace) -> int:
    """Write a launch as a page or for Perfetto, however it ends."""
    if not options.output.endswith((".html", ".htm", ".json")):
        raise Unusable(f"-o {options.output}: a trace goes to FILE.html, or to FILE.json for Perfetto")
    from warpsim.trace import Tracer

    tracer, target = Tracer(_ctas(options), max(options.steps, 0)), Target(options.output)
    try:
        return run_one(options, lambda kernel, *given, **more: kernel(*given, watchers=[tracer], **more))
    finally:
        PROGRESS.erase()
        _write(tracer, target)


def _ctas(options: Namespace) -> int | list[tuple[int, int, int]]:
    if not options.cta:
        return max(options.ctas, 1)
    chosen = [(*dims(text), 0, 0)[:3] for text in options.cta]
    return [(x, y, z) for x, y, z in chosen]


def _write(tracer: Tracer, target: Target) -> None:
    """Write the recording; nothing if the launch never began."""
    if not tracer.began:
        target.abandon()
        return
    trace = tracer.trace()
    text = trace.perfetto() if target.path.endswith(".json") else trace.html()
    target.write_text(text)
    what = f"{plural(len(trace.steps), 'step')} of {plural(len(trace.warps), 'warp')}"
    print(f"{target.path}: {what}", file=sys.stderr)


# ---- results ------------------------------------------------------------------------------------


def print_findings(findings: tuple[Finding, ...]) -> None:
    """Print findings to standard error."""
    for finding in findings:
        print(f"{finding.severity}: {finding}", file=sys.stderr)


def show_reports(result: LaunchResult | CaseResult, options: Namespace) -> None:
    """Print the profile, and what a shadow found, or write them to files."""
    for found, path, wanted in (
        (result.profile, options.profile_to, options.profile),
        (result.accuracy, options.shadow_to, options.shadow),
    ):
        if found is None:
            continue
        if path:
            text = found.html() if path.endswith((".html", ".htm")) else json.dumps(found.record(), indent=1)
            Target(path).write_text(text)
        if wanted and not options.json:
            print(found)


def write_sarif(path: str | None, findings: Iterable[Finding]) -> None:
    """Write the findings as SARIF, if a file was given."""
    if path:
        Target(path).write_text(json.dumps(sarif(findings, VERSION), indent=1))


def report_cases(results: list[CaseResult], options: Namespace, *, error: str | None = None) -> int:
    """Print the JSON document of some cases, if requested, with what kept others from running; returns the status."""
    if options.json:
        document({"cases": [_case_json(r) for r in results], **({} if error is None else {"error": error})})
    return 0 if all(_good(r, bits=options.bits) for r in results) else 1


def _good(result: CaseResult, *, bits: bool) -> bool:
    return result.ok and (result.bits_equal or not bits)


def _case_json(result: CaseResult) -> JsonObject:
    record: JsonObject = attrs.asdict(
        result, recurse=True, filter=lambda field, value: field.name not in ("profile", "fidelity", "accuracy")
    )
    record |= _fidelity_json(result.fidelity)
    if result.profile is not None:
        record["profile"] = result.profile.record()
    if result.accuracy is not None:
        record["accuracy"] = result.accuracy.record()
    record["findings"] = [finding_record(f) for f in result.findings]
    return record


def _fidelity_json(found: Sequence[Executed]) -> JsonObject:
    return {"fidelity": [each.plain() for each in found], "badge": Badge.of(found).plain()}


def print_fidelity(found: Sequence[Executed], *, whole: bool) -> None:
    """Print what a launch's bits rest on: in a line, or (``whole``) instruction by instruction."""
    if found:
        print(f"  its bits rest on: {Badge.of(found)}")
    for each in found if whole else ():
        print(f"    {shown(each)}")


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
        record |= _fidelity_json(result.fidelity)
        record["profile"] = result.profile.record() if result.profile else None
        record["accuracy"] = result.accuracy.record() if result.accuracy else None
        if launch.timing is not None:
            record["timing"] = launch.timing.record()
        record["findings"] = [finding_record(f) for f in result.findings]
        document({**record, **({"error": error} if error else {})})
    else:
        print(
            f"{plural(result.instructions, 'warp-instruction')}, {plural(result.thread_instructions, 'thread-instruction')} in {result.seconds:.3f} s"
        )
        for number, argument in enumerate(launch.arguments):
            for each in argument.arrays():
                value, target = each.value, f" -> {each.path}" if each.path else ""
                shown = np.array2string(value.reshape(-1)[:6], threshold=6)
                print(f"  argument {number}: {value.dtype} {value.shape} {shown}{target}")
        if launch.timing is not None:
            print(launch.timing)
        print_findings(result.findings)
    if error:
        return end(error, 2, as_json=False)
    return int(any(f.severity == "error" for f in result.findings))

"""What each subcommand does."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np

import warpsim
from warpsim.analysis.strict import check_program
from warpsim.cli.elsewhere import results_of
from warpsim.cli.executing import command_exec as command_exec
from warpsim.cli.launching import PROGRESS, Launched, launch_from, launch_options
from warpsim.cli.outcome import Unusable, document, end, internal
from warpsim.cli.programs import programs
from warpsim.errors import ExecutionError, Finding, PtxError, WarpsimError, plural
from warpsim.host.cases import CaseResult
from warpsim.host.checks import resolve_checks
from warpsim.host.files import Target
from warpsim.host.module import load_file
from warpsim.report.findings import finding_record, sarif
from warpsim.report.profile import Profile


def _print_findings(findings: tuple[Finding, ...]) -> None:
    for finding in findings:
        print(f"{finding.severity}: {finding}", file=sys.stderr)


def show_profile(profile: Profile | None, options: Namespace) -> None:
    """Print what every line did, or leave it in a file."""
    if profile is None:
        return
    if options.profile_to:
        text = (
            profile.html() if options.profile_to.endswith((".html", ".htm")) else json.dumps(profile.record(), indent=1)
        )
        Target(options.profile_to).write(lambda stream: stream.write(text.encode()))
    if options.profile and not options.json:
        print(profile)


def _write_sarif(path: str | None, findings: Iterable[Finding]) -> None:
    """Leave the findings in a file for pages of code scanning, where one was asked for."""
    if path:
        text = json.dumps(sarif(findings, warpsim.__version__), indent=1)
        Target(path).write(lambda stream: stream.write(text.encode()))


# ---- replay -------------------------------------------------------------------------------------


def command_replay(options: Namespace) -> int:
    """Run recorded launches and compare."""
    if options.profile_to and len(options.case) > 1:
        raise Unusable("--profile-to takes the counts of one case: replay it by itself, or give --json")
    results: list[CaseResult] = []
    unusable = interrupted = False
    settings = {"device": options.device, "numerics": options.numerics, **launch_options(options)}
    try:
        for result, usable in results_of(options.case, settings):
            PROGRESS.erase()
            unusable = unusable or not usable
            results.append(result)
            if not options.json:
                print_case(result, options.bits)
            show_profile(result.profile, options)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        PROGRESS.erase()
    _write_sarif(options.sarif, [f for result in results for f in result.findings])
    status = report_cases(results, options, interrupted)
    return 2 if unusable and not interrupted else status


def report_cases(results: list[CaseResult], options: Namespace, interrupted: bool = False) -> int:
    """Print the document of some cases, where one is wanted; gives the status."""
    if options.json:
        document({"cases": [_case_json(r) for r in results], **({"error": "interrupted"} if interrupted else {})})
    if interrupted:
        return end("interrupted", 130, False)
    good = all(r.bits_equal if options.bits else r.ok for r in results)
    if options.checks:
        good = good and not any(
            f.severity == "error" and f.rule not in ("assert", "trap") for r in results for f in r.findings
        )
    return 0 if good else 1


def _case_json(result: CaseResult) -> dict[str, Any]:
    record: dict[str, Any] = attrs.asdict(result, recurse=True, filter=lambda field, value: field.name != "profile")
    if result.profile is not None:
        record["profile"] = result.profile.record()
    record["findings"] = [finding_record(f) for f in result.findings]
    return record


def print_case(result: CaseResult, bits: bool) -> None:
    """Print how a case went."""
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
            ulps = "" if output.max_ulp is None else f", up to {output.max_ulp} ulps"
            print(
                f"  {output.buffer}: {plural(output.differing, 'element')} differ{'s' if output.differing == 1 else ''}{ulps}; first at {first.get('index')}: got {first.get('got')}, recorded {first.get('expected')}"
            )
    if not result.error:
        _print_findings(result.findings)


# ---- check, info, examples ----------------------------------------------------------------------


def command_check(options: Namespace) -> int:
    """Parse and validate; with ``--strict`` say too what can be seen to be wrong without running."""
    status, records = 0, []
    every: list[Finding] = []
    for name in options.file:
        kernels: list[str] = []
        try:
            module = load_file(name)
            kernels = list(module.kernels)
            found = check_program(module.program) if options.strict else ()
            findings = tuple([f for f in found if f.severity != "note"])
            lines = [f"{name}: {plural(len(kernels), 'kernel')}, {_summary(findings)}"]
            lines += [f"{f.severity}: {f}" for f in findings]
        except PtxError as problem:
            findings, lines = problem.findings, [str(problem)]
        except Exception as defect:  # the other files' results must not be lost
            findings = (Finding("internal", internal(defect), file=name),)
            lines = [findings[0].headline()]
        every += findings
        bad = any(f.severity == "error" for f in findings)
        unreadable = any(f.rule == "unreadable" for f in findings)
        status = max(status, 2 if unreadable else int(bad))
        records.append(
            {"file": name, "ok": not bad, "kernels": kernels, "findings": [finding_record(f) for f in findings]}
        )
        if not options.json:
            print(*lines, sep="\n")
    _write_sarif(options.sarif, every)
    if options.json:
        document({"files": records})
    return status


def _summary(findings: tuple[Finding, ...]) -> str:
    if not findings:
        return "no problem found"
    errors = sum(f.severity == "error" for f in findings)
    return f"{plural(errors, 'error')}, {plural(len(findings) - errors, 'warning')}"


def command_info(options: Namespace) -> int:
    """Kernels and what they use, or the instruction table."""
    if options.isa or options.file is None:
        return _isa(options)
    try:
        module = load_file(options.file)
    except PtxError as problem:
        if options.json:
            document({"file": options.file, "findings": [finding_record(f) for f in problem.findings]})
        else:
            print(problem)
        return 2 if any(f.rule == "unreadable" for f in problem.findings) else 1
    facts = [kernel.facts() for kernel in module.kernels.values()]
    if options.json:
        params = [[attrs.asdict(p) for p in kernel.params] for kernel in module.kernels.values()]
        kernels = [{**attrs.asdict(f), "params": p} for f, p in zip(facts, params, strict=True)]
        document({"file": options.file, "target": module.target, "kernels": kernels})
        return 0
    print(f"{options.file}: target {module.target}")
    for kernel in facts:
        print(f"  {kernel.signature}\n    {kernel.uses}")
    return 0


def _isa(options: Namespace) -> int:
    from warpsim.isa import spec, unsupported

    table = {root: [f.syntax for f in spec.forms(root)] for root in sorted(spec.opcodes())}
    missing = sorted(unsupported.OPCODES)
    if options.json:
        document({"supported": table, "unsupported": missing})
        return 0
    for root, lines in table.items():
        for line in lines:
            print(f"{root:14} {line}")
    print("not supported: " + " ".join(missing))
    return 0


def command_examples(options: Namespace) -> int:
    """List the bundled programs."""
    folder, found = programs(), []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if (path / "case.json").exists() and options.name in (None, path.name):
            readme = path / "README.md"
            line = readme.read_text(encoding="utf-8").strip().splitlines()[0] if readme.exists() else ""
            found.append({"name": path.name, "path": str(path), "what": line})
    if options.name and not found:
        raise Unusable(f"no bundled program {options.name}")
    if options.json:
        document({"examples": found})
        return 0
    for program in found:
        print(f"{program['name']:16} {program['path']}\n                 {program['what']}")
    return 0


# ---- run ----------------------------------------------------------------------------------------


def command_run(options: Namespace) -> int:
    """Run a kernel."""
    try:
        launch = launch_from(options)
    except (ExecutionError, PtxError) as problem:
        _write_sarif(options.sarif, problem.findings)
        return failed(problem, options.json)
    _write_sarif(options.sarif, launch.result.findings)
    show_profile(launch.result.profile, options)
    status = report_launch(launch, options.json)
    if not (options.json or launch.result.findings or "race" in resolve_checks(options.checks)):
        print("  nothing found; races are looked for with --checks default+race")
    return status


def report_launch(launch: Launched, as_json: bool) -> int:
    """Print what a launch did; gives the status."""
    result = launch.result
    if as_json:
        record = attrs.asdict(result, recurse=False)
        record["fidelity"] = [form.plain() for form in result.fidelity]
        record["profile"] = result.profile.record() if result.profile else None
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
        _print_findings(result.findings)
    if launch.unsaved:
        return end("; ".join(launch.unsaved), 2, False)
    return int(any(f.severity == "error" for f in result.findings))


def failed(problem: WarpsimError, as_json: bool) -> int:
    """Say that a module or a launch was at fault; gives status 1."""
    if as_json:
        document({"error": str(problem), "findings": [finding_record(f) for f in problem.findings]})
    else:
        print(problem, file=sys.stderr)
    return 1


def command_trace(options: Namespace) -> int:
    """A launch as a page."""
    from warpsim.cli.tracing import run_traced

    return run_traced(options)


def command_debug(options: Namespace) -> int:
    """The stepping debugger."""
    from warpsim.cli.debug import run_debugger

    return run_debugger(options)


def command_dap(options: Namespace) -> int:
    """The debugger for editors."""
    from warpsim.cli.dap import serve

    return serve(options)


def command_layout(options: Namespace) -> int:
    """Who holds which element."""
    from warpsim.cli.layouts import show_layout

    return show_layout(options)

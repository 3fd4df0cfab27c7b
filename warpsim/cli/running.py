"""The commands run, replay and trace: run what the command line describes, and report the result."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

from warpsim.cli.launching import PROGRESS, dims, launch_from, launch_options
from warpsim.cli.output import Unusable, end
from warpsim.cli.replaying import find_case, results_of
from warpsim.cli.reporting import print_case, report_cases, report_launch, show_profile, write_sarif
from warpsim.errors import ExecutionError, PtxError, plural
from warpsim.host.cases import CaseResult, run_case
from warpsim.host.checks import resolve_checks
from warpsim.host.files import Target
from warpsim.host.kernel import LaunchResult
from warpsim.trace import Tracer

Launch = Callable[..., LaunchResult]


def run_one(options: Namespace, launch: Launch, problems: Sequence[str] = ()) -> int:
    """Run what follows ``trace run`` or ``debug replay``, with ``launch`` in place of the kernel's call, and report it
    with the problems that came up; returns the status.
    """
    if options.kind == "run":
        launched = launch_from(options, launch)
        show_profile(launched.result.profile, options)
        return report_launch(launched, problems, as_json=options.json)
    path = find_case(options.case[0])
    result = run_case(path, launch=launch, **_case_options(options))
    if not options.json:
        print_case(result, bits=options.bits)
    show_profile(result.profile, options)
    status = report_cases([result], options, error="; ".join(problems) or None)
    return end("; ".join(problems), 2, as_json=False) if problems else status


def _case_options(options: Namespace) -> dict[str, Any]:
    return {"device": options.device, "numerics": options.numerics, **launch_options(options)}


def command_run(options: Namespace) -> int:
    """Run a kernel."""
    try:
        launch = launch_from(options)
    except (ExecutionError, PtxError) as problem:
        write_sarif(options.sarif, problem.findings)
        raise
    write_sarif(options.sarif, launch.result.findings)
    show_profile(launch.result.profile, options)
    status = report_launch(launch, as_json=options.json)
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
        for result, usable in results_of(options.case, _case_options(options)):
            PROGRESS.erase()
            results.append(result)
            if not usable:
                unusable.append(str(result.error))
                end(unusable[-1], 2, as_json=False)
            elif not options.json:
                print_case(result, bits=options.bits)
            show_profile(result.profile, options)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        PROGRESS.erase()
    write_sarif(options.sarif, [f for result in results for f in result.findings])
    error = "interrupted" if interrupted else "; ".join(unusable) or None
    status = report_cases(results, options, error=error)
    if interrupted:
        return end("interrupted", 130, as_json=False)
    return 2 if unusable else status


# ---- trace --------------------------------------------------------------------------------------


def command_trace(options: Namespace) -> int:
    """Write a launch as a page or for Perfetto, however it ends."""
    if not options.output.endswith((".html", ".htm", ".json")):
        raise Unusable(f"-o {options.output}: a trace goes to FILE.html, or to FILE.json for Perfetto")
    tracer, target = Tracer(_ctas(options), max(options.steps, 0)), Target(options.output)
    try:
        return run_one(options, lambda kernel, *given, **more: kernel(*given, watchers=[tracer], **more))
    finally:
        PROGRESS.erase()
        _write(tracer, target)


def _ctas(options: Namespace) -> int | list[tuple[int, int, int]]:
    """The CTAs to show."""
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
    target.write(lambda stream: stream.write(text.encode()))
    what = f"{plural(len(trace.steps), 'step')} of {plural(len(trace.warps), 'warp')}"
    print(f"{target.path}: {what}", file=sys.stderr)

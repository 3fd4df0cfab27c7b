"""``warpsim trace``: writes a launch as a page."""

from __future__ import annotations

import sys
from argparse import Namespace

from warpsim.cli.launching import PROGRESS, dims, launch_from, launch_options
from warpsim.cli.output import Unusable
from warpsim.cli.replaying import find_case
from warpsim.cli.reporting import failed, print_case, report_cases, report_launch, show_profile
from warpsim.errors import ExecutionError, LaunchError, PtxError, plural
from warpsim.host.cases import run_case
from warpsim.host.files import Target
from warpsim.trace import Tracer


def run_traced(options: Namespace) -> int:
    """Run a launch and write its trace, however it ends; returns the status."""
    if not options.output.endswith((".html", ".htm", ".json")):
        raise Unusable(f"-o {options.output}: a trace goes to FILE.html, or to FILE.json for Perfetto")
    tracer, target = Tracer(_ctas(options), max(options.steps, 0)), Target(options.output)
    try:
        return _run(options, tracer)
    finally:
        PROGRESS.erase()
        _write(tracer, target)


def _run(options: Namespace, tracer: Tracer) -> int:
    if options.kind == "run":
        try:
            launch = launch_from(options, lambda kernel, *given, **more: kernel(*given, watchers=[tracer], **more))
        except (ExecutionError, PtxError) as problem:
            return failed(problem, as_json=options.json)
        show_profile(launch.result.profile, options)
        return report_launch(launch, as_json=options.json)
    given = {**launch_options(options), "watchers": [tracer]}
    try:
        result = run_case(find_case(options.case[0]), device=options.device, numerics=options.numerics, **given)
    except LaunchError as problem:
        raise Unusable(str(problem)) from None
    if not options.json:
        print_case(result, bits=options.bits)
    show_profile(result.profile, options)
    return report_cases([result], options)


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

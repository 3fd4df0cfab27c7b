"""The subcommands."""

from __future__ import annotations

from argparse import Namespace

import attrs

from warpsim.analysis.strict import check_program
from warpsim.cli.executing import command_exec as command_exec
from warpsim.cli.launching import PROGRESS, launch_from, launch_options
from warpsim.cli.output import Unusable, document, end, internal
from warpsim.cli.replaying import programs, results_of
from warpsim.cli.reporting import (
    failed,
    print_case,
    report_cases,
    report_launch,
    show_profile,
    write_sarif,
)
from warpsim.errors import ExecutionError, Finding, PtxError, plural
from warpsim.host.cases import CaseResult
from warpsim.host.checks import resolve_checks
from warpsim.host.module import load_file
from warpsim.report.findings import finding_record

# ---- replay -------------------------------------------------------------------------------------


def command_replay(options: Namespace) -> int:
    """Run recorded launches and compare their outputs."""
    if options.profile_to and len(options.case) > 1:
        raise Unusable("--profile-to needs a single case; replay it alone, or use --json")
    results: list[CaseResult] = []
    unusable: list[str] = []
    interrupted = False
    settings = {"device": options.device, "numerics": options.numerics, **launch_options(options)}
    try:
        for result, usable in results_of(options.case, settings):
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


# ---- check, info, examples ----------------------------------------------------------------------


def command_check(options: Namespace) -> int:
    """Parse and validate; with ``--strict``, also analyse without running."""
    status, records, unreadable = 0, [], []
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
        except Exception as defect:  # keep the other files' results
            findings = (Finding("internal", internal(defect), file=name),)
            lines = [findings[0].headline()]
        every += findings
        bad = any(f.severity == "error" for f in findings)
        unreadable += [f.headline() for f in findings if f.rule == "unreadable"]
        status = 2 if unreadable else max(status, int(bad))
        records.append(
            {"file": name, "ok": not bad, "kernels": kernels, "findings": [finding_record(f) for f in findings]}
        )
        if not options.json:
            print(*lines, sep="\n")
    write_sarif(options.sarif, every)
    if options.json:
        document({"files": records, **({"error": "; ".join(unreadable)} if unreadable else {})})
    return status


def _summary(findings: tuple[Finding, ...]) -> str:
    if not findings:
        return "no problem found"
    errors = sum(f.severity == "error" for f in findings)
    return f"{plural(errors, 'error')}, {plural(len(findings) - errors, 'warning')}"


def command_info(options: Namespace) -> int:
    """List kernels and their resources, or the instruction table, or show the graph of an instruction."""
    if options.graph is not None:
        return _graph(options)
    if options.isa or options.file is None:
        return _isa(options)
    try:
        module = load_file(options.file)
    except PtxError as problem:
        if options.json:
            found = [finding_record(f) for f in problem.findings]
            document({"file": options.file, "error": str(problem), "findings": found})
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


def _graph(options: Namespace) -> int:
    from warpsim.graph.nodes import Untraceable
    from warpsim.graph.text import lines
    from warpsim.isa import matching
    from warpsim.isa.graphs import graph_of_spelling

    text, *numbers = options.graph.split() or [""]
    root, *modifiers = text.split(".")
    found = [c for c in matching.candidates(root, tuple(modifiers)) if not c.illegal]
    if not found:
        near = matching.nearest(root, tuple(modifiers))
        raise Unusable(f"no instruction {text}" + (f"; near: {near}" if near else ""))
    try:
        constants = [int(number, 0) for number in numbers]
    except ValueError:
        raise Unusable(f"{' '.join(numbers)}: the constants of an instruction are numbers") from None
    records = []
    for candidate in found:
        names = [spec.name for spec in candidate.form.operands[: candidate.form.n_dest]]
        try:
            shown = list(lines(graph_of_spelling(candidate, constants), names))
        except Untraceable as problem:
            shown = [f"more than arithmetic and accesses of memory: {problem}"]
        records.append({"form": candidate.form.syntax, "graph": shown})
    if options.json:
        document({"instruction": text, "forms": records})
        return 0
    for record in records:
        print(record["form"], *(f"    {line}" for line in record["graph"]), sep="\n")
    return 0


def _isa(options: Namespace) -> int:
    from warpsim.isa import registry, unsupported

    table = {root: [f.syntax for f in registry.forms(root)] for root in sorted(registry.opcodes())}
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
        write_sarif(options.sarif, problem.findings)
        return failed(problem, as_json=options.json)
    write_sarif(options.sarif, launch.result.findings)
    show_profile(launch.result.profile, options)
    status = report_launch(launch, as_json=options.json)
    if not (options.json or launch.result.findings or "race" in resolve_checks(options.checks)):
        print("  no findings; add --checks default+race to check for races")
    return status


def command_trace(options: Namespace) -> int:
    """Write a launch as a page."""
    from warpsim.cli.tracing import run_traced

    return run_traced(options)


def command_debug(options: Namespace) -> int:
    """Run the debugger."""
    from warpsim.cli.debug import run_debugger

    return run_debugger(options)


def command_dap(options: Namespace) -> int:
    """Serve the debugger to editors."""
    from warpsim.cli.dap import serve

    return serve(options)


def command_layout(options: Namespace) -> int:
    """Show which lane holds which element."""
    from warpsim.cli.layouts import show_layout

    return show_layout(options)

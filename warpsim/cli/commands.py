"""The commands check, info, examples and layout, which run nothing."""

from __future__ import annotations

from argparse import Namespace

import attrs

from warpsim.analysis.strict import check_program
from warpsim.cli.launching import programs
from warpsim.cli.output import Unusable, document, internal
from warpsim.cli.running import write_sarif
from warpsim.errors import Finding, PtxError, plural
from warpsim.graph.nodes import Untraceable
from warpsim.host.device import Device
from warpsim.host.kernel import load_file
from warpsim.isa import matching
from warpsim.isa.graphs import graph_of_spelling
from warpsim.layout import pictures
from warpsim.layout.drawing import Drawing, Tile, svg
from warpsim.layout.instructions import Operand
from warpsim.layout.pictures import Pictures, Placing
from warpsim.report.findings import finding_record
from warpsim.report.pages import layout_page

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
    from warpsim.graph.text import lines

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


# ---- layout -------------------------------------------------------------------------------------


def command_layout(options: Namespace) -> int:
    """Show which lane holds which element of a matrix operand."""
    device = Device(options.device or "sm_90a")
    try:
        found = _chosen(options, device.sm)
    except ValueError as problem:
        raise Unusable(str(problem)) from None
    if options.json:
        record = {"instruction": options.instruction, "device": device.target}
        document(
            {
                **record,
                "operands": {n: o.record() if isinstance(o, Tile) else pictures.record(o) for n, o in found.items()},
            }
        )
    elif options.format == "html":
        drawings = [d for name, operand in found.items() for d in _drawings(name, operand, len(found))]
        print(layout_page(options.instruction, f"on {device.target}", drawings))
    elif options.format == "svg":
        name, operand = next(iter(found.items()))
        if len(found) > 1:
            raise Unusable(f"an SVG holds one picture; choose --operand {'|'.join(found)}, or --format html for all")
        title = f"{options.instruction}, {name.upper()}"
        print(operand.svg(title) if isinstance(operand, Tile) else svg(operand.drawing(title)))
    else:
        print(f"{options.instruction} on {device.target}")
        for name, operand in found.items():
            print(
                "\n"
                + (operand.text() if isinstance(operand, Tile) else pictures.text(operand, _title(name, len(found))))
            )
    return 0


def _chosen(options: Namespace, sm: int) -> Pictures:
    """The requested pictures: by name (``m2``), or by letter (``e``: for every selector)."""
    try:
        descriptor = None if options.descriptor is None else int(options.descriptor, 0)
    except ValueError:
        raise Unusable(f"--descriptor {options.descriptor}: give its 64 bits, for example 0x4000004000010000") from None
    placing = Placing(options.swizzle, options.major == "mn", descriptor)
    found = pictures.pictures(options.instruction, sm, placing)
    if options.operand is None:
        return found
    wanted = options.operand.lower()
    chosen = {name: o for name, o in found.items() if wanted == name} or {
        name: o for name, o in found.items() if isinstance(o, Operand) and wanted == o.name
    }
    if not chosen:
        raise Unusable(f"{options.instruction} has no operand {options.operand}; it has {', '.join(found)}")
    return chosen


def _title(name: str, count: int) -> str:
    if name[0] == "m" and name[1:].isdecimal():
        return f"matrix {name[1:]}" if count > 1 else "R"
    return name.upper()


def _drawings(name: str, operand: Operand | Tile, count: int) -> list[Drawing]:
    if isinstance(operand, Tile):
        return operand.drawings()
    return [attrs.evolve(operand.drawing(), title=_title(name, count))]

"""What each subcommand does."""

from __future__ import annotations

import json
import sys
import traceback
from argparse import Namespace
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from warpsim.analysis.strict import check_program
from warpsim.errors import ExecutionError, Finding, LaunchError, PtxError, WarpsimError, describe
from warpsim.host.cases import DTYPES, CaseResult, failed_case, run_case
from warpsim.host.device import Device
from warpsim.host.kernel import LaunchResult
from warpsim.host.module import Module, load


class Unusable(Exception):
    """Arguments or files that cannot be used: exit status 2."""


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding as plain data."""
    record: dict[str, Any] = attrs.asdict(finding, recurse=False)
    record["other"] = finding_json(finding.other) if finding.other else None
    record["values"] = {
        k: v if isinstance(v, (int, str, float, bool, type(None))) else str(v) for k, v in finding.values.items()
    }
    return record


def _print_findings(findings: tuple[Finding, ...]) -> None:
    for finding in findings:
        times = f" ({finding.count} times)" if finding.count > 1 else ""
        print(f"{finding.severity}: {finding.headline()}{times}", file=sys.stderr)
        if finding.excerpt():
            print(finding.excerpt(), file=sys.stderr)
        if finding.advice:
            print(f"    {finding.advice}", file=sys.stderr)


def find_case(name: str) -> Path:
    """A case directory, or a bundled program of that name."""
    path = Path(name)
    if (path / "case.json").exists():
        return path
    bundled = programs() / name
    if (bundled / "case.json").exists():
        return bundled
    raise Unusable(f"{name} is neither a case directory nor a bundled program (see: warpsim examples)")


def programs() -> Path:
    """Where the bundled programs lie: in the package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "programs"
    return inside if inside.is_dir() else package.parent / "programs"


def _options(options: Namespace) -> dict[str, Any]:
    return {
        "checks": options.checks,
        "async_effects": options.async_effects,
        "max_instructions": options.max_instructions,
        "on_finding": "collect",
        "progress": _progress if sys.stderr.isatty() and not options.json else None,
    }


def _progress(instructions: int, done: int, total: int) -> None:
    print(f"\r{instructions:,} warp-instructions, {done} of {total} CTAs", end="", file=sys.stderr, flush=True)


# ---- replay -------------------------------------------------------------------------------------


def command_replay(options: Namespace) -> int:
    """Run recorded launches and compare."""
    results, unusable = [], False
    for name in options.case:
        try:
            path = find_case(name)
            result = run_case(path, device=options.device, numerics=options.numerics, **_options(options))
        except (LaunchError, Unusable) as problem:
            result, unusable = failed_case(name, str(problem)), True
        except Exception as defect:  # the other cases' results must not be lost
            where = traceback.extract_tb(defect.__traceback__)[-1]
            text = f"internal error, please report it: {type(defect).__name__}: {defect} ({Path(where.filename).name}:{where.lineno})"
            result = failed_case(name, text)
        results.append(result)
        if not options.json:
            _print_case(result, options.bits)
    if options.json:
        print(json.dumps({"cases": [_case_json(r) for r in results]}))
    good = all(r.bits_equal if options.bits else r.ok for r in results)
    if options.checks:
        good = good and not any(
            f.severity == "error" and f.rule not in ("assert", "trap") for r in results for f in r.findings
        )
    if unusable:
        return 2
    return 0 if good else 1


def _case_json(result: CaseResult) -> dict[str, Any]:
    record: dict[str, Any] = attrs.asdict(result, recurse=True)
    record["findings"] = [finding_json(f) for f in result.findings]
    return record


def _print_case(result: CaseResult, bits: bool) -> None:
    good = result.bits_equal if bits else result.ok
    sys.stdout.write(result.stdout)
    print(
        f"{result.case}: {'equal in every bit' if result.bits_equal else 'within tolerance' if good else 'FAILED'}, {result.instructions:,} warp-instructions in {result.seconds:.2f} s"
    )
    if result.error:
        print(result.error)
    for output in result.outputs:
        if output.differing:
            first = output.first or {}
            ulps = "" if output.max_ulp is None else f", up to {output.max_ulp} ulps"
            print(
                f"  {output.buffer}: {output.differing} elements differ{ulps}; first at {first.get('index')}: got {first.get('got')}, recorded {first.get('expected')}"
            )
    if not result.error:
        _print_findings(result.findings)


# ---- check, info, examples ----------------------------------------------------------------------


def _load(name: str) -> Module:
    return load(Path(name))


def command_check(options: Namespace) -> int:
    """Parse and validate; with ``--strict`` say too what can be seen to be wrong without running."""
    status, records = 0, []
    for name in options.file:
        kernels: list[str] = []
        try:
            module = _load(name)
            kernels = list(module.kernels)
            found = check_program(module.program) if options.strict else ()
            findings = tuple([f for f in found if f.severity != "note"])
            lines = [f"{name}: {len(kernels)} kernels, {_summary(findings)}"]
            lines += [f"{f.severity}: {describe(f)}" for f in findings]
        except PtxError as problem:
            findings, lines = problem.findings, [str(problem)]
        bad = any(f.severity == "error" for f in findings)
        unreadable = any(f.rule == "unreadable" for f in findings)
        status = max(status, 2 if unreadable else int(bad))
        records.append(
            {"file": name, "ok": not bad, "kernels": kernels, "findings": [finding_json(f) for f in findings]}
        )
        if not options.json:
            print(*lines, sep="\n")
    if options.json:
        print(json.dumps({"files": records}))
    return status


def _summary(findings: tuple[Finding, ...]) -> str:
    if not findings:
        return "no problem found"
    errors = sum(f.severity == "error" for f in findings)
    return f"{errors} errors, {len(findings) - errors} warnings"


def command_info(options: Namespace) -> int:
    """Kernels and what they use, or the instruction table."""
    if options.isa or options.file is None:
        return _isa(options)
    try:
        module = _load(options.file)
    except PtxError as problem:
        if options.json:
            print(json.dumps({"file": options.file, "findings": [finding_json(f) for f in problem.findings]}))
        else:
            print(problem)
        return 2 if any(f.rule == "unreadable" for f in problem.findings) else 1
    kernels: list[dict[str, Any]] = []
    for name, kernel in module.kernels.items():
        counts: dict[str, int] = {}
        for instruction in kernel.function.code:
            counts[instruction.text] = counts.get(instruction.text, 0) + 1
        kernels.append(
            {
                "name": name,
                "params": [attrs.asdict(p) for p in kernel.params],
                "registers": len(kernel.function.registers),
                "shared": sum(v.size for v in kernel.function.variables if v.space.value == "shared"),
                "opcodes": counts,
            }
        )
    if options.json:
        print(json.dumps({"file": options.file, "target": module.target, "kernels": kernels}))
        return 0
    print(f"{options.file}: target {module.target}")
    for record in kernels:
        print(f"  {record['name']}({', '.join('.' + p['type'] + ' ' + p['name'] for p in record['params'])})")
        print(
            f"    {record['registers']} registers, {record['shared']} bytes of static shared memory, {sum(record['opcodes'].values())} instructions"
        )
    return 0


def _isa(options: Namespace) -> int:
    from warpsim.isa import spec
    from warpsim.program import names

    table = {root: [f.syntax for f in spec.forms(root)] for root in sorted(spec.opcodes())}
    missing = sorted(names.OPCODES - set(table))
    if options.json:
        print(json.dumps({"supported": table, "unsupported": missing}))
        return 0
    for root, lines in table.items():
        for line in lines:
            print(f"{root:14} {line}")
    print("not supported: " + " ".join(missing))
    return 0


def command_examples(options: Namespace) -> int:
    """List the bundled programs."""
    folder = programs()
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if (path / "case.json").exists() and options.name in (None, path.name):
            readme = path / "README.md"
            line = readme.read_text(encoding="utf-8").strip().splitlines()[0] if readme.exists() else ""
            print(f"{path.name:16} {path}\n                 {line}")
            if options.name:
                return 0
    if options.name:
        raise Unusable(f"no bundled program {options.name}")
    return 0


# ---- run ----------------------------------------------------------------------------------------


def dims(text: str) -> tuple[int, ...]:
    """``16,16`` or ``16x16`` as integers."""
    try:
        return tuple(int(v) for v in text.replace("x", ",").split(","))
    except ValueError:
        raise Unusable(f"{text!r} is no grid or block: write for example 16,16") from None


def argument(text: str) -> tuple[Any, str | None]:
    """One ``--arg``: its value and the file to save it to."""
    kind, _, rest = text.partition(":")
    body, _, target = rest.partition("=")
    try:
        if kind in ("in", "inout"):
            values = np.load(body)
            return np.ascontiguousarray(values), (target or (body if kind == "inout" else None))
        if kind in ("zeros", "out"):
            name, _, shape = body.partition(":")
            return np.zeros(dims(shape), DTYPES[name]), target or None
        if kind in DTYPES:
            return (DTYPES[kind].type(float(body)) if kind.startswith("f") else int(body, 0)), None
        if kind in ("i8", "i16", "i32", "i64"):
            return int(body, 0), None
        if kind == "bytes":
            return bytes.fromhex(body), None
    except (OSError, ValueError, KeyError) as problem:
        raise Unusable(f"--arg {text}: {problem}") from None
    raise Unusable(f"--arg {text}: unknown kind {kind!r}")


def launch_from(options: Namespace, **more: Any) -> tuple[LaunchResult, list[tuple[Any, str | None]]]:
    """Load and run what the command line describes."""
    try:
        module = _load(options.file)
    except PtxError as problem:
        if any(f.rule == "unreadable" for f in problem.findings):
            raise Unusable(str(problem)) from None
        raise
    name = options.kernel or next(iter(module.kernels), None)
    if name is None or name not in module.kernels:
        raise Unusable(f"{options.file} has no kernel {name}; it has: {', '.join(module.kernels)}")
    arguments = [argument(a) for a in options.arg]
    device = Device(
        options.device or module.target, numerics=options.numerics, stdout=(lambda text: None) if options.json else None
    )
    try:
        result = module[name](
            dims(options.grid),
            dims(options.block),
            tuple(a for a, _ in arguments),
            shared_mem=options.shared,
            cluster=dims(options.cluster) if options.cluster else None,
            device=device,
            **{**_options(options), **more},
        )
    except LaunchError as problem:
        raise Unusable(str(problem)) from None
    finally:
        for value, target in arguments:
            if target:
                np.save(target, value)
    return result, arguments


def command_run(options: Namespace) -> int:
    """Run a kernel."""
    try:
        result, arguments = launch_from(options)
    except (ExecutionError, PtxError) as problem:
        _failed(problem, options.json)
        return 1
    bad = any(f.severity == "error" for f in result.findings)
    if options.json:
        record = attrs.asdict(result, recurse=False)
        record["findings"] = [finding_json(f) for f in result.findings]
        print(json.dumps(record))
        return int(bad)
    print(
        f"{result.instructions:,} warp-instructions, {result.thread_instructions:,} thread-instructions in {result.seconds:.3f} s"
    )
    for number, (value, target) in enumerate(arguments):
        if isinstance(value, np.ndarray):
            shown = np.array2string(value.reshape(-1)[:6], threshold=6)
            print(f"  argument {number}: {value.dtype} {value.shape} {shown}{' -> ' + target if target else ''}")
    _print_findings(result.findings)
    return int(bad)


def _failed(problem: WarpsimError, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"error": str(problem), "findings": [finding_json(f) for f in problem.findings]}))
    else:
        print(problem, file=sys.stderr)


def command_debug(options: Namespace) -> int:
    """The stepping debugger."""
    from warpsim.cli.debug import run_debugger

    return run_debugger(options)


def command_layout(options: Namespace) -> int:
    """Who holds which element."""
    from warpsim.cli.layouts import show_layout

    return show_layout(options)

"""``warpsim exec``: runs a CUDA driver or runtime program on the simulated GPU."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from types import FrameType

from warpsim.cli.output import Unusable
from warpsim.host.defaults import FILE, append_errors
from warpsim.host.options import resolve_checks
from warpsim.host.targets import capability

PASSED = ("device", "checks", "on_finding", "numerics", "engine", "async_effects", "max_instructions", "max_seconds")
"""Options that are passed to the library in environment variables: ``WARPSIM_DEVICE`` and so on."""


def command_exec(options: Namespace) -> int:
    """Run the program. Returns its exit status, or 1 if it succeeded but there were findings of severity error."""
    from warpsim.driver.library import build, environment  # other commands start without it

    if options.link_flags:
        print(f"-L{build()}")
        return 0
    if not options.program:
        raise Unusable("which program? warpsim exec [OPTIONS] -- PROGRAM ARGS")
    for target in (options.device or os.environ.get("WARPSIM_DEVICE") or "sm_90a").split(","):
        capability(target)
    resolve_checks(options.checks)
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.abspath(options.report or os.path.join(folder, "report"))
        with open(report, "ab"):  # refused here if it cannot be written
            pass
        env = environment(build(Path(folder)), os.environ, preload=options.preload)
        env.pop(FILE, None)  # the report holds the findings
        given = {name: getattr(options, name) for name in PASSED}
        env |= {f"WARPSIM_{name.upper()}": value for name, value in given.items() if value is not None}
        if options.ptx:
            os.makedirs(options.ptx, exist_ok=True)
            env["WARPSIM_PTX"] = os.path.abspath(options.ptx)
        env |= {"WARPSIM_REPORT": report, "WARPSIM_CLIENTS": "warpsim.compat"}
        start = os.path.getsize(report)
        status = _run(options.program, env)
        errors = _errors(report, start)
    command = shlex.join(["warpsim", "exec", *options.program])
    append_errors([f"{command}: {record.get('text', record['message'])}" for record in errors])
    if errors:
        where = f" (in {options.report})" if options.report else ""
        print(f"warpsim: {len(errors)} finding{'s' * (len(errors) > 1)}{where}", file=sys.stderr)
        if options.on_finding != "collect":
            print("warpsim: as on a GPU, all calls after a finding fail; --on-finding collect goes on", file=sys.stderr)
    return status or int(bool(errors))


def _run(program: list[str], env: dict[str, str]) -> int:
    try:
        running = subprocess.Popen(program, env=env)
    except OSError as problem:
        raise Unusable(f"cannot run {program[0]}: {problem.strerror}") from None

    def forward(number: int, frame: FrameType | None) -> None:
        running.send_signal(number)

    forwarded = [signal.SIGTERM]
    if sys.platform != "win32":
        forwarded.append(signal.SIGHUP)
    before = {number: signal.signal(number, forward) for number in forwarded}
    try:
        while True:
            try:
                status = running.wait()
                break
            except KeyboardInterrupt:  # the program received the signal too, and reports its own status
                continue
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if status < 0:
        print(f"warpsim: the program ended by {signal.Signals(-status).name}", file=sys.stderr)
        return 128 - status
    return status


def _errors(path: str, start: int) -> list[dict[str, str]]:
    errors = []
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
        stream.seek(start)
        for line in stream:
            if '"severity": "error"' in line:
                import json  # most programs have none

                with contextlib.suppress(ValueError):  # cut off, as the program was
                    errors.append(json.loads(line))
    return errors

"""``warpsim exec``: runs a CUDA driver or runtime program on the simulated GPU."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from pathlib import Path
from types import FrameType
from typing import Any

from warpsim.cli.output import Unusable
from warpsim.host.checks import resolve_checks
from warpsim.host.defaults import FILE, tell
from warpsim.host.device import Device

VARIABLES = {
    "device": "WARPSIM_DEVICE",
    "checks": "WARPSIM_CHECKS",
    "on_finding": "WARPSIM_ON_FINDING",
    "numerics": "WARPSIM_NUMERICS",
    "engine": "WARPSIM_ENGINE",
    "async_effects": "WARPSIM_ASYNC_EFFECTS",
    "max_instructions": "WARPSIM_MAX_INSTRUCTIONS",
    "max_seconds": "WARPSIM_MAX_SECONDS",
    "ptx": "WARPSIM_PTX",
}
"""Options, and the environment variables that pass them to the library."""


def declare(parser: ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--device", help="the GPU, for example sm_90a; or several, separated by commas")
    parser.add_argument("--checks", help="as for warpsim run")
    parser.add_argument(
        "--on-finding", choices=["raise", "collect"], help="end a launch at its first error, or continue where possible"
    )
    parser.add_argument("--numerics", choices=["exact", "ieee"], help="as for warpsim run")
    parser.add_argument("--engine", choices=["auto", "interpreter", "compiled"], help="as for warpsim run")
    parser.add_argument("--async-effects", choices=["eager", "at_wait"], help="as for warpsim run")
    parser.add_argument("--max-instructions", metavar="N", help="limit of each launch")
    parser.add_argument("--max-seconds", metavar="S", help="limit of each launch")
    parser.add_argument("--report", metavar="FILE", help="write findings to FILE, one JSON document per line")
    parser.add_argument(
        "--ptx", metavar="DIR", help="write each module's PTX to DIR, under the file name that findings use"
    )
    parser.add_argument(
        "--preload",
        action=BooleanOptionalAction,
        default=True,
        help="load the simulator's libcudart, libnvrtc and libnvJitLink before the program's own",
    )
    parser.add_argument(
        "--link-flags",
        action="store_true",
        help="print where the driver library lies, as the linker's option for -lcuda, and run nothing",
    )
    parser.set_defaults(json=False)
    parser.add_argument("program", nargs="*", metavar="PROGRAM", help="the program and its arguments, after --")


def command_exec(options: Namespace) -> int:
    """Run the program. Returns its exit status, or 1 if it succeeded but there were findings of severity error."""
    from warpsim.driver.library import build, environment  # other commands start without it

    if options.link_flags:
        print(f"-L{build()}")
        return 0
    if not options.program:
        raise Unusable("which program? warpsim exec [OPTIONS] -- PROGRAM ARGS")
    for target in (options.device or os.environ.get("WARPSIM_DEVICE") or "sm_90a").split(","):
        Device(target)
    resolve_checks(options.checks)
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.abspath(options.report or os.path.join(folder, "report"))
        with open(report, "ab"):  # refused here if it cannot be written
            pass
        env = environment(build(Path(folder)), os.environ, preload=options.preload)
        env.pop(FILE, None)  # the report holds the findings
        for name, variable in VARIABLES.items():
            value = getattr(options, name)
            if value is not None:
                env[variable] = str(value)
        if options.ptx:
            os.makedirs(options.ptx, exist_ok=True)
            env["WARPSIM_PTX"] = os.path.abspath(options.ptx)
        env["WARPSIM_REPORT"] = report
        start = os.path.getsize(report)
        status = _run(options.program, env)
        records = _records(report, start)
    errors = [r for r in records if r["severity"] == "error"]
    command = shlex.join(["warpsim", "exec", *options.program])
    tell([f"{command}: {record.get('text', record['message'])}" for record in errors])
    if errors:
        where = f" (in {options.report})" if options.report else ""
        print(f"warpsim: {len(errors)} finding{'s' * (len(errors) > 1)}{where}", file=sys.stderr)
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


def _records(path: str, start: int) -> list[dict[str, Any]]:
    records = []
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
        stream.seek(start)
        for line in stream:
            with contextlib.suppress(ValueError):  # cut off, as the program was
                records.append(json.loads(line))
    return records

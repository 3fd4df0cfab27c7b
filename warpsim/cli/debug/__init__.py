"""``warpsim debug run|replay``: a debug session at the terminal, with gdb's commands."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import Any

from warpsim.cli.debug.shell import Shell, Terminal
from warpsim.cli.output import Unusable, document, end
from warpsim.debug import Session
from warpsim.errors import ExecutionError, PtxError
from warpsim.host.files import text_of
from warpsim.report.findings import finding_record


def run_debugger(options: Namespace) -> int:
    """Run a launch under the debugger; returns the exit status: 2 if a command of ``-x`` or ``-ex`` was refused. With
    ``--json`` the dialogue goes to standard error.
    """
    from warpsim.cli.launching import Left, launch_from, launch_options
    from warpsim.cli.replaying import find_case
    from warpsim.cli.reporting import failed, print_case, report_cases, report_launch, show_profile
    from warpsim.host.cases import run_case

    first = [line for kind, text in options.first or [] for line in ([text] if kind == "command" else _lines(text))]
    out = sys.stderr if options.json else sys.stdout
    refused: list[str] = []

    def launch(kernel: Any, grid: Any, block: Any, args: Any, **more: Any) -> Any:
        session = Session(kernel, grid, block, args, **more)
        shell = Shell(session, out, colour=_has_colour(out))
        terminal = Terminal(shell)
        shell.dialogue(first, terminal.read, lambda: not terminal.tty)
        refused.extend(shell.refused)
        if not session.timeline.ended:
            shell.say(f"Left at step {session.stop.step}, before the end.")
            raise Left(session.stop.step, shell.console.errors)
        if session.error is not None:
            raise session.error
        return session.result

    try:
        if options.kind == "replay":
            path = find_case(options.case[0])
            given = launch_options(options)
            result = run_case(path, device=options.device, numerics=options.numerics, launch=launch, **given)
            if not options.json:
                print_case(result, bits=options.bits)
            show_profile(result.profile, options)
            status = report_cases([result], options, error="; ".join(refused) or None)
            return end("; ".join(refused), 2, as_json=False) if refused else status
        done = launch_from(options, launch)
        show_profile(done.result.profile, options)
        return report_launch(done, refused, as_json=options.json)
    except (ExecutionError, PtxError) as problem:
        return failed(problem, as_json=options.json)
    except Left as left:
        step, errors = left.args
        if options.json:
            error = "; ".join(refused) or None
            document({"error": error, "left_at": step, "findings": [finding_record(f) for f in errors]})
        return end("; ".join(refused), 2, as_json=False) if refused else int(bool(errors))


def _lines(name: str) -> list[str]:
    """Read the commands in a file."""
    try:
        return text_of(name).splitlines()
    except (OSError, ValueError) as problem:
        raise Unusable(f"cannot read {name}: {problem}") from None


def _has_colour(stream: Any) -> bool:
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM", "dumb") != "dumb"

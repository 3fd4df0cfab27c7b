"""Commands for testing kernels: shrink, record, init-tests."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from warpsim.cli.output import document
from warpsim.errors import LaunchError


def add_commands(commands: Any) -> None:
    """Declare the commands."""
    shrink = commands.add_parser("shrink", help="reduce a failing case while it still fails in the same way")
    shrink.add_argument("case", help="the folder of a case that fails")
    shrink.add_argument("-o", "--output", metavar="DIR", help="where to write the smaller case (CASE-small)")
    shrink.add_argument("--seconds", type=float, default=60.0, metavar="S", help="how long to try (60)")
    shrink.add_argument("--checks", help="as for replay")
    shrink.add_argument("--async-effects", choices=["eager", "at_wait"], help="as for replay")
    shrink.add_argument("--schedule", type=int, metavar="SEED", help="as for replay")
    shrink.add_argument("--json", action="store_true", help="print one JSON document")
    shrink.set_defaults(action=command_shrink)
    record = commands.add_parser("record", help="run a program on a real GPU and write its launches as cases")
    record.add_argument("-o", "--output", metavar="DIR", default="cases", help="where to write the cases (cases)")
    record.add_argument("--kernels", default="*", metavar="PATTERN", help="only kernels whose names match (*)")
    record.add_argument("--launches", type=int, metavar="N", help="at most N launches per process")
    record.add_argument("program", nargs="+", metavar="COMMAND", help="the program and its arguments, after --")
    record.set_defaults(action=command_record)
    template = commands.add_parser(
        "init-tests", help="create a folder with a kernel, its tests, and a CI workflow without a GPU"
    )
    template.add_argument("directory", help="the folder to create")
    template.add_argument("--json", action="store_true", help="print one JSON document")
    template.set_defaults(action=command_init_tests)


def command_shrink(options: Namespace) -> int:
    """Shrink a failing case."""
    from warpsim.cli.replaying import find_case
    from warpsim.testing.shrinking import shrink

    case = find_case(options.case)
    given = {"checks": options.checks, "async_effects": options.async_effects, "schedule": options.schedule}
    said: list[str] = []
    written = shrink(
        case,
        options.output or case.with_name(f"{case.name}-small"),
        seconds=options.seconds,
        said=said.append if options.json else print,
        **{key: value for key, value in given.items() if value is not None},
    )
    if options.json:
        document({"case": str(written), "steps": said})
    else:
        print(f"written: {written}; run: warpsim replay {written}")
    return 0


def command_record(options: Namespace) -> int:
    """Record the launches of a program on this machine's GPU."""
    from warpsim.capture.session import record_command

    return record_command(options.program, options.output, options.kernels, options.launches)


def command_init_tests(options: Namespace) -> int:
    """Write the starter repository."""
    from warpsim.testing.template import write

    try:
        names = write(options.directory)
    except OSError as problem:
        raise LaunchError(f"cannot write {options.directory}: {problem}") from None
    if options.json:
        print(json.dumps({"directory": options.directory, "files": names}))
    else:
        print("\n".join(names))
        print(f"now: cd {options.directory} && python -m pytest")
    return 0

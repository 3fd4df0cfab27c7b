"""The commands for those who keep tests of kernels: shrink, record, init-tests."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from warpsim.cli.outcome import document
from warpsim.errors import LaunchError


def add_commands(commands: Any) -> None:
    """Their grammar."""
    shrink = commands.add_parser("shrink", help="a smaller launch that fails in the same way")
    shrink.add_argument("case")
    shrink.add_argument("-o", "--output", metavar="DIR", help="where it is written; CASE-small without it")
    shrink.add_argument("--seconds", type=float, default=60.0, help="how long to try (60)")
    shrink.add_argument("--checks")
    shrink.add_argument("--async-effects", choices=["eager", "at_wait"])
    shrink.add_argument("--schedule", type=int, metavar="SEED")
    shrink.add_argument("--json", action="store_true")
    shrink.set_defaults(action=command_shrink)
    record = commands.add_parser("record", help="run a program on a GPU, and write its launches as cases")
    record.add_argument("-o", "--output", metavar="DIR", default="cases", help="where they are written (cases)")
    record.add_argument("--kernels", default="*", help="only those whose names match")
    record.add_argument("--launches", type=int, metavar="N", help="at most so many of each process")
    record.add_argument("program", nargs="+", metavar="COMMAND", help="behind --")
    record.set_defaults(action=command_record)
    template = commands.add_parser("init-tests", help="a folder with a kernel, its tests, and a workflow without a GPU")
    template.add_argument("directory")
    template.add_argument("--json", action="store_true")
    template.set_defaults(action=command_init_tests)


def command_shrink(options: Namespace) -> int:
    """Shrink a failing case."""
    from warpsim.cli.programs import find_case
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
    """Record what a program launches on this machine's GPU."""
    from warpsim.capture.session import record_command

    return record_command(options.program, options.output, options.kernels, options.launches)


def command_init_tests(options: Namespace) -> int:
    """Write the template of a repository with tests of kernels."""
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

"""Translates an editor's launch configuration into command-line options."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from warpsim.cli.dap.keys import check_launch
from warpsim.debug import DebugError

OPTIONS = {
    "device": "--device",
    "checks": "--checks",
    "asyncEffects": "--async-effects",
    "numerics": "--numerics",
    "maxInstructions": "--max-instructions",
    "maxSeconds": "--max-seconds",
    "schedule": "--schedule",
}
LAUNCH = {"kernel": "--kernel", "grid": "--grid", "block": "--block", "shared": "--shared", "cluster": "--cluster"}
SHOWN: dict[str, tuple[object, ...]] = {
    "stopOnEntry": (True, False),
    "stayAtEnd": (True, False),
    "sources": ("ptx", "cuda"),
}
"""What the adapter itself looks at, and its legal values."""
KNOWN = {**OPTIONS, **LAUNCH, **SHOWN, "program": "", "case": "", "args": ""}


def run(given: dict[str, Any], serve: Callable[..., Any]) -> int:
    """Run what a launch configuration describes, with ``serve`` in place of the launch; returns the exit status.

    Raises:
        Unusable: the configuration is invalid.
    """
    from warpsim.cli.grammar import parser
    from warpsim.cli.launching import launch_from, launch_options
    from warpsim.cli.programs import find_case
    from warpsim.cli.reporting import print_case, report_launch
    from warpsim.host.cases import run_case

    check_launch(given, KNOWN)
    for name, values in SHOWN.items():
        if given.get(name, values[0]) not in values:
            raise DebugError(f"launch: {name} is {' or '.join(map(json.dumps, values))}, not {json.dumps(given[name])}")
    if ("case" in given) == ("program" in given):
        raise DebugError("a launch configuration needs a program (PTX) or a case (a recorded launch)")
    foreign = [name for name in (*LAUNCH, "args") if name in given] if "case" in given else []
    if foreign:
        raise DebugError(f"launch: a recorded launch has its own {', '.join(foreign)}")
    words = ["debug", "replay", str(given["case"])] if "case" in given else ["debug", "run", str(given["program"])]
    chosen = {**OPTIONS, **({} if "case" in given else LAUNCH)}
    for name, option in chosen.items():
        if given.get(name) is not None:
            words.append(f"{option}={_text(given[name])}")
    for argument in given.get("args") or [] if "program" in given else []:
        words.append(f"--arg={argument}")
    options = parser().parse_args(words)
    if options.kind == "replay":
        keywords = launch_options(options)
        case = find_case(options.case[0])
        result = run_case(case, device=options.device, numerics=options.numerics, launch=serve, **keywords)
        print_case(result, bits=False)
        return int(not result.ok)
    return report_launch(launch_from(options, serve), as_json=False)


def _text(value: Any) -> str:
    """Format 16 or [16, 16] as the command line expects it."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)

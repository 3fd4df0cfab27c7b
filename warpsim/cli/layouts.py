"""``warpsim layout``: who holds which element of a matrix instruction's operands."""

from __future__ import annotations

from argparse import Namespace

from warpsim.cli.outcome import Unusable, document
from warpsim.host.device import Device
from warpsim.layout import instructions, pictures


def show_layout(options: Namespace) -> int:
    """Print the fragments of an instruction; exit status 2 where it is none."""
    device = Device(options.device or "sm_90a")
    try:
        found = instructions.operands(options.instruction, device.sm)
    except ValueError as problem:
        raise Unusable(str(problem)) from None
    if options.operand is not None:
        wanted = options.operand.lower()
        if wanted not in found:
            raise Unusable(
                f"{options.instruction} has no operand {options.operand} in registers; it has {', '.join(found)}"
            )
        found = {wanted: found[wanted]}
    if options.json:
        record = {"instruction": options.instruction, "device": device.target}
        document({**record, "operands": {name: pictures.record(o) for name, o in found.items()}})
    elif options.format == "html":
        print(pictures.page(options.instruction, list(found.values())))
    elif options.format == "svg":
        name, operand = next(iter(found.items()))
        if len(found) > 1:
            raise Unusable(f"an SVG holds one picture: choose --operand {'|'.join(found)} (html holds all)")
        print(pictures.svg(operand, f"{options.instruction}, {name.upper()}"))
    else:
        print(f"{options.instruction} on {device.target}")
        for operand in found.values():
            print("\n" + pictures.text(operand))
    return 0

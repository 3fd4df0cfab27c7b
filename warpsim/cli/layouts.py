"""``warpsim layout``: shows which lane holds which element of a matrix operand."""

from __future__ import annotations

from argparse import Namespace

import attrs

from warpsim.cli.output import Unusable, document
from warpsim.host.device import Device
from warpsim.layout import pictures
from warpsim.layout.drawing import Drawing, svg
from warpsim.layout.instructions import Operand
from warpsim.layout.pictures import Pictures, Placing
from warpsim.layout.pictures import pictures as pictures_of
from warpsim.layout.tiles import Tile
from warpsim.report.pages import layout_page


def show_layout(options: Namespace) -> int:
    """Print the pictures of an instruction; returns 2 if there is no such instruction."""
    device = Device(options.device or "sm_90a")
    try:
        found = _chosen(options, device.sm)
    except ValueError as problem:
        raise Unusable(str(problem)) from None
    if options.json:
        record = {"instruction": options.instruction, "device": device.target}
        document({**record, "operands": {name: _record(o) for name, o in found.items()}})
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
    found = pictures_of(options.instruction, sm, placing)
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
    """The title of a picture."""
    if name[0] == "m" and name[1:].isdecimal():
        return f"matrix {name[1:]}" if count > 1 else "R"
    return name.upper()


def _drawings(name: str, operand: Operand | Tile, count: int) -> list[Drawing]:
    if isinstance(operand, Tile):
        return operand.drawings()
    return [attrs.evolve(operand.drawing(), title=_title(name, count))]


def _record(operand: Operand | Tile) -> dict[str, object]:
    return operand.record() if isinstance(operand, Tile) else pictures.record(operand)

"""Matrix operands of the instruction at which a group stands, as matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.layout import instructions
from warpsim.layout.registers import matrix_of
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.observe.focus import Focus, column
from warpsim.program.program import Instruction, Reg, Vec
from warpsim.types import ELEMENTS

Array = NDArray[Any]


def operand_matrix(machine: Machine, group: Group, focus: Focus, instruction: Instruction, name: str) -> Array:
    """The values of an operand of the warp (or warpgroup) in focus; bits where the type has no values.

    Raises:
        ValueError: the instruction has no such operand in registers; says which it has."""
    sm = machine.launch.device.sm
    found = instructions.operands(instruction.text, sm)
    given = dict(zip((spec.name for spec in instruction.form.operands), instruction.operands, strict=False))
    known = [key for key in found if isinstance(given.get(key), (Vec, Reg))]
    if name not in known:
        raise ValueError(f"{instruction.text} has the operands {', '.join(known)}, not {name!r}")
    fragment, operand = found[name].fragment, given[name]
    parts = operand.elements if isinstance(operand, Vec) else (operand,)
    places = focus.places(machine, group, max(32, fragment.threads))
    if (places < 0).any():
        raise ValueError(f"only {int((places >= 0).sum())} of {len(places)} lanes stand here")
    held = [column(group, part.register.index, places) for part in parts if isinstance(part, Reg)]
    columns = [np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}") for values in held]
    if len(columns) < len(parts) or len(columns) % fragment.registers:
        raise ValueError(f"operand {name} of {instruction.text} has elements that are no registers")
    stack = np.stack(columns[: fragment.registers], axis=-1)[None]
    bits = matrix_of(fragment, stack)[0]
    if found[name].swapped:
        bits = bits.T
    return _valued(np.ascontiguousarray(bits), instruction.text, name)


def _valued(bits: Array, text: str, name: str) -> Array:
    root, words = instructions.split(text)
    if name not in "abcd" or root not in ("mma", "wmma", "wgmma") or words[0] in ("load", "store"):
        return bits
    type = dict(zip("dabc", instructions.types(root, words), strict=True))[name]
    dtype = ELEMENTS[type]
    if type == "e2m1" and not ("kind::mxf4" in words or "kind::mxf4nvf4" in words):
        bits = bits >> np.uint8(2)  # the middle of a byte
    if type == "s4":
        return ((bits ^ np.uint8(8)) - np.uint8(8)).view(np.int8)
    return bits.view(dtype) if bits.dtype.itemsize == dtype.itemsize else bits

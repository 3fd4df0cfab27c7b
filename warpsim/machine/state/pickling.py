"""States as bytes. Parts of the plan are named, not written; the reader supplies the plan, bound anew."""

from __future__ import annotations

import io
import pickle

import attrs

from warpsim.machine.plan import BoundBlock, FunctionPlan, KernelPlan
from warpsim.program.program import Instruction

Named = tuple[str, str, int]
"""The kind of a part of the plan, its function's name, and its index there."""


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, plan: KernelPlan) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._plan = plan
        self._instructions: dict[int, tuple[str, int]] = {}

    def persistent_id(self, value: object) -> Named | None:
        """The plan's name for a part of it; None for a part of the state."""
        if isinstance(value, Instruction):
            return ("instruction", *self._place(value))
        if isinstance(value, FunctionPlan):
            return "function", value.name, 0
        if isinstance(value, BoundBlock):
            return "block", value.function, value.index
        return ("kernel", "", 0) if isinstance(value, KernelPlan) else None

    def _place(self, instruction: Instruction) -> tuple[str, int]:
        if not self._instructions:
            for plan in self._plan.functions:
                for at, other in enumerate(plan.function.code):
                    self._instructions[id(other)] = plan.name, at
        return self._instructions[id(instruction)]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, plan: KernelPlan) -> None:
        super().__init__(file)
        self._plan = plan

    def persistent_load(self, pid: Named) -> KernelPlan | FunctionPlan | BoundBlock | Instruction:
        """The part of the plan with that name."""
        kind, name, index = pid
        if kind == "kernel":
            return self._plan
        function = self._plan.function(name)
        if kind == "function":
            return function
        return function.blocks[index] if kind == "block" else function.function.code[index]


def dump(state: attrs.AttrsInstance, plan: KernelPlan) -> bytes:
    """The fields of a state (an attrs class), as bytes."""
    file = io.BytesIO()
    fields = {field.name: getattr(state, field.name) for field in attrs.fields(type(state))}
    _Pickler(file, plan).dump((type(state), fields))
    return file.getvalue()


def load(plan: KernelPlan, data: bytes) -> object:
    """Read a state of a launch of this plan from bytes."""
    cls, fields = _Unpickler(io.BytesIO(data), plan).load()
    state = cls.__new__(cls)
    for name, value in fields.items():
        setattr(state, name, value)
    return state

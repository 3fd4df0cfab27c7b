"""What a semantics function asks for by name: memory, barriers and the like, the lanes that execute, the reporter."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.machine.asynchrony.warpgroups import SharedMatrix
from warpsim.machine.memory.stack import ThreadStack
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array


def port(machine: Any, name: str, group: Group, active: Any) -> Any:
    """A port of the batch, or the lanes that take part."""
    if name == "active":
        shape = group.selection.shape
        return np.ones(shape, np.bool_) if active is None else np.broadcast_to(active, shape)
    if name == "lane":
        lane: Array = (group.selection.threads & 31).astype(np.int64)
        return lane
    if name == "report":
        return lambda rule, message, lanes=None, **more: machine.fault(rule, message, group, lanes, **more)
    if name == "stack":
        return ThreadStack(machine, group, active)
    if name == "shared_matrix":
        return SharedMatrix(machine, group)
    return machine.ports[name]

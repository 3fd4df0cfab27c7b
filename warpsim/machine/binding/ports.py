"""What a semantics function asks for by name: memory, barriers and the like, the lanes that execute, the reporter."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.machine.asynchrony.warpgroups import SharedMatrix
from warpsim.machine.group import Group
from warpsim.machine.memory.stack import ThreadStack
from warpsim.machine.values import Array


def port(batch: Any, name: str, group: Group, active: Any) -> Any:
    """A port of the batch, or the lanes that take part."""
    if name == "active":
        shape = group.selection.shape
        return np.ones(shape, np.bool_) if active is None else np.broadcast_to(active, shape)
    if name == "lane":
        lane: Array = (group.selection.threads & 31).astype(np.int64)
        return lane
    if name == "report":
        return lambda rule, message, lanes=None, **more: batch.launch.report(batch, rule, message, group, lanes, more)
    if name == "stack":
        return ThreadStack(group, active)
    if name == "shared_matrix":
        return SharedMatrix(group)
    return batch.ports[name]

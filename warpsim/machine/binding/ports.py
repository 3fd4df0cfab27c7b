"""What an instruction's body requests by name: memory, barriers and so on, the executing lanes, the reporter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpsim.machine.asynchrony.bulk import BulkCopies
from warpsim.machine.asynchrony.cp_async import AsyncGroups
from warpsim.machine.asynchrony.map_fences import TensorMapFences
from warpsim.machine.asynchrony.mbarrier_objects import MbarrierObjects
from warpsim.machine.asynchrony.warpgroups import SharedMatrix
from warpsim.machine.memory.access import Memory
from warpsim.machine.memory.stack import ThreadStack
from warpsim.machine.runtime import Clusters
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array


def _active(machine: Any, group: Group, active: Array | None) -> Array:
    shape = group.selection.shape
    return np.ones(shape, np.bool_) if active is None else np.broadcast_to(active, shape)


def _lane(machine: Any, group: Group, active: Array | None) -> Array:
    lane: Array = (group.selection.threads & 31).astype(np.int64)
    return lane


def _report(machine: Any, group: Group, active: Array | None) -> Callable[..., None]:
    return lambda rule, message, lanes=None, **more: machine.fault(rule, message, group, lanes, **more)


PORTS: dict[str, Callable[[Any, Group, Any], Any]] = {
    "memory": Memory,
    "device": lambda machine, group, active: machine.launch.device,
    "active": _active,
    "lane": _lane,
    "report": _report,
    "stack": ThreadStack,
    "shared_matrix": lambda machine, group, active: SharedMatrix(machine, group),
    "async_groups": AsyncGroups,
    "bulk": BulkCopies,
    "maps": TensorMapFences,
    "objects": MbarrierObjects,
    "cluster": Clusters,
}


def port(machine: Any, name: str, group: Group, active: Array | None) -> Any:
    """A port of the group, or its participating lanes."""
    return PORTS[name](machine, group, active)

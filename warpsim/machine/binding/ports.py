"""What an instruction's body requests by name: memory, barriers and so on, the executing lanes, the reporter."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module

import numpy as np

from warpsim.isa.ports import ReportPort
from warpsim.machine.asynchrony.copies import AsyncGroups, BulkCopies, TensorMapFences
from warpsim.machine.asynchrony.mbarrier_objects import MbarrierObjects
from warpsim.machine.asynchrony.wgmma import SharedMatrix
from warpsim.machine.machine import Machine
from warpsim.machine.memory.access import Memory
from warpsim.machine.memory.stack import ThreadStack
from warpsim.machine.runtime import Clusters
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array


def _active(machine: Machine, group: Group, active: Array | None) -> Array:
    shape = group.selection.shape
    return _every(shape) if active is None else np.broadcast_to(active, shape)


@lru_cache(maxsize=64)
def _every(shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(np.True_, shape)  # which takes no memory


def _lane(machine: Machine, group: Group, active: Array | None) -> Array:
    lane: Array = (group.selection.threads & 31).astype(np.int64)
    return lane


def reporter(machine: Machine, group: Group, active: Array | None) -> ReportPort:
    """Reports a broken rule at the group's step."""
    return lambda rule, message, lanes=None, **more: machine.fault(rule, message, group, lanes, **more)


Port = Callable[[Machine, Group, "Array | None"], object]


def _later(module: str, name: str) -> Port:
    """A port of few programs, whose module is imported when a step first asks for it: a process that starts takes 2 ms less."""
    return lambda machine, group, active: getattr(import_module(module), name)(machine, group, active)


PORTS: dict[str, Port] = {
    "memory": Memory,
    "device": lambda machine, group, active: machine.launch.device,
    "active": _active,
    "lane": _lane,
    "report": reporter,
    "stack": ThreadStack,
    "shared_matrix": lambda machine, group, active: SharedMatrix(machine, group),
    "async_groups": AsyncGroups,
    "bulk": BulkCopies,
    "maps": TensorMapFences,
    "objects": MbarrierObjects,
    "cluster": Clusters,
    "textures": _later("warpsim.machine.memory.textures", "Textures"),
    "tensor_core": _later("warpsim.machine.asynchrony.tensor_core", "TensorCore"),
    "cluster_launches": _later("warpsim.machine.asynchrony.cluster_launches", "ClusterLaunches"),
    "tensor": _later("warpsim.machine.asynchrony.tensor_moves", "tensor_port"),
}

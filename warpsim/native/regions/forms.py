"""What one instruction does, as graphs over the registers that it reads: its body traced, its memory accesses in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from warpsim.graph.evaluate import Substitution
from warpsim.graph.nodes import LANES, MemoryAccess, Node, Untraceable, bits, cast, constant, of_array, operate
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Access, Matrix
from warpsim.machine.memory.addresses import WINDOWS, Extent, space_of
from warpsim.machine.plan import FunctionPlan, literal
from warpsim.machine.state.global_memory import PARAM_WINDOW
from warpsim.machine.values import as_array
from warpsim.numerics.arrays import DType
from warpsim.program.program import Instruction, Operand
from warpsim.records import frozen
from warpsim.types import ScalarType, StateSpace

Key: TypeAlias = "int | tuple[Any, ...]"
"""What a region reads: the slot of a register, constant or special register, or ("param", offset, type) and the like."""
U32, U64, BOOL = np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(np.bool_)
PORTS = {
    "async_groups": "asynchronous", "bulk": "asynchronous", "objects": "mbarriers and proxies", "maps": "tensor maps", "textures": "textures and surfaces", "tensor": "tensor memory",
    "tensor_core": "tensor memory", "cluster_launches": "addresses in the cluster",
    "cluster": "addresses in the cluster", "stack": "the thread's stack", "memory": "a collective with memory",
    "report": "checks its operands",
}  # fmt: skip
"""What instructions do that machine code does not, by the ports that they ask for; the first counts."""


@frozen(eq=False)
class Effect:
    """An access of memory: ``values`` are what is stored, or the operands of an atomic's ``update``."""

    kind: str
    space: str
    address: Node
    type: ScalarType
    count: int
    values: tuple[Node, ...] = ()
    update: Node | None = None
    commutes: str = ""
    within: Extent | None = None
    """The variable that the address is made from, if an access could reach another one."""
    lanes: int = LANES
    """So many of a warp's first lanes access memory; what others load, nobody needs."""


@frozen(eq=False)
class Product:
    """A product of matrices: the machine code that computes it, what its registers hold, and how many registers it gives."""

    name: str
    text: str
    values: tuple[Node, ...]
    results: int


@frozen(eq=False)
class Traced:
    """An instruction: ``inputs`` are what it reads, as unsigned integers of the register's width; ``outputs`` the registers
    that it writes, with the value in that width. ``members`` is the membermask, which must name all lanes."""

    inputs: tuple[Key, ...]
    outputs: tuple[tuple[int, Node], ...]
    effects: tuple[Effect, ...] = ()
    guard: tuple[int, bool] | None = None
    collective: bool = False
    members: Node | None = None
    barrier: bool = False
    """All threads of the CTA wait here for one another, and it does nothing else."""
    product: Product | None = None
    stop: Node | None = None
    """Where it holds for any lane that comes here, the launch may have to stop before the instruction."""

    @property
    def stores(self) -> bool:
        """Whether it changes memory."""
        return any(e.kind != "load" for e in self.effects)


def _unsigned(dtype: DType) -> DType:
    return BOOL if dtype.kind == "b" else np.dtype(f"u{dtype.itemsize}")


def place_of(space: str, base: Node, offset: int) -> tuple[str, Node]:
    """Where an access goes, and its address in 64 bits with the offset in it."""
    if space in WINDOWS:
        offset += WINDOWS[space]
        name = "global"
    else:
        name = {"": "generic", "shared::cta": "shared"}.get(space_of(space), space_of(space))
    if name not in ("global", "shared", "local", "generic"):
        raise Untraceable("shared memory of the cluster" if name.startswith("shared") else "parameters of a function")
    if name in ("global", "generic") and base.dtype.itemsize != 8 and space not in WINDOWS:
        raise Untraceable("a global address of 32 bits")
    narrow = name in ("shared", "local")
    return name, cast(_sum(cast(base, U32 if narrow else U64), offset), U64)


def _sum(node: Node, number: int) -> Node:
    if not number:
        return node
    other = constant(number & ((1 << 8 * node.dtype.itemsize) - 1), node.dtype)
    return operate(np.add, [node, other], node.dtype)


class Reader:
    """Operands of an instruction as nodes; ``known`` are registers whose value is known, by their bits."""

    def __init__(self, plan: FunctionPlan, known: Mapping[int, int] | None = None) -> None:
        self.plan = plan
        self.known = known or {}
        self.keys: list[Key] = []

    def read(self, key: Key, dtype: DType) -> Node:
        """What a key holds, as unsigned integers."""
        if key not in self.keys:
            self.keys.append(key)
        return Node("input", (), _unsigned(dtype), self.keys.index(key))

    def value(self, operand: Operand) -> Node:
        """A single value, in the type with which the instruction reads it."""
        register, dtype, slot = operand.register, operand.type.dtype, self.plan.slot(operand)
        if operand.constant is not None:
            return of_array(as_array(literal(operand.constant, operand.type)))
        if register is not None and register.index in self.known:
            mask = (1 << 8 * dtype.itemsize) - 1
            return bits(constant(self.known[register.index] & mask, _unsigned(dtype)), dtype)
        if register is not None:
            node = self.read(register.index, register.type.dtype)
        elif slot is not None:
            node = self.read((slot, operand.type.name), dtype)
        elif (at := self.plan.in_frame(operand)) is not None:
            node = self.read(("frame", at, dtype.str), dtype)
        else:
            raise Untraceable("a clock")
        if node.dtype.itemsize > dtype.itemsize:
            node = cast(node, _unsigned(dtype))
        node = bits(node, dtype)
        return operate(np.invert, [node], BOOL) if operand.negated else node

    def address(self, operand: Operand) -> tuple[Node, int]:
        """What stands in brackets: a base, and what is added to it."""
        base, offset = operand.base, operand.offset
        assert base is not None
        if operand.coordinates:
            raise Untraceable(PORTS["maps"])
        variable, at, number = base.variable, self.plan.in_frame(base), self.plan.number(base)
        if base.register is not None:
            node = self.read(base.register.index, base.type.dtype)
            return cast(node, U64 if base.type.bits == 64 else U32), offset
        if at is not None:
            return self.read(("frame", at + offset, U64.str), U64), 0
        if number is None:
            assert base.parameter is not None
            at = base.parameter.offset + offset - (0 if base.generic else PARAM_WINDOW)
            return self.read(("parameters", at), U64), 0
        if variable is None or variable.space is StateSpace.SHARED:
            return constant(number, U64), offset
        return self.read(("number", number), U64), offset


def written(operand: Operand, node: Node, found: list[tuple[int, Node]]) -> None:
    """The register that a result goes to, as `warpsim.machine.binding.operand_slots.destination` commits it."""
    register = operand.register
    if register is None:
        return
    target = _unsigned(register.type.dtype)
    if target.kind == "b" or node.dtype.kind == "b":
        if node.dtype.kind != target.kind:
            raise Untraceable("a predicate of numbers")
    else:
        kind = "i" if operand.type.signed and node.dtype.itemsize < target.itemsize else "u"
        node = cast(bits(node, np.dtype(f"{kind}{node.dtype.itemsize}")), target)
    found.append((register.index, node))


def _parameters(plan: FunctionPlan, instruction: Instruction) -> Traced | None:
    """Loads of kernel parameters by name."""
    if instruction.traits.access is not Access.LOAD:
        return None
    address = instruction.inputs[0]
    param = address.base.parameter if address.base is not None else None
    if param is None or not plan.function.entry:
        return None
    if plan.within(instruction, address) is not None:
        raise Untraceable("a load beyond a parameter")
    if instruction.guard is not None:
        raise Untraceable("a guarded load of parameters")
    offset, target = param.offset + address.offset, instruction.operands[0]
    type = target.type
    if type.dtype.kind == "b":
        raise Untraceable("a predicate in memory")
    keys: list[Key] = []
    found: list[tuple[int, Node]] = []
    for k, element in enumerate(target.parts):
        keys.append(("param", offset + k * type.bytes, type.name))
        node = bits(Node("input", (), _unsigned(type.dtype), k), type.dtype)
        written(element, node, found)
    return Traced(tuple(keys), tuple(found))


def is_barrier(instruction: Instruction) -> bool:
    """Whether all threads of the CTA wait for one another, and nothing else happens."""
    barrier = instruction.traits.barrier
    if barrier is None or barrier.among != "cta" or not barrier.waits or barrier.reduction or instruction.guard:
        return False
    operands = instruction.operands
    return len(operands) <= 1 and all(o.constant is not None and o.constant < 16 for o in operands)


def refusal(instruction: Instruction) -> str | None:
    """Why no machine code does what an instruction does, in plain words, where that is known without tracing its body."""
    form, traits = instruction.form, instruction.traits
    if form.scope is Scope.WARPGROUP:
        return PORTS["bulk"]
    if form.scope is Scope.THREAD and traits.synchronises and "memory" in form.ports:
        return PORTS["memory"]
    if form.scope is Scope.SYNC or (form.scope is Scope.THREAD and traits.synchronises):
        return "waits"
    if form.scope is Scope.CONTROL:
        return "leaves the function or the region"
    if traits.matrix is Matrix.MULTIPLY:
        return "a matrix product of this kind"
    if any(part.is_plain and part.type.bits > 64 for operand in instruction.operands for part in operand.parts):
        return "128-bit registers"
    taken = {"active", "report"} if form.scope is Scope.WARP else {"memory"}
    reasons = [reason for port, reason in PORTS.items() if port in form.ports - taken]
    return reasons[0] if reasons else None


def traced(plan: FunctionPlan, instruction: Instruction, known: Mapping[int, int] | None = None) -> Traced:
    """An instruction's graphs; ``known`` are registers whose value is known, by their bits.

    Raises:
        Untraceable: where it has to be left to the interpreter.
    """
    form = instruction.form
    if is_barrier(instruction):
        return Traced((), (), barrier=True)
    if (reason := refusal(instruction)) is not None:
        raise Untraceable(reason)
    special = _parameters(plan, instruction)
    if special is not None:
        return special
    guard = None if instruction.guard is None else (instruction.guard[0].index, instruction.guard[1])
    collective = form.scope is Scope.WARP
    if collective and guard is not None:
        raise Untraceable("a collective under a guard")
    reader, members = Reader(plan, known), None
    nodes: list[tuple[Node, int]] = []
    extents: dict[int, Extent | None] = {}
    for spec, operand in zip(form.operands[form.n_dest :], instruction.inputs, strict=False):
        if operand.base is not None:
            extents[len(nodes)] = plan.within(instruction, operand)
            nodes.append(reader.address(operand))
        elif collective and spec.name == "membermask":
            members = reader.value(operand)
        elif not spec.constant:
            nodes += [(reader.value(e), 0) for e in operand.parts]
    graph, bind = instruction.graph, Substitution([node for node, _ in nodes])
    found: list[tuple[int, Node]] = []
    for operand, results in zip(instruction.outputs, graph.outputs, strict=False):
        for part, result in zip(operand.parts, results, strict=True):
            written(part, bind(result), found)
    if graph.updates_a_vector:
        raise Untraceable("a vector of atomics")
    effects = tuple([_effect(a, *nodes[a.place.input], extents[a.place.input], bind) for a in graph.accesses])
    return Traced(tuple(reader.keys), tuple(found), effects, guard, collective, members)


def _effect(access: MemoryAccess, base: Node, offset: int, within: Extent | None, bind: Substitution) -> Effect:
    """An access with the operands of an instruction."""
    if within is not None and within.kind == "local":
        raise Untraceable("one of several local variables")
    space, address = place_of(access.space, base, offset + access.place.offset)
    values, type = tuple([bind(v) for v in access.values]), access.type
    if access.count * type.bytes > 16:
        raise Untraceable("an access of more than 16 bytes")
    if access.kind == "atomic" and space not in ("global", "shared"):
        raise Untraceable("an atomic at a generic address")
    if access.kind == "atomic" and space == "shared" and type.bytes > 4:
        raise Untraceable("an atomic of 64 bits in shared memory")
    if access.kind == "store":
        values = tuple([bits(v, _unsigned(type.dtype)) for v in values])
    return Effect(access.kind, space, address, type, access.count, values, access.update, access.commutes, within)

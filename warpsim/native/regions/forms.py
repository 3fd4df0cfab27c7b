"""What one instruction does, as graphs over the registers that it reads: its body traced, its memory accesses in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from warpsim.isa.data_movement import Unpacked
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Access, Matrix
from warpsim.machine.memory.addresses import Address, space_of
from warpsim.machine.plan import literal
from warpsim.machine.state.global_memory import CONST_ADDRESS
from warpsim.machine.values import Affine, Array
from warpsim.native.trace import Lane, Node, Untraceable, bits, cast, constant, node_of, trace
from warpsim.program.program import Instruction, Operand
from warpsim.types import ScalarType, StateSpace

if TYPE_CHECKING:
    from warpsim.machine.plan import FunctionPlan

Key = Any
"""What a unit reads: the slot of a register, constant or special register, or ("param", offset, type) and the like."""
U32, U64, BOOL = np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(np.bool_)
WARP = (1, 32, 1)
PORTS = {
    "async_groups": "asynchronous", "bulk": "asynchronous", "objects": "mbarriers and proxies", "maps": "tensor maps",
    "cluster": "addresses in the cluster", "stack": "the thread's stack", "memory": "a collective with memory",
    "report": "checks its operands",
}  # fmt: skip
"""What instructions do that machine code does not, by the ports that they ask for; the first counts."""
COMMUTING = frozenset({"add", "min", "max", "and", "or", "xor"})


@attrs.frozen(eq=False)
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


@attrs.frozen(eq=False)
class Product:
    """A product of matrices: the machine code that computes it, what its registers hold, and how many registers it gives."""

    name: str
    text: str
    values: tuple[Node, ...]
    results: int


@attrs.frozen(eq=False)
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

    @property
    def stores(self) -> bool:
        """Whether it changes memory."""
        return any(e.kind != "load" for e in self.effects)


class _Port:
    """The memory of a body that is traced."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []

    def load(self, space: str, address: Address, type: ScalarType, count: int = 1) -> tuple[Lane, ...]:
        """Note a load."""
        where, base = place_of(space, address)
        self._note(Effect("load", where, base, type, count))
        number = len(self.effects) - 1
        return tuple([Lane(Node("load", (), type.dtype, (number, k))) for k in range(count)])

    def store(self, space: str, address: Address, type: ScalarType, values: tuple[Any, ...]) -> None:
        """Note a store."""
        where, base = place_of(space, address)
        given = tuple([bits(node_of(v, type.dtype), _unsigned(type.dtype)) for v in values])
        self._note(Effect("store", where, base, type, len(values), given))

    def atomic(
        self,
        space: str,
        address: Address,
        type: ScalarType,
        update: Callable[..., Any],
        operands: tuple[Any, ...],
        *,
        returns: bool,
        kind: str = "",
        shared: Callable[..., Any] | None = None,
        safe_sum: Any = None,
    ) -> Lane | None:
        """Note an atomic; what it leaves in memory is a graph over what it finds there."""
        where, base = place_of(space, address)
        if where not in ("global", "shared"):
            raise Untraceable("an atomic at a generic address")
        if where == "shared" and type.bytes > 4:
            raise Untraceable("an atomic of 64 bits in shared memory")
        if shared is not None and where == "shared":
            update = shared
        old = Lane(Node("input", (), type.dtype, 0))
        given = [node_of(v, type.dtype) for v in operands]
        places = [Lane(Node("input", (), g.dtype, k + 1)) for k, g in enumerate(given)]
        new = node_of(update(old, *places), type.dtype)
        new = bits(new, type.dtype) if new.dtype.itemsize == type.dtype.itemsize else cast(new, type.dtype)
        commutes = kind if kind in COMMUTING and type.dtype.kind in "iu" else ""
        self._note(Effect("atomic", where, base, type, 1, tuple(given), new, commutes))
        return Lane(Node("atomic", (), type.dtype, (len(self.effects) - 1, 0))) if returns else None

    def advance(self, address: Address, nbytes: int) -> Address:
        """An address further on."""
        return Address(address.base, address.offset + nbytes)

    def _note(self, effect: Effect) -> None:
        if effect.count * effect.type.bytes > 16:
            raise Untraceable("an access of more than 16 bytes")
        self.effects.append(effect)


def _unsigned(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return BOOL if dtype.kind == "b" else np.dtype(f"u{dtype.itemsize}")


def place_of(space: str, address: Address) -> tuple[str, Node]:
    """Where an access goes, and its address in 64 bits with the offset in it."""
    base, offset = address.base, address.offset
    node: Node = base.node if isinstance(base, Lane) else node_of(base)
    if space == "const":
        if node.dtype.itemsize == 4:
            offset += CONST_ADDRESS
        name = "global"
    else:
        name = {"": "generic", "shared::cta": "shared"}.get(space_of(space), space_of(space))
    if name not in ("global", "shared", "local", "generic"):
        raise Untraceable("shared memory of the cluster" if name.startswith("shared") else "parameters of a function")
    if name in ("global", "generic") and node.dtype.itemsize != 8 and space != "const":
        raise Untraceable("a global address of 32 bits")
    if name in ("shared", "local"):
        narrow = cast(bits(node, _unsigned(node.dtype)), U32)
        if offset:
            narrow = (Lane(narrow) + np.uint32(offset & (2**32 - 1))).node
        return name, cast(narrow, U64)
    wide = cast(bits(node, _unsigned(node.dtype)), U64)
    if offset:
        wide = (Lane(wide) + np.uint64(offset & (2**64 - 1))).node
    return name, wide


class Reader:
    """Operands of an instruction as stand-ins."""

    def __init__(self, plan: FunctionPlan, shape: tuple[int, ...], known: Mapping[int, int]) -> None:
        self.plan = plan
        self.shape = shape
        self.known = known
        self.keys: list[Key] = []

    def key(self, key: Key, dtype: np.dtype[Any]) -> Node:
        """What a key holds, as unsigned integers."""
        if key not in self.keys:
            self.keys.append(key)
        return Node("input", (), _unsigned(dtype), self.keys.index(key))

    def _lane(self, node: Node, dtype: np.dtype[Any]) -> Lane:
        if node.dtype.itemsize > dtype.itemsize:
            node = cast(node, _unsigned(dtype))
        return Lane(bits(node, dtype), self.shape)

    def source(self, operand: Operand) -> Any:
        """Any source operand."""
        register, dtype, slot = operand.register, operand.type.dtype, self.plan.slot(operand)
        if register is not None:
            if register.index in self.known and self.shape == WARP:
                bits_ = self.known[register.index]
                raw = np.array(bits_ & (2 ** (8 * dtype.itemsize) - 1), _unsigned(dtype))
                return np.full((1, 1, 1), raw.view(dtype))
            lane = self._lane(self.key(register.index, register.type.dtype), dtype)
            return ~lane if operand.negated else lane
        if operand.constant is not None:
            value = literal(operand.constant, operand.type)
            array = value.array() if isinstance(value, Affine) else value
            if self.shape == WARP:
                return array.reshape(1, 1, 1)
            return Lane(constant(array.reshape(()), array.dtype), self.shape)
        if slot is not None:
            return self._lane(self.key((slot, operand.type.name), dtype), dtype)
        if operand.base is not None:
            if operand.coordinates:
                raise Untraceable("tensor maps")
            return self._address(operand.base, operand.offset)
        if operand.elements is not None:
            return tuple([self.source(e) for e in operand.elements])
        at = self.plan.in_frame(operand)
        if at is None:
            raise Untraceable("a clock")
        return self._lane(self.key(("frame", at, dtype.str), dtype), dtype)

    def _address(self, base: Operand, offset: int) -> Address:
        """What stands in brackets."""
        variable, at, number = base.variable, self.plan.in_frame(base), self.plan.number(base)
        if base.register is not None:
            node = self.key(base.register.index, base.type.dtype)
            return Address(_stand_in(cast(node, U64 if base.type.bits == 64 else U32)), offset)
        if at is not None:
            return Address(_stand_in(self.key(("frame", at + offset, U64.str), U64)))
        if number is None:
            assert base.parameter is not None
            return Address(_stand_in(self.key(("parameters", base.parameter.offset + offset), U64)))
        if variable is None or variable.space is StateSpace.SHARED:
            return Address(_stand_in(constant(number, U64)), offset)
        return Address(_stand_in(self.key(("number", number), U64)), offset)


def _stand_in(node: Node) -> Array:
    """A node as the lanes of an address, which bodies only pass on."""
    lane: Any = Lane(node)
    return lane


def written(operand: Operand, value: Any, found: list[tuple[int, Node]]) -> None:
    """The registers that a result goes to, as `warpsim.machine.binding.operand_slots.destination` commits it."""
    if value is None:
        return
    if operand.elements is not None:
        parts = value.parts(len(operand.elements)) if isinstance(value, Unpacked) else value
        for element, part in zip(operand.elements, parts, strict=True):
            written(element, part, found)
        return
    register = operand.register
    if register is None:
        return
    node = node_of(value)
    target = _unsigned(register.type.dtype)
    if target.kind == "b" or node.dtype.kind == "b":
        if node.dtype.kind != target.kind:
            raise Untraceable("a predicate of numbers")
    else:
        kind = "i" if operand.type.signed and node.dtype.itemsize < target.itemsize else "u"
        node = cast(bits(node, np.dtype(f"{kind}{node.dtype.itemsize}")), target)
    found.append((register.index, node))


def reader_of(plan: FunctionPlan, shape: tuple[int, ...]) -> Reader:
    """Reads operands of which nothing is known."""
    return Reader(plan, shape, {})


def _parameters(plan: FunctionPlan, instruction: Instruction) -> Traced | None:
    """Loads of kernel parameters by name."""
    if instruction.traits.access is not Access.LOAD:
        return None
    address = instruction.inputs[0]
    param = address.base.parameter if address.base is not None else None
    if param is None or not plan.function.entry:
        return None
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
        written(element, Lane(node), found)
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
    form, op = instruction.form, instruction.op
    if is_barrier(instruction):
        return Traced((), (), barrier=True)
    if (reason := refusal(instruction)) is not None:
        raise Untraceable(reason)
    special = _parameters(plan, instruction)
    if special is not None:
        return special
    guard = None if instruction.guard is None else (instruction.guard[0].index, instruction.guard[1])
    sources = instruction.inputs
    whole = form.scope is Scope.WARP
    reader = Reader(plan, WARP if whole else (2,), known or {})
    ports: dict[str, Any] = {}
    port, members = _Port(), None
    if whole:
        if guard is not None:
            raise Untraceable("a collective under a guard")
        ports = {"active": np.ones(WARP, np.bool_), "report": lambda *_, **__: None}
        ports = {name: ports[name] for name in form.ports}
    elif form.ports:
        ports = {"memory": port}
    arguments = []
    for spec, operand in zip(form.operands[form.n_dest :], sources, strict=False):
        value = reader.source(operand)
        if whole and spec.name == "membermask":
            members = value.node if isinstance(value, Lane) else node_of(value)
            value = np.full((1, 1, 1), 0xFFFFFFFF, np.uint32)
        arguments.append(value)
    found: list[tuple[int, Node]] = []

    def body() -> None:
        result = form.function(op, *arguments, **ports)
        destinations = instruction.outputs
        if len(destinations) == 1:
            written(destinations[0], result, found)
        elif destinations:
            for operand, part in zip(destinations, result, strict=True):
                written(operand, part, found)

    trace(body)
    return Traced(tuple(reader.keys), tuple(found), tuple(port.effects), guard, whole, members)

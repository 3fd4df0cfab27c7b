"""Operands of matrix instructions as matrices: values, and the owner of each element."""

from __future__ import annotations

from html import escape
from typing import Any

import attrs
import numpy as np

from warpsim.debug.errors import DebugError
from warpsim.debug.evaluation import Context
from warpsim.debug.threads import group_states, peek, places
from warpsim.isa.spec import Scope
from warpsim.layout import descriptors, fragments, instructions
from warpsim.layout.fragment import Fragment, matrix_of
from warpsim.layout.instructions import Operand as Spec
from warpsim.layout.wmma_fragments import dimensions
from warpsim.machine.values import Array
from warpsim.numerics.arrays import DType
from warpsim.program.program import Instruction, Operand, Register
from warpsim.records import frozen
from warpsim.report import pages
from warpsim.types import ELEMENTS

NO_OWNER = "not stored: the metadata skip this element"


@frozen(eq=False)
class Matrix:
    """An operand as it stands now: ``values`` ``[rows, columns]``, masked where the owning thread does not stand here.

    For an operand in registers, ``lanes`` (0 to 127 within a warpgroup) and ``registers`` (names) give the owner of
    each element; for one in shared memory, ``addresses`` does. ``axes`` names rows and columns.
    """

    name: str
    instruction: str
    line: int
    axes: tuple[str, str]
    values: Array
    lanes: Array | None = None
    registers: Array | None = None
    addresses: Array | None = None
    note: str = ""

    def owner(self, row: int, column: int) -> str:
        """Name the owner of an element: lane and register, or address and bank.

        Raises:
            DebugError: there is no such element.
        """
        rows, columns = self.values.shape
        if not (0 <= row < rows and 0 <= column < columns):
            raise DebugError(f"{self.name} is {rows} x {columns}: there is no element [{row},{column}]")
        if self.addresses is not None:
            if self.addresses[row, column] < 0:
                return NO_OWNER
            address = int(self.addresses[row, column])
            return f"shared 0x{address:x}, bank {address >> 2 & 31}"
        assert self.lanes is not None
        assert self.registers is not None
        if self.lanes[row, column] < 0:
            return NO_OWNER
        return f"lane {int(self.lanes[row, column])}, {self.registers[row, column]}"

    def _repr_html_(self) -> str:
        rows, columns = self.values.shape
        head = "".join(f"<th>{column}</th>" for column in range(columns))

        def cell(row: int, column: int) -> str:
            return f'<td title="{escape(self.owner(row, column))}">{escape(str(self.values[row, column]))}</td>'

        lines = ("".join(cell(row, column) for column in range(columns)) for row in range(rows))
        body = "".join(f"<tr><th>{row}</th>{cells}</tr>" for row, cells in enumerate(lines))
        title = f"{self.name} of {self.instruction}: {' x '.join(self.axes)}"
        table = pages.scrolling(f"<thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody>")
        return pages.part(f"<p>{escape(title)}</p>{table}")


SELECTORS = ("sp_sel", "f")
"""Operand names of the sparsity selector, which chooses the lanes that hold the metadata."""


def selected(spec: Spec, given: dict[str, Operand], bits: int) -> Spec:
    """The metadata operand ``spec`` of an instruction with ``bits``-bit elements, for its sparsity selector."""
    selector = next((given[name] for name in SELECTORS if name in given), None)
    number = selector.constant or 0 if selector is not None else 0
    chunks, rows = spec.fragment.columns, spec.fragment.rows
    count = max(4 // (chunks // 4), 1) if rows == 16 else 2 if bits >= 16 else 1
    fragment = fragments.metadata(chunks, number % count, rows, floats=bits >= 16)
    return attrs.evolve(spec, fragment=fragment, note=f"two 2-bit indices for each chunk of k; selector {number}")


def expanded(stored: Matrix, metadata: Matrix, bits: int) -> Matrix:
    """A with masked elements where the metadata leave one out; each stored element keeps its owner."""
    at = fragments.stored_positions(np.ma.getdata(metadata.values).T, bits).T
    rows, columns = stored.values.shape
    index = np.arange(rows)[:, None], at
    values = np.zeros((rows, 2 * columns), np.ma.getdata(stored.values).dtype)
    values[index] = np.ma.getdata(stored.values)
    away = np.ones(values.shape, np.bool_)
    away[index] = np.ma.getmaskarray(stored.values)
    owners: dict[str, Any] = {}
    for name in ("lanes", "registers", "addresses"):
        known = getattr(stored, name)
        if known is not None:
            owners[name] = np.full(values.shape, "" if known.dtype == object else -1, known.dtype)
            owners[name][index] = known
    note = f"{columns} columns of {2 * columns} are stored: matrix a_stored" + (
        f"; {stored.note}" if stored.note else ""
    )
    shown = np.ma.MaskedArray(values, away)
    return attrs.evolve(stored, name="a", axes=("m", "k"), values=shown, note=note, **owners)


DESCRIPTORS = {"a": "a_desc", "b": "b_desc"}
"""Operands in shared memory, and the descriptor operands that locate them."""
METADATA = {"e": "sp_meta"}


def matrix_at(context: Context, instruction: Instruction, name: str) -> Matrix:
    """The operand ``name`` (a, b, c, d, e; a_stored for sparse A) of an instruction, for the warp or warpgroup in
    focus.

    Raises:
        DebugError: the instruction has no such operand; the message lists its operands.
    """
    name = name.strip().lower()
    whole, name = name == "a", "a" if name == "a_stored" else name
    given = instruction.named
    try:
        found = instructions.operands(instruction.text, context.launch.device.sm)
    except ValueError as problem:
        raise DebugError(str(problem)) from None
    shared = [key for key, descriptor in DESCRIPTORS.items() if descriptor in given]
    held = {key: given.get(key, given.get(METADATA.get(key, ""))) for key in found}
    inside = [
        key for key, operand in held.items() if operand is not None and any(part.register for part in operand.parts)
    ]
    sparse = "e" in found
    if name in shared:
        found_a = _in_shared(context, instruction, name, given)
        return _whole(context, instruction, found_a, found, held) if sparse and whole else found_a
    if name not in inside:
        known = sorted({*inside, *shared, *(["a_stored"] if sparse else [])})
        raise DebugError(f"{instruction.text} has the operands {', '.join(known)}, not {name!r}")
    operand = held[name]
    assert operand is not None
    if name == "e":
        return _in_registers(context, instruction, name, selected(found["e"], given, found["a"].fragment.bits), operand)
    shown = _in_registers(context, instruction, name, found[name], operand)
    return _whole(context, instruction, shown, found, held) if sparse and whole else shown


def _whole(
    context: Context, instruction: Instruction, stored: Matrix, found: dict[str, Spec], held: dict[str, Operand | None]
) -> Matrix:
    """Sparse A with its missing elements filled in."""
    operand = held["e"]
    assert operand is not None
    bits = found["a"].fragment.bits
    metadata = selected(found["e"], instruction.named, bits)
    return expanded(stored, _in_registers(context, instruction, "e", metadata, operand), bits)


def _in_registers(context: Context, instruction: Instruction, name: str, spec: Spec, operand: Operand) -> Matrix:
    fragment: Fragment = spec.fragment
    registers = [part.register for part in operand.parts if part.register is not None]
    if len(registers) < len(operand.parts) or len(registers) % fragment.registers:
        raise DebugError(f"operand {name} of {instruction.text} has elements that are not registers")
    threads = 128 if instruction.form.scope is Scope.WARPGROUP else 32
    held, here = _held(context, [r.index for r in registers], threads)
    words = held.view(f"u{held.dtype.itemsize}")
    blocks = []
    for start in range(0, len(registers), fragment.registers):
        blocks.append(_block(fragment, words[start : start + fragment.registers], here, registers[start:]))
    values, lanes, names, away = (np.concatenate(arrays, axis=1) for arrays in zip(*blocks, strict=True))
    if spec.swapped:
        values, lanes, names, away = values.T, lanes.T, names.T, away.T
    typed = _valued(np.ascontiguousarray(values), instruction.text, name)
    shown = np.ma.MaskedArray(typed, away) if away.any() else typed
    axes = spec.axes
    return Matrix(name, instruction.text, instruction.span.line, axes, shown, lanes, names, note=spec.note)


def _block(
    fragment: Fragment, words: Array, here: Array, registers: list[Register]
) -> tuple[Array, Array, Array, Array]:
    """The matrix's bits, and for each element its thread, its register, and whether the thread stands elsewhere."""
    bits = matrix_of(fragment, np.ascontiguousarray(words[: fragment.registers].T)[None])[0]
    rows, columns = fragment.table()
    lane = np.asarray(fragment.lane(np.arange(fragment.threads)))
    lanes = np.zeros(bits.shape, np.int64)
    names = np.empty(bits.shape, object)
    for value in reversed(range(fragment.values)):  # for a repeated element, the first place counts
        at = rows[:, value], columns[:, value]
        part = value % fragment.per_register
        name = registers[value // fragment.per_register].name
        if fragment.per_register > 1:
            name += f" bits {part * fragment.bits}-{(part + 1) * fragment.bits - 1}"
        lanes[at], names[at] = lane, name
    return bits, lanes, names, ~here[lanes]


def _held(context: Context, indices: list[int], threads: int) -> tuple[Array, Array]:
    """Registers ``[register, thread]`` of the warp or warpgroup in focus, and a mask of its threads that stand in this
    function."""
    machine, group = context.machine, context.group
    assert machine is not None
    assert group is not None
    size = peek(group, indices[0]).dtype.itemsize
    held = np.zeros((len(indices), threads), f"u{size}")
    here = np.zeros(threads, np.bool_)
    for at in group_states(machine):
        if at.group.plan is not group.plan:
            continue
        where = places(machine, at.group, context.focus, threads)
        known = where >= 0
        if known.any():
            here |= known
            for row, index in enumerate(indices):
                values = peek(at.group, index)
                held[row, known] = np.ascontiguousarray(values).view(held.dtype)[where[known]]
    return held, here


def _in_shared(context: Context, instruction: Instruction, name: str, given: dict[str, Operand]) -> Matrix:
    """A or B of wgmma, read through its descriptor."""
    root, words = instructions.split(instruction.text)
    type = dict(zip("dabc", instructions.types(root, words), strict=True))[name]
    _, n, k = dimensions(str(instruction.op.shape))
    dtype = np.dtype(f"u{max(ELEMENTS[type].itemsize, 1)}")
    if name == "a" and "sp" in words:
        k //= 2
    elements = k // 8 if type == "b1" else k
    extent = 64 if name == "a" else n
    flag = given.get(f"imm_trans_{name}")
    transposed = flag is not None and bool(flag.constant)
    bits = _descriptor(context, given[DESCRIPTORS[name]])
    fields = descriptors.decode(np.array([bits], np.uint64))
    address = descriptors.byte_addresses(fields, elements, extent, dtype.itemsize, transposed=transposed)[..., 0]
    values = _bytes_at(context, address, dtype)
    if name == "a":
        values, address = values.T, address.T
    typed = np.ascontiguousarray(values)
    if ELEMENTS[type].itemsize == dtype.itemsize and type != "b1":
        typed = typed.view(ELEMENTS[type])
    axes = ("m", "stored k" if "sp" in words else "k") if name == "a" else ("k", "n")
    note = f"descriptor {descriptors.describe(bits)}" + (", transposed" if transposed else "")
    return Matrix(name, instruction.text, instruction.span.line, axes, typed, addresses=address, note=note)


def _descriptor(context: Context, operand: Operand) -> int:
    if operand.register is None:
        raise DebugError("the descriptor is not a register")
    first = attrs.evolve(context.focus, warp=context.focus.warp // 4 * 4, lane=0)
    held, here = _held(context, [operand.register.index], 128)
    lane = context.focus.warp % 4 * 32 + context.focus.lane if not here[0] else 0
    if not here[lane]:
        raise DebugError(f"no thread of the warpgroup of {first} stands here")
    return int(held[0, lane])


def _bytes_at(context: Context, address: Array, dtype: DType) -> Array:
    """Elements in the shared memory of the CTA in focus."""
    low, high = int(address.min()), int(address.max()) + dtype.itemsize
    raw = np.frombuffer(context.place("shared", low).read(high - low), np.uint8)
    parts = raw[(address - low)[..., None] + np.arange(dtype.itemsize)]
    return np.ascontiguousarray(parts).view(dtype)[..., 0]


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


def nearest_matrix(context: Context, instruction: Instruction | None) -> Instruction:
    """The matrix instruction at which a thread stands, or the last one before it in the code.

    Raises:
        DebugError: there is none.
    """
    group = context.group
    if group is None or instruction is None:
        raise DebugError(f"{context.focus} does not run")
    best: Instruction | None = None
    for candidate in group.plan.function.code:
        if candidate.traits.matrix is not None and candidate.span.line <= instruction.span.line:
            best = candidate
        if candidate is instruction:
            break
    if best is None:
        raise DebugError("there is no matrix instruction here or before")
    return best

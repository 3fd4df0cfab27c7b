"""The CUDA runtime's functions for kernels (printf, malloc, free, assertions), and the ports other than memory."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from warpsim.machine.heap import free, malloc
from warpsim.machine.machine import Machine
from warpsim.machine.memory.addresses import CLUSTER_SHIFT, first_rank
from warpsim.machine.plan import FunctionPlan
from warpsim.machine.specials import cta_coordinates, ranks_of
from warpsim.machine.state.global_memory import LOCAL_WINDOW, SHARED_WINDOW, WINDOW
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.word_space import WordSpace
from warpsim.machine.values import Array, as_array
from warpsim.program.names import BUILTINS, device_function
from warpsim.program.program import Operand

_SPEC = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+)?)?(hh|h|ll|l)?([diouxXeEfFgGaAcspn])|%%")
"""A conversion. Anything else, such as %zu, is printed unchanged, as an H100's driver does."""
LONGEST = 1 << 20
"""Largest width or precision, because the device prints through a buffer of 1 MiB."""


def format_text(template: str, read: Callable[[int], bytes], string: Callable[[int], str]) -> tuple[str, int]:
    """The text of one printf call, and its number of conversions, which the call returns.

    ``read(size)`` returns the next argument's bytes, ``string(address)`` a C string.
    """
    call = _Call(read, string)
    return _SPEC.sub(call.convert, template), call.count


class _Field(NamedTuple):
    """A conversion: flags, width and precision as C writes them, the length and the kind."""

    flags: str
    width: str
    precision: str
    length: str
    kind: str

    @property
    def layout(self) -> str:
        """The beginning of Python's conversion."""
        return f"%{self.flags}{self.width}{self.precision}"

    def padded(self, text: str) -> str:
        """A text in the width of the field."""
        return _padded(self.flags, self.width, text)


class _Call:
    """One call of printf; ``count`` are the conversions so far."""

    def __init__(self, read: Callable[[int], bytes], string: Callable[[int], str]) -> None:
        self.read, self.string, self.count = read, string, 0

    def convert(self, match: re.Match[str]) -> str:
        """The text of one conversion."""
        if match.group(0) == "%%":
            return "%"
        field = self._field(match)
        self.count += 1
        return _KINDS[field.kind.lower()](self, field)

    def _field(self, match: re.Match[str]) -> _Field:
        """A conversion with what the arguments say of it, within ``LONGEST``."""
        flags, width, precision = match.group(1), self._number(match, 2), ""
        if width.startswith("-"):
            flags, width = flags + "-", width[1:]
        if "." in match.group(0):
            precision = self._number(match, 3)
            precision = "" if precision.startswith("-") else f".{_limited(precision)}"
        return _Field(flags, _limited(width), precision, match.group(4) or "", match.group(5))

    def _number(self, match: re.Match[str], group: int) -> str:
        text = match.group(group) or ""
        return str(struct.unpack("<i", self.read(4))[0]) if text == "*" else text

    def _word(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self.read(size), "little", signed=signed)

    def integer(self, field: _Field) -> str:
        """%d, %u, %x ..."""
        signed = field.kind in "di"
        value = self._word(8 if field.length in ("l", "ll") else 4, signed=signed)
        if field.length in ("h", "hh"):
            bits = 16 if field.length == "h" else 8
            value &= (1 << bits) - 1
            if signed and value >> (bits - 1):
                value -= 1 << bits
        return _integer(field.flags, field.width, field.precision, field.kind, value)

    def real(self, field: _Field) -> str:
        """%e, %f, %g."""
        value, layout = struct.unpack("<d", self.read(8))[0], field.layout
        if math.isnan(value) and math.copysign(1, value) < 0:
            return field.padded("-NAN" if field.kind.isupper() else "-nan")
        if not math.isfinite(value) and "0" in field.flags:
            layout = layout.replace("0", "", 1)
        return (layout + field.kind) % value

    def hexadecimal(self, field: _Field) -> str:
        """%a."""
        value = struct.unpack("<d", self.read(8))[0]
        sign = _sign(field.flags, negative=math.copysign(1, value) < 0)
        if math.isfinite(value):
            digits = _hexadecimal(abs(value), field.precision, point="#" in field.flags)
            text = f"{sign}0x{_filled(field, digits, len(sign) + 2)}"
        else:
            text = f"{sign}{abs(value)}"
        return field.padded(text.upper() if field.kind == "A" else text)

    def character(self, field: _Field) -> str:
        """%c."""
        return field.padded(chr(self._word(4) & 0xFF))

    def text(self, field: _Field) -> str:
        """%s."""
        return (field.layout + "s") % self.string(self._word(8))

    def pointer(self, field: _Field) -> str:
        """%p."""
        address = self._word(8)
        if not address:
            return field.padded("(nil)")
        digits = f"{address:x}".rjust(int(field.precision[1:] or 0), "0")
        sign = _sign(field.flags, negative=False)
        return field.padded(f"{sign}0x{digits if field.precision else _filled(field, digits, len(sign) + 2)}")

    def nothing(self, field: _Field) -> str:
        """%n, which a device leaves out."""
        return ""


_KINDS: dict[str, Callable[[_Call, _Field], str]] = {
    **dict.fromkeys("dioxu", _Call.integer),
    **dict.fromkeys("efg", _Call.real),
    "a": _Call.hexadecimal,
    "c": _Call.character,
    "s": _Call.text,
    "p": _Call.pointer,
    "n": _Call.nothing,
}


def _limited(digits: str) -> str:
    return digits if len(digits) < len(str(LONGEST)) else str(min(int(digits[:20]), LONGEST))


def _padded(flags: str, width: str, text: str) -> str:
    return f"%{'-' if '-' in flags else ''}{width}s" % text


def _integer(flags: str, width: str, precision: str, kind: str, value: int) -> str:
    """Format an integer as C does: a precision is the least number of digits, and makes the flag 0 void."""
    least = int(precision[1:] or 0) if precision else 1
    digits = f"{abs(value):{'d' if kind in 'iu' else kind}}".rjust(least, "0") if value or least else ""
    sign = ""
    if kind in "di":
        sign = _sign(flags, negative=value < 0)
    elif "#" in flags and kind == "o":
        digits = digits if digits.startswith("0") else "0" + digits
    elif "#" in flags and kind in "xX" and value:
        sign = "0" + kind
    if "0" in flags and "-" not in flags and not precision:
        digits = digits.rjust(int(width or 0) - len(sign), "0")
    return _padded(flags, width, sign + digits)


def _sign(flags: str, *, negative: bool) -> str:
    """What stands before a number."""
    return "-" if negative else "+" if "+" in flags else " " if " " in flags else ""


def _filled(field: _Field, digits: str, before: int) -> str:
    """Digits with zeros to the width of the field, if the flag 0 asks for them; ``before`` characters precede."""
    zeros = "0" in field.flags and "-" not in field.flags
    return digits.rjust(int(field.width or 0) - before, "0") if zeros else digits


def _hexadecimal(value: float, precision: str, *, point: bool) -> str:
    """%a of a finite number behind 0x: as few digits as needed, or ``precision`` of them, rounded to even."""
    lead, digits, exponent = re.fullmatch(r"0x([01])\.([0-9a-f]+)p(.*)", value.hex()).groups()  # type: ignore[union-attr]
    if precision and len(digits) > int(precision[1:] or 0):
        keep = int(precision[1:] or 0)
        cut = 4 * (len(digits) - keep)
        whole = int(lead + digits, 16)
        whole = (whole + (1 << (cut - 1)) - 1 + (whole >> cut & 1)) >> cut
        lead, digits = f"{whole >> 4 * keep:x}", f"{whole & (1 << 4 * keep) - 1:0{keep}x}" if keep else ""
    elif precision:
        digits = digits.ljust(int(precision[1:]), "0")
    else:
        digits = digits.rstrip("0")
    return f"{lead}{'.' if digits or point else ''}{digits}p{exponent}"


class ThreadText:
    """Reads for the thread at a ``position`` of a batch; called with a size, it returns the next argument's bytes."""

    def __init__(self, machine: Machine, group: Group, address: int, position: int) -> None:
        self.machine, self.group = machine, group
        self.address, self.position = address, position

    def __call__(self, size: int) -> bytes:
        """The next argument, aligned to its size."""
        at = -(-self.address // size) * size
        self.address = at + size
        self._note(at, size)
        if LOCAL_WINDOW <= at < LOCAL_WINDOW + WINDOW:
            return _column(self.machine.batch.local, at - LOCAL_WINDOW, size, self.position)
        allocation = self.machine.launch.memory.find(at, at + size)
        return allocation.data[at - allocation.start :][:size].tobytes() if allocation else bytes(size)

    def string(self, address: int) -> str:
        """The C string at a generic address."""
        if not address:
            return "(null)"
        for window, space, column in (
            (LOCAL_WINDOW, self.machine.batch.local, self.position),
            (SHARED_WINDOW, self.machine.batch.shared, self.position % self.machine.batch.shape.n_ctas),
        ):
            if window <= address < window + space.size:
                text = text_of(_column(space, address - window, space.size - (address - window), column))
                break
        else:
            text = global_string(self.machine.launch, address)
        self._note(address, len(text) + 1)
        return text

    def _note(self, address: int, size: int) -> None:
        """Notify listeners of a read."""
        machine = self.machine
        if machine.hooks.argument_read is not None:
            machine.hooks.argument_read(machine, self.group, address, np.array([self.position]), size)


def global_string(launch: LaunchState, address: int) -> str:
    """The C string at an address of global or constant memory."""
    allocation = launch.memory.find(address, address + 1)
    return "?" if allocation is None else text_of(allocation.data[address - allocation.start :].tobytes())


def text_of(raw: bytes) -> str:
    """The characters before the first zero."""
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def _column(space: WordSpace, first: int, size: int, column: int) -> bytes:
    words = space.words[first >> 2 : first + size + 3 >> 2, column]
    return np.ascontiguousarray(words).tobytes()[first & 3 :][:size]


class Clusters:
    """The cluster port. Zero above a shared memory offset is the thread's own CTA."""

    def __init__(self, machine: Machine, group: Group, active: Array | None) -> None:
        self.machine, self.group = machine, group
        self.first = np.uint32(first_rank(machine.launch.cluster))

    def map_shared(self, address: Array, rank: Array) -> Array:
        """The shared::cluster address of the same offset in the CTA with a rank, of which a byte counts."""
        byte, low = np.uint32(0xFF), address.dtype.type((1 << CLUSTER_SHIFT) - 1)
        there = np.minimum((rank & byte) + self.first, byte).astype(address.dtype)
        return (address & low) | there << address.dtype.type(CLUSTER_SHIFT)

    def rank_of(self, address: Array) -> Array:
        """The rank of the CTA that contains a shared memory address, uint32."""
        field = (address >> address.dtype.type(CLUSTER_SHIFT)).astype(np.uint32)
        return np.where(field > 0, field - self.first, self._own())

    def even(self, address: Array, mask: Array) -> Array:
        """The same offset in the even CTA of the pair; ``address & mask`` where it is no address, or nothing is a pair."""
        cx, cy, cz = self.machine.launch.cluster
        count = cx * cy * cz
        if count == 1:
            return address & mask
        even = self.rank_of(address) & np.uint32(0xFFFFFFFE)
        low = mask | mask.dtype.type(0xFF << CLUSTER_SHIFT)
        return np.where(address >> CLUSTER_SHIFT <= count, self.map_shared(address & low, even), address & mask)

    def is_own(self, address: Array) -> Array:
        """Whether a shared memory address is in the thread's own CTA."""
        field = (address >> address.dtype.type(CLUSTER_SHIFT)).astype(np.uint32)
        return (field == 0) | (field - self.first == self._own())

    def _own(self) -> Array:
        cx, cy, cz = self.machine.launch.cluster
        if cx * cy * cz == 1:
            return np.zeros(1, np.uint32)
        ranks = ranks_of(self.machine.launch, self.machine.batch).astype(np.uint32)
        return ranks[self.group.selection.ctas]


def system_call(
    machine: Machine,
    group: Group,
    name: str,
    plan: FunctionPlan,
    arguments: Sequence[Operand],
    returns: Sequence[Operand],
) -> None:
    """Run a function of the CUDA runtime for every thread of a group."""
    values = [value for a in arguments for value in _argument(machine, group, plan, a)]
    if name == "vprintf":
        _result(machine, group, plan, returns, _vprintf(machine, group, values[0], values[1]))
    elif name == "malloc":
        _result(machine, group, plan, returns, malloc(machine, group, values[0]))
    elif name == "free":
        free(machine, group, values[0])
    elif device_function(name):
        from warpsim.machine.device_runtime import device_call  # few kernels launch kernels

        found = device_call(machine, group, name, values, BUILTINS[name][1][0])
        _result(machine, group, plan, returns, found)
    else:
        assert name == "__assertfail", f"{name} has no body, and linking lets it pass"
        _assertfail(machine, group, values)


def _argument(machine: Machine, group: Group, plan: FunctionPlan, argument: Operand) -> list[Array]:
    """What is passed to a parameter: a value, of a structure its words."""
    if argument.base is None:
        return [as_array(group.value(argument))]
    assert argument.base.variable is not None
    size, positions = max(argument.base.variable.size, 4), group.selection.positions
    place = group.local_base + plan.place(argument.base)
    if machine.hooks.argument_read is not None:
        machine.hooks.argument_read(machine, group, LOCAL_WINDOW + place, positions, size)
    each = np.dtype(f"u{size if size <= 8 else 4}")
    places = np.full(positions.shape, place)
    return [machine.batch.local.gather(places + at, positions, each) for at in range(0, size, each.itemsize)]


def _result(machine: Machine, group: Group, plan: FunctionPlan, returns: Sequence[Operand], value: Array) -> None:
    for target in returns:
        if target.register is not None:
            group.set(target.register.index, value)
        elif target.base is not None:
            positions = group.selection.positions
            full = np.ascontiguousarray(np.broadcast_to(value, positions.shape))
            machine.fill("local", np.full(positions.shape, group.local_base + plan.place(target.base)), positions, full)


def _assertfail(machine: Machine, group: Group, values: list[Array]) -> None:
    """Report the CUDA runtime's message for the first failing thread; the others are counted."""
    message, file, line, function = (int(value.reshape(-1)[0]) for value in values[:4])
    position = int(group.selection.positions.reshape(-1)[0])
    cta, thread = (
        cta_coordinates(machine.launch, machine.batch)[:, position % machine.batch.shape.n_ctas],
        position // machine.batch.shape.n_ctas,
    )
    bx, by, _ = machine.launch.block
    text = (
        f"{global_string(machine.launch, file)}:{line}: {global_string(machine.launch, function)}: "
        f"block: [{','.join(map(str, cta.tolist()))}], thread: [{thread % bx},{thread // bx % by},{thread // (bx * by)}] "
        f"Assertion `{global_string(machine.launch, message)}` failed."
    )
    machine.fault("assert", text, group)


def _vprintf(machine: Machine, group: Group, formats: Array, arguments: Array) -> Array:
    """Print for every thread; returns the number of arguments that each printed."""
    selection = group.selection
    values = [np.broadcast_to(v, selection.shape) for v in (formats, arguments, selection.positions)]
    counts = np.zeros(selection.n, np.int32)
    for k, (fmt, where, position) in enumerate(zip(*(selection.in_order(v).tolist() for v in values), strict=True)):
        thread = ThreadText(machine, group, where, position)
        text, counts[k] = format_text(global_string(machine.launch, fmt), thread, thread.string)
        machine.launch.printed.append((position, text))
    return selection.from_order(counts)

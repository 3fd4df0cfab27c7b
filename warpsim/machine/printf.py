"""The device's printf: C format strings, and the arguments that threads pass on their stacks or in global memory."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from warpsim.machine.state.global_memory import LOCAL_WINDOW, SHARED_WINDOW, WINDOW
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.word_space import WordSpace

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine


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

    def __init__(self, machine: Machine, address: int, position: int) -> None:
        self.machine = machine
        self.address, self.position = address, position

    def __call__(self, size: int) -> bytes:
        """The next argument, aligned to its size."""
        at = -(-self.address // size) * size
        self.address = at + size
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
                return text_of(_column(space, address - window, space.size - (address - window), column))
        return global_string(self.machine.launch, address)


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

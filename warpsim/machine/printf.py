"""C format strings as the device's printf reads them."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable

_SPEC = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+)?)?(hh|h|ll|l)?([diouxXeEfFgGaAcspn])|%%")
"""A conversion; what is none, such as %zu, is printed as it stands, as an H100's driver does."""
LONGEST = 1 << 20
"""The greatest width or precision: what a device prints goes through a buffer of 1 MiB."""


def format_text(template: str, read: Callable[[int], bytes], string: Callable[[int], str]) -> tuple[str, int]:
    """The text of one printf call and the number of its conversions, which is what the call returns.

    ``read(size)`` gives the next argument's bytes, ``string(address)`` a C string."""
    count = 0

    def number(match: re.Match[str], group: int) -> str:
        text = match.group(group) or ""
        return str(struct.unpack("<i", read(4))[0]) if text == "*" else text

    def field(match: re.Match[str]) -> tuple[str, str, str]:
        """Flags, width and precision, with what the arguments say and within ``LONGEST``."""
        flags, width, precision = match.group(1), number(match, 2), ""
        if width.startswith("-"):
            flags, width = flags + "-", width[1:]
        if "." in match.group(0):
            precision = number(match, 3)
            precision = "" if precision.startswith("-") else f".{_limited(precision)}"
        return flags, _limited(width), precision

    def convert(match: re.Match[str]) -> str:
        nonlocal count
        if match.group(0) == "%%":
            return "%"
        flags, width, precision = field(match)
        length, kind = match.group(4) or "", match.group(5)
        count += 1
        layout = f"%{flags}{width}{precision}"
        if kind in "dioxXu":
            wide = length in ("l", "ll")
            raw = read(8 if wide else 4)
            value = int.from_bytes(raw, "little", signed=kind in "di")
            if length in ("h", "hh"):
                bits = 16 if length == "h" else 8
                value &= (1 << bits) - 1
                if kind in "di" and value >> (bits - 1):
                    value -= 1 << bits
            return _integer(flags, width, precision, kind, value)
        if kind in "eEfFgG":
            real = struct.unpack("<d", read(8))[0]
            if math.isnan(real) and math.copysign(1, real) < 0:
                return _padded(flags, width, "-NAN" if kind.isupper() else "-nan")
            if not math.isfinite(real):
                layout = layout.replace("0", "", 1) if "0" in flags else layout
            return (layout + kind) % real
        if kind in "aA":
            text = _hexadecimal(struct.unpack("<d", read(8))[0], precision)
            text = "+" + text if "+" in flags and text[0] != "-" else text
            return _padded(flags, width, text.upper() if kind == "A" else text)
        if kind == "c":
            return _padded(flags, width, chr(int.from_bytes(read(4), "little") & 0xFF))
        if kind == "s":
            return (layout + "s") % string(int.from_bytes(read(8), "little"))
        if kind == "p":
            pointer = int.from_bytes(read(8), "little")
            return _padded(flags, width, f"0x{pointer:x}" if pointer else "(nil)")
        return ""

    return _SPEC.sub(convert, template), count


def _limited(digits: str) -> str:
    return digits if len(digits) < len(str(LONGEST)) else str(min(int(digits[:20]), LONGEST))


def _padded(flags: str, width: str, text: str) -> str:
    return f"%{'-' if '-' in flags else ''}{width}s" % text


def _integer(flags: str, width: str, precision: str, kind: str, value: int) -> str:
    """Python formats integers as C does, but for signs of unsigned ones, the prefixes of octal numbers and of 0."""
    if kind in "di":
        return f"%{flags}{width}{precision}d" % value
    flags = flags.replace("+", "").replace(" ", "")
    kind = "d" if kind == "u" else kind
    if "#" in flags and (kind == "o" or value == 0):
        digits = f"%{precision}{kind}" % value
        flags = flags.replace("#", "")
        if kind == "o" and digits[0] != "0":
            digits = "0" + digits
        zeros = "0" in flags and "-" not in flags and not precision
        return digits.rjust(int(width or 0), "0") if zeros else _padded(flags, width, digits)
    return f"%{flags}{width}{precision}{kind}" % value


def _hexadecimal(value: float, precision: str) -> str:
    """%a: as few digits as there are, or ``precision`` of them, rounded to even."""
    if not math.isfinite(value):
        return str(value)
    sign, lead, digits, exponent = re.fullmatch(r"(-?)0x([01])\.([0-9a-f]+)p(.*)", value.hex()).groups()  # type: ignore[union-attr]
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
    return f"{sign}0x{lead}{'.' if digits else ''}{digits}p{exponent}"

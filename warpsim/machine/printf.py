"""C format strings as the device's printf reads them."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

_SPEC = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+)?)?(hh|h|ll|l|j|z|t|L)?([diouxXeEfFgGaAcspn%])")


def format_text(template: str, read: Callable[[int], bytes], string: Callable[[int], str]) -> str:
    """The text of one printf call; ``read(size)`` gives the next argument's bytes, ``string(address)`` a C string."""

    def number(match: re.Match[str], group: int) -> str:
        text = match.group(group) or ""
        return str(struct.unpack("<i", read(4))[0]) if text == "*" else text

    def convert(match: re.Match[str]) -> str:
        flags, width = match.group(1), number(match, 2)
        precision = "." + number(match, 3) if "." in match.group(0).split(match.group(5))[0] else ""
        length, kind = match.group(4) or "", match.group(5)
        if kind == "%":
            return "%"
        layout = f"%{flags}{width}{precision}"
        if kind in "dioxXu":
            wide = length in ("l", "ll", "j", "z", "t")
            raw = read(8 if wide else 4)
            value = int.from_bytes(raw, "little", signed=kind in "di")
            if length in ("h", "hh"):
                bits = 16 if length == "h" else 8
                value &= (1 << bits) - 1
                if kind in "di" and value >> (bits - 1):
                    value -= 1 << bits
            return (layout + ("d" if kind in "diu" else kind)) % value
        if kind in "eEfFgG":
            return (layout + kind) % struct.unpack("<d", read(8))[0]
        if kind in "aA":
            text = float.hex(struct.unpack("<d", read(8))[0])
            return text.upper() if kind == "A" else text
        if kind == "c":
            return (f"%{flags}{width}c") % chr(int.from_bytes(read(4), "little") & 0xFF)
        if kind == "s":
            return (layout + "s") % string(int.from_bytes(read(8), "little"))
        if kind == "p":
            return (f"%{flags}{width}s") % f"0x{int.from_bytes(read(8), 'little'):x}"
        return ""

    return _SPEC.sub(convert, template)

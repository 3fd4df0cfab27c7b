"""Extracts PTX from fatbins, and from executables and objects that contain fatbins.

A fatbin is a header (magic, version, header size, payload size) followed by entries. Each entry has a header with its
kind, sizes, target GPU and flags, and a payload: a cubin, or PTX as text, LZ4 block or zstd frame. The format is
undocumented; this is what ``nvcc -fatbin`` writes.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Iterator

import attrs

MAGIC = b"\x50\xed\x55\xba"
_HEADER = struct.Struct("<4sHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_PTX = 1
_LZ4, _ZSTD = 0x2000, 0x8000
LARGEST = 1 << 28
"""Largest size that a payload may claim to unpack to, in bytes."""


class Packed(Exception):
    """A payload cannot be unpacked; the message says why."""


@attrs.frozen
class Entry:
    """PTX for one GPU: capability times ten, and the payload as stored."""

    arch: int
    flags: int
    size: int
    payload: bytes

    def text(self) -> bytes:
        """Unpack the PTX.

        Raises:
            Packed: it is damaged, or needs a library that is not installed.
        """
        if not self.flags & (_LZ4 | _ZSTD):
            return self.payload
        if self.size > LARGEST:
            raise Packed(f"its PTX claims to unpack to {self.size} bytes")
        return lz4_block(self.payload, self.size) if self.flags & _LZ4 else _zstd(self.payload, self.size)


def units(data: bytes) -> list[list[Entry]]:
    """The PTX entries of every fatbin in a file."""
    found, at = [], data.find(MAGIC)
    while at >= 0:
        stop = at + 4
        if at + _HEADER.size <= len(data):
            _, version, header, size = _HEADER.unpack_from(data, at)
            if version == 1 and header >= _HEADER.size and at + header + size <= len(data):
                found.append(list(_entries(data[at + header : at + header + size])))
                stop = at + header + size
        at = data.find(MAGIC, stop)
    return [unit for unit in found if unit]


def _entries(data: bytes) -> Iterator[Entry]:
    at = 0
    while at + _ENTRY.size <= len(data):
        kind, _, header, size, packed, _, _, _, arch, _, _, flags, _, unpacked = _ENTRY.unpack_from(data, at)
        if header < _ENTRY.size:
            return
        if kind == _PTX:
            stop = at + header + (packed if flags & (_LZ4 | _ZSTD) else size)
            yield Entry(arch, flags, unpacked, data[at + header : stop])
        at += header + size


def lz4_block(block: bytes, size: int) -> bytes:
    """Unpack ``size`` bytes from an LZ4 block (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md).

    Raises:
        Packed: the block is damaged.
    """
    out, at = bytearray(), 0
    try:
        while at < len(block):
            token = block[at]
            literals, at = _length(block, at + 1, token >> 4)
            out += block[at : at + literals]
            at += literals
            if len(out) >= size or at >= len(block):
                break
            distance = block[at] | block[at + 1] << 8
            copied, at = _length(block, at + 2, token & 15)
            copied += 4
            if not 0 < distance <= len(out) or len(out) + copied > size:
                raise Packed("its compressed PTX is damaged")
            run = out[-distance:]
            out += (run * (copied // distance + 1))[:copied]
    except IndexError:
        raise Packed("its compressed PTX is cut short") from None
    if len(out) != size:
        raise Packed("its compressed PTX is damaged")
    return bytes(out)


def _length(block: bytes, at: int, nibble: int) -> tuple[int, int]:
    if nibble == 15:
        while block[at] == 255:
            nibble, at = nibble + 255, at + 1
        nibble, at = nibble + block[at], at + 1
    return nibble, at


def _zstd(frame: bytes, size: int) -> bytes:
    for library in ("compression.zstd", "zstandard", "pyzstd"):
        try:
            module = importlib.import_module(library)
        except ImportError:
            continue
        try:
            text = module.ZstdDecompressor().decompress(frame, size)
        except Exception as damage:  # each library has its own exception class
            raise Packed(f"its compressed PTX is damaged: {damage}") from None
        return bytes(text)
    raise Packed("its PTX is compressed with zstd; unpacking that needs Python 3.14, or: pip install zstandard")

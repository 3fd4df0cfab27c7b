"""Finds the PTX of a source: text, a text file, or the PTX in a fatbin or an executable.

A fatbin is a header (magic, version, header size, payload size) followed by entries. Each entry has a header with its
kind, sizes, target GPU and flags, and a payload: a cubin, or PTX as text, LZ4 block or zstd frame. The format is
undocumented; this is what ``nvcc -fatbin`` writes.
"""

from __future__ import annotations

import importlib
import os
import re
import struct
from collections.abc import Iterator
from typing import NoReturn

from warpsim.errors import Finding, PtxError, shown
from warpsim.host.files import TooLong, contents
from warpsim.records import frozen

ELF = b"\x7fELF"
CUBIN = b"\xbe\x00"
"""e_machine of an ELF file for a GPU."""
_BEGINS = re.compile(r"\s*\.(version|target|address_size)\b")
_EXTRACT = "or extract it: cuobjdump -xptx all FILE"


def read(source: str | bytes | bytearray | memoryview | os.PathLike[str]) -> tuple[str, str]:
    """Read a source; returns its text and file name, ``<ptx>`` for text passed as such.

    Raises:
        PtxError: rule ``unreadable``; the source is not PTX.
    """
    if isinstance(source, (bytearray, memoryview)):
        source = bytes(source)
    if isinstance(source, bytes):
        if source[:4] in (ELF, MAGIC) or b"\0" in source or _is_text(source.decode("latin-1")):
            return _decode(source, "<ptx>"), "<ptx>"
    elif isinstance(source, str) and _is_text(source):
        return _checked(source.rstrip("\0"), "<ptx>"), "<ptx>"
    try:
        path = os.fsdecode(source)
    except Exception:  # whatever an object of the caller's raises
        _refuse("<ptx>", f"{shown(source)} is neither a path nor text", "give a path to a PTX file, or PTX text")
    return _decode(_contents(path), path), path


def _is_text(source: str) -> bool:
    return any(mark in source for mark in "\n{};") or _BEGINS.match(source) is not None


def _contents(path: str) -> bytes:
    advice = "give a path to a PTX file, or PTX text"
    try:
        return contents(path)
    except TooLong as error:
        _refuse(path, f"{path!r} {error}; it is not a PTX file", advice)
    except (OSError, ValueError, MemoryError) as error:
        _refuse(path, f"cannot read {path!r}: {getattr(error, 'strerror', None) or error}", advice)


def _decode(data: bytes, file: str) -> str:
    if data[:4] == MAGIC or (data[:4] == ELF and data[18:20] != CUBIN) or data[:2] == b"MZ":
        return _unpacked(data, file)
    if data[:4] == ELF:
        _refuse(
            file, "this is a cubin: machine code, not PTX", "compile to PTX: nvcc -ptx -arch=sm_90a FILE.cu -o FILE.ptx"
        )
    data = data.rstrip(b"\0")
    try:
        return _checked(data.decode("utf-8"), file)
    except UnicodeDecodeError:
        if b".version" not in data:
            _refuse(file, "this is not text", "give PTX text")
        return _checked(data.decode("latin-1"), file)


def _unpacked(data: bytes, file: str) -> str:
    """The PTX of a fatbin or an executable: of its single translation unit, for the newest GPU."""
    what = "fatbin" if data[:4] == MAGIC else "executable"
    texts = []
    try:
        for unit in units(data):
            text = max(unit, key=lambda entry: entry.order).text().strip(b"\0")
            if b".entry" in text:
                texts.append(text)
    except Packed as problem:
        _refuse(file, f"this is a{'n' * (what[0] == 'e')} {what}, and {problem}", _EXTRACT)
    if not texts:
        _refuse(
            file,
            f"this is a{'n' * (what[0] == 'e')} {what} that holds no PTX with a kernel in it",
            "compile to PTX: nvcc -ptx -arch=sm_90a FILE.cu -o FILE.ptx, or keep it beside the machine code: "
            "nvcc -gencode arch=compute_90a,code=compute_90a",
        )
    if len(texts) > 1:
        _refuse(
            file,
            f"this {what} holds {len(texts)} PTX modules",
            f"extract the one to run: {_EXTRACT.partition(': ')[2]}",
        )
    return texts[0].decode("utf-8", "replace")


def _checked(text: str, file: str) -> str:
    if ".version" not in text and re.search(r"__global__|__device__|#include\s*[<\"]", text):
        _refuse(file, "this is CUDA source, not PTX", "compile it: nvcc -ptx -arch=sm_90a FILE.cu -o FILE.ptx")
    return text


def _refuse(file: str, message: str, advice: str) -> NoReturn:
    raise PtxError(findings=(Finding("unreadable", message, advice=advice, file=file, line=1, column=1),))


# ---- fatbins --------------------------------------------------------------------------------------

MAGIC = b"\x50\xed\x55\xba"
_HEADER = struct.Struct("<4sHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_PTX = 1
_LZ4, _ZSTD = 0x2000, 0x8000
_ARCHITECTURE, _FAMILY = 0x10_0000, 0x20_0000
"""Flags of PTX for one architecture (sm_100a) and for a family (sm_100f)."""
LARGEST = 1 << 28
"""Largest size that a payload may claim to unpack to, in bytes."""


class Packed(Exception):
    """A payload cannot be unpacked; the message says why."""


@frozen
class Entry:
    """PTX for one GPU: capability times ten, and the payload as stored."""

    arch: int
    flags: int
    size: int
    payload: bytes

    @property
    def order(self) -> tuple[int, bool, bool]:
        """Greater for PTX that a GPU takes first, of what it can run."""
        return self.arch, bool(self.flags & _ARCHITECTURE), bool(self.flags & _FAMILY)

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

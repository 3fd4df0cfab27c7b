"""Finds the PTX of a source: text, a text file, or the PTX in a fatbin or an executable."""

from __future__ import annotations

import os
import re
from typing import Any, NoReturn

from warpsim.errors import Finding, PtxError, shown
from warpsim.host import fatbin
from warpsim.host.files import TooLong, contents

ELF = b"\x7fELF"
CUBIN = b"\xbe\x00"
"""e_machine of an ELF file for a GPU."""
_BEGINS = re.compile(r"\s*\.(version|target|address_size)\b")
_EXTRACT = "or extract it: cuobjdump -xptx all FILE"


def read(source: Any) -> tuple[str, str]:
    """Read a source; returns its text and file name, ``<ptx>`` for text passed as such.

    Raises:
        PtxError: rule ``unreadable``; the source is not PTX.
    """
    if isinstance(source, (bytearray, memoryview)):
        source = bytes(source)
    if isinstance(source, bytes):
        if source[:4] in (ELF, fatbin.MAGIC) or b"\0" in source or _is_text(source.decode("latin-1")):
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
    if data[:4] == fatbin.MAGIC or (data[:4] == ELF and data[18:20] != CUBIN) or data[:2] == b"MZ":
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
    what = "fatbin" if data[:4] == fatbin.MAGIC else "executable"
    texts = []
    try:
        for unit in fatbin.units(data):
            text = max(unit, key=lambda entry: entry.arch).text().strip(b"\0")
            if b".entry" in text:
                texts.append(text)
    except fatbin.Packed as problem:
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

"""Finds the PTX in an image passed to the driver: text, a fatbin, the wrapper that nvcc registers, or linked PTX."""

from __future__ import annotations

import re
import struct

from warpsim.driver.raw import bytes_at, string_at
from warpsim.driver.results import DriverError, Result, require
from warpsim.host import sources

ELF, ARCHIVE = b"\x7fELF", b"!<arch>\n"
WRAPPER = 0x466243B1
"""__fatBinC_Wrapper_t: magic, version, the fatbin's address, and one more pointer."""
LARGEST = 1 << 30
GENCODE = "nvcc -gencode arch=compute_80,code=compute_80"
ADVICE = f"compile with PTX in the fatbin: {GENCODE} (or -arch=sm_80, which keeps both)"
_TARGET = re.compile(rb"\.target\s+(sm_(\d+)([af]?))")


class MachineCode(DriverError):
    """An image that holds no PTX for any GPU."""

    def __init__(self, what: str) -> None:
        super().__init__(Result.NO_BINARY_FOR_GPU, what)


def image_at(address: int) -> bytes:
    """Read an image from memory, as long as its header says."""
    require(address, "the image is null")
    magic, _, data = struct.unpack("<IIQ", bytes_at(address, 16))
    if magic == WRAPPER:
        return image_at(data)
    head = bytes_at(address, 4)
    if head == sources.MAGIC:
        _, _, header, size = struct.unpack("<4sHHQ", bytes_at(address, 16))
        return bytes_at(address, header + size)
    if head == ELF:
        return bytes_at(address, 64)
    return string_at(address)


def ptx_of(image: bytes, sm: int) -> bytes:
    """The PTX of an image for a GPU (its capability times ten).

    Raises:
        DriverError: the image contains none.
    """
    if image[:4] == sources.MAGIC:
        return _of_fatbin(image, sm)
    if image[:4] == ELF:
        raise MachineCode(f"this is a cubin: machine code, not PTX; {ADVICE}")
    text = image.rstrip(b"\0")
    require(b".version" in text, "the image is neither PTX nor a fatbin", Result.INVALID_IMAGE)
    return text


def _of_fatbin(image: bytes, sm: int) -> bytes:
    entries = [entry for unit in sources.units(image) for entry in unit]
    if not entries:
        raise MachineCode(f"the fatbin holds machine code and no PTX; {ADVICE}")
    text = _newest(entries, sm)
    if text is not None:
        return text
    have = ", ".join(f"compute_{entry.arch}" for entry in entries)
    raise DriverError(Result.NO_BINARY_FOR_GPU, f"the fatbin holds PTX for {have}; the GPU is sm_{sm} (--device)")


def _newest(entries: list[sources.Entry], sm: int) -> bytes | None:
    for entry in sorted(entries, key=lambda e: e.arch, reverse=True):
        try:
            text = entry.text().rstrip(b"\0")
        except sources.Packed as problem:
            raise DriverError(Result.NO_BINARY_FOR_GPU, str(problem)) from None
        if runs(text, sm):
            return text
    return None


def members(archive: bytes, sm: int) -> list[bytes]:
    """The PTX of each object in a static library that has some for a GPU. Objects of machine code are passed over."""
    texts = (_newest(unit, sm) for unit in sources.units(archive))
    return [text for text in texts if text is not None]


def runs(text: bytes, sm: int) -> bool:
    """Whether a GPU can run PTX, according to its target."""
    match = _TARGET.search(text)
    if match is None:
        return True
    number, kind = int(match[2]), match[3]
    if kind == b"a":
        return number == sm
    return number <= sm and (kind != b"f" or number // 10 == sm // 10)

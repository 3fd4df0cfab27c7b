"""Images that a process loads into the driver, and the PTX that belongs to them."""

from __future__ import annotations

import ctypes
import gc
import glob
import os
import re
import struct
import sys
from collections.abc import Iterator
from typing import Any

from warpsim.host import fatbin

ELF, FATBIN, WRAPPER = b"\x7fELF", b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46"
LARGEST = 1 << 28
ENTRY = re.compile(r"^\s*(?:\.\w+\s+)*\.entry\s+([\w$%.]+)", re.M)
VARIABLE = re.compile(
    r"^\.(?:visible|weak|common|extern)?\s*\.?(?:global|const)\s+(?:\.\w+\s+(?:\d+\s+)?)*([A-Za-z_$%][\w$]*)\s*(?:\[|=|;)",
    re.M,
)


def image_at(address: int) -> bytes:
    """The image at an address: PTX text, a cubin, or a fatbin; empty for anything else."""
    head = ctypes.string_at(address, 4)
    if head == WRAPPER:
        return image_at(ctypes.c_uint64.from_address(address + 8).value)
    if head == FATBIN:
        _, _, header, size = struct.unpack("<4sHHQ", ctypes.string_at(address, 16))
        return ctypes.string_at(address, header + size) if size < LARGEST else b""
    if head == ELF:
        raw = ctypes.string_at(address, 64)
        (phoff, shoff) = struct.unpack_from("<QQ", raw, 32)
        phsize, phnum, shsize, shnum = struct.unpack_from("<HHHH", raw, 54)
        size = max(shoff + shsize * shnum, phoff + phsize * phnum)
        return ctypes.string_at(address, size) if size < LARGEST else b""
    return ctypes.string_at(address)


class Sources:
    """The PTX that a process has compiled or loaded."""

    def __init__(self) -> None:
        self.modules: dict[int, bytes] = {}
        self.libraries: dict[int, bytes] = {}
        self.linked: dict[int, list[str]] = {}
        self.cubins: dict[bytes, str] = {}
        """Cubins made by a linker, by their bytes, and the PTX that they were made from."""
        self.texts: list[str] = []
        self.notes: list[str] = []
        """Why PTX could not be obtained."""

    def see(self, text: str | bytes) -> None:
        """Note PTX that the process has produced."""
        found = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        found = found.rstrip("\0")
        if ".entry" in found and found not in self.texts:
            self.texts.append(found)

    def ptx(self, image: bytes, name: str, sm: int) -> str | None:
        """The PTX of a kernel launched from an image, on a GPU of capability ``sm`` (times ten)."""
        if image[:4] not in (ELF, FATBIN) and image:
            self.see(image)
            return image.decode("utf-8", "replace").rstrip("\0")
        for text in [
            *_in_fatbin(image, sm, self.notes),
            *([self.cubins[image]] if image in self.cubins else []),
            *_in_cache(image),
        ]:
            if name in ENTRY.findall(text):
                return text
        if (seen := self._seen(name)) is None:
            for text in _from_numba():
                self.see(text)
            seen = self._seen(name)
        return seen

    def _seen(self, name: str) -> str | None:
        return next((text for text in reversed(self.texts) if name in ENTRY.findall(text)), None)


def _from_numba() -> Iterator[str]:
    """The PTX of numba's kernels, because numba passes machine code to the driver."""
    library: Any = getattr(sys.modules.get("numba.cuda.codegen"), "CUDACodeLibrary", ())
    for code in gc.get_objects() if library else []:
        if isinstance(code, library):
            try:
                yield code.get_asm_str()
            except Exception:  # another version of the library, or an incomplete one
                continue


def _in_fatbin(image: bytes, sm: int, notes: list[str]) -> Iterator[str]:
    if image[:4] != FATBIN:
        return
    for unit in fatbin.units(image):
        for entry in sorted([e for e in unit if e.arch <= sm], key=lambda e: -e.arch):
            try:
                yield entry.text().decode("utf-8", "replace").rstrip("\0")
            except (fatbin.Packed, ValueError) as problem:
                notes.append(f"a fatbin holds PTX that cannot be unpacked: {problem}")


def _in_cache(image: bytes) -> Iterator[str]:
    """The PTX that Triton caches beside a cubin."""
    if image[:4] != ELF:
        return
    home = os.environ.get("TRITON_CACHE_DIR") or os.path.expanduser("~/.triton/cache")
    for path in glob.glob(os.path.join(home, "*", "*.cubin")):
        if os.path.getsize(path) != len(image):
            continue
        with open(path, "rb") as stream:
            if stream.read() != image:
                continue
        text = path.removesuffix(".cubin") + ".ptx"
        if os.path.exists(text):
            with open(text, encoding="utf-8", errors="replace") as source:
                yield source.read()

"""Finds the PTX in an image passed to the driver: text, a fatbin, the wrapper that nvcc registers, or linked PTX."""

from __future__ import annotations

import ctypes
import re
import struct

from warpsim.driver.results import DriverError, Result
from warpsim.host import fatbin

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
    if not address:
        raise DriverError(Result.INVALID_VALUE, "the image is null")
    magic, _, data = struct.unpack("<IIQ", ctypes.string_at(address, 16))
    if magic == WRAPPER:
        return image_at(data)
    head = ctypes.string_at(address, 4)
    if head == fatbin.MAGIC:
        _, _, header, size = struct.unpack("<4sHHQ", ctypes.string_at(address, 16))
        return ctypes.string_at(address, header + size)
    if head == ELF:
        return ctypes.string_at(address, 64)
    return ctypes.string_at(address)


def ptx_of(image: bytes, sm: int) -> bytes:
    """The PTX of an image for a GPU (its capability times ten).

    Raises:
        DriverError: the image contains none.
    """
    if image[:4] == fatbin.MAGIC:
        return _of_fatbin(image, sm)
    if image[:4] == ELF:
        raise MachineCode(f"this is a cubin: machine code, not PTX; {ADVICE}")
    text = image.rstrip(b"\0")
    if b".version" not in text:
        raise DriverError(Result.INVALID_IMAGE, "the image is neither PTX nor a fatbin")
    return text


def _of_fatbin(image: bytes, sm: int) -> bytes:
    entries = [entry for unit in fatbin.units(image) for entry in unit]
    if not entries:
        raise MachineCode(f"the fatbin holds machine code and no PTX; {ADVICE}")
    text = _newest(entries, sm)
    if text is not None:
        return text
    have = ", ".join(f"compute_{entry.arch}" for entry in entries)
    raise DriverError(Result.NO_BINARY_FOR_GPU, f"the fatbin holds PTX for {have}; the GPU is sm_{sm} (--device)")


def _newest(entries: list[fatbin.Entry], sm: int) -> bytes | None:
    for entry in sorted(entries, key=lambda e: e.arch, reverse=True):
        try:
            text = entry.text().rstrip(b"\0")
        except fatbin.Packed as problem:
            raise DriverError(Result.NO_BINARY_FOR_GPU, str(problem)) from None
        if runs(text, sm):
            return text
    return None


def members(archive: bytes, sm: int) -> list[bytes]:
    """The PTX of each object in a static library that has some for a GPU. Objects of machine code are passed over."""
    texts = (_newest(unit, sm) for unit in fatbin.units(archive))
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


def linked(texts: list[bytes]) -> bytes:
    """Link several PTX modules into one, with the newest version and target among them.

    A name that one module declares external and another defines becomes a forward declaration of the definition.
    Variables are defined by the modules that come first.
    """
    if len(texts) == 1:
        return texts[0]
    heads = [re.search(rb"\.version\s+(\d+)\.(\d+)", text) for text in texts]
    version = max((int(m[1]), int(m[2])) for m in heads if m is not None)
    targets = [m for m in (_TARGET.search(text) for text in texts) if m is not None]
    target = max(targets, key=lambda m: (int(m[2]), m[3]))[1] if targets else b"sm_70"
    bodies = [re.sub(rb"(?m)^\s*\.(version|target|address_size)\b.*$", b"", text) for text in texts]
    functions = {m[2]: m[1] or b"" for body in bodies for m in _DEFINED.finditer(body)}
    variables = {m[1] for body in bodies for m in _VARIABLE.finditer(body) if b".extern" not in m[0]}
    bodies.sort(key=lambda body: sum(b".extern" in m[0] and m[1] in variables for m in _VARIABLE.finditer(body)))

    def forward(match: re.Match[bytes]) -> bytes:
        return functions[match[2]] + match[1] if match[2] in functions else match[0]

    def dropped(match: re.Match[bytes]) -> bytes:
        return b"" if b".extern" in match[0] and match[1] in variables else match[0]

    merged = [_VARIABLE.sub(dropped, _DECLARED.sub(forward, body)) for body in bodies]
    head = b".version %d.%d\n.target %s\n.address_size 64\n" % (*version, target)
    return head + b"\n".join(merged)


def needed(texts: list[bytes], members: list[bytes]) -> list[bytes]:
    """The members of libraries that define what the modules, or members that they need, only declare."""
    chosen: list[bytes] = []
    while True:
        have = [*texts, *chosen]
        missing = set().union(*map(_declared, have)) - set().union(*map(_defined, have))
        found = next((text for text in members if text not in chosen and _defined(text) & missing), None)
        if found is None:
            return chosen
        chosen.append(found)


def _declared(text: bytes) -> set[bytes]:
    variables = {m[1] for m in _VARIABLE.finditer(text) if b".extern" in m[0]}
    return variables | {m[2] for m in _DECLARED.finditer(text)}


def _defined(text: bytes) -> set[bytes]:
    variables = {m[1] for m in _VARIABLE.finditer(text) if b".extern" not in m[0]}
    return variables | {m[2] for m in _DEFINED.finditer(text)}


_SIGNATURE = rb"(?:\([^)]*\)\s*)?([\w$%]+)"
_DECLARED = re.compile(rb"\.extern(\s+\.func\s*" + _SIGNATURE + rb")")
_DEFINED = re.compile(rb"(\.visible|\.weak)\s+\.func\s*" + _SIGNATURE + rb"\s*\([^)]*\)[^;{]*\{")
_VARIABLE = re.compile(
    rb"(?m)^\s*(?:\.extern|\.visible|\.weak|\.common)\s+\.(?:global|const)\b[^;={]*?([\w$%]+)\s*(?:\[[^;={]*)?[;={]"
)

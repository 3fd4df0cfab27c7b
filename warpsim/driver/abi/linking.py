"""libnvJitLink: linking PTX. What it gives as a cubin is PTX, which the driver loads in its place.

Its version is one without link-time optimisation, so that callers bring PTX; those that bring the intermediate form
get PTX of it from NVIDIA's own linker."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from warpsim.driver.abi import intermediate
from warpsim.driver.abi.calls import call, reader
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.modules import Linker
from warpsim.driver.raw import bytes_at, get64, put32, put64, put_bytes, text_at
from warpsim.driver.results import DriverError

VERSIONS = ("", *(f"_{major}_{minor}" for major in (12, 13) for minor in range(10)))
PTX_ERROR, UNSUPPORTED = 7, 4


class Link(Linker):
    """A link with its GPU and its log."""

    def __init__(self, sm: int) -> None:
        super().__init__()
        self.sm, self.log = sm, ""
        self.images: list[bytes] = []
        """What is in the intermediate form."""

    def take(self, image: bytes) -> None:
        """Take a module of any form."""
        if image.startswith(intermediate.MAGIC):
            self.images.append(image)
        else:
            self.add(image, self.sm)

    def finish(self) -> None:
        """Link."""
        if self.images:
            self.add(intermediate.to_ptx(self.images, self.sm), self.sm)
        self.result = self.complete()

    def attempt(self, work: Callable[[], Any]) -> int:
        """Do a part of it; the log says why it cannot be done."""
        try:
            work()
        except DriverError as problem:
            self.log += f"{problem}\n"
            return PTX_ERROR
        return 0


def _call(kinds: str, *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return call(kinds, *(f"__nvJitLink{name}{v}" if v else f"nvJitLink{name}" for name in names for v in VERSIONS))


@reader("J")
def link_of(handle: int) -> Link:
    """A link."""
    return PROCESS.get(handle, Link)


@_call("OUP", "Create")
def create(out: int, count: int, options: int) -> None:
    """A link; of the options the GPU matters."""
    words = [text_at(get64(options + 8 * i)) for i in range(count)]
    found = [re.search(r"-arch=(?:sm|compute)_(\d+)", word) for word in words]
    put64(out, PROCESS.handles.put(Link(next((int(m[1]) for m in found if m), 90))))


@_call("O", "Destroy")
def destroy(where: int) -> None:
    """The end of a link."""
    PROCESS.handles.end(link_of(get64(where)))
    put64(where, 0)


@_call("JIOPP", "AddData")
def add_data(link: Link, kind: int, data: int, nbytes: int, name: int) -> int:
    """A module."""
    return link.attempt(lambda: link.take(bytes_at(data, nbytes)))


@_call("JIT", "AddFile")
def add_file(link: Link, kind: int, path: str) -> int:
    """A module, from a file."""
    return link.attempt(lambda: link.add_file(path, link.sm))


@_call("J", "Complete")
def complete(link: Link) -> int:
    """Link."""
    return link.attempt(link.finish)


@_call("JO", "GetLinkedCubinSize", "GetLinkedPtxSize")
def cubin_size(link: Link, out: int) -> None:
    """Bytes of what was linked."""
    put64(out, len(link.result))


@_call("JO", "GetLinkedCubin", "GetLinkedPtx")
def cubin(link: Link, out: int) -> None:
    """What was linked."""
    put_bytes(out, link.result)


@_call("JO", "GetErrorLogSize")
def error_size(link: Link, out: int) -> None:
    """Bytes of the log."""
    put64(out, len(link.log.encode()) + 1)


@_call("JO", "GetErrorLog")
def error_log(link: Link, out: int) -> None:
    """What went wrong."""
    put_bytes(out, link.log.encode() + b"\0")


@_call("JO", "GetInfoLogSize")
def info_size(link: Link, out: int) -> None:
    """Nothing to tell."""
    put64(out, 1)


@_call("JO", "GetInfoLog")
def info_log(link: Link, out: int) -> None:
    """Nothing to tell."""
    put_bytes(out, b"\0")


@_call("JO", "GetLinkedLTOIRSize", "GetLinkedLTOIR")
def linked_intermediate(link: Link, out: int) -> int:
    """What is linked is PTX."""
    return UNSUPPORTED


@call("PP", "nvJitLinkVersion", "__nvJitLinkVersion")
def version(major: int, minor: int) -> None:
    """Too old for link-time optimisation."""
    put32(major, 12)
    put32(minor, 2)

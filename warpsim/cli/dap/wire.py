"""Messages of the Debug Adapter Protocol over a pair of streams: a header with the length, then JSON."""

from __future__ import annotations

import contextlib
import json
import threading
from io import RawIOBase
from typing import Any, BinaryIO

LARGEST = 1 << 26
"""Bytes of a message that is read."""


class Broken(Exception):
    """What came in is no message: there is no way to find the next one."""


class Wire:
    """Reads and writes messages; writing is safe from any thread."""

    def __init__(self, source: RawIOBase | BinaryIO, target: BinaryIO) -> None:
        self.source, self.target = source, target
        self._lock = threading.Lock()
        self._sent = 0

    def read(self) -> dict[str, Any] | None:
        """The next message; None at the end of the input.

        Raises:
            Broken: what came in is none."""
        length: int | None = None
        while True:
            line = self.source.readline(1024)
            if not line:
                return None
            if line in (b"\r\n", b"\n"):
                break
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length":
                digits = value.strip()
                if not digits.isdigit() or len(digits) > 9 or int(digits) > LARGEST:
                    raise Broken(f"a length of {digits[:20]!r}")
                length = int(digits)
        if length is None:
            raise Broken("a header without Content-Length")
        body = b""
        while len(body) < length:
            part = self.source.read(length - len(body))
            if not part:
                return None
            body += part
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as problem:
            raise Broken(f"a body that is no JSON: {problem}") from None
        if not isinstance(message, dict):
            raise Broken("a message that is no object")
        return message

    def send(self, kind: str, **fields: Any) -> None:
        """Write a message."""
        with self._lock:
            self._sent += 1
            body = json.dumps({"seq": self._sent, "type": kind, **fields}).encode()
            with contextlib.suppress(OSError, ValueError):  # nobody listens any more
                self.target.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
                self.target.flush()

    def event(self, name: str, **body: Any) -> None:
        """Write an event."""
        self.send("event", event=name, body=body)


class Printed:
    """What is printed, as output events: standard output belongs to the protocol."""

    def __init__(self, wire: Wire, category: str) -> None:
        self.wire, self.category = wire, category
        self.encoding, self.errors = "utf-8", "replace"

    def write(self, text: str) -> int:
        """Send a text."""
        if text:
            self.wire.event("output", category=self.category, output=text)
        return len(text)

    def flush(self) -> None:
        """Nothing is kept back."""

    def isatty(self) -> bool:
        """Nobody looks at this directly."""
        return False

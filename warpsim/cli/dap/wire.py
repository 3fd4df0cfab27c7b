"""Messages of the Debug Adapter Protocol over a pair of streams: a header with the length, then JSON."""

from __future__ import annotations

import contextlib
import json
import threading
from io import RawIOBase
from typing import Any, BinaryIO

LARGEST = 1 << 26
"""Largest message that is read, in bytes."""


class Broken(Exception):
    """The input is not a message, so the start of the next one cannot be found."""


class Wire:
    """Reads and writes messages; writing is safe from any thread."""

    def __init__(self, source: RawIOBase | BinaryIO, target: BinaryIO) -> None:
        self.source, self.target = source, target
        self._lock = threading.Lock()
        self._sent = 0

    def read(self) -> dict[str, Any] | None:
        """The next message; None at the end of the input.

        Raises:
            Broken: the input is not a message.
        """
        length = self._header()
        body = b""
        while length is not None and len(body) < length:
            part = self.source.read(length - len(body))
            if not part:
                return None
            body += part
        if length is None:
            return None
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as problem:
            raise Broken(f"body is not JSON: {problem}") from None
        if not isinstance(message, dict):
            raise Broken("message is not an object")
        return message

    def _header(self) -> int | None:
        """The length of the next message; None at the end of the input."""
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
                    raise Broken(f"bad Content-Length {digits[:20]!r}")
                length = int(digits)
        if length is None:
            raise Broken("header without Content-Length")
        return length

    def send(self, kind: str, **fields: Any) -> None:
        """Write a message."""
        with self._lock:
            self._sent += 1
            body = json.dumps({"seq": self._sent, "type": kind, **fields}).encode()
            with contextlib.suppress(OSError, ValueError):  # the client is gone
                self.target.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
                self.target.flush()

    def event(self, name: str, **body: Any) -> None:
        """Write an event."""
        self.send("event", event=name, body=body)


class Printed:
    """Sends printed text as output events, because standard output carries the protocol."""

    def __init__(self, wire: Wire, category: str) -> None:
        self.wire, self.category = wire, category
        self.encoding, self.errors = "utf-8", "replace"

    def write(self, text: str) -> int:
        """Send text."""
        if text:
            self.wire.event("output", category=self.category, output=text)
        return len(text)

    def flush(self) -> None:
        """Do nothing; nothing is buffered."""

    def isatty(self) -> bool:
        """False: this is not a terminal."""
        return False

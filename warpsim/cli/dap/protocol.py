"""Messages of the Debug Adapter Protocol over a pair of streams (a header with the length, then JSON), and the keys of
requests."""

from __future__ import annotations

import contextlib
import difflib
import json
import re
import threading
from collections.abc import Callable, Mapping
from io import RawIOBase
from typing import BinaryIO, TypeAlias

from warpsim.debug import DebugError
from warpsim.host.kernel import LaunchResult
from warpsim.types import JsonObject

Body = JsonObject
"""A JSON object."""

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

    def read(self) -> Body | None:
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

    def send(self, kind: str, **fields: object) -> None:
        """Write a message."""
        with self._lock:
            self._sent += 1
            body = json.dumps({"seq": self._sent, "type": kind, **fields}).encode()
            with contextlib.suppress(OSError, ValueError):  # the client is gone
                self.target.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
                self.target.flush()

    def event(self, name: str, **body: object) -> None:
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


# ---- requests -----------------------------------------------------------------------------------

Keys: TypeAlias = "Mapping[str, Keys | None]"
"""By each key the keys of the object, or of the objects, that it holds; None for any other value."""


def _keys(words: str, **parts: Keys) -> Keys:
    return {**dict.fromkeys(words.split()), **parts}


FORMAT = _keys("hex")
SOURCE = _keys("name path sourceReference presentationHint origin sources adapterData checksums")
STEP = _keys("threadId singleThread granularity targetId")
REQUESTS: Mapping[str, Keys] = {
    "breakpointLocations": _keys("line column endLine endColumn", source=SOURCE),
    "completions": _keys("frameId text column line"),
    "continue": _keys("threadId singleThread"),
    "dataBreakpointInfo": _keys("variablesReference name frameId bytes asAddress mode"),
    "disassemble": _keys("memoryReference offset instructionOffset instructionCount resolveSymbols"),
    "disconnect": _keys("restart terminateDebuggee suspendDebuggee"),
    "evaluate": _keys("expression frameId line column context", source=SOURCE, format=FORMAT),
    "exceptionInfo": _keys("threadId"),
    "goto": _keys("threadId targetId"),
    "gotoTargets": _keys("line column", source=SOURCE),
    "modules": _keys("startModule moduleCount"),
    "next": STEP,
    "pause": _keys("threadId"),
    "readMemory": _keys("memoryReference offset count"),
    "reverseContinue": _keys("threadId singleThread"),
    "scopes": _keys("frameId"),
    "setBreakpoints": _keys(
        "lines sourceModified",
        source=SOURCE,
        breakpoints=_keys("line column condition hitCondition logMessage mode"),
    ),
    "setDataBreakpoints": _keys("", breakpoints=_keys("dataId accessType condition hitCondition")),
    "setExceptionBreakpoints": _keys(
        "filters", filterOptions=_keys("filterId condition mode"), exceptionOptions=_keys("path breakMode")
    ),
    "setExpression": _keys("expression value frameId", format=FORMAT),
    "setFunctionBreakpoints": _keys("", breakpoints=_keys("name condition hitCondition")),
    "setInstructionBreakpoints": _keys(
        "", breakpoints=_keys("instructionReference offset condition hitCondition mode")
    ),
    "setVariable": _keys("variablesReference name value", format=FORMAT),
    "source": _keys("sourceReference", source=SOURCE),
    "stackTrace": _keys(
        "threadId startFrame levels",
        format=_keys("hex parameters parameterTypes parameterNames parameterValues line module includeAll"),
    ),
    "stepBack": STEP,
    "stepIn": STEP,
    "stepOut": STEP,
    "terminate": _keys("restart"),
    "variables": _keys("variablesReference filter start count", format=FORMAT),
    "writeMemory": _keys("memoryReference offset allowPartial data"),
}
"""The arguments of requests in the protocol's specification."""
EDITORS = _keys(
    "type request name noDebug presentation preLaunchTask postDebugTask internalConsoleOptions debugServer "
    "serverReadyAction suppressMultipleSessionWarning windows linux osx"
)
"""Keys of a launch configuration that are the editor's own; so are those that begin with an underscore."""


def check_request(command: str, given: Mapping[str, object]) -> None:
    """Check the arguments of a request. A later version of the protocol may have keys that are not known here, so only
    what looks like another key is refused.

    Raises:
        DebugError: a key is mistyped.
    """
    if command in REQUESTS:
        _check(command, given, REQUESTS[command])


def _check(where: str, given: Mapping[str, object], known: Keys) -> None:
    for key, value in given.items():
        close = [] if key in known else difflib.get_close_matches(key, known, 1, 0.8)
        if close:
            raise DebugError(f'{where}: unknown key "{key}"; did you mean "{close[0]}"?')
        inner = known.get(key)
        if inner is not None:
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, dict):
                    _check(f"{where}: {key}", each, inner)


def check_launch(given: Mapping[str, object], known: Mapping[str, object]) -> None:
    """Check the keys of a launch configuration against those that ``known`` has.

    Raises:
        DebugError: a key has no meaning here.
    """
    for key in given:
        if key not in known and key not in EDITORS and not key.startswith("_"):
            close = difflib.get_close_matches(key, known, 1, 0.7)
            hint = f'did you mean "{close[0]}"?' if close else f"keys: {', '.join(sorted(known))}"
            raise DebugError(f'launch: unknown key "{key}"; {hint}')


NAMES = ("device", "checks", "async-effects", "numerics", "max-instructions", "max-seconds", "schedule")
OPTIONS = {re.sub("-.", lambda found: found[0][1].upper(), name): f"--{name}" for name in NAMES}
"""The options of a launch as a configuration spells them: ``asyncEffects``."""
LAUNCH = {
    "kernel": "--kernel",
    "grid": "--grid",
    "block": "--block",
    "shared": "--shared",
    "cluster": "--cluster",
    "cudaFlags": "--cuda-flags",
}
SHOWN: dict[str, tuple[object, ...]] = {
    "stopOnEntry": (True, False),
    "stayAtEnd": (True, False),
    "sources": ("ptx", "cuda"),
}
"""What the adapter itself looks at, and its legal values."""
KNOWN = {**OPTIONS, **LAUNCH, **SHOWN, "program": "", "case": "", "arrays": "", "args": ""}


def run_launch(given: Body, serve: Callable[..., LaunchResult]) -> int:
    """Run what a launch configuration describes, with ``serve`` in place of the launch; returns the exit status.

    Raises:
        Unusable: the configuration is invalid.
    """
    from warpsim.cli.grammar import parser
    from warpsim.cli.running import run_one

    check_launch(given, KNOWN)
    for name, values in SHOWN.items():
        if given.get(name, values[0]) not in values:
            raise DebugError(f"launch: {name} is {' or '.join(map(json.dumps, values))}, not {json.dumps(given[name])}")
    if ("case" in given) == ("program" in given):
        raise DebugError("a launch configuration needs a program (PTX) or a case (a recorded launch)")
    foreign = [name for name in (*LAUNCH, "arrays", "args") if name in given] if "case" in given else []
    if foreign:
        raise DebugError(f"launch: a recorded launch has its own {', '.join(foreign)}")
    words = ["debug", "replay", str(given["case"])] if "case" in given else ["debug", "run", str(given["program"])]
    chosen = {**OPTIONS, **({} if "case" in given else LAUNCH)}
    for name, option in chosen.items():
        if given.get(name) is not None:
            words.append(f"{option}={_text(given[name])}")
    for name, option in (("arrays", "--array"), ("args", "--arg")):
        words += [f"{option}={each}" for each in given.get(name) or []]
    return run_one(parser().parse_args(words), serve)


def _text(value: object) -> str:
    """Format 16 or [16, 16] as the command line expects it."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)

"""What all groups of commands share: the session, the output, the state of the dialogue; values as text, in gdb's formats
and per lane."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TextIO

import numpy as np
from numpy.typing import ArrayLike

from warpsim.cli.debug.table import Command
from warpsim.debug import DebugError, Session
from warpsim.debug.threads import ranges
from warpsim.errors import Finding
from warpsim.machine.values import Array
from warpsim.program import c_types
from warpsim.program.c_types import CType
from warpsim.program.mangling import qualified_name
from warpsim.records import define
from warpsim.types import B128


class Quiet(str):
    """A line of a block, such as the commands of a breakpoint: it is not echoed."""


@define
class Defined:
    """A command that the user has defined."""

    lines: list[str]
    help: str = "The user has defined this command."


BLOCKS = ("commands", "define", "document", "if", "while")
"""Commands that read lines up to their "end"."""


class Console:
    """A session, a stream to print on, and what commands leave for others."""

    def __init__(self, session: Session, out: TextIO, *, colour: bool) -> None:
        self.session, self.out, self.colour = session, out, colour
        self.source: Callable[[], str | None] = lambda: None
        """Gives the lines that follow ``queue``."""
        self.queue: list[str] = []
        self.displays: dict[int, tuple[str, str]] = {}
        self.scripts: dict[int, list[str]] = {}
        """By breakpoint, the commands to run when it stops."""
        self.defined: dict[str, Defined] = {}
        self.commands: Mapping[str, Command] = {}
        self.find: Callable[[str], Command]
        """Finds the command that a line names."""
        self.execute: Callable[[str], None]
        """Executes a line; raises what is wrong with it."""
        self.files = 0
        """Command files that the lines to come are from."""
        self.previous: dict[str, Array] = {}
        """The registers before the last motion."""
        self.step_by = "instruction"
        self.listed: tuple[str, int, int] | None = None
        """The file that ``list`` has shown, the first line of it, and the one behind the last."""
        self.errors: list[Finding] = []
        """Errors at which the launch has stopped."""

    def say(self, text: str = "") -> None:
        """Print a line."""
        print(text, file=self.out)

    def say_all(self, lines: Iterable[str], none: str) -> None:
        """Print lines, or another if there are none."""
        print(*(list(lines) or [none]), sep="\n", file=self.out)

    def paint(self, text: str, code: str) -> str:
        """Colour text if the terminal supports it."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    def further(self) -> str | None:
        """The next line of the dialogue; None if there is none."""
        return self.queue.pop(0) if self.queue else self.source()

    def block(self) -> list[str]:
        """The lines up to the "end" that belongs here, without indentation."""
        lines: list[str] = []
        depth = 1
        while (line := self.further()) is not None:
            word = line.split()[0] if line.strip() else ""
            depth += (word in BLOCKS) - (word == "end")
            if depth == 0:
                break
            lines.append(line.strip())
        return lines

    def place(self, text: str) -> str:
        """A place as `Session.break_at` takes it: that of ``*EXPRESSION``, of ``+N`` and ``-N`` from here, of a line of
        the current CUDA file where steps are CUDA lines, of the current line."""
        stop = self.session.stop
        source = stop.source if self.step_by == "line" else None
        if text.startswith("*"):
            return str(_integer(self.session.evaluate(text[1:]), text))
        if stop.line is None:
            if not text or text[0] in "+-":
                raise DebugError(
                    "no thread stands anywhere: name a PTX line, file.cu:N, a label, a function, op:PATTERN"
                )
            return text
        here = source[1] if source is not None else stop.line
        if not text or (text[0] in "+-" and text[1:].isdigit()):
            text = str(here + int(text or 0))
        return f"{source[0]}:{text}" if source is not None and text.isdigit() else text

    def whereabouts(self) -> str:
        """Describe the thread in focus, and the lanes that move with it."""
        focus, calls = self.session.thread, self.session.where()
        mine = [w for w in self.session.warps() if (w.cta, w.warp) == (focus.cta, focus.warp)]
        at = self.session.group_state()
        lanes = next((w for w in mine if at is not None and w.line == at.instruction.span.line), None)
        name = next((call.function for call in calls if not call.inlined), self.session.kernel.name)
        with_it = f"lanes {lanes.lanes} together" if lanes is not None else "not running"
        if lanes is not None and lanes.state not in ("runs", "ready"):
            with_it += f", which {lanes.state.replace('waits', 'wait', 1).replace('polls', 'poll', 1)}"
        return f"{qualified_name(name)}, {focus}; {with_it}; step {self.session.stop.step}"


class Commands:
    """Commands of one subject."""

    def __init__(self, console: Console) -> None:
        self.console, self.session, self.say = console, console.session, console.say


def count_of(text: str, least: int = 1) -> int:
    """Parse a count; 1 if none is given."""
    text = text.strip()
    if not text:
        return max(least, 1)
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise DebugError(f"expected a number, not {text[:40]!r}")
    number = int(text)
    if number < least:
        raise DebugError(f"{number} is too small: the least is {least}")
    return number


def _integer(value: ArrayLike, text: str) -> int:
    data = np.ma.getdata(value).reshape(-1)
    if not len(data) or data.dtype.kind not in "iuO" or (data != data[0]).any():
        raise DebugError(f"{text[:40]} is not the number of a line")
    return int(data[0])


def number_of(text: str, what: str) -> int:
    """Parse the number of a breakpoint or display."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise DebugError(f"expected the number of {what}, not {text[:40]!r}")
    return int(text)


# ---- values as text -----------------------------------------------------------------------------

LETTERS = "xduotacfz"
ACROSS = 8
"""Lanes per row of text."""
WIDEST = 24
"""Most characters of an element of which several stand in a row."""
FLOATS = {2: np.float16, 4: np.float32, 8: np.float64}


def formatter(letter: str) -> Callable[[Any], str]:
    """A function that formats one element.

    Raises:
        DebugError: there is no such format.
    """
    if letter not in LETTERS:
        raise DebugError(
            f"{letter!r} is not a format; use {', '.join('/' + c for c in LETTERS)} or a type, such as /f16x2"
        )

    def text(value: ArrayLike) -> str:
        size, raw = np.asarray(value).dtype.itemsize, np.ascontiguousarray(value).tobytes()
        bits = int.from_bytes(raw, "little")
        if letter in "xaz":
            return f"0x{bits:0{2 * size}x}" if letter == "z" else f"0x{bits:x}"
        if letter == "t":
            return f"{bits:b}"
        if letter == "o":
            return f"0{bits:o}"
        if letter == "u":
            return str(bits)
        if letter == "c":
            return f"{bits & 255} {chr(bits & 255)!r}"
        if letter == "f" and size in FLOATS:
            return plain(np.frombuffer(raw, FLOATS[size])[0])
        return str(bits - (1 << 8 * size) if bits >> (8 * size - 1) else bits)

    return text


def plain(value: Any) -> str:
    """Format an element as its type suggests."""
    kind = getattr(value, "dtype", None)
    if isinstance(value, (bool, np.bool_)):
        return "1" if value else "0"
    if kind == B128:
        return f"0x{int(value['hi']):x}{int(value['lo']):016x}"
    if kind is not None and kind.names is not None:
        return "{" + ", ".join(f"{name} = {show(value[name])}" for name in kind.names) + "}"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return str(value if isinstance(value, (float, np.floating)) else np.float32(value))


def show(value: ArrayLike, letter: str = "", of: CType | None = None) -> str:
    """Format a value: one element, the parts of packed bits, an array, or one element per lane; as a type of C, if it has
    one."""
    if of is not None:
        typed = partial(_typed, of, letter)
        return _lanes(value, typed) if isinstance(value, np.ma.MaskedArray) else typed(value)
    one = formatter(letter) if letter else plain
    if isinstance(value, np.ma.MaskedArray):
        return _lanes(value, one)
    data = np.asarray(value)
    if data.dtype == object and letter:
        data = (
            data.astype(np.int64)
            if all(-(2**63) <= int(v) < 2**63 for v in data.reshape(-1))
            else data.astype(np.uint64)
        )
    if data.ndim == 0:
        return one(data[()])
    return "{" + ", ".join(_run(count, show(item, letter)) for count, item in _runs(data)) + "}"


def _typed(of: CType, letter: str, value: ArrayLike) -> str:
    data = np.asarray(value)
    match of:
        case c_types.Array():
            return "{" + ", ".join(_run(count, _typed(of.of, letter, item)) for count, item in _runs(data)) + "}"
        case c_types.Struct():
            names = data.dtype.names or ()
            parts = [f"{n} = {_typed(m.type, letter, data[n])}" for n, m in zip(names, of.members, strict=False)]
            return "{" + ", ".join(parts) + "}"
        case c_types.Pointer() if not letter:
            return hex(int(data[()]))
        case c_types.Scalar() if not letter and of.words:
            return of.words.get(int(data[()]), str(int(data[()])))
        case c_types.Scalar(character=True) if not letter:
            return f"{int(data[()])} {chr(int(data[()]) & 255)!r}"
    return formatter(letter)(data[()]) if letter else plain(data[()])


def _runs(data: Array) -> list[tuple[int, ArrayLike]]:
    """Runs of equal elements, as (length, element)."""
    found: list[tuple[int, ArrayLike]] = []
    for item in data:
        raw = np.asarray(item).tobytes()
        if found and np.asarray(found[-1][1]).tobytes() == raw:
            found[-1] = (found[-1][0] + 1, found[-1][1])
        else:
            found.append((1, item))
    return found


def _run(count: int, text: str) -> str:
    return ", ".join([text] * count) if count < 4 else f"{text} <repeats {count} times>"


def _lanes(value: Array, one: Callable[[Any], str]) -> str:
    data = np.ma.getdata(value)
    mask: Array = np.ma.getmaskarray(value)
    while mask.dtype.names:
        mask = mask[mask.dtype.names[0]]
    away: Array = mask if mask.ndim == 1 else np.all(mask, axis=tuple(range(1, mask.ndim)))

    def element(item: Any) -> str:
        if np.asarray(item).ndim == 0 or isinstance(one, partial):
            return one(item)
        return "(" + ", ".join(one(part) for part in item) + ")"

    texts = ["-" if away[lane] else element(data[lane]) for lane in range(len(data))]
    here = {text for lane, text in enumerate(texts) if not away[lane]}
    if len(here) == 1:
        return next(iter(here)) + (" in all lanes" if not away.any() else f" in lanes {ranges(np.flatnonzero(~away))}")
    width = max(len(text) for text in texts)
    if width > WIDEST:
        return "\n" + "\n".join(f"  lane {lane:2}: {text}" for lane, text in enumerate(texts) if not away[lane])
    rows = [
        f"  lane {start:2}: " + " ".join(text.rjust(width) for text in texts[start : start + ACROSS])
        for start in range(0, len(texts), ACROSS)
    ]
    return "\n" + "\n".join(rows)


def abridged(value: ArrayLike, of: CType | None = None) -> str:
    """Format a value; of a long array, the first 8 elements."""
    data = np.asarray(value)
    if isinstance(value, np.ma.MaskedArray) or data.ndim == 0 or len(data) <= 8:
        return show(value, of=of)
    return show(data[:8], of=of)[:-1] + f", ...}} ({len(data)} elements)"


def format_of(data: Array) -> Callable[[Any], str]:
    """Choose the format of a register's elements: hexadecimal where they are addresses."""
    wide = data.dtype == np.uint64 and bool((data >= 1 << 32).any())
    return (lambda item: hex(int(item))) if wide else plain


def short(value: Array) -> str:
    """Format a register on one line: its single value, or the first and the last."""
    data, mask = np.ma.getdata(value), np.ma.getmaskarray(value)
    texts = [*map(format_of(data), data[~mask])]
    if not texts:
        return "-"
    if len(set(texts)) == 1:
        return texts[0]
    return ", ".join(texts[:4]) + f" .. {texts[-1]}"


def one_line(value: ArrayLike, of: CType | None = None) -> str:
    """Format a value on one line: a register in short, anything else abridged."""
    if isinstance(value, np.ma.MaskedArray) and value.ndim == 1 and value.dtype.names is None:
        return short(value)
    return abridged(value, of)


def equation(name: str, value: str) -> str:
    """Format ``name = value``; a table goes below its name."""
    return f"{name} ={value}" if value.startswith("\n") else f"{name} = {value}"


def grid(values: Array, across: int = 16, *, first: tuple[int, int] = (0, 0), hexadecimal: bool = False) -> list[str]:
    """Format a matrix with row and column numbers, which begin with ``first``, ``across`` columns at a time; masked elements
    are dashes."""
    data, mask, one = np.ma.getdata(values), np.ma.getmaskarray(values), "{:#x}".format if hexadecimal else _narrow
    rows, columns = data.shape
    texts = [["-" if mask[r, c] else one(data[r, c]) for c in range(columns)] for r in range(rows)]
    width = max(max((len(text) for row in texts for text in row), default=1), len(str(first[1] + columns)))
    found = []
    for start in range(0, columns, across):
        stop = min(start + across, columns)
        found.append("      " + " ".join(str(first[1] + c).rjust(width) for c in range(start, stop)))
        for r in range(rows):
            found.append(f"{first[0] + r:4}: " + " ".join(text.rjust(width) for text in texts[r][start:stop]))
    return found


def _narrow(value: Any) -> str:
    return plain(value) if isinstance(value, (np.integer, np.bool_)) else f"{float(value):.4g}"

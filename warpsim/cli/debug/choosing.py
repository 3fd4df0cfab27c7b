"""Commands that choose threads and list them, in our words and in those of cuda-gdb."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from warpsim.cli.debug.console import Commands, Console, plain
from warpsim.cli.debug.table import command
from warpsim.debug import DebugError, WarpState
from warpsim.errors import source_name
from warpsim.program.mangling import qualified_name
from warpsim.records import frozen

Dims = tuple[int, int, int]
WORDS = ("device", "sm", "kernel", "grid", "cluster", "cta", "block", "warp", "lane", "thread")
ONLY = {"device": 0, "sm": 0, "kernel": 0, "grid": 1}
"""Words of cuda-gdb that have one number here."""
COORDINATES = re.compile(
    rf"({'|'.join(WORDS)})?\s*(\(\s*\d{{1,9}}(?:\s*,\s*\d{{1,9}})*\s*\)|\d{{1,9}}(?:,\d{{1,9}})*)?\s*,?\s*"
)
FORM = "focus cta X,Y,Z warp W lane L, or block (X,Y,Z) thread (X,Y,Z)"


class Choosing(Commands):
    """The focus command, its short forms, and thread apply."""

    @command("threads", "[cta X,Y,Z] [warp W] [lane L]", takes="coordinates")
    def do_focus(self, text: str) -> None:
        """Choose the thread that step, print and watch refer to, or show it. The words of cuda-gdb do the same: block
        (X,Y,Z) thread (X,Y,Z), and cluster, kernel, grid, device, sm; words without numbers show those coordinates."""
        words = text.split()
        if words and all(word in WORDS for word in words):
            self.say(", ".join(self._coordinate(word) for word in words))
            return
        if text:
            self.session.focus(**self._chosen(text))
        self.say(self.console.whereabouts())
        calls = self.session.where()
        if calls and text:
            self.say(f"{calls[0].line:6}  {calls[0].text.expandtabs(1)}")

    def _coordinate(self, word: str) -> str:
        focus, state = self.session.thread, self.session.timeline.state
        if word in ONLY:
            return f"{word} {ONLY[word]}"
        if word in ("warp", "lane"):
            return f"{word} {getattr(focus, word)}"
        if word == "thread":
            return f"thread {_dims(_index(focus.warp * 32 + focus.lane, state.block))}"
        where = tuple(c // d for c, d in zip(focus.cta, state.cluster, strict=True)) if word == "cluster" else focus.cta
        return f"{word} {_dims(where)}"

    def _chosen(self, text: str) -> dict[str, Any]:
        """The part of a focus that a text names."""
        chosen: dict[str, Any] = {}
        state = self.session.timeline.state
        for word, numbers in _coordinates(text):
            if word in ONLY:
                if numbers != [ONLY[word]]:
                    raise DebugError(f"there is only {word} {ONLY[word]}: a session debugs one launch")
            elif word == "thread":
                x, y, z = (*numbers, 0, 0)[:3]
                bx, by, bz = state.block
                if not (x < bx and y < by and z < bz) or len(numbers) > 3:
                    raise DebugError(f"there is no thread ({x},{y},{z}) in a block of {state.block}")
                number = x + bx * (y + by * z)
                chosen["warp"], chosen["lane"] = number >> 5, number & 31
            elif word == "cluster":
                chosen["cta"] = [n * d for n, d in zip((*numbers, 0, 0)[:3], state.cluster, strict=True)]
            elif word in ("cta", "block"):
                chosen["cta"] = numbers
            else:
                chosen[word] = numbers[0]
        return chosen

    @command("threads", "COORDINATES", takes="coordinates")
    def do_cuda(self, text: str) -> None:
        """Choose a thread by cuda-gdb's coordinates, or show them: cuda block 1 thread 3, cuda kernel 0 block (1,0,0)
        thread (3,0,0), cuda device 0 sm 0 warp 2 lane 3, cuda block thread. There is one device, one kernel and one grid."""
        self.do_focus(text)

    @command("threads", "X,Y,Z", takes="coordinates")
    def do_cta(self, text: str) -> None:
        """Focus on another CTA."""
        self.do_focus(f"cta {text}" if text else "")

    @command("threads", "(X,Y,Z) [thread (X,Y,Z)]", takes="coordinates")
    def do_block(self, text: str) -> None:
        """Focus on another CTA, in cuda-gdb's word."""
        self.do_focus(f"block {text}" if text else "")

    @command("threads", "W")
    def do_warp(self, text: str) -> None:
        """Focus on another warp of the CTA."""
        self.do_focus(f"warp {text}" if text else "")

    @command("threads", "L")
    def do_lane(self, text: str) -> None:
        """Focus on another lane of the warp."""
        self.do_focus(f"lane {text}" if text else "")

    @command("threads", "(X,Y,Z), or apply all|N... COMMAND", takes="coordinates")
    def do_thread(self, text: str) -> None:
        """Focus on another thread of the CTA. With apply, execute COMMAND for threads of the CTA by number, such as thread
        apply 0 32-35 p %r1, or with all, once for the lanes of each running warp that stand together."""
        word, _, rest = text.partition(" ")
        if word != "apply":
            self.do_focus(f"thread {text}" if text else "")
            return
        found = re.fullmatch(r"(all|\*|[\d\s-]+)\s+(.+)", rest)
        if found is None:
            raise DebugError("thread apply all COMMAND, or thread apply N... COMMAND")
        if not self.console.find(found[2]).looks:
            raise DebugError(f"thread apply takes commands that look: {found[2].split()[0]} moves the launch")
        session, before = self.session, self.session.thread
        try:
            for cta, warp, lane in self._applied(found[1].strip()):
                session.focus(cta, warp, lane)
                thread = _dims(_index(warp * 32 + lane, session.timeline.state.block))
                self.say(f"\nThread {thread} of {session.thread}:")
                self.console.execute(found[2])
        finally:
            session.focus(before.cta, before.warp, before.lane)

    def _applied(self, text: str) -> Iterator[tuple[Dims, int, int]]:
        """The threads that a text names."""
        if text in ("all", "*"):
            yield from [(part.cta, part.warp, _lanes(part)[0]) for part in self.session.warps()]
            return
        for word in text.split():
            first, dash, last = word.partition("-")
            if not first.isdigit() or not (last.isdigit() or not dash) or len(word) > 12:
                raise DebugError(f"{word!r} is not the number of a thread")
            for number in range(int(first), min(int(last or first), int(first) + 1023) + 1):
                yield self.session.thread.cta, number >> 5, number & 31


def _coordinates(text: str) -> Iterator[tuple[str, list[int]]]:
    """Parse words with numbers; bare numbers are a warp, or a CTA, a warp and a lane."""
    found, at = [], 0
    while at < len(text):
        part = COORDINATES.match(text, at)
        if part is None or part[2] is None:
            raise DebugError(FORM)
        found.append((part[1], [int(n) for n in re.findall(r"\d+", part[2])]))
        at = part.end()
    bare = ["warp"] if len(found) == 1 else ["cta", "warp", "lane"]
    for at, (word, numbers) in enumerate(found):
        if word is None and at >= len(bare):
            raise DebugError(FORM)
        yield word or bare[at], numbers


@frozen
class _Row:
    """A row of a table; ``here`` is that of the focus."""

    cells: tuple[str, ...]
    here: bool = False


class Cuda(Commands):
    """``info cuda``: tables of what runs, as cuda-gdb prints them."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.tables = {
            "barriers": self._barriers,
            "blocks": self._blocks,
            "devices": self._devices,
            "kernels": self._kernels,
            "lanes": self._lanes,
            "sms": self._devices,
            "threads": self._threads,
            "warps": self._warps,
        }

    @command("look", "kernels|blocks|threads|warps|lanes|barriers|devices", takes="tables")
    def info_cuda(self, text: str) -> None:
        """List what runs in cuda-gdb's tables: the kernel, its blocks, their threads; the warps of the block in focus, the
        lanes of the warp in focus; the barriers and mbarriers. A star marks the focus; a PC is a PTX line."""
        found = [name for name in self.tables if name.startswith(text)] if text else []
        if len(found) != 1:
            raise DebugError(f"info cuda {'|'.join(self.tables)}")
        self.tables[found[0]]()

    def _table(self, head: Sequence[str], rows: Sequence[_Row], none: str) -> None:
        if not rows:
            self.say(none)
            return
        cells = [tuple(head), *(row.cells for row in rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        marks = " " + "".join("*" if row.here else " " for row in rows)
        for mark, row in zip(marks, cells, strict=True):
            self.say(f"{mark} " + " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    def _parts(self, *, mine: bool) -> list[WarpState]:
        """Lanes that stand together; ``mine``: those of the CTA in focus."""
        return [part for part in self.session.warps() if not mine or part.cta == self.session.thread.cta]

    def _devices(self) -> None:
        device = self.session.device.target
        self._table(("Dev", "Name", "SM Type"), [_Row(("0", "warpsim", device), here=True)], "")

    def _kernels(self) -> None:
        session, state = self.session, self.session.timeline.state
        outermost = attrs.evolve(session.context, group=None)
        params = []
        for param in outermost.symbols.visible(state.plan.main.function, 0):
            if not param.parameter:
                continue
            try:
                value = np.asarray(outermost.value(param.name))
            except DebugError:  # a copy of it is in local memory
                params.append(f"{param.name}=...")
                continue
            shown = hex(int(value)) if value.dtype == np.uint64 and value.ndim == 0 else plain(value[()])
            params.append(f"{param.name}={shown if value.ndim == 0 else '{...}'}")
        status = "Ended" if session.timeline.ended else "Active"
        call = f"{qualified_name(session.kernel.name)}({', '.join(params)})"
        row = _Row(("0", "-", "0", "1", status, _dims(state.grid), _dims(state.block), call), here=True)
        self._table(("Kernel", "Parent", "Dev", "Grid", "Status", "GridDim", "BlockDim", "Invocation"), [row], "")

    def _blocks(self) -> None:
        session, state = self.session, self.session.timeline.state
        running = {part.cta for part in session.warps()}
        states = []
        for number in range(state.n_ctas):
            cta = state.cta_of(number)
            states.append("running" if cta in running else "done" if session.has_begun(cta) else "not begun")
        rows, start = [], 0
        focus = state.number_of(session.thread.cta)
        for number in range(1, len(states) + 1):
            if number == len(states) or states[number] != states[start]:
                ends = _dims(state.cta_of(start)), _dims(state.cta_of(number - 1))
                rows.append(_Row((*ends, str(number - start), states[start]), here=start <= focus < number))
                start = number
        self._table(("BlockIdx", "To BlockIdx", "Count", "State"), rows, "")

    def _threads(self) -> None:
        block = self.session.timeline.state.block
        sources = {i.span.line: i.source for i in self.session.code}
        rows = []
        for part in self._parts(mine=False):
            lanes = [part.warp * 32 + lane for lane in _lanes(part)]
            first, last = (_dims(_index(number, block)) for number in (lanes[0], lanes[-1]))
            source = sources.get(part.line)
            where = source_name(source) if source is not None else "-"
            cells = _dims(part.cta), first, last, str(len(lanes)), str(part.line), where, part.state
            rows.append(_Row(cells, here=self._has_focus(part)))
        head = "BlockIdx", "ThreadIdx", "To ThreadIdx", "Count", "PC", "Filename:Line", "State"
        self._table(head, rows, "No thread runs.")

    def _has_focus(self, part: WarpState) -> bool:
        focus = self.session.thread
        return (part.cta, part.warp) == (focus.cta, focus.warp) and focus.lane in _lanes(part)

    def _warps(self) -> None:
        focus, block = self.session.thread, self.session.timeline.state.block
        parts = self._parts(mine=True)
        rows = []
        for warp in sorted({part.warp for part in parts}):
            mine = [part for part in parts if part.warp == warp]
            active = next(
                (p for p in mine if self._has_focus(p)), next((p for p in mine if p.state == "runs"), mine[0])
            )
            masks = [sum(1 << lane for part in which for lane in _lanes(part)) for which in ([active], mine)]
            first = _index(warp * 32 + _lanes(active)[0], block)
            cells = (
                f"{masks[0]:#010x}",
                f"{masks[1] & ~masks[0]:#010x}",
                str(active.line),
                _dims(active.cta),
                _dims(first),
            )
            rows.append(_Row((str(warp), *cells, active.state), here=warp == focus.warp))
        head = "Wp", "Active Lanes", "Divergent Lanes", "PC", "BlockIdx", "First ThreadIdx", "State"
        self._table(head, rows, f"{_dims(focus.cta)} is not running.")

    def _lanes(self) -> None:
        session, focus = self.session, self.session.thread
        state, stop = session.timeline.state, session.stop
        parts = [part for part in self._parts(mine=True) if part.warp == focus.warp]
        at = {lane: part for part in parts for lane in _lanes(part)}
        bad = stop.finding if stop.finding is not None and stop.focus == focus else None
        rows = []
        threads = state.block[0] * state.block[1] * state.block[2]
        for lane in range(min(32, threads - focus.warp * 32)):
            part = at.get(lane)
            word = "inactive" if part is None else "active" if self._has_focus(part) else "divergent"
            rule = bad.rule if bad is not None and lane in (bad.lanes or ()) else "None"
            index = _dims(_index(focus.warp * 32 + lane, state.block))
            cells = str(lane), word, str(part.line) if part is not None else "-", index, rule
            rows.append(_Row(cells, here=lane == focus.lane))
        self._table(("Ln", "State", "PC", "ThreadIdx", "Exception"), rows, "")

    def _barriers(self) -> None:
        rows = []
        for each in self.session.barriers():
            name = "cluster" if each.number is None else str(each.number)
            rows.append(_Row((_dims(each.cta), name, f"{each.arrived} of {each.expected}", "-", _some(each.waiting))))
        for mbarrier in self.session.mbarriers():
            arrived = f"{mbarrier.expected - mbarrier.pending} of {mbarrier.expected}"
            cells = _dims(mbarrier.cta), mbarrier.name, arrived, str(mbarrier.phase), _some(mbarrier.waiting)
            rows.append(_Row(cells))
        head = "BlockIdx", "Barrier", "Arrived", "Phase", "Waiting Warps"
        self._table(head, rows, "No thread has arrived at a barrier, and no mbarrier is in use.")


def _some(warps: Sequence[int]) -> str:
    return ", ".join(map(str, warps)) or "-"


def _dims(values: Sequence[int]) -> str:
    return f"({','.join(map(str, values))})"


def _index(number: int, shape: Dims) -> Dims:
    """Coordinates of a linear number."""
    x, y, _ = shape
    return number % x, number // x % y, number // (x * y)


def _lanes(part: WarpState) -> list[int]:
    """The lanes that stand together."""
    found: list[int] = []
    for run in part.lanes.split(", "):
        first, _, last = run.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found

"""The playground's Python: answers JSON messages about one launch under the debugger.

The page's worker imports it in Pyodide; it needs nothing of a browser, so its tests run it under CPython.
A request is an object with ``do`` and that command's arguments; an answer is an object, with ``error`` where the request cannot be met.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import shutil
import tempfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from warpsim.cli.grammar import parser, spelled
from warpsim.cli.launching import Left, find_case, launch_from, launch_options
from warpsim.cli.output import Unusable
from warpsim.debug import DebugError, Session
from warpsim.errors import WarpsimError, describe
from warpsim.host.cases import Case
from warpsim.report.findings import finding_record
from warpsim.trace import Tracer
from warpsim.trace.document import Trace, class_of

WORDS, ROWS = 32, 32
"""Shared memory is shown as rows of one word for each bank; so many rows at once."""
CELLS = 64
"""Most rows and columns of a matrix, and most elements of an array, that are shown."""
STEPS = 4000
"""Most steps of a timeline."""
FILE = "kernel.ptx"


class Playground:
    """The launch that the page shows."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.arrays: list[np.ndarray] = []
        self.seen: dict[str, list[str]] = {}
        self.folder = Path(tempfile.mkdtemp())

    def answer(self, message: str) -> str:
        """The answer to a message, both as JSON."""
        request = json.loads(message)
        commands: dict[str, Callable[..., dict[str, Any]]] = {
            "load": self.load, "move": self.move, "focus": self.focus, "look": self.look,
            "matrix": self.matrix, "timeline": self.timeline, "example": self.example,
        }  # fmt: skip
        do = commands.get(request.pop("do", None))
        try:
            answer = {"error": "unknown command"} if do is None else do(**request)
        except WarpsimError as problem:
            text = str(problem).replace(f"{self.folder}/", "")
            answer = {"error": text, "findings": [_finding(f) for f in problem.findings]}
        except (Unusable, DebugError) as problem:
            answer = {"error": str(problem), "findings": []}
        return json.dumps(answer)

    def example(self, name: str) -> dict[str, Any]:
        """The text of a bundled program."""
        return {"text": (find_case(name) / FILE).read_text(encoding="utf-8")}

    def load(self, text: str, launch: str) -> dict[str, Any]:
        """Begin a launch of the module ``text``. ``launch`` holds the options of ``warpsim run``, or ``replay`` and a program's name."""
        self.session, self.seen = None, {}
        try:
            words = shlex.split(launch)
        except ValueError as problem:
            raise Unusable(f"{launch}: {problem}") from None
        replay = words[:1] == ["replay"]
        (self.folder / FILE).write_text(text, encoding="utf-8")
        options = _parsed(["replay", *words[1:]] if replay else ["run", str(self.folder / FILE), *words])
        options.engine, options.json = "interpreter", True
        with contextlib.suppress(Left):
            if replay:
                self._replay(text, options)
            else:
                launch_from(options, self._begin)
        assert self.session is not None
        return {**self.look(), "lines": sorted({i.span.line for i in self.session.code})}

    def _replay(self, text: str, options: Namespace) -> None:
        """The program's recorded launch, with this text in place of its own."""
        (name,) = options.case
        folder = self.folder / Path(name).name
        if not folder.exists():
            shutil.copytree(find_case(name), folder)
        (folder / FILE).write_text(text, encoding="utf-8")
        options.progress = None
        Case.read(folder).prepare().launch(self._begin, **launch_options(options))

    def _begin(self, kernel: Any, grid: Any, block: Any, args: Any, **options: Any) -> Any:
        self.session = Session(kernel, grid, block, args, **options)
        self.arrays = [a for a in args if isinstance(a, np.ndarray)]
        raise Left

    def _launch(self) -> Session:
        if self.session is None:
            raise Unusable("nothing is loaded")
        return self.session

    def move(self, how: str, count: int = 1) -> dict[str, Any]:
        """Move by ``step`` or ``back`` so many instructions, to ``goto`` a step, ``cont``inue or ``rcont`` back, or ``restart``."""
        session = self._launch()
        moves: dict[str, Callable[[], Any]] = {
            "step": lambda: session.step(count),
            "back": lambda: session.back(count),
            "goto": lambda: session.goto(count),
            "cont": session.cont,
            "rcont": session.reverse_cont,
            "restart": lambda: session.goto(0),
        }
        moves[how]()
        return self.look()

    def focus(self, cta: list[int], warp: int, lane: int = 0) -> dict[str, Any]:
        """Look at another thread."""
        session = self._launch()
        with contextlib.suppress(DebugError):  # one that has exited has nothing to show
            session.focus(cta, warp)
            session.focus(cta, warp, lane)
        return self.look()

    def look(self, shared: int = 0) -> dict[str, Any]:
        """Where the launch stands, and what the thread in focus sees; ``shared`` is the first row of shared memory."""
        session = self._launch()
        stop, thread, state = session.stop, session.thread, session.timeline.state
        findings = [_finding(f) for f in session.findings]
        if stop.finding is not None:
            findings.append(_finding(stop.finding))
        before, self.seen = self.seen, {}
        return {
            "stop": {"reason": stop.reason, "step": stop.step, "line": stop.line, "source": stop.source},
            "focus": {"cta": thread.cta, "warp": thread.warp, "lane": thread.lane},
            "findings": list({json.dumps(f): f for f in findings}.values()),
            "error": "",
            "registers": [self._changed(before, name, _texts(v)) for name, v in session.registers.items()],
            "shared": self._shared(before, shared),
            "arrays": [
                self._changed(before, f"array {n}", _texts(a.reshape(-1)[:CELLS])) for n, a in enumerate(self.arrays)
            ]
            if stop.reason == "end"
            else [],
            "warps": [
                {"cta": w.cta, "warp": w.warp, "lanes": w.lanes, "line": w.line, "state": w.state}
                for w in session.warps()
            ],
            "waits": [_barrier(b) for b in session.barriers()] + [_mbarrier(m) for m in session.mbarriers()],
            "flights": [
                {"line": f.line, "text": f.instruction, "until": f.until, "warp": f.warp} for f in session.in_flight()
            ],
            "printed": "".join(text for _, text in state.printed),
        }

    def _changed(self, before: dict[str, list[str]], name: str, values: list[str]) -> dict[str, Any]:
        """Values with the places of those that are not as they were last seen."""
        self.seen[name] = values
        old = before.get(name)
        new = range(len(values)) if old is None and before else ()
        return {
            "name": name,
            "values": values,
            "changed": list(new) if old is None else [i for i, v in enumerate(values) if i >= len(old) or old[i] != v],
        }

    def _shared(self, before: dict[str, list[str]], first: int) -> dict[str, Any]:
        session = self._launch()
        size = session.timeline.state.shared_size
        start = first * WORDS * 4
        nbytes = max(min(size - start, ROWS * WORDS * 4), 0) & ~3
        words = np.zeros(0, np.uint32)
        with contextlib.suppress(DebugError):  # no CTA runs any more
            words = np.frombuffer(session.memory("shared", start, nbytes), np.uint32) if nbytes else words
        return {**self._changed(before, f"shared {first}", [f"{w:x}" for w in words]), "first": first, "size": size}

    def matrix(self, operand: str) -> dict[str, Any]:
        """An operand of the matrix instruction here: values, and who owns each."""
        found = self._launch().matrix(operand)
        values = found.values[:CELLS, :CELLS]
        rows, columns = values.shape
        return {
            "name": found.name,
            "instruction": found.instruction,
            "axes": found.axes,
            "shape": found.values.shape,
            "values": [_texts(row) for row in values],
            "owners": [[found.owner(r, c) for c in range(columns)] for r in range(rows)],
            "lanes": None if found.lanes is None else found.lanes[:CELLS, :CELLS].tolist(),
        }

    def trace(self) -> Trace | None:
        """The launch from its beginning, as far as a timeline goes; nothing where it cannot begin."""
        tracer = Tracer()
        self._launch().timeline.again([tracer]).forward(STEPS)
        return tracer.trace() if tracer.began else None

    def timeline(self) -> dict[str, Any]:
        """Each step of the launch: its line and kind, and the warps that execute it; and the steps of findings."""
        trace = self.trace()
        if trace is None:
            return {"warps": [], "steps": [], "findings": [], "flights": []}
        crews: list[tuple[int, ...]] = [()] * len(trace.steps)
        for first, last, crew in trace.runs:
            crews[first:last] = [trace.crews[crew][0]] * (last - first)
        steps = [
            (trace.instructions[n].span.line, class_of(trace.instructions[n].traits), crew)
            for n, crew in zip(trace.steps, crews, strict=True)
        ]
        return {
            "warps": trace.warps,
            "steps": steps[:STEPS],
            "findings": [(step, finding.rule) for step, finding in trace.findings],
            "flights": [(f.kind, f.issued, f.visible) for f in trace.flights],
        }


def _parsed(words: list[str]) -> Namespace:
    """The options of a command, as the command line reads them."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            return parser().parse_args(spelled(["debug", *words]))
    except SystemExit:
        raise Unusable(said.getvalue().rpartition("error: ")[2].partition("\n")[0]) from None


def _texts(values: Any) -> list[str]:
    """Elements as text; empty where the lane stands elsewhere."""
    mask = np.ma.getmaskarray(values)
    return ["" if away else str(value) for value, away in zip(np.ma.getdata(values), mask, strict=True)]


def _finding(finding: Any) -> dict[str, Any]:
    record = finding_record(finding)
    kept = ("rule", "severity", "message", "line", "column", "advice", "cta", "warp", "lanes")
    text = describe(finding).replace(finding.file, FILE)
    return {**{name: record[name] for name in kept}, "text": text, "other": finding.other.line if finding.other else 0}


def _barrier(barrier: Any) -> dict[str, Any]:
    name = "cluster" if barrier.number is None else f"barrier {barrier.number}"
    return {"name": name, "text": f"{barrier.arrived} of {barrier.expected} threads", "warps": barrier.waiting}


def _mbarrier(found: Any) -> dict[str, Any]:
    text = f"phase {found.phase}, {found.pending} arrivals and {found.bytes} bytes to come"
    return {"name": found.name or f"mbarrier 0x{found.address:x}", "text": text, "warps": found.waiting}


PLAYGROUND = Playground()
answer = PLAYGROUND.answer

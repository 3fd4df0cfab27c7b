"""Requests about places: threads, stacks, breakpoints, sources, disassembly."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import partial

from warpsim.cli.dap.protocol import Body
from warpsim.debug import DebugError, Session
from warpsim.debug.threads import cta_text
from warpsim.errors import source_path
from warpsim.program.mangling import qualified_name
from warpsim.program.program import line_column

Respond = Callable[..., None]
"""Sends the response to a request, with its body if it has one."""
DEEPEST = 1 << 10
"""Most frames of a stack; used to number frames."""


class Places:
    """The launch that a client debugs, and its configuration. Maps warps to threads, calls to frames, and an
    instruction's number in the code to its address."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.options: Body = {}
        self._set: dict[str, list[int]] = {}
        self._asked_for_cuda = False
        self.logs: dict[int, str] = {}
        """The messages of logpoints, by the number of the breakpoint."""

    def live(self) -> Session:
        """The current session.

        Raises:
            DebugError: nothing has been launched.
        """
        if self.session is None:
            raise DebugError("nothing has been launched")
        return self.session

    @property
    def cuda(self) -> bool:
        """Whether stops and steps are by CUDA lines: as the launch says, or else once a breakpoint is set in a CUDA file."""
        program = str(self.options.get("program"))
        return bool(
            self.options.get("sources", "cuda" if self._asked_for_cuda or program.endswith(".cu") else "ptx") == "cuda"
        )

    # ---- threads and stacks ------------------------------------------------------------------

    def thread_of(self, cta: tuple[int, int, int], warp: int) -> int:
        """The number of a warp, from 1."""
        return self.live().timeline.state.number_of(cta) * 32 + warp + 1

    def look_at_frame(self, frame: int) -> None:
        """Focus on a warp, and select one of its frames."""
        thread, depth = divmod(frame, DEEPEST)
        self.look_at(thread)
        session = self.live()
        if depth != session.frame:
            session.select(depth)

    def look_at(self, thread: int) -> None:
        """Focus on a warp."""
        session = self.live()
        number, warp = divmod(thread - 1, 32)
        cta = session.timeline.state.cta_of(number)
        if (session.thread.cta, session.thread.warp) != (cta, warp) and not session.timeline.ended:
            session.focus(cta, warp)

    def on_threads(self, given: Body, respond: Respond) -> None:
        """List the warps of the running CTAs."""
        session = self.live()
        found = {}
        for part in session.warps():
            found[self.thread_of(part.cta, part.warp)] = f"{cta_text(part.cta)} warp {part.warp}"
        if not found:
            found[1] = "the launch has ended"
        respond({"threads": [{"id": number, "name": name} for number, name in found.items()]})

    def on_stackTrace(self, given: Body, respond: Respond) -> None:
        """List the calls of a warp."""
        session = self.live()
        self.look_at(int(given["threadId"]))
        calls = session.where()
        frames = []
        for depth, call in enumerate(calls):
            file, line = session.program.file, call.line
            if self.cuda and call.source is not None:
                there = self.options.get("sources") == "cuda" or source_path(call.source[0], file) is not None
                file, line = call.source if there else (file, line)
            at = next((n for n, i in enumerate(self.live().code) if i.span.line == call.line), 0)
            frames.append(
                {
                    "id": int(given["threadId"]) * DEEPEST + depth,
                    "name": qualified_name(call.function),
                    "source": self._source(file),
                    "line": line,
                    "column": 1,
                    "instructionPointerReference": hex(at),
                }
            )
        start, levels = int(given.get("startFrame") or 0), int(given.get("levels") or 0)
        shown = frames[start : start + levels] if levels else frames[start:]
        respond({"stackFrames": shown, "totalFrames": len(frames)})

    def _source(self, path: str) -> Body:
        program = self.live().program.file
        beside = os.path.join(os.path.dirname(program), path)
        found = path if os.path.exists(path) else beside if os.path.exists(beside) else None
        if found is None:
            return {"name": os.path.basename(path), "sourceReference": 1}
        return {"name": os.path.basename(path), "path": os.path.abspath(found)}

    def on_source(self, given: Body, respond: Respond) -> None:
        """Send the text of a module that is not in a file."""
        respond({"content": "\n".join(self.live().program.lines), "mimeType": "text/x-ptx"})

    def on_loadedSources(self, given: Body, respond: Respond) -> None:
        """List the module and its CUDA files."""
        program = self.live().program
        files = {i.source[0] for i in self.live().code if i.source is not None}
        respond({"sources": [self._source(program.file), *(self._source(file) for file in sorted(files))]})

    # ---- breakpoints -------------------------------------------------------------------------

    def _replace(self, kind: str, setters: Sequence[Callable[[], Body]]) -> Body:
        """Replace all points of one kind. A setter sets one, and returns its fields in the response."""
        points = self.live().breakpoints
        for number in self._set.pop(kind, []):
            points.pop(number, None)
            self.logs.pop(number, None)
        before, found = set(points), []
        for setter in setters:
            try:
                found.append({"verified": True, **setter()})
            except DebugError as problem:
                found.append({"verified": False, "message": str(problem)})
        self._set[kind] = [number for number in points if number not in before]
        return {"breakpoints": found}

    def _break_at(self, place: int | str, given: Body) -> Body:
        point = self.live().break_at(place, given.get("condition") or None, _passes(given))
        if given.get("logMessage"):
            self.logs[point.number] = str(given["logMessage"])
        return {"id": point.number, "line": given.get("line") or point.lines[0]}

    def on_setBreakpoints(self, given: Body, respond: Respond) -> None:
        """Set breakpoints at lines of the module or a CUDA file."""
        path, own = self._file(given)
        prefix = "" if own else f"{os.path.basename(path)}:"
        self._asked_for_cuda |= bool(prefix and given.get("breakpoints"))
        setters = [partial(self._break_at, f"{prefix}{int(b['line'])}", b) for b in given.get("breakpoints") or []]
        respond(self._replace(f"source {path}", setters))

    def _file(self, given: Body) -> tuple[str, bool]:
        """The file of a source, and whether it is the module's PTX."""
        path = str(given["source"].get("path") or given["source"].get("name") or "")
        return path, os.path.basename(path) == os.path.basename(self.live().program.file) or path.endswith(".ptx")

    def _lines(self, given: Body) -> list[tuple[int, int]]:
        """The lines of a source that have code between those of a request, each with its first PTX line."""
        path, own = self._file(given)
        first = int(given["line"])
        last = int(given.get("endLine") or first)
        found: dict[int, int] = {}
        for instruction in self.live().code:
            source = (path, instruction.span.line) if own else instruction.source
            if source is not None and os.path.basename(source[0]) == os.path.basename(path):
                found.setdefault(source[1], instruction.span.line)
        return sorted(pair for pair in found.items() if first <= pair[0] <= last)

    def on_breakpointLocations(self, given: Body, respond: Respond) -> None:
        """List the lines with code."""
        respond({"breakpoints": [{"line": line} for line, _ in self._lines(given)]})

    def on_gotoTargets(self, given: Body, respond: Respond) -> None:
        """Name the PTX line to which a jump to a line leads, if the line has code."""
        lines = self._lines(given)
        respond({"targets": [{"id": ptx, "label": f"line {ptx} of the PTX", "line": line} for line, ptx in lines]})

    def on_modules(self, given: Body, respond: Respond) -> None:
        """List the module."""
        program = self.live().program
        source = self._source(program.file)
        lines = any(i.source is not None for i in self.live().code)
        module = {"id": 1, "name": source["name"], "symbolStatus": "CUDA lines" if lines else "no CUDA lines"}
        module |= {"path": source["path"]} if "path" in source else {}
        module["version"] = f"PTX {program.version[0]}.{program.version[1]}, {program.target}"
        respond({"modules": [module], "totalModules": 1})

    def on_setFunctionBreakpoints(self, given: Body, respond: Respond) -> None:
        """Set breakpoints at functions, labels and op:PATTERN."""
        setters = [partial(self._break_at, str(b["name"]), b) for b in given.get("breakpoints") or []]
        respond(self._replace("functions", setters))

    def on_setInstructionBreakpoints(self, given: Body, respond: Respond) -> None:
        """Set breakpoints at instructions, by their number in the code."""
        code, setters = self.live().code, []
        for each in given.get("breakpoints") or []:
            at = int(str(each["instructionReference"]), 16) + int(each.get("offset") or 0)
            place = line_column(code[at])[0] if 0 <= at < len(code) else "no such instruction"
            setters.append(partial(self._break_at, place, each))
        respond(self._replace("instructions", setters))

    def on_dataBreakpointInfo(self, given: Body, respond: Respond) -> None:
        """Report what can be watched: registers, variables, memory."""
        session, name = self.live(), str(given["name"])
        try:
            number = session.watch(name).number
            del session.breakpoints[number]
        except DebugError as problem:
            respond({"dataId": None, "description": str(problem).splitlines()[0]})
            return
        types = ["write"] if name.startswith("%") else ["read", "write", "readWrite"]
        respond({"dataId": name, "description": name, "accessTypes": types})

    def on_setDataBreakpoints(self, given: Body, respond: Respond) -> None:
        """Set watchpoints."""
        setters = [partial(self._watch, str(each["dataId"]), each) for each in given.get("breakpoints") or []]
        respond(self._replace("data", setters))

    def _watch(self, what: str, given: Body) -> Body:
        kind = given.get("accessType") or "write"
        condition, passes = given.get("condition") or None, _passes(given)
        point = self.live().watch(what, read=kind != "write", write=kind != "read", condition=condition, ignore=passes)
        return {"id": point.number}

    def on_setExceptionBreakpoints(self, given: Body, respond: Respond) -> None:
        """Choose the findings and events that stop."""
        options = [{"filterId": name} for name in given.get("filters") or []] + (given.get("filterOptions") or [])
        self.live().stop_at_findings = any(option["filterId"] == "findings" for option in options)
        respond(self._replace("exceptions", [partial(self._catch, option) for option in options]))

    def _catch(self, option: Body) -> Body:
        names = [str(option["filterId"])]
        if names == ["rule"]:
            names = str(option.get("condition") or "").replace(",", " ").split()
        for name in names:
            if name != "findings":
                self.live().catch(name)
        return {}

    # ---- disassembly -------------------------------------------------------------------------

    def on_disassemble(self, given: Body, respond: Respond) -> None:
        """Disassemble: send PTX instructions by their numbers."""
        code, program = self.live().code, self.live().program
        first = int(str(given["memoryReference"]), 16) + int(given.get("instructionOffset") or 0)
        count = min(int(given["instructionCount"]), 10_000)
        found: list[Body] = []
        for at in range(first, first + count):
            if 0 <= at < len(code):
                line = code[at].span.line
                text = program.lines[line - 1].strip()
                found.append(
                    {"address": hex(at), "instruction": text, "line": line, "location": self._source(program.file)}
                )
            else:
                address = hex(at) if at >= 0 else f"-{hex(-at)}"
                found.append({"address": address, "instruction": "", "presentationHint": "invalid"})
        respond({"instructions": found})


def _passes(given: Body) -> int:
    """The hits of a breakpoint that do not stop."""
    text = str(given.get("hitCondition") or "1").strip()
    found = re.fullmatch(r"(>|>=|==?|)\s*([0-9]{1,9})", text)
    if found is None:
        raise DebugError(f"a hit condition is the number of the first hit that stops, not {text[:40]!r}")
    return max(int(found[2]) - (found[1] != ">"), 0)

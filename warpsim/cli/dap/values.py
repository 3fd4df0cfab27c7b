"""Requests about values: scopes, variables, expressions, memory, findings."""

from __future__ import annotations

import base64
import contextlib
import io
import re
from collections.abc import Callable

import numpy as np

from warpsim.cli.dap.places import Places, Respond
from warpsim.cli.dap.protocol import Body
from warpsim.cli.debug.console import format_of, one_line, plain, short, show
from warpsim.cli.debug.shell import Shell
from warpsim.debug import DebugError
from warpsim.debug import expressions as ex
from warpsim.errors import describe, plural
from warpsim.machine.values import Array
from warpsim.program.c_types import Array as ArrayType
from warpsim.program.c_types import CType, Pointer, Struct, size
from warpsim.program.c_types import text as type_text
from warpsim.program.names import SPECIALS

Children = Callable[[], list[Body]]
MOST = 4096
"""Most children of a variable, and elements of a matrix, that are shown."""


class Values:
    """Numbers variables by reference. A reference is valid until the launch moves."""

    def __init__(self, places: Places) -> None:
        self.live, self.places = places.live, places
        self._children: dict[int, Children] = {}
        self._prompt: Shell | None = None

    def invalidate(self) -> None:
        """Invalidate all references, because the launch has moved."""
        self._children.clear()

    def _reference(self, children: Children) -> int:
        self._children[len(self._children) + 1] = children
        return len(self._children)

    def _referred(self, given: Body) -> list[Body]:
        self.live()
        children = self._children.get(int(given["variablesReference"]))
        if children is None:
            raise DebugError("the launch has moved on")
        return children()

    def on_scopes(self, given: Body, respond: Respond) -> None:
        """List the scopes of a frame: registers of the warp and of the lane, variables, special registers."""
        frame = int(given["frameId"])
        self.places.look_at_frame(frame)
        lane = self.live().thread.lane

        def within(children: Children) -> Children:
            def found() -> list[Body]:
                self.places.look_at_frame(frame)
                return children()

            return found

        scopes = [
            ("Registers", "registers", self._registers),
            (f"Registers of lane {lane}", "registers", lambda: self._lane(lane)),
            ("Variables", "locals", self._variables),
            ("Special registers", "registers", self._specials),
        ]
        if self.live().timeline.state.plan.uses.tensor_memory:
            scopes.append(("Tensor memory", "locals", self._tensor_memory))
        found = [
            {
                "name": name,
                "presentationHint": hint,
                "variablesReference": self._reference(within(of)),
                "expensive": False,
            }
            for name, hint, of in scopes
        ]
        respond({"scopes": found})

    def on_variables(self, given: Body, respond: Respond) -> None:
        """List the children of a scope or array."""
        found = self._referred(given)
        start, count = int(given.get("start") or 0), int(given.get("count") or 0)
        respond({"variables": found[start : start + count] if count else found[start:]})

    def _registers(self) -> list[Body]:
        return [self._variable(name, values, short(values)) for name, values in self.live().registers.items()]

    def _lane(self, lane: int) -> list[Body]:
        found = []
        for name, values in self.live().registers.items():
            text = "-" if np.ma.getmaskarray(values)[lane] else plain(np.ma.getdata(values)[lane])
            found.append({"name": name, "value": text, "evaluateName": f"{name}[{lane}]", "variablesReference": 0})
        return found

    def _variables(self) -> list[Body]:
        return [self._expression(symbol.name, symbol.name) for symbol in self.live().variables()]

    def _expression(self, name: str, expression: str) -> Body:
        """A variable, a member or an element, under its name among its siblings."""
        try:
            value, of = self.live().context.typed(expression)
        except DebugError as problem:
            said = str(problem).splitlines()[0].removeprefix(expression).strip()
            return {"name": name, "value": said, "variablesReference": 0}
        return {**self._variable(expression, value, self._text(value, of), of), "name": name}

    def _parts(self, expression: str, of: CType) -> Children | None:
        """The members of a struct, the elements of an array, what a pointer points to."""
        match of:
            case Struct(members=members) if members:
                names = [(m.name, f"{expression}.{m.name}") for m in members if m.name]
            case ArrayType(count=count):
                names = [(str(at), f"{expression}[{at}]") for at in range(min(count, MOST))]
            case Pointer() if size(of.to):
                names = [(f"*{expression}", f"(*{expression})")]
            case _:
                return None
        return lambda: [self._expression(name, part) for name, part in names]

    def _specials(self) -> list[Body]:
        found = []
        for name in SPECIALS:
            if name.split(".")[0] in ("tid", "ctaid", "ntid", "nctaid") and not name.endswith(".w"):
                value = self.live().evaluate(f"%{name}") if self.live().context.group is not None else np.array(0)
                found.append(self._variable(f"%{name}", value, one_line(value)))
        return found

    def _tensor_memory(self) -> list[Body]:
        """The lanes of the CTA's tensor memory, and in them the columns that are allocated."""
        cells = self.live().tensor_memory()
        columns = np.flatnonzero(~np.ma.getmaskarray(cells)[0]).tolist()

        def row(lane: int) -> Children:
            words = np.ma.getdata(cells)[lane]
            return lambda: [_leaf(f"column {at}", f"0x{words[at]:08x}") for at in columns]

        size = plural(len(columns), "column")
        lanes = range(len(cells) if columns else 0)
        return [_leaf(f"lane {lane}", size, self._reference(row(lane))) for lane in lanes]

    def _text(self, value: Array, of: CType | None = None) -> str:
        """A value on one line; if it is the handle of a texture, with what that is."""
        named = self.live().texture(value)
        return one_line(value, of) + ("" if named is None else f" <{named}>")

    def _variable(self, name: str, value: Array, text: str, of: CType | None = None) -> Body:
        data = np.ma.getdata(value)
        body: Body = {
            "name": name,
            "value": text,
            "evaluateName": name,
            "variablesReference": 0,
            "type": data.dtype.name if of is None else type_text(of),
        }
        parts = None if of is None or isinstance(value, np.ma.MaskedArray) else self._parts(name, of)
        if parts is not None:
            body["variablesReference"] = self._reference(parts)
            if data.ndim:
                body["indexedVariables"] = min(len(data), MOST)
        elif data.ndim:
            mask = np.ma.getmaskarray(value)

            def children() -> list[Body]:
                texts = ["-" if _away(mask[at]) else show(data[at], of=of) for at in range(min(len(data), MOST))]
                return [{**_leaf(str(at), text), "evaluateName": f"{name}[{at}]"} for at, text in enumerate(texts)]

            body["variablesReference"], body["indexedVariables"] = self._reference(children), min(len(data), MOST)
        reference = self._memory_of(name)
        return {**body, "memoryReference": reference} if reference else body

    def _memory_of(self, text: str) -> str | None:
        """The location of an expression in memory as ``space:address``."""
        try:
            at = self.live().context.lvalue(ex.parse(text))
        except DebugError:
            return None
        if at is None or isinstance(at.address, np.ndarray):
            return None
        return f"{at.space}:{at.address:#x}"

    def on_setVariable(self, given: Body, respond: Respond) -> None:
        """Change a register, a variable, or one lane or element of it."""
        name = str(given["name"])
        same = (str(c.get("evaluateName") or name) for c in self._referred(given) if c["name"] == name)
        self._change(next(same, name), given, respond)

    def on_setExpression(self, given: Body, respond: Respond) -> None:
        """Change what an expression names."""
        if "frameId" in given:
            self.places.look_at_frame(int(given["frameId"]))
        self._change(str(given["expression"]), given, respond)

    def _change(self, target: str, given: Body, respond: Respond) -> None:
        """Set what an expression names to the value that a request has; respond with the new one."""
        self.live().set(target, str(given["value"]))
        respond({"value": one_line(self.live().evaluate(target))})

    def message(self, text: str) -> str:
        """The message of a logpoint: each {EXPRESSION} in it stands for its value."""

        def value(found: re.Match[str]) -> str:
            try:
                return one_line(self.live().evaluate(found[1]))
            except DebugError as problem:
                return f"({str(problem).splitlines()[0]})"

        return re.sub(r"\{([^{}]+)\}", value, text)

    def on_evaluate(self, given: Body, respond: Respond) -> None:
        """Evaluate an expression or, in the console, a command of the prompt."""
        session, text = self.live(), str(given["expression"])
        if "frameId" in given:
            self.places.look_at_frame(int(given["frameId"]))
        if given.get("context") == "repl":
            try:
                value, of = session.context.typed(text)
            except DebugError:
                respond({"result": self._command(text), "variablesReference": 0})
                return
        else:
            value, of = session.context.typed(text)
        body = self._variable(text, value, self._text(value, of), of)
        del body["name"], body["evaluateName"]
        respond({"result": body.pop("value"), **body})

    def _command(self, text: str) -> str:
        """Run a prompt command that only inspects, and return its output."""
        shell = self._shell()
        found = shell.find(text)
        if not found.looks:
            what = {"move": "moves the launch", "back": "moves the launch", "stop": "sets what stops the launch"}
            raise DebugError(f"{found.name} {what.get(found.group, 'is for the prompt')}: use the editor")
        assert isinstance(shell.console.out, io.StringIO)
        shell.console.out.truncate(0)
        shell.console.out.seek(0)
        shell.execute(text)
        return shell.console.out.getvalue().rstrip("\n")

    def _shell(self) -> Shell:
        """The prompt behind the console; it keeps values and displays."""
        if self._prompt is None:
            self._prompt = Shell(self.live(), io.StringIO(), colour=False)
        return self._prompt

    def on_completions(self, given: Body, respond: Respond) -> None:
        """Complete the word under the cursor."""
        text = str(given["text"])[: max(int(given["column"]) - 1, 0)]
        word = text.split(" ")[-1]
        respond({"targets": [{"label": found.strip()} for found in self._shell().complete(word, text)]})

    # ---- memory ------------------------------------------------------------------------------

    def on_readMemory(self, given: Body, respond: Respond) -> None:
        """Read bytes of a state space, as many as exist."""
        space, address = _place(given)
        wanted = min(int(given["count"]), 1 << 20)
        session, raw = self.live(), b""
        step = wanted
        while step and len(raw) < wanted:  # memory past the end cannot be read
            try:
                raw += session.memory(space, address + len(raw), min(step, wanted - len(raw)))
            except DebugError:
                step //= 2
        body: Body = {"address": f"{address:#x}"}
        if raw:
            body["data"] = base64.b64encode(raw).decode()
        if len(raw) < wanted:
            body["unreadableBytes"] = wanted - len(raw)
        respond(body)

    def on_writeMemory(self, given: Body, respond: Respond) -> None:
        """Write bytes of a state space."""
        space, address = _place(given)
        raw = base64.b64decode(str(given["data"]), validate=True)
        data = np.frombuffer(raw, np.uint8)
        if len(data):
            self.live().set(f"{space}.u8[{address}:{address + len(data)}]", data)
        respond({"bytesWritten": len(data)})

    def on_exceptionInfo(self, given: Body, respond: Respond) -> None:
        """Describe the finding or event at which the launch stopped."""
        stop = self.live().stop
        finding = stop.finding
        if stop.event:
            respond({"exceptionId": "event", "description": stop.event, "breakMode": "always"})
            return
        if finding is None:
            raise DebugError("there is no finding here")
        details = {"message": finding.message, "typeName": finding.rule}
        respond(
            {"exceptionId": finding.rule, "description": describe(finding), "breakMode": "always", "details": details}
        )


def _leaf(name: str, value: str, reference: int = 0) -> Body:
    """A named value; with a ``reference``, one that has parts."""
    return {"name": name, "value": value, "variablesReference": reference}


def _away(mask: Array) -> bool:
    """Whether a lane has no value: all parts of it are masked."""
    return bool(np.all([_away(mask[name]) for name in mask.dtype.names]) if mask.dtype.names else np.all(mask))


def _place(given: Body) -> tuple[str, int]:
    space, _, address = str(given["memoryReference"]).partition(":")
    return space, int(address, 16) + int(given.get("offset") or 0)


OPERANDS = "abcde"


class Warp:
    """The request ``warp``, which is not the protocol's: all lanes of the warp in focus, and the matrices of its instruction, for
    editors that draw them."""

    def __init__(self, places: Places) -> None:
        self.live = places.live

    def on_warp(self, given: Body, respond: Respond) -> None:
        """Send the instruction, the lanes that stand at it, and every register as 32 texts, null in other lanes; of a matrix
        instruction, its operands as rows of texts, and the owner of each element."""
        session = self.live()
        at = session.group_state()
        line = 0 if at is None else at.instruction.span.line
        respond(
            {
                "title": str(session.thread),
                "instruction": session.program.lines[line - 1].strip() if line else "the launch has ended",
                "lane": session.thread.lane,
                "active": [False] * 32 if at is None else session.context.lanes().reshape(-1).tolist(),
                "registers": [
                    {"name": name, "type": values.dtype.name, "lanes": _texts(values)}
                    for name, values in session.registers.items()
                ],
                "matrices": [] if at is None or at.instruction.traits.matrix is None else list(self._matrices()),
            }
        )

    def _matrices(self) -> list[Body]:
        found: list[Body] = []
        for name in OPERANDS:
            with contextlib.suppress(DebugError):  # the instruction has no such operand
                matrix = self.live().matrix(name)
                rows, columns = matrix.values.shape
                if rows * columns > MOST:
                    found.append({"name": name, "axes": list(matrix.axes), "values": [], "owners": []})
                    found[-1]["note"] = f"{rows} x {columns}: too large to draw; matrix {name} in the console shows it"
                    continue
                owners = [[matrix.owner(i, j) for j in range(columns)] for i in range(rows)]
                values = [_texts(row) for row in matrix.values]
                found.append(
                    {
                        "name": name,
                        "axes": list(matrix.axes),
                        "values": values,
                        "owners": owners,
                        "note": matrix.note,
                    }
                )
        return found


def _texts(values: Array) -> list[str | None]:
    """Each element as text; None where it is masked."""
    data, mask = np.ma.getdata(values), np.ma.getmaskarray(values)
    one = format_of(data)
    return [None if np.all(away.tolist()) else one(value) for value, away in zip(data, mask, strict=True)]

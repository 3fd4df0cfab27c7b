"""``warpsim dap``: the debugger for editors, a server of the Debug Adapter Protocol over standard input and output. Its
adapter translates requests to a session, and stops to events."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import attrs

from warpsim.cli.dap.places import Places, Respond
from warpsim.cli.dap.protocol import Body, Broken, Printed, Wire, check_request, run_launch
from warpsim.cli.dap.values import Values, Warp
from warpsim.cli.launching import Left
from warpsim.cli.output import Unusable, internal
from warpsim.debug import DebugError, Session, Stop
from warpsim.debug.breakpoints import EVENTS
from warpsim.errors import Finding, WarpsimError, describe
from warpsim.host.arguments import Arguments
from warpsim.host.kernel import Kernel, LaunchResult
from warpsim.host.options import Dim

CAPABILITIES = dict.fromkeys(("supportsConfigurationDoneRequest", "supportsFunctionBreakpoints", "supportsConditionalBreakpoints", "supportsHitConditionalBreakpoints", "supportsEvaluateForHovers", "supportsStepBack", "supportsSetVariable", "supportsRestartRequest", "supportsExceptionInfoRequest", "supportsReadMemoryRequest", "supportsWriteMemoryRequest", "supportsDisassembleRequest", "supportsInstructionBreakpoints", "supportsDataBreakpoints", "supportsCompletionsRequest", "supportsTerminateRequest", "supportsSteppingGranularity", "supportsLoadedSourcesRequest", "supportsExceptionFilterOptions", "supportsBreakpointLocationsRequest", "supportsGotoTargetsRequest", "supportsLogPoints", "supportsModulesRequest", "supportsSetExpression"), True)  # fmt: skip
FILTERS = [
    {"filter": "findings", "label": "Findings", "description": "Stop before what breaks a rule", "default": True},
    {
        "filter": "rule",
        "label": "Findings of some rules",
        "description": "Stop before what breaks one of these rules",
        "supportsCondition": True,
        "conditionDescription": "names of rules, for example out-of-bounds, uninitialised",
    },
    *({"filter": name, "label": f"Event: {name}", "description": f"Stop when {text}"} for name, text in EVENTS.items()),
]
REASONS = {"watchpoint": "data breakpoint", "finding": "exception", "catchpoint": "exception", "interrupted": "pause"}


def command_dap(options: Namespace) -> int:
    """Serve one client until it disconnects."""
    source = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)  # read by a thread that may never end
    wire = Wire(source, sys.stdout.buffer)
    with (
        contextlib.redirect_stdout(Printed(wire, "stdout")),
        contextlib.redirect_stderr(Printed(wire, "stderr")),
    ):
        return Adapter(wire).serve()


class Adapter:
    """Serves one client. Requests are answered in order; a pause request takes effect while the launch runs."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.places = Places()
        self.live = self.places.live
        self.values = Values(self.places)
        self.warp = Warp(self.places)
        self.requests: queue.Queue[Body | None] = queue.Queue()
        self.leaving = self.ended = False
        self.status: int | None = None
        """The exit status, once the launch has ended or been left."""
        self.errors: list[Finding] = []
        """Errors at which the launch has stopped."""

    # ---- the loop ----------------------------------------------------------------------------

    def serve(self) -> int:
        """Serve requests until the client disconnects; returns the exit status."""
        threading.Thread(target=self._listen, daemon=True).start()
        self._loop()
        return self.status or 0

    def _listen(self) -> None:
        while True:
            try:
                message = self.wire.read()
            except Broken as problem:
                self.wire.event("output", category="stderr", output=f"warpsim dap: {problem}\n")
                message = None
            except (OSError, ValueError):
                message = None
            if message is not None and message.get("type") != "request":
                continue
            if (
                message is None or message.get("command") in ("pause", "disconnect", "terminate")
            ) and self.places.session:
                self.places.session.interrupt()
            self.requests.put(message)
            if message is None:
                return

    def _loop(self) -> None:
        while not (self.leaving or (self.ended and self.status is None)):
            request = self.requests.get()
            if request is None:
                self.leaving = True
                return
            self.answer(request)

    def answer(self, request: Body) -> None:
        """Execute a request."""
        command = str(request.get("command"))
        arguments = request.get("arguments")
        parts = self, self.places, self.values, self.warp
        handler: Callable[..., Callable[[], None] | None] | None = next(
            filter(None, (getattr(p, f"on_{command}", None) for p in parts)), None
        )
        try:
            if handler is None:
                raise DebugError(f"unknown request {command}")
            given = arguments if isinstance(arguments, dict) else {}
            check_request(command, given)
            after = handler(given, lambda body=None: self._respond(request, body))
        except (DebugError, WarpsimError, Unusable) as problem:
            self._fail(request, str(problem))
            return
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
            self._fail(request, f"{command}: malformed arguments: {problem!r}")
            return
        except Exception as defect:
            self._fail(request, internal(defect))
            return
        if after is not None:
            after()

    def _respond(self, request: Body, body: Body | None = None) -> None:
        fields = {"request_seq": request.get("seq", 0), "success": True, "command": request.get("command")}
        self.wire.send("response", **fields, **({"body": body} if body is not None else {}))

    def _fail(self, request: Body, message: str) -> None:
        body = {"error": {"id": 1, "format": message.replace("{", "(").replace("}", ")"), "showUser": True}}
        fields = {"request_seq": request.get("seq", 0), "success": False, "command": str(request.get("command"))}
        self.wire.send("response", **fields, message=message, body=body)

    # ---- beginning and end -------------------------------------------------------------------

    def on_initialize(self, given: Body, respond: Respond) -> None:
        """Report the adapter's capabilities."""
        respond({**CAPABILITIES, "exceptionBreakpointFilters": FILTERS})

    def on_launch(self, given: Body, respond: Respond) -> None:
        """Launch ``program`` (PTX) with ``grid``, ``block``, ``args`` ..., or ``case``, a recorded launch."""
        if self.places.session is not None:
            raise DebugError("a launch is running already")
        self.places.options, self._respond_launch = given, respond
        try:
            self.status = run_launch(given, self._serve_launch)
        except Left as left:
            self.status = int(bool(left.args[1]))
        except (Unusable, WarpsimError) as problem:
            if self.places.session is None:
                raise
            self.status = 1
            self.wire.event("output", category="stderr", output=f"{problem}\n")
        if self.ended:
            self._exit()

    def _serve_launch(self, kernel: Kernel, grid: Dim, block: Dim, args: Arguments, **more: Any) -> LaunchResult:
        """Stand in for the launch: serve requests until the launch ends or the client leaves."""
        session = self.places.session = Session(kernel, grid, block, args, **more)
        self._respond_launch(None)
        self.wire.event("initialized")
        self._loop()
        if not session.timeline.ended:
            raise Left(session.stop.step, self.errors)
        return session.outcome()

    def _exit(self) -> None:
        self.wire.event("exited", exitCode=self.status)
        self.wire.event("terminated")

    def on_configurationDone(self, given: Body, respond: Respond) -> Callable[[], None]:
        """All breakpoints are set: run, or stop at the first instruction."""
        session = self.live()
        respond()
        if self.places.options.get("stopOnEntry", True):
            return lambda: self.report(session.stop, "entry")
        return lambda: self.report(self._logged(session.cont(), session.cont))

    def on_attach(self, given: Body, respond: Respond) -> None:
        """Refuse to attach."""
        raise DebugError("warpsim debugs launches that it starts itself: use the request launch")

    def on_disconnect(self, given: Body, respond: Respond) -> None:
        """Disconnect."""
        respond()
        self.leaving = True

    def on_terminate(self, given: Body, respond: Respond) -> None:
        """End the launch. Whoever is there may ask on, and disconnects."""
        respond()
        if self.status is not None or self.places.session is None:
            self.wire.event("terminated")
        self.ended = True

    def on_restart(self, given: Body, respond: Respond) -> Callable[[], None]:
        """Restart the launch."""
        session = self.live()
        respond()
        return lambda: self.report(session.goto(0), "entry")

    # ---- motion ------------------------------------------------------------------------------

    def report(self, stop: Stop, reason: str | None = None) -> None:
        """Report that the launch has stopped or ended."""
        session = self.live()
        self.values.invalidate()
        if stop.reason == "end":
            self._report_end(session)
            return
        body: Body = {
            "reason": reason or REASONS.get(stop.reason, stop.reason),
            "threadId": self.places.thread_of(session.thread.cta, session.thread.warp),
            "allThreadsStopped": True,
        }
        if stop.finding is not None:
            self.errors += [stop.finding] if stop.finding.severity == "error" else []
            body["text"] = f"{stop.finding.rule}: {stop.finding.message}"
            body["description"] = stop.finding.rule
            self.wire.event("output", category="stderr", output=f"{stop.finding.severity}: {describe(stop.finding)}\n")
        if stop.event:
            body["text"] = body["description"] = stop.event
        if stop.number is not None:
            body["hitBreakpointIds"] = [stop.number]
        self.wire.event("stopped", **body)

    def _report_end(self, session: Session) -> None:
        """Leave the loop of the launch, so that its outputs are compared before the exit status is reported."""
        stays = self.places.options.get("stayAtEnd")
        if session.error is not None and (stays or self.ended):
            self.wire.event("output", category="stderr", output=f"{session.error}\n")
        if stays:
            self.wire.event(
                "stopped", reason="pause", description="The launch has ended", allThreadsStopped=True, threadId=1
            )
        elif self.ended:  # again, after a restart
            self._exit()
        else:
            self.ended = True

    def _move(
        self,
        given: Body,
        respond: Respond,
        move: Callable[[Session], Stop],
        body: Body | None = None,
        reason: str | None = None,
    ) -> Callable[[], None]:
        session = self.live()
        if "threadId" in given:
            self.places.look_at(int(given["threadId"]))
        respond(body)

        def go() -> None:
            try:
                self.report(self._logged(move(session), session.cont if body else None), reason)
            except DebugError as problem:
                self.wire.event("output", category="stderr", output=f"{problem}\n")
                self.report(session.stop, "step")

        return go

    def _logged(self, stop: Stop, further: Callable[[], Stop] | None) -> Stop:
        """Write the messages of the logpoints that are reached, and go on; without ``further``, stop there as a step."""
        while stop.reason == "breakpoint" and (text := self.places.logs.get(stop.number or 0)) is not None:
            self.wire.event("output", category="console", output=self.values.message(text) + "\n")
            stop = attrs.evolve(stop, reason="step", number=None) if further is None else further()
        return stop

    def on_goto(self, given: Body, respond: Respond) -> Callable[[], None]:
        """Move to a target of `gotoTargets`; nothing in between is executed."""
        return self._move(given, respond, lambda session: session.jump(int(given["targetId"])), reason="goto")

    def on_continue(self, given: Body, respond: Respond) -> Callable[[], None]:
        """Run to the next stop."""
        return self._move(given, respond, lambda session: session.cont(), {"allThreadsContinued": True})

    def _unit(self, given: Body) -> str:
        """The stepping unit: CUDA lines if the editor shows CUDA source, unless it asks for instructions."""
        lines = self.places.cuda and given.get("granularity") != "instruction"
        return "line" if lines else "instruction"

    def on_next(self, given: Body, respond: Respond) -> Callable[[], None]:
        """Step one instruction or CUDA line, over calls."""
        return self._move(given, respond, lambda session: session.next(by=self._unit(given)))

    def on_stepIn(self, given: Body, respond: Respond) -> Callable[[], None]:
        """Step one instruction or CUDA line, into calls."""
        return self._move(given, respond, lambda session: session.step(by=self._unit(given)))

    def on_stepOut(self, given: Body, respond: Respond) -> Callable[[], None]:
        """Run until the function returns."""
        return self._move(given, respond, lambda session: session.finish())

    def on_stepBack(self, given: Body, respond: Respond) -> Callable[[], None]:
        """Step one instruction or CUDA line back."""
        return self._move(given, respond, lambda session: session.back(by=self._unit(given)))

    def on_reverseContinue(self, given: Body, respond: Respond) -> Callable[[], None]:
        """Go back to the last stop."""
        return self._move(given, respond, lambda session: session.reverse_cont())

    def on_pause(self, given: Body, respond: Respond) -> None:
        """Pause; a running launch has been interrupted already."""
        self.live().timeline.interrupted = False
        respond()

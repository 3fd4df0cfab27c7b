"""A dialogue at the prompt, and a client of the Debug Adapter Protocol."""

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from warpsim.cli import main
from warpsim.cli.dap import Adapter
from warpsim.cli.dap.protocol import Wire
from warpsim.host.files import problems

CALLS = (Path(__file__).parent / "kernels" / "calls.ptx").read_text()


@pytest.fixture
def prompt(monkeypatch, capsys, tmp_path):
    """What a dialogue of these commands on 64 threads prints, answer by answer."""

    def run(*commands, text=CALLS, options=(), status=0):
        (tmp_path / "k.ptx").write_text(text)
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(commands) + "\n"))
        argument = ["--arg", "i32:5"] if text is CALLS else []
        given = ["--grid", "1", "--block", "64", "--arg", f"zeros:u32:64={tmp_path / 'out.npy'}", *argument]
        assert main(["debug", "run", str(tmp_path / "k.ptx"), *given, *options]) == status
        answers = capsys.readouterr().out.split("(warpsim) ")
        return [answer.partition("\n")[2].rstrip("\n").replace(str(tmp_path), "DIR") for answer in answers]

    return run


ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((Path(__file__).parent / "protocol" / "messages.json").read_text())


def assert_fits(message, name):
    """The message is one of the protocol's; the request ``warp`` is not."""
    if name in ("WarpRequest", "WarpResponse"):
        return
    assert list(problems(message, SCHEMA["definitions"][name], SCHEMA)) == []


class Served(Adapter):
    """An adapter that says when nobody reads its input any more."""

    def __init__(self, wire):
        self.unread = threading.Event()
        super().__init__(wire)

    def _listen(self):
        try:
            super()._listen()
        finally:
            self.unread.set()


class Thread:
    """A server in this process, with what a `subprocess.Popen` has."""

    def __init__(self):
        self.source, self.stdin = (
            os.fdopen(end, mode, buffering=0) for end, mode in zip(os.pipe(), ("rb", "wb"), strict=True)
        )
        self.stdout, sink = (os.fdopen(end, mode) for end, mode in zip(os.pipe(), ("rb", "wb"), strict=True))
        self.status = None
        self.adapter = Served(Wire(self.source, sink))
        self.thread = threading.Thread(target=self.serve, args=(sink,), daemon=True)
        self.thread.start()

    def serve(self, sink):
        """Until the client leaves."""
        with sink:
            self.status = self.adapter.serve()

    def wait(self, seconds):
        """The exit status."""
        self.thread.join(seconds)
        return self.status

    def kill(self):
        """It ends with what it reads; a file that a thread may still read is not closed, as its number is soon another's."""
        self.stdin.close()
        self.adapter.unread.wait(20)
        self.source.close()


class Client:
    """An editor: sends requests, keeps events."""

    def __init__(self, process):
        self.process = process
        self.sequence, self.events = 0, []

    def send(self, command, **arguments):
        """Write a request; its number."""
        self.sequence += 1
        message = {"seq": self.sequence, "type": "request", "command": command, "arguments": arguments}
        assert_fits(message, f"{command[0].upper()}{command[1:]}Request")
        self.raw(json.dumps(message).encode())
        return self.sequence

    def raw(self, body):
        """Write any bytes as a message."""
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def receive(self):
        """The next message."""
        length = 0
        while (line := self.process.stdout.readline()) != b"\r\n":
            assert line, "the server has ended"
            name, _, value = line.partition(b": ")
            length = int(value) if name == b"Content-Length" else length
        message = json.loads(self.process.stdout.read(length))
        if message["type"] == "event":
            name = message["event"]
            assert_fits(message, f"{name[0].upper()}{name[1:]}Event")
            self.events.append(message)
        return message

    def ask(self, command, **arguments):
        """A request and the body of its answer; what failed gives its message."""
        number = self.send(command, **arguments)
        while True:
            message = self.receive()
            if message["type"] == "response" and message["request_seq"] == number:
                break
        assert message["command"] == command
        if not message["success"]:
            assert_fits(message, "ErrorResponse")
            return message["message"]
        assert_fits(message, f"{command[0].upper()}{command[1:]}Response")
        return message.get("body")

    def event(self, name):
        """The next event of a name; those before it are dropped."""
        while True:
            while self.events:
                message = self.events.pop(0)
                if message["event"] == name:
                    return message.get("body", {})
            self.receive()

    def start(self, setup=lambda client: None, **launch):
        """From initialize to the first stop."""
        assert self.ask("initialize", adapterID="warpsim", linesStartAt1=True)["supportsStepBack"]
        self.ask("launch", **launch)
        self.event("initialized")
        setup(self)
        self.ask("configurationDone")

    def leave(self):
        """Disconnect; the exit status."""
        self.ask("disconnect")
        self.process.stdin.close()
        return self.process.wait(20)


@pytest.fixture
def client(request):
    """A client of a server of its own."""
    command = [sys.executable, "-m", "warpsim", "dap"]
    if getattr(request, "param", "thread") == "process":
        made = Client(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT))
    else:
        made = Client(Thread())
    late = threading.Timer(100, made.process.kill)
    late.start()
    yield made
    late.cancel()
    made.process.kill()
    made.process.wait(20)
    made.process.stdout.close()
    made.process.stdin.close()

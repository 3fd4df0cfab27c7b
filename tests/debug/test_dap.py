"""The Debug Adapter Protocol, spoken by a client of its own over real pipes; every message is held against the protocol's schema.

One server is a process of its own; the others are threads of this one."""

import base64
import json
from pathlib import Path

import pytest

KERNELS = Path(__file__).parent / "kernels"
CALLS = {"program": str(KERNELS / "calls.ptx"), "grid": 1, "block": [64], "args": ["zeros:u32:64", "i32:5"]}
FAULTY = {"program": str(KERNELS / "faulty.ptx"), "grid": "1", "block": 64, "args": ["zeros:u32:64"]}


def test_a_session_of_an_editor(client):
    """Breakpoints, stepping forward and back, threads, stacks, variables, memory, the end."""

    def setup(client):
        source = {"path": CALLS["program"]}
        lines = client.ask(
            "setBreakpoints", source=source, breakpoints=[{"line": 33, "condition": "%tid.x == 40"}, {"line": 9999}]
        )
        assert [b["verified"] for b in lines["breakpoints"]] == [True, False]
        assert client.ask("setFunctionBreakpoints", breakpoints=[{"name": "twice"}])["breakpoints"][0]["line"] == 7
        answer = client.ask(
            "setExceptionBreakpoints",
            filters=["findings"],
            filterOptions=[{"filterId": "arrival"}, {"filterId": "rule", "condition": "out-of-bounds, nonsense"}],
        )
        assert [b["verified"] for b in answer["breakpoints"]] == [True, True, False]

    client.start(setup, **CALLS)
    assert client.event("stopped")["reason"] == "entry"
    assert [t["name"] for t in client.ask("threads")["threads"]] == ["CTA (0,0,0) warp 0", "CTA (0,0,0) warp 1"]
    client.ask("continue", threadId=1)
    stop = client.event("stopped")
    assert stop["reason"] == "breakpoint"
    frames = client.ask("stackTrace", threadId=stop["threadId"])["stackFrames"]
    assert [(f["name"], f["line"]) for f in frames] == [("twice", 7), ("k", 25)]
    seen = []
    for frame in frames:
        scope = client.ask("scopes", frameId=frame["id"])["scopes"][0]["variablesReference"]
        seen.append({v["name"] for v in client.ask("variables", variablesReference=scope)["variables"]})
    assert "%r0" not in seen[0]
    assert "%r0" in seen[1]
    assert client.ask("evaluate", expression="%r0 + 1", frameId=frames[1]["id"])["result"].startswith("1, 2, 3")
    client.ask("stepOut", threadId=stop["threadId"])
    client.event("stopped")
    assert client.ask("stackTrace", threadId=stop["threadId"])["stackFrames"][0]["line"] == 26
    client.ask("stepBack", threadId=stop["threadId"])
    client.event("stopped")
    assert client.ask("stackTrace", threadId=stop["threadId"])["stackFrames"][0]["name"] == "twice"
    client.ask("setFunctionBreakpoints", breakpoints=[])
    client.ask("continue", threadId=stop["threadId"])
    stop = client.event("stopped")
    assert (stop["reason"], stop["threadId"], stop["description"]) == ("exception", 1, "arrives at barrier 0")
    assert client.ask("exceptionInfo", threadId=1)["description"] == "arrives at barrier 0"
    client.ask("setExceptionBreakpoints", filters=["findings"])
    client.ask("continue", threadId=stop["threadId"])
    stop = client.event("stopped")
    assert stop["threadId"] == 2

    frame = client.ask("stackTrace", threadId=2)["stackFrames"][0]
    scopes = client.ask("scopes", frameId=frame["id"])["scopes"]
    by_name = {s["name"]: s["variablesReference"] for s in scopes}
    registers = {v["name"]: v for v in client.ask("variables", variablesReference=by_name["Registers"])["variables"]}
    lanes = client.ask("variables", variablesReference=registers["%r1"]["variablesReference"])["variables"]
    assert [v["value"] for v in lanes][:10] == ["64", "66", "68", "70", "72", "74", "76", "78", "14", "14"]
    variables = client.ask("variables", variablesReference=by_name["Variables"])["variables"]
    assert {"n", "out", "s"} <= {v["name"] for v in variables}
    assert client.ask("evaluate", expression="n + 1", frameId=frame["id"], context="hover")["result"] == "6"
    assert "lanes 0-31 together" in client.ask("evaluate", expression="info frame", context="repl")["result"]
    assert "moves the launch" in client.ask("evaluate", expression="continue", context="repl")
    client.ask("setVariable", variablesReference=by_name["Registers"], name="%r1", value="7")
    assert client.ask("evaluate", expression="%r1")["result"] == "7"
    reference = next(v["memoryReference"] for v in variables if v["name"] == "s")
    assert base64.b64decode(client.ask("readMemory", memoryReference=reference, count=8)["data"]) == b"\0\0\0\0\2\0\0\0"
    client.ask("writeMemory", memoryReference=reference, data=base64.b64encode(b"\1\2").decode())
    answer = client.ask("readMemory", memoryReference=reference, count=300)
    assert base64.b64decode(answer["data"])[:3] == b"\1\2\0"
    assert answer["unreadableBytes"] == 44
    listing = client.ask(
        "disassemble", memoryReference=frame["instructionPointerReference"], instructionOffset=-1, instructionCount=3
    )
    assert [i["line"] for i in listing["instructions"]] == [32, 33, 34]
    assert "%r1" in [t["label"] for t in client.ask("completions", text="print %r", column=9)["targets"]]

    info = client.ask("dataBreakpointInfo", name="s[63]")
    given = [{"dataId": info["dataId"], "accessType": "write"}, {"dataId": "nothing"}]
    watched = client.ask("setDataBreakpoints", breakpoints=given)["breakpoints"]
    assert [b["verified"] for b in watched] == [True, False]
    client.ask("setBreakpoints", source={"path": CALLS["program"]}, breakpoints=[])
    client.ask("continue", threadId=2)
    assert client.event("stopped")["reason"] == "data breakpoint"
    client.ask("reverseContinue", threadId=2)
    client.event("stopped")
    client.ask("setDataBreakpoints", breakpoints=[])
    client.ask("continue", threadId=2)
    assert client.event("exited")["exitCode"] == 0
    assert client.leave() == 0


def test_findings_are_exceptions(client):
    """A finding stops as an exception with all of its text; the exit status is that of a run."""
    client.start(**FAULTY, stopOnEntry=False)
    stop = client.event("stopped")
    assert (stop["reason"], stop["description"]) == ("exception", "out-of-bounds")
    info = client.ask("exceptionInfo", threadId=stop["threadId"])
    assert info["exceptionId"] == "out-of-bounds"
    assert "check the index against" in info["description"]
    assert info["details"].keys() == {"message", "typeName"}  # VS Code shows a stack trace below the description
    client.ask("continue", threadId=stop["threadId"])
    assert client.event("exited")["exitCode"] == 1
    assert client.leave() == 1


def test_leaving_at_a_finding(client):
    """The status of who leaves there is that of the prompt: 1."""
    client.start(**FAULTY, stopOnEntry=False)
    assert client.event("stopped")["description"] == "out-of-bounds"
    assert client.leave() == 1


@pytest.mark.parametrize("client", ["process"], indirect=True)
def test_a_recorded_launch(client):
    """A case by its name, with breakpoints in its CUDA file."""

    def setup(client):
        answer = client.ask("setBreakpoints", source={"path": "/elsewhere/kernel.cu"}, breakpoints=[{"line": 4}])
        assert answer["breakpoints"][0]["verified"]

    client.start(setup, case="saxpy", stopOnEntry=False, sources="cuda")
    stop = client.event("stopped")
    frame = client.ask("stackTrace", threadId=stop["threadId"])["stackFrames"][0]
    assert (frame["source"]["name"], frame["line"]) == ("kernel.cu", 4)
    assert len(client.ask("loadedSources")["sources"]) == 2
    lines = []
    for request in ({}, {}, {"granularity": "instruction"}):
        client.ask("next", threadId=stop["threadId"], **request)
        client.event("stopped")
        at = client.ask("stackTrace", threadId=stop["threadId"])["stackFrames"][0]
        lines.append((at["line"], at["instructionPointerReference"]))
    assert [line for line, _ in lines] == [3, 4, 4]
    assert int(lines[2][1], 16) == int(lines[1][1], 16) + 1
    client.ask("terminate")
    client.event("terminated")
    client.process.stdin.close()
    assert client.process.wait(20) == 0


def test_what_is_malformed(client):
    """Requests that make no sense are answered, and the next one is heard."""
    assert "nothing has been launched" in client.ask("threads")
    assert "program" in client.ask("launch")
    assert "such file" in client.ask("launch", program="/nowhere.ptx", grid=1, block=1).replace("No such", "such")
    assert "required" in client.ask("launch", program="/nowhere.ptx")
    client.start(**CALLS)
    client.raw(json.dumps({"seq": 99, "type": "request", "command": "nonsense"}).encode())
    client.raw(
        json.dumps(
            {"seq": 98, "type": "request", "command": "readMemory", "arguments": {"memoryReference": 5}}
        ).encode()
    )
    client.raw(json.dumps({"seq": 97, "type": "event", "event": "x"}).encode())
    assert "no register" in client.ask("evaluate", expression="%nope")
    assert "moved on" in client.ask("variables", variablesReference=77)
    assert "no finding" in client.ask("exceptionInfo", threadId=1)
    assert client.ask("dataBreakpointInfo", name="1 +")["dataId"] is None
    assert client.leave() == 0


def test_pause(client, tmp_path):
    """A launch that runs is stopped by a pause, and by a client that goes."""
    text = (KERNELS / "calls.ptx").read_text()
    loop = "  bar.sync 0;\nwait:\n  add.u32 %r3, %r3, 1;\n  setp.ne.u32 %p, %r3, 0;\n  @%p bra wait;"
    (tmp_path / "loop.ptx").write_text(text.replace("  bar.sync 0;", loop))
    client.start(**{**CALLS, "program": str(tmp_path / "loop.ptx")})
    client.event("stopped")
    client.ask("continue", threadId=1)
    client.ask("pause", threadId=1)
    assert client.event("stopped")["reason"] == "pause"
    client.ask("continue", threadId=1)
    client.process.stdin.close()
    assert client.process.wait(20) == 0


def test_no_message_at_all(client):
    """What is no message ends the server, with a word about it."""
    client.process.stdin.write(b"Content-Length: 5\r\n\r\n[1,2]")
    client.process.stdin.close()

    assert "not an object" in client.event("output")["output"]
    assert client.process.wait(20) == 0

"""Requests of an editor one by one: what each answers, and what it says of arguments that make no sense."""

import base64
import gc
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from warpsim.cli import main
from warpsim.cli.dap import Adapter, protocol
from warpsim.cli.dap.protocol import REQUESTS, Broken, Printed, Wire, _text

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((Path(__file__).parent / "protocol" / "messages.json").read_text())
KERNELS = Path(__file__).parent / "kernels"
CALLS = {"program": str(KERNELS / "calls.ptx"), "grid": 1, "block": [64], "args": ["zeros:u32:64", "i32:5"]}


@pytest.fixture
def begun(client):
    """A client of a launch that stands before its first step."""
    client.start(**CALLS)
    client.event("stopped")
    return client


def line(client, thread=1):
    """Where a warp stands."""
    return client.ask("stackTrace", threadId=thread)["stackFrames"][0]["line"]


def moved(client, command, **arguments):
    """The line after a motion of the first warp."""
    client.ask(command, threadId=1, **arguments)
    stop = client.event("stopped")
    return stop["reason"], line(client, stop["threadId"])


def test_motion(begun):
    """Each button, and the way back to the beginning."""
    assert moved(begun, "next") == ("step", 18)
    assert moved(begun, "stepIn") == ("step", 19)
    begun.ask("setFunctionBreakpoints", breakpoints=[{"name": "small"}])
    assert moved(begun, "continue") == ("breakpoint", 24)
    begun.ask("setFunctionBreakpoints", breakpoints=[])
    assert moved(begun, "stepIn") == ("step", 25)
    assert moved(begun, "stepIn") == ("step", 7)
    assert moved(begun, "stepOut") == ("step", 26)
    assert moved(begun, "stepBack") == ("step", 10)
    begun.ask("restart")
    assert begun.event("stopped")["reason"] == "entry"
    assert line(begun) == 17
    begun.ask("stepOut", threadId=1)
    assert "outermost" in begun.event("output")["output"]
    assert begun.event("stopped")["reason"] == "step"
    assert moved(begun, "reverseContinue")[1] == 17
    assert "running already" in begun.ask("launch", **CALLS)
    begun.ask("terminate")
    begun.event("terminated")
    begun.process.stdin.close()
    assert begun.process.wait(20) == 0


def test_the_last_position(client):
    """Who wants to stay at the end stops there, and can go back."""
    client.start(**CALLS, stayAtEnd=True, stopOnEntry=False)
    stop = client.event("stopped")
    assert (stop["reason"], stop["description"]) == ("pause", "The launch has ended")
    assert [t["name"] for t in client.ask("threads")["threads"]] == ["the launch has ended"]
    assert client.ask("stackTrace", threadId=1)["stackFrames"] == []
    assert moved(client, "stepBack")[1] == 37
    assert client.leave() == 0


def test_an_error_at_the_end(client):
    """It is told as output, and in the status."""
    client.start(**CALLS, maxInstructions=5, stopOnEntry=False)
    assert client.event("stopped")["description"] == "limit"
    client.ask("continue", threadId=1)
    assert "more than 5 warp-instructions" in client.event("output")["output"]
    assert client.event("exited")["exitCode"] == 1
    assert client.leave() == 1


def test_the_status_of_a_recorded_launch(client, tmp_path):
    """What a launch computes is compared before its exit status is told, and again after a restart."""
    case = shutil.copytree(ROOT / "programs" / "saxpy", tmp_path / "saxpy")
    data = dict(np.load(case / "data.npz"))
    key = next(b["out"] for b in json.loads((case / "case.json").read_text())["buffers"] if b.get("out"))
    data[key].view(np.uint8).reshape(-1)[3] ^= 1
    np.savez(case / "data.npz", **data)
    client.start(case=str(case), stopOnEntry=False)
    assert client.event("exited")["exitCode"] == 1
    client.event("terminated")
    client.ask("restart")
    assert client.event("stopped")["reason"] == "entry"
    client.ask("continue", threadId=1)
    assert client.event("exited")["exitCode"] == 1
    assert client.leave() == 1


def test_frames(begun):
    """Some of a stack, by number; a frame that is chosen gives its own registers."""
    begun.ask("setFunctionBreakpoints", breakpoints=[{"name": "twice", "condition": "%laneid == 3"}])
    begun.ask("continue", threadId=1)
    stop = begun.event("stopped")
    assert stop["hitBreakpointIds"] == [1]
    for start, levels, names in ((0, 0, ["twice", "k"]), (0, 1, ["twice"]), (1, 0, ["k"]), (1, 5, ["k"]), (2, 1, [])):
        found = begun.ask("stackTrace", threadId=1, startFrame=start, levels=levels)
        assert [f["name"] for f in found["stackFrames"]] == names
        assert found["totalFrames"] == 2
    frames = begun.ask("stackTrace", threadId=1)["stackFrames"]
    assert "no register" in begun.ask("evaluate", expression="%r0", frameId=frames[0]["id"])
    assert begun.ask("evaluate", expression="%r0[5]", frameId=frames[1]["id"])["result"] == "5"
    second = begun.ask("stackTrace", threadId=2)["stackFrames"]
    assert second[-1]["name"] == "k"


def test_scopes(begun):
    """Registers of the warp and of a lane, variables, special registers; parts of long lists."""
    begun.ask("setBreakpoints", source={"name": "calls.ptx"}, breakpoints=[{"line": 33}])
    begun.ask("continue", threadId=1)
    begun.event("stopped")
    frame = begun.ask("stackTrace", threadId=1)["stackFrames"][0]
    scopes = {s["name"]: s["variablesReference"] for s in begun.ask("scopes", frameId=frame["id"])["scopes"]}
    assert list(scopes) == ["Registers", "Registers of lane 0", "Variables", "Special registers"]

    def children(reference, **more):
        found = begun.ask("variables", variablesReference=reference, **more)["variables"]
        return {v["name"]: v for v in found}

    lane = children(scopes["Registers of lane 0"])
    assert (lane["%r1"]["value"], lane["%r3"]["value"], lane["%r1"]["evaluateName"]) == ("0", "0", "%r1[0]")
    special = children(scopes["Special registers"])
    assert set(special) == {f"%{n}.{c}" for n in ("tid", "ctaid", "ntid", "nctaid") for c in "xyz"}
    assert (special["%ntid.x"]["value"], special["%tid.x"]["value"]) == ("64", "0, 1, 2, 3 .. 31")
    variables = children(scopes["Variables"])
    assert variables["n"]["value"] == "5"
    assert (
        variables["s"]["value"] == "{0 <repeats 8 times>, ... (64 elements)}"
        or "64 elements" in variables["s"]["value"]
    )
    elements = children(variables["s"]["variablesReference"])
    assert (len(elements), elements["63"]["evaluateName"]) == (64, "s[63]")
    part = children(variables["s"]["variablesReference"], start=10, count=3)
    assert list(part) == ["10", "11", "12"]
    assert list(children(variables["s"]["variablesReference"], start=62)) == ["62", "63"]
    begun.ask("setVariable", variablesReference=variables["s"]["variablesReference"], name="5", value="77")
    assert begun.ask("evaluate", expression="s[4:7]", frameId=frame["id"])["result"] == "{0, 77, 0}"
    assert "moved on" in begun.ask("setVariable", variablesReference=999, name="5", value="77")
    hover = begun.ask("evaluate", expression="s", context="hover")
    assert (hover["indexedVariables"], hover["memoryReference"]) == (64, "shared:0x0")
    assert "memoryReference" not in begun.ask("evaluate", expression="%r1")


def test_breakpoints(begun):
    """At instructions, with counts and conditions; what is none is told, and the others are set."""
    code = begun.ask("disassemble", memoryReference="0x0", instructionOffset=-1, instructionCount=27)["instructions"]
    assert code[0] == {"address": "-0x1", "instruction": "", "presentationHint": "invalid"}
    assert [c["line"] for c in code[1:6]] == [7, 8, 9, 10, 17]
    assert code[5]["instruction"] == "ld.param.u64 %rd0, [out];"
    assert code[-1]["presentationHint"] == "invalid"
    given = [{"instructionReference": code[5]["address"], "offset": 2}, {"instructionReference": "0x1000"}]
    answer = begun.ask("setInstructionBreakpoints", breakpoints=given)["breakpoints"]
    assert [(b["verified"], b.get("line")) for b in answer] == [(True, 19), (False, None)]
    assert moved(begun, "continue") == ("breakpoint", 19)
    begun.ask("setInstructionBreakpoints", breakpoints=[])
    source = {"path": CALLS["program"]}
    given = [
        {"line": 26, "hitCondition": "2"},
        {"line": 33, "condition": "%tid.x =="},
        {"line": 34, "hitCondition": "x"},
    ]
    answer = begun.ask("setBreakpoints", source=source, breakpoints=given)["breakpoints"]
    assert [b["verified"] for b in answer] == [True, False, False]
    assert answer[2]["message"] == "a hit condition is the number of the first hit that stops, not 'x'"
    begun.ask("continue", threadId=1)
    assert begun.event("stopped")["threadId"] == 2
    assert line(begun, 2) == 26
    given = [{"line": 26, "hitCondition": text} for text in ("0", ">= 3", "> 3", "==4", "% 2")]
    answer = begun.ask("setBreakpoints", source=source, breakpoints=[*given, {"line": 26, "logMessage": "here"}])
    assert [b["verified"] for b in answer["breakpoints"]] == [True] * 4 + [False, True]
    points = begun.process.adapter.places.session.breakpoints.values()
    assert [point.ignore for point in points] == [0, 2, 3, 3, 0]
    answer = begun.ask("setBreakpoints", source={"path": "/some/other.cu"}, breakpoints=[{"line": 3}])["breakpoints"]
    assert "-lineinfo" in answer[0]["message"]
    given = [{"dataId": "s[3]", "accessType": kind} for kind in ("read", "write", "readWrite")]
    answer = begun.ask("setDataBreakpoints", breakpoints=given)["breakpoints"]
    assert [b["verified"] for b in answer] == [True] * 3
    answer = begun.ask("setDataBreakpoints", breakpoints=[{"dataId": "s[3]", "condition": "1 +"}])["breakpoints"]
    assert answer[0]["message"].startswith("expected a value")
    info = begun.ask("dataBreakpointInfo", name="%r1")
    assert info["accessTypes"] == ["write"]
    assert begun.ask("dataBreakpointInfo", name="s[3]")["accessTypes"] == ["read", "write", "readWrite"]
    assert begun.ask("setExceptionBreakpoints", filters=[])["breakpoints"] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gird": 1}, 'launch: unknown key "gird"; did you mean "grid"?'),
        ({"max_seconds": 5}, 'launch: unknown key "max_seconds"; did you mean "maxSeconds"?'),
        ({"stoponentry": False}, 'launch: unknown key "stoponentry"; did you mean "stopOnEntry"?'),
        ({"threads": 5}, 'launch: unknown key "threads"; keys: args, arrays, asyncEffects, block, case, '),
        ({"stopOnEntry": "no"}, 'launch: stopOnEntry is true or false, not "no"'),
        ({"stayAtEnd": 2}, "launch: stayAtEnd is true or false, not 2"),
        ({"sources": "CUDA"}, 'launch: sources is "ptx" or "cuda", not "CUDA"'),
        ({"case": "saxpy"}, "a launch configuration needs a program (PTX) or a case"),
        ({"case": "saxpy", "program": None}, "a launch configuration needs a program (PTX) or a case"),
    ],
)
def test_keys_of_a_launch(client, change, said):
    """A key that means nothing is refused by its name, with what may be meant; so is a value that does."""
    client.ask("initialize", adapterID="warpsim")
    assert said in client.ask("launch", **{**CALLS, **change})
    client.start(**CALLS)  # the same session goes on
    assert client.event("stopped")["reason"] == "entry"
    assert client.leave() == 0


def test_keys_of_a_recorded_launch(client):
    """A recorded launch is not given another shape."""
    client.ask("initialize", adapterID="warpsim")
    assert client.ask("launch", case="saxpy", grid=1, args=[]) == "launch: a recorded launch has its own grid, args"


EDITORS_OWN = {
    "type": "warpsim", "request": "launch", "name": "k", "noDebug": False, "presentation": {"hidden": False, "group": "", "order": 1},
    "preLaunchTask": "build", "postDebugTask": "clean", "internalConsoleOptions": "neverOpen", "debugServer": 4711,
    "serverReadyAction": {}, "suppressMultipleSessionWarning": True, "windows": {}, "linux": {}, "osx": {},
    "__sessionId": "1", "__restart": None, "__configurationTarget": 6,
}  # fmt: skip
"""What VS Code and the protocol put into a configuration themselves."""


def test_keys_of_editors(client):
    """Are passed over, and a request may have keys of the protocol that nothing is done with, or of a later version."""
    client.start(**CALLS, **EDITORS_OWN)
    client.event("stopped")
    given = {
        "source": {"path": CALLS["program"], "checksums": []},
        "lines": [33],
        "sourceModified": False,
        "somethingNew": 1,
    }
    answer = client.ask(
        "setBreakpoints", **given, breakpoints=[{"line": 33, "column": 1, "mode": "hw", "later": {"x": 1}}]
    )
    assert answer["breakpoints"][0]["verified"]
    assert (
        client.ask("evaluate", expression="n", context="watch", line=3, column=4, source={"name": "x"})["result"] == "5"
    )
    assert client.leave() == 0


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        ("setBreakpoints", {"source": {"pth": "x"}}, 'setBreakpoints: source: unknown key "pth"; did you mean "path"?'),
        ("setBreakpoints", {"source": {"path": "k.ptx"}, "breakpoints": [{"line": 33}, {"line": 34, "conditon": "1"}]}, 'setBreakpoints: breakpoints: unknown key "conditon"; did you mean "condition"?'),
        ("setFunctionBreakpoints", {"breakpoints": [{"name": "k", "hitcondition": "2"}]}, 'did you mean "hitCondition"?'),
        ("setDataBreakpoints", {"breakpoints": [{"dataId": "s", "acessType": "read"}]}, 'did you mean "accessType"?'),
        ("setExceptionBreakpoints", {"filters": [], "filterOption": []}, 'did you mean "filterOptions"?'),
        ("stepIn", {"threadId": 1, "granularty": "instruction"}, 'stepIn: unknown key "granularty"; did you mean "granularity"?'),
        ("stackTrace", {"threadId": 1, "level": 1}, 'did you mean "levels"?'),
        ("readMemory", {"memoryReference": "shared:0x0", "count": 4, "ofset": 4}, 'did you mean "offset"?'),
        ("evaluate", {"expression": "n", "contxt": "repl"}, 'did you mean "context"?'),
    ],
)  # fmt: skip
def test_mistyped_keys(begun, command, arguments, said):
    """Of any request are refused by their names; nothing is done."""
    assert said in begun.ask(command, **arguments)
    assert begun.process.adapter.places.session.breakpoints == {}
    assert line(begun) == 17


def test_filters_of_rules_are_replaced(begun):
    """Also those of a filter that names a rule that does not exist."""
    points = begun.process.adapter.places.session.breakpoints
    option = {"filterId": "rule", "condition": "out-of-bounds, nonsense"}
    (answer,) = begun.ask("setExceptionBreakpoints", filters=[], filterOptions=[option])["breakpoints"]
    assert not answer["verified"]
    begun.ask("setExceptionBreakpoints", filters=[])
    assert points == {}


def test_keys_are_those_of_the_protocol():
    """Every argument in the protocol's schema is known, to its depth."""

    def check(properties, known):
        for name, each in properties.items():
            assert name in known
            each = each.get("items", each)
            held = SCHEMA["definitions"].get(each.get("$ref", "").rpartition("/")[2], {}).get("properties")
            if known[name] is not None:
                check(held, known[name])

    for command, known in REQUESTS.items():
        check(SCHEMA["definitions"][f"{command[0].upper()}{command[1:]}Arguments"]["properties"], known)


def test_places_with_code(begun):
    """Lines where a breakpoint can stand, where a jump can lead, and the module that holds them."""
    source = {"path": CALLS["program"]}
    found = begun.ask("breakpointLocations", source=source, line=12, endLine=20)["breakpoints"]
    assert [each["line"] for each in found] == [17, 18, 19, 20]
    assert begun.ask("breakpointLocations", source=source, line=12)["breakpoints"] == []
    (module,) = begun.ask("modules")["modules"]
    assert (module["name"], module["path"], module["symbolStatus"]) == ("calls.ptx", CALLS["program"], "no CUDA lines")
    (target,) = begun.ask("gotoTargets", source=source, line=20)["targets"]
    begun.ask("goto", threadId=1, targetId=target["id"])
    assert begun.event("stopped")["reason"] == "goto"
    assert line(begun) == 20
    begun.ask("goto", threadId=1, targetId=7)
    assert "is not in k: threads can jump within their function only" in begun.event("output")["output"]
    assert begun.event("stopped")["reason"] == "step"
    assert "use the request launch" in begun.ask("attach")


def test_a_program_in_cuda(client, monkeypatch):
    """A .cu is compiled, with the flags of the configuration; its lines are shown and stepped."""
    asked = []

    def compiled(*given):
        asked.append(given)
        return (KERNELS / "ring.ptx").read_text()

    monkeypatch.setattr("warpsim.cli.compiling.compiled", compiled)
    arrays = ["x=arange:f32:100", "b=zeros:f32:2"]
    step = 'struct:{"scale": "f32:0.5", "shift": "i32:-7", "bias": "array:b"}'
    args = ["array:x", "zeros:f32:100", "i32:100", step]
    file = str(KERNELS / "ring.cu")
    client.start(program=file, grid=2, block=64, arrays=arrays, args=args, cudaFlags="-I inc -DN=3")
    assert asked == [(file, None, ["-I", "inc", "-DN=3"])]
    stop = client.event("stopped")
    frame = client.ask("stackTrace", threadId=stop["threadId"])["stackFrames"][0]
    assert (frame["source"]["path"], frame["line"]) == (file, 40)
    client.ask("next", threadId=stop["threadId"])
    client.event("stopped")
    assert client.ask("stackTrace", threadId=stop["threadId"])["stackFrames"][0]["line"] > 40


def test_changing_an_expression(begun):
    """What an expression names takes a value."""
    assert begun.ask("setExpression", expression="s[3]", value="7")["value"] == "7"
    assert begun.ask("evaluate", expression="s[3]")["result"] == "7"
    assert "cannot be changed" in begun.ask("setExpression", expression="n", value="7")


def test_logpoints(begun):
    """They write their message with the values in it, and go on; where a step meets one, it is a step."""
    source = {"path": CALLS["program"]}
    given = [{"line": 26, "logMessage": "n is {n}, {nonsense}", "condition": "%tid.x == 33"}]
    begun.ask("setBreakpoints", source=source, breakpoints=[*given, {"line": 33}])
    begun.ask("continue", threadId=1)
    assert begun.event("stopped")["reason"] == "breakpoint"
    begun.ask("continue", threadId=1)
    assert begun.event("output")["output"] == "n is 5, (no register, variable or parameter nonsense in k)\n"
    assert begun.event("stopped")["threadId"] == 2
    begun.ask("setBreakpoints", source=source, breakpoints=[])
    begun.ask("restart")
    begun.event("stopped")
    begun.ask("setBreakpoints", source=source, breakpoints=[{"line": 7, "logMessage": "here"}])
    begun.ask("setFunctionBreakpoints", breakpoints=[{"name": "small"}])
    begun.ask("continue", threadId=1)
    assert begun.event("stopped")["reason"] == "breakpoint"
    begun.ask("stepIn", threadId=1)
    begun.event("stopped")
    begun.ask("stepIn", threadId=1)
    assert begun.event("output")["output"] == "here\n"
    assert begun.event("stopped")["reason"] == "step"


def test_conditions_of_data_breakpoints(begun):
    """A watchpoint of an editor has a condition and a count as any other."""
    given = {"dataId": "s[0:64]", "condition": "%tid.x[0] == 32"}
    assert begun.ask("setDataBreakpoints", breakpoints=[given])["breakpoints"][0]["verified"]
    begun.ask("continue", threadId=1)
    assert begun.event("stopped")["threadId"] == 2
    begun.ask("restart")
    begun.event("stopped")
    begun.ask("setDataBreakpoints", breakpoints=[{"dataId": "s[0:64]", "hitCondition": "2"}])
    begun.ask("continue", threadId=1)
    assert begun.event("stopped")["threadId"] == 2


def test_disconnecting_from_what_was_terminated(begun):
    """Who ends the launch is told so, and may still ask and disconnect."""
    begun.ask("terminate")
    assert begun.event("exited")["exitCode"] == 0
    begun.event("terminated")
    assert begun.leave() == 0


def test_sources(begun):
    """The module and its CUDA files; a text that is in no file is sent."""
    (source,) = begun.ask("loadedSources")["sources"]
    assert Path(source["path"]).name == "calls.ptx"
    content = begun.ask("source", sourceReference=1)
    assert content["content"].startswith(".version 8.0\n")
    assert content["mimeType"] == "text/x-ptx"


def test_files_that_are_not_there(client, tmp_path):
    """A CUDA file that cannot be found is named, and the module is shown in its place."""
    text = Path(CALLS["program"]).read_text().replace("  mov.u32 %r0, %tid.x;", "  .loc 1 5 1\n  mov.u32 %r0, %tid.x;")
    (tmp_path / "k.ptx").write_text(text + '.file 1 "gone.cu"\n')
    client.start(**{**CALLS, "program": str(tmp_path / "k.ptx")}, sources="cuda")
    client.event("stopped")
    sources = client.ask("loadedSources")["sources"]
    assert sources[0]["path"] == str(tmp_path / "k.ptx")
    assert sources[1] == {"name": "gone.cu", "sourceReference": 1}
    frame = client.ask("stackTrace", threadId=1)["stackFrames"][0]
    assert (frame["source"]["name"], frame["line"]) == ("k.ptx", 17)
    client.ask("stepIn", threadId=1)
    client.event("stopped")
    frame = client.ask("stackTrace", threadId=1)["stackFrames"][0]
    assert (frame["source"]["name"], frame["line"]) == ("gone.cu", 5)
    result = client.ask("evaluate", expression="info frame", context="repl")
    assert result["variablesReference"] == 0
    assert client.leave() == 0


def test_memory(begun):
    """Bytes from an offset; as many as there are; nothing written where nothing is given."""
    assert begun.ask("readMemory", memoryReference="shared:0x0", offset=252, count=8) == {
        "address": "0xfc",
        "data": base64.b64encode(bytes(4)).decode(),
        "unreadableBytes": 4,
    }
    assert begun.ask("readMemory", memoryReference="shared:0x1000", count=8) == {
        "address": "0x1000",
        "unreadableBytes": 8,
    }
    answer = begun.ask("writeMemory", memoryReference="shared:0x10", offset=1, data=base64.b64encode(b"\5\6").decode())
    assert answer["bytesWritten"] == 2
    assert begun.ask("writeMemory", memoryReference="shared:0x10", data="")["bytesWritten"] == 0
    assert begun.ask("evaluate", expression="s[4]")["result"] == str(0x060500)
    assert "malformed arguments" in begun.ask("writeMemory", memoryReference="shared:0x10", data="###")
    assert "cannot be changed" in begun.ask("writeMemory", memoryReference="param:0x0", data="AAAA")


def test_the_console(begun):
    """Commands that look are obeyed; those that move are not; the rest is no command."""
    assert begun.ask("evaluate", expression="n * 2", context="repl")["result"] == "10"
    for command, said in (
        ("info warps", "warp  1"),
        ("help quit", "End the session"),
        ("bt", "#0  k"),
        ("warp 1", "warp 1, lane 0"),
        ("show step-by", "step-by: instruction"),
        ("p n", "n = 5"),
        ("p $1 + 1", "$1 + 1 = 6"),
        ("stepi", "moves the launch"),
        ("rc", "moves the launch"),
        ("tb 26", "sets what stops"),
        ("shell ls", "is for the prompt"),
    ):
        answer = begun.ask("evaluate", expression=command, context="repl")
        assert said in (answer if isinstance(answer, str) else answer["result"])
    for command in ("step", "q", "run"):
        assert ": use the editor" in begun.ask("evaluate", expression=command, context="repl")
    assert "no command" in begun.ask("evaluate", expression="zzz", context="repl")
    labels = [t["label"] for t in begun.ask("completions", text="info re", column=8)["targets"]]
    assert labels == ["registers"]
    assert begun.ask("completions", text="info re", column=0)["targets"] != []


def test_lines_of_cuda(client):
    """Where the editor shows CUDA, steps are of its lines, unless it asks for instructions."""
    client.start(case="saxpy", sources="cuda")
    client.event("stopped")
    before = line(client)
    assert client.ask("stackTrace", threadId=1)["stackFrames"][0]["source"]["name"] == "kernel.cu"
    client.ask("stepIn", threadId=1)
    client.event("stopped")
    assert line(client) != before
    client.ask("stepBack", threadId=1)
    client.event("stopped")
    assert line(client) == before
    assert [Path(s["path"]).name for s in client.ask("loadedSources")["sources"]] == ["kernel.ptx", "kernel.cu"]
    client.ask("setBreakpoints", source={"name": "kernel.cu"}, breakpoints=[{"line": 5}])
    assert client.leave() == 0


class Raw(Adapter):
    """An adapter without a client: what it is asked, and what it answers."""

    def __init__(self):
        self.out = io.BytesIO()
        super().__init__(Wire(io.BytesIO(), self.out))

    def on_breaks(self, given, respond):
        """A defect."""
        raise ZeroDivisionError("here")

    def asked(self, request):
        """The answer to a request."""
        self.out.seek(0)
        self.out.truncate()
        self.answer(request)
        return json.loads(self.out.getvalue().split(b"\r\n\r\n")[1])


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"command": "nonsense"}, "unknown request nonsense"),
        ({}, "unknown request None"),
        ({"command": "threads"}, "nothing has been launched"),
        ({"command": "launch", "arguments": {}}, "needs a program (PTX) or a case"),
        ({"command": "launch", "arguments": {"program": "a", "case": "b"}}, "needs a program (PTX) or a case"),
        ({"command": "launch", "arguments": [1]}, "needs a program"),
        ({"command": "readMemory", "arguments": {}}, "readMemory: malformed arguments: KeyError"),
        ({"command": "breaks"}, "internal error: ZeroDivisionError: here"),
    ],
)
def test_requests_that_fail(request_, said):
    """Each has an answer that says why, and a brace in it is no place for a value."""
    answer = Raw().asked({"seq": 7, **request_})
    assert (answer["success"], answer["request_seq"]) == (False, 7)
    assert said in answer["message"]
    assert not set("{}") & set(answer["body"]["error"]["format"])


def test_what_an_adapter_can():
    """Events and rules are filters."""
    body = Raw().asked({"seq": 1, "command": "initialize"})["body"]
    assert body["supportsStepBack"] is True
    assert [f["filter"] for f in body["exceptionBreakpointFilters"]][:3] == ["findings", "rule", "arrival"]


@pytest.mark.parametrize(
    ("value", "words"), [(16, "16"), ([16, 2], "16,2"), ("16x2", "16x2"), ([1], "1"), (1.5, "1.5"), ("all", "all")]
)
def test_values_of_a_configuration(value, words):
    """As the command line takes them."""
    assert _text(value) == words


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", None),
        (b"Content-Length: 5", None),
        (b"Content-Length: 5\r\n\r\n{}", None),
        (b"X: 1\r\n\r\n{}", "header without Content-Length"),
        (b"Content-Length: many\r\n\r\n", "bad Content-Length b'many'"),
        (b"Content-Length: -1\r\n\r\n", "bad Content-Length"),
        (b"Content-Length: 1234567890\r\n\r\n", "bad Content-Length"),
        (b"Content-Length: 67108865\r\n\r\n", "bad Content-Length"),
        (b"Content-Length: 3\r\n\r\n{]}", "body is not JSON"),
        (b"Content-Length: 2\r\n\r\n[]", "message is not an object"),
        (b"content-length : 2\r\nX: y\r\n\r\n{}", {}),
        (b'Content-Length: 7\n\n{"a":1}', {"a": 1}),
        (b"Content-Length: 67108864\r\n\r\n{}", None),
    ],
)
def test_messages(raw, said):
    """A header with the length, then JSON; the end of the input is none, anything else is broken."""
    made = Wire(io.BytesIO(raw), io.BytesIO())
    if isinstance(said, str):
        with pytest.raises(Broken) as caught:
            made.read()
        assert said in str(caught.value)
    else:
        assert made.read() == said


def test_what_is_sent():
    """Messages are numbered; a client that is gone is none; what is printed becomes events."""
    out = io.BytesIO()
    made = Wire(io.BytesIO(), out)
    made.event("output", output="ü")
    printed = Printed(made, "stdout")
    assert [printed.write("text"), printed.write(""), printed.flush(), printed.isatty()] == [4, 0, None, False]
    found = []
    raw = out.getvalue()
    while raw:
        head, _, raw = raw.partition(b"\r\n\r\n")
        length = int(head.removeprefix(b"Content-Length: "))
        found.append(json.loads(raw[:length]))
        raw = raw[length:]
    assert [m["seq"] for m in found] == [1, 2]
    assert [m["body"] for m in found] == [{"output": "ü"}, {"category": "stdout", "output": "text"}]
    out.close()
    made.event("output", output="gone")
    assert protocol.LARGEST == 1 << 26


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # a thread may read there to the end of the process
def test_the_command(monkeypatch, tmp_path):
    """`warpsim dap` speaks on the standard streams, and what it prints besides is an event."""
    given = b"".join(
        b"Content-Length: %d\r\n\r\n" % len(body) + body
        for body in (
            json.dumps({"seq": n, "type": "request", "command": command}).encode()
            for n, command in ((1, "initialize"), (2, "disconnect"))
        )
    )
    (tmp_path / "in").write_bytes(given)
    out = io.TextIOWrapper(io.BytesIO())
    with open(tmp_path / "in", "rb") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        monkeypatch.setattr("sys.stdout", out)
        assert main(["dap"]) == 0
    assert out.buffer.getvalue().count(b"Content-Length") == 2
    gc.collect()

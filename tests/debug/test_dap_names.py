"""Editors show CUDA: variables with types and members, inlined calls, stops in the file in which the breakpoint is set."""

import shutil

import numpy as np

from ring_kernel import KERNELS, N, started


def test_a_breakpoint_in_a_cuda_file(client, tmp_path, monkeypatch):
    """It stops there, with the variables of the scope; steps then go by CUDA lines."""
    monkeypatch.delenv("WARPSIM_COMPILE", raising=False)  # LLVM takes a minute for all of its regions at once
    started("ring_debug.ptx").record(tmp_path / "case")
    shutil.copy(KERNELS / "ring.cu", tmp_path / "case")
    client.ask("initialize", adapterID="warpsim")
    client.ask("launch", case=str(tmp_path / "case"), stopOnEntry=False)
    client.event("initialized")
    path = str(tmp_path / "case" / "ring.cu")
    client.ask("setBreakpoints", source={"path": path}, breakpoints=[{"line": 25}])
    client.ask("configurationDone")
    stop = client.event("stopped")
    frames = client.ask("stackTrace", threadId=stop["threadId"])["stackFrames"]

    assert [(f["name"], f["line"], f["source"]["path"]) for f in frames] == [
        ("tap", 25, path), ("sum", 30, path), ("stencil", 61, path)]  # fmt: skip

    def variables(frame):
        scopes = client.ask("scopes", frameId=frames[frame]["id"])["scopes"]
        reference = next(s["variablesReference"] for s in scopes if s["name"] == "Variables")
        return {v["name"]: v for v in client.ask("variables", variablesReference=reference)["variables"]}

    def parts(body):
        found = client.ask("variables", variablesReference=body["variablesReference"])["variables"]
        return {v["name"]: v for v in found}

    assert (variables(0)["w"]["value"], variables(0)["w"]["type"]) == ("1.0", "float")
    found = variables(2)
    assert {"x", "y", "n", "step", "t", "i", "coef", "tile", "ring", "square", "table::weights"} <= found.keys()
    assert "param0" not in found
    assert (found["n"]["value"], found["n"]["type"]) == (str(N), "int")
    assert found["ring"]["type"] == "Slot [2]"
    slot = parts(parts(found["ring"])["1"])
    assert {name: slot[name]["value"] for name in slot} == {
        "head": "-6", "a": "{10.0, 11.0, 12.0, 13.0}", "flag": "98 'b'"}  # fmt: skip
    assert parts(slot["a"])["3"]["evaluateName"] == "ring[1].a[3]"
    assert [v["value"] for v in parts(found["t"]).values()] == [str(n) for n in np.arange(32)]
    assert parts(found["x"])["*x"]["value"] == "1.0"
    assert client.ask("evaluate", expression="step.bias[1]", frameId=frames[2]["id"])["result"] == "200.0"

    client.ask("setBreakpoints", source={"path": path}, breakpoints=[])
    client.ask("next", threadId=stop["threadId"])
    client.event("stopped")
    assert client.ask("stackTrace", threadId=stop["threadId"])["stackFrames"][0]["line"] == 30
    client.leave()

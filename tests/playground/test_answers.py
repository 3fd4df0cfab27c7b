"""The playground's answers, under CPython; its worker gives the same in a browser."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.playground.playground import Playground
from docs.tools import instructions
from docs.tools import playground as site
from docs.tools.snippets import snippets

ROOT = Path(__file__).parents[2]
PROGRAMS = {example["title"]: example for example in site.examples()}
FENCE = PROGRAMS["A missing fence"]


def asking(playground=None):
    """A playground, as a function from a command and its arguments to the answer."""
    answer = (playground or Playground()).answer
    return lambda do, **given: json.loads(answer(json.dumps({"do": do, **given})))


def loaded(example):
    """A playground in which an example's launch has begun, and the text."""
    ask = asking()
    text = example.get("text") or ask("example", name=example["example"])["text"]
    gone = set(example.get("without", ()))
    text = "\n".join(f"// {line}" if n in gone else line for n, line in enumerate(text.split("\n"), 1))
    return ask, text, ask("load", text=text, launch=example["launch"])


def test_finding_and_way_back():
    """A run stops before the finding; going back undoes the last instruction, then forward does it again."""
    ask, text, state = loaded(FENCE)
    lines = {stripped: n for n, line in enumerate(text.split("\n"), 1) if (stripped := line.strip().split(" ")[0])}
    assert state["stop"]["step"] == 0

    found = ask("move", how="cont")
    assert (found["stop"]["reason"], found["stop"]["line"]) == ("finding", lines["@%first"] - 2)
    (finding,) = found["findings"]
    assert (finding["rule"], finding["line"], finding["other"]) == (
        "proxy-fence",
        found["stop"]["line"],
        lines["st.shared.u32"],
    )
    assert finding["text"].startswith("kernel.ptx:")

    before = ask("move", how="back", count=2)
    assert before["stop"]["line"] == lines["st.shared.u32"]
    assert before["shared"]["values"] == ["0"] * 32
    after = ask("move", how="step")
    assert after["shared"]["values"] == [f"{n:x}" for n in range(32)]
    assert after["shared"]["changed"] == list(range(1, 32)), "word 0 stays 0"
    registers = {r["name"]: r["values"] for r in after["registers"]}
    assert registers["%at"] == [str(4 * n) for n in range(32)]

    assert ask("move", how="goto", count=found["stop"]["step"])["stop"]["line"] == found["stop"]["line"]
    ask("move", how="cont")
    end = ask("move", how="cont")
    assert end["stop"]["reason"] == "end"
    assert end["arrays"][0]["values"] == [str(n) for n in range(32)]


def test_matrix_and_its_owners():
    """An operand of mma with the lane of each element: row r, columns 2c and 2c + 1 belong to lane 4 r + c (PTX ISA)."""
    ask, _, _ = loaded(PROGRAMS["Who owns which element: mma"])
    ask("move", how="step", count=13)
    a = ask("matrix", operand="a")

    assert (a["shape"], a["axes"]) == ([16, 16], ["m", "k"])
    assert [a["lanes"][r][c] for r, c in ((0, 0), (1, 2), (9, 15))] == [0, 5, 7]
    assert a["values"][1][2] == "5.0"
    assert "lane 5, %a0" in a["owners"][1][2]


def test_timeline():
    """One entry for each step, with its line and warp, and the step of the finding."""
    ask, _, _ = loaded(PROGRAMS["A race"])
    time = ask("timeline")
    state = ask("move", how="cont")

    assert time["warps"] == [[0, 0, 0, 0], [0, 0, 0, 1]]
    assert time["findings"][0][0] == state["stop"]["step"]
    assert "race" in {rule for _, rule in time["findings"]}
    assert time["steps"][state["stop"]["step"]][::2] == [state["stop"]["line"], [state["focus"]["warp"]]]


@pytest.mark.parametrize(
    ("text", "launch", "said"),
    [
        ("nonsense", "--grid 1 --block 32", "kernel.ptx:1:1: syntax"),
        (FENCE["text"], "--grid 1", "--block"),
        (FENCE["text"], "--grid 1 --block 32 --arg nonsense:1", "unknown kind 'nonsense'"),
        (FENCE["text"], "--grid 1 --block 'x", "No closing quotation"),
        (FENCE["text"], "--grid 1 --block 32 --help", "usage"),
        (FENCE["text"], "replay nothing", "nothing is neither"),
        (FENCE["text"], "replay", "case"),
    ],
)
def test_errors_are_answers(text, launch, said):
    """What cannot be loaded is said; the playground goes on."""
    ask = asking()
    answer = ask("load", text=text, launch=launch)

    assert said in answer["error"]
    assert "/" not in answer["error"].split("kernel.ptx")[0] or "replay" in launch
    assert "nothing is loaded" in ask("move", how="step")["error"]
    assert ask("matrix", operand="q")["error"]
    assert ask("dance")["error"] == "unknown command"


@pytest.mark.long
@pytest.mark.parametrize("title", PROGRAMS)
def test_every_example(title):
    """A whole example ends without a finding; one with a line missing, or of this folder's faulty ones, stops before one."""
    example = PROGRAMS[title]
    ask, _, state = loaded(example)
    assert state["stop"]["step"] == 0, state["error"]
    reason = ask("move", how="cont")["stop"]["reason"]

    assert reason == ("finding" if "without" in example or title in ("A missing fence", "A race") else "end")
    assert ask("timeline")["steps"]


BLOCKED = """
import sys, json, platform

sys.modules.pop("subprocess", None)  # Python 3.10's platform imports it

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in {"subprocess", "ctypes", "mmap", "_ctypes", "_posixsubprocess"}:
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
sys.path.insert(0, "docs/playground")
import numpy as np
import warpsim
print(warpsim.run("add.u32 %r0, %r1, 1;", registers={"%r1": 5}).registers["%r0"][0])
from playground import answer
ask = lambda **request: json.loads(answer(json.dumps(request)))
text = ask(do="example", name="saxpy")["text"]
ask(do="load", text=text, launch="replay saxpy")
print(ask(do="move", how="cont")["stop"]["reason"])
print(sorted({"subprocess", "ctypes", "mmap"} & set(sys.modules)))
"""


def test_core_needs_no_processes_nor_foreign_memory():
    """The package runs and debugs with what a browser has."""
    alone = {name: value for name, value in os.environ.items() if not name.startswith("WARPSIM")}
    done = subprocess.run([sys.executable, "-c", BLOCKED], cwd=ROOT, env=alone, capture_output=True, text=True)

    assert done.stdout.split("\n")[:3] == ["6", "end", "[]"], done.stderr


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_javascript():
    """The page's logic, by Node's test runner."""
    done = subprocess.run(["node", "--test", "tests/playground/"], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_links_of_the_site():
    """The page reads what the site's build writes into its links."""
    shared = {"text": "// é\n", "launch": "--grid 1"}
    script = f"import {{decode}} from './docs/playground/share.js'; console.log(JSON.stringify(await decode('#{site.fragment(shared)}')))"
    done = subprocess.run(["node", "--input-type=module", "-e", script], cwd=ROOT, capture_output=True, text=True)

    assert json.loads(done.stdout) == shared


def test_doors():
    """A PTX block that says how it is launched gets a link to the playground, relative to its page."""
    text = "<!-- launch: --grid 1 -->\n```ptx\nret;\n```\n\n```ptx\nexit;\n```\n"
    made = site.doors(text, "start/first/")

    assert made.count("Open in the playground") == 1
    assert 'href="../../playground/#p=' in made
    assert "launch:" not in made


@pytest.mark.long
def test_every_instruction_has_an_example():
    """Each page of an instruction opens a program; the small ones leave what they say, by hand, and break no rule."""
    made = {name: text for name, text in instructions.pages().items() if "/instructions/" in name}
    assert {name for name, text in made.items() if "## An example" not in text} == set()

    ask = asking()
    for name, snippet in snippets().items():
        assert ask("load", **snippet.shared())["error"] == "", name
        state = ask("move", how="cont")
        assert (state["stop"]["reason"], state["findings"]) == ("end", []), name
        values = [float(value) for value in state["arrays"][1]["values"]]
        expected = [float(value) if "." in value else float(int(value, 0)) for value in snippet.values]
        assert values[: len(expected)] == expected, name
        assert len(expected) > 1 or len(set(values)) == 1, name

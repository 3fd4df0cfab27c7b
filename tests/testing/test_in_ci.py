"""What a project's CI takes from here: the action, step by step as action.yml says; the hook; the template for GitLab."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from warpsim.cli import main

yaml = pytest.importorskip("yaml", reason="needs PyYAML")
ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


def filled(text, values):
    """A text with its expressions ``${{ ... }}`` evaluated."""
    return re.sub(r"\$\{\{\s*(.*?)\s*\}\}", lambda found: str(values[found[1]]), text)


def holds(condition, values):
    """Whether a step runs: comparisons of inputs, outcomes and files, joined by ``&&``."""

    def value(word):
        if word[0] == "'":
            return word.strip("'")
        if word.startswith("hashFiles("):
            return "".join(p.name for p in Path(values["cwd"]).glob(values[word[10:-1]]))
        return values[word]

    for part in condition.split(" && "):
        if part != "always()":
            left, sign, right = part.split()
            if (value(left) == value(right)) != (sign == "=="):
                return False
    return True


def run_action(folder, path, **inputs):
    """Run the steps as a runner does; the outcome of each that ran, and what ``uses`` steps were given."""
    known = {name: str(given.get("default", "")) for name, given in ACTION["inputs"].items()}
    assert not inputs.keys() - known.keys()
    values = {f"inputs.{name}": value for name, value in {**known, **inputs}.items()} | {"cwd": str(folder)}
    outcomes, used, failed = {}, {}, False
    for step in ACTION["runs"]["steps"]:
        condition = step.get("if", "")
        if (failed and "always()" not in condition) or (condition and not holds(condition, values)):
            continue
        if "uses" in step:
            used[step["uses"].partition("@")[0]] = {k: filled(v, values) for k, v in step["with"].items()}
            continue
        env = {name: filled(text, values) for name, text in step.get("env", {}).items()}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        environment = {**os.environ, **env, "PATH": path, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
        outcome = "success" if done.returncode == 0 else "failure"
        outcomes[step["name"]] = (outcome, done.stdout + done.stderr)
        values[f"steps.{step.get('id', step['name'])}.outcome"] = outcome
        failed |= outcome == "failure"
    return outcomes, used


@pytest.fixture
def project(tmp_path):
    """What ``warpsim init-tests`` writes, and the PATH of a machine whose python is this one."""
    assert main(["init-tests", str(tmp_path / "mine")]) == 0
    return tmp_path / "mine", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32" or shutil.which("bash") is None, reason="needs bash")
def test_the_action(project):
    """A good project passes. With a broken kernel the check fails, the tests run all the same, and the findings are uploaded with
    their lines."""
    folder, path = project
    given = {"package": "pip", "pytest": "-q tests/test_axpy.py -k numpy", "upload": "true", "python-version": "3.12"}

    good, used = run_action(folder, path, **given)

    assert {name: outcome for name, (outcome, _) in good.items()} == dict.fromkeys(
        ("Install", "Check", "Test"), "success"
    )
    assert "4 passed" in good["Test"][1]
    assert used["actions/setup-python"] == {"python-version": "3.12"}
    kernel = folder / "kernels" / "axpy.ptx"
    kernel.write_text(kernel.read_text(encoding="utf-8").replace("ld.global.f32", "ld.global.f33", 1), encoding="utf-8")

    bad, used = run_action(folder, path, **given)

    assert [bad[name][0] for name in ("Check", "Test")] == ["failure", "failure"]
    (result,) = json.loads((folder / used["github/codeql-action/upload-sarif"]["sarif_file"]).read_text())["runs"][0][
        "results"
    ]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("kernels/axpy.ptx", 48)
    assert result["ruleId"] == "illegal-form"
    nothing, used = run_action(folder, path, **given | {"files": "none/*.ptx", "pytest": "false"})
    assert nothing["Check"] == ("failure", "no files match none/*.ptx\n")


def test_the_workflow_gives_the_action_inputs_that_it_has(project):
    """The workflow of ``init-tests`` uses the action of this version."""
    workflow = yaml.safe_load((project[0] / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
    (step,) = [s for s in workflow["jobs"]["tests"]["steps"] if s.get("uses", "").startswith("warpsim/")]

    assert step["with"].keys() <= ACTION["inputs"].keys()
    assert workflow["permissions"]["security-events"] == "write"


@pytest.mark.parametrize("name", [".pre-commit-hooks.yaml", "docs/assets/gitlab.yml"])
def test_commands_of_other_services(name, tmp_path, capsys):
    """The commands that they run are this command line's."""
    text = (ROOT / name).read_text(encoding="utf-8")
    (words,) = re.findall(r"warpsim (check[ \w.-]*?)(?: --? |$| -- )", text, re.MULTILINE)[-1:]
    good = tmp_path / "good.ptx"
    good.write_text(".version 8.0\n.target sm_80\n.visible .entry k() { ret; }\n", encoding="utf-8")

    assert main([*words.replace("warpsim.sarif", str(tmp_path / "s")).split(), "--", str(good)]) == 0

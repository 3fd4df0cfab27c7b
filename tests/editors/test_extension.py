"""The extension of VS Code, built and tested from npm's packages."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "editors" / "vscode"


def test_the_grammar_and_the_manifest_name_each_other():
    """Every file that the manifest names is there."""
    manifest = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    contributed = manifest["contributes"]
    (grammar,) = contributed["grammars"]
    scope = json.loads((FOLDER / grammar["path"]).read_text(encoding="utf-8"))["scopeName"]

    assert scope == grammar["scopeName"]
    assert (FOLDER / contributed["languages"][0]["configuration"]).exists()
    assert "resolved" not in (FOLDER / "package-lock.json").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_extension(tmp_path):
    """`python tasks.py extension` builds what VS Code installs; the tests in node pass: the grammar by VS Code's tokenizer, the
    servers by VS Code's protocol library."""
    pytest.importorskip("pygls", reason="needs pygls")
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    for name in ("tasks.py", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(
        FOLDER, tmp_path / "editors" / "vscode", ignore=shutil.ignore_patterns("node_modules", "dist", "*.vsix")
    )
    done = subprocess.run(
        [sys.executable, "tasks.py", "extension"], cwd=tmp_path, capture_output=True, text=True, timeout=500
    )
    if "npm error network" in done.stderr or "ENOTFOUND" in done.stderr:
        pytest.skip("npm's registry cannot be reached")

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    with zipfile.ZipFile(tmp_path / "editors" / "vscode" / "warpsim.vsix") as archive:
        names = {name.removeprefix("extension/") for name in archive.namelist()}
    assert {"dist/extension.js", "syntaxes/ptx.tmLanguage.json", "package.json"} <= names
    assert not any("node_modules" in name or name.endswith((".ts", ".mjs")) for name in names)

"""The Debug Adapter Protocol's reference client, from npm, and an editor, where they can be had."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PACKAGE = "@vscode/debugadapter-testsupport@1.68.0"


@pytest.mark.long
def test_requests_of_the_reference_client(tmp_path):
    """Each request is answered as the protocol says, from initialize to the disconnect behind terminate."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("needs node and npm")
    install = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(tmp_path), PACKAGE]
    if subprocess.run(install, capture_output=True, timeout=120, check=False).returncode:
        pytest.skip(f"{PACKAGE} cannot be had")
    env = {**os.environ, "NODE_PATH": str(tmp_path / "node_modules"), "PYTHONPATH": str(HERE.parents[1])}
    command = [node, str(HERE / "reference_client.js"), sys.executable, str(HERE / "kernels" / "calls.ptx")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, check=False)
    answers = json.loads(done.stdout.splitlines()[-1])

    assert [answer for answer in answers if answer[1] != "ok"] == []
    assert len(answers) >= 59


PLUGIN = Path("~/.local/share/nvim/site/pack/dap/start/nvim-dap").expanduser()


@pytest.mark.long
def test_an_editor(tmp_path):
    """Neovim with nvim-dap (in its place, or where NVIM_DAP says) stops at a breakpoint of its own, steps to and fro, and asks
    the console."""
    editor, plugin = shutil.which("nvim"), Path(os.environ.get("NVIM_DAP", PLUGIN))
    if editor is None or not (plugin / "lua" / "dap.lua").exists():
        pytest.skip("needs nvim and nvim-dap")
    paths = {"WARPSIM_PYTHON": sys.executable, "WARPSIM_KERNEL": str(HERE / "kernels" / "calls.ptx")}
    env = {**os.environ, **paths, "PYTHONPATH": str(HERE.parents[1]), "HOME": str(tmp_path)}
    command = [
        editor,
        "--headless",
        "-u",
        "NONE",
        "--cmd",
        f"set rtp+={plugin}",
        "-c",
        f"luafile {HERE / 'neovim.lua'}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=False)
    seen = json.loads((done.stdout + done.stderr).splitlines()[-1])

    assert seen == [["breakpoint", 26], ["step", 27], ["step", 26], ["console", "running"], ["exited", 0]]

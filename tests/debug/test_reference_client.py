"""The Debug Adapter Protocol's reference client, from npm, where it can be had."""

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

"""A dialogue at the prompt."""

import io
from pathlib import Path

import pytest

from warpsim.cli import main

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

"""What an H100 answered, instruction by instruction, against the simulator."""

import importlib.util
from pathlib import Path

HERE = Path(__file__).parent


def test_moves_and_atomics(capsys):
    """All 486 recorded shuffles, votes, matches, reductions and atomics come out equal in every bit."""
    spec = importlib.util.spec_from_file_location("moves", HERE / "recordings" / "moves.py")
    moves = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(moves)

    assert moves.compare(str(HERE / "data" / "moves_h100.npz")) == 0, capsys.readouterr().out

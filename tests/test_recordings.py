"""What an H100 answered, instruction by instruction, against the simulator."""

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def test_moves_and_atomics(capsys):
    """All 486 recorded shuffles, votes, matches, reductions and atomics come out equal in every bit."""
    spec = importlib.util.spec_from_file_location("moves", HERE / "recordings" / "moves.py")
    moves = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(moves)

    assert moves.compare(str(HERE / "data" / "moves_h100.npz")) == 0, capsys.readouterr().out


def _matrices():
    spec = importlib.util.spec_from_file_location("matrices", HERE / "recordings" / "matrices.py")
    matrices = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(matrices)
    return matrices


@pytest.mark.parametrize("part", ["wmma.mma", "7/303"])
def test_some_matrix_instructions(capsys, part):
    """Loads, products and stores of wmma, and a share of the other forms of `test_all_matrix_instructions`."""
    assert _matrices().compare(str(HERE / "data" / "matrices_h200.npz"), part) == 0, capsys.readouterr().out


@pytest.mark.long
def test_all_matrix_instructions(capsys):
    """Every form of mma, wmma, wgmma and of the matrix moves on adversarial operands: the digests of a recording."""
    assert _matrices().compare(str(HERE / "data" / "matrices_h200.npz")) == 0, capsys.readouterr().out

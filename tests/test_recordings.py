"""What an H100 answered, instruction by instruction, against the simulator."""

from pathlib import Path

import pytest

import matrices
import moves

HERE = Path(__file__).parent


def test_moves_and_atomics(capsys):
    """All 486 recorded shuffles, votes, matches, reductions and atomics come out equal in every bit."""
    assert moves.compare(str(HERE / "data" / "moves_h100.npz")) == 0, capsys.readouterr().out


@pytest.mark.parametrize("part", ["wmma.mma 1/64", "7/1818"])
def test_some_matrix_instructions(capsys, part):
    """A share of wmma.mma (every type, shape and layout), and of all forms of `test_all_matrix_instructions`."""
    assert matrices.compare(str(HERE / "data" / "matrices_h200.npz"), part) == 0, capsys.readouterr().out


@pytest.mark.sweep
def test_all_matrix_instructions(capsys):
    """Every form of mma, wmma, wgmma and of the matrix moves on adversarial operands: the digests of a recording."""
    assert matrices.compare(str(HERE / "data" / "matrices_h200.npz")) == 0, capsys.readouterr().out

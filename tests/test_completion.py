"""What a shell is offered behind ``warpsim``, and that shells take the scripts."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from warpsim.cli import main
from warpsim.cli.completion import offered

ROOT = Path(__file__).parents[1]
SAXPY = str(ROOT / "programs" / "saxpy" / "kernel.ptx")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["re"], ["record", "replay"]),
        (["debug", "r"], ["replay", "run"]),
        (["replay", "sax"], ["saxpy"]),
        (["debug", "replay", "--checks", "all", "sax"], ["saxpy"]),
        (["examples", "gemm_s"], ["gemm_sparse", "gemm_specialised"]),
        (["run", "--block", "3", "--gr"], ["--grid"]),
        (["run", SAXPY, "--kernel", ""], ["saxpy"]),
        (["run", SAXPY, "--kernel", "=", "s"], ["saxpy"]),
        (["run", SAXPY, "--kernel=s"], ["--kernel=saxpy"]),
        (["run", SAXPY, "--checks", "default+rac"], ["default+race"]),
        (["run", "--arg", "tens"], ["tensormap:"]),
        (["run", "--array", "A=norm"], ["A=normal:"]),
        (["run", "--device", "sm_8"], ["sm_80", "sm_86", "sm_87", "sm_88", "sm_89"]),
        (["layout", "ldm"], ["ldmatrix"]),
        (["layout", "x", "--swizzle", "1"], ["128B"]),
        (
            ["info", "--graph", "add.rn.f"],
            ["add.rn.f16", "add.rn.f16x2", "add.rn.f32", "add.rn.f32x2", "add.rn.f64", "add.rn.ftz"],
        ),
        (["info", "--graph", "ldmatrix.sync.al"], ["ldmatrix.sync.aligned"]),
        (["info", "--graph", "nothing.a"], []),
        (["run", "kernel"], []),
        (["completion", "f"], ["fish"]),
        (["run", "/nowhere", "--kernel", ""], []),
    ],
)
def test_what_is_offered(words, found):
    """Commands, options and their values, programs, kernels, rules, opcodes; files are left to the shell."""
    if words[1:2] == ["/nowhere"]:
        with pytest.raises(Exception, match="nowhere"):
            offered(words)
    else:
        assert offered(words) == found


def test_the_command(capsys):
    """It prints a script, or the words; what cannot be read offers nothing."""
    assert main(["completion", "fish"]) == 0
    assert "complete -c warpsim" in capsys.readouterr().out
    assert main(["completion", "bash", "--", "run", "/nowhere", "--kernel", ""]) == 0
    assert main(["completion", "zsh", "--", "debug", "rep"]) == 0
    assert capsys.readouterr().out.split() == ["replay"]


TRIALS = {
    "bash": 'eval "$(warpsim completion bash)"; COMP_WORDS=(warpsim debug rep); COMP_CWORD=2; _warpsim; echo "${COMPREPLY[@]}"',
    "zsh": "compdef() { :; }; compadd() { shift; echo $@; }; "
    'eval "$(warpsim completion zsh)"; words=(warpsim debug rep); CURRENT=3; _warpsim',
    "fish": 'warpsim completion fish | source; complete -C "warpsim debug rep"',
}


@pytest.mark.long
@pytest.mark.parametrize("shell", TRIALS)
def test_shells(shell, tmp_path):
    """Each shell completes a command by its script."""
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    command = tmp_path / "warpsim"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m warpsim "$@"\n')
    command.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    flags = ["-f"] if shell == "zsh" else []
    done = subprocess.run(
        [shell, *flags, "-c", TRIALS[shell]], capture_output=True, text=True, timeout=60, env=env, check=False
    )
    assert done.stdout.split() == ["replay"], done.stderr

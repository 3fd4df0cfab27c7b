"""A session of a kernel author who knows cuda-gdb: what is typed, and what the answer holds, are in ``transcript.txt``."""

import io
from pathlib import Path

from ring_kernel import started
from warpsim.cli.debug.shell import Shell

TYPED = (Path(__file__).parent / "transcript.txt").read_text().split("(cuda-gdb) ")[1:]
ELSEWHERE = {
    "call twice(1.5)": "device functions cannot be called from the prompt",
    "python print(1)": "Python is outside: warpsim.debug.Session",
}
"""What gdb or cuda-gdb does and this debugger does not."""


def test_a_session_of_cuda_gdb():
    """Of 60 things that are typed, 58 do what gdb or cuda-gdb do; the others say what there is."""
    out = io.StringIO()
    shell = Shell(started("ring_debug.ptx"), out, colour=False)
    refused, missing = [], []
    for each in TYPED:
        typed, *lines = each.splitlines()
        rest = iter([line.removeprefix("> ") for line in lines if line.startswith("> ")])
        shell.console.source = lambda rest=rest: next(rest, None)
        out.truncate(0)
        out.seek(0)
        if shell.obey(typed) is not None:
            refused.append(typed)
        while shell.console.queue:
            shell.obey(shell.console.queue.pop(0))
        answer, at = out.getvalue(), 0
        for line in lines:
            if not line.startswith("> "):
                found = answer.find(line, at)
                if found < 0:
                    missing.append(f"{typed}: {line!r} in {answer[at:]!r}")
                at = max(found, at)

    assert missing == []
    assert (refused, len(TYPED)) == ([*ELSEWHERE], 60)

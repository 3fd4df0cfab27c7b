"""From which target and PTX version on the assembler takes each instruction.

python tools/recordings/gates.py       asks the ptxas on the PATH; writes tests/isa/gate_verdicts.txt

One instruction of each opcode that the other verdicts beside it have as accepted, up to sm_90a; of conversions and other
arithmetic every fifth; on halves also where there is one on pairs; none that sm_50 and PTX 5.0 have.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import instruction_heads

ISA = Path(__file__).parents[2] / "tests" / "isa"
OUT = ISA / "gate_verdicts.txt"
TARGETS = [50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90]
"""Those without suffix that instructions of sm_90a can begin with."""
NEWEST = "9.0"
REGISTERS = {**instruction_heads.REGISTERS, "hf": "b16", "x": "b32"}
UNASKED = re.compile(r"\bo\d|param::func|v8\.u16|setmaxnreg")
"""Registers of 128 bits, which older targets cannot declare; and what makes ptxas 13.0 crash for these."""


def head(target: str, version: str) -> str:
    """What stands before the instructions; halves are words of their size, which every target declares."""
    return instruction_heads.head(target, version, registers=REGISTERS)


def instructions() -> list[str]:
    """The first accepted one of each opcode."""
    found: dict[str, str] = {}
    for name in ("form", "assembler", "address", "arithmetic"):
        for number, line in enumerate((ISA / f"{name}_verdicts.txt").read_text().splitlines()):
            *_, verdict, instruction = line.split("\t")
            if verdict == "accepted" and not UNASKED.search(instruction) and (name != "arithmetic" or number % 5 == 0):
                found.setdefault(instruction.split()[0], instruction)
    for opcode, instruction in list(found.items()):
        if opcode.endswith("f16x2"):
            found.setdefault(opcode[:-2], opcode[:-2] + re.sub(r"\b[bx](\d)", r"h\1", instruction[len(opcode) :]))
    return list(found.values())


def taken(target: str, version: str, given: list[str], arch: str) -> set[str]:
    """The instructions that the assembler takes in one module."""
    before, kept = head(target, version), list(given)
    with tempfile.TemporaryDirectory() as folder:
        while True:
            path = Path(folder) / "k.ptx"
            path.write_text(before + "\n".join(kept) + "\nret;\n}\n")
            done = subprocess.run(
                ["ptxas", f"-arch={arch}", str(path), "-o", str(Path(folder) / "k")],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode == 0:
                return set(kept)
            lines = {int(n) - before.count("\n") for n in re.findall(r"line (\d+); error", done.stderr)}
            bad = {n for n in lines if 1 <= n <= len(kept)}
            if not bad:
                said = [line for line in done.stderr.splitlines() if "warning" not in line]
                raise SystemExit(f"{target} {version}: {said[:9]}")
            kept = [text for n, text in enumerate(kept, 1) if n not in bad]


def main() -> int:
    """Ask, write."""
    from warpsim.program.linking import LEAST_VERSION as LEAST
    from warpsim.ptx.words import VERSIONS

    every = instructions()
    least: dict[str, str] = {}
    for number in TARGETS:
        new = taken(f"sm_{number}", NEWEST, [i for i in every if i not in least], "sm_90a")
        least |= dict.fromkeys(new, f"sm_{number}")
        print(number, len(new), file=sys.stderr)
    least |= dict.fromkeys(taken("sm_90a", NEWEST, [i for i in every if i not in least], "sm_90a"), "sm_90a")
    rows = []
    for target in sorted(set(least.values())):
        waiting = [i for i in every if least.get(i) == target]
        first = max(LEAST[int(target[3:5])], (8, 0) if target.endswith("a") else (5, 0))
        for version in sorted(v for v in VERSIONS if first <= v <= (9, 0)):
            text = f"{version[0]}.{version[1]}"
            new = taken(target, text, waiting, "sm_90a") if waiting else set()
            rows += [f"{target}\t{text}\t{i}" for i in waiting if i in new]
            waiting = [i for i in waiting if i not in new]
        print(target, "never", waiting, file=sys.stderr)
    rows = [row for row in rows if not row.startswith("sm_50\t5.0\t")]
    OUT.write_text("\n".join(sorted(rows)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

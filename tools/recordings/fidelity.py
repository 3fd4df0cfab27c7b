"""What the bits of each instruction form rest on, written to the package (warpsim/isa/fidelity.txt): fidelity.py

From data/oracles.txt (oracles.py makes it), the recorded kernels, and the recordings of single instructions in data/. A line
holds the opcode, the form, how its results are known (``recorded``, ``exact``, ``stated``) and the evidence; a form without
a line has the exact arithmetic of the tests."""

import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np

import warpsim
from warpsim.isa import matching, spec
from warpsim.program import build  # noqa: F401 - declares all instructions

TESTS = Path(__file__).parents[2] / "tests"
TARGET = Path(warpsim.__file__).parent / "isa" / "fidelity.txt"
ARRAYS = (
    "forms_h100",
    "forms_h200",
    "chains_h200",
    "integer_recordings",
    "moves_h100",
    "mma_h100",
    "matrices_h200",
    "units_h100",
    "textures_h200",
    "textures_wider_h200",
    "transfers_h200",
)
INSTRUCTION = re.compile(r"""(?:^|[;"\t{]|@!?(?:p\d|few|one))\s*([a-z]\w*(?:\.[\w:]+)*)""")


def kernels():
    """The recorded kernels that hold each form."""
    found = defaultdict(set)
    folders = sorted([*(TESTS.parent / "programs").glob("*/case.json"), *(TESTS / "cases").glob("*/case.json")])
    for folder in (path.parent for path in folders if "hardware" in json.loads(path.read_text())):
        program = warpsim.load(folder / "kernel.ptx").program
        for function in program.functions.values():
            for instruction in function.code:
                found[instruction.form.root, instruction.form.syntax].add(folder.name)
    return found


def arrays():
    """The recordings of single instructions that hold each form: those that its modifiers fit."""
    found = defaultdict(set)
    for name in ARRAYS:
        with np.load(TESTS / "data" / f"{name}.npz") as stored:
            texts = [key for key in stored.files if stored[key].dtype.kind not in "US"]
            texts += [
                str(text) for key in stored.files if stored[key].dtype.kind in "US" for text in stored[key].ravel()
            ]
        for word in {word for text in texts for word in INSTRUCTION.findall(text)}:
            root, *modifiers = word.split(".")
            if root in spec.opcodes():
                fitting = {c.form.syntax for c in matching.candidates(root, tuple(modifiers))}
                for form in fitting or {form.syntax for form in spec.forms(root)}:  # a short name, as in "shfl.up"
                    found[root, form].add(f"{name}.npz")
    for form in spec.forms("txq"):  # its recordings have the names of textures
        found["txq", form.syntax].add("textures_h200.npz")
    return found


def table():
    """The lines of the table."""
    held, stored, lines = kernels(), arrays(), []
    for line in (TESTS / "data" / "oracles.txt").read_text().splitlines():
        root, form, oracles = line.split("\t")
        if oracles == "exact":
            continue
        named = sorted(held.get((root, form), ()))
        evidence = sorted(stored.get((root, form), ())) if "hardware" in oracles else []
        if named:
            evidence.append(f"{len(named)} kernels: {', '.join(named[:3])}{' ...' if len(named) > 3 else ''}")
        if "hardware" in oracles:
            kind = "recorded"
        elif oracles == "hint":
            kind, evidence = "exact", ["as the form without a cache policy"]
        else:
            said = oracles.removeprefix("stated: ")
            kind = "modelled" if said.startswith("modelled: ") else "stated"
            evidence = [said.removeprefix("modelled: ")]
        lines.append("\t".join([root, form, kind, "; ".join(evidence)]))
    return list(dict.fromkeys(lines))


if __name__ == "__main__":
    lines = table()
    TARGET.write_text("\n".join(lines) + "\n")
    print(len(lines), "forms")

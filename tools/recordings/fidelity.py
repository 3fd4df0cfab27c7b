"""What the bits of each instruction form rest on, written to the package (warpsim/isa/fidelity.txt): fidelity.py

From data/oracles.txt (oracles.py makes it), the recorded kernels, and the recordings of single instructions in data/. A line
holds the opcode, the form, how its results are known (``recorded``, ``exact``, ``stated``) and the evidence; a form without
a line has the exact arithmetic of the tests."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np

import warpsim
from warpsim.isa import spec
from warpsim.program import build  # noqa: F401 - declares all instructions

TESTS = Path(__file__).parents[2] / "tests"
TEXTURES = frozenset({"tex", "tld4", "txq", "suld", "sust", "sured", "suq"})
TARGET = Path(warpsim.__file__).parent / "isa" / "fidelity.txt"
ARRAYS = (
    "forms_h100",
    "integer_recordings",
    "moves_h100",
    "mma_h100",
    "matrices_h200",
    "quotients_h200",
    "foldings_h200",
)


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
    """The recordings of single instructions that name each opcode."""
    found = defaultdict(set)
    roots = set(spec.opcodes())
    for name in ARRAYS:
        with np.load(TESTS / "data" / f"{name}.npz") as stored:
            words = set()
            for key in stored.files:
                words |= set(key.replace("/", " ").replace(" ", ".").split("."))
                if stored[key].dtype.kind in "US":
                    for text in stored[key].ravel():
                        words |= set(str(text).replace(" ", ".").split("."))
        for root in roots & words:
            found[root].add(f"{name}.npz")
    return found


def table():
    """The lines of the table."""
    held, stored, lines = kernels(), arrays(), []
    for line in (TESTS / "data" / "oracles.txt").read_text().splitlines():
        root, form, oracles = line.split("\t")
        if oracles == "exact":
            continue
        named = sorted(held.get((root, form), ()))
        evidence = sorted(stored.get(root, ())) if "hardware" in oracles else []
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
        usual = "textures_h200.npz" if root in TEXTURES else "matrices_h200.npz, forms_h100.npz"
        lines.append("\t".join([root, form, kind, "; ".join(evidence) or usual]))
    return list(dict.fromkeys(lines))


if __name__ == "__main__":
    lines = table()
    TARGET.write_text("\n".join(lines) + "\n")
    print(len(lines), "forms")

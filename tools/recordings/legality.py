"""Small modules and what the assembler says of each: recorded once, compared whenever wanted.

    python tools/recordings/legality.py record [SEED]    judges new modules with the ptxas on the PATH; writes tests/data
    python tools/recordings/legality.py add FAMILY SEED COUNT    judges more modules of a family beside those that there are
    python tools/recordings/legality.py compare          holds the package against what is recorded, and prints what differs
    python tools/recordings/legality.py show N           prints module N

The modules come from ``legality_templates.py`` and ``legality_wider.py``: directives, declarations and what stands in front of them, initialisers,
calls, prototypes, labels, operands of data movement, addresses of mbarriers, modifiers in other orders. A verdict is 0 (accepted), the line of the first error, or -1 (an error without one).
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import legality_wider
from legality_templates import BODY, HEADER, REGISTERS, SHUFFLED, SYMBOLS
from legality_templates import FAMILIES as FIRST_FAMILIES

DATA = Path(__file__).parents[2] / "tests" / "data" / "legality.json.gz"
CHOICE = re.compile(r"<\|((?:(?!<\||\|>).)*)\|>", re.DOTALL)
USUAL = {
    "directives": 0.55,
    "declarations": 0.72,
    "initialisers": 0.35,
    "calls": 0.6,
    "prototypes": 0.72,
    "movement": 0.6,
    "leading": 0.6,
    "labels": 0.3,
    "barriers": 0.2,
}
"""How often a choice is the usual alternative."""
EACH = 2000


def filled(template: str, rng: random.Random, usual: float) -> str:
    """A template with every choice made."""
    while (found := CHOICE.search(template)) is not None:
        parts = found[1].split("||")
        part = parts[0] if rng.random() < usual else rng.choice(parts)
        template = template[: found.start()] + part + template[found.end() :]
    return template


def shuffled(instruction: str, rng: random.Random) -> str:
    """An instruction with its modifiers in another order, or one of them doubled, gone, or another's."""
    name, _, operands = instruction.partition(" ")
    if not operands:
        name, operands = name.rstrip(";"), ";"
    root, *words = name.split(".")
    for _ in range(rng.choice((0, 1, 1, 1, 2)) if words else 0):
        kind, i, j = rng.randrange(6), rng.randrange(len(words)), rng.randrange(len(words))
        if kind < 2:
            rng.shuffle(words)
        elif kind == 2:
            words[i], words[j] = words[j], words[i]
        elif kind == 3:
            words.insert(j, words[i])
        elif kind == 4 and len(words) > 1:
            del words[i]
        else:
            words[i] = rng.choice(OTHERS)
    return f"{'.'.join((root, *words))} {operands}"


def module(family: str, rng: random.Random) -> str:
    """A module of a family."""
    template = rng.choice(FAMILIES[family])
    text = shuffled(template, rng) if family == "modifiers" else filled(template, rng, USUAL[family])
    if family in ("movement", "modifiers", "barriers"):
        registers = " ".join(f".reg .{type} {name}<20>;" for name, type in REGISTERS.items())
        text = f"{SYMBOLS}{BODY}{registers}\n{text}\nret;\n}}\n"
    return (
        text
        if text.lstrip("/ c\n").startswith((".version", ".target", ".address_size", '.file 1 "a"\n.version'))
        else HEADER + text
    )


def target_of(text: str) -> str:
    """The architecture to assemble a module for: its own, or one that no module names."""
    found = re.search(r"\.target\s+(sm_\d+[af]?)\b", text)
    return found[1] if found and found[1] in KNOWN else "sm_90a"


KNOWN = frozenset(
    f"sm_{n}"
    for n in [
        "75",
        "100f",
        "103f",
        "110a",
        "120f",
        "121a",
        "121f",
        "80",
        "86",
        "87",
        "88",
        "89",
        "90",
        "90a",
        "100",
        "100a",
        "103",
        "103a",
        "110",
        "120",
        "120a",
        "121",
    ]
)


def judge(text: str) -> tuple[int, str]:
    """The assembler's verdict, and its words; none where it crashes or does not end."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.ptx"
        path.write_text(text)
        command = ["ptxas", "-arch", target_of(text), str(path), "-o", os.devnull]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        except subprocess.TimeoutExpired:
            return -1, ""
    said = done.stderr + done.stdout
    if done.returncode == 0:
        return 0, said
    line = re.search(r"line (\d+); (?:error|fatal)", said) or re.search(r"32-bit address on line '(\d+)'", said)
    return int(line[1]) if line else -1, said.replace(f"{path}", "m.ptx")


def generate(seed: int, families: list[str], each: int) -> list[tuple[str, str]]:
    """Modules with their family, each once."""
    found: dict[str, str] = {}
    for family in families:
        rng = random.Random(f"{seed} {family}")
        for _ in range(each):
            found.setdefault(module(family, rng), family)
    return [(family, text) for text, family in found.items()]


def record(seed: int, families: list[str], each: int, before: list[dict[str, object]]) -> None:
    """Judge the modules of a seed and store them behind those of ``before``."""
    held = {row["text"] for row in before}
    made = [one for one in generate(seed, families, each) if one[1] not in held]
    with ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(lambda one: judge(one[1]), made))
    crashed = sum(line < 0 and not words_of(said) for line, said in verdicts)
    rows = [
        {"family": family, "text": text, "line": line, "said": words_of(said)}
        for (family, text), (line, said) in zip(made, verdicts, strict=True)
        if line >= 0 or words_of(said)  # else it crashed
    ]
    keep([*before, *rows])
    print(len(rows), "modules;", crashed, "crashes;", sum(r["line"] == 0 for r in rows), "accepted")


def words_of(said: str) -> str:
    """The first error of the assembler's words."""
    return next((line for line in said.splitlines() if "error" in line or "fatal" in line), "")


def keep(rows: list[dict[str, object]]) -> None:
    """Write the recording, the same bytes for the same rows."""
    DATA.write_bytes(gzip.compress(json.dumps(rows, indent=0).encode(), 9, mtime=0))


def recorded() -> list[dict[str, object]]:
    """What is recorded."""
    found: list[dict[str, object]] = json.loads(gzip.decompress(DATA.read_bytes()))
    return found


def verdict(text: str) -> tuple[int, str]:
    """What the package says: 0, or the line of its first finding; and its words."""
    import warpsim

    try:
        warpsim.load(text)
    except warpsim.PtxError as error:
        return error.findings[0].line, f"{error.findings[0].rule}: {error.findings[0].message}"
    except Exception as defect:
        return -2, repr(defect)
    return 0, "accepted"


def agree(expected: int, actual: int) -> bool:
    """Whether two verdicts are the same; an error without a line is one at any."""
    return expected == actual or (expected < 0 < actual)


def compare(only: str = "") -> None:
    """Print what differs."""
    wrong: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for number, row in enumerate(recorded()):
        family, text, expected = str(row["family"]), str(row["text"]), int(str(row["line"]))
        total[family] += 1
        if not family.startswith(only):
            continue
        actual, words = verdict(text)
        if not agree(expected, actual):
            wrong[family] += 1
            at = expected if expected > 0 else actual
            lines = text.split("\n")
            print(
                f"{number} {family}: {expected} {row['said']!s:.110} | {actual} {words:.110} | {lines[at - 1] if 0 < at <= len(lines) else ''}"
            )
    for family in total:
        print(family, total[family], wrong[family])


FAMILIES = FIRST_FAMILIES | legality_wider.WIDER
USUAL |= legality_wider.USUAL

OTHERS = sorted({word for one in SHUFFLED for word in one.partition(" ")[0].rstrip(";").split(".")[1:]} - {"finite"})

if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(int(sys.argv[2]) if len(sys.argv) > 2 else 1, list(FAMILIES), EACH, [])
    elif sys.argv[1] == "add":
        record(int(sys.argv[3]), [sys.argv[2]], int(sys.argv[4]), recorded())
    elif sys.argv[1] == "show":
        print(recorded()[int(sys.argv[2])]["text"])
    else:
        compare(*sys.argv[2:])

"""Instructions drawn from every form, and what the assembler says of each.

    python tools/recordings/drawn.py record SEED COUNT    draws, asks the ptxas on the PATH; writes isa/drawn_verdicts.txt.gz
    python tools/recordings/drawn.py compare SEED COUNT   draws, asks, and prints what the package judges otherwise; writes nothing

A draw takes a form that the package declares, gives it modifiers (usual ones, others of the opcode, doubled, gone, in
another order) and operands (usually such as the form has, else any), a target and a PTX version. So both what the package
takes wrongly and what it refuses wrongly is met. What it says it does not run is left out, and what the assembler crashes on.
"""

from __future__ import annotations

import gzip
import random
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import instruction_heads
import warpsim.isa
from instruction_heads import REGISTERS
from warpsim.isa import matching, spec
from warpsim.isa.matching import TypedOperand
from warpsim.isa.spec import Form
from warpsim.types import ScalarType

ISA = Path(__file__).parents[2] / "tests" / "isa"
OUT = ISA / "drawn_verdicts.txt.gz"
TARGETS = {
    "sm_90a": ("8.7", "9.0", "8.0"), "sm_90": ("8.7", "7.8", "8.1"), "sm_80": ("9.0", "7.0", "7.8"), "sm_70": ("8.6", "6.0", "6.5"),
    "sm_75": ("8.5", "6.3"), "sm_89": ("8.4", "7.8"), "sm_86": ("8.0", "7.1"), "sm_100a": ("8.6", "9.0", "8.8"),
    "sm_100": ("8.7",), "sm_103a": ("8.8",), "sm_120": ("8.7",), "sm_120a": ("8.7", "9.0"), "sm_100f": ("8.8",),
}  # fmt: skip
"""Targets and PTX versions; the first are drawn most often."""
SPACES = {"global": "q gmem uq", "shared": "b smem u", "const": "q cmem", "local": "b lmem q", "param": "prm"}
ANY = (
    *("b0", "u0", "s0", "f0", "q0", "d0", "h0", "uh0", "hf0", "x0", "bb0", "p0", "5", "-1", "0", "1.0", "0f3F800000", "0d3FF0000000000000"),
    *("_", "gmem", "smem", "prm", "%tid.x", "%laneid", "%clock64", "WARP_SZ", "{b0,b1}", "{f0,f1}", "{b0}", "{b0,b1,b2,b3}", "[q0]", "[b0]"),
    *("[smem+8]", "zzz", "!p0", "!5", "-b0", "b0|p0", "b0+4", "gmem+4", "4294967296", "0x7fffffffffffffff", "3U", "~0", "(1+2)*3", "010", "0b11"),
    *("b0.x", "!b0", "k", "{_,b0}", "{5,6}", "lmem", "cmem", "uq0", "sq0", "sh0", "%tid", "%envreg1", "1.5e3", "{}", "{q0,q1}", "sq0", "%is_explicit_cluster"),
)  # fmt: skip
"""What stands for an operand of another kind."""
NUMBERS = (
    "5",
    "0",
    "1",
    "-1",
    "16",
    "255",
    "4294967295",
    "4294967296",
    "-2147483649",
    "0x10",
    "3U",
    "1+1",
    "WARP_SZ",
    "31",
    "128",
)
BATCH = 60


def head(target: str, version: str) -> str:
    """What stands before the instructions: more registers, and names that calls and branches can have."""
    return instruction_heads.head(target, version, 250) + "e0:\nt0: .branchtargets e0;\n"


def registers(type: ScalarType | None) -> list[str]:
    """Prefixes of registers of a type: its own, and what may stand for it."""
    if type is None:
        return ["b", "q"]
    if type.kind == "p":
        return ["p"]
    same = {
        8: ["bb", "h"],
        16: ["h", "uh", "sh", "hf"],
        32: ["b", "u", "s", "f", "x"],
        64: ["q", "uq", "sq", "d"],
        128: ["o"],
    }
    found = same.get(type.bits, ["b"])
    own = {"f32": "f", "f64": "d", "f16": "h", "f16x2": "x"}.get(type.name)
    own = own or {"u": {16: "uh", 32: "u", 64: "uq"}, "s": {16: "sh", 32: "s", 64: "sq"}}.get(type.kind, {}).get(
        type.bits, found[0]
    )
    return [own, own, own, found[0], found[0], *found]


class Draw:
    """Draws instructions from a seed."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.at = 0
        self.roots = [root for root in spec.opcodes() if root != "call"]
        self.words = {
            root: sorted({w for f in spec.forms(root) for s in f.pattern.slots for w in s.values})
            for root in self.roots
        }
        self.every = sorted({word for words in self.words.values() for word in words})

    def instruction(self) -> str:
        """One instruction."""
        rng, self.at = self.rng, 0
        root = rng.choice(self.roots)
        form = rng.choice(spec.forms(root))
        words = [
            rng.choice(sorted(slot.values)) for slot in form.pattern.slots if slot.group is None or rng.random() < 0.3
        ]
        operands = self.operands(form, root, words)
        if rng.random() < 0.4:
            words = self.changed(root, words)
        if rng.random() < 0.35:
            operands = self.disturbed(operands)
        guard = rng.choice(("@p9 ", "@!p9 ", "@b0 ")) if rng.random() < 0.03 else ""
        return f"{guard}{'.'.join((root, *words))} {', '.join(operands)}".rstrip() + ";"

    def changed(self, root: str, words: list[str]) -> list[str]:
        """Modifiers in another order, doubled, gone, or others."""
        rng, words = self.rng, list(words)
        for _ in range(rng.choice((1, 1, 1, 2))):
            kind, i = rng.randrange(6), rng.randrange(len(words) + 1)
            j = rng.randrange(max(len(words), 1))
            if kind == 0 and words:
                del words[j]
            elif kind == 1 and words:
                words.insert(i, words[j])
            elif kind == 2 and len(words) > 1:
                words.insert(rng.randrange(len(words)), words.pop(j))
            elif kind == 3:
                words.insert(i, rng.choice(self.words[root] or self.every))
            elif kind == 4 and words:
                words[j] = rng.choice(self.words[root] or self.every)
            else:
                words.insert(i, rng.choice(self.every))
        return words

    def disturbed(self, operands: list[str]) -> list[str]:
        """Operands of which one is another, gone, or doubled."""
        rng, operands = self.rng, list(operands)
        kind = rng.random()
        if kind < 0.1 or not operands:
            operands.insert(rng.randrange(len(operands) + 1), rng.choice(ANY))
        elif kind < 0.2:
            del operands[rng.randrange(len(operands))]
        elif kind < 0.28 and len(operands) > 1:
            i = rng.randrange(len(operands) - 1)
            operands[i], operands[i + 1] = operands[i + 1], operands[i]
        else:
            operands[rng.randrange(len(operands))] = rng.choice(ANY)
        return operands

    # ---- operands ----------------------------------------------------------------------------

    def operands(self, form: Form, root: str, words: list[str]) -> list[str]:
        """Operands such as the form has under these modifiers."""
        found = next((c for c in matching.candidates(root, tuple(words)) if c.form is form and not c.illegal), None)
        typed = (
            found.operands
            if found
            else [
                TypedOperand(s, None, s.count if isinstance(s.count, int) else None, None, None) for s in form.operands
            ]
        )
        out: list[str] = []
        joined = False
        for one in typed:
            if one.spec.kind == "carry":
                continue
            text = self.operand(one)
            if joined:
                if not one.spec.optional or self.rng.random() < 0.6:
                    out[-1] += f"|{text}"
            else:
                out.append(text)
            joined = one.spec.pair
        return out

    def register(self, type: ScalarType | None) -> str:
        """The next register of a type."""
        prefix = self.rng.choice(registers(type))
        self.at += 1
        return f"{prefix}{self.at % (8 if prefix == 'p' else 250)}"

    def operand(self, typed: TypedOperand) -> str:
        """An operand such as the form has."""
        rng, spec = self.rng, typed.spec
        if spec.kind == "sink":
            return "_"
        if spec.kind == "target":
            return "e0"
        if spec.kind == "tlist":
            return "t0"
        if spec.kind == "address":
            return self.address(typed)
        if typed.count is not None and (typed.count != 1 or spec.braces):
            count = typed.count or rng.choice((2, 4))
            bits = typed.type.bits // count if typed.type is not None and not typed.count else None
            parts = typed.type if bits is None else matching.TYPES.get(f"b{bits}")
            prefix = rng.choice(registers(parts))
            first = self.at + 1
            self.at += count
            return "{" + ",".join(f"{prefix}{n % 250}" for n in range(first, first + count)) + "}"
        return self.value(typed)

    def value(self, typed: TypedOperand) -> str:
        """A single value."""
        rng, spec, type = self.rng, typed.spec, typed.type
        if spec.dest:
            return "_" if spec.sink and rng.random() < 0.1 else self.register(type)
        if spec.constant or (typed.limit is not None and rng.random() < 0.5):
            return self.number(typed)
        if rng.random() < 0.2 and not spec.register:
            if type is not None and type.kind == "f":
                return rng.choice(("1.0", "0f3F800000", "0d3FF0000000000000", "-2.5", "0.0", "5", "1e3"))
            return rng.choice(NUMBERS)
        name = self.register(type)
        if spec.negatable and rng.random() < 0.3:
            return f"!{name}"
        if spec.sign == "-" or (spec.sign and rng.random() < 0.3):
            name = f"-{name}"
        if spec.selectors and rng.random() < 0.4:
            name += f".{rng.choice(sorted(spec.selectors))}"
        return name

    def number(self, typed: TypedOperand) -> str:
        """A number within the limit of an operand, or just outside."""
        rng, limit = self.rng, typed.limit
        if limit is None or rng.random() < 0.1 or isinstance(limit, list):
            return rng.choice(NUMBERS)
        if isinstance(limit, tuple) and len(limit) == 2:
            return str(rng.choice((limit[0], limit[1], min(limit[0] + 1, limit[1]), limit[0] - 1, limit[1] + 1)))
        values = sorted(islice(limit, 2000))
        return str(rng.choice((*values[:3], values[-1], rng.choice(values), values[-1] + 1, values[-1] + (1 << 32))))

    def address(self, typed: TypedOperand) -> str:
        """An address in a space of the form, with coordinates where it has them."""
        rng = self.rng
        spaces = sorted(typed.spaces or ("global",))
        base = rng.choice(SPACES.get(rng.choice(spaces), "q b gmem smem").split())
        if base in REGISTERS:
            self.at += 1
            base += str(self.at % 250)
        base += rng.choice(("", "", "", "", "+16", "+-8", "+0x10"))
        if typed.spec.coordinates:
            count = rng.choice((1, 2, 2, 3, 3, 4, 5))
            parts = ", ".join(rng.choice((f"b{n}", f"b{n}", f"s{n}", "0")) for n in range(count))
            return f"[{base}, {{{parts}}}]"
        if rng.random() < 0.04:
            return base
        return f"[{base}]"


TAIL = "ret;\n}\n"


def judged(target: str, version: str, given: list[str]) -> dict[str, str]:
    """The verdict on each instruction of a module; none on what the assembler crashes on."""
    before, kept, found = head(target, version), list(given), {}
    arch = target if int(re.sub(r"\D", "", target)) >= 75 else "sm_90a"
    with tempfile.TemporaryDirectory() as folder:
        while kept:
            path = Path(folder) / "k.ptx"
            path.write_text(before + "\n".join(kept) + "\n" + TAIL)
            command = ["ptxas", f"-arch={arch}", "-O1", str(path), "-o", str(Path(folder) / "k")]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
                said, status = done.stderr + done.stdout, done.returncode
            except subprocess.TimeoutExpired:
                said, status = "", -1
            if status == 0:
                return found | dict.fromkeys(kept, "accepted")
            said = re.sub(r".*warning.*\n", "", said)
            lines = {
                int(a or b) - before.count("\n")
                for a, b in re.findall(r"k\.ptx, line (\d+); (?:err|fat)|on line '(\d+)'", said)
            }
            bad = {n for n in lines if 1 <= n <= len(kept)}
            if not bad and len(kept) > 1:
                half = len(kept) // 2
                return found | judged(target, version, kept[:half]) | judged(target, version, kept[half:])
            if not bad:
                return found | (
                    {kept[0]: "refused"} if "error" in said and "nternal" not in said and status > 0 else {}
                )
            found |= {kept[n - 1]: "refused" for n in bad}
            kept = [text for n, text in enumerate(kept, 1) if n not in bad]
    return found


def drawn(seed: str, count: int) -> list[tuple[str, str, str, str]]:
    """Target, version, verdict and instruction of as many draws."""
    draw, modules = Draw(seed), defaultdict(list)
    names = list(TARGETS)
    for _ in range(count):
        target = draw.rng.choice((names[0], names[0], names[0], names[0], *names))
        version = draw.rng.choice((TARGETS[target][0], *TARGETS[target]))
        modules[target, version].append(draw.instruction())
    batches = [
        (*key, list(dict.fromkeys(many))[i : i + BATCH])
        for key, many in modules.items()
        for i in range(0, len(set(many)), BATCH)
    ]
    with ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(lambda batch: judged(*batch), batches))
    return [
        (*batch[:2], said[text], text)
        for batch, said in zip(batches, verdicts, strict=True)
        for text in batch[2]
        if text in said
    ]


def unsupported(target: str, version: str, text: str) -> bool:
    """Whether the package says that it does not run an instruction."""
    try:
        warpsim.load(head(target, version) + text + "\n" + TAIL)
    except warpsim.PtxError as error:
        return error.findings[0].rule == "unsupported"
    return False


def disagreements(rows: list[tuple[str, str, str, str]]) -> list[tuple[str, str, str, str, str]]:
    """The rows that the package judges otherwise, with its words; what it says it does not run is not among them."""
    found = []
    for target, version, verdict, text in rows:
        try:
            warpsim.load(head(target, version) + text + "\n" + TAIL)
            words, mine = "", "accepted"
        except warpsim.PtxError as error:
            one = error.findings[0]
            words, mine = f"{one.rule}: {one.message}", "refused"
            if one.rule == "unsupported":
                continue
        except Exception as defect:
            words, mine = repr(defect), "broken"
        if mine != verdict:
            found.append((target, version, verdict, text, words))
    return found


def main() -> int:
    """Draw, ask, write or compare."""
    command, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    rows = drawn(seed, count)
    if command == "record":
        left = {row[3] for row in rows if unsupported(*row[:2], row[3])}
        rows = [row for row in rows if row[3] not in left]
        OUT.write_bytes(gzip.compress("".join("\t".join(row) + "\n" for row in sorted(set(rows))).encode(), 9, mtime=0))
    else:
        wrong = disagreements(rows)
        for row in sorted(wrong, key=lambda row: row[3].lstrip("@!bp0123456789 ")):
            print(*row, sep="\t")
        print(len(rows), "instructions,", len(wrong), "judged otherwise")
    return 0


if __name__ == "__main__":
    sys.exit(main())

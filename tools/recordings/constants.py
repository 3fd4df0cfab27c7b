"""Constant expressions and the values that ptxas gives them.

constants.py FILE [SEED COUNT]     needs ptxas 13.0; writes FILE: the 64 bits of the value in hexadecimal, or "refused", a tab,
the expression. All pairs of an operator and some operands, and COUNT random ones.
"""

import random
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
INTEGERS = ["0", "1", "2", "3", "7", "8", "31", "32", "63", "64", "65", "100", "0x7FFFFFFFFFFFFFFF", "0x8000000000000000", "0xFFFFFFFFFFFFFFFF", "0xFFFFFFFF", "0x80000000", "5U", "0U", "0xFFFFFFFFFFFFFFFFU", "017", "0b1011", "WARP_SZ"]  # fmt: skip
FLOATS = ["0.0", "1.0", "2.5", "-1.5", "1e10", "3.0", "0.1"]
OPERATORS = ["||", "&&", "|", "^", "&", "==", "!=", "<", "<=", ">", ">=", "<<", ">>", "+", "-", "*", "/", "%"]
COMPARISONS = OPERATORS[5:11]


def drawn(rng, depth):
    """A random expression."""
    kind = rng.random()
    if depth == 0 or kind < 0.2:
        return rng.choice(INTEGERS)
    one, other, third = (drawn(rng, depth - 1) for _ in range(3))
    if kind < 0.3:
        return f"{rng.choice('-+~!')} {one}" if rng.random() < 0.5 else f"{rng.choice('-~!')}({one})"
    if kind < 0.36:
        return f"({rng.choice(('.s64', '.u64'))})({one})"
    if kind < 0.42:
        return f"({one} ? {other} : {third})"
    if kind < 0.5:
        return f"({rng.choice(FLOATS)} {rng.choice(COMPARISONS)} {rng.choice(FLOATS)})"
    text = f"{one} {rng.choice(OPERATORS)} {other}"
    return text if kind < 0.75 else f"({text})"


def floats_of(operators):
    """Pairs of floating-point numbers."""
    return [f"{a} {o} {b}" for o in operators for a in ("0.0", "1.5", "-1.5", "0.1") for b in ("0.0", "1.5", "3.0")]


def values(kind, texts):
    """The values by number; or the numbers of those with errors."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "m.ptx"), Path(folder, "m.cubin")
        lines = [f".visible .global .{kind} a{i} = {text};\n" for i, text in enumerate(texts)]
        source.write_text(f"{HEAD}{''.join(lines)}.entry k() {{ ret; }}\n")
        command = ["ptxas", "-arch=sm_90a", str(source), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return None, {int(line) - 4 for line in re.findall(r"line (\d+);", done.stderr)}
        data = cubin.read_bytes()
    (at,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, at + 64 * k) for k in range(count)]
    table = next(s for s in sections if s[1] == 2)
    found = {}
    for at in range(table[4], table[4] + table[5], 24):
        name, _, _, section, offset, _ = struct.unpack_from("<IBBHQQ", data, at)
        text = data[sections[table[6]][4] + name :].split(b"\0", 1)[0].decode()
        if re.fullmatch(r"a\d+", text):
            _, of, _, _, start, *_ = sections[section]
            found[int(text[1:])] = 0 if of == 8 else struct.unpack_from("<Q", data, start + offset)[0]
    return found, set()


def judged(kind, texts):
    """A row for each."""
    refused = set()
    while True:
        kept = [text for text in texts if text not in refused]
        found, wrong = values(kind, kept)
        if found is not None:
            numbers = {text: f"{found[number]:x}" for number, text in enumerate(kept)}
            return [f"{kind}\t{numbers.get(text, 'refused')}\t{text}" for text in texts]
        refused |= {kept[number] for number in wrong}


def main():
    """Draw, ask, write."""
    file, seed, count = Path(sys.argv[1]), *map(int, sys.argv[2:4] or (5, 400))
    rng = random.Random(seed)
    left, right = ("0", "1", "-1", "5", "-7", "0x8000000000000000", "3U"), ("0", "1", "3", "-2", "64", "5", "2U")
    texts = [f"{a} {o} {b}" for o in OPERATORS for a in left for b in right] + floats_of(COMPARISONS)
    texts += [drawn(rng, 3) for _ in range(count)]
    rows = judged("u64", list(dict.fromkeys(texts))) + judged("f64", floats_of("+-*/%"))
    file.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()

"""Where ptxas puts variables in shared memory.

shared_layouts.py FILE [SEED COUNT]     needs ptxas and nvdisasm 13; writes FILE: offsets in bytes, a tab, the module from behind
its head to its end, ``\\n`` for the end of a line. The kernel stores the addresses, which begin at 0x400 on sm_90.
"""

import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
TYPES = {"b8": 1, "b16": 2, "u32": 4, "f64": 8, "b64": 8, "f32": 4}


def drawn(rng):
    """A module: variables of the module, of the kernel, and of dynamic size, some of which are used."""
    outside, inside, names = [], [], []
    for number in range(rng.randint(1, 6)):
        kind = rng.choice(list(TYPES))
        align = rng.choice([a for a in (0, 4, 8, 16, 128, 1024) if not a or a >= TYPES[kind]])
        size = rng.choice(("", "[3]", "[16]", "[100]", "[1]"))
        names.append(f"v{number}")
        text = f".shared {f'.align {align} ' if align else ''}.{kind} v{number}{size};"
        (outside if rng.random() < 0.5 else inside).append(text)
    if rng.random() < 0.4:
        outside.append(f".extern .shared .align {rng.choice((4, 16, 128, 1024))} .b8 dyn[];")
        names.append("dyn")
    used = [name for name in names if rng.random() < 0.85] or names[:1]
    rng.shuffle(used)
    stores = [f"mov.u32 r, {name}; st.global.u32 [o+{4 * n}], r;" for n, name in enumerate(used)]
    body = [*inside, ".reg .b64 o; .reg .b32 r;", "ld.param.u64 o, [out];", *stores, "ret; }"]
    return "\n".join([*outside, ".visible .entry k(.param .u64 out) {", *body]), len(used)


def offsets(text, count):
    """What the machine code stores, less where shared memory begins."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "m.ptx"), Path(folder, "m.cubin")
        source.write_text(HEAD + text + "\n")
        subprocess.run(["ptxas", "-arch=sm_90", str(source), "-o", str(cubin)], check=True)
        done = subprocess.run(["nvdisasm", "-c", str(cubin)], capture_output=True, text=True, check=True)
    held, found = {}, {}
    for line in re.findall(r"(?:U?MOV|STG|U?LEA|U?IADD3?)[^;]*;", done.stdout.replace(".reuse", "")):
        if at := re.match(r"U?MOV (U?R\d+), (0x[0-9a-f]+)", line):
            held[at[1]] = int(at[2], 16)
        elif (at := re.match(r"U?IADD3? (U?R\d+), (U?R\d+), (0x[0-9a-f]+)", line)) and at[2] in held:
            held[at[1]] = held[at[2]] + int(at[3], 16)
        elif (at := re.match(r"U?LEA (U?R\d+), (U?R\d+), (U?R\d+), 0x18", line)) and at[3] in held:
            held[at[1]] = held[at[3]]  # the rank in the cluster goes above
        elif (at := re.match(r"STG\.E desc\[UR\d+\]\[R\d+\.64(?:\+0x([0-9a-f]+))?\], (R\d+)", line)) and at[2] in held:
            found[int(at[1] or "0", 16) // 4] = held[at[2]] - 0x400
    return [found.get(number) for number in range(count)]


def main():
    """Draw, ask, write."""
    file, seed, count = Path(sys.argv[1]), *map(int, sys.argv[2:4] or (2, 80))
    rng, rows = random.Random(seed), []
    for _ in range(count):
        text, used = drawn(rng)
        if None not in (found := offsets(text, used)):
            rows.append(f"{' '.join(map(str, found))}\t{text}".replace("\n", "\\n"))
    file.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()

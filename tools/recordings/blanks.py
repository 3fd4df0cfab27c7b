"""Blanks between the words of an instruction: where ptxas takes one.

blanks.py FILE     needs ptxas 13.0; FILE lists instructions, one to a line, and is written anew: the instruction, then the
modifiers before which a blank is refused, by their number
"""

import subprocess
import sys
from pathlib import Path

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.entry k() { .reg .b32 r<12>; .reg .f32 f<12>; .reg .b64 d<9>; .reg .pred p<4>; .shared .align 128 .b8 s[4096]; .reg .b16 h<9>;
"""


def with_blanks(instruction):
    """The instruction with a blank before each of its modifiers in turn."""
    name, _, rest = instruction.rstrip(";").partition(" ")
    words = name.split(".")
    for count in range(1, len(words)):
        yield f"{'.'.join(words[:count])} .{'.'.join(words[count:])} {rest};"


def taken(text):
    """Whether ptxas accepts an instruction."""
    command = ["ptxas", "-arch=sm_90a", "-", "-o", "/dev/null"]
    return (
        subprocess.run(command, input=f"{HEAD}{text}\nret; }}".encode(), capture_output=True, check=False).returncode
        == 0
    )


def main():
    """Ask for each."""
    file, out = Path(sys.argv[1]), []
    for line in file.read_text().splitlines():
        instruction = line.partition("\t")[0]
        if not taken(instruction):
            sys.exit(f"refused without blanks too: {instruction}")
        refused = [str(k) for k, text in enumerate(with_blanks(instruction), 1) if not taken(text)]
        out.append(f"{instruction}\t{' '.join(refused)}".rstrip("\t"))
    file.write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()

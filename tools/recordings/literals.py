"""Literals that leave 64 bits: what ptxas makes of them, and where it refuses them.

literals.py FILE     needs ptxas 13.0; FILE is written: the literal, its place (``{}``) in a module, and the 64 bits that ptxas
stores there, "taken", or "refused"
"""

import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

MODULE = """.version 8.7
.target sm_90a
.address_size 64
.file 1 "a"
.global .u32 g[4];
{declared}
.visible .entry k() {directive} {{ .reg .b64 d; .reg .b32 r; .reg .pred p; .reg .f32 f; .reg .f64 e; {body} ret; }}
"""
STORED = ".visible .global .u64 t[3] = {0x1122334455667788, {}, 0x99AABBCCDDEEFF00};"
FLOATING = ".visible .global .f64 t[3] = {0d1122334455667788, {}, 0d99AABBCCDDEEFF00};"
SEVENS, ONES = "7" * 21, "1" * 64
LITERALS = [
    *(str(2**64 - 1), str(2**64), str(2**64 + 5), str(2**65 + 7), str(2**66 + 2**62), str(2**67 - 1), str(2**66) + "U"),
    *("9" * 19, "9" * 20, "1" * 20, "1" * 21, "1" + "0" * 20, "92233720368547758079", "92233720368547758080"),
    *("0x" + "f" * 16, "0x" + "f" * 17, "0x1" + "0" * 16, "0x1" + "0" * 100 + "7", "0xf" + "0" * 16, "0X7" + "f" * 16),
    *(
        f"0{SEVENS}",
        f"07{SEVENS}",
        f"077{SEVENS}",
        "02" + "0" * 21,
        "02" + "0" * 60 + "5",
        "01" + SEVENS,
        "0" * 90 + "7",
    ),
    *(f"0b{ONES}", f"0b1{ONES}", "0b" + "0" * 90 + "1", "0B01" + "0" * 64, "0b0" + ONES + "U", "0" * 700 + "12U"),
]
DECIMALS = [
    *(
        "1e-310",
        "5e-324",
        "2e-324",
        "2.2250738585072011e-308",
        "2.2250738585072014e-308",
        "0e-500",
        "0.0e400",
        ".0e-400",
    ),
    *("1.7976931348623157e308", "1.7976931348623159e308", "1e400", "017.5", "1.", ".5", "1E+3", f"0.{'0' * 400}1"),
]
PLACES = [
    *("mov.u64 d, {};", "mov.b32 r, {};", "add.s32 r, r, {};", "mov.s64 d, -{};", "mov.b64 d, ~{};", "mov.b32 r, !{};"),
    *("mov.b64 d, {}+1;", "mov.b64 d, {}*0;", "mov.b64 d, {}>>8;", "mov.b64 d, ({});", "mov.b64 d, (.u64){};"),
    *("mov.b64 d, (.s64){};", "mov.b64 d, 1?2:{};", "mov.b64 d, {}?2:3;", "ld.global.u32 r, [d+{}];", "shl.b32 r, r, {};"),
    *("ld.global.u32 r, [d+-{}];", "ld.global.u32 r, [{}];", "mov.u64 d, g+{};", "st.global.u64 [d], {};"),
    *("st.global.v2.u64 [d], {1, {}};", "setp.eq.u64 p, d, {};", ".reg .b32 q<{}>;", ".local .b8 q[{}];", "bar.sync {};"),
    *(".local .align {} .b8 q[8];", "selp.b64 d, {}, 1, p;", ".loc 1 {} 1", ".global .u64 t = {};", ".global .u8 t = {};"),
    *(".global .s64 t = -{};", ".global .u64 t[2] = {1, {}};", ".global .b8 t[{}];"),
    *(".global .align {} .b8 t[8];", ".global .u64 t = g+{};", ".extern .func q(.param .b8 a[{}]);"),
    *(".global .u64 t[40] = {{}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};", ".maxntid {}"),
    *(".reqntid {}", ".minnctapersm {}", ".maxnreg {}"),
]  # fmt: skip
SIZES = ["8", "99999999999999999999", "0xfffffffffffffffff", "0777777777777777777777777"]
DIRECTIVE = re.compile(r"\.(maxntid|reqntid|minnctapersm|maxnreg) ")
"""What stands before a body."""


def module(place, literal):
    """The text with a literal at a place."""
    line = place.replace("{}", literal, 1) if "{}" in place else place
    kind = (
        "directive"
        if DIRECTIVE.match(place)
        else "declared"
        if re.match(r"\.(visible|global|extern)", place)
        else "body"
    )
    return MODULE.format(**{"declared": "", "directive": "", "body": "", kind: line})


def verdict(place, literal, folder):
    """What ptxas says, or stores."""
    (folder / "a.ptx").write_text(module(place, literal))
    command = ["ptxas", "-arch=sm_90a", folder / "a.ptx", "-o", folder / "a.cubin"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return "refused"
    if place not in (STORED, FLOATING):
        return "taken"
    data = (folder / "a.cubin").read_bytes()
    at = data.find(struct.pack("<Q", 0x1122334455667788))
    return hex(struct.unpack("<Q", data[at + 8 : at + 16])[0])


def main():
    """Ask for each."""
    trials = [(STORED, literal) for literal in LITERALS] + [(FLOATING, literal) for literal in DECIMALS]
    trials += [(p, literal) for p in PLACES for literal in SIZES]
    with tempfile.TemporaryDirectory() as folder:
        lines = [f"{literal}\t{place}\t{verdict(place, literal, Path(folder))}\n" for place, literal in trials]
    Path(sys.argv[1]).write_text("".join(lines))


if __name__ == "__main__":
    main()

"""Rules of modules that an instruction alone does not show, with the line of the first error that ptxas 13.0 gives (0: it
accepts; -1: an error without a line).
"""

import pytest

import warpsim

HEAD = ".version {}\n.target {}\n.address_size 64\n"
CASES = [
    # a declaration without a state space is read to its end
    (".u32 x;\n.entry k() { ret; }", 4),
    (".align 8 .u32 x\n;\n.entry k() { ret; }", 5),
    (".common .align 128 .u32 x\n.entry k() { ret; }", 5),
    (".entry k() {\n.v2 .u32 x\nret; }", 6),
    (".global .pred x[4],\n.entry k() { ret; }", 4),
    (".global .u32 x,\n.entry k() { ret; }", 5),
    (".attribute(.managed) .shared .u32 x\n.entry k() { ret; }", 5),
    (".shared .attribute(.managed) .u32 x\n,\ny;\n.entry k() { ret; }", 5),
    # attributes of functions
    (".visible .func .attribute(.managed) f() {ret;}\n.entry k() { ret; }", 4),
    (".visible .entry .attribute(.unified(1,2)) k() { ret; }", 4),
    (".visible .func .attribute(.unified(1,2)) f() {ret;}\n.entry k() { ret; }", -1),
    (".global .attribute(.unified(1,2)) .u32 x;\n.entry k() { ret; }", -1),
    # pragmas
    ('.pragma "nounroll";\n.entry k() { ret; }', 0),
    ('.pragma "a";\n.entry k() { ret; }', -1),
    ('.pragma "a";\n.entry k() {\nx; }', 6),
    ('.pragma "frequency 1";\n.entry k() { ret; }', 4),
    ('.entry k()\n.pragma "used_bytes_mask 1";\n{ ret; }', 5),
    ('.entry k()\n{\n.pragma "used_bytes_mask 0xF", "a";\nret; }', 0),
    ('.entry k()\n{\n.pragma "used_bytes_mask x";\nret; }', -1),
    ('.entry k()\n{\n.pragma "frequency 1";\nret; }', 6),
    ('.func f()\n{\n.pragma "enable_smem_spilling";\nret; }\n.entry k() { ret; }', 6),
    ('.entry k()\n{\n.pragma "a\\"b";\nret; }', 6),
    ('.entry k()\n{\n.pragma "a;\n.pragma "nounroll";\nret; }', 7),
    # what is for debuggers
    (".entry k() { ret; }\n.section .debug { }", 0),
    (".entry k() { ret; }\n.section .debug_info {\n.b32 4294967296\n.b8 256\n}", 8),
    (".entry k() { ret; }\n.section .text {\n.b8 1\n}", 0),
    (".entry k() { ret; }\n.section .debug_a {\nL:\n.b8 1\n}\n.section .debug_b {\nL: .b32 5\n}", 10),
    (".entry k() {\nL: ret; }\n.section .debug_a {\nL:\n.b8 1\n}", 0),
    (".entry k() { ret; }\n.section .debug_a {\n.b32 k+4, 5\n}", 6),
    (".entry k() { ret; }\n.section .debug_a {\n.b8 1, -5, 6\n.b32 1, k\n}", 7),
    (".entry k() {\n.reg .b32 r;\nshl.b32 r, r, WARP_SZ*2;\nret; }", 0),
    (".entry k() {\n.reg .b32 r; .reg .pred p;\nshfl.sync.idx.b32 _|p, r, 0, 31, -1;\nret; }", 6),
    # WARP_SZ is a number, %tid a known name, and a call's variable has no address
    (".global .align WARP_SZ .b8 x[WARP_SZ];\n.entry k()\n.maxntid WARP_SZ\n{ ret; }", 0),
    (".entry k()\n{\n@WARP_SZ trap\n}", 6),
    (".entry k() {\nbra %tid;\n.reg .b32 r;\nmov.b32 r, q;\n}", 5),
    (".entry k() {\n.reg .b64 d; .param .b32 q;\nmov.b64 d, q;\nret; }", 6),
    # labels are looked for at the end of a function, all that is declared at once
    (".entry k() {\n.reg .b32 r;\nbra L;\nmov.f32 r, r, r;\n}", 7),
    (".entry k() {\nbra L;\n}\n.entry k() { ret; }", 5),
    (".entry k() {\nbra k;\nL: L: ret;\n}", 5),
    (".entry k() {\nL:\nL: ret;\n.pragma;\n}", 6),
    (".entry k() {\n.reg .b32 r;\n.local .b32 r;\nret;\n", 6),
    (".global .u32 x;\n.entry k() {\n.reg .b32 r;\nmov.b32 r, x;\nadd.b32 r, r, r;\n}", 8),
    # guards and calls
    (".func f(.param .b32 a) { ret; }\n.entry k() {\n.param .b32 x; .reg .pred p;\n@p st.param.b32 [x], 1;\ncall f, (x);\n}", 7),
    (".func f(.param .b32 a)\n{\n.reg .b32 r; .reg .pred p;\n@p ld.param.b32 r, [a];\nret;\n}\n.entry k() { ret; }", 0),
    # clusters
    (".entry k()\n.reqnctapercluster 2, 1, 1\n.maxclusterrank 2\n{ ret; }", 6),
    (".entry k()\n.maxclusterrank 2\n.reqnctapercluster 2, 1, 1\n{ ret; }", 6),
]  # fmt: skip
GATED = [
    ("7.8", "sm_80", ".entry k()\n.reqnctapercluster 2\n{ ret; }", 6),
    ("7.8", "sm_80", ".entry k()\n.maxclusterrank 2\n{ ret; }", 5),
    ("7.7", "sm_80", ".entry k()\n.explicitcluster\n{ ret; }", 5),
    ("9.0", "sm_80", ".entry k()\n.reqntid 32\n.reqnctapercluster 2\n.blocksareclusters\n{ ret; }", 7),
    ("6.3", "sm_70", ".func f() .noreturn { exit; }\n.entry k() { ret; }", 4),
    ("6.4", "sm_70", ".func f() .noreturn { exit; }\n.entry k() { ret; }", 0),
    ("6.2", "sm_70", ".func f() { ret; }\n.func g();\n.alias g, f;\n.entry k() { ret; }", 6),
    ("8.2", "sm_90", ".global .b128 x;\n.entry k() { ret; }", 4),
    ("8.2", "sm_90", ".entry k(.param .b128 a) { ret; }", 4),
    ("8.2", "sm_90", ".entry k() {\n.reg .b128 r;\nret; }", 5),
    ("8.2", "sm_90", ".extern .func f(.param .b128 a);\n.entry k() { ret; }", 0),
    ("8.3", "sm_60", ".func f(.reg .b128 a) { ret; }\n.entry k() { ret; }", 4),
    ("7.0", "sm_90", ".entry k() { ret; }", 2),
    ("7.0", "sm_90", ".entry k() {\nL: L: ret; }", 5),
    ("8.7", "sm_90f", ".entry k() {\nL: L: ret; }", 2),
    ("8.7", "sm_90, debug", ".entry k() { ret; }", -1),
    ("8.7", "sm_90, debug", ".entry k() { ret; }\n.section .debug_str { }", 0),
]


@pytest.mark.parametrize(
    ("version", "target", "text", "line"), [*(("8.7", "sm_90a", text, line) for text, line in CASES), *GATED]
)
def test_line(version, target, text, line):
    """The first problem is at the assembler's line."""
    try:
        warpsim.load(HEAD.format(version, target) + text)
        found = 0
    except warpsim.PtxError as error:
        found = error.findings[0].line

    assert found == line or (found > 0 > line)

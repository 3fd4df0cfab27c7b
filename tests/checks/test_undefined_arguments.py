"""uninitialised: what printf prints, and what malloc and free are given."""

import numpy as np
import pytest

import warpsim

KERNEL = """.version 8.7\n.target sm_90a\n.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.extern .func (.param .b64 r) malloc (.param .b64 n);
.global .align 1 .b8 text[9] = {37, 100, 32, 37, 104, 104, 117, 10, 0};  // "%d %hhu\\n"
.visible .entry k(.param .u64 o)
{
    .local .align 8 .b8 words[16]; .shared .b32 s[64];
    .reg .b32 %t, %n, %u, %v; .reg .b64 %x, %y, %o; .reg .pred %p, %q;
    ld.param.u64 %o, [o]; mov.u32 %t, %tid.x; mov.u64 %y, words; setp.ge.u32 %p, %t, 3; BODY
    ret;
}
"""
PRINT = """
mov.u64 %x, text; cvta.global.u64 %x, %x; cvta.local.u64 %y, %y;
{ .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %x; st.param.b64 [a], %y;
call (r), vprintf, (f, a); }
"""
STORE = "st.local.u32 [words], %t; st.local.u32 [words+4], %n;"
LINE = {"print": 14, "malloc": 11}


def found(body, module=KERNEL):
    """(line, rule, severity, lanes) of each finding."""
    kernel = warpsim.load(module.replace("BODY", body))["k"]
    findings = kernel(1, 4, (np.zeros(4, np.uint64),), on_finding="collect").findings
    return [(f.line, f.rule, f.severity, f.lanes) for f in findings]


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("st.local.u32 [words], %t; @%p st.local.u32 [words+4], %t;", True),
        (f"@%p mov.u32 %n, %t; {STORE}", True),
        (f"ld.shared.u32 %u, [s]; and.b32 %n, %u, 0x1FF; {STORE}", True),
        (f"ld.shared.u32 %u, [s]; and.b32 %n, %u, 1; {STORE}", True),
        (f"st.shared.u8 [s], %t; ld.shared.u32 %n, [s]; {STORE}", False),
        (f"ld.shared.u32 %u, [s]; sub.u32 %n, %u, %u; {STORE}", False),
        (f"mov.u32 %n, 7; {STORE}", False),
    ],
)
def test_what_is_printed(body, wrong, capsys):
    """Undefined bits that are printed are an error of the first thread; such as printf leaves out (the upper bytes of %hhu) or cancel
    are not."""
    assert found(body + PRINT) == ([(LINE["print"], "uninitialised", "error", (0,))] if wrong else [])
    assert len(capsys.readouterr().out.split()) == 8


STRINGS = {
    "local": "cvta.local.u64 %x, %y; add.u64 %x, %x, 8;",
    "shared": "st.shared.u64 [s], 0; mov.u64 %x, s; cvta.shared.u64 %x, %x; add.u64 %x, %x, 16;",
    "global": "{ .param .b64 n; .param .b64 r; st.param.b64 [n], 8; call (r), malloc, (n); ld.param.b64 %x, [r]; }",
}


@pytest.mark.parametrize("space", STRINGS)
@pytest.mark.parametrize(("type", "wrong"), [("u16", False), ("u8", True)])
def test_strings(space, type, wrong):
    """A string that is printed has to be written with its end, wherever it is."""
    module = KERNEL.replace("{37, 100, 32,", "{37, 115, 0,")  # "%s"
    body = f"{STRINGS[space]} mov.u32 %n, 65; st.{type} [%x], %n; st.local.u64 [words], %x;"

    assert found(body + PRINT, module) == ([(LINE["print"], "uninitialised", "error", (0,))] if wrong else [])


def test_sizes_of_memory():
    """A size that nobody wrote."""
    body = "{ .param .b64 n; .param .b64 r; st.param.b64 [n], %x; call (r), malloc, (n); ld.param.b64 %y, [r]; st.global.u64 [%o], %y; }"

    assert found(body) == [(LINE["malloc"], "uninitialised", "error", (0, 1, 2, 3))]

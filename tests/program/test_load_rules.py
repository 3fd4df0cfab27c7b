"""Every load rule: a text that breaks it is reported at its line, the nearest correct one loads."""

import pytest

import warpsim

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"


def text(body, head=HEAD):
    """A module around these instructions."""
    return (
        head
        + ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .f32 %f<4>; .reg .pred %p<3>;\n"
        + body
        + "\nret;\n}\n"
    )


CASES = [
    ("undeclared", "mov.u32 %r1, %q1;", "mov.u32 %r1, %r2;"),
    ("undeclared", "bra nowhere;", "bra there; there:"),
    ("redeclared", ".reg .b32 a; .reg .b32 a;", ".reg .b32 a; { .reg .b32 a; }"),
    ("operand-type", "add.f32 %f1, %f2, %rd1;", "add.f32 %f1, %f2, %f3;"),
    ("operand-type", "add.u32 %r1, %r2, %rd1;", "add.u32 %r1, %r2, %r3;"),
    ("operand-count", "add.u32 %r1, %r2;", "add.u32 %r1, %r2, 1;"),
    ("syntax", "mov.u32 %r1 %r2;", "mov.u32 %r1, %r2;"),
    ("illegal-form", "add.ftz.u32 %r1, %r2, %r3;", "add.ftz.f32 %f1, %f2, %f3;"),
    ("unsupported", "tex.1d.v4.f32.s32 {%f0,%f1,%f2,%f3}, [%rd1, {%r1}];", "mov.u32 %r1, %r2;"),
]


@pytest.mark.parametrize(("rule", "faulty", "correct"), CASES)
def test_rule(rule, faulty, correct):
    """The faulty line is named, with its line; the correct one loads."""
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(text(faulty))

    assert (rule, 7) == (caught.value.findings[0].rule, caught.value.findings[0].line)
    warpsim.load(text(correct))


def test_target():
    """An instruction that the module's target lacks."""
    head = ".version 8.0\n.target sm_70\n.address_size 64\n"
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(text("redux.sync.add.u32 %r1, %r2, -1;", head))

    assert caught.value.findings[0].rule == "target"


@pytest.mark.parametrize(("size", "rule"), [(32, "unsupported"), (16, "directive")])
def test_address_size(size, rule):
    """Addresses have 64 bits; the assembler itself no longer takes 32."""
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(f".version 8.0\n.target sm_80\n.address_size {size}\n.entry k() {{ ret; }}\n")

    assert caught.value.findings[0].rule == rule


@pytest.mark.parametrize("source", ["/no/such/file.ptx", b"\x7fELF...", "#include <cstdio>\n__global__ void k() {}\n"])
def test_unreadable(source):
    """A missing file, a cubin and CUDA source are refused with what to do."""
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(source)

    assert caught.value.findings[0].rule == "unreadable"
    assert caught.value.findings[0].advice

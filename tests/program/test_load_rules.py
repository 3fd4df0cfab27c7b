"""Rules of loading, beside the pairs of programs in tests/checks/pairs: what came with which version, types, files."""

import contextlib
from pathlib import Path

import pytest

import blanks
import warpsim
from ptx_text import module_head
from warpsim.isa.matching import is_name
from warpsim.ptx.parser import parse

HEAD = module_head("sm_90a", "8.3")


@pytest.mark.parametrize(
    "instruction", ["fma.rn.f16 %h0, %h1, %h2, %h3;", "add.f16 %h0, %h1, %h2;", "mul.f16x2 %r0, %r1, %r2;"]
)
def test_halves_since_they_came(instruction):
    """Arithmetic of halves came with PTX 4.2, for sm_53."""
    head = module_head("sm_53", "4.2") + ".entry k()\n{\n.reg .b16 %h<4>; .reg .b32 %r<4>;\n"
    module = f"{head}{instruction}\nret;\n}}\n"
    warpsim.load(module)
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(module.replace("sm_53", "sm_52"))

    assert (caught.value.findings[0].rule, caught.value.findings[0].line) == ("target", 7)


@pytest.mark.parametrize("type", ["u16x2", "s16x2", "bf16", "bf16x2", "tf32", "e4m3", "e5m2", "e4m3x2", "e5m2x2"])
@pytest.mark.parametrize(
    "declaration",
    [
        ".global .T x;",
        ".entry f(.param .T x) { ret; }",
        ".func f(.reg .T x) { ret; }",
        ".entry f() { .reg .T x; ret; }",
    ],
)
def test_types_of_instructions(type, declaration):
    """Nothing is declared as a type that ptxas 13.0 takes in instructions only."""
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(HEAD + declaration.replace("T", type))

    assert (caught.value.findings[0].rule, caught.value.findings[0].line) == ("directive", 4)


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


@pytest.mark.parametrize(
    ("name", "target", "version", "taken"),
    [
        ("%cluster_ctarank", "sm_90", "7.8", True),
        ("%cluster_ctarank", "sm_80", "7.8", False),
        ("%reserved_smem_offset_0", "sm_80", "7.6", True),
        ("%reserved_smem_offset_0", "sm_80", "7.5", False),
        ("%tid.x", "sm_50", "5.0", True),
    ],
)
def test_special_registers_that_not_every_module_has(name, target, version, taken):
    """The manual says since which PTX and for which target each exists."""
    text = module_head(target, version) + f".entry k()\n{{ .reg .b32 r;\nmov.b32 r, {name};\nret; }}\n"
    with contextlib.nullcontext() if taken else pytest.raises(warpsim.PtxError, match=f":6:12: target: {name} needs"):
        warpsim.load(text)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (".func f();\n.entry k() { call f; ret; }", {("linkage", 4), ("linkage", 5)}),
        (".extern .func f();\n.entry k() { ret; }", set()),
        ("foo { a; b; }\n.entry k()\n{ nonsense r; }", {("syntax", 4)}),
        (".entry k()\n.reqnctapercluster 2\n.maxclusterrank 4\n{ ret; }", {("directive", 6)}),
        (".entry k()\n.maxclusterrank 4\n.reqnctapercluster 2\n{ ret; }", {("directive", 7)}),
        (".entry k()\n{ p: .callprototype _ (.param .pred x); ret; }", set()),
        (".func f(.param .pred x);\n.entry k() { ret; }", {("directive", 4)}),
        (".entry k()\n{ barrier.cta.sync 0; ret; }", set()),
        ("foo a\nbar\n.entry k() { ret; }", {("syntax", 4)}),
        (".local .u32 x;\n.entry k() { ret; }", {("directive", 4)}),
        (".param .u32 x;\n.entry k() { ret; }", {("directive", 4)}),
        (".entry k(.param .f16x2 x) { ret; }", {("directive", 4)}),
        ('.entry k()\n.pragma "abc";\n{ ret; }', set()),
        (".func f()\n.noreturn, 1\n{ ret; }\n.entry k() { ret; }", {("syntax", 5)}),
    ],
)
def test_what_stands_around_instructions(lines, found):
    """Declarations, directives that exclude each other, and what is skipped behind an error."""
    reported = set()
    try:
        warpsim.load(module_head("sm_90", "7.8") + f"{lines}\n")
    except warpsim.PtxError as problem:
        reported = {(f.rule, f.line) for f in problem.findings}

    assert reported == found


@pytest.mark.parametrize(
    ("space", "version", "target", "taken"),
    [
        ("param", "7.7", "sm_70", True),
        ("param", "7.6", "sm_70", False),
        ("param", "7.7", "sm_60", False),
        ("param::entry", "8.3", "sm_70", True),
        ("param::entry", "8.2", "sm_70", False),
        ("shared::cta", "7.8", "sm_50", True),
        ("shared::cta", "7.7", "sm_50", False),
        ("shared::cluster", "7.8", "sm_90", True),
        ("shared::cluster", "7.8", "sm_80", False),
    ],
)
def test_spaces_of_generic_addresses(space, version, target, taken):
    """The manual says since which PTX and for which target cvta takes each."""
    text = module_head(target, version) + f".entry k()\n{{ .reg .b64 d;\ncvta.{space}.u64 d, d;\nret; }}\n"
    with contextlib.nullcontext() if taken else pytest.raises(warpsim.PtxError, match=":6:1: target: "):
        warpsim.load(text)


@pytest.mark.parametrize(
    ("move", "taken"),
    [("mov.b64 rd, v;", True), ("mov.b64 v, rd;", True), ("mov.b32 r, v;", False), ("mov.b32 v, r;", False)],
)
def test_vectors_as_one_value(move, taken):
    """A vector register is packed into as many bits as it has, and no others (ptxas: "Arguments mismatch")."""
    text = HEAD + f".entry k()\n{{ .reg .v2 .b32 v; .reg .b32 r; .reg .b64 rd;\n{move}\nret; }}\n"
    with contextlib.nullcontext() if taken else pytest.raises(warpsim.PtxError, match=r":6:.*operand-type"):
        warpsim.load(text)


@pytest.mark.parametrize(
    "body",
    [
        "cp.async.bulk.shared::cluster.global.C{} [s], [q], 16, [bar]{};",
        "cp.async.bulk.tensor.2d.shared::cluster.global.C{} [s], [q, {{r, r}}], [bar]{};",
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.C{} [s], [q, {{r, r, r}}], [bar], {{h}}{};",
    ],
)
def test_masks_of_multicasts(body):
    """A copy has a mask where it has .multicast::cluster, and only there; ptxas 13.0 takes two of the four."""
    head = ".entry k() {\n.reg .b64 q; .reg .b32 r; .reg .b16 h; .shared .align 128 .b8 s[128]; .shared .align 8 .b64 bar;\n"
    body = body.replace("C", "mbarrier::complete_tx::bytes")
    for multicast in ("", ".multicast::cluster"):
        for mask in ("", ", h"):
            same = bool(multicast) == bool(mask)
            with contextlib.nullcontext() if same else pytest.raises(warpsim.PtxError, match=r":6:.*operand-count"):
                warpsim.load(f"{HEAD}{head}{body.format(multicast, mask)}\nret;\n}}\n")


def test_blanks_in_names():
    """Blanks stand between modifiers, and not within the name of an instruction (ptxas 13.0)."""
    wrong = []
    for line in (Path(__file__).parent / "blank_verdicts.txt").read_text().splitlines():
        instruction, _, refused = line.partition("\t")
        texts = [
            (instruction, False),
            *((t, str(k) in refused.split()) for k, t in enumerate(blanks.with_blanks(instruction), 1)),
        ]
        for text, bad in texts:
            try:
                parse(f"{blanks.HEAD}{text}\nret; }}", is_name=is_name)
                found = ""
            except warpsim.PtxError as problem:
                found = str(problem)
            if ("a blank before" in found) != bad or bool(found) != bad:
                wrong.append((text, found))
    assert wrong == []


@pytest.mark.parametrize(
    ("target", "version", "taken"), [("sm_70", "8.3", True), ("sm_61", "8.3", False), ("sm_70", "8.2", False)]
)
def test_128_bits_at_once(target, version, taken):
    """ld.b128 came with PTX 8.3 for sm_70 (the manual, "ld")."""
    text = module_head(target, version) + ".entry k()\n{ .reg .b128 v; .reg .b64 q;\nld.global.b128 v, [q];\nret; }\n"
    with contextlib.nullcontext() if taken else pytest.raises(warpsim.PtxError):
        warpsim.load(text)


BLACKWELL = """
cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%d0], [%r0], %r1, %h0;
cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes.cta_group::1 [%r0], [%d0, {%r1}], [%r2];
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2 [%r0], [%d0, {%r1, %r2}], [%r3], %h0;
cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%r0], [%d0, {%r1, %r1, %r1, %r1, %r1}], [%r2];
cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%d0, {%r1, %r1, %r1, %r1, %r1}], [%r0];
cp.async.bulk.tensor.3d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes [%r0], [%d0, {%r1, %r1, %r1}], [%r2], {%h0, %h1};
tensormap.replace.tile.swizzle_atomicity.global.b1024.b32 [%d0], 0;
st.bulk.weak.shared::cta [%r0], %d1, 0;
""".strip().split("\n")
"""Instructions that ptxas 13.0 takes for sm_100a."""


@pytest.mark.parametrize("line", BLACKWELL)
def test_what_newer_gpus_have(line):
    """They load for sm_100a, and not for sm_90a."""
    for target, refused in (("sm_100a", False), ("sm_90a", True)):
        head = module_head(target, "8.8")
        text = head + f".entry k() {{ .reg .b32 %r<4>; .reg .b64 %d<2>; .reg .b16 %h<2>;\n{line}\nret; }}\n"
        if not refused:
            warpsim.load(text)
            continue
        with pytest.raises(warpsim.PtxError) as caught:
            warpsim.load(text)
        assert [(f.rule, f.line) for f in caught.value.findings] == [("target", 5)]


def test_what_no_gpu_has():
    """A modifier of another instruction stays a mistake."""
    for line in (
        "st.release.u32 [%d0], %r1;",
        "st.async.weak.global.u32 [%d0], %r1;",
        "cp.async.gather4 [%r0], [%d0], 16;",
    ):
        text = module_head("sm_100a", "8.8") + f".entry k() {{ .reg .b32 %r<4>; .reg .b64 %d<2>;\n{line}\nret; }}\n"
        with pytest.raises(warpsim.PtxError) as caught:
            warpsim.load(text)
        assert caught.value.findings[0].rule == "illegal-form"


@pytest.mark.parametrize(
    "param", [".param .v2 .u32 a", ".param .pred a", ".reg .u32 a[3]", ".attribute(.managed) .reg .u64 a"]
)
def test_parameters_of_external_functions(param):
    """ptxas does not look at them; it does where the function is in this module."""
    text = module_head("sm_90a", "8.7") + f".extern .func f({param});\n.entry k() {{ ret; }}"
    warpsim.load(text)
    with pytest.raises(warpsim.PtxError):
        warpsim.load(text.replace(".extern ", "").replace(");", ") { ret; }"))


def test_a_function_of_the_device_runtime():
    """Of the device runtime, which is machine code, few functions are simulated: the finding says what it is that lacks."""
    name = "__cudaCDP2Memset3DAsync"
    text = module_head("sm_90a", "8.7") + f".extern .func {name}();\n.entry k() {{ call {name}; ret; }}"
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(text)

    (finding,) = caught.value.findings
    assert finding.rule == "linkage"
    assert finding.advice.startswith("it is a function of CUDA's device runtime")


def test_groups_of_a_kernel_and_what_it_calls():
    """Kernels of a module may be for one CTA or for a pair; one kernel and what it calls are all for the same (ptxas 13.0)."""

    def code(name, group, call=""):
        return f"{name}()\n{{\ntcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;\n{call}ret;\n}}\n"

    head = module_head("sm_100a", "8.6")
    warpsim.load(head + code(".entry one", 1) + code(".entry two", 2))
    warpsim.load(head + code(".func f", 1) + code(".entry one", 1, "call f;\n"))
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(head + code(".func f", 2) + code(".entry one", 1, "call f;\n"))

    assert [finding.rule for finding in caught.value.findings] == ["illegal-form"]

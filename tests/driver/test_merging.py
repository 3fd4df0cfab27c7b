"""Linking PTX modules into one text: what they declare of one another, and names that several have."""

import struct

import numpy as np
import pytest

from device_launches import TAIL, launch, source
from ptx_text import module_head
from warpsim import driver
from warpsim.driver.abi.cu_module import set_attribute
from warpsim.driver.merging import ARCHIVE, linked, needed

HEAD = module_head()
USER = (
    HEAD
    + """.file 1 "user.cu"
.extern .global .align 4 .u32 scale;
.extern .func (.param .b32 r) seven(.param .b32 a);
.extern .func (.param .b32 r) nothing(.param .b32 a);
.weak .func (.param .b32 r) twice(.param .b32 a) {
    .reg .b32 %a; ld.param.b32 %a, [a]; add.u32 %a, %a, %a; st.param.b32 [r], %a; ret; }
.weak .func (.param .b32 r) chosen() { .reg .b32 %a; mov.b32 %a, 1; st.param.b32 [r], %a; ret; }
.weak .global .align 4 .u32 kept = 1;
.common .global .align 4 .u32 both;
.global .align 4 .u32 hidden = 1000;
.func (.param .b32 r) own() { .reg .b32 %a; ld.global.u32 %a, [hidden]; st.param.b32 [r], %a; ret; }
.visible .entry k(.param .u64 out) {
    .reg .b64 %d; .reg .b32 %r<9>; .param .b32 p; .param .b32 got;
    .loc 1 7 1
    ld.param.u64 %d, [out]; mov.b32 %r0, 5; st.param.b32 [p], %r0;
    call (got), seven, (p); ld.param.b32 %r1, [got];
    call (got), twice, (p); ld.param.b32 %r2, [got];
    call (got), chosen, (); ld.param.b32 %r3, [got];
    call (got), own, (); ld.param.b32 %r4, [got];
    call (got), nothing, (p);
    ld.global.u32 %r5, [scale]; ld.global.u32 %r6, [kept];
    st.global.v4.b32 [%d], {%r1, %r2, %r3, %r4}; st.global.v2.b32 [%d+16], {%r5, %r6}; ret; }
"""
)
MAKER = (
    HEAD.replace("sm_80", "sm_75")
    + """.file 1 "maker.cu"
.visible .global .align 4 .u32 scale = 3;
.visible .global .align 4 .u32 kept = 2;
.common .global .align 4 .u32 both;
.global .align 4 .u32 hidden = 7;
.weak .func (.param .b32 r) twice(.param .b32 a) {
    .reg .b32 %a; ld.param.b32 %a, [a]; shl.b32 %a, %a, 1; st.param.b32 [r], %a; ret; }
.visible .func (.param .b32 r) chosen() { .reg .b32 %a; mov.b32 %a, 2; st.param.b32 [r], %a; ret; }
.func (.param .b32 r) own(.param .b32 unused) {
    .reg .b32 %a; ld.global.u32 %a, [hidden]; st.param.b32 [r], %a; ret; }
.visible .func (.param .b32 r) seven(.param .b32 a) {
    .reg .b32 %a; .param .b32 p; .param .b32 got;
    .loc 1 9 1
    ld.param.b32 %a, [a]; st.param.b32 [p], %a; call (got), own, (p); ld.param.b32 %a, [got];
    st.param.b32 [r], %a; ret; }
"""
)
NOTHING = HEAD + '.file 1 "user.cu"\n.visible .func nothing(.param .b32 a) { ret; }\n'


@pytest.fixture(scope="module")
def gpu():
    """A simulated H100."""
    return driver.Driver(["sm_90"], quiet=True)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_names_of_modules(gpu, order):
    """In any order: externals find their definitions, strong ones replace weak ones, local names and files stay apart,
    and a function that returns nothing may be called as if it did."""
    text = linked([(USER, MAKER, NOTHING)[i].encode() for i in order])
    out = gpu.memory.allocate(24)

    gpu.launch(gpu.load(text).function("k"), (1, 1, 1), (1, 1, 1), struct.pack("<Q", out))

    words = np.empty(6, np.uint32)
    gpu.copy(words.ctypes.data, out, words.nbytes)
    assert words.tolist() == [7, 10, 2, 1000, 3, 2]
    assert text.count(b".file ") == 2


def test_a_module_is_not_changed_by_itself():
    """A single module stays as it is; what is malformed is left to the loader."""
    assert linked([USER.encode()]) == USER.encode()
    for broken in (
        b"",
        b".file",
        b".version",
        b".visible .func (",
        b".global .u32 =",
        b"}{;",
        b".file 1 user",
        b"\xff(",
    ):
        assert linked([broken, broken])
        assert needed([broken], [broken]) == []


BARRIER = (
    HEAD
    + """.extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 a);
.extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 a, .param .b32 b);
.visible .entry k(.param .u64 count, .param .u64 out) {
    .reg .b64 %d<4>; .reg .b32 %r<8>; .param .b32 p; .param .b64 h; .param .b32 status; .reg .pred %q;
    ld.param.u64 %d0, [count]; ld.param.u64 %d1, [out];
    mov.u32 %r0, 1; st.param.b32 [p], %r0; call (h), cudaCGGetIntrinsicHandle, (p); ld.param.b64 %d2, [h];
    st.param.b64 [h], %d2; mov.u32 %r7, 0;
again:
    red.relaxed.gpu.global.add.u32 [%d0], 1;
    call (status), cudaCGSynchronize, (h, p); ld.param.b32 %r1, [status];
    ld.relaxed.gpu.global.u32 %r2, [%d0];
    call (status), cudaCGSynchronize, (h, p);
    add.u32 %r7, %r7, 1; setp.lt.u32 %q, %r7, 2; @%q bra again;
    mov.u32 %r3, %ctaid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r3, %r3, 40, %r4; mul.wide.u32 %d3, %r3, 8;
    add.u64 %d1, %d1, %d3; st.global.v2.b32 [%d1], {%r1, %r2}; ret; }
"""
)


@pytest.mark.parametrize(("cooperative", "status", "count"), [(True, 0, 240), (False, 999, None)])
def test_the_barrier_of_a_grid(gpu, cooperative, status, count):
    """The device runtime's barrier holds all threads of a cooperative grid, again and again; others are told no."""
    linker, zero, out = driver.Linker(), gpu.memory.allocate(4), gpu.memory.allocate(960)
    gpu.fill(zero, 0, 4, 1)
    linker.add(b"!<arch>\n" + ARCHIVE, 90)
    linker.add(BARRIER.encode(), 90)

    gpu.launch(
        gpu.load(linker.complete()).function("k"),
        (3, 1, 1),
        (40, 1, 1),
        struct.pack("<QQ", zero, out),
        cooperative=cooperative,
    )

    words = np.empty((120, 2), np.uint32)
    gpu.copy(words.ctypes.data, out, words.nbytes)
    assert (words[:, 0] == status).all()
    assert count is None or (words[:, 1] == count).all()


@pytest.mark.parametrize("head", ["child() .maxntid 32, 1, 1", "child .maxntid 32", "child"])
def test_what_declares_a_kernel_of_another_module(gpu, head):
    """Its name, with or without parentheses, and no directives."""
    declared, call = ".extern .entry child;\n", launch("child").replace("st.u64 [%d2], %d0;", "")
    main = source(main=call + "st.global.u32 [%d0], 7;").replace(".visible", declared + ".visible")
    linker, out, word = driver.Linker(), gpu.memory.allocate(4), np.empty(1, np.uint32)
    for text in (main, source() + f".visible .entry {head} {{ ret; }}\n"):
        linker.add(text.encode(), 90)
    gpu.launch(gpu.load(linker.complete()).function("main"), (1, 1, 1), (1, 1, 1), struct.pack("<Q", out))
    gpu.copy(word.ctypes.data, out, 4)

    assert word[0] == 7


@pytest.mark.parametrize("fixed", [0, 20000])
@pytest.mark.parametrize("more", [-48000, 0, 1, 50000])
def test_shared_memory_of_grids_that_kernels_launch(gpu, fixed, more):
    """As usual, up to 48 KiB with what the kernel declares; all of it as soon as the host has allowed one byte more (H200)."""
    usual, everything = 49152 - fixed, 232448 - fixed
    declared = f".shared .align 4 .b8 s[{fixed}]; st.shared.u32 [s], 1;" if fixed else ""
    bodies = [
        launch("child", shared=size) + f"st.global.u32 [%d0+{4 * k}], %r3;"
        for k, size in enumerate((usual, usual + 1, everything, everything + 1))
    ]
    module = gpu.load(source(child=declared, main="".join(bodies)))
    out, words = gpu.memory.allocate(16), np.empty(4, np.uint32)
    set_attribute(module.function("child"), 8, max(usual + more, 0))
    gpu.launch(module.function("main"), (1, 1, 1), (1, 1, 1), struct.pack("<Q", out))
    gpu.copy(words.ctypes.data, out, words.nbytes)

    assert words.tolist() == ([0, 0, 0, 9] if more > 0 else [0, 9, 9, 9])


@pytest.mark.parametrize("turned", [False, True])
def test_a_kernel_of_another_module_is_launched(gpu, turned):
    """What launches it declares it; the host may allow it more shared memory than 48 KiB, and set how many launches wait."""
    declared = ".extern .entry child(.param .u64 out);\n"
    many = (
        "mov.u32 %r5, 0; again:"
        + launch("child", TAIL)
        + "add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 40; @%p2 bra again;"
    )
    body = launch("child", shared=50000) + "st.global.u32 [%d0+4], %r3;" + many + "st.global.u32 [%d0+8], %r3;"
    main = source(main=body).replace(".visible .entry main", declared + ".visible .entry main")
    texts = [main, source(child=(".maxntid 32", "atom.global.add.u32 %r1, [%d0], 1;"))]
    linker, out = driver.Linker(), gpu.memory.allocate(12)
    for text in reversed(texts) if turned else texts:
        linker.add(text.encode(), 90)
    module, words = gpu.load(linker.complete()), np.empty(3, np.uint32)
    for allowed, most, wanted in ((0, 40, (40, 9, 0)), (50000, 39, (40, 0, 69))):
        if allowed:
            set_attribute(module.function("child"), 8, allowed)
        gpu.pending_launches[None] = most
        gpu.fill(out, 0, 4, 3)
        gpu.launch(module.function("main"), (1, 1, 1), (1, 1, 1), struct.pack("<Q", out))
        gpu.copy(words.ctypes.data, out, words.nbytes)
        assert tuple(words.tolist()) == wanted

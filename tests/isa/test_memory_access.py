"""Loads, stores and moves: every type and width, vectors, packing, and copies to shared memory."""

from __future__ import annotations

import numpy as np
import pytest

import warpsim
from ptx_text import module_head

HEAD = module_head("sm_100", "8.8") + ".visible .entry k(.param .u64 p0, .param .u64 p1) {\n"
START = "ld.param.u64 pi, [p0]; ld.param.u64 po, [p1]; mov.u32 t, %tid.x;\n"
REGISTERS = ".reg .b64 pi, po, x, y, w, v; .reg .b32 t, s, r; .reg .pred p; .reg .b16 h; .reg .b128 o, u;\n"


def run(body: str, source: np.ndarray, out: np.ndarray, threads: int = 32) -> np.ndarray:
    """``out`` after ``body``, which finds the arrays at pi and po and the thread's number in t."""
    warpsim.load(HEAD + REGISTERS + START + body + "\nret; }")["k"]((1,), (threads,), (source, out))
    return out


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_asynchronous_stores(bits: int) -> None:
    """What st.async stores to global memory is there at the end."""
    source = np.random.default_rng(bits).integers(0, 256, 4 * bits).astype(np.uint8)
    register = {16: "h", 32: "s", 64: "w"}[bits]
    body = f"""mad.wide.u32 x, t, {bits // 8}, pi; mad.wide.u32 v, t, {bits // 8}, po;
    ld.global.b{bits} {register}, [x]; st.async.release.gpu.global.b{bits} [v], {register};"""

    assert run(body, source, np.zeros_like(source)).tolist() == source.tolist()


@pytest.mark.parametrize("space", ["global", "shared", "local", ""])
@pytest.mark.parametrize("bits", [8, 16, 32, 64, 128])
def test_every_width_in_every_space(bits: int, space: str) -> None:
    """What is stored to a state space is loaded from it again, bit for bit."""
    size = bits // 8
    source = np.random.default_rng(bits).integers(0, 256, 32 * size).astype(np.uint8)
    register = {8: "s", 16: "h", 32: "s", 64: "w", 128: "o"}[bits]
    where = f".{space} .align 16 .b8 room[{512 if space == 'shared' else 16}];" if space in ("shared", "local") else ""
    step = f"mad.wide.u32 y, t, {size}, y;" if space == "shared" else ""
    to = f"mov.u64 y, room; {step}" if where else "mov.u64 y, x;"
    dot = f".{space}" if space else ""
    body = f"""{where} mad.wide.u32 x, t, {size}, pi; {to} mad.wide.u32 v, t, {size}, po;
    ld.global.b{bits} {register}, [x]; st{dot}.b{bits} [y], {register};
    ld{dot}.b{bits} {register}, [y]; st.global.b{bits} [v], {register};"""

    out = run(body, source, np.zeros(32 * size, np.uint8))

    assert source.tolist() == out.tolist()


@pytest.mark.parametrize(
    ("type", "count"),
    [
        ("b8", 2),
        ("b8", 4),
        ("b16", 2),
        ("b16", 4),
        ("b16", 8),
        ("b32", 2),
        ("b32", 4),
        ("b32", 8),
        ("b64", 2),
        ("b64", 4),
    ],
)
def test_vectors(type: str, count: int) -> None:
    """A vector load gives consecutive elements in order, and a vector store writes them so."""
    bits = int(type[1:])
    word = np.dtype(f"u{bits // 8}")
    source = np.random.default_rng(count).integers(0, 1 << min(bits, 63), 32 * count, dtype=np.uint64).astype(word)
    names = [f"e{k}" for k in range(count)]
    size = bits // 8 * count
    body = f""".reg .b{max(bits, 16)} {", ".join(names)};
    mad.wide.u32 x, t, {size}, pi; mad.wide.u32 y, t, {size}, po;
    ld.global.v{count}.{type} {{{", ".join(names)}}}, [x];
    st.global.v{count}.{type} [y], {{{", ".join(reversed(names))}}};"""

    out = run(body, source, np.zeros_like(source))

    assert source.reshape(32, count)[:, ::-1].tolist() == out.reshape(32, count).tolist()


def test_elements_that_are_not_stored() -> None:
    """Where ``_`` stands in a store of 256 bits memory keeps what it holds (PTX ISA, st); its address is a multiple of 32 all the same."""
    body = "mad.wide.u32 y, t, 32, po; st.global.v8.b32 [y], {t,_,t,_,_,7,_,_};"
    out = run(body, np.zeros(1, np.uint32), np.full((32, 8), 9, np.uint32))

    assert [[t, 9, t, 9, 9, 7, 9, 9] for t in range(32)] == out.tolist()
    with pytest.raises(warpsim.ExecutionError, match="misaligned"):
        run("st.global.v8.b32 [po+16], {t,_,t,t,t,t,t,t};", np.zeros(1, np.uint32), out)


def test_special_registers_among_floats() -> None:
    """Their bits count, as ptxas' machine code moves them."""
    body = "mad.wide.u32 y, t, 8, po; .reg .f32 f; mov.f32 f, 0f3f800000; st.global.v2.f32 [y], {f, %laneid};"
    out = run(body, np.zeros(1, np.uint32), np.zeros((32, 2), np.uint32))

    assert [[0x3F800000, t] for t in range(32)] == out.tolist()


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        ("u8", 0xF0),
        ("s8", 0xFFFF_FFFF_FFFF_FFF0),
        ("u16", 0x80F0),
        ("s16", 0xFFFF_FFFF_FFFF_80F0),
        ("s32", 0xFFFF_FFFF_9000_80F0),
    ],
)
def test_narrow_loads_are_extended(type: str, expected: int) -> None:
    """A narrow load into a wider register is extended as its type says."""
    source = np.array([0x9000_80F0], np.uint32)

    out = run(f"ld.global.{type} w, [pi]; st.global.b64 [po], w;", source, np.zeros(1, np.uint64), 1)

    assert expected == out[0]


def test_packing_and_unpacking() -> None:
    """mov puts the first element of a vector into the lowest bits, and takes it from there."""
    source = np.array([0x1122_3344, 0x5566_7788, 0x99AA_BBCC, 0xDDEE_FF00], np.uint32)
    body = """.reg .b32 a, b, c, d; .reg .b16 h0, h1, h2, h3; .reg .b8 b0, b1, b2, b3;
    ld.global.v4.b32 {a, b, c, d}, [pi];
    mov.b64 w, {a, b}; st.global.b64 [po], w;
    mov.b64 {h0, h1, h2, h3}, w; mov.b64 w, {h3, h2, h1, h0}; st.global.b64 [po+8], w;
    mov.b128 o, {a, b, c, d}; mov.b128 {w, v}, o; st.global.v2.b64 [po+16], {v, w};
    mov.b128 u, {v, w}; mov.b128 {a, b, c, d}, u; st.global.v4.b32 [po+32], {a, b, c, d};
    mov.b32 {b0, b1, b2, b3}, a; mov.b32 r, {b3, b2, b1, b0}; st.global.b32 [po+48], r;
    mov.b64 {_, r}, w; st.global.b32 [po+52], r;"""

    out = run(body, source, np.zeros(14, np.uint32), 1)

    a, b, c, d = source.tolist()
    swapped = [h >> 16 | (h & 0xFFFF) << 16 for h in (b, a)]
    expected = [a, b, *swapped, c, d, a, b, c, d, a, b, int.from_bytes(c.to_bytes(4, "little"), "big"), b]
    assert [hex(x) for x in expected] == [hex(x) for x in out.tolist()]


@pytest.mark.parametrize("layout", ["as compilers lay it out", "in one line"])
def test_numbers_of_128_bits(layout: str) -> None:
    """A number has 64 bits, which a register of 128 gets with zeros above them: the assembler's constants."""
    lines = [
        ".visible .entry k(",
        ".param .u64 k_param_0",
        ")",
        "{",
        ".reg .b64 %rd<4>;",
        "ld.param.u64 %rd1, [k_param_0];",
    ]
    lines += ["mov.b128 {%rd2, %rd3}, -2147483649;", "st.global.v2.u64 [%rd1], {%rd2, %rd3};", "ret;", "}"]
    head, out = [".version 8.3", ".target sm_90", ".address_size 64"], np.zeros(2, np.uint64)

    warpsim.load("\n".join([*head, ("\n" if layout.startswith("as") else " ").join(lines)]))["k"]((1,), (1,), (out,))

    assert [hex(x) for x in out] == ["0xffffffff7fffffff", "0x0"]


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("rest", ["", ", s", ", p", ", !p"])
def test_asynchronous_copies(size: int, rest: str) -> None:
    """cp.async copies its bytes; past src-size, and where ignore-src holds, it writes zeros."""
    source = np.random.default_rng(size).integers(1, 256, 32 * size).astype(np.uint8)
    body = f""".shared .align 16 .b8 room[512]; .reg .b32 at;
    mad.wide.u32 x, t, {size}, pi; mov.u32 at, room; mad.lo.u32 at, t, {size}, at; rem.u32 s, t, {size + 1};
    and.b32 r, t, 1; setp.ne.u32 p, r, 0;
    cp.async.ca.shared.global [at], [x], {size}{rest}; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
    mad.wide.u32 y, t, {size}, po;""" + "".join(
        f" ld.shared.b32 r, [at+{k}]; st.global.b32 [y+{k}], r;" for k in range(0, size, 4)
    )

    out = run(body, source, np.full(32 * size, 7, np.uint8)).reshape(32, size)

    for thread, row in enumerate(source.reshape(32, size)):
        kept = {
            "": size,
            ", s": thread % (size + 1),
            ", p": 0 if thread % 2 else size,
            ", !p": size if thread % 2 else 0,
        }[rest]
        assert [*row[:kept].tolist(), *[0] * (size - kept)] == out[thread].tolist()


def test_state_spaces_of_generic_addresses() -> None:
    """isspacep tells which space a generic address of cvta lies in, and cvta.to leads back."""
    body = """.shared .align 4 .b8 room[64]; .local .align 4 .b8 own[16]; .reg .pred g, h1, l;
    mov.u64 x, room; cvta.shared.u64 y, x; cvta.to.shared.u64 w, y; sub.s64 w, w, x; st.global.b64 [po], w;
    isspacep.shared g, y; isspacep.global h1, y; isspacep.local l, y;
    selp.u32 r, 1, 0, g; selp.u32 s, 2, 0, h1; or.b32 r, r, s;
    selp.u32 s, 4, 0, l; or.b32 r, r, s; st.global.b32 [po+8], r;
    mov.u64 x, own; cvta.local.u64 y, x; isspacep.shared g, y; isspacep.global h1, po; isspacep.local l, y;
    selp.u32 r, 1, 0, g; selp.u32 s, 2, 0, h1; or.b32 r, r, s;
    selp.u32 s, 4, 0, l; or.b32 r, r, s; st.global.b32 [po+12], r;"""

    out = run(body, np.zeros(1, np.uint32), np.full(4, 9, np.uint32), 1)

    assert out.tolist() == [0, 0, 1, 6]


PLACES = {
    "po": {"global"},
    "shared room": {"shared", "shared::cluster"},
    "local own": {"local"},
    "const table": {"const"},
    "param p0": {"param", "global"},
}
"""Generic addresses that cvta makes of variables, and where they are."""
ENDS = {f"{space} {at}": 0 <= at < 1 << 32 for space in ("shared", "local") for at in (-1, 0, (1 << 32) - 1, 1 << 32)}
"""Around the windows, which have 32 bits: whether that is inside."""
SPACES = ("global", "shared", "shared::cluster", "local", "const", "param")


def test_windows_of_generic_addresses() -> None:
    """Every address lies in one window, or else in global memory, where parameters are as well."""
    body = ".shared .align 4 .b8 room[64]; .local .align 4 .b8 own[16]; .reg .pred g;\n"
    for place in (*PLACES, *ENDS):
        space, _, name = place.rpartition(" ")
        body += f"mov.b64 y, {name};\n"
        if name.strip("-").isdigit():  # of a window
            body += f"mov.b64 v, 0; cvta.{space}.u64 v, v; add.u64 y, y, v;\n"
        elif space:
            body += f"cvta.{space}.u64 y, y;\n"
        for number, word in enumerate(SPACES):
            body += f"isspacep.{word} g, y; selp.u32 r, 1, 0, g; st.global.b32 [po+{4 * number}], r;\n"
        body += f"add.u64 po, po, {4 * len(SPACES)};\n"
    text = HEAD.replace(".visible", ".const .align 4 .b32 table[4];\n.visible") + REGISTERS + START + body + "ret; }"
    found = np.zeros((len(PLACES) + len(ENDS), len(SPACES)), np.uint32)
    warpsim.load(text)["k"]((1,), (1,), (np.zeros(1, np.uint32), found))
    spaces = [{w for w, inside in zip(SPACES, row, strict=True) if inside} for row in found]

    assert dict(zip(PLACES, spaces, strict=False)) == PLACES
    assert [
        f"{place.split()[0]}{'::cluster' * ('shared' in place)}" in found
        for place, found in zip(ENDS, spaces[len(PLACES) :], strict=True)
    ] == list(ENDS.values())
    assert all(len(found & {"global", "shared::cluster", "local", "const"}) == 1 for found in spaces)


def test_a_base_below_zero():
    """A shared address whose base register wraps below zero is one again with its offset."""
    text = (
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a)\n{\n"
        ".reg .b32 %r<6>; .reg .b64 %rd<4>; .shared .align 16 .b32 s[64];\n"
        "mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, s; add.u32 %r4, %r3, %r2; st.shared.u32 [%r4], %r1;\n"
        "bar.sync 0; neg.s32 %r2, %r2; ld.shared.u32 %r5, [%r2+252]; ld.param.u64 %rd1, [a];\n"
        "mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r5; ret;\n}\n"
    )
    out = np.zeros(64, np.uint32)
    warpsim.load(text)["k"](1, 64, (out,), checks="all")

    assert out.tolist() == list(range(63, -1, -1))


SHORT = """.version 8.7
.target sm_90
.address_size 64
.const .align 4 .b32 table[4] = { 10, 20, 30, 40 };
.visible .entry k(.param .u64 out, .param .align 8 .b8 values[32]) {
.reg .b32 t, r, s; .reg .b64 po, x, y; .reg .pred p;
mov.b32 r, out; ld.param.u64 po, [r]; mov.u32 t, %tid.x; shl.b32 s, t, 2; mul.wide.u32 x, t, 16; add.u64 po, po, x;
mov.b32 r, values; add.s32 r, r, s; ld.param.b32 r, [r+4]; st.global.b32 [po], r;
mov.b32 r, values; cvt.u64.u32 x, r; cvta.param.u64 x, x; cvt.u64.u32 y, s; add.u64 x, x, y; ld.b32 r, [x+4]; st.global.b32 [po+4], r;
mov.b32 r, table; add.s32 r, r, s; ld.const.b32 r, [r]; st.global.b32 [po+8], r;
mov.b32 r, table; cvt.u64.u32 x, r; cvta.const.u64 x, x; cvt.u64.u32 y, s; add.u64 x, x, y; ld.b32 r, [x]; st.global.b32 [po+12], r;
ret; }
"""


def test_short_addresses_of_parameters_and_constants() -> None:
    """Compilers keep addresses in the spaces of parameters and constants in 32 bits."""
    out = np.zeros((4, 4), np.uint32)
    warpsim.load(SHORT)["k"]((1,), (4,), (out, np.arange(8, dtype=np.uint32).tobytes()))

    assert [[1 + t, 1 + t, 10 + 10 * t, 10 + 10 * t] for t in range(4)] == out.tolist()


@pytest.mark.parametrize("version", ["9.0", "9.1"])
def test_volatile_local_memory(version: str) -> None:
    """ptxas 13.4 refuses .volatile with .local below PTX 9.1, and accepts it for every target from then on."""
    text = f""".version {version}
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {{
    .local .align 8 .b64 room; .reg .b64 a, b;
    ld.param.u64 a, [p]; ld.global.b64 b, [a]; st.volatile.local.b64 [room], b; ld.volatile.local.b64 b, [room];
    st.global.b64 [a+8], b; ret;
}}"""
    if version == "9.0":
        with pytest.raises(warpsim.PtxError, match=r"9\.1"):
            warpsim.load(text)
        return
    out = np.array([2**60 + 3, 0], np.uint64)
    warpsim.load(text)["k"]((1,), (1,), (out,))

    assert out[1] == 2**60 + 3

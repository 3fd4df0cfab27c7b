"""Accesses of memory by warps whose lanes lie in rows, in every shape of a block: what each thread finds is what Python's lists hold."""

import numpy as np
import pytest

import warpsim

pytest.importorskip("llvmlite", reason="the extra jit is not installed")

WORDS = 2048
PLACES = {
    "x + w * y": lambda x, y, c, w: x + w * y,
    "x": lambda x, y, c, w: x,
    "y": lambda x, y, c, w: y,
    "7": lambda x, y, c, w: 7,
    "c + 9": lambda x, y, c, w: c + 9,
    "2 * x + 40 * y": lambda x, y, c, w: 2 * x + 40 * y,
    "x + 24 * y": lambda x, y, c, w: x + 24 * y,
    "63 * c + x + w * y": lambda x, y, c, w: 63 * c + x + w * y,
    "8 * x + y": lambda x, y, c, w: 8 * x + y,
    "200 - x": lambda x, y, c, w: 200 - x,
    "x * y": lambda x, y, c, w: x * y,
}
"""Where each thread goes, in elements of its access."""
CODE = {
    "x + w * y": "mad.lo.u32 %i, %y, %w, %x;",
    "x": "mov.u32 %i, %x;",
    "y": "mov.u32 %i, %y;",
    "7": "mov.u32 %i, 7;",
    "c + 9": "add.u32 %i, %c, 9;",
    "2 * x + 40 * y": "mul.lo.u32 %i, %y, 40; mad.lo.u32 %i, %x, 2, %i;",
    "x + 24 * y": "mad.lo.u32 %i, %y, 24, %x;",
    "63 * c + x + w * y": "mad.lo.u32 %i, %y, %w, %x; mad.lo.u32 %i, %c, 63, %i;",
    "8 * x + y": "mad.lo.u32 %i, %x, 8, %y;",
    "200 - x": "sub.u32 %i, 200, %x;",
    "x * y": "mul.lo.u32 %i, %x, %y;",
}
TYPES = {"u32": (4, 1), "u8": (1, 1), "u16": (2, 1), "v2.u32": (4, 2), "v4.u16": (2, 4)}
"""Bytes of an element, and how many an access has."""
GUARDS = {
    "": lambda x, y, lane: True,
    "@%some ": lambda x, y, lane: lane < 5,
    "@!%rows ": lambda x, y, lane: y >= 2,
    "@%none ": lambda x, y, lane: False,
}
HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 o) {{
.reg .b32 %x, %y, %c, %w, %i, %r, %s, %v<4>, %lane, %t, %k; .reg .b16 %h<4>; .reg .b64 %in, %out, %d, %e; .reg .pred %some, %rows, %none, %q;
.shared .align 16 .b8 tile[{size}];
ld.param.u64 %in, [a]; ld.param.u64 %out, [o]; mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; mov.u32 %c, %ctaid.x; mov.u32 %w, %ntid.x;
mov.u32 %lane, %laneid; setp.lt.u32 %some, %lane, 5; setp.lt.u32 %rows, %y, 2; setp.lt.u32 %none, %x, 0; mov.u32 %r, 1;
mad.lo.u32 %t, %y, %w, %x; mul.wide.u32 %d, %t, {each}; add.u64 %out, %out, %d; mov.u32 %i, %nctaid.x; mul.lo.u32 %i, %c, {threads};
mul.wide.u32 %d, %i, {each}; add.u64 %out, %out, %d; mov.u32 %s, tile;
"""
FILL = """mov.u32 %k, %t; F: mul.wide.u32 %d, %k, 4; add.u64 %d, %d, %in; ld.global.u32 %v0, [%d]; shl.b32 %i, %k, 2; add.u32 %i, %i, %s;
st.shared.u32 [%i], %v0; add.u32 %k, %k, {threads}; setp.lt.u32 %q, %k, {words}; @%q bra F; bar.sync 0;
"""


def registers(type):
    """Those of an access, and how it names them."""
    size, count = TYPES[type]
    names = [f"%v{k}" if size == 4 else f"%h{k}" for k in range(count)]
    return names, names[0] if count == 1 else "{" + ", ".join(names) + "}"


def load(space, place, type, guard):
    """Code that loads, and joins what it finds."""
    (size, count), (names, register) = TYPES[type], registers(type)
    zero = "".join(f"mov.b{32 if size == 4 else 16} {n}, 3; " for n in names)
    where = (
        f"mul.wide.u32 %d, %i, {size * count}; add.u64 %d, %d, %in;"
        if space == "global"
        else f"mad.lo.u32 %i, %i, {size * count}, %s;"
    )
    at = "%d" if space == "global" else "%i"
    joined = "".join(
        f"mad.lo.u32 %r, %r, 31, {n}; " if size == 4 else f"cvt.u32.u16 %k, {n}; mad.lo.u32 %r, %r, 31, %k; "
        for n in names
    )
    return f"{CODE[place]} {zero}{where} {guard}ld.{space}.{type} {register}, [{at}]; {joined}"


def accesses(places, every):
    """Every place, as words and as elements of the other types, which have a guard, in turns; or as one of the two."""
    found = []
    for n, place in enumerate(places):
        for m in (0, 1 + n % 4):
            if every or (m > 0) == (n % 3 > 0):
                found.append((place, list(TYPES)[m], list(GUARDS)[0 if m == 0 else (n + m) % 4]))
    return found


def launch(text, block, *arrays):
    """Two CTAs, of which every instruction has machine code."""
    module = warpsim.load(text)
    module["k"]((2,), block, arrays, engine="compiled")
    assert module.image(module.device).plan("k").main.notes["native"].reasons == {}


def blocks(one, *long, sweep):
    """One by default with half of the accesses, all in the long run, of more blocks in the sweep: each is compiled."""
    many = [pytest.param(block, True, marks=pytest.mark.long) for block in (one, *long)]
    many += [pytest.param(block, True, marks=pytest.mark.sweep) for block in sweep]
    return pytest.mark.parametrize(("block", "every"), [(one, False), *many])


@blocks((8, 8), (64, 1), (12, 4), (40, 1), (5, 3), sweep=((16, 4), (4, 16), (32, 2), (2, 32)))
def test_loads(block, every, done):
    """From global memory, and from shared memory that the CTA has filled, two of each access in a loop."""
    (wide, high), cases = block, accesses(PLACES, every)
    threads = wide * high
    rounds = "\n".join(load(space, *case) for case in cases for space in ("global", "shared"))
    text = HEAD.format(size=4 * WORDS, each=4, threads=threads) + FILL.format(threads=threads, words=WORDS)
    text += f"mov.u32 %t, 0; L: {rounds} add.u32 %t, %t, 1; setp.lt.u32 %q, %t, 2; @%q bra L; st.global.u32 [%out], %r; ret; }}"
    given = np.random.default_rng(1).integers(0, 1 << 32, WORDS, dtype=np.uint64).astype(np.uint32)
    out = np.zeros((2, high, wide), np.uint32)
    launch(text, block, given, out)

    views = {size: given.view(f"u{size}").tolist() for size in (1, 2, 4)}
    assert any(code.region.loops for code in done)
    for c, y, x in np.ndindex(out.shape):
        lane, total = (y * wide + x) % 32, 1
        for _ in range(2):
            for place, type, guard in cases:
                size, count = TYPES[type]
                first = PLACES[place](x, y, c, wide) * count
                held = views[size][first : first + count] if GUARDS[guard](x, y, lane) else [3] * count
                for value in held * 2:
                    total = (31 * total + value) & 0xFFFFFFFF
        assert out[c, y, x] == total, (c, y, x)


def numbered(n, type):
    """Code that gives the registers of the n-th store numbers of the thread, and what it stores."""
    names, register = registers(type)
    made = [
        f"mad.lo.u32 %k, %t, 77, {n + 5 * k}; cvt.u{8 * max(TYPES[type][0], 2)}.u32 {name}, %k; "
        for k, name in enumerate(names)
    ]
    return "".join(made), register


def kept(view, n, case, block, c):
    """The n-th store of all threads of a CTA, in their order."""
    place, type, guard = case
    size, count = TYPES[type]
    for t in range(block[0] * block[1]):
        y, x = divmod(t, block[0])
        if GUARDS[guard](x, y, t % 32):
            first = PLACES[place](x, y, c, block[0]) * count
            view[first : first + count] = [(77 * t + n + 5 * k) & ((1 << 8 * size) - 1) for k in range(count)]


STORES = ["x + w * y", "63 * c + x + w * y", "2 * x + 40 * y", "x", "y", "8 * x + y", "x + 24 * y", "7"]


@blocks((8, 8), (64, 1), (12, 4), (40, 1), sweep=((16, 4), (4, 16)))
def test_stores(block, every, done):
    """In the order CTA, warp, lane: of threads that go to one place, the last one's value stays."""
    wide, high = block
    threads = wide * high
    lines, cases = [], accesses(STORES, every)
    for place, type, guard in cases:
        n, (size, count) = STORES.index(place), TYPES[type]
        made, register = numbered(n, type)
        lines.append(
            f"{CODE[place]} {made} mad.lo.u32 %i, %i, {size * count}, %s; {guard}st.shared.{type} [%i], {register}; bar.sync 0;"
            f"ld.shared.u32 %k, [tile+{16 * n}]; mad.lo.u32 %r, %r, 31, %k; bar.sync 0;"
        )
    text = HEAD.format(size=4 * WORDS, each=4, threads=threads) + FILL.format(threads=threads, words=WORDS)
    text += f"{' '.join(lines)} st.global.u32 [%out], %r; ret; }}"
    given = np.arange(WORDS, dtype=np.uint32) * 7919
    out = np.zeros((2, high, wide), np.uint32)
    launch(text, block, given, out)

    assert done
    for c in range(2):
        tile, total = given.copy(), 1
        for place, type, guard in cases:
            n = STORES.index(place)
            size, count = TYPES[type]
            view = tile.view(f"u{size}")
            kept(view, n, (place, type, guard), block, c)
            total = (31 * total + int(tile[4 * n])) & 0xFFFFFFFF
        assert (out[c] == total).all()


@pytest.mark.parametrize(
    "block", [(8, 4), *(pytest.param(b, marks=pytest.mark.long) for b in ((32, 1), (16, 2), (4, 8), (1, 32), (5, 3)))]
)
def test_stores_to_global_memory(block, done):
    """By the one warp of each CTA, one access behind the other; what no thread stores stays, and of threads that go to one place the
    last one's value."""
    wide, high = block
    threads, slots = wide * high, []
    lines, places = [], ["x + w * y", "2 * x + 40 * y", "x + 24 * y", "x", "y", "8 * x + y", "7", "200 - x"]
    for n, place in enumerate(places):
        type = list(TYPES)[n % len(TYPES)]
        guard = list(GUARDS)[n % 3]
        size, count = TYPES[type]
        slots.append((place, type, guard))
        made, register = numbered(n, type)
        lines.append(
            f"{CODE[place]} {made} mul.wide.u32 %d, %i, {size * count}; add.u64 %d, %d, %e; {guard}st.global.{type} [%d+{8192 * n}], {register};"
        )
    text = HEAD.format(size=64, each=4, threads=threads)
    text += "mul.wide.u32 %e, %c, 65536; add.u64 %e, %e, %in; mov.u32 %k, 0;"
    text += f"{' '.join(lines)} st.global.u32 [%out], %t; ret; }}"
    memory = np.full((2, 8, 8192), 0xA5, np.uint8)
    out = np.zeros((2, high, wide), np.uint32)
    launch(text, block, memory, out)

    assert done
    assert out.reshape(2, -1).tolist() == [list(range(threads))] * 2
    expected = np.full((2, 8, 8192), 0xA5, np.uint8)
    for c in range(2):
        for n, (place, type, guard) in enumerate(slots):
            size, count = TYPES[type]
            view = expected[c, n].view(f"u{size}")
            kept(view, n, (place, type, guard), block, c)
    wrong = {(c, slots[n]) for c, n, _ in np.argwhere(memory != expected).tolist()}
    assert wrong == set()

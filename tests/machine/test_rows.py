"""Random integer instructions, in loops whose threads part and meet, give the same registers step by step and by rows."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

import numpy as np
import pytest

import warpsim
from warpsim.machine import plan
from warpsim.machine.binding import rows
from warpsim.numerics.arrays import Array

FORMS = """
add.T D, A, B; sub.T D, A, B; mul.lo.T D, A, B; mul.hi.T D, A, B; mad.lo.T D, A, A, B; div.T D, A, B; rem.T D, A, B; min.T D, A, B
abs.sW D, A; neg.sW D, A; and.bW D, A, B; xor.bW D, A, B; not.bW D, A; shl.bW D, A, N; shr.T D, A, N; mov.bW D, B; selp.bW D, A, B, P
setp.lt.T P, A, B; setp.ge.and.T P, A, B, !P; setp.eq.xor.T P, A, B, P; mov.pred P, P; and.pred P, P, P; not.pred P, P
mul.wide.s32 dR, rR, N; mad.wide.u16 rR, hR, hR, N; popc.b32 rR, N; bfe.s32 rR, N, 5, 9; prmt.b32 rR, N, N, N; shf.l.wrap.b32 rR, N, N, N
cvt.s8.s32 rR, rR; cvt.u16.s8 hR, rR; cvt.s32.s16 rR, hR; cvt.u8.u64 hR, dR; cvt.s64.s8 dR, hR; cvt.sat.u8.s32 dR, rR
add.cc.u32 rR, N, N; addc.u32 rR, N, N; mov.b64 dR, {rR, rR}; mov.b32 f, rR; mov.b32 rR, f; add.u32 rR, i, t; @!P add.T D, A, B
"""
HARD = (0, 1, 2, 7, 31, 32, 33, 64, 127, 128, 255, 1 << 15, 65535, 0x170001, 0x7FFFFFFF, 1 << 31, 0xFFFFFFFF, 1 << 63)
EACH = 4
"""Registers of each kind."""
STORED = {"r": (8, "u32"), "d": (8, "u64"), "h": (8, "u16")}


def instruction(rng: random.Random) -> str:
    """One of the forms: ``T`` is a type of width ``W``, of which ``D`` and ``A`` are registers; ``B`` and ``N`` (of 32 bits) may be
    literals, ``R`` is a number of a register, ``P`` a predicate."""
    width = rng.choice((16, 32, 32, 64))
    name = {16: "hR", 32: "rR", 64: "dR"}[width]

    def drawn(found: re.Match[str]) -> str:
        letter = found[0]
        bits = 32 if letter == "N" else width
        literal = str(rng.choice(HARD) % (1 << bits) - rng.choice((0, 0, 1 << bits - 1)))
        register = {"N": "rR", "P": "pR", "T": f"{rng.choice('us')}{width}", "W": str(width)}.get(letter, name)
        text = literal if letter in "BN" and rng.random() < 0.4 else register
        return text.replace("R", str(rng.randrange(EACH)))

    return (
        re.sub("[TWDABNP]", drawn, rng.choice(re.split("[;\n] *", FORMS.strip()))).replace(
            "R", str(rng.randrange(EACH))
        )
        + ";"
    )


def kernel(rng: random.Random) -> str:
    """Several runs of instructions in a loop, between branches that all threads take or some."""
    lines = [
        f"mov.b{w} {k}{n}, {rng.choice(HARD) % (1 << w)};"
        for k, w in (("r", 32), ("d", 64), ("h", 16))
        for n in range(EACH)
    ]
    lines += [f"setp.eq.u32 p{n}, {rng.choice('rt')}0, 7;".replace("t0", "t") for n in range(EACH)]
    lines += [*rng.choices(["mov.u32 r0, t;", "cvt.u16.u32 h1, t;", "cvt.u64.u32 d2, t;"], k=rng.randrange(3)), "LOOP:"]
    for part in range(rng.randrange(1, 4)):
        lines += [
            f"@{rng.choice(('p1', 'p2', 'last'))} bra NEXT{part};",
            *[instruction(rng) for _ in range(rng.randrange(3, 12))],
        ]
        lines += [f"NEXT{part}:", *[instruction(rng) for _ in range(rng.randrange(3, 12))]]
    lines += ["add.u32 i, i, 1; setp.gt.u32 last, i, 3; setp.lt.u32 go, i, 6; @go bra LOOP;"]
    for place, (kind, n) in enumerate([(kind, n) for kind in STORED for n in range(EACH)]):
        lines.append(f"st.global.{STORED[kind][1]} [a+{8 * place}], {kind}{n};")
    for n in range(EACH):
        lines.append(f"selp.b32 i, 1, 0, p{n}; st.global.u32 [a+{8 * (3 * EACH + n)}], i;")
    return (
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out) {\n"
        f".reg .b32 i, t, r<{EACH}>; .reg .b16 h<{EACH}>; .reg .b64 a, b, d<{EACH}>; .reg .pred p<{EACH}>, go, last; .reg .f32 f;\n"
        "ld.param.u64 a, [out]; mov.u32 t, %tid.x; mov.u32 i, 0; mov.b32 f, 0; setp.lt.u32 last, t, 0;\n"
        f"mul.wide.u32 b, t, {8 * 4 * EACH}; add.s64 a, a, b;\n" + "\n".join(lines) + "\nret; }"
    )


def left(text: str, first: int, monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, int, dict[str, int]]]:
    """What launches leave and count, one in a random order, whose blocks run by rows from a visit on."""
    monkeypatch.setattr(plan, "OFTEN", first)
    launch, found = warpsim.load(text)["k"], []
    for schedule in (None, 1, None):
        out = np.zeros((40, 4 * EACH), np.uint64)
        result = launch((1,), (40,), (out,), engine="interpreter", checks=[], schedule=schedule)
        found.append((out.tobytes(), result.instructions, dict(result.opcodes)))
    return found


def differing(seeds: Iterable[int], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds of kernels that leave something else by rows."""
    texts = {seed: kernel(random.Random(seed)) for seed in seeds}
    return [s for s, text in texts.items() if left(text, 1 + s % 3, monkeypatch) != left(text, 1 << 30, monkeypatch)]


ROWS = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 times) {
.reg .b32 c, i, j, n, t, zero, x, y, z, w, v, u; .reg .b16 h; .reg .b64 a, b; .reg .pred odd, go, p, q;
ld.param.u64 a, [out]; ld.param.u32 n, [times]; mov.u32 t, %tid.x; mul.wide.u32 b, t, 24; add.s64 a, a, b;
mov.u32 i, 0; mov.u32 zero, 0; mov.u32 z, 0; and.b32 x, t, 1; setp.ne.u32 odd, x, 0;
LOOP:
shl.b32 j, i, 7; add.u32 w, j, zero; add.u32 x, j, t; add.u32 y, t, j; add.u32 v, zero, j; cvt.s16.s8 h, j; cvt.s16.s8 u, j;
setp.eq.u32 p|q, j, zero; selp.b32 c, 1, 0, q; add.u32 y, y, c;
@odd add.u32 z, j, zero; add.u32 z, z, 1;
@odd bra NEXT;
add.u32 x, x, 5; add.u32 w, w, v;
NEXT:
add.u32 i, i, 1; setp.lt.u32 go, i, n;
@go bra LOOP;
st.global.u32 [a], w; st.global.u32 [a+4], x; st.global.u32 [a+8], y; st.global.u32 [a+12], z; st.global.u32 [a+16], u;
st.global.u16 [a+20], h;
ret; }
"""


class Written(warpsim.Watcher):
    """Counts the registers that it is told of."""

    def __init__(self) -> None:
        self.count = 0

    def registers_written(self, machine: object, group: object, registers: tuple[int, ...]) -> None:
        """Count."""
        self.count += len(registers)


def launched(times: int, **options: object) -> tuple[Array, int]:
    """What ``times`` iterations leave in 64 threads, and the instructions that they take."""
    out = np.zeros((64, 6), np.uint32)
    result = warpsim.load(ROWS)["k"]((1,), (64,), (out, times), engine="interpreter", **options)  # type: ignore[arg-type]
    return out, result.instructions


@pytest.mark.parametrize(("most", "schedule"), [(100, None), (100, 3), (2, None)])
def test_numbers_that_come_again(most: int, schedule: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What all threads share is looked up; sums with what differs, under guards and in other widths are not taken for it, turns may
    end within a row, and only so many results are kept."""
    monkeypatch.setattr(plan, "OFTEN", 1)
    monkeypatch.setattr(rows, "MOST_KNOWN", most)
    divided, made = rows.Row._divided, list[rows.Part]()

    def noted(row: rows.Row) -> list[rows.Part]:
        parts = divided(row)
        made.extend(parts)
        return parts

    monkeypatch.setattr(rows.Row, "_divided", noted)
    t = np.arange(64, dtype=np.uint32)
    odd = t % 2 == 1
    for times in (1, 2, 4, 7):
        out, _ = launched(times, schedule=schedule)
        j = np.uint32((times - 1) * 128)
        narrow = np.int32(np.uint32(j).astype(np.int8))
        z = np.where(odd, j + 1, times)
        expected = [
            np.where(odd, j, 2 * j),
            j + t + np.where(odd, 0, 5),
            j + t + (j > 0),
            z,
            0 * t + narrow,
            0 * t + (narrow & 0xFFFF),
        ]
        assert np.array_equal(out, np.stack(expected, -1).astype(np.uint32))
    assert (0 if schedule else 2) <= max(len(part.known or ()) for part in made) <= most + 1


def test_watchers_of_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who follows registers is told of those of each instruction of a row."""
    monkeypatch.setattr(plan, "OFTEN", 1)
    counts = []
    for times in (1, 2, 3):
        watcher = Written()
        launched(times, watchers=[watcher])
        counts.append(watcher.count)
    assert counts[2] - counts[1] == counts[1] - counts[0] == 17


SWAPPED = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .b32 i, x, y, q, t, sum; .reg .b64 a; .reg .pred go;
ld.param.u64 a, [out]; mov.u32 i, 0; mov.u32 sum, 0; mov.u32 x, 7; mov.u32 y, 2;
LOOP:
div.u32 q, x, y; mad.lo.u32 sum, sum, 10, q; mov.u32 t, x; mov.u32 x, y; mov.u32 y, t; add.u32 i, i, 1; setp.lt.u32 go, i, 6;
@go bra LOOP;
st.global.u32 [a], sum; ret; }
"""


def test_the_order_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known from steps is known in the same order to rows."""
    monkeypatch.setattr(plan, "OFTEN", 2)
    out = np.zeros(1, np.uint32)
    warpsim.load(SWAPPED)["k"]((1,), (32,), (out,), engine="interpreter", checks=[])
    assert out[0] == 303030


STRIDES = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 stride) {
.reg .b32 i, n, x, y, t; .reg .b64 a, b; .reg .pred go;
ld.param.u64 a, [out]; ld.param.u32 n, [stride]; mov.u32 t, %tid.x; mul.wide.u32 b, t, 4; add.s64 a, a, b; mov.u32 i, 0; mul.lo.u32 x, t, n;
LOOP:
add.u32 y, x, 1; add.u32 i, i, 1; setp.lt.u32 go, i, 4;
@go bra LOOP;
st.global.u32 [a], y; ret; }
"""


def test_what_differs_between_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is not looked up, though the first thread has the same number."""
    monkeypatch.setattr(plan, "OFTEN", 1)
    kernel, t = warpsim.load(STRIDES)["k"], np.arange(32, dtype=np.uint32)
    for stride in (3, 5, 0):
        out = np.zeros(32, np.uint32)
        kernel((1,), (32,), (out, stride), engine="interpreter", checks=[])
        assert np.array_equal(out, stride * t + 1)


OWN = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .b32 i, c; .reg .b64 a, b, s; .reg .pred go, own; .shared .b32 here;
ld.param.u64 a, [out]; mov.u32 c, %ctaid.x; mul.wide.u32 b, c, 4; add.s64 a, a, b; mov.u32 i, 0; cvta.shared.u64 s, here;
LOOP:
add.u64 b, s, 0x2000000; isspacep.shared own, b; add.u32 i, i, 1; setp.lt.u32 go, i, 3;
@go bra LOOP;
selp.b32 i, 1, 0, own; st.global.u32 [a], i; ret; }
"""


def test_what_ctas_answer_for_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is no result of numbers alone: here whether an address of CTA 1 is their own."""
    monkeypatch.setattr(plan, "OFTEN", 1)
    kernel = warpsim.load(OWN)["k"]
    for ctas in (2, 4):
        out = np.zeros(ctas, np.uint32)
        kernel((ctas,), (32,), (out,), cluster=(ctas,), engine="interpreter", checks=[])
        assert out.tolist() == [0, 1, 0, 0][:ctas]


def test_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some rows of both."""
    assert differing([1], monkeypatch) == []


@pytest.mark.long
def test_many_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every form with many registers and literals."""
    assert differing(range(2, 200), monkeypatch) == []

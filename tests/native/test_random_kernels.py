"""Random kernels leave the same bytes, counts and findings in both engines.

Loops, divergence, barriers, shared memory, atomics and predicates in any order; many of the kernels race, and some read
what nobody has written: what they find must not depend on the engine either."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import warpsim

pytest.importorskip("llvmlite", reason="the extra jit is not installed")
BLOCKS = [
    (32, 1),
    (64, 1),
    (16, 16),
    (8, 8),
    (256, 1),
    (21, 1),
    (48, 2),
    (4, 16),
    (32, 4),
    (96, 1),
    (40, 3),
    (1, 64),
    (2, 2),
]
WORDS = 1024
"""Of shared memory, and of each array."""


class Writer:
    """Writes one kernel; registers ``%r0`` to ``%r9`` hold what it computes with."""

    def __init__(self, rng: random.Random, tame: bool) -> None:
        self.rng, self.tame = rng, tame
        self.lines: list[str] = []
        self.labels = 0

    def line(self, text: str) -> None:
        """An instruction."""
        self.lines.append(text)

    def reg(self) -> str:
        """Any register."""
        return f"%r{self.rng.randrange(10)}"

    def source(self) -> str:
        """A register or a small number."""
        return (
            self.reg()
            if self.rng.random() < 0.6
            else str(self.rng.choice([0, 1, 2, 3, 4, 5, 7, 15, 16, 31, 32, 33, 255, 65535]))
        )

    def label(self) -> str:
        """A new one."""
        self.labels += 1
        return f"L{self.labels}"

    def place(self, base: str) -> str:
        """A register that holds the address of a word: of the thread's own, of a neighbour's, or of any."""
        kind = self.rng.randrange(6)
        index = "%i" if kind < 3 else "%t" if kind == 3 else self.reg()
        extra = self.rng.choice([0, 0, 1, 16, 32, 5]) if kind else 0
        self.line(f"add.u32 %a, {index}, {extra}; and.b32 %a, %a, {WORDS - 1};")
        if base == "shared":
            self.line("shl.b32 %a, %a, 2; mov.u32 %b, tile; add.u32 %a, %a, %b;")
            return "%a"
        self.line(f"mul.wide.u32 %d, %a, 4; add.u64 %d, %d, %{base};")
        return "%d"

    def guard(self) -> str:
        """A predicate in front, now and then."""
        if self.rng.random() < 0.8:
            return ""
        self.condition("%q")
        return f"@{self.rng.choice(['', '!'])}%q "

    def condition(self, name: str) -> None:
        """A predicate: of the thread, of the CTA, or of data."""
        kind = self.rng.randrange(4)
        what = ("%t", "%c", "%lane", self.reg())[kind]
        bound = self.rng.choice([0, 1, 2, 7, 16, 31, 32, 40, 64, 1000])
        self.line(
            f"setp.{self.rng.choice(['lt', 'ge', 'eq', 'ne', 'gt'])}.{self.rng.choice('us')}32 {name}, {what}, {bound};"
        )

    def arithmetic(self) -> None:
        """One instruction."""
        rng, d = self.rng, self.reg()
        kind = rng.randrange(9)
        if kind < 4:
            self.line(
                f"{self.guard()}{rng.choice(['add.u32', 'sub.s32', 'mul.lo.u32', 'and.b32', 'or.b32', 'xor.b32', 'min.s32', 'max.u32'])} {d}, {self.reg()}, {self.source()};"
            )
        elif kind == 4:
            self.line(f"{rng.choice(['shl.b32', 'shr.u32', 'shr.s32'])} {d}, {self.reg()}, {rng.randrange(34)};")
        elif kind == 5:
            self.line(f"mad.lo.u32 {d}, {self.reg()}, {self.source()}, {self.reg()};")
        elif kind == 6:
            self.line(f"mul.wide.{rng.choice('us')}32 %e, {self.reg()}, {rng.choice([1, 4, 7])}; cvt.u32.u64 {d}, %e;")
        elif kind == 7:
            self.line(f"mov.u32 {d}, {rng.choice(['%t', '%i', '%c', '%lane', '7'])};")
        else:
            self.condition("%q")
            self.line(f"selp.b32 {d}, {self.reg()}, {self.source()}, %q;")

    def access(self) -> None:
        """A load, a store or an atomic."""
        rng = self.rng
        kind = rng.randrange(8)
        if kind < 2:
            at = self.place("shared")
            self.line(f"{self.guard()}st.shared.u32 [{at}], {self.reg()};")
        elif kind < 4:
            at = self.place("shared")
            self.line(f"{self.guard()}ld.shared.u32 {self.reg()}, [{at}];")
        elif kind == 4:
            at = self.place("in")
            self.line(f"{self.guard()}ld.global.u32 {self.reg()}, [{at}];")
        elif kind == 5:
            at = self.place("work")
            self.line(f"{self.guard()}{rng.choice(['st.global.u32', 'red.global.add.u32'])} [{at}], {self.reg()};")
        elif kind == 6:
            at = self.place("shared")
            self.line(
                f"{self.guard()}atom.shared.{rng.choice(['add', 'min', 'or'])}.{rng.choice(['u32 %e1', 'u32 %r3'] if not self.tame else ['u32 %e1'])}, [{at}], {self.reg()};".replace(
                    "or.u32", "or.b32"
                )
            )
        else:
            at = self.place("work")
            self.line(f"ld.global.u32 {self.reg()}, [{at}];")

    def block(self, depth: int, together: bool) -> None:
        """Some statements; ``together``: all threads of the CTA come here."""
        for _ in range(self.rng.randrange(1, 5)):
            kind = self.rng.randrange(12)
            if kind < 5 or (kind < 9 and depth == 0):
                self.arithmetic()
            elif kind < 7:
                self.access()
            elif kind == 7 and together:
                if self.rng.random() < 0.7:
                    self.line("bar.sync 0;")
                else:
                    self.meet()
            elif kind == 8 and together:
                self.line(
                    f"shfl.sync.{self.rng.choice(['bfly', 'down', 'up'])}.b32 {self.reg()}, {self.reg()}, {self.rng.choice([1, 4, 16])}, {self.rng.choice([31, 0])}, -1;"
                )
            elif kind == 9 and depth:
                self.loop(depth - 1, together)
            elif depth:
                self.branch(depth - 1)
            else:
                self.access()

    def branch(self, depth: int) -> None:
        """If, maybe else."""
        other, end, p = self.label(), self.label(), f"%p{depth}"
        self.condition(p)
        self.line(f"@{p} bra {other};")
        self.block(depth, False)
        if self.rng.random() < 0.5:
            self.line(f"bra {end};")
            self.line(f"{other}:")
            self.block(depth, False)
        else:
            self.line(f"{other}:")
        self.line(f"{end}:")

    def meet(self) -> None:
        """All threads of the CTA wait at one barrier, which stands in two places."""
        other, end = self.label(), self.label()
        self.condition("%q")
        self.line(f"@%q bra {other};")
        for last in (f"bra {end};", ""):
            if self.rng.random() < 0.5:
                self.arithmetic()
            self.line(f"barrier.sync 0; {last}")
            if last:
                self.line(f"{other}:")
        self.line(f"{end}:")

    def loop(self, depth: int, together: bool) -> None:
        """A few times round, for each thread as often or not."""
        begin, count, p = self.label(), f"%n{depth}", f"%p{depth}"
        same = self.rng.random() < 0.6
        if same:
            self.line(f"mov.u32 {count}, {self.rng.randrange(1, 6)};")
        else:
            self.line(f"and.b32 {count}, {self.reg()}, 3; add.u32 {count}, {count}, 1;")
        self.line(f"{begin}:")
        self.block(depth, together and same)
        self.line(f"sub.u32 {count}, {count}, 1; setp.ne.u32 {p}, {count}, 0; @{p} bra {begin};")

    def kernel(self, block: tuple[int, int]) -> str:
        """The whole."""
        if self.tame or self.rng.random() < 0.5:
            self.line("mov.u32 %a, %i; mov.u32 %b, tile;")
            self.line(
                f"F: shl.b32 %e1, %a, 2; add.u32 %e1, %e1, %b; st.shared.u32 [%e1], %a; add.u32 %a, %a, {block[0] * block[1]};"
            )
            self.line(f"setp.lt.u32 %q, %a, {WORDS}; @%q bra F; bar.sync 0;")
        for _ in range(self.rng.randrange(2, 6)):
            self.block(2, True)
        body = "\n".join(self.lines)
        zeros = "\n".join(f"mov.u32 %r{k}, {('%t', '%i', '%c', '%lane', k * 77)[k % 5]};" for k in range(10))
        sums = "\n".join(f"mad.lo.u32 %r0, %r0, 31, %r{k};" for k in range(1, 10))
        return f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 w, .param .u64 o) {{
.reg .b32 %r<10>; .reg .b32 %n<3>; .reg .b32 %t, %i, %c, %lane, %a, %b, %e1, %y, %z; .reg .b64 %in, %work, %out, %d, %e;
.reg .pred %p<3>, %q; .shared .align 16 .b8 tile[{WORDS * 4}];
ld.param.u64 %in, [a]; ld.param.u64 %work, [w]; ld.param.u64 %out, [o];
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %lane, %laneid; mov.u32 %y, %tid.y; mov.u32 %z, %ntid.x;
mad.lo.u32 %i, %y, %z, %t;
{zeros}
{body}
{sums}
mov.u32 %z, {block[0] * block[1]}; mad.lo.u32 %a, %c, %z, %i; mul.wide.u32 %d, %a, 4; add.u64 %d, %d, %out; st.global.u32 [%d], %r0;
ret; }}"""


def outcome(text: str, grid: int, block: tuple[int, int], engine: str) -> tuple[Any, ...]:
    """What a launch leaves, counts and finds."""
    given = np.random.default_rng(1).integers(0, 1 << 32, WORDS, dtype=np.uint64).astype(np.uint32)
    work, out = np.zeros(WORDS, np.uint32), np.zeros(grid * block[0] * block[1], np.uint32)
    result = warpsim.load(text)["k"]((grid,), block, (given, work, out), engine=engine, on_finding="collect")
    found = tuple(str(f) for f in result.findings)
    return (
        out.tobytes(),
        work.tobytes(),
        found,
        result.instructions,
        result.thread_instructions,
        tuple(sorted(result.opcodes.items())),
    )


def differing(seed: int) -> str:
    """What differs between the engines for the kernel of a seed."""
    rng = random.Random(seed)
    block = rng.choice(BLOCKS)
    text = Writer(rng, seed % 3 == 0).kernel(block)
    grid = rng.choice([1, 1, 2, 5])
    a, b = (outcome(text, grid, block, engine) for engine in ("interpreter", "compiled"))
    names = ("out", "work", "findings", "instructions", "thread_instructions", "opcodes")
    wrong = [name for name, x, y in zip(names, a, b, strict=True) if x != y]
    return f"seed {seed}: {wrong}" if wrong else ""


def compared(seeds: Iterable[int], done: list[Any]) -> tuple[list[str], int]:
    """What differs, and in how many kernels machine code took part."""
    bad, compiled = [], 0
    for seed in seeds:
        before = len(done)
        bad.append(differing(seed))
        compiled += len(done) > before
    return [line for line in bad if line], compiled


def test_some_kernels(done: list[Any]) -> None:
    """A few seeds, of kernels that compile within seconds."""
    assert compared((1, 2, 5, 6), done) == ([], 4)


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(8))
def test_many_kernels(part: int, done: list[Any]) -> None:
    """Many seeds; machine code takes part in most of them: the rest race from their first instructions on, or are too short."""
    seeds = range(part, 1300, 8)
    bad, compiled = compared(seeds, done)
    assert bad == []
    assert compiled > 0.7 * len(seeds)

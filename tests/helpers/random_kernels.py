"""Random kernels that hold every kind of step in every place: in loops, in diverged code, in functions, behind barriers.

Many of them race, and some read what nobody has written, wait for threads that have left, or end in a trap: what they leave,
print, count and find must not depend on the engine."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs

import random_branches
import random_kinds
import random_pairs

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
"""Of the CTA's shared memory, and of each array."""
PRINTED = 3
"""Places that print, at most."""


@attrs.frozen
class Kernel:
    """A kernel ``k`` of three arrays, and how to launch it."""

    text: str
    grid: int
    block: tuple[int, int]
    cluster: int
    checks: str
    """Rules that are on: those of asynchronous steps keep machine code away."""
    most: int = 3_000_000
    """Instructions after which a launch that does not end is ended."""
    maps: tuple[tuple[int, int], str] | None = None
    """The box and the swizzle of two maps that it takes: of what it reads and of what it works in."""


class Writer:
    """Writes the statements of one function; registers ``%r0`` to ``%r9`` hold what it computes with."""

    def __init__(
        self,
        rng: random.Random,
        *,
        threads: int,
        tame: bool,
        leaves: bool,
        cluster: int,
        callees: list[str],
        more: bool,
        branches: bool,
        maps: bool = False,
        joint: str = "",
    ) -> None:
        self.rng, self.threads, self.tame, self.leaves, self.cluster = rng, threads, tame, leaves, cluster
        self.callees, self.more, self.branches, self.maps, self.joint = callees, more, branches, maps, joint
        self.lines: list[str] = []
        self.labels = self.printed = 0
        self.loops: list[tuple[str, str]] = []
        """Where ``continue`` and ``break`` lead in the loops around."""

    def line(self, text: str) -> None:
        """Some instructions."""
        self.lines.append(text)

    def label(self) -> str:
        """A new one."""
        self.labels += 1
        return f"L{self.labels}"

    # ---- operands ---------------------------------------------------------------------------------

    def reg(self) -> str:
        """Any register."""
        return f"%r{self.rng.randrange(10)}"

    def source(self) -> str:
        """A register or a number."""
        numbers = [0, 1, 2, 3, 4, 5, 7, 15, 16, 31, 32, 33, 255, 65535]
        return self.reg() if self.rng.random() < 0.6 else str(self.rng.choice(numbers))

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

    def condition(self, name: str) -> None:
        """A predicate: of the thread, of the CTA, of the warp, or of data."""
        what = self.rng.choice(["%t", "%c", "%lane", "%w", self.reg()])
        bound = self.rng.choice([0, 1, 2, 7, 16, 31, 32, 40, 64, 1000])
        order = self.rng.choice(["lt", "ge", "eq", "ne", "gt"])
        if self.rng.random() < 0.4:
            self.line(
                f"and.b32 %x, {what}, {self.rng.choice([1, 3, 5, 12])}; setp.{order}.u32 {name}, %x, {bound % 4};"
            )
        else:
            self.line(f"setp.{order}.{self.rng.choice('us')}32 {name}, {what}, {bound};")

    def guard(self) -> str:
        """A predicate in front, now and then."""
        if self.rng.random() < 0.8:
            return ""
        self.condition("%q")
        return f"@{self.rng.choice(['', '!'])}%q "

    # ---- one thread -------------------------------------------------------------------------------

    def arithmetic(self) -> None:
        """One instruction or two."""
        rng, d = self.rng, self.reg()
        kind = rng.randrange(12)
        if kind < 4:
            op = rng.choice(["add.u32", "sub.s32", "mul.lo.u32", "and.b32", "or.b32", "xor.b32", "min.s32", "max.u32"])
            self.line(f"{self.guard()}{op} {d}, {self.reg()}, {self.source()};")
        elif kind == 4:
            self.line(f"{rng.choice(['shl.b32', 'shr.u32', 'shr.s32'])} {d}, {self.reg()}, {rng.randrange(34)};")
        elif kind == 5:
            self.line(f"mad.lo.u32 {d}, {self.reg()}, {self.source()}, {self.reg()};")
        elif kind == 6:
            self.line(f"mul.wide.{rng.choice('us')}32 %e, {self.reg()}, {rng.choice([1, 4, 7])}; cvt.u32.u64 {d}, %e;")
        elif kind == 7:
            self.line(f"mov.u32 {d}, {rng.choice(['%t', '%i', '%c', '%lane', '%w', '7'])};")
        elif kind == 8:
            self.line(f"fma.rn.f32 {d}, {self.reg()}, {self.reg()}, {self.reg()};")
        elif kind == 9:
            self.line(f"cvt.rn.f32.s32 %x, {self.reg()}; sqrt.rn.f32 %x, %x; cvt.rzi.s32.f32 {d}, %x;")
        elif kind == 10:
            self.line(
                f"and.b32 %x, {self.reg()}, 7; mul.wide.u32 %d, %x, 4; mov.u64 %e, table; add.u64 %d, %d, %e; ld.const.u32 {d}, [%d];"
            )
        else:
            self.condition("%q")
            self.line(f"selp.b32 {d}, {self.reg()}, {self.source()}, %q;")

    def access(self) -> None:
        """A load or a store."""
        rng = self.rng
        kind = rng.randrange(9)
        if kind < 4:
            at = self.place("shared")
            self.line(
                f"{self.guard()}"
                + (f"st.shared.u32 [{at}], {self.reg()};" if kind < 2 else f"ld.shared.u32 {self.reg()}, [{at}];")
            )
        elif kind == 4:
            at = self.place("in")
            self.line(f"{self.guard()}ld.global.u32 {self.reg()}, [{at}];")
        elif kind < 7:
            at = self.place("work")
            self.line(
                f"{self.guard()}"
                + (f"st.global.u32 [{at}], {self.reg()};" if kind == 5 else f"ld.global.u32 {self.reg()}, [{at}];")
            )
        elif kind == 7:
            self.place("shared")
            self.line(
                f"cvt.u64.u32 %d, %a; cvta.shared.u64 %d, %d; {rng.choice([f'st.u32 [%d], {self.reg()};', f'ld.u32 {self.reg()}, [%d];'])}"
            )
        else:
            self.line(f"and.b32 %x, {self.reg()}, 7; shl.b32 %x, %x, 2; mov.u32 %b, mine; add.u32 %x, %x, %b;")
            self.line(f"st.local.u32 [%x], {self.reg()}; ld.local.u32 {self.reg()}, [mine+{4 * rng.randrange(8)}];")

    def atomic(self) -> None:
        """An atomic, whose result is asked for or not."""
        rng, space = self.rng, self.rng.choice(["shared", "global"])
        at = self.place("shared" if space == "shared" else "work")
        op = rng.choice(
            ["add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "inc.u32", "exch.b32", "cas.b32"]
        )
        values = (
            f"{self.reg()}, {self.reg()}"
            if op == "cas.b32"
            else rng.choice([self.reg(), "-1", "0"])
            if op[:3] == "and"
            else self.reg()
        )
        alone = op[:4] not in ("exch", "cas.") and (self.tame or rng.random() < 0.5)
        what = f"red.{space}.{op} [{at}], {values};" if alone else f"atom.{space}.{op} {self.reg()}, [{at}], {values};"
        self.line(f"{self.guard()}{what}")

    def copy(self) -> None:
        """An asynchronous copy of 4, 8 or 16 bytes into the thread's own place, waited for now or later."""
        rng, size = self.rng, self.rng.choice([4, 8, 16])
        self.line(f"and.b32 %a, %i, {WORDS // 4 - 1}; shl.b32 %a, %a, 4; mov.u32 %b, tile; add.u32 %a, %a, %b;")
        self.line(f"and.b32 %x, {self.reg()}, {WORDS // 4 - 1}; mul.wide.u32 %d, %x, 16; add.u64 %d, %d, %in;")
        self.line(f"{self.guard()}cp.async.ca.shared.global [%a], [%d], {size}; cp.async.commit_group;")
        wait = rng.choice(["cp.async.wait_group 0;", "cp.async.wait_group 1;", "cp.async.wait_all;"])
        if self.tame or rng.random() < 0.7:
            self.line(f"{wait} ld.shared.u32 {self.reg()}, [%a];")

    # ---- lanes of a warp --------------------------------------------------------------------------

    def collective(self) -> None:
        """Of the lanes that are here, however many these are."""
        rng, d, s = self.rng, self.reg(), self.reg()
        kind = rng.randrange(8)
        self.line("activemask.b32 %m;")
        if kind < 2:
            self.line(
                f"shfl.sync.{rng.choice(['bfly', 'down', 'up', 'idx'])}.b32 {d}, {s}, {rng.choice([1, 4, 16])}, {rng.choice([31, 0, 7199])}, %m;"
            )
        elif kind == 2:
            self.condition("%q")
            self.line(
                f"vote.sync.{rng.choice(['any', 'all', 'uni'])}.pred %q, %q, %m; vote.sync.ballot.b32 {d}, %q, %m;"
            )
        elif kind == 3:
            self.line(
                f"and.b32 %x, {s}, 3; match.any.sync.b32 {d}, %x, %m; match.all.sync.b32 %x|%q, %c, %m; @%q add.u32 {d}, {d}, %x;"
            )
        elif kind == 4:
            self.line(f"redux.sync.{rng.choice(['add.u32', 'min.s32', 'xor.b32'])} {d}, {s}, %m;")
        elif kind == 5:
            self.line(f"elect.sync %x|%q, %m; @%q add.u32 {d}, {s}, %x;")
        elif kind == 6:
            self.line("bar.warp.sync %m;")
        else:
            self.line(f"mov.b32 {d}, %m;")

    def whole_warp(self) -> None:
        """Of all lanes of the warp."""
        rng, d, s = self.rng, self.reg(), self.reg()
        if self.threads % 32 or rng.random() < 0.7:
            self.line(
                f"shfl.sync.{rng.choice(['bfly', 'down', 'up'])}.b32 {d}, {s}, {rng.choice([1, 4, 16])}, {rng.choice([31, 0])}, -1;"
            )
        else:
            self.line(
                "mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%r6}, {%r0,%r1,%r7,%r8};"
            )

    # ---- threads of a CTA -------------------------------------------------------------------------

    def barrier(self) -> None:
        """All threads of the CTA wait: at one place, at one of two, or for a count of their votes."""
        kind = self.rng.randrange(6)
        if kind < 3:
            self.line("bar.sync 0;")
        elif kind == 3:
            self.condition("%q")
            self.line(f"bar.red.{self.rng.choice([f'popc.u32 {self.reg()}', 'and.pred %q', 'or.pred %q'])}, 0, %q;")
        elif kind == 4:
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
        else:
            self.parts()

    def parts(self) -> None:
        """Warps with even numbers meet at one barrier and the others at another; or the ones only arrive where the others wait."""
        if self.leaves or self.threads % 64:
            return self.line("bar.sync 0;")
        other, end, count = self.label(), self.label(), self.threads // 2
        self.line(f"and.b32 %x, %w, 1; setp.eq.u32 %q, %x, 0; @%q bra {other};")
        self.arithmetic()
        both = self.rng.random() < 0.5
        self.line(f"bar.sync 1, {count if both else 2 * count}; bra {end}; {other}:")
        self.access()
        self.line(f"bar.sync 2, {count};" if both else f"bar.arrive 1, {2 * count};")
        return self.line(f"{end}: bar.sync 0;")

    def bulk(self) -> None:
        """A bulk copy that the first thread starts, and that all wait for."""
        if self.leaves:
            return self.copy()
        size, wait = self.rng.choice([16, 64, 256]), self.label()
        self.line(
            "mov.u32 %b, phases; setp.eq.u32 %v, %i, 0; @%v mbarrier.init.shared.b64 [%b], 1; @%v fence.mbarrier_init.release.cluster;"
        )
        self.line("bar.sync 0; mov.u32 %x, tile;")
        self.line(f"@%v mbarrier.arrive.expect_tx.shared.b64 _, [%b], {size};")
        self.line(f"@%v cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%x], [%in], {size}, [%b];")
        self.line(
            f"{wait}: mbarrier.try_wait.parity.shared.b64 %q, [%b], 0; @!%q bra {wait}; ld.shared.u32 {self.reg()}, [%x+8];"
        )
        return self.line("bar.sync 0; @%v mbarrier.inval.shared.b64 [%b]; bar.sync 0;")

    def arrivals(self) -> None:
        """All threads arrive at an mbarrier, and wait for each other there."""
        if self.leaves:
            return self.line("bar.sync 0;")
        wait = self.label()
        self.line(
            f"mov.u32 %b, phases; setp.eq.u32 %v, %i, 0; @%v mbarrier.init.shared.b64 [%b+8], {self.threads}; bar.sync 0;"
        )
        self.line("mbarrier.arrive.shared.b64 %e, [%b+8];")
        self.arithmetic()
        return self.line(
            f"{wait}: mbarrier.test_wait.shared.b64 %q, [%b+8], %e; @!%q bra {wait}; bar.sync 0; @%v mbarrier.inval.shared.b64 [%b+8]; bar.sync 0;"
        )

    def peer(self) -> None:
        """A look into the other CTA of the cluster."""
        if not self.cluster or self.leaves:
            return self.line("bar.sync 0;")
        meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        self.line(f"bar.sync 0; mov.u32 %b, tile; mad.lo.u32 %a, %i, 4, %b; st.shared.u32 [%a], {self.reg()}; {meet}")
        return self.line(
            f"mov.u32 %x, %cluster_ctarank; xor.b32 %x, %x, 1; mapa.shared::cluster.u32 %b, %a, %x; ld.shared::cluster.u32 {self.reg()}, [%b]; {meet}"
        )

    # ---- waiting ----------------------------------------------------------------------------------

    def lock(self) -> None:
        """Threads of the CTA take turns."""
        wait, d = self.label(), self.reg()
        self.line(f"{wait}: atom.shared.cas.b32 %x, [lock], 0, 1; setp.ne.u32 %q, %x, 0; @%q bra {wait};")
        self.line(
            f"ld.volatile.shared.u32 %x, [lock+4]; mad.lo.u32 %x, %x, 3, {d}; st.volatile.shared.u32 [lock+4], %x; mov.u32 {d}, %x;"
        )
        self.line("atom.shared.exch.b32 %x, [lock], 0;")

    def flag(self) -> None:
        """All wait for what the last thread of the CTA does."""
        if self.leaves:
            return self.lock()
        other, wait, end = self.label(), self.label(), self.label()
        self.line(f"setp.ne.u32 %q, %i, {self.threads - 1}; @%q bra {other};")
        self.arithmetic()
        self.line(f"st.volatile.shared.u32 [lock+{8 + 4 * (self.labels % 6)}], 1; bra {end};")
        self.line(
            f"{other}: {wait}: ld.volatile.shared.u32 %x, [lock+{8 + 4 * (self.labels % 6)}]; setp.eq.u32 %q, %x, 0; @%q bra {wait}; {end}:"
        )
        return None

    # ---- control ----------------------------------------------------------------------------------

    def call(self) -> None:
        """A function, by its name or by its address."""
        if not self.callees:
            return self.arithmetic()
        rng, one = self.rng, self.rng.choice(self.callees)
        given = f"{{ .param .b32 x; .param .b64 y; .param .b64 w; .param .b32 z; st.param.b32 [x], {self.reg()}; st.param.b64 [y], %in; st.param.b64 [w], %work;"
        end = f"ld.param.b32 {self.reg()}, [z]; }}"
        if rng.random() < 0.7:
            return self.line(f"{given} call (z), {one}, (x, y, w); {end}")
        self.condition("%q")
        self.line(f"mov.u64 %e, {one}; mov.u64 %d, {rng.choice(self.callees)}; selp.b64 %e, %e, %d, %q;")
        return self.line(f"{given} call (z), %e, (x, y, w), shape; {end}")

    def switch(self) -> None:
        """One of three ways."""
        ways, end, name = [self.label() for _ in range(3)], self.label(), self.label()
        self.line(f"{name}: .branchtargets {', '.join(ways)};")
        self.line(f"rem.u32 %x, {self.rng.choice(['%lane', '%i', '%c', '%w', self.reg()])}, 3; brx.idx %x, {name};")
        for way in ways:
            self.line(f"{way}:")
            self.rng.choice([self.arithmetic, self.access, self.collective])()
            self.line(f"bra {end};")
        self.line(f"{end}:")

    def print(self) -> None:
        """Two lanes at most of a warp print."""
        if self.printed == PRINTED:
            return self.arithmetic()
        self.printed += 1
        end = self.label()
        self.line(
            f"and.b32 %x, %lane, {self.rng.choice([15, 23])}; setp.ne.u32 %q, %x, {self.rng.randrange(5)}; @%q bra {end};"
        )
        self.line(
            f"st.local.u32 [said], {self.reg()}; st.local.u32 [said+4], %i; mov.u32 %x, said; cvt.u64.u32 %e, %x; cvta.local.u64 %e, %e; mov.u64 %d, format; cvta.global.u64 %d, %d;"
        )
        return self.line(
            f"{{ .param .b64 f; .param .b64 v; .param .b32 z; st.param.b64 [f], %d; st.param.b64 [v], %e; call.uni (z), vprintf, (f, v); }} {end}:"
        )

    def leave(self) -> None:
        """Some threads end."""
        if not self.leaves:
            return self.arithmetic()
        self.condition("%q")
        return self.line(f"@{self.rng.choice(['', '!'])}%q {'exit' if self.rng.random() < 0.9 else 'trap'};")

    def jump(self) -> None:
        """Back to the head of a loop, or out of it."""
        if not self.loops:
            return self.arithmetic()
        self.condition("%q")
        return self.line(f"@%q bra {self.rng.choice(self.rng.choice(self.loops))};")

    def branch(self, depth: int) -> None:
        """If, maybe else."""
        other, end, p = self.label(), self.label(), f"%p{depth}"
        self.condition(p)
        self.line(f"@{self.rng.choice(['', '!'])}{p} bra {other};")
        self.block(depth, together=False)
        if self.rng.random() < 0.5:
            self.line(f"bra {end}; {other}:")
            self.block(depth, together=False)
        else:
            self.line(f"{other}:")
        self.line(f"{end}:")

    def loop(self, depth: int, *, together: bool) -> None:
        """A few times round, for each thread as often or not."""
        begin, end, count, p = self.label(), self.label(), f"%n{depth}", f"%p{depth}"
        same = self.rng.random() < 0.6
        self.line(
            f"mov.u32 {count}, {self.rng.randrange(1, 6)};"
            if same
            else f"and.b32 {count}, {self.reg()}, 3; add.u32 {count}, {count}, 1;"
        )
        self.line(f"{begin}:")
        if self.rng.random() < 0.7:
            self.block(depth, together=together and same)
            self.line(f"sub.u32 {count}, {count}, 1; setp.ne.u32 {p}, {count}, 0; @{p} bra {begin};")
        else:  # looks at its head
            self.line(f"setp.eq.u32 {p}, {count}, 0; @{p} bra {end}; sub.u32 {count}, {count}, 1;")
            self.loops.append((begin, end))
            self.block(depth, together=False)
            self.loops.pop()
            self.line(f"bra {begin}; {end}:")

    def block(self, depth: int, *, together: bool) -> None:
        """Some statements; ``together``: all threads of the CTA come here."""
        of_all: list[Callable[[], object]] = [
            self.barrier,
            self.barrier,
            self.barrier,
            self.whole_warp,
            self.bulk,
            self.arrivals,
            self.peer,
            self.flag,
        ]
        of_any: list[Callable[[], object]] = [
            self.collective,
            self.collective,
            self.copy,
            self.call,
            self.call,
            self.switch,
            self.print,
            self.leave,
            self.jump,
            self.lock,
        ]
        for _ in range(self.rng.randrange(1, 5)):
            kind = self.rng.random()
            if self.branches and self.rng.random() < 0.6:
                some = random_branches.OF_ANY + (random_branches.OF_ALL if together else [])
                self.rng.choice(some)(self)
            elif self.more and self.rng.random() < 0.4:
                if not together or self.rng.random() < 0.5:
                    self.rng.choice(random_kinds.OF_ONE)(self)
                elif (which := self.rng.random()) < 0.3:
                    self.rng.choice(of_all)()
                else:
                    self.rng.choice(random_kinds.OF_ALL if which < 0.6 else random_pairs.BETWEEN)(self)
            elif kind < 0.25:
                self.arithmetic()
            elif kind < 0.35:
                self.access()
            elif kind < 0.4:
                self.atomic()
            elif kind < 0.6:
                self.rng.choice(of_any)()
            elif kind < 0.72 and together:
                self.rng.choice(of_all)()
            elif kind < 0.88 and depth:
                self.loop(depth - 1, together=together)
            elif depth:
                self.branch(depth - 1)
            else:
                self.arithmetic()


REGISTERS = """.reg .b32 %r<10>, %n<4>, %t, %i, %c, %w, %lane, %a, %b, %x, %y, %m; .reg .b16 %h<2>; .reg .b64 %in, %work, %out, %d, %e, %g; .reg .pred %p<4>, %q, %v;
.local .align 8 .b8 mine[32]; .local .align 8 .b8 said[8];"""
SHAPE = "shape: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _, .param .b64 _);"
BEGIN = """mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %lane, %laneid; mov.u32 %a, %tid.y; mov.u32 %b, %ntid.x; mad.lo.u32 %i, %a, %b, %t;
shr.u32 %w, %i, 5;"""


def kernel(seed: int, *, more: bool = False, branches: bool = False) -> Kernel:
    """That of a seed; one of ``more`` kinds of steps is shorter, of the newest target; it may have many short ``branches``."""
    rng = random.Random(seed)
    block = rng.choice(BLOCKS)
    threads, grid = block[0] * block[1], rng.choice([1, 1, 2, 5])
    tame, leaves, cluster = seed % 3 == 0, rng.random() < 0.3, 2 if grid == 2 and rng.random() < 0.5 else 0
    functions: list[str] = []
    registers, shared, begin = (
        (f"{REGISTERS}\n{random_pairs.REGISTERS}", random_pairs.SHARED, BEGIN) if more else (REGISTERS, "", BEGIN)
    )
    if branches:
        registers, shared = f"{registers} {random_branches.REGISTERS}", f"{shared} {random_branches.SHARED}"
        begin = f"{BEGIN} {random_branches.BEGIN}"

    def writer(callees: list[str], **given: Any) -> Writer:
        return Writer(
            rng,
            threads=threads,
            tame=tame,
            leaves=leaves,
            cluster=cluster,
            callees=callees,
            more=more,
            branches=branches,
            **given,
        )

    names = ["f0", "f1"] if rng.random() < 0.6 else []
    joint = ["all"] if more and rng.random() < 0.3 else []
    for number, name in enumerate(names + joint):
        inner = writer(names[:number])
        inner.block(1, together=name in joint)
        body = "\n".join(inner.lines)
        functions.append(f""".func (.param .b32 z) {name} (.param .b32 x, .param .b64 y, .param .b64 v) {{ {registers} {SHAPE if number else ""} {begin}
ld.param.u32 %r0, [x]; ld.param.u64 %in, [y]; ld.param.u64 %work, [v]; {" ".join(f"add.u32 %r{k}, %r0, {k};" for k in range(1, 10))}
{body}
xor.b32 %r0, %r0, %r1; st.param.b32 [z], %r0; ret; }}""")
    main = writer(names, maps=more, joint="".join(joint))
    if branches:
        main.line(
            f"setp.ne.u32 %l, %i, 0; @%l bra I; mbarrier.init.shared.b64 [gate], {rng.choice([1, 3, threads])}; I:"
        )
    if tame or rng.random() < 0.5:
        main.line("mov.u32 %a, %i; mov.u32 %b, tile;")
        main.line(f"F: shl.b32 %x, %a, 2; add.u32 %x, %x, %b; st.shared.u32 [%x], %a; add.u32 %a, %a, {threads};")
        main.line(f"setp.lt.u32 %q, %a, {WORDS}; @%q bra F;")
    main.line(
        "setp.lt.u32 %q, %i, 8; mov.u32 %a, lock; mad.lo.u32 %a, %i, 4, %a; @%q st.shared.u32 [%a], 0; bar.sync 0;"
    )
    for _ in range(rng.choice([1, 1, 1, 1, 2]) if more else rng.randrange(2, 6)):
        main.block(rng.choice([1, 1, 1, 2] if more else [2, 2, 3]), together=True)
        if more and rng.random() < 0.5:
            rng.choice(random_pairs.BETWEEN)(main)
    body = "\n".join(main.lines)
    values = " ".join(f"mov.u32 %r{k}, {('%t', '%i', '%c', '%lane', k * 77)[k % 5]};" for k in range(10))
    sums = " ".join(f"mad.lo.u32 %r0, %r0, 31, %r{k};" for k in range(1, 10))
    maps = "%load" in body or "%store" in body
    taken = ", .param .align 64 .b8 load[128], .param .align 64 .b8 store[128]" if maps else ""
    addresses = (
        "mov.b64 %load, load; cvta.param.u64 %load, %load; mov.b64 %store, store; cvta.param.u64 %store, %store;"
    )
    limit = ".maxnreg 64 " if "setmaxnreg" in body else ""
    text = f""".version 8.6
.target sm_90a
.address_size 64
.extern .func (.param .b32 z) vprintf (.param .b64 f, .param .b64 v);
.const .align 4 .b32 table[8] = {{1, 2, -1, 7, 0, 31, 65536, 9}};
.global .align 1 .b8 format[] = {{37, 117, 32, 37, 117, 10, 0}};
.shared .align 16 .b8 tile[{WORDS * 4}]; .shared .align 8 .b8 phases[16]; .shared .align 4 .b8 lock[32]; {shared}
{chr(10).join(functions)}
.visible .entry k(.param .u64 a, .param .u64 w, .param .u64 o{taken}) {limit}{{ {registers} {SHAPE if names else ""} {begin}
ld.param.u64 %in, [a]; ld.param.u64 %work, [w]; ld.param.u64 %out, [o]; {values} {addresses if maps else ""}
{body}
{sums}
mad.lo.u32 %a, %c, {threads}, %i; mul.wide.u32 %d, %a, 4; add.u64 %d, %d, %out; st.global.u32 [%d], %r0; ret; }}"""
    if branches and rng.random() < 0.5:
        text = random_branches.parted(text)
    silent = seed % 2 == 0 or (seed % 16 and ("cp.async" in text or "mbarrier" in text))
    if more:
        checks, (box, swizzles) = rng.choice(["none"] * 3 + ["default"] * 2 + ["all"]), rng.choice(random_pairs.BOXES)
        swizzle, most = rng.choice(swizzles), rng.choice([200_000] * 3 + [1_000]) if branches else 200_000
        return Kernel(text, grid, block, cluster, checks, most, (box, swizzle) if maps else None)
    return Kernel(text, grid, block, cluster, "none" if silent else "default")

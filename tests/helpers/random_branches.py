"""Kinds of steps for random kernels in which a few threads do a few instructions alone, and integers that all threads share.

Bodies of short branches mostly write what nothing reads afterwards, as those of compilers do: such a branch may run in the turn of all.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random_kernels import Writer

REGISTERS = ".reg .b32 %z<4>, %k<4>; .reg .pred %l, %j;"
SHARED = ".shared .align 8 .b8 gate[8];"
BEGIN = f"{' '.join(f'mov.u32 %z{n}, {n}; mov.u32 %k{n}, {3 * n + 1};' for n in range(4))} mov.u32 %n3, 0; setp.lt.u32 %j, %i, 5;"
INSIDE = """add.u32 {z}, {s}, {r}|mul.lo.u32 {z}, {s}, {r}|clz.b32 {z}, {s}|shl.b32 {z}, {r}, {s}|@%j xor.b32 {z}, {s}, {r}|mov.u32 {z}, %lanemask_lt
ld.shared.u32 {z}, [{shared}]|ld.volatile.shared.u32 {z}, [{shared}]|st.shared.u32 [{shared}], {s}|@!%j st.shared.u32 [{shared}], {r}
ld.global.u32 {z}, [{work}]|ld.global.u32 {z}, [{in}]|st.global.u32 [{work}], {s}|st.relaxed.gpu.global.u32 [{work}], {s}
atom.shared.add.u32 {z}, [{shared}], {s}|red.shared.max.u32 [{shared}], {r}|red.global.add.u32 [{work}], {s}|atom.global.xor.b32 {z}, [{work}], {s}
membar.cta|fence.acq_rel.gpu|fence.proxy.async|mbarrier.arrive.shared.b64 _, [gate]|mbarrier.test_wait.parity.shared.b64 %j, [gate], 0
cp.async.ca.shared.global [{shared}], [%in], 4; cp.async.commit_group|cp.async.wait_all|cp.async.wait_group 1
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile+64], [%in], 16, [gate]
fence.proxy.async; cp.async.bulk.global.shared::cta.bulk_group [%work], [tile], 16; cp.async.bulk.commit_group|cp.async.bulk.wait_group 0"""
MEETING = """activemask.b32 %m; shfl.sync.bfly.b32 {z}, {r}, 1, 31, %m|activemask.b32 %m; vote.sync.ballot.b32 {z}, %j, %m
activemask.b32 %m; redux.sync.add.u32 {z}, {r}, %m|activemask.b32 %m; bar.warp.sync %m"""
INTEGERS = """add.u32 {k}, {k}, {s}|xor.b32 {k}, {k}, {s}|and.b32 {k}, {k}, 3|mul.lo.s32 {k}, {k}, {s}|shl.b32 {k}, {k}, 2|shr.u32 {k}, {k}, 1
min.s32 {k}, {k}, {s}|mov.u32 {k}, %n3|mov.u32 {k}, {n}|mov.u32 {k}, %c|setp.lt.s32 %j, {k}, {s}|selp.b32 {k}, {n}, {k}, %j|not.pred %j, %j
mul.wide.u32 %u, {k}, 16; cvt.u32.u64 {k}, %u|cvt.s32.s8 {k}, {k}|add.cc.u32 {k}, {k}, {s}; addc.u32 {k}, {k}, 0|lop3.b32 {k}, {k}, {s}, {n}, 0x96
and.b32 %x, {k}, 255; mov.u32 %b, tile; mad.lo.u32 %x, %x, 4, %b; ld.shared.u32 {r}, [%x]"""


def written(w: Writer, table: str) -> None:
    """A form of a table, with registers, numbers and addresses."""
    form, rng = w.rng.choice(re.split(r"[|\n]", table)), w.rng
    at = {base: w.place(base) for base in ("shared", "work", "in") if f"{{{base}}}" in form}
    number, shared = str(rng.choice([0, 1, 2, 3, 7, 31, 128])), f"%k{rng.randrange(4)}"
    sources = [shared, number] if table is INTEGERS else [w.reg(), shared, number, "%i", f"%z{rng.randrange(4)}"]
    form = form.format(
        z=f"%z{rng.randrange(4)}", k=f"%k{rng.randrange(4)}", n=number, s=rng.choice(sources), r=w.reg(), **at
    )
    w.line(f"{form};")


def short(w: Writer, *, nested: bool = False) -> None:
    """A branch over a few instructions."""
    end, rng = w.label(), w.rng
    if rng.random() < 0.1:
        w.line("activemask.b32 %m; elect.sync %x|%l, %m; not.pred %l, %l;")
    else:
        w.condition("%l")
    w.line(f"@{rng.choice(['', '!'])}%l bra{'.uni' if rng.random() < 0.03 else ''} {end};")
    for _ in range(rng.randrange(1, 6)):
        if (kind := rng.random()) < 0.8:
            written(w, INSIDE)
        elif kind < 0.85:
            written(w, MEETING)
        elif kind < 0.93:
            rng.choice([w.arithmetic, w.leave])()
        elif not nested:
            short(w, nested=True)
    w.line(f"{end}:")


def integers(w: Writer) -> None:
    """Integers that all threads share, mostly."""
    for _ in range(w.rng.randrange(2, 9)):
        written(w, INTEGERS)


def left_early(w: Writer) -> None:
    """A loop that some threads leave early."""
    begin, end, rng = w.label(), w.label(), w.rng
    looks = "ld.volatile.shared.u32 %y, [lock+4];" if rng.random() < 0.3 else ""
    w.line(f"mov.u32 %n3, {rng.randrange(2, 7)}; {begin}: {looks}")
    for _ in range(rng.randrange(1, 4)):
        rng.choice([short, integers, type(w).access, type(w).collective, type(w).call])(w)
    if rng.random() < 0.7:
        w.condition("%q")
        w.line(f"@%q bra {end};")
    rng.choice([short, integers])(w)
    w.line(f"sub.u32 %n3, %n3, 1; setp.ne.u32 %p3, %n3, 0; @%p3 bra {begin}; {end}:")


def polls(w: Writer) -> None:
    """A warp looks for what another has stored, and either does a little alone meanwhile."""
    if w.leaves or w.threads <= 32:
        return short(w)
    other, end, wait, rng = w.label(), w.label(), w.label(), w.rng
    flag = f"[lock+{8 + 4 * (w.labels % 6)}]"
    w.line(f"setp.ge.u32 %q, %i, 32; @%q bra {other};")
    for _ in range(rng.randrange(3)):
        short(w)
    w.line(f"setp.ne.u32 %l, %i, 0; @%l bra {end}; st.volatile.shared.u32 {flag}, 1; bra {end}; {other}: {wait}:")
    w.line(f"ld.volatile.shared.u32 %y, {flag};")
    for _ in range(rng.randrange(3)):
        short(w)
    return w.line(f"setp.eq.u32 %q, %y, 0; @%q bra {wait}; {end}:")


OF_ANY: list[Callable[[Writer], None]] = [*[short] * 5, *[integers] * 2, *[left_early] * 2]
OF_ALL: list[Callable[[Writer], None]] = [polls, polls]


def parted(text: str) -> str:
    """With branches over instructions that have a guard, where one follows the other."""
    labels = itertools.count()

    def branch(found: re.Match[str]) -> str:
        guard, label = found[1], f"G{next(labels)}"
        over = guard[1:] if guard[0] == "!" else f"!{guard}"
        return f"@{over} bra {label}; {found[0].replace(f'@{guard} ', '')} {label}:"

    return re.sub(r"@(!?%\w+) (?!bra|call)[^;@]+;(?:\s*@\1 (?!bra|call)[^;@]+;)*", branch, text)

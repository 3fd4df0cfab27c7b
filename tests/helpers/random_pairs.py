"""Kinds of steps for random kernels in which warps work for each other: pipelines, barriers of a part of a CTA, clusters, tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random_kernels import Writer

REGISTERS = ".reg .b32 %s<8>, %f<16>; .reg .b64 %load, %store, %u; .reg .b16 %both; .reg .pred %o;"
SHARED = ".shared .align 1024 .b8 stage[4096]; .shared .align 8 .b8 bars[64];"
SIZE = 512
"""Bytes of a stage, of a box of a tensor map, and of a bulk copy."""
BOXES = (((32, 4), ("none", "128B")), ((16, 8), ("none", "64B")), ((8, 16), ("none", "32B")))
"""Words and rows of a box, and how it may be swizzled."""
WAITS = ("try_wait", "try_wait", "test_wait")


def prepare(w: Writer, counts: list[int]) -> None:
    """Mbarriers at ``bars``, for so many arrivals each; ``%s4`` and ``%s5`` are the addresses of these and of the stages."""
    w.line("bar.sync 0; mov.u32 %s4, bars; mov.u32 %s5, stage; setp.eq.u32 %o, %i, 0;")
    for number, count in enumerate(counts):
        w.line(f"@%o mbarrier.init.shared.b64 [%s4+{8 * number}], {count};")
    w.line("@%o fence.mbarrier_init.release.cluster; bar.sync 0;")


def finish(w: Writer, count: int) -> None:
    """The end of these mbarriers."""
    w.line("bar.sync 0; setp.eq.u32 %o, %i, 0;")
    for number in range(count):
        w.line(f"@%o mbarrier.inval.shared.b64 [%s4+{8 * number}];")
    w.line("bar.sync 0;")


def wait(w: Writer, at: str, parity: str) -> None:
    """Wait for a phase, in a loop."""
    label, kind = w.label(), w.rng.choice(WAITS)
    scope, hint = w.rng.choice(["", "", ".acquire.cta"]), ", 100" if kind == "try_wait" and w.rng.random() < 0.2 else ""
    w.line(f"{label}: mbarrier.{kind}.parity{scope}.shared::cta.b64 %o, [{at}], {parity}{hint}; @!%o bra {label};")


def move_on(w: Writer, begin: str, stages: int, rounds: int) -> None:
    """To the next slot ``%s0`` and round ``%s2``; the parity ``%s1`` changes after the last slot."""
    w.line(
        f"add.u32 %s0, %s0, 1; setp.eq.u32 %o, %s0, {stages}; @%o xor.b32 %s1, %s1, 1; @%o mov.u32 %s0, 0; "
        f"add.u32 %s2, %s2, 1; setp.lt.u32 %o, %s2, {rounds}; @%o bra {begin};"
    )


def fill(w: Writer, how: str) -> None:
    """A stage at ``%s6``, whose mbarrier is at ``%s3``, by one warp."""
    if how == "bulk":
        w.line("and.b32 %x, %s2, 7; mul.wide.u32 %u, %x, 512; add.u64 %u, %u, %in; setp.eq.u32 %o, %lane, 0;")
        w.line(f"@%o mbarrier.arrive.expect_tx.shared.b64 _, [%s3], {SIZE};")
        w.line(f"@%o cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s6], [%u], {SIZE}, [%s3];")
    elif how == "tensor":
        w.line(f"elect.sync %x|%o, -1; @%o mbarrier.arrive.expect_tx.shared.b64 _, [%s3], {SIZE};")
        w.line(f"mul.lo.u32 %x, %s2, {w.rng.choice([4, 8, 12])}; sub.u32 %y, %x, {w.rng.choice([0, 0, 3])};")
        w.line(
            "@%o cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%s6], [%load, {%x, %y}], [%s3];"
        )
    elif how == "groups":
        w.line("mad.lo.u32 %x, %lane, 16, %s6; mul.wide.u32 %u, %lane, 16; add.u64 %u, %u, %in;")
        w.line("cp.async.cg.shared.global [%x], [%u], 16; cp.async.mbarrier.arrive.noinc.shared.b64 [%s3];")
    else:
        w.line(f"mad.lo.u32 %x, %lane, 16, %s6; st.shared.v4.b32 [%x], {{%s2, {w.reg()}, {w.reg()}, {w.reg()}}};")
        w.line("" if w.rng.random() < 0.1 else "fence.proxy.async;")
        w.line("mbarrier.arrive.shared.b64 _, [%s3];")


def consume(w: Writer) -> None:
    """What a warp does with the stage at ``%s6``."""
    for _ in range(w.rng.randrange(1, 3)):
        kind = w.rng.randrange(5)
        if kind == 0:
            w.line(f"mad.lo.u32 %x, %lane, 4, %s6; ld.shared.u32 {w.reg()}, [%x+{w.rng.choice([0, 128, 384])}];")
        elif kind == 1:
            four = ", ".join(f"%r{k}" for k in w.rng.sample(range(10), 4))
            w.line(f"mad.lo.u32 %x, %lane, 16, %s6; ld.shared.v4.u32 {{{four}}}, [%x];")
        elif kind == 2:
            w.line(
                "mad.lo.u32 %x, %lane, 16, %s6; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%x];"
            )
            w.line(
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%f0, %f1, %f2, %f3};"
            )
        elif kind == 3:
            w.line(f"ld.shared.u32 %x, [%s6+{4 * w.rng.randrange(128)}]; add.u32 {w.reg()}, {w.reg()}, %x;")
        else:
            w.arithmetic()


def descriptor(w: Writer) -> None:
    """That of a matrix in ``stage``, in ``%u``: of all, or of the warpgroup or the CTA."""
    which = w.rng.choice(["0", "%c", "%w", "%s2"])
    w.line(f"shr.u32 %x, {which}, {2 if which == '%w' else 0}; and.b32 %x, %x, 1;")
    w.line(
        "mov.u32 %y, stage; mad.lo.u32 %x, %x, 1024, %y; shr.u32 %x, %x, 4; or.b32 %x, %x, 0x80000; mov.b64 %u, {%x, 16};"
    )


def multiply(w: Writer) -> None:
    """A warpgroup's products, of which some may be in flight afterwards."""
    descriptor(w)
    w.line("wgmma.fence.sync.aligned;")
    for _ in range(w.rng.randrange(1, 3)):
        n = w.rng.choice([8, 16, 32])
        d, a, end = (
            ", ".join(f"%f{k}" for k in range(n // 2)),
            *w.rng.choice([("%u", ", 0, 0"), ("{%r5, %r6, %r7, %r8}", ", 0")]),
        )
        w.line(f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{d}}}, {a}, %u, 1, 1, 1{end};")
    w.line("wgmma.commit_group.sync.aligned;")


def clear(w: Writer, names: int = 16) -> None:
    """Nothing in the accumulators."""
    w.line(" ".join(f"mov.b32 %f{k}, 0;" for k in range(names)))


def use(w: Writer) -> None:
    """Some accumulators."""
    w.line(" ".join(f"xor.b32 {w.reg()}, {w.reg()}, %f{w.rng.randrange(4)};" for _ in range(3)))


def pipeline(w: Writer) -> None:
    """A warp fills stages that others consume: all other warps, one, or a warpgroup that multiplies."""
    warps = w.threads // 32
    if w.leaves or w.threads % 32 or warps < 2:
        return named(w)
    rng, stages, rounds = w.rng, w.rng.randrange(1, 4), w.rng.randrange(1, 6)
    how = rng.choice(
        ["bulk", "bulk", "tensor", "tensor", "groups", "stores"] if w.maps else ["bulk", "groups", "stores"]
    )
    grouped = warps >= 8 and rng.random() < 0.7
    producer = 0 if grouped else rng.choice([0, warps - 1])
    some = rng.random() < 0.2 and not grouped
    consumers, crowd = 4 if grouped else 1 if some else warps - 1, rng.random() < 0.5
    full, empty = 1 if how in ("bulk", "tensor") else 32, consumers * (32 if crowd else 1)
    prepare(w, [full, empty] * stages)
    counts, produce, begin, end = grouped and rng.random() < 0.5, w.label(), w.label(), w.label()
    w.line(f"mov.u32 %s0, 0; mov.u32 %s1, 0; mov.u32 %s2, 0; setp.eq.u32 %o, %w, {producer};")
    clear(w)
    if grouped:
        inside = w.label()
        w.line(f"setp.ge.u32 %o, %w, 4; @%o bra {inside};{' setmaxnreg.dec.sync.aligned.u32 32;' if counts else ''}")
        w.line(f"setp.eq.u32 %o, %w, 0; @%o bra {produce}; bra {end};")
        w.line(f"{inside}:{' setmaxnreg.inc.sync.aligned.u32 96;' if counts else ''}")
    else:
        w.line(f"@%o bra {produce};")
        if some:
            w.line(f"setp.ne.u32 %o, %w, {rng.choice([n for n in range(warps) if n != producer])}; @%o bra {end};")
    w.line(f"{begin}: mad.lo.u32 %s3, %s0, 16, %s4; mad.lo.u32 %s6, %s0, {SIZE}, %s5;")
    wait(w, "%s3", "%s1")
    if grouped:
        multiply(w)
        w.line(f"wgmma.wait_group.sync.aligned {rng.choice([0, 0, 1])};")
    else:
        consume(w)
    w.line("add.u32 %s7, %s3, 8;")
    if crowd:
        w.line("mbarrier.arrive.shared.b64 _, [%s7];")
    else:
        w.line("bar.warp.sync -1; setp.eq.u32 %o, %lane, 0; @%o mbarrier.arrive.shared.b64 _, [%s7];")
    move_on(w, begin, stages, rounds)
    if grouped:
        w.line("wgmma.wait_group.sync.aligned 0;")
    use(w)
    w.line(f"bra {end}; {produce}: mov.u32 %s1, 1;")
    begin = w.label()
    w.line(f"{begin}: mad.lo.u32 %s3, %s0, 16, %s4; mad.lo.u32 %s6, %s0, {SIZE}, %s5; add.u32 %s7, %s3, 8;")
    if rng.random() < 0.9:
        wait(w, "%s7", "%s1")
    fill(w, how)
    move_on(w, begin, stages, rounds)
    w.line(f"{end}:")
    finish(w, 2 * stages)
    if counts:  # and all are as before
        other = w.label()
        w.line(f"setp.lt.u32 %o, %w, 4; @%o bra {other}; setmaxnreg.dec.sync.aligned.u32 64; bra {end}E;")
        w.line(f"{other}: setmaxnreg.inc.sync.aligned.u32 64; {end}E: bar.sync 0;")
    return None


def named(w: Writer) -> None:
    """Two halves of the warps take turns by two barriers, some rounds."""
    if w.leaves or w.threads % 64:
        return w.line("bar.sync 0;")
    rng, other, end, count = w.rng, w.label(), w.label(), w.threads
    rounds, loops = rng.randrange(1, 5), [w.label(), w.label()]
    first = rng.choice([1, 3, 8])
    one, two = (str(first), str(first + 1)) if rng.random() < 0.6 else ("%s6", "%s7")
    w.line(f"mov.u32 %s2, {rounds}; mov.u32 %s6, {first}; add.u32 %s7, %s6, 1;")
    half = rng.choice(["and.b32 %x, %w, 1; setp.ne.u32 %o, %x, 0;", f"setp.ge.u32 %o, %w, {w.threads // 64};"])
    w.line(f"{half} @%o bra {other};")
    kind = rng.choice(["barrier", "bar"])
    for number, (label, mine, theirs) in enumerate(((loops[0], one, two), (loops[1], two, one))):
        w.line(f"{label}:")
        steps = [f"{kind}.sync {mine}, {count};", None, f"{kind}.arrive {theirs}, {count};"]
        for step in steps[::-1] if number else steps:
            if step is None:
                rng.choice([w.access, w.access, w.arithmetic, w.collective])()
            else:
                w.line(step)
        w.line(f"sub.u32 %s2, %s2, 1; setp.ne.u32 %o, %s2, 0; @%o bra {label};")
        w.line(f"bra {end}; {other}:" if not number else f"{end}: bar.sync 0;")
    return None


def phases(w: Writer) -> None:
    """All threads arrive at one mbarrier and wait, phase after phase; some may arrive more than once, or stop to count."""
    if w.leaves:
        return w.line("bar.sync 0;")
    rng, rounds, begin, end, kind = w.rng, w.rng.randrange(1, 6), w.label(), w.label(), w.rng.choice(WAITS)
    twice, drop = rng.random() < 0.3, rng.random() < 0.2
    prepare(w, [w.threads * (1 + twice)])
    w.line(f"mov.u32 %s2, 0; mov.u32 %s1, 0; {begin}:")
    rng.choice([w.access, w.arithmetic, w.collective])()
    if drop:  # the last thread is not waited for any more
        w.line(
            f"setp.eq.u32 %o, %i, {w.threads - 1}; @%o mbarrier.arrive_drop.shared.b64 %u, [%s4]{', 2' if twice else ''}; @%o bra {end};"
        )
    w.line(f"mbarrier.arrive.shared.b64 %u, [%s4]{', 2' if twice else ''};")
    if rng.random() < 0.3:
        w.line("mbarrier.pending_count.b64 %x, %u;")
    if rng.random() < 0.5:
        wait(w, "%s4", "%s1")
    else:
        spin = w.label()
        w.line(f"{spin}: mbarrier.{kind}.shared.b64 %o, [%s4], %u; @!%o bra {spin};")
    w.line("xor.b32 %s1, %s1, 1;")
    w.access()
    w.line(f"add.u32 %s2, %s2, 1; setp.lt.u32 %o, %s2, {rounds}; @%o bra {begin}; {end}:")
    return finish(w, 1)


def groups(w: Writer) -> None:
    """Each thread copies ahead into two slots of its own, and reads what is there by then."""
    rng, rounds, begin = w.rng, w.rng.randrange(1, 6), w.label()
    ahead, together, size = rng.randrange(3), not w.leaves and rng.random() < 0.6, rng.choice([4, 8, 16])
    w.line(
        "and.b32 %s0, %i, 127; mov.u32 %s5, stage; mad.lo.u32 %s5, %s0, 16, %s5; mul.wide.u32 %u, %s0, 16; add.u64 %u, %u, %in;"
    )
    w.line(f"mov.u32 %s2, 0; {begin}: and.b32 %x, %s2, 1; mad.lo.u32 %s6, %x, 2048, %s5;")
    cache = "cg" if size == 16 else "ca"
    w.line(f"{w.guard()}cp.async.{cache}.shared.global [%s6], [%u], {size}; cp.async.commit_group; add.u64 %u, %u, 16;")
    w.line(f"cp.async.wait_group {ahead};{' bar.sync 0;' if together else ''}")
    w.line(
        f"xor.b32 %x, %s6, {rng.choice([0, 2048])}; ld.shared.u32 {w.reg()}, [%x];{' bar.sync 0;' if together else ''}"
    )
    w.line(f"add.u32 %s2, %s2, 1; setp.lt.u32 %o, %s2, {rounds}; @%o bra {begin}; cp.async.wait_all;")


def tensor(w: Writer) -> None:
    """A box of a tensor, which one thread has copied, and which all read."""
    if w.leaves or not w.maps:
        return groups(w)
    prepare(w, [1])
    how = w.rng.choice(["", "", "prefetch"])
    x, y = w.rng.choice(["%c", "0", "%r5", "1"]), w.rng.choice(["%c", "0", "-2", "60", "%r3"])
    w.line(f"mov.u32 %s0, {x}; shl.b32 %s0, %s0, 2; mov.u32 %s1, {y};")
    if how:
        w.line("@%o cp.async.bulk.prefetch.tensor.2d.L2.global [%load, {%s0, %s1}];")
    w.line(f"@%o mbarrier.arrive.expect_tx.shared.b64 _, [%s4], {SIZE};")
    w.line(
        "@%o cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%s5], [%load, {%s0, %s1}], [%s4];"
    )
    wait(w, "%s4", "0")
    w.line(f"and.b32 %x, %i, 127; mad.lo.u32 %x, %x, 4, %s5; ld.shared.u32 {w.reg()}, [%x];")
    return finish(w, 1)


def tensor_store(w: Writer) -> None:
    """What all threads have stored, which one copies or adds to a tensor, round after round."""
    if w.leaves or not w.maps:
        return named(w)
    rng, begin = w.rng, w.label()
    what = rng.choice(
        [
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group",
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group",
        ]
    )
    read = rng.choice(["", ".read"])
    fence = rng.choice(["fence.proxy.async;", "fence.proxy.async.shared::cta;", "fence.proxy.async.shared::cta;", ""])
    w.line(f"mov.u32 %s5, stage; mov.u32 %s2, 0; and.b32 %s0, %i, 127; {begin}: mad.lo.u32 %s6, %s0, 4, %s5;")
    w.line(f"st.shared.b32 [%s6], {w.reg()}; {fence} bar.sync 0; setp.eq.u32 %o, %i, 0; shl.b32 %s1, %s2, 2;")
    w.line(f"@%o {what} [%store, {{%s1, {rng.choice(['%c', '0', '%s1'])}}}], [%s5];")
    w.line(f"@%o cp.async.bulk.commit_group; @%o cp.async.bulk.wait_group{read} 0; bar.sync 0;")
    w.line(f"add.u32 %s2, %s2, 1; setp.lt.u32 %o, %s2, {rng.randrange(1, 4)}; @%o bra {begin};")
    if read:
        w.line("@%o cp.async.bulk.wait_group 0; bar.sync 0;")
    return None


def remote(w: Writer) -> None:
    """Stores, arrivals, atomics and copies in the other CTA of a cluster."""
    if not w.cluster or w.leaves:
        return phases(w)
    rng, meet = w.rng, "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    kind = rng.randrange(4)
    counts = {0: 1, 1: 2 * w.threads, 2: 1, 3: w.threads}[kind]
    prepare(w, [counts])
    w.line(
        f"{meet} mov.u32 %x, %cluster_ctarank; xor.b32 %x, %x, 1; and.b32 %s0, %i, 127; mad.lo.u32 %s6, %s0, 4, %s5;"
    )
    w.line("mapa.shared::cluster.u32 %s3, %s4, %x; mapa.shared::cluster.u32 %s7, %s6, %x; mov.b16 %both, 3;")
    if kind == 0:  # stores that count bytes
        w.line(f"@%o mbarrier.arrive.expect_tx.shared.b64 _, [%s4], {4 * w.threads};")
        w.line(f"st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%s7], {w.reg()}, [%s3];")
    elif kind == 1:  # all arrive at both
        w.line(
            f"st.shared::cluster.u32 [%s7], {w.reg()}; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%s3];"
        )
        w.line("mbarrier.arrive.release.cluster.shared::cta.b64 _, [%s4];")
    elif kind == 2:  # a copy to both
        w.line(f"@%o mbarrier.arrive.expect_tx.shared.b64 _, [%s4], {SIZE}; setp.ne.and.u32 %o, %x, 0, %o;")
        w.line(
            "@%o cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
            f"[%s5], [%in], {SIZE}, [%s4], %both;"
        )
    else:
        w.line(
            f"atom.shared::cluster.add.u32 {w.reg()}, [%s7], {w.reg()}; red.shared::cluster.max.u32 [%s7], {w.reg()};"
        )
        w.line("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%s3];")
    label = w.label()
    acquire = rng.choice([".acquire.cluster", ".acquire.cluster", ""])
    w.line(f"{label}: mbarrier.try_wait.parity{acquire}.shared::cta.b64 %o, [%s4], 0; @!%o bra {label};")
    w.line(f"ld.shared.u32 {w.reg()}, [%s6]; {meet}")
    return finish(w, 1)


def chain(w: Writer) -> None:
    """A loop over products, of which one group may be in flight, and stores to what they read in between."""
    if w.leaves or w.threads % 128:
        return pipeline(w)
    rng, begin, end = w.rng, w.label(), w.label()
    stores, flight, alone = rng.random() < 0.5, rng.choice([0, 0, 1]), w.threads == 256 and rng.random() < 0.4
    stores &= not alone
    w.line("mov.u32 %s5, stage; mad.lo.u32 %s6, %i, 16, %s5; st.shared.v4.b32 [%s6], {%r1, %r2, %r3, %r4};")
    w.line("fence.proxy.async; bar.sync 0; mov.u32 %s2, 0;")
    clear(w)
    if alone:
        w.line(f"setp.{rng.choice(['lt', 'ge'])}.u32 %o, %w, 4; @%o bra {end};")
    w.line(f"{begin}:")
    multiply(w)
    w.line(f"wgmma.wait_group.sync.aligned {0 if stores and rng.random() < 0.9 else flight};")
    if stores:
        w.line(f"bar.sync 0; st.shared.b32 [%s6], {w.reg()}; fence.proxy.async; bar.sync 0;")
    w.line(f"add.u32 %s2, %s2, 1; setp.lt.u32 %o, %s2, {rng.randrange(1, 5)}; @%o bra {begin};")
    w.line("wgmma.wait_group.sync.aligned 0;")
    use(w)
    return w.line(f"{end}: bar.sync 0;")


def together(w: Writer) -> None:
    """A function that all threads call, in which they wait for each other."""
    if not w.joint:
        return chain(w)
    return w.line(
        f"{{ .param .b32 x; .param .b64 y; .param .b64 w; .param .b32 z; st.param.b32 [x], {w.reg()}; st.param.b64 [y], %in; "
        f"st.param.b64 [w], %work; call.uni (z), {w.joint}, (x, y, w); ld.param.b32 {w.reg()}, [z]; }}"
    )


BETWEEN: list[Callable[[Writer], None]] = [
    *[pipeline] * 4, *[chain] * 2, *[remote] * 2, named, phases, groups, tensor, tensor_store, together,
]  # fmt: skip

"""More kinds of steps for random kernels: every width and type of arithmetic, of memory and of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random_kernels import Writer

INTEGERS = """mul.hi.s32 {d}, {a}, {b}|mul.hi.u32 {d}, {a}, {b}|div.s32 {d}, {a}, {b}|rem.u32 {d}, {a}, {b}|div.u32 {d}, {a}, 7
popc.b32 {d}, {a}|clz.b32 {d}, {a}|brev.b32 {d}, {a}|bfind.s32 {d}, {a}|bfe.s32 {d}, {a}, {b}, 5|bfe.u32 {d}, {a}, 3, {b}
bfi.b32 {d}, {a}, {b}, 4, 9|prmt.b32 {d}, {a}, {b}, {c}|lop3.b32 {d}, {a}, {b}, {c}, 0x96|lop3.b32 {d}, {a}, {b}, {c}, 0xe8
sad.s32 {d}, {a}, {b}, {c}|shf.l.wrap.b32 {d}, {a}, {b}, {c}|shf.r.clamp.b32 {d}, {a}, {b}, {c}|dp4a.s32.u32 {d}, {a}, {b}, {c}
dp2a.lo.u32.s32 {d}, {a}, {b}, {c}|mad.hi.s32 {d}, {a}, {b}, {c}|mul24.lo.s32 {d}, {a}, {b}|abs.s32 {d}, {a}|neg.s32 {d}, {a}
not.b32 {d}, {a}|cnot.b32 {d}, {a}|slct.u32.s32 {d}, {a}, {b}, {c}|add.cc.u32 {d}, {a}, {b}; addc.u32 {b}, {c}, 0
sub.cc.u32 {d}, {a}, {b}; subc.u32 {c}, {c}, {b}|set.lt.u32.s32 {d}, {a}, {b}|set.ge.u32.f32 {d}, {a}, {b}|szext.wrap.s32 {d}, {a}, {b}
bmsk.clamp.b32 {d}, {a}, {b}|fns.b32 {d}, {a}, 3, 2|add.sat.s32 {d}, {a}, {b}|min.s16x2 {d}, {a}, {b}|max.u16x2 {d}, {a}, {b}"""
FLOATS = """add.rn.f32 {d}, {a}, {b}|add.rz.f32 {d}, {a}, {b}|sub.rm.ftz.f32 {d}, {a}, {b}|mul.rn.ftz.f32 {d}, {a}, {b}|mul.sat.f32 {d}, {a}, {b}
fma.rn.ftz.f32 {d}, {a}, {b}, {c}|fma.rp.f32 {d}, {a}, {b}, {c}|div.rn.f32 {d}, {a}, {b}|rcp.rn.f32 {d}, {a}|sqrt.rn.ftz.f32 {d}, {a}
min.f32 {d}, {a}, {b}|max.NaN.f32 {d}, {a}, {b}|abs.f32 {d}, {a}|neg.ftz.f32 {d}, {a}|copysign.f32 {d}, {a}, {b}
cvt.rn.f32.u32 {d}, {a}; ex2.approx.f32 {d}, {d}|lg2.approx.f32 {d}, {a}|sin.approx.f32 {d}, {a}|rsqrt.approx.ftz.f32 {d}, {a}
rcp.approx.f32 {d}, {a}|div.approx.f32 {d}, {a}, {b}|tanh.approx.f32 {d}, {a}|cvt.rni.f32.f32 {d}, {a}|cvt.rzi.u32.f32 {d}, {a}
cvt.rni.sat.s32.f32 {d}, {a}|cvt.rn.f32.u32 {d}, {a}|cvt.sat.f32.f32 {d}, {a}|setp.ltu.f32 %q, {a}, {b}; selp.b32 {d}, {a}, {c}, %q
testp.finite.f32 %q, {a}; selp.b32 {d}, {a}, {c}, %q"""
PACKED = """add.rn.f16x2 {d}, {a}, {b}|mul.f16x2 {d}, {a}, {b}|fma.rn.f16x2 {d}, {a}, {b}, {c}|fma.rn.relu.f16x2 {d}, {a}, {b}, {c}
min.f16x2 {d}, {a}, {b}|max.NaN.f16x2 {d}, {a}, {b}|neg.f16x2 {d}, {a}|abs.f16x2 {d}, {a}|sub.ftz.f16x2 {d}, {a}, {b}
add.rn.bf16x2 {d}, {a}, {b}|mul.rn.bf16x2 {d}, {a}, {b}|fma.rn.bf16x2 {d}, {a}, {b}, {c}|max.bf16x2 {d}, {a}, {b}|ex2.approx.f16x2 {d}, {a}
tanh.approx.bf16x2 {d}, {a}|cvt.rn.f16x2.f32 {d}, {a}, {b}|cvt.rn.bf16x2.f32 {d}, {a}, {b}|cvt.rz.relu.bf16x2.f32 {d}, {a}, {b}
set.gt.u32.f16 {d}, %h0, %h1"""
HALVES = """add.u16 %h0, %h0, %h1|mul.lo.s16 %h0, %h0, %h1|mad.lo.u16 %h0, %h0, %h1, %h0|min.s16 %h0, %h0, %h1|shr.s16 %h0, %h0, 3
shl.b16 %h0, %h0, 5|not.b16 %h0, %h1|mul.wide.s16 {d}, %h0, %h1|div.s16 %h0, %h0, %h1|cvt.s32.s8 {d}, {a}|cvt.u32.u8 {d}, {a}
cvt.sat.u8.s32 {d}, {a}|cvt.sat.s16.s32 %h0, {a}|add.f16 %h0, %h0, %h1|fma.rn.f16 %h0, %h0, %h1, %h0|fma.rn.bf16 %h0, %h0, %h1, %h0
cvt.f32.f16 {d}, %h0|cvt.f32.bf16 {d}, %h1|cvt.rn.f16.f32 %h0, {a}|cvt.rn.bf16.f32 %h1, {a}|cvt.rzi.s16.f16 %h1, %h0
setp.lt.s16 %q, %h0, %h1; selp.b16 %h0, %h0, 7, %q|setp.gt.f16 %q, %h0, %h1; selp.b32 {d}, {a}, {b}, %q|max.f16 %h0, %h0, %h1"""
LONG = """add.s64 %e, %e, %g|sub.u64 %e, %e, %g|mul.lo.s64 %e, %e, %g|mul.hi.u64 %e, %e, %g|mad.lo.s64 %e, %e, %g, %e|min.s64 %e, %e, %g
max.u64 %e, %e, %g|xor.b64 %e, %e, %g|not.b64 %e, %e|shl.b64 %e, %e, {a}|shr.s64 %e, %e, 7|shr.u64 %e, %e, {b}|div.s64 %e, %e, %g
rem.u64 %e, %e, %g|popc.b64 {d}, %e|clz.b64 {d}, %e|brev.b64 %e, %e|bfe.s64 %e, %e, 9, 20|bfi.b64 %e, %e, %g, 8, 30
setp.lt.s64 %q, %e, %g; selp.b64 %e, %e, %g, %q|mul.wide.s32 %e, {a}, {b}|mad.wide.u32 %e, {a}, {b}, %e|cvt.s64.s32 %e, {a}
add.rn.f64 %e, %e, %g|mul.rn.f64 %e, %e, %g|fma.rn.f64 %e, %e, %g, %e|div.rn.f64 %e, %e, %g|sqrt.rn.f64 %e, %e|min.f64 %e, %e, %g
neg.f64 %e, %e|abs.f64 %e, %e|cvt.f64.f32 %e, {a}|cvt.rn.f32.f64 {d}, %e|cvt.rzi.s32.f64 {d}, %e|cvt.rn.f64.s64 %e, %e
cvt.rzi.u64.f64 %e, %e|setp.geu.f64 %q, %e, %g; selp.b64 %e, %e, %g, %q|cvt.rn.f64.u32 %e, {a}; mul.rn.f64 %e, %e, %g|cvt.rpi.f64.f64 %e, %e"""


def forms(text: str) -> list[str]:
    """The forms of a table."""
    return [form for line in text.splitlines() for form in line.split("|")]


def written(w: Writer, table: list[str]) -> str:
    """A form with registers, guarded now and then if it is one instruction."""
    form = w.rng.choice(table).format(d=w.reg(), a=w.reg(), b=w.reg(), c=w.reg())
    return f"{form};" if ";" in form else f"{w.guard()}{form};"


TABLES = {name: forms(text) for name, text in (("plain", f"{INTEGERS}\n{FLOATS}"), ("halves", HALVES), ("long", LONG))}


def calculation(w: Writer) -> None:
    """Arithmetic of 32 bits, or of two halves."""
    if w.rng.random() < 0.3:
        w.line(f"mov.b32 {{%h0, %h1}}, {w.reg()}; {written(w, forms(PACKED))}")
    else:
        w.line(written(w, TABLES["plain"]))


def halves(w: Writer) -> None:
    """Arithmetic of 16 bits, a step or a few."""
    w.line(f"mov.b32 {{%h0, %h1}}, {w.reg()};")
    for _ in range(w.rng.randrange(1, 4)):
        w.line(written(w, TABLES["halves"]))
    w.line(f"mov.b32 {w.reg()}, {{%h1, %h0}};")


def long(w: Writer) -> None:
    """Arithmetic of 64 bits, a step or a few."""
    w.line(f"mov.b64 %e, {{{w.reg()}, {w.reg()}}}; mov.b64 %g, {{{w.reg()}, {w.reg()}}};")
    for _ in range(w.rng.randrange(1, 4)):
        w.line(written(w, TABLES["long"]))
    w.line(f"mov.b64 {{{w.reg()}, {w.reg()}}}, %e;")


def memory(w: Writer) -> tuple[str, str]:
    """A space, and a register with an address there that 16 bytes are aligned at."""
    base = w.rng.choice(["shared", "shared", "work", "in", "generic"])
    at = w.place("shared" if base == "generic" else base)
    w.line(f"and.b{64 if at == '%d' else 32} {at}, {at}, -16;")
    if base == "generic":
        w.line("cvt.u64.u32 %d, %a; cvta.shared.u64 %d, %d;")
        return "", "%d"
    return (".shared", at) if base == "shared" else (".global", at)


def vector(w: Writer) -> None:
    """A load or a store of several words, or of a narrow or a wide one."""
    space, at = memory(w)
    four = ", ".join(f"%r{k}" for k in w.rng.sample(range(10), 4))
    loads = [
        f"ld{space}.v4.u32 {{{four}}}, [{at}];",
        f"ld{space}.v2.u32 {{{four[:8]}}}, [{at}+8];",
        f"ld{space}.v2.u64 {{%e, %g}}, [{at}]; mov.b64 {{{four[:8]}}}, %g;",
        f"ld{space}.u64 %e, [{at}+8]; mov.b64 {{{four[:8]}}}, %e;",
        *(f"ld{space}.{t} {w.reg()}, [{at}+{2 * w.rng.randrange(8)}];" for t in ("u8", "s8", "u16", "s16")),
    ]
    stores = [
        f"st{space}.v4.b32 [{at}], {{{four}}};",
        f"st{space}.v2.f32 [{at}+8], {{{four[:8]}}};",
        f"mov.b64 %e, {{{four[:8]}}}; st{space}.b64 [{at}+8], %e;",
        f"st{space}.u8 [{at}+{w.rng.randrange(16)}], {w.reg()};",
        f"st{space}.u16 [{at}+{2 * w.rng.randrange(8)}], {w.reg()};",
    ]
    w.line(w.rng.choice(loads if w.rng.random() < 0.5 else stores))


def update(w: Writer) -> None:
    """An atomic of floats, of 64 bits, of pairs, or at a generic address."""
    space, at = memory(w)
    w.line(f"mov.b64 %e, {{{w.reg()}, {w.reg()}}}; mov.b64 %g, {{{w.reg()}, {w.reg()}}};")
    op = w.rng.choice(["add.f32", "add.noftz.f16x2", "add.noftz.bf16x2", "add.u32", "max.s32"])
    wide = w.rng.choice(["add.u64", "max.s64", "exch.b64", "and.b64", "add.f64", "cas.b64"])
    what = [
        f"atom{space}.{op} {w.reg()}, [{at}], {w.reg()};",
        f"red{space}.{op} [{at}], {w.reg()};",
        f"atom{space}.{wide} %e, [{at}], %e{', %g' if wide == 'cas.b64' else ''}; mov.b64 {{{w.reg()}, {w.reg()}}}, %e;",
    ]
    w.line(f"{w.guard() if w.rng.random() < 0.5 else ''}{w.rng.choice(what)}")


def exchange(w: Writer) -> None:
    """A shuffle of the lanes that are here, which says whether it found one."""
    mode = w.rng.choice(["bfly", "down", "up", "idx"])
    w.line(f"activemask.b32 %m; shfl.sync.{mode}.b32 {w.reg()}|%q, {w.reg()}, {w.source()}, 31, %m;")
    w.line(f"@%q add.u32 {w.reg()}, {w.reg()}, 1;")


def guarded_call(w: Writer) -> None:
    """A call by some threads, for what it does."""
    if not w.callees:
        return calculation(w)
    w.condition("%q")
    given = f"st.param.b32 [x], {w.reg()}; st.param.b64 [y], %in; st.param.b64 [w], %work;"
    return w.line(
        f"{{ .param .b32 x; .param .b64 y; .param .b64 w; .param .b32 z; {given} @%q call (z), {w.rng.choice(w.callees)}, (x, y, w); }}"
    )


def landing(w: Writer) -> None:
    """A copy of part of 16 bytes, with zeros behind, that an mbarrier counts or a group."""
    if w.tame:
        return w.copy()
    w.line(f"and.b32 %a, %i, 255; shl.b32 %a, %a, 4; mov.u32 %b, tile; add.u32 %a, %a, %b; and.b32 %x, {w.reg()}, 15;")
    w.line("cp.async.cg.shared.global [%a], [%in], 16, %x; cp.async.commit_group;")
    return w.line(f"cp.async.wait_group {w.rng.randrange(2)}; ld.shared.v2.u32 {{{w.reg()}, %y}}, [%a+8];")


def rows(w: Writer) -> None:
    """Matrices between registers and shared memory."""
    if w.threads % 32:
        return vector(w)
    w.line(
        f"and.b32 %x, {w.rng.choice(['%i', w.reg()])}, 255; shl.b32 %x, %x, 4; mov.u32 %b, tile; add.u32 %x, %x, %b;"
    )
    some = [f"%r{k}" for k in w.rng.sample(range(10), 4)]
    count = w.rng.choice([1, 2, 4])
    names, trans = ", ".join(some[:count]), w.rng.choice(["", ".trans"])
    return w.line(
        w.rng.choice(
            [
                f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{names}}}, [%x];",
                f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%x], {{{names}}};",
                f"movmatrix.sync.aligned.m8n8.trans.b16 {some[0]}, {some[1]};",
            ]
        )
    )


PRODUCTS = """m16n8k16.row.col.f32.f16.f16.f32 4 4 2 4|m16n8k16.row.col.f16.f16.f16.f16 2 4 2 2|m16n8k8.row.col.f32.bf16.bf16.f32 4 2 1 4
m16n8k16.row.col.f32.bf16.bf16.f32 4 4 2 4|m16n8k8.row.col.f32.tf32.tf32.f32 4 4 2 4|m16n8k32.row.col.f32.e4m3.e5m2.f32 4 4 2 4
m16n8k32.row.col.s32.s8.u8.s32 4 4 2 4|m16n8k32.row.col.satfinite.s32.s4.s4.s32 4 2 1 4|m8n8k16.row.col.s32.u8.s8.s32 2 1 1 2"""


def product(w: Writer) -> None:
    """A product of a warp's matrices."""
    if w.threads % 32:
        return calculation(w)
    if w.rng.random() < 0.15:
        w.line("mov.b64 %e, {%r0, %r1}; mov.b64 %g, {%r2, %r3};")
        w.line(
            "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%e, %g}, {%g}, {%e}, {%e, %g}; mov.b64 {%r4, %r5}, %e;"
        )
        return None
    form, *counts = w.rng.choice(forms(PRODUCTS)).split()
    d, a, b, c = (", ".join(f"%r{k}" for k in w.rng.sample(range(10), int(n))) for n in counts)
    return w.line(f"mma.sync.aligned.{form} {{{d}}}, {{{a}}}, {{{b}}}, {{{c}}};")


def group_product(w: Writer) -> None:
    """Products of a warpgroup's matrices, from shared memory or registers."""
    if w.leaves or w.threads % 128:
        return w.line("bar.sync 0;")
    w.line(
        "bar.sync 0; fence.proxy.async; mov.u32 %x, tile; shr.u32 %x, %x, 4; or.b32 %x, %x, 0x80000; mov.b64 %e, {%x, 16};"
    )
    w.line("wgmma.fence.sync.aligned;")
    kind = w.rng.choice(["f32.f16.f16", "f32.bf16.bf16", "f16.f16.f16"])
    d = ["%r1", "%r2", "%r3", "%r4"][: 2 if kind[:3] == "f16" else 4]
    for _ in range(w.rng.randrange(1, 3)):
        a, end = w.rng.choice([("%e", ", 0, 0"), ("{%r5, %r6, %r7, %r8}", ", 0")])
        scale = w.rng.choice(["0", "1"])
        w.line(f"wgmma.mma_async.sync.aligned.m64n8k16.{kind} {{{', '.join(d)}}}, {a}, %e, {scale}, 1, 1{end};")
    return w.line("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; bar.sync 0;")


def bulk_store(w: Writer) -> None:
    """A bulk copy, or sum, from shared to global memory that the first thread starts and waits for."""
    if w.leaves:
        return update(w)
    size, group = w.rng.choice([16, 128]), "cp.async.bulk.commit_group; @%v cp.async.bulk.wait_group 0;"
    what = w.rng.choice(
        ["cp.async.bulk.global.shared::cta.bulk_group", "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"]
    )
    w.line("bar.sync 0; fence.proxy.async; mov.u32 %x, tile; setp.eq.u32 %v, %i, 0;")
    w.line("mul.wide.u32 %d, %c, 256; add.u64 %d, %d, %work;")
    return w.line(f"@%v {what} [%d], [%x], {size}; @%v {group} bar.sync 0;")


Kind = Callable[["Writer"], None]
OF_ONE: list[Kind] = [calculation, calculation, halves, long, vector, vector, update, exchange, guarded_call, landing]
OF_ALL: list[Kind] = [rows, product, product, group_product, bulk_store]

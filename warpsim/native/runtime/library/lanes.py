"""Values of lanes: tables, permutations, values in rows, registers to and from arrays."""

from __future__ import annotations

from warpsim.native.runtime.context import word

ROUNDING = {"rz": 0, "rp": 2, "rm": 3}
"""LLVM's numbers of rounding modes; 1 is to nearest."""


def directed(op: str, mode: str, n: int) -> str:
    """``ws_rounded_…``: a floating-point operation of lanes in a directed rounding."""
    type = {32: "float", 64: "double"}[n]
    name, lanes = f"@llvm.experimental.constrained.{op}.v32f{n}", f"<32 x {type}>"
    operands = "abc"[: {"fdiv": 2}.get(op, 3)]
    loads = "".join(f"  %v{x} = load {lanes}, ptr %{x}, align 64\n" for x in operands)
    values = ", ".join(f"{lanes} %v{x}" for x in operands)
    return f"""
declare {lanes} {name}({", ".join([lanes] * len(operands))}, metadata, metadata)
declare void @llvm.set.rounding(i32)
define void @ws_rounded_{op}_{mode}_{n}({", ".join(f"ptr %{x}" for x in operands)}, ptr %out) strictfp {{
{loads}  call void @llvm.set.rounding(i32 {ROUNDING[mode]}) strictfp
  %r = call {lanes} {name}({values}, metadata !"round.dynamic", metadata !"fpexcept.strict") strictfp
  call void @llvm.set.rounding(i32 1) strictfp
  store {lanes} %r, ptr %out, align 64
  ret void
}}
"""


def table(n: int) -> str:
    """``ws_table_…``: the elements of a table that indices name."""
    return f"""
define void @ws_table_{n}(ptr %table, ptr %index, ptr %out) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %pi = getelementptr i64, ptr %index, i64 %i
  %at = load i64, ptr %pi
  %pv = getelementptr i{n}, ptr %table, i64 %at
  %v = load i{n}, ptr %pv
  %po = getelementptr i{n}, ptr %out, i64 %i
  store i{n} %v, ptr %po
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, 32
  br i1 %done, label %end, label %loop
end:
  ret void
}}
"""


SPREAD = """
define void @ws_spread(ptr %out, i64 %first, i64 %x, i64 %y, i64 %row, i64 %cut) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %column = phi i64 [ 0, %entry ], [ %c, %loop ]
  %start = phi i64 [ %first, %entry ], [ %s, %loop ]
  %along = mul i64 %column, %x
  %v = add i64 %start, %along
  %cutv = and i64 %v, %cut
  %po = getelementptr i64, ptr %out, i64 %i
  store i64 %cutv, ptr %po
  %c1 = add i64 %column, 1
  %full = icmp eq i64 %c1, %row
  %c = select i1 %full, i64 0, i64 %c1
  %down = add i64 %start, %y
  %s = select i1 %full, i64 %down, i64 %start
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, 32
  br i1 %done, label %end, label %loop
end:
  ret void
}
"""
"""The values of 32 lanes in rows: from the first on by a stride along the row, and by another from row to row."""


def permute(n: int) -> str:
    """``ws_permute_…``: each lane gets the value of another."""
    return f"""
define void @ws_permute_{n}(ptr %values, ptr %index, ptr %out) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %pi = getelementptr i32, ptr %index, i64 %i
  %at = load i32, ptr %pi
  %wide = zext i32 %at to i64
  %pv = getelementptr i{n}, ptr %values, i64 %wide
  %v = load i{n}, ptr %pv
  %po = getelementptr i{n}, ptr %out, i64 %i
  store i{n} %v, ptr %po
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, 32
  br i1 %done, label %end, label %loop
end:
  ret void
}}
"""


# ---- registers ------------------------------------------------------------------------------------
# A descriptor is {base, stride t1, t0, c1, c0, mode}: mode 0 is an affine value, 1 an array whose lanes are consecutive
# where those of the row are, 2 any array (strides in bytes).


_PLACE = """
  %pt1 = getelementptr i32, ptr %t1row, i64 %i
  %i1 = load i32, ptr %pt1
  %w1 = sext i32 %i1 to i64
  %m1 = mul i64 %w1, %s1
  %pt0 = getelementptr i32, ptr %t0row, i64 %i
  %i0 = load i32, ptr %pt0
  %w0 = sext i32 %i0 to i64
  %m0 = mul i64 %w0, %s0
  %m = add i64 %m1, %m0
  %o = add i64 %m, %cta
"""
"""``%o``: the offset of a lane, from the strides of the descriptor and the indices of the lane."""


def _head() -> str:
    """The descriptor, and whether the lanes of the warp lie in a row: ``%whole``."""
    row = """
  %row64 = sext i32 %row to i64
  %row32 = shl i64 %row64, 5
  %t1row = getelementptr i32, ptr %t1, i64 %row32
  %t0row = getelementptr i32, ptr %t0, i64 %row32
  %pflat = getelementptr i32, ptr %flat, i64 %row64
  %first = load i32, ptr %pflat
  %kind = load i64, ptr %p.mode
  %linear = icmp sge i32 %first, 0
  %one = icmp eq i64 %kind, 1
  %whole = and i1 %linear, %one
"""
    words = ["base", "s1", "s0", "sc1", "sc0", "mode"]
    loads = "".join(f"  %p.{w} = getelementptr i64, ptr %d, i64 {k}\n" for k, w in enumerate(words))
    loads += "".join(f"  %{w} = load i64, ptr %p.{w}\n" for w in words[:5])
    cta = """
  %cta64 = sext i32 %c to i64
  %pc1 = getelementptr i32, ptr %c1, i64 %cta64
  %vc1 = load i32, ptr %pc1
  %xc1 = sext i32 %vc1 to i64
  %yc1 = mul i64 %xc1, %sc1
  %pc0 = getelementptr i32, ptr %c0, i64 %cta64
  %vc0 = load i32, ptr %pc0
  %xc0 = sext i32 %vc0 to i64
  %yc0 = mul i64 %xc0, %sc0
  %yc = add i64 %yc1, %yc0
  %cta = add i64 %yc, %base
"""
    return "".join(word(x, "ptr") for x in ("t1", "t0", "flat", "c1", "c0")) + loads + cta + row


def live(n: int) -> str:
    """``ws_live_…`` and ``ws_out_…``: a register from an array or affine value, and into an array."""
    size = n // 8
    convert = f"trunc i64 %o to i{n}" if n < 64 else "add i64 %o, 0"
    return f"""
define void @ws_live_{n}(ptr %ctx, ptr %d, i32 %row, i32 %c, ptr %out) {{
entry:
{_head()}
  br i1 %whole, label %vector, label %other
vector:
  %f64 = zext i32 %first to i64
  %fo = mul i64 %f64, {size}
  %va = add i64 %cta, %fo
  %vp = inttoptr i64 %va to ptr
  %vv = load <32 x i{n}>, ptr %vp, align {size}
  store <32 x i{n}> %vv, ptr %out, align 64
  ret void
other:
  %affine = icmp eq i64 %kind, 0
  br label %loop
loop:
  %i = phi i64 [ 0, %other ], [ %next, %store ]
{_PLACE}
  %po = getelementptr i{n}, ptr %out, i64 %i
  br i1 %affine, label %value, label %gather
value:
  %v1 = {convert}
  br label %store
gather:
  %vp2 = inttoptr i64 %o to ptr
  %v2 = load i{n}, ptr %vp2
  br label %store
store:
  %v = phi i{n} [ %v1, %value ], [ %v2, %gather ]
  store i{n} %v, ptr %po
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, 32
  br i1 %done, label %end, label %loop
end:
  ret void
}}

define void @ws_out_{n}(ptr %ctx, ptr %d, i32 %row, i32 %c, i32 %mask, ptr %in) {{
entry:
{_head()}
  %full = icmp eq i32 %mask, -1
  %fast = and i1 %whole, %full
  br i1 %fast, label %vector, label %loop
vector:
  %f64 = zext i32 %first to i64
  %fo = mul i64 %f64, {size}
  %va = add i64 %cta, %fo
  %vp = inttoptr i64 %va to ptr
  %vv = load <32 x i{n}>, ptr %in, align 64
  store <32 x i{n}> %vv, ptr %vp, align {size}
  ret void
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %step ]
  %i32 = trunc i64 %i to i32
  %bit = lshr i32 %mask, %i32
  %on = trunc i32 %bit to i1
  br i1 %on, label %put, label %step
put:
{_PLACE}
  %po = inttoptr i64 %o to ptr
  %pi = getelementptr i{n}, ptr %in, i64 %i
  %v = load i{n}, ptr %pi
  store i{n} %v, ptr %po
  br label %step
step:
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, 32
  br i1 %done, label %end, label %loop
end:
  ret void
}}
"""

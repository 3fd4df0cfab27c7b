"""Where addresses lie: their extremes, the allocation that holds them, and loops over the lanes that have them."""

from __future__ import annotations

from warpsim.native.runtime.context import BAD_ACCESS, word

# ---- where addresses lie --------------------------------------------------------------------------
# `ws_span` gives the least and the greatest address of the lanes, and fails where one is not aligned.

SPAN = f"""
define internal i32 @ws_span(ptr %addresses, i32 %mask, i64 %nbytes, ptr %range, ptr %out) alwaysinline {{
entry:
  %a = load <32 x i64>, ptr %addresses, align 64
  %m = bitcast i32 %mask to <32 x i1>
  %lows = select <32 x i1> %m, <32 x i64> %a, <32 x i64> splat (i64 9223372036854775807)
  %highs = select <32 x i1> %m, <32 x i64> %a, <32 x i64> splat (i64 -9223372036854775808)
  %odds = select <32 x i1> %m, <32 x i64> %a, <32 x i64> zeroinitializer
  %low = call i64 @llvm.vector.reduce.smin.v32i64(<32 x i64> %lows)
  %high = call i64 @llvm.vector.reduce.smax.v32i64(<32 x i64> %highs)
  %odd = call i64 @llvm.vector.reduce.or.v32i64(<32 x i64> %odds)
  store i64 %low, ptr %out
  %pe = getelementptr i64, ptr %out, i64 1
  %end = add i64 %high, %nbytes
  store i64 %end, ptr %pe
  %size = sub i64 %nbytes, 1
  %rest = and i64 %odd, %size
  %bad = icmp ne i64 %rest, 0
  br i1 %bad, label %fail, label %good
fail:
  ret i32 {BAD_ACCESS}
good:
  %none = icmp eq ptr %range, null
  br i1 %none, label %done, label %record
record:
  %rl = load i64, ptr %range
  %less = icmp slt i64 %low, %rl
  %nl = select i1 %less, i64 %low, i64 %rl
  store i64 %nl, ptr %range
  %pr = getelementptr i64, ptr %range, i64 1
  %rh = load i64, ptr %pr
  %more = icmp sgt i64 %end, %rh
  %nh = select i1 %more, i64 %end, i64 %rh
  store i64 %nh, ptr %pr
  ret i32 0
done:
  ret i32 0
}}

"""

FIND = f"""
define internal ptr @ws_find(ptr %ctx, i64 %low, i64 %end) alwaysinline {{
entry:
{word("memo", "ptr")}
  %s = load i64, ptr %memo
  %pe = getelementptr i64, ptr %memo, i64 1
  %e = load i64, ptr %pe
  %a = icmp sge i64 %low, %s
  %b = icmp sle i64 %end, %e
  %in = and i1 %a, %b
  br i1 %in, label %hit, label %search
hit:
  ret ptr %memo
search:
{word("n_allocations")}{word("allocations", "ptr")}
  br label %loop
loop:
  %k = phi i64 [ 0, %search ], [ %next, %step ]
  %stop = icmp eq i64 %k, %n_allocations
  br i1 %stop, label %none, label %look
look:
  %off = mul i64 %k, 40
  %entry_k = getelementptr i8, ptr %allocations, i64 %off
  %s2 = load i64, ptr %entry_k
  %pe2 = getelementptr i64, ptr %entry_k, i64 1
  %e2 = load i64, ptr %pe2
  %a2 = icmp sge i64 %low, %s2
  %b2 = icmp sle i64 %end, %e2
  %in2 = and i1 %a2, %b2
  br i1 %in2, label %found, label %step
step:
  %next = add i64 %k, 1
  br label %loop
found:
  store ptr %entry_k, ptr %p.memo
  ret ptr %entry_k
none:
  ret ptr null
}}
"""

MEMO = """
define void @ws_memo(ptr %ctx, ptr %memo, i64 %low, i64 %nbytes, i64 %shift, i64 %store) {
entry:
  %end = add i64 %low, %nbytes
  %where = call ptr @ws_find(ptr %ctx, i64 %low, i64 %end)
  %lost = icmp eq ptr %where, null
  br i1 %lost, label %none, label %found
found:
  %start = load i64, ptr %where
  %pe = getelementptr i64, ptr %where, i64 1
  %stop = load i64, ptr %pe
  %pd = getelementptr i64, ptr %where, i64 2
  %data = load i64, ptr %pd
  %pw = getelementptr i64, ptr %where, i64 3
  %written = load i64, ptr %pw
  %pr = getelementptr i64, ptr %where, i64 4
  %locked = load i64, ptr %pr
  %tracked = icmp ne i64 %written, 0
  %lock = and i64 %locked, %store
  %closed = icmp ne i64 %lock, 0
  %ones = shl i64 -1, %shift
  %odds = xor i64 %ones, -1
  %rest = and i64 %start, %odds
  %odd = icmp ne i64 %rest, 0
  %bad1 = or i1 %tracked, %closed
  %bad = or i1 %bad1, %odd
  br i1 %bad, label %none, label %good
good:
  %size = sub i64 %stop, %start
  %last_start = sub i64 %size, %nbytes
  %places = lshr i64 %last_start, %shift
  %limit = add i64 %places, 1
  store i64 %start, ptr %memo
  %p1 = getelementptr i64, ptr %memo, i64 1
  store i64 %limit, ptr %p1
  %p2 = getelementptr i64, ptr %memo, i64 2
  %delta = sub i64 %data, %start
  store i64 %delta, ptr %p2
  ret void
none:
  ret void
}
"""
"""Where a row of ``nbytes`` may begin in the allocation that holds one: its start, how many places of ``1 << shift`` bytes, and
how far away its bytes lie. Nothing changes where no row can be accessed without a closer look."""

REACH = f"""
define internal i32 @ws_reach(ptr %addresses, i32 %mask, i64 %nbytes, ptr %range, ptr %out) alwaysinline {{
entry:
  %a64 = load <32 x i64>, ptr %addresses, align 64
  %a = trunc <32 x i64> %a64 to <32 x i32>
  %m = bitcast i32 %mask to <32 x i1>
  %here = select <32 x i1> %m, <32 x i32> %a, <32 x i32> zeroinitializer
  %high = call i32 @llvm.vector.reduce.umax.v32i32(<32 x i32> %here)
  %odd = call i32 @llvm.vector.reduce.or.v32i32(<32 x i32> %here)
  %high64 = zext i32 %high to i64
  %end = add i64 %high64, %nbytes
  store i64 %end, ptr %out
  %size = sub i64 %nbytes, 1
  %odd64 = zext i32 %odd to i64
  %rest = and i64 %odd64, %size
  %bad = icmp ne i64 %rest, 0
  br i1 %bad, label %fail, label %good
fail:
  ret i32 {BAD_ACCESS}
good:
  %none = icmp eq ptr %range, null
  br i1 %none, label %done, label %record
record:
  %lows = select <32 x i1> %m, <32 x i32> %a, <32 x i32> splat (i32 -1)
  %low32 = call i32 @llvm.vector.reduce.umin.v32i32(<32 x i32> %lows)
  %low = zext i32 %low32 to i64
  %rl = load i64, ptr %range
  %less = icmp slt i64 %low, %rl
  %nl = select i1 %less, i64 %low, i64 %rl
  store i64 %nl, ptr %range
  %pr = getelementptr i64, ptr %range, i64 1
  %rh = load i64, ptr %pr
  %more = icmp sgt i64 %end, %rh
  %nh = select i1 %more, i64 %end, i64 %rh
  store i64 %nh, ptr %pr
  ret i32 0
done:
  ret i32 0
}}

declare i32 @llvm.vector.reduce.umin.v32i32(<32 x i32>)
declare i32 @llvm.vector.reduce.umax.v32i32(<32 x i32>)
declare i32 @llvm.vector.reduce.or.v32i32(<32 x i32>)
"""
"""The same for shared and local memory, whose addresses have 32 bits: the end of the last access."""


def loop(body: str) -> str:
    """``body`` for every lane of the mask, after ``%one``; ends at ``done``; ``body`` ends by a jump to ``step``."""
    return f"""
one:
  br label %loop
loop:
  %i = phi i64 [ 0, %one ], [ %next, %step ]
  %i32 = trunc i64 %i to i32
  %bit = lshr i32 %mask, %i32
  %on = trunc i32 %bit to i1
  br i1 %on, label %lane, label %step
lane:
  %pa = getelementptr i64, ptr %addresses, i64 %i
  %a = load i64, ptr %pa
{body}
step:
  %next = add i64 %i, 1
  %last = icmp eq i64 %next, 32
  br i1 %last, label %done, label %loop
"""

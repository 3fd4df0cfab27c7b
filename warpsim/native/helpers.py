"""What compiled units call: registers to and from arrays, and memory with its bounds, alignment and undefined bytes.

A unit is a transaction: a helper that finds anything wrong gives a number other than 0, the unit ends, and what it stored
is taken back from the log. All pointers lie in one array of 64-bit words, `CONTEXT`.
"""

from __future__ import annotations

_WORDS = """
    n_warps rows ctas masks t1 t0 flat columns c1 c0 threads n_allocations allocations
    shared_words shared_size shared_columns shared_written local_words local_size local_columns local_written
    lives outs counts laps limit exits exit_lanes log log_size log_used memo tables longest ranges
"""
CONTEXT = {name: place for place, name in enumerate(_WORDS.split())}
"""The words of the context: all 64 bits wide."""
BAD_ACCESS, LOG_FULL, PARTED = 1, 2, 3
"""Why a unit gave up."""


def _get(name: str, type: str = "i64") -> str:
    return f"""  %p.{name} = getelementptr i64, ptr %ctx, i64 {CONTEXT[name]}
  %{name} = load {type}, ptr %p.{name}
"""


_TABLE = """
define void @ws_table(ptr %table, ptr %index, ptr %out) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %pi = getelementptr i64, ptr %index, i64 %i
  %at = load i64, ptr %pi
  %pv = getelementptr i64, ptr %table, i64 %at
  %v = load i64, ptr %pv
  %po = getelementptr i64, ptr %out, i64 %i
  store i64 %v, ptr %po
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, 32
  br i1 %done, label %end, label %loop
end:
  ret void
}
"""


def _permute(n: int) -> str:
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


def _place(n: int) -> str:
    """``%o``: the offset of a lane, from the strides of the descriptor and the indices of the lane."""
    return """
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


def _head(n: int) -> str:
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
    return "".join(_get(x, "ptr") for x in ("t1", "t0", "flat", "c1", "c0")) + loads + cta + row


def _live(n: int) -> str:
    size = n // 8
    convert = f"trunc i64 %o to i{n}" if n < 64 else "add i64 %o, 0"
    return f"""
define void @ws_live_{n}(ptr %ctx, ptr %d, i32 %row, i32 %c, ptr %out) {{
entry:
{_head(n)}
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
{_place(n)}
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
{_head(n)}
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
{_place(n)}
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


# ---- the log --------------------------------------------------------------------------------------
# Entries: what was there (in whole words), the address, the number of bytes; walked from the end.

_LOG = f"""
define i32 @ws_log(ptr %ctx, i64 %address, i64 %nbytes) {{
entry:
{_get("log", "ptr")}{_get("log_size")}{_get("log_used")}
  %up = add i64 %nbytes, 7
  %payload = and i64 %up, -8
  %more = add i64 %payload, 16
  %after = add i64 %log_used, %more
  %over = icmp ugt i64 %after, %log_size
  br i1 %over, label %full, label %room
full:
  ret i32 {LOG_FULL}
room:
  %to = getelementptr i8, ptr %log, i64 %log_used
  %from = inttoptr i64 %address to ptr
  switch i64 %nbytes, label %many [ i64 4, label %four
                                    i64 8, label %eight ]
four:
  %v4 = load i32, ptr %from, align 1
  store i32 %v4, ptr %to, align 8
  br label %head
eight:
  %v8 = load i64, ptr %from, align 1
  store i64 %v8, ptr %to, align 8
  br label %head
many:
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %nbytes, i1 false)
  br label %head
head:
  %h1 = getelementptr i8, ptr %to, i64 %payload
  store i64 %address, ptr %h1, align 8
  %h2 = getelementptr i8, ptr %h1, i64 8
  store i64 %nbytes, ptr %h2, align 8
  store i64 %after, ptr %p.log_used
  ret i32 0
}}

define i32 @ws_rollback(ptr %ctx) {{
entry:
{_get("log", "ptr")}{_get("log_used")}
  br label %test
test:
  %used = phi i64 [ %log_used, %entry ], [ %before, %undo ]
  %done = icmp eq i64 %used, 0
  br i1 %done, label %end, label %undo
undo:
  %at = getelementptr i8, ptr %log, i64 %used
  %h2 = getelementptr i8, ptr %at, i64 -8
  %nbytes = load i64, ptr %h2
  %h1 = getelementptr i8, ptr %at, i64 -16
  %address = load i64, ptr %h1
  %up = add i64 %nbytes, 7
  %payload = and i64 %up, -8
  %more = add i64 %payload, 16
  %before = sub i64 %used, %more
  %from = getelementptr i8, ptr %log, i64 %before
  %to = inttoptr i64 %address to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %nbytes, i1 false)
  br label %test
end:
  store i64 0, ptr %p.log_used
  ret i32 0
}}

"""

# ---- where addresses lie --------------------------------------------------------------------------
# `ws_span` gives the least and the greatest address of the lanes, and fails where one is not aligned.

_SPAN = f"""
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

define internal ptr @ws_find(ptr %ctx, i64 %low, i64 %end) alwaysinline {{
entry:
{_get("memo", "ptr")}
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
{_get("n_allocations")}{_get("allocations", "ptr")}
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

_REACH = f"""
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


def _consecutive(total: int) -> str:
    offsets = ", ".join(f"i64 {k * total}" for k in range(32))
    return f"""
  %av = load <32 x i64>, ptr %addresses, align 64
  %a0 = extractelement <32 x i64> %av, i32 0
  %i0 = insertelement <32 x i64> poison, i64 %a0, i32 0
  %is = shufflevector <32 x i64> %i0, <32 x i64> poison, <32 x i32> zeroinitializer
  %want = add <32 x i64> %is, <{offsets}>
  %same = icmp eq <32 x i64> %av, %want
  %bits = bitcast <32 x i1> %same to i32
  %all = and i32 %bits, %mask
  %row = icmp eq i32 %all, -1
"""


def _loop(body: str) -> str:
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


def _global(size: int, count: int) -> str:
    n, total = size * 8, size * count
    load = store = ""
    for k in range(count):
        load += f"""
  %q{k} = getelementptr i8, ptr %p, i64 {k * size}
  %v{k} = load i{n}, ptr %q{k}, align 1
  %o{k} = getelementptr i8, ptr %out, i64 {k * 32 * size}
  %e{k} = getelementptr i{n}, ptr %o{k}, i64 %i
  store i{n} %v{k}, ptr %e{k}
"""
        store += f"""
  %o{k} = getelementptr i8, ptr %values, i64 {k * 32 * size}
  %e{k} = getelementptr i{n}, ptr %o{k}, i64 %i
  %v{k} = load i{n}, ptr %e{k}
  %q{k} = getelementptr i8, ptr %p, i64 {k * size}
  store i{n} %v{k}, ptr %q{k}, align 1
"""
    fast_load = fast_store = "  br label %one\n"
    if count == 1:
        fast_load = f"""
{_consecutive(total)}
  br i1 %row, label %vector, label %one
vector:
  %h0 = add i64 %a0, %delta
  %hp = inttoptr i64 %h0 to ptr
  %hv = load <32 x i{n}>, ptr %hp, align {size}
  store <32 x i{n}> %hv, ptr %out, align 64
  ret i32 0
"""
        fast_store = f"""
{_consecutive(total)}
  br i1 %row, label %vector, label %one
vector:
  %h0 = add i64 %a0, %delta
  %hp = inttoptr i64 %h0 to ptr
  %l0 = call i32 @ws_log(ptr %ctx, i64 %h0, i64 {32 * total})
  %lb = icmp ne i32 %l0, 0
  br i1 %lb, label %full, label %put
put:
  %hv = load <32 x i{n}>, ptr %values, align 64
  store <32 x i{n}> %hv, ptr %hp, align {size}
  ret i32 0
"""
    find = f"""
  %span = alloca [2 x i64], align 16
  %none = icmp eq i32 %mask, 0
  br i1 %none, label %done, label %some
some:
  %status = call i32 @ws_span(ptr %addresses, i32 %mask, i64 {total}, ptr %range, ptr %span)
  %odd = icmp ne i32 %status, 0
  br i1 %odd, label %fail, label %aligned
fail:
  ret i32 {BAD_ACCESS}
aligned:
  %low = load i64, ptr %span
  %pend = getelementptr i64, ptr %span, i64 1
  %end = load i64, ptr %pend
  %where = call ptr @ws_find(ptr %ctx, i64 %low, i64 %end)
  %lost = icmp eq ptr %where, null
  br i1 %lost, label %fail, label %known
known:
  %start = load i64, ptr %where
  %pdata = getelementptr i64, ptr %where, i64 2
  %data = load i64, ptr %pdata
  %delta = sub i64 %data, %start
  %pw = getelementptr i64, ptr %where, i64 3
  %written = load i64, ptr %pw
  %tracked = icmp ne i64 %written, 0
"""
    return f"""
define i32 @ws_load_{size}_{count}(ptr %ctx, ptr %addresses, i32 %mask, ptr %out, ptr %range) {{
entry:
{find}
  br i1 %tracked, label %check, label %data1
check:
  %ok = call i32 @ws_written_{total}(ptr %addresses, i32 %mask, i64 %start, i64 %written)
  %undefined = icmp ne i32 %ok, 0
  br i1 %undefined, label %fail, label %data1
data1:
{fast_load}
{
        _loop(f'''
  %h = add i64 %a, %delta
  %p = inttoptr i64 %h to ptr
{load}
  br label %step
''')
    }
done:
  ret i32 0
}}

define i32 @ws_store_{size}_{count}(ptr %ctx, ptr %addresses, i32 %mask, ptr %values, ptr %range) {{
entry:
{find}
  %pro = getelementptr i64, ptr %where, i64 4
  %locked = load i64, ptr %pro
  %wrong = icmp ne i64 %locked, 0
  br i1 %wrong, label %fail, label %open
open:
  br i1 %tracked, label %marks, label %data1
marks:
  %ms = call i32 @ws_mark_{total}(ptr %ctx, ptr %addresses, i32 %mask, i64 %start, i64 %written)
  %mf = icmp ne i32 %ms, 0
  br i1 %mf, label %full, label %data1
full:
  ret i32 {LOG_FULL}
data1:
{fast_store}
{
        _loop(f'''
  %h = add i64 %a, %delta
  %p = inttoptr i64 %h to ptr
  %l = call i32 @ws_log(ptr %ctx, i64 %h, i64 {total})
  %lf = icmp ne i32 %l, 0
  br i1 %lf, label %full, label %keep
keep:
{store}
  br label %step
''')
    }
done:
  ret i32 0
}}
"""


def _written(total: int) -> str:
    n = total * 8
    return f"""
define i32 @ws_written_{total}(ptr %addresses, i32 %mask, i64 %start, i64 %written) {{
entry:
  br label %one
{
        _loop(f'''
  %h0 = sub i64 %a, %start
  %h = add i64 %h0, %written
  %p = inttoptr i64 %h to ptr
  %v = load i{n}, ptr %p, align 1
  %bad = icmp ne i{n} %v, -1
  br i1 %bad, label %fail, label %step
''')
    }
fail:
  ret i32 1
done:
  ret i32 0
}}

define i32 @ws_mark_{total}(ptr %ctx, ptr %addresses, i32 %mask, i64 %start, i64 %written) {{
entry:
  br label %one
{
        _loop(f'''
  %h0 = sub i64 %a, %start
  %h = add i64 %h0, %written
  %p = inttoptr i64 %h to ptr
  %v = load i{n}, ptr %p, align 1
  %new = icmp ne i{n} %v, -1
  br i1 %new, label %write, label %step
write:
  %l = call i32 @ws_log(ptr %ctx, i64 %h, i64 {total})
  %lf = icmp ne i32 %l, 0
  br i1 %lf, label %full, label %keep
keep:
  store i{n} -1, ptr %p, align 1
  br label %step
''')
    }
full:
  ret i32 1
done:
  ret i32 0
}}
"""


# ---- shared and local memory ----------------------------------------------------------------------
# A space is {words, size, columns, written}; every lane has its column.


def _quick(count: int) -> str:
    """Whole warps: byte offsets of 32 bits as a vector, then one load a lane without a look at the mask."""
    lanes = ""
    for i in range(32):
        lanes += f"""
  %qi{i} = getelementptr i32, ptr %offsets, i64 {i}
  %qo{i} = load i32, ptr %qi{i}
  %qw{i} = zext i32 %qo{i} to i64
  %qp{i} = getelementptr i8, ptr %words, i64 %qw{i}
"""
        for k in range(count):
            row = (
                f"""
  %qm{i}.{k} = mul i64 %n_columns, {4 * k}
  %qn{i}.{k} = getelementptr i8, ptr %qp{i}, i64 %qm{i}.{k}
"""
                if k
                else ""
            )
            source = f"%qn{i}.{k}" if k else f"%qp{i}"
            lanes += f"""{row}
  %qv{i}.{k} = load i32, ptr {source}
  %qe{i}.{k} = getelementptr i32, ptr %out, i64 {32 * k + i}
  store i32 %qv{i}.{k}, ptr %qe{i}.{k}
"""
    return f"""
  %full = icmp eq i32 %mask, -1
  %reach = mul i64 %size, %n_columns
  %near = icmp ult i64 %reach, 2147483648
  %fast = and i1 %full, %near
  br i1 %fast, label %vector, label %one
vector:
  %qa = load <32 x i64>, ptr %addresses, align 64
  %qc = load <32 x i64>, ptr %cols, align 64
  %qa4 = trunc <32 x i64> %qa to <32 x i32>
  %qc4 = trunc <32 x i64> %qc to <32 x i32>
  %qn = trunc i64 %n_columns to i32
  %qn1 = insertelement <32 x i32> poison, i32 %qn, i32 0
  %qns = shufflevector <32 x i32> %qn1, <32 x i32> poison, <32 x i32> zeroinitializer
  %qr = mul <32 x i32> %qa4, %qns
  %qs = shl <32 x i32> %qc4, splat (i32 2)
  %qo = add <32 x i32> %qr, %qs
  store <32 x i32> %qo, ptr %offsets, align 64
{lanes}
  ret i32 0
"""


def _words(size: int, count: int) -> str:
    total, n = size * count, size * 8
    parts = [(k * size + h, min(size, 4), k, h) for k in range(count) for h in range(0, size, 4)]
    load = check = store = ""
    for number, (at, part, k, half) in enumerate(parts):
        m = part * 8
        place = f"""
  %b{number} = add i64 %a, {at}
  %r{number} = lshr i64 %b{number}, 2
  %s{number} = mul i64 %r{number}, %n_columns
  %c{number} = add i64 %s{number}, %column
  %d{number} = shl i64 %c{number}, 2
  %f{number} = and i64 %b{number}, 3
  %g{number} = add i64 %d{number}, %f{number}
"""
        load += f"""{place}
  %p{number} = getelementptr i8, ptr %words, i64 %g{number}
  %v{number} = load i{m}, ptr %p{number}
  %o{number} = getelementptr i8, ptr %out, i64 {k * 32 * size + half}
  %e{number} = getelementptr i{n}, ptr %o{number}, i64 %i
  store i{m} %v{number}, ptr %e{number}
"""
        check += f"""{place}
  %p{number} = getelementptr i8, ptr %written, i64 %g{number}
  %v{number} = load i{m}, ptr %p{number}
  %x{number} = icmp ne i{m} %v{number}, -1
  br i1 %x{number}, label %fail, label %good{number}
good{number}:
"""
        store += f"""{place}
  %p{number} = getelementptr i8, ptr %words, i64 %g{number}
  %h{number} = ptrtoint ptr %p{number} to i64
  %l{number} = call i32 @ws_log(ptr %ctx, i64 %h{number}, i64 {part})
  %y{number} = icmp ne i32 %l{number}, 0
  br i1 %y{number}, label %full, label %keep{number}
keep{number}:
  %o{number} = getelementptr i8, ptr %values, i64 {k * 32 * size + half}
  %e{number} = getelementptr i{n}, ptr %o{number}, i64 %i
  %v{number} = load i{m}, ptr %e{number}
  store i{m} %v{number}, ptr %p{number}
  br i1 %untracked, label %after{number}, label %mark{number}
mark{number}:
  %q{number} = getelementptr i8, ptr %written, i64 %g{number}
  %w{number} = load i{m}, ptr %q{number}
  %z{number} = icmp ne i{m} %w{number}, -1
  br i1 %z{number}, label %new{number}, label %after{number}
new{number}:
  %j{number} = ptrtoint ptr %q{number} to i64
  %k{number} = call i32 @ws_log(ptr %ctx, i64 %j{number}, i64 {part})
  %t{number} = icmp ne i32 %k{number}, 0
  br i1 %t{number}, label %full, label %set{number}
set{number}:
  store i{m} -1, ptr %q{number}
  br label %after{number}
after{number}:
"""
    column = """
  %pcol = getelementptr i64, ptr %cols, i64 %i
  %column = load i64, ptr %pcol
"""
    find = f"""
  %span = alloca i64, align 16
  %none = icmp eq i32 %mask, 0
  br i1 %none, label %done, label %some
some:
  %status = call i32 @ws_reach(ptr %addresses, i32 %mask, i64 {total}, ptr %range, ptr %span)
  %odd = icmp ne i32 %status, 0
  br i1 %odd, label %fail, label %aligned
fail:
  ret i32 {BAD_ACCESS}
aligned:
  %words = load ptr, ptr %space
  %psize = getelementptr i64, ptr %space, i64 1
  %size = load i64, ptr %psize
  %pcols = getelementptr i64, ptr %space, i64 2
  %n_columns = load i64, ptr %pcols
  %pwr = getelementptr i64, ptr %space, i64 3
  %written = load ptr, ptr %pwr
  %end = load i64, ptr %span
  %out_of = icmp sgt i64 %end, %size
  %untracked = icmp eq ptr %written, null
  br i1 %out_of, label %fail, label %known
known:
"""
    return f"""
define internal i32 @ws_check_words_{size}_{count}(ptr %addresses, i32 %mask, ptr %cols, ptr %written, i64 %n_columns) {{
entry:
  br label %one
{_loop(column + check + "  br label %step")}
fail:
  ret i32 {BAD_ACCESS}
done:
  ret i32 0
}}

define i32 @ws_load_words_{size}_{count}(ptr %ctx, ptr %space, ptr %addresses, i32 %mask, ptr %cols, ptr %out, ptr %range) {{
entry:
{"  %offsets = alloca [32 x i32], align 64" if size == 4 else ""}
{find}
  br i1 %untracked, label %quick, label %look
look:
  %ok = call i32 @ws_check_words_{size}_{count}(ptr %addresses, i32 %mask, ptr %cols, ptr %written, i64 %n_columns)
  %undefined = icmp ne i32 %ok, 0
  br i1 %undefined, label %fail, label %quick
quick:
{_quick(count) if size == 4 else "  br label %one"}
{_loop(column + load + "  br label %step")}
done:
  ret i32 0
}}

define i32 @ws_store_words_{size}_{count}(ptr %ctx, ptr %space, ptr %addresses, i32 %mask, ptr %cols, ptr %values, ptr %range) {{
entry:
{find}
  br label %one
{_loop(column + store + "  br label %step")}
full:
  ret i32 {LOG_FULL}
done:
  ret i32 0
}}
"""


# ---- one cell of an atomic ------------------------------------------------------------------------
# `ws_cells` fills in the host address of each lane's element and logs what is there.


def _cells(size: int) -> str:
    check = f"""
  %h = add i64 %a, %delta
  %l = call i32 @ws_log(ptr %ctx, i64 %h, i64 {size})
  %lf = icmp ne i32 %l, 0
  br i1 %lf, label %full, label %keep
keep:
  %pc = getelementptr i64, ptr %cells, i64 %i
  store i64 %h, ptr %pc
  br label %step
"""
    words = f"""
  %pcol = getelementptr i64, ptr %cols, i64 %i
  %column = load i64, ptr %pcol
  %r = lshr i64 %a, 2
  %s = mul i64 %r, %n_columns
  %c = add i64 %s, %column
  %d = shl i64 %c, 2
  %f = and i64 %a, 3
  %g = add i64 %d, %f
  br i1 %untracked, label %plain, label %look
look:
  %pw = getelementptr i8, ptr %written, i64 %g
  %w = load i{size * 8}, ptr %pw
  %bad = icmp ne i{size * 8} %w, -1
  br i1 %bad, label %fail, label %plain
plain:
  %q = getelementptr i8, ptr %words, i64 %g
  %h = ptrtoint ptr %q to i64
  %l = call i32 @ws_log(ptr %ctx, i64 %h, i64 {size})
  %lf = icmp ne i32 %l, 0
  br i1 %lf, label %full, label %keep
keep:
  %pc = getelementptr i64, ptr %cells, i64 %i
  store i64 %h, ptr %pc
  br label %step
"""
    whole = _global(size, 1)
    find = whole[whole.index("  %span = alloca") : whole.index("  br i1 %tracked, label %check")]
    shared = _words(size, 1)
    begin = shared.index("ws_load_words_")
    find_words = shared[shared.index("  %span = alloca", begin) : shared.index("  br i1 %untracked", begin)]
    shared_cells = (
        ""
        if size > 4
        else f"""
define i32 @ws_word_cells_{size}(ptr %ctx, ptr %space, ptr %addresses, i32 %mask, ptr %cols, ptr %cells, ptr %range) {{
entry:
{find_words}
  br label %one
{_loop(words)}
full:
  ret i32 {LOG_FULL}
done:
  ret i32 0
}}
"""
    )
    return f"""
define i32 @ws_cells_{size}(ptr %ctx, ptr %addresses, i32 %mask, ptr %cells, ptr %range) {{
entry:
{find}
  %pro = getelementptr i64, ptr %where, i64 4
  %locked = load i64, ptr %pro
  %wrong = icmp ne i64 %locked, 0
  %closed = or i1 %wrong, %tracked
  br i1 %closed, label %fail, label %one
{_loop(check)}
full:
  ret i32 {LOG_FULL}
done:
  ret i32 0
}}
{shared_cells}"""


_COMMON = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.vector.reduce.smin.v32i64(<32 x i64>)
declare i64 @llvm.vector.reduce.smax.v32i64(<32 x i64>)
declare i64 @llvm.vector.reduce.or.v32i64(<32 x i64>)
"""
_USED = {
    "ws_log": "declare i32 @ws_log(ptr, i64, i64)\n",
    "ws_written": "declare i32 @ws_written_{n}(ptr, i32, i64, i64)\n",
    "ws_mark": "declare i32 @ws_mark_{n}(ptr, ptr, i32, i64, i64)\n",
}


def module_of(name: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The module that a helper lies in: its text, the helpers in it, and those that it calls."""
    *words, last = name.split("_")[1:]
    kind = "_".join(words) if last.isdigit() else name[3:]
    if kind in ("log", "rollback"):
        return _COMMON + _LOG, ("ws_log", "ws_rollback"), ()
    if kind == "table":
        return _TABLE, ("ws_table",), ()
    n = int(last)
    if kind == "permute":
        return _permute(n), (name,), ()
    if kind in ("live", "out"):
        return _live(n), (f"ws_live_{n}", f"ws_out_{n}"), ()
    if kind in ("written", "mark"):
        return _COMMON + _USED["ws_log"] + _written(n), (f"ws_written_{n}", f"ws_mark_{n}"), ("ws_log",)
    if kind in ("cells", "word_cells"):
        made = (f"ws_cells_{n}", f"ws_word_cells_{n}") if n <= 4 else (f"ws_cells_{n}",)
        return _COMMON + _USED["ws_log"] + _SPAN + _REACH + _cells(n), made, ("ws_log",)
    size, total = int(words.pop()), 0
    kind, total = "_".join(words), size * n
    if kind in ("load", "store"):
        text = _COMMON + _USED["ws_log"] + _USED["ws_written"].format(n=total) + _USED["ws_mark"].format(n=total)
        made = (f"ws_load_{size}_{n}", f"ws_store_{size}_{n}")
        return text + _SPAN + _global(size, n), made, ("ws_log", f"ws_written_{total}")
    text = _COMMON + _USED["ws_log"] + _REACH + _words(size, n)
    return text, (f"ws_load_words_{size}_{n}", f"ws_store_words_{size}_{n}"), ("ws_log",)

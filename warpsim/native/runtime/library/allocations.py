"""Loads and stores of global memory, and which bytes of it are written."""

from __future__ import annotations

from warpsim.native.runtime.context import BAD_ACCESS, LOG_FULL
from warpsim.native.runtime.library.places import loop


def consecutive(total: int) -> str:
    """Whether whole warps go to consecutive elements of ``total`` bytes: ``%row``, from ``%a0`` on."""
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


def found(total: int) -> str:
    """The allocation at ``%where`` that holds ``total`` bytes of every lane: where it begins, how far away the host's bytes lie
    (``%delta``), and whether marks of what is written lie beside them. Goes to ``done`` where there is no lane."""
    return f"""
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


def globally(size: int, count: int) -> str:
    """``ws_load_…`` and ``ws_store_…`` of ``count`` elements of ``size`` bytes."""
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
{consecutive(total)}
  br i1 %row, label %vector, label %one
vector:
  %h0 = add i64 %a0, %delta
  %hp = inttoptr i64 %h0 to ptr
  %hv = load <32 x i{n}>, ptr %hp, align {size}
  store <32 x i{n}> %hv, ptr %out, align 64
  ret i32 0
"""
        fast_store = f"""
{consecutive(total)}
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
    return f"""
define i32 @ws_load_{size}_{count}(ptr %ctx, ptr %addresses, i32 %mask, ptr %out, ptr %range) {{
entry:
{found(total)}
  br i1 %tracked, label %check, label %data1
check:
  %ok = call i32 @ws_written_{total}(ptr %addresses, i32 %mask, i64 %start, i64 %written)
  %undefined = icmp ne i32 %ok, 0
  br i1 %undefined, label %fail, label %data1
data1:
{fast_load}
{
        loop(f'''
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
{found(total)}
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
        loop(f'''
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


def written(total: int) -> str:
    """Whether ``total`` bytes of each lane are written, and that they are from now on."""
    n = total * 8
    return f"""
define i32 @ws_written_{total}(ptr %addresses, i32 %mask, i64 %start, i64 %written) {{
entry:
  br label %one
{
        loop(f'''
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
        loop(f'''
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

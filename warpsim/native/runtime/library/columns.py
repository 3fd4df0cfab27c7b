"""Loads and stores of shared and local memory, which has a column for each CTA or thread."""

from __future__ import annotations

from warpsim.native.runtime.context import BAD_ACCESS, LOG_FULL
from warpsim.native.runtime.library.places import loop

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


def found_words(total: int) -> str:
    """The words of a space that hold ``total`` bytes of every lane. Goes to ``done`` where there is no lane."""
    return f"""
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


def words(size: int, count: int) -> str:
    """``ws_load_words_…`` and ``ws_store_words_…`` of ``count`` elements of ``size`` bytes."""
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
    return f"""
define internal i32 @ws_check_words_{size}_{count}(ptr %addresses, i32 %mask, ptr %cols, ptr %written, i64 %n_columns) {{
entry:
  br label %one
{loop(column + check + "  br label %step")}
fail:
  ret i32 {BAD_ACCESS}
done:
  ret i32 0
}}

define i32 @ws_load_words_{size}_{count}(ptr %ctx, ptr %space, ptr %addresses, i32 %mask, ptr %cols, ptr %out, ptr %range) {{
entry:
{"  %offsets = alloca [32 x i32], align 64" if size == 4 else ""}
{found_words(total)}
  br i1 %untracked, label %quick, label %look
look:
  %ok = call i32 @ws_check_words_{size}_{count}(ptr %addresses, i32 %mask, ptr %cols, ptr %written, i64 %n_columns)
  %undefined = icmp ne i32 %ok, 0
  br i1 %undefined, label %fail, label %quick
quick:
{_quick(count) if size == 4 else "  br label %one"}
{loop(column + load + "  br label %step")}
done:
  ret i32 0
}}

define i32 @ws_store_words_{size}_{count}(ptr %ctx, ptr %space, ptr %addresses, i32 %mask, ptr %cols, ptr %values, ptr %range) {{
entry:
{found_words(total)}
  br label %one
{loop(column + store + "  br label %step")}
full:
  ret i32 {LOG_FULL}
done:
  ret i32 0
}}
"""

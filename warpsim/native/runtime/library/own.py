"""Loads and stores of a copy of shared memory that the CTA has alone."""

from __future__ import annotations

from warpsim.native.runtime.context import BAD_ACCESS, word

# ---- shared memory that a CTA has alone ----------------------------------------------------------
# In a row, with marks of what is written beside it (or null). Nothing is logged: the copy is thrown away.


def each(body: str) -> str:
    """``body`` for every lane of the mask; begins at ``one``, ends at ``done``; ``body`` ends by a jump to ``step``."""
    return f"""
one:
  br label %loop
loop:
  %left = phi i32 [ %mask, %one ], [ %fewer, %step ]
  %none_left = icmp eq i32 %left, 0
  br i1 %none_left, label %done, label %lane
lane:
  %i32 = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %i = zext i32 %i32 to i64
  %lower = sub i32 %left, 1
  %fewer = and i32 %left, %lower
  %pa = getelementptr i64, ptr %addresses, i64 %i
  %a = load i64, ptr %pa
{body}
step:
  br label %loop
"""


def own(size: int, count: int) -> str:
    """``ws_own_load_…`` and ``ws_own_store_…`` of ``count`` elements of ``size`` bytes."""
    total, n = size * count, size * 8
    load = store = ""
    for k in range(count):
        place = f"""
  %q{k} = getelementptr i8, ptr %p, i64 {k * size}
  %o{k} = getelementptr i8, ptr %values, i64 {k * 32 * size}
  %e{k} = getelementptr i{n}, ptr %o{k}, i64 %i
"""
        load += f"{place}  %v{k} = load i{n}, ptr %q{k}, align {size}\n  store i{n} %v{k}, ptr %e{k}\n"
        store += f"{place}  %v{k} = load i{n}, ptr %e{k}\n  store i{n} %v{k}, ptr %q{k}, align {size}\n"
    find = f"""
  %span = alloca i64, align 16
  %none = icmp eq i32 %mask, 0
  br i1 %none, label %nobody, label %some
nobody:
  ret i32 0
some:
  %status = call i32 @ws_reach(ptr %addresses, i32 %mask, i64 {total}, ptr %range, ptr %span)
  %odd = icmp ne i32 %status, 0
  br i1 %odd, label %fail, label %aligned
fail:
  ret i32 {BAD_ACCESS}
aligned:
{word("shared_words", "ptr")}{word("shared_size")}{word("shared_written", "ptr")}
  %end = load i64, ptr %span
  %out_of = icmp sgt i64 %end, %shared_size
  %untracked = icmp eq ptr %shared_written, null
  br i1 %out_of, label %fail, label %one
"""
    place = "  %p = getelementptr i8, ptr %shared_words, i64 %a\n"
    mark = f"  %w = getelementptr i8, ptr %shared_written, i64 %a\n  %m = load i{8 * total}, ptr %w, align {size}\n"
    return f"""
define i32 @ws_own_load_{size}_{count}(ptr %ctx, ptr %addresses, i32 %mask, ptr %values, ptr %range) {{
entry:
{find}
{
        each(f'''
{place}
  br i1 %untracked, label %take, label %look
look:
{mark}
  %whole = icmp eq i{8 * total} %m, -1
  br i1 %whole, label %take, label %fail
take:
{load}
  br label %step
''')
    }
done:
  ret i32 0
}}

define i32 @ws_own_store_{size}_{count}(ptr %ctx, ptr %addresses, i32 %mask, ptr %values, ptr %range) {{
entry:
{find}
{
        each(f'''
{place}
{store}
  br i1 %untracked, label %step, label %note
note:
  %w = getelementptr i8, ptr %shared_written, i64 %a
  store i{8 * total} -1, ptr %w, align {size}
  br label %step
''')
    }
done:
  ret i32 0
}}
"""


CLEAN = """
define i64 @ws_clean(ptr %marks, i64 %from, i64 %size) {
entry:
  %none = icmp eq ptr %marks, null
  br i1 %none, label %all, label %test
all:
  ret i64 %size
test:
  %at = phi i64 [ %from, %entry ], [ %on, %many ], [ %next, %more ]
  %over = icmp uge i64 %at, %size
  br i1 %over, label %all, label %look
look:
  %p = getelementptr i8, ptr %marks, i64 %at
  %on = add i64 %at, 64
  %beyond = icmp ugt i64 %on, %size
  br i1 %beyond, label %few, label %many
many:
  %v = load <8 x i64>, ptr %p, align 1
  %both = call i64 @llvm.vector.reduce.and.v8i64(<8 x i64> %v)
  %full = icmp eq i64 %both, -1
  br i1 %full, label %test, label %few
few:
  %v1 = load i8, ptr %p
  %good = icmp eq i8 %v1, -1
  br i1 %good, label %more, label %end
more:
  %next = add i64 %at, 1
  br label %test
end:
  ret i64 %at
}

declare i64 @llvm.vector.reduce.and.v8i64(<8 x i64>)
"""
"""How far memory is written from the beginning on."""

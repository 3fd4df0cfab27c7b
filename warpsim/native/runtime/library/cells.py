"""The places of the elements that atomics change."""

from __future__ import annotations

from warpsim.native.runtime.context import LOG_FULL
from warpsim.native.runtime.library.allocations import found
from warpsim.native.runtime.library.columns import found_words
from warpsim.native.runtime.library.places import loop

# ---- one cell of an atomic ------------------------------------------------------------------------
# `ws_cells` fills in the host address of each lane's element and logs what is there.


def cells(size: int) -> str:
    """``ws_cells_…`` fills in the host address of each lane's element and logs what is there."""
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
    looked = f"""
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
    shared_cells = (
        ""
        if size > 4
        else f"""
define i32 @ws_word_cells_{size}(ptr %ctx, ptr %space, ptr %addresses, i32 %mask, ptr %cols, ptr %cells, ptr %range) {{
entry:
{found_words(size)}
  br label %one
{loop(looked)}
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
{found(size)}
  %pro = getelementptr i64, ptr %where, i64 4
  %locked = load i64, ptr %pro
  %wrong = icmp ne i64 %locked, 0
  %closed = or i1 %wrong, %tracked
  br i1 %closed, label %fail, label %one
{loop(check)}
full:
  ret i32 {LOG_FULL}
done:
  ret i32 0
}}
{shared_cells}"""

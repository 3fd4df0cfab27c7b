"""The log of what units have stored, by which it is taken back, and known."""

from __future__ import annotations

from warpsim.native.runtime.context import LOG_FULL, word

# ---- the log --------------------------------------------------------------------------------------
# Entries: what was there (in whole words), the address, the number of bytes; walked from the end.

_NOTE = f"""
define i32 @ws_log(ptr %ctx, i64 %address, i64 %nbytes) {{
entry:
{word("log", "ptr")}{word("log_size")}{word("log_used")}
  %up = add i64 %nbytes, 7
  %payload = and i64 %up, -8
  %more = add i64 %payload, 16
  %after = add i64 %log_used, %more
  %over = icmp ugt i64 %after, %log_size
  br i1 %over, label %full, label %fits
full:
  ret i32 {LOG_FULL}
fits:
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
"""


def _walk(head: str, each: str, last: str) -> str:
    """A function that does ``each`` for every entry (its ``%address``, its ``%nbytes``, and what was there at ``%from``), and then
    ``last``; ``each`` ends by jumps to ``next``."""
    return f"""
define i32 {head} {{
entry:
{word("log", "ptr")}{word("log_used")}
  br label %test
test:
  %used = phi i64 [ %log_used, %entry ], [ %before, %next ]
  %done = icmp eq i64 %used, 0
  br i1 %done, label %end, label %look
look:
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
{each}
next:
  br label %test
end:
{last}
}}
"""


_ROLLBACK = _walk(
    "@ws_rollback(ptr %ctx)",
    """
  %to = inttoptr i64 %address to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %nbytes, i1 false)
  br label %next
""",
    """
  store i64 0, ptr %p.log_used
  ret i32 0
""",
)
_BETWEEN = """
  %behind = icmp sge i64 %address, %first
  %ahead = icmp slt i64 %address, %last
  %here = and i1 %behind, %ahead
  br i1 %here, label %mark, label %next
mark:
  %place = sub i64 %address, %first
"""
"""Of entries that begin between two addresses: where their marks begin."""
_STORED = _walk(
    "@ws_stored(ptr %ctx, i64 %first, i64 %last, ptr %marks)",
    f"""
{_BETWEEN}
  %to = getelementptr i8, ptr %marks, i64 %place
  switch i64 %nbytes, label %many [ i64 4, label %four
                                    i64 8, label %eight ]
four:
  store i32 16843009, ptr %to, align 1
  br label %next
eight:
  store i64 72340172838076673, ptr %to, align 1
  br label %next
many:
  call void @llvm.memset.p0.i64(ptr %to, i8 1, i64 %nbytes, i1 false)
  br label %next
""",
    "  ret i32 0",
)
_DISTINCT = _walk(
    "@ws_distinct(ptr %ctx, i64 %first, i64 %last, ptr %marks)",
    f"""
{_BETWEEN}
  br label %byte
byte:
  %k = phi i64 [ 0, %mark ], [ %k1, %new ]
  %spot = add i64 %place, %k
  %to = getelementptr i8, ptr %marks, i64 %spot
  %old = load i8, ptr %to
  %twice = icmp ne i8 %old, 0
  br i1 %twice, label %bad, label %new
new:
  store i8 1, ptr %to
  %k1 = add i64 %k, 1
  %over = icmp eq i64 %k1, %nbytes
  br i1 %over, label %next, label %byte
bad:
  ret i32 0
""",
    "  ret i32 1",
)
LOG = _NOTE + _ROLLBACK + _STORED + _DISTINCT

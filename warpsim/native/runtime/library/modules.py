"""The modules of LLVM's text that helpers lie in."""

from __future__ import annotations

from warpsim.native.runtime.library.allocations import globally, written
from warpsim.native.runtime.library.cells import cells
from warpsim.native.runtime.library.columns import words
from warpsim.native.runtime.library.lanes import SPREAD, directed, live, permute, table
from warpsim.native.runtime.library.log import LOG
from warpsim.native.runtime.library.own import CLEAN, own
from warpsim.native.runtime.library.places import FIND, MEMO, REACH, SPAN

COMMON = """
declare i32 @llvm.cttz.i32(i32, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.vector.reduce.smin.v32i64(<32 x i64>)
declare i64 @llvm.vector.reduce.smax.v32i64(<32 x i64>)
declare i64 @llvm.vector.reduce.or.v32i64(<32 x i64>)
"""
USED = {
    "ws_log": "declare i32 @ws_log(ptr, i64, i64)\n",
    "ws_written": "declare i32 @ws_written_{n}(ptr, i32, i64, i64)\n",
    "ws_mark": "declare i32 @ws_mark_{n}(ptr, ptr, i32, i64, i64)\n",
}


def module_of(name: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The module that a helper lies in: its text, the helpers in it, and those that it calls."""
    *stems, last = name.split("_")[1:]
    kind = "_".join(stems) if last.isdigit() else name[3:]
    if kind in ("log", "rollback", "stored", "distinct"):
        return COMMON + LOG, ("ws_log", "ws_rollback", "ws_stored", "ws_distinct"), ()
    simple = {"spread": SPREAD, "clean": CLEAN, "memo": COMMON + FIND + MEMO}
    if kind in simple:
        return simple[kind], (name,), ()
    n = int(last)
    if kind in ("permute", "table"):
        return (permute if kind == "permute" else table)(n), (name,), ()
    if stems[0] == "rounded":
        return directed(stems[1], stems[2], n), (name,), ()
    if kind in ("live", "out"):
        return live(n), (f"ws_live_{n}", f"ws_out_{n}"), ()
    if kind in ("written", "mark"):
        return COMMON + USED["ws_log"] + written(n), (f"ws_written_{n}", f"ws_mark_{n}"), ("ws_log",)
    if kind in ("cells", "word_cells"):
        made = (f"ws_cells_{n}", f"ws_word_cells_{n}") if n <= 4 else (f"ws_cells_{n}",)
        return COMMON + USED["ws_log"] + SPAN + FIND + REACH + cells(n), made, ("ws_log",)
    size = int(stems.pop())
    if stems[0] == "own":
        made = (f"ws_own_load_{size}_{n}", f"ws_own_store_{size}_{n}")
        return COMMON + REACH + own(size, n), made, ()
    kind, total = "_".join(stems), size * n
    if kind in ("load", "store"):
        text = COMMON + USED["ws_log"] + USED["ws_written"].format(n=total) + USED["ws_mark"].format(n=total)
        made = (f"ws_load_{size}_{n}", f"ws_store_{size}_{n}")
        return text + SPAN + FIND + globally(size, n), made, ("ws_log", f"ws_written_{total}")
    text = COMMON + USED["ws_log"] + REACH + words(size, n)
    return text, (f"ws_load_words_{size}_{n}", f"ws_store_words_{size}_{n}"), ("ws_log",)

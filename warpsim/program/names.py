"""Names that PTX itself defines: special registers, opcodes."""

from __future__ import annotations

_THREE = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
_PLAIN32 = ["laneid", "warpid", "nwarpid", "smid", "nsmid", "lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt", "clock", "clock_hi", "cluster_ctarank", "cluster_nctarank", "globaltimer_lo", "globaltimer_hi", "total_smem_size", "aggr_smem_size", "dynamic_smem_size", "reserved_smem_offset_begin", "reserved_smem_offset_end", "reserved_smem_offset_cap", "reserved_smem_offset_0", "reserved_smem_offset_1", "gridid"]
SPECIALS: dict[str, str] = {
    **{f"{name}.{c}": "u32" for name in _THREE for c in "xyzw"},
    **dict.fromkeys(_PLAIN32, "u32"),
    **dict.fromkeys(("clock64", "globaltimer", "current_graph_exec"), "u64"),
    **{f"envreg{i}": "b32" for i in range(32)},
    **{f"pm{i}": "u32" for i in range(8)},
    **{f"pm{i}_64": "u64" for i in range(8)},
    "is_explicit_cluster": "pred",
    "gridid": "u64",
}
"""Type of every special register, by its name without the percent sign."""

OPCODES = frozenset(
    ["abs", "activemask", "add", "addc", "alloca", "and", "applypriority", "atom", "bar", "barrier", "bfe", "bfi", "bfind", "bmsk", "bra", "brev", "brkpt", "brx", "call", "clusterlaunchcontrol", "clz", "cnot", "copysign", "cos", "cp", "createpolicy", "cvt", "cvta", "discard", "div", "dp2a", "dp4a", "elect", "ex2", "exit", "fence", "fma", "fns", "getctarank", "griddepcontrol", "isspacep", "istypep", "ld", "ldmatrix", "ldu", "lg2", "lop3", "mad", "mad24", "madc", "mapa", "match", "max", "mbarrier", "membar", "min", "mma", "mov", "movmatrix", "mul", "mul24", "multimem", "nanosleep", "neg", "not", "or", "pmevent", "popc", "prefetch", "prefetchu", "prmt", "rcp", "red", "redux", "rem", "ret", "rsqrt", "sad", "selp", "set", "setmaxnreg", "setp", "shf", "shfl", "shl", "shr", "sin", "slct", "sqrt", "st", "stackrestore", "stacksave", "stmatrix", "sub", "subc", "suld", "suq", "sured", "sust", "szext", "tanh", "tcgen05", "tensormap", "testp", "tex", "tld4", "trap", "txq", "vabsdiff", "vabsdiff2", "vabsdiff4", "vadd", "vadd2", "vadd4", "vavrg2", "vavrg4", "vmad", "vmax", "vmax2", "vmax4", "vmin", "vmin2", "vmin4", "vote", "vset", "vset2", "vset4", "vshl", "vshr", "vsub", "vsub2", "vsub4", "wgmma", "wmma", "xor"]
)
"""Every opcode root of PTX, whether or not this version runs it."""

ELSEWHERE: dict[str, frozenset[str]] = {
    root: frozenset(words.split())
    for root, words in {
        "add": "cc f32x2 noftz",
        "barrier": "cluster",
        "cp": "bulk reduce tensor mbarrier prefetch",
        "cvt": "pack rs e4m3x2 e5m2x2 e4m3x4 e5m2x4 e2m1x2 e2m1x4 e2m3x2 e3m2x2 e2m3x4 e3m2x4 ue8m0x2 tf32 scaled",
        "fence": "proxy mbarrier_init sync_restrict::shared::cta sync_restrict::shared::cluster",
        "fma": "f32x2 oob",
        "ld": "unified",
        "mad": "cc",
        "mul": "f32x2",
        "prefetch": "tensormap",
        "red": "async",
        "redux": "f32",
        "set": "f16x2 bf16x2",
        "setp": "f16x2 bf16x2",
        "st": "async bulk",
        "sub": "cc f32x2",
    }.items()
}
"""Modifiers that PTX has for an opcode, whether or not this version runs them."""

BUILTINS = frozenset(("vprintf", "malloc", "free", "__assertfail", "__assert_fail"))
"""Functions that the system provides."""

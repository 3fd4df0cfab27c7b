"""Names that PTX itself defines: special registers and system functions."""

from __future__ import annotations

_THREE = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
_PLAIN32 = [
    "laneid",
    "warpid",
    "nwarpid",
    "smid",
    "nsmid",
    "lanemask_eq",
    "lanemask_le",
    "lanemask_lt",
    "lanemask_ge",
    "lanemask_gt",
    "clock",
    "clock_hi",
    "cluster_ctarank",
    "cluster_nctarank",
    "globaltimer_lo",
    "globaltimer_hi",
    "total_smem_size",
    "aggr_smem_size",
    "dynamic_smem_size",
    "reserved_smem_offset_begin",
    "reserved_smem_offset_end",
    "reserved_smem_offset_cap",
    "reserved_smem_offset_0",
    "reserved_smem_offset_1",
    "gridid",
]
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
"""The type of every special register, by name without the percent sign."""

SPECIAL_GATES: dict[str, tuple[int | None, tuple[int, int]]] = {
    **dict.fromkeys(("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"), (90, (7, 8))),
    **dict.fromkeys(("is_explicit_cluster", "cluster_ctarank", "cluster_nctarank"), (90, (7, 8))),
    **{f"reserved_smem_offset_{part}": (80, (7, 6)) for part in ("begin", "end", "cap", "0", "1")},
    "aggr_smem_size": (90, (8, 1)),
    "current_graph_exec": (None, (8, 0)),
}
"""Minimum target and PTX version of special registers that not every module has, by name without component."""

SPECIAL_WIDTHS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("tid", "ntid", "ctaid", "nctaid"), (16, 32)),
    "gridid": (16, 32, 64),
}
"""Widths in which a special register may be read, if there is more than one; by name without component."""

BUILTINS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "vprintf": ((8, 8), (4,)),
    "malloc": ((8,), (8,)),
    "free": ((8,), ()),
    "__assertfail": ((8, 8, 4, 8, 8), ()),
}
"""System functions, with the sizes in bytes of their parameters and results."""

"""Names that PTX itself defines: special registers, opcodes."""

from __future__ import annotations

_THREE = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
_PLAIN32 = (
    "laneid warpid nwarpid smid nsmid lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt clock clock_hi cluster_ctarank cluster_nctarank "
    "globaltimer_lo globaltimer_hi total_smem_size aggr_smem_size dynamic_smem_size reserved_smem_offset_begin reserved_smem_offset_end "
    "reserved_smem_offset_cap reserved_smem_offset_0 reserved_smem_offset_1 gridid"
).split()
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
    """abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra brev brkpt brx call clusterlaunchcontrol clz cnot
    copysign cos cp createpolicy cvt cvta discard div dp2a dp4a elect ex2 exit fence fma fns getctarank griddepcontrol isspacep istypep ld ldmatrix
    ldu lg2 lop3 mad mad24 madc mapa match max mbarrier membar min mma mov movmatrix mul mul24 multimem nanosleep neg not or pmevent popc prefetch
    prefetchu prmt rcp red redux rem ret rsqrt sad selp set setmaxnreg setp shf shfl shl shr sin slct sqrt st stackrestore stacksave stmatrix sub
    subc suld suq sured sust szext tanh tcgen05 tensormap testp tex tld4 trap txq vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad
    vmax vmax2 vmax4 vmin vmin2 vmin4 vote vset vset2 vset4 vshl vshr vsub vsub2 vsub4 wgmma wmma xor""".split()
)
"""Every opcode root of PTX, whether or not this version runs it."""

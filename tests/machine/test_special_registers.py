"""Special registers of every thread of a launch, against what the PTX ISA says of its place (chapter 10)."""

import itertools

import numpy as np
import pytest

import warpsim

AXES = "xyz"
OF_THREAD = ["tid.x", "tid.y", "tid.z", "ctaid.x", "ctaid.y", "ctaid.z", "laneid", "warpid"]
OF_THREAD += [f"lanemask_{kind}" for kind in ("eq", "lt", "le", "gt", "ge")]
OF_THREAD += [f"{name}.{axis}" for name in ("clusterid", "cluster_ctaid") for axis in AXES] + ["cluster_ctarank"]
OF_LAUNCH = [f"{name}.{axis}" for name in ("ntid", "nctaid", "nclusterid", "cluster_nctaid") for axis in AXES]
OF_LAUNCH += ["cluster_nctarank", "nwarpid", "nsmid", "dynamic_smem_size"]
ZERO = [f"{name}.w" for name in ("tid", "ctaid", "ntid", "nctaid", "clusterid", "cluster_ctaid")]
"""A fourth component is zero."""
SHAPES = [
    ((1, 1, 1), (35, 1, 1), None),
    ((6, 1, 1), (33, 2, 1), (2, 1, 1)),
    ((4, 6, 1), (4, 4, 1), (2, 3, 1)),
    ((4, 3, 6), (5, 3, 4), (2, 1, 2)),
    ((2, 2, 4), (1, 2, 3), (1, 2, 4)),
    ((3, 5, 2), (2, 1, 7), None),
]


def expected(grid, block, cluster):
    """What each thread of each CTA sees: a list for each CTA, of a list for each thread."""
    cluster = cluster or (1, 1, 1)
    full, found = 0xFFFFFFFF, []
    for z, y, x in itertools.product(*map(range, grid[::-1])):
        cta = x, y, z
        inner = tuple(c % n for c, n in zip(cta, cluster, strict=True))
        place = [*[c // n for c, n in zip(cta, cluster, strict=True)], *inner]
        place.append(inner[0] + cluster[0] * (inner[1] + cluster[1] * inner[2]))
        of_launch = [*block, *grid, *[g // n for g, n in zip(grid, cluster, strict=True)], *cluster]
        of_launch += [cluster[0] * cluster[1] * cluster[2], 64, 132, 48]
        for number, (k, j, i) in enumerate(itertools.product(*map(range, block[::-1]))):
            lane = number % 32
            below = (1 << lane) - 1
            masks = [1 << lane, below, below | 1 << lane, full & ~(below | 1 << lane), full & ~below]
            found.append([i, j, k, *cta, lane, number // 32, *masks, *place, *of_launch, *[0] * len(ZERO)])
    return found


@pytest.mark.parametrize("batch", [1 << 17, 64], ids=["at once", "in waves"])
@pytest.mark.parametrize(("grid", "block", "cluster"), SHAPES)
def test_every_thread(grid, block, cluster, batch):
    """Along every axis, in clusters and without, however many CTAs run at a time."""
    names = OF_THREAD + OF_LAUNCH + ZERO
    threads = block[0] * block[1] * block[2]
    body = "".join(f"mov.u32 v, %{name}; st.global.u32 [o+{4 * k}], v;\n" for k, name in enumerate(names))
    text = f""".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {{ .reg .b32 v, t, n; .reg .b64 o, a; .extern .shared .b8 room[];
ld.param.u64 o, [out];
mov.u32 t, %ctaid.z; mov.u32 n, %nctaid.y; mov.u32 v, %ctaid.y; mad.lo.u32 t, t, n, v; mov.u32 n, %nctaid.x; mov.u32 v, %ctaid.x;
mad.lo.u32 t, t, n, v;
mov.u32 n, %ntid.z; mov.u32 v, %tid.z; mad.lo.u32 t, t, n, v; mov.u32 n, %ntid.y; mov.u32 v, %tid.y; mad.lo.u32 t, t, n, v;
mov.u32 n, %ntid.x; mov.u32 v, %tid.x; mad.lo.u32 t, t, n, v;
mul.wide.u32 a, t, {4 * len(names)}; add.u64 o, o, a;
{body} ret; }}
"""
    text = text.replace(".extern .shared .b8 room[];", "").replace(
        ".visible", ".extern .shared .align 4 .b8 room[];\n.visible"
    )
    out = np.zeros((grid[0] * grid[1] * grid[2] * threads, len(names)), np.uint32)
    warpsim.load(text)["k"](
        grid, block, (out,), cluster=cluster, shared_mem=48, batch_threads=batch, device=warpsim.Device("sm_90")
    )
    wanted = np.array(expected(grid, block, cluster), np.uint32)
    for number, name in enumerate(names):
        assert out[:, number].tolist() == wanted[:, number].tolist(), name


@pytest.mark.parametrize(
    ("target", "warps"), [("sm_75", 32), ("sm_80", 64), ("sm_86", 48), ("sm_89", 48), ("sm_90", 64)]
)
def test_of_the_device(target, warps):
    """%nwarpid is the most warps of an SM (programming guide); a CTA's SM is one of those that there are; launches have numbers."""
    text = f""".version 8.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 out) {{ .reg .b32 v; .reg .b64 o, w; ld.param.u64 o, [out]; mov.u32 v, %ctaid.x; mul.wide.u32 w, v, 32; add.u64 o, o, w;
mov.u32 v, %smid; st.global.u32 [o], v; mov.u32 v, %nsmid; st.global.u32 [o+4], v; mov.u32 v, %nwarpid; st.global.u32 [o+8], v;
mov.u64 w, %gridid; st.global.u64 [o+16], w; ret; }}
"""
    out = np.zeros((200, 8), np.uint32)
    warpsim.load(text)["k"](200, 1, (out,), device=warpsim.Device(target))

    assert (out[:, 0] < out[:, 1]).all()
    assert len(set(out[:132, 0].tolist())) == 132
    assert set(out[:, 2].tolist()) == {warps}
    assert out[:, 4:6].any(axis=1).all()
    assert len({tuple(row) for row in out[:, 4:6].tolist()}) == 1


@pytest.mark.parametrize("cluster", [None, (1, 1, 1), (2, 1, 1)])
def test_explicit_clusters(cluster):
    """%is_explicit_cluster says whether the launch named one."""
    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) { .reg .b32 v; .reg .b64 o; .reg .pred p; ld.param.u64 o, [out];
mov.pred p, %is_explicit_cluster; selp.u32 v, 1, 2, p; st.global.u32 [o], v; ret; }
"""
    out = np.zeros(1, np.uint32)
    warpsim.load(text)["k"](2, 1, (out,), cluster=cluster)

    assert out[0] == (2 if cluster is None else 1)

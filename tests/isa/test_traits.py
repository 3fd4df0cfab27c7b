"""What others are told of an instruction."""

import pytest

from warpsim.isa import matching
from warpsim.isa.traits import (
    Access,
    Asynchronous,
    Barrier,
    Contraction,
    Ending,
    Family,
    Fence,
    Matrix,
    Mbarrier,
    Order,
    Stage,
)

TOLD = [
    ("bra.uni", {"ending": Ending.BRANCH, "leaves": False}),
    ("ret", {"ending": Ending.RETURN, "leaves": True}),
    (
        "ld.acquire.cluster.shared.u32",
        {"access": Access.LOAD, "polls": True, "spaces": ("shared",), "scope": "cluster"},
    ),
    ("ld.acquire.gpu.global.u32", {"order": Order(True, acquire=True, scope="gpu")}),
    ("ld.global.nc.f32", {"access": Access.LOAD, "polls": False, "order": Order()}),
    ("st.release.sys.global.u32", {"order": Order(True, release=True, scope="sys"), "stores": True}),
    ("atom.global.add.u32", {"access": Access.ATOMIC, "polls": True, "counts": True, "order": Order(True)}),
    ("atom.global.exch.b32", {"access": Access.ATOMIC, "polls": True, "counts": False}),
    ("multimem.ld_reduce.acquire.gpu.global.add.u32", {"polls": True, "order": Order(True, acquire=True, scope="gpu")}),
    ("multimem.ld_reduce.weak.global.add.u32", {"polls": False}),
    ("red.global.add.u32", {"access": Access.ATOMIC, "polls": False}),
    ("fence.acq_rel.cta", {"fence": Fence(), "order": Order(True, True, True, "cta")}),
    ("fence.proxy.async.shared::cta", {"fence": Fence("async"), "spaces": ("shared",)}),
    ("fence.mbarrier_init.release.cluster", {"fence": Fence(mbarrier_init=True)}),
    ("membar.gl", {"fence": Fence()}),
    ("bar.sync", {"barrier": Barrier("cta"), "aligned": True}),
    ("barrier.sync", {"barrier": Barrier("cta"), "aligned": False}),
    ("bar.red.popc.u32", {"barrier": Barrier("cta", reduction="popc"), "uniform": "cta"}),
    ("bar.arrive", {"barrier": Barrier("cta", waits=False)}),
    ("barrier.cluster.wait.aligned", {"barrier": Barrier("cluster", arrives=False), "aligned": True}),
    ("bar.warp.sync", {"barrier": Barrier("warp"), "aligned": False, "synchronises": True}),
    ("mbarrier.init.shared.b64", {"mbarrier": Mbarrier.INIT, "order": Order()}),
    ("mbarrier.arrive.expect_tx.shared.b64", {"mbarrier": Mbarrier.ARRIVE | Mbarrier.EXPECT}),
    ("mbarrier.arrive.shared.b64", {"order": Order(True, release=True)}),
    ("mbarrier.try_wait.parity.shared.b64", {"mbarrier": Mbarrier.WAIT, "order": Order(True, acquire=True)}),
    ("cp.async.ca.shared.global", {"asynchronous": Asynchronous(Family.CP_ASYNC)}),
    ("cp.async.bulk.commit_group", {"asynchronous": Asynchronous(Family.BULK, Stage.COMMIT)}),
    (
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group",
        {"asynchronous": Asynchronous(Family.BULK, grouped=True, tensor=True)},
    ),
    ("wgmma.wait_group.sync.aligned", {"asynchronous": Asynchronous(Family.WGMMA, Stage.WAIT), "matrix": None}),
    (
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
        {"matrix": Matrix.MULTIPLY, "multiplies": True},
    ),
    ("wmma.load.a.sync.aligned.row.m16n16k16.f16", {"matrix": Matrix.LOAD, "opaque_fragments": True}),
    ("movmatrix.sync.aligned.m8n8.trans.b16", {"matrix": Matrix.TRANSPOSE}),
    ("shfl.sync.idx.b32", {"shuffles": True, "synchronises": True}),
    ("activemask.b32", {"uniform": "warp", "synchronises": False}),
    ("add.s32", {"contraction": None}),
    ("add.ftz.sat.f32", {"contraction": Contraction.SUM}),
    ("add.rn.f32", {"contraction": None}),
    ("mul.sat.f32", {"contraction": None}),
    ("mov.b32", {"copies": True, "special_registers": True, "symbols": ""}),
    ("cvta.shared.u64", {"generic_address": True, "symbols": "shared"}),
    ("cvta.to.shared.u64", {"generic_address": True, "symbols": None}),
    ("tensormap.replace.tile.rank.global.b1024.b32", {"tensor_map": True}),
    ("setmaxnreg.inc.sync.aligned.u32", {"register_count": True}),
    ("stacksave.u64", {"moves_stack": False}),
]


@pytest.mark.parametrize(("text", "told"), TOLD, ids=[text for text, _ in TOLD])
def test_traits(text, told):
    """Every form that a spelling may be tells what the PTX manual says of it."""
    root, *modifiers = text.split(".")
    found = matching.candidates(root, tuple(modifiers))

    assert found
    for candidate in found:
        assert told == {name: getattr(candidate.traits, name) for name in told}

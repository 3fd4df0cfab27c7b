"""wmma programs whose results the layout of fragments must not change: any GPU, any order of memory."""

import itertools

import numpy as np
import pytest

import warpsim

KERNEL = """.version 8.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pd) {{
.reg .b64 q<3>; .reg .f16x2 a<8>, b<8>; .reg .f32 c<8>;
ld.param.u64 q0, [pa]; ld.param.u64 q1, [pb]; ld.param.u64 q2, [pd];
wmma.load.a.sync.aligned.{alayout}.m16n16k16.f16 {{a0,a1,a2,a3,a4,a5,a6,a7}}, [q0];
wmma.load.b.sync.aligned.{blayout}.m16n16k16.f16 {{b0,b1,b2,b3,b4,b5,b6,b7}}, [q1];
wmma.load.c.sync.aligned.{dlayout}.m16n16k16.f32 {{c0,c1,c2,c3,c4,c5,c6,c7}}, [q2];
wmma.mma.sync.aligned.{alayout}.{blayout}.m16n16k16.f32.f32
  {{c0,c1,c2,c3,c4,c5,c6,c7}}, {{a0,a1,a2,a3,a4,a5,a6,a7}}, {{b0,b1,b2,b3,b4,b5,b6,b7}}, {{c0,c1,c2,c3,c4,c5,c6,c7}};
wmma.store.d.sync.aligned.{dlayout}.m16n16k16.f32 [q2], {{c0,c1,c2,c3,c4,c5,c6,c7}};
ret; }}
"""


@pytest.mark.parametrize("target", ["sm_70", "sm_75", "sm_80"])
@pytest.mark.parametrize("layouts", list(itertools.product(("row", "col"), repeat=3)), ids="-".join)
def test_product(target, layouts):
    """D = A * B + C on small integers, whoever holds what."""
    rng = np.random.default_rng(7)
    a, b = rng.integers(-8, 9, (2, 16, 16)).astype(np.float16)
    c = rng.integers(-99, 99, (16, 16)).astype(np.float32)

    def stored(matrix, layout):
        return np.ascontiguousarray(matrix if layout == "row" else matrix.T)

    alayout, blayout, dlayout = layouts
    d = stored(c, dlayout).copy()
    text = KERNEL.format(target=target, alayout=alayout, blayout=blayout, dlayout=dlayout)
    warpsim.load(text)["k"]((1,), (32,), (stored(a, alayout), stored(b, blayout), d))
    expected = a.astype(np.float64) @ b.astype(np.float64) + c
    np.testing.assert_array_equal(stored(expected, dlayout), d)


def test_fragments_differ_by_device():
    """A V100 holds every element of A twice, an H100 once; lane 0 of a V100 has a whole row."""
    memory = np.arange(256, dtype=np.float16)
    code = "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {a0,a1,a2,a3,a4,a5,a6,a7}, [smem];"
    held = {}
    for target in ("sm_70", "sm_90"):
        found = warpsim.run(code, shared=memory, target=target).registers
        held[target] = np.stack([found[f"a{i}"] for i in range(8)], axis=1).view(np.float16)
    assert held["sm_70"][0].tolist() == list(range(16))
    assert held["sm_70"][0].tolist() == held["sm_70"][8].tolist()
    assert held["sm_90"][0].tolist() == [0, 1, 128, 129, 8, 9, 136, 137] * 2


@pytest.mark.parametrize(("version", "accepted"), [("6.2", False), ("6.3", True)])
def test_aligned_came_with_6_3(version, accepted):
    """The assembler knows wmma's .aligned from PTX 6.3 on, although the text says 6.0."""
    text = KERNEL.format(target="sm_70", alayout="row", blayout="col", dlayout="row").replace(
        ".version 8.0", f".version {version}"
    )
    if accepted:
        assert list(warpsim.load(text).kernels) == ["k"]
    else:
        with pytest.raises(warpsim.PtxError, match=r"6\.3"):
            warpsim.load(text)

"""Products on a device with ``numerics="ieee"``: exact sums, rounded once to the nearest, from every instruction that multiplies."""

import functools
import re

import numpy as np
import pytest

import warpsim
from warpsim.host import snippet

DENSE = [
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32",
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32",
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", "wmma.mma.sync.aligned.row.col.m32n8k16.f32.bf16.bf16.f32",
    "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32",
    "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16", "wgmma.mma_async.sync.aligned.m64n8k32.f32.e5m2.e4m3",
]  # fmt: skip
SPARSE = [
    "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32",
    "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16",
    "wgmma.mma_async.sp.sync.aligned.m64n8k64.f32.e4m3.e4m3",
]


@pytest.fixture
def ieee(monkeypatch):
    """Snippets run on such a device."""
    monkeypatch.setattr(snippet, "Device", functools.partial(warpsim.Device, numerics="ieee"))


def operands(instruction, sparse):
    """A (or what is stored of it), B and C: sums of theirs end behind the last bit of an f32."""
    m, n, k = map(int, re.search(r"\.m(\d+)n(\d+)k(\d+)\.", instruction).groups())
    rng = np.random.default_rng(k + n)
    a, b = rng.integers(-7, 8, (m, k // (1 + sparse))) / 4, rng.integers(-7, 8, (k, n)) / 4
    return a, b, ((1 << 20) + rng.integers(-9, 9, (m, n)) / 8).astype(np.float32)


@pytest.mark.usefixtures("ieee")
@pytest.mark.parametrize("instruction", DENSE)
def test_dense(instruction):
    """Every kind of operand."""
    a, b, c = operands(instruction, sparse=False)

    assert (warpsim.mma(instruction, a=a, b=b, c=c) == (a @ b + c).astype(np.float32)).all()


@pytest.mark.usefixtures("ieee")
@pytest.mark.parametrize("instruction", SPARSE)
def test_sparse(instruction):
    """A's stored elements are the second and the fourth of each four."""
    a, b, c = operands(instruction, sparse=True)
    full = np.zeros((a.shape[0], 2 * a.shape[1]))
    full[:, 1::2] = a
    e = np.full((a.shape[0], a.shape[1] // 2), 0b1101, np.uint8)

    assert (warpsim.mma(instruction, a=a, b=b, c=c, e=e) == (full @ b + c).astype(np.float32)).all()


def test_tensor_cores_do_otherwise():
    """They cut what an f32 does not hold."""
    a, b, c = operands(DENSE[0], sparse=False)

    assert (warpsim.mma(DENSE[0], a=a, b=b, c=c) != (a @ b + c).astype(np.float32)).any()

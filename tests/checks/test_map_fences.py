"""proxy-fence for tensor maps that a kernel changes: a release by the thread that did, and an acquire by each CTA."""

import numpy as np
import pytest

import warpsim

KERNEL = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 map)
{{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
.shared .align 128 .b8 tile[4096]; .shared .align 8 .b64 bar;
ld.param.u64 %rd1, [map]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, tile; mov.u32 %r3, bar;
mov.u32 %r4, 0; mov.u32 %r5, 0;
@%p1 mbarrier.init.shared.b64 [%r3], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;
{lines}
ret;
}}
"""
RELEASE = "@%p1 fence.proxy.tensormap::generic.release.gpu; bar.sync 0;"
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128; bar.sync 0;"
CHANGE = "@%p1 tensormap.replace.tile.fill_mode.global.b1024.b32 [%rd1], {}; bar.sync 0;"


def use(phase):
    """Copy a box by the map, and wait for it."""
    return (
        "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 4096; @%p1 cp.async.bulk.tensor.2d.shared::cluster.global"
        ".mbarrier::complete_tx::bytes [%r2], [%rd1, {%r4, %r5}], [%r3];"
        f"W{phase}: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], {phase & 1}; @!%p3 bra W{phase}; bar.sync 0;"
    )


def found(lines, grid):
    """(line of the use, line of the change, first CTA that should not have used it, times) of each finding, lines counted from 0."""
    device = warpsim.Device("sm_90a")
    tensor = device.array(np.zeros((32, 32), np.float32))
    made = warpsim.TensorMap(tensor, global_dim=[32, 32], global_strides=[128], box_dim=[32, 32])
    map = device.array(np.tile(np.frombuffer(made.encode(tensor.ptr), np.uint8), grid))
    result = warpsim.load(KERNEL.format(lines="\n".join(lines)))["k"](
        grid, 32, (map,), checks="proxy-fence", on_finding="collect", device=device
    )
    first = KERNEL.split("{lines}")[0].count("\n") + 1
    changes = [f for f in result.findings if "tensor map" in f.message]
    return [(f.line - first, f.other.line - first, f.cta[0], f.count) for f in changes]


@pytest.mark.parametrize("grid", [1, 3])
def test_each_change_needs_its_own_fences(grid):
    """A use that was right does not excuse the next one, after another change."""
    fenced = [CHANGE.format(1), RELEASE, ACQUIRE, use(0), use(1)]
    again = CHANGE.format(0)

    assert found(fenced, grid) == []
    assert found([*fenced, again, use(2)], grid) == [(6, 5, 0, 1)]
    assert found([*fenced, again, ACQUIRE, use(2)], grid) == [(7, 5, 0, 1)]
    assert found([*fenced, again, RELEASE, use(2)], grid) == [(7, 5, 0, 1)]
    assert found([*fenced, again, RELEASE, ACQUIRE, use(2), use(3)], grid) == []


def test_each_cta_acquires():
    """What one CTA has acquired, another has not."""
    one = "mov.u32 %r6, %ctaid.x; setp.eq.u32 %p2, %r6, 0; @%p2 " + ACQUIRE

    assert found([CHANGE.format(1), RELEASE, one, use(0)], 1) == []
    assert found([CHANGE.format(1), RELEASE, one, use(0)], 3) == [(3, 0, 1, 1)]


def test_maps_of_each_cta():
    """Copies of one step may use several maps, each with changes of its own."""
    own = "mov.u32 %r6, %ctaid.x; mul.wide.u32 %rd2, %r6, 128; add.u64 %rd1, %rd1, %rd2; setp.eq.u32 %p2, %r6, 1;"
    change = CHANGE.format(1).replace("@%p1", "@%p0")
    of_one = f"and.pred %p0, %p1, %p2; {change}"

    assert found([own, of_one, use(0)], 3) == [(2, 1, 1, 1)]
    assert found([own, of_one, RELEASE, ACQUIRE, use(0)], 3) == []

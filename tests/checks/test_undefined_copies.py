"""uninitialised: undefined bytes travel with every asynchronous kind of copy, whenever it lands, and are met where it lands."""

import numpy as np
import pytest

import warpsim

BYTES = "mbarrier::complete_tx::bytes"
KERNEL = """.version 8.7\n.target sm_90a\n.address_size 64
.visible .entry k(.param .u64 source, .param .u64 out, .param .align 64 .b8 map[128])
{
    .reg .b32 %r<40>; .reg .b64 %rd<9>; .reg .pred %p<3>;
    .shared .align 128 .b8 tile[2048]; .shared .align 8 .b64 object;
    ld.param.u64 %rd1, [source]; ld.param.u64 %rd2, [out]; mov.u32 %r1, tile; mov.u32 %r2, object; cvta.param.u64 %rd3, map;
    mapa.shared::cluster.u32 %r5, %r1, 0; mapa.shared::cluster.u32 %r6, %r2, 0; mov.u32 %r7, 7; mov.u32 %r8, 0;
    st.shared.v4.b32 [%r1+512], {%r7, %r7, %r7, %r7};
    mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster; fence.proxy.async;
    COPY
    ld.shared.b32 %r9, [%r1+1024];
    st.global.b32 [%rd2], %r9;
    ret;
}
"""
LINE = 14
"""Where what has landed matters."""
WAIT = "WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra WAIT;"
CLEARED = "st.shared.v4.b32 [%r1+1024], {%r8, %r8, %r8, %r8}; fence.proxy.async; "


def counted(nbytes, copy):
    """A copy that counts at the mbarrier, and a wait for it."""
    return f"mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {nbytes}; {copy} {WAIT}"


COPIES = {
    "cp.async": ("cp.async.ca.shared.global [%r1+1024], [%rd1], 4; cp.async.wait_all;", None),
    "cp.async to an mbarrier": (
        f"cp.async.ca.shared.global [%r1+1024], [%rd1], 4; cp.async.mbarrier.arrive.noinc.shared.b64 [%r2]; {WAIT}",
        None,
    ),
    "st.async": (counted(4, f"st.async.shared::cluster.{BYTES}.b32 [%r5+1024], %r30, [%r6];"), ("%r30", "%r7")),
    "st.async of a vector": (
        counted(8, f"st.async.shared::cluster.{BYTES}.v2.b32 [%r5+1024], {{%r30, %r7}}, [%r6];"),
        ("%r30", "%r7"),
    ),
    "red.async": (
        CLEARED
        + counted(4, f"red.async.relaxed.cluster.shared::cluster.{BYTES}.add.u32 [%r5+1024], %r30, [%r6];"),
        ("%r30", "%r7"),
    ),
    "from global memory": (counted(32, f"cp.async.bulk.shared::cluster.global.{BYTES} [%r1+1024], [%rd1], 32, [%r2];"), None),
    "from shared memory": (
        counted(16, f"cp.async.bulk.shared::cluster.shared::cta.{BYTES} [%r5+1024], [%r1], 16, [%r6];"),
        ("[%r1]", "[%r1+512]"),
    ),
    "a reduction": (
        CLEARED
        + counted(16, f"cp.reduce.async.bulk.shared::cluster.shared::cta.{BYTES}.add.u32 [%r5+1024], [%r1], 16, [%r6];"),
        ("[%r1]", "[%r1+512]"),
    ),
    "a box": (
        counted(64, f"cp.async.bulk.tensor.1d.shared::cluster.global.{BYTES} [%r1+1024], [%rd3, {{%r8}}], [%r2];"),
        None,
    ),
}  # fmt: skip
"""A copy of undefined bytes, and what in it to replace so that they are defined; None where its source is global memory."""


def launched(copy, defined, effects):
    """Rule and line of each finding that is no note."""
    module = warpsim.load(KERNEL.replace("COPY", copy))
    source = module.device.empty((64,), np.uint32)
    if defined:
        source.set(np.arange(64, dtype=np.uint32))
    map = warpsim.TensorMap(source, data_type="UINT32", global_dim=(64,), global_strides=(), box_dim=(16,))
    result = module["k"](1, 1, (source, np.zeros(1, np.uint32), map), on_finding="collect", async_effects=effects)
    return [(f.rule, f.line) for f in result.findings if f.severity != "note"]


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize("name", COPIES)
def test_undefined_bytes_travel(name, effects):
    """What nobody wrote is undefined where it lands; what somebody wrote is not."""
    copy, mended = COPIES[name]

    assert launched(copy, mended is not None, effects) == [("uninitialised", LINE)]
    assert launched(copy.replace(*mended) if mended else copy, True, effects) == []


@pytest.mark.parametrize(
    "instruction", ["red.shared.add.u32 [%r1+1024], %r30;", "atom.shared.max.u32 %r31, [%r1+1024], %r30;"]
)
def test_an_atomic_leaves_what_it_combines(instruction):
    """Shared memory is undefined with an operand that it was combined with."""
    assert launched(CLEARED + instruction, True, "eager") == [("uninitialised", LINE)]
    assert launched(CLEARED + instruction.replace("%r30", "%r7"), True, "eager") == []

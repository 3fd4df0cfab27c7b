"""Bulk copies that a GPU would refuse, in launches that go on: each is named, and leaves memory as it was; the others are made."""

import numpy as np
import pytest

import warpsim

TEXT = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb)
{{
.reg .b32 t, s, n, v; .reg .b64 a, b, e, w; .reg .pred p, q; .shared .align 128 .b8 room[256]; .shared .align 8 .b64 bar;
ld.param.u64 a, [pa]; ld.param.u64 b, [pb]; mov.u32 t, %tid.x; mov.u32 s, room; shl.b32 n, t, 2; add.u32 s, s, n;
st.shared.u32 [s], n; mov.u32 s, room; mov.u32 n, {size}; setp.eq.u32 p, t, 0;
@p mbarrier.init.shared.b64 [bar], 1; fence.proxy.async; bar.sync 0;
setp.lt.u32 q, t, 2; setp.eq.u32 p, t, 1; @p add.u64 a, a, {far}; @p add.u64 b, b, {far}; @p add.u32 s, s, {away}; @p mov.u32 n, {other};
{copy}
bar.sync 0; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; bar.sync 0; ret;
}}
"""
LOAD = "@q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [a], n, [bar];"
STORE = "@q cp.async.bulk.global.shared::cta.bulk_group [b], [s], n;"
ADD = "@q cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [b], [s], n;"
ACROSS = "@q cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [s], [room], n, [bar];".replace("[room]", "[e]")  # fmt: skip


def launch(copy, *, size=16, far=32, away=32, other=16, locked=False, effects="eager"):
    """Threads 0 and 1 copy 16 bytes each, thread 1 from and to elsewhere; gives findings and the array b."""
    a, b = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    b.flags.writeable = not locked
    text = TEXT.format(copy=copy, size=size, far=far, away=away, other=other)
    found = warpsim.load(text)["k"](1, 64, (a, b), checks="none", on_finding="collect", async_effects=effects).findings
    return [(f.rule, f.lanes) for f in found], b.tolist(), [f.message for f in found]


def stored(*places):
    """What b holds: from each place (in words) four words of shared memory from another."""
    found = [0] * 64
    for place, word in places:
        found[place : place + 4] = [4 * (word + k) for k in range(4)]
    return found


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize("copy", [STORE, ADD], ids=["store", "add"])
@pytest.mark.parametrize(
    ("wrong", "rule", "said"),
    [
        ({}, None, ""),
        ({"other": 0}, None, ""),
        ({"other": 8}, "misaligned", "; addresses and size must be multiples of 16"),
        ({"other": 24}, "misaligned", "a bulk copy of 24 bytes"),
        ({"far": 8}, "misaligned", "a bulk copy of 16 bytes"),
        ({"away": 4}, "misaligned", "a bulk copy of 16 bytes"),
        ({"far": 256 - 16}, None, ""),
        ({"far": 256}, "out-of-bounds", "access of 16 bytes at address"),
        ({"far": 1 << 40}, "out-of-bounds", "access of 16 bytes at address"),
        ({"far": -16}, "out-of-bounds", "access of 16 bytes at address"),
        ({"away": 1 << 20}, "out-of-bounds", "a bulk copy of 16 bytes leaves the"),
    ],
)
def test_stores(copy, effects, wrong, rule, said):
    """A run that lies elsewhere or is no multiple of 16 bytes is not copied; that of the other thread is, where it alone is right."""
    found, b, messages = launch(copy, effects=effects, **wrong)
    places = [(0, 0)]
    if rule is None and wrong.get("other") != 0:
        places.append((wrong.get("far", 32) // 4, 8))
    if "away" in wrong and rule == "out-of-bounds":  # one copy instruction of one size is refused as a whole
        places = []

    assert [r for r, _ in found] == ([rule] if rule else [])
    assert all(said in m for m in messages)
    assert b == stored(*places) or (rule == "misaligned" and wrong.get("other", 16) == 16 and b == stored())


@pytest.mark.parametrize("copy", [STORE, LOAD], ids=["store", "load"])
def test_a_cta_that_is_not_in_the_cluster(copy):
    """The bits above an address name a CTA of the cluster, of which there is one."""
    found, _, messages = launch(copy, away=0x4000000)

    assert [r for r, _ in found] == ["out-of-bounds"]
    assert messages == ["rank 4 is not in the cluster"]


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_what_is_read_only(effects):
    """Memory that nobody may write keeps its bytes."""
    found, b, messages = launch(STORE, locked=True, effects=effects)

    assert {r for r, _ in found} == {"read-only"}
    assert b == [0] * 64
    assert "which is read-only" in messages[0]


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({}, None),
        ({"far": 256 - 16}, None),
        ({"far": 256}, "out-of-bounds"),
        ({"away": 1 << 20}, "out-of-bounds"),
        ({"away": 256 - 16}, None),
        ({"away": 4}, "misaligned"),
        ({"other": 4}, "misaligned"),
    ],
)
def test_loads(effects, wrong, rule):
    """The same for copies to shared memory; where a source is nowhere, zeros arrive, if anything."""
    wait = "W: mbarrier.test_wait.parity.shared.b64 p, [bar], 0; @!p bra W;"
    arrive = "setp.eq.u32 p, t, 0; @p mbarrier.arrive.expect_tx.shared.b64 e, [bar], 32;"
    show = "shl.b32 n, t, 2; mov.u32 s, room; add.u32 s, s, n; ld.shared.u32 v, [s]; cvt.u64.u32 w, n; ld.param.u64 b, [pb]; add.u64 b, b, w; st.global.u32 [b], v;"
    passes = rule is None
    copy = f"{arrive} {LOAD} {wait if passes else ''} bar.sync 0; {show}"
    found, b, _ = launch(copy, effects=effects, **wrong)

    late = effects == "at_wait" and wrong == {"far": 256}  # nobody waits for it, so that it need not act
    assert [r for r, _ in found] == ([rule] if rule and not late else [])
    if passes:
        wanted = [4 * k for k in range(64)]
        wanted[0:4] = [0, 1, 2, 3]
        to, source = wrong.get("away", 32) // 4, wrong.get("far", 32) // 4
        wanted[to : to + 4] = list(range(source, source + 4))
        assert b == wanted


@pytest.mark.parametrize(("offset", "said"), [(0, None), (32, "not aligned to 64 bytes"), (64, "no tensor map")])
def test_a_map_at_an_odd_address(offset, said):
    """Maps are aligned to 64 bytes; what lies elsewhere is not copied by."""
    text = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 map, .param .u64 out)
{
.reg .b32 r, v; .reg .b64 d, o, e; .reg .pred p; .shared .align 128 .b8 tile[128]; .shared .align 8 .b64 bar;
mov.u32 r, 0; ld.param.u64 d, [map]; ld.param.u64 o, [out];
mbarrier.init.shared.b64 [bar], 1; fence.proxy.async; mbarrier.arrive.expect_tx.shared.b64 e, [bar], 128;
cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [d, {r}], [bar];
W: mbarrier.test_wait.parity.shared.b64 p, [bar], 0; @!p bra W; ld.shared.u32 v, [tile+4]; st.global.u32 [o], v; ret;
}
"""
    device = warpsim.Device("sm_90a")
    values = device.array(np.arange(10, 42, dtype=np.uint32))
    made = warpsim.TensorMap(values, global_dim=[32], global_strides=[], box_dim=[32])
    encoded = np.frombuffer(made.encode(values.ptr), np.uint8)
    room = np.zeros(320, np.uint8)
    room[offset : offset + 128] = encoded
    if offset == 64:
        room[:] = 0
    map, out = device.array(room), device.array(np.zeros(1, np.uint32))
    if said is None:
        device.memory.at(values.ptr).read_only = True  # which loads do not mind
        warpsim.load(text)["k"](1, 1, (map.ptr, out), device=device)
    else:
        with pytest.raises(warpsim.ExecutionError, match=said):
            warpsim.load(text)["k"](1, 1, (map.ptr + offset, out), device=device)
    assert out.get().tolist() == ([11] if said is None else [0])


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize(
    ("take", "active", "lanes"), [("t", "t", ()), ("17", "0", (0,)), ("17", "3", (0, 1, 2, 3)), ("16", "9", ())]
)
def test_sizes_of_sources(effects, take, active, lanes):
    """cp.async reads at most the bytes that it writes; lanes that do not execute it are not named."""
    text = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb)
{{
.reg .b32 t, s, n, v; .reg .b64 a, b, w; .reg .pred p; .shared .align 16 .b8 room[256];
ld.param.u64 a, [pa]; ld.param.u64 b, [pb]; mov.u32 t, %tid.x; mov.u32 s, room; shl.b32 n, t, 4; add.u32 s, s, n; cvt.u64.u32 w, n; add.u64 a, a, w; add.u64 b, b, w;
mov.u32 v, {take}; setp.le.u32 p, t, {active if active != "t" else 15};
@p cp.async.cg.shared.global [s], [a], 16, v; cp.async.wait_all; bar.sync 0;
@p ld.shared.u32 v, [s]; @p st.global.u32 [b], v; @p ld.shared.u32 v, [s+12]; @p st.global.u32 [b+12], v; ret;
}}
"""
    a, b = np.arange(1, 129, dtype=np.uint32) * np.uint32(0x01010101), np.zeros(128, np.uint32)
    found = warpsim.load(text)["k"](1, 16, (a, b), on_finding="collect", async_effects=effects, checks="none").findings
    last = 15 if active == "t" else int(active)
    wanted = np.zeros(128, np.uint32)
    for lane in range(last + 1):
        taken = min(lane if take == "t" else int(take), 16)
        row = bytearray(16)
        row[:taken] = a.view(np.uint8)[16 * lane : 16 * lane + taken].tobytes()
        words = np.frombuffer(bytes(row), np.uint32)
        wanted[4 * lane], wanted[4 * lane + 3] = words[0], words[3]

    assert [(f.rule, f.lanes) for f in found] == ([("out-of-bounds", lanes)] if lanes else [])
    assert b.tolist() == wanted.tolist()

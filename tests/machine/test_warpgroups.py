"""Warpgroups that part between asynchronous products, and those that lack threads; products of ones, whose sums are counts."""

import pickle

import numpy as np
import pytest

import warpsim
from warpsim.machine.engine import Run
from warpsim.machine.watcher import Watcher

TEXT = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{{
.reg .b32 t, s, a, one, u; .reg .f32 d<4>; .reg .b64 o, w, da, db; .reg .pred p, q; .shared .align 128 .b8 room[4096];
ld.param.u64 o, [out]; mov.u32 t, %ctaid.x; mov.u32 u, %ntid.x; mad.lo.u32 t, t, u, 0; mov.u32 u, %tid.x; add.u32 t, t, u; mul.wide.u32 w, t, 16; add.u64 o, o, w;
mov.u32 t, %tid.x; and.b32 u, t, 127; shl.b32 u, u, 4; mov.u32 s, room; add.u32 a, s, u; mov.b32 one, 0x3C003C00;
st.shared.v4.b32 [a], {{one, one, one, one}}; st.shared.v4.b32 [a+2048], {{one, one, one, one}};
fence.proxy.async; bar.sync 0; shr.u32 u, s, 4; cvt.u64.u32 w, u; or.b64 da, w, 0x1000080000; add.u64 db, da, 128;
mov.f32 d0, 0f3F800000; mov.f32 d1, d0; mov.f32 d2, d0; mov.f32 d3, d0; setp.lt.u32 p, t, 128; setp.ne.u32 q, t, 1000;
{body}
st.global.v4.f32 [o], {{d0, d1, d2, d3}}; ret;
}}
"""
FENCE = "wgmma.fence.sync.aligned;"
PRODUCT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d0, d1, d2, d3}, da, db, q, 1, 1, 0, 0;"
COMMIT, WAIT = "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"
STEP = FENCE + PRODUCT + COMMIT
"""Adds 16 to every element of a warpgroup's 64 x 8."""


def launch(body, threads=256, grid=1, **options):
    """What each thread has in its four registers; and findings."""
    out = np.zeros((grid * threads, 4), np.float32)
    result = warpsim.load(TEXT.format(body=body))["k"](grid, threads, (out,), **options)
    return out, [f.rule for f in result.findings]


@pytest.mark.parametrize("grid", [1, 3])
@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize(
    ("body", "first", "second"),
    [
        (STEP + WAIT, 17, 17),
        (STEP + STEP + WAIT, 33, 33),
        # one warpgroup waits in between, the other does not
        (f"{STEP} @!p bra J; {WAIT} J: {STEP} {WAIT}", 33, 33),
        (f"{STEP} @p bra J; {WAIT} J: {STEP} {WAIT}", 33, 33),
        # one goes on earlier, or does more
        (f"{STEP} @p bra J; {STEP} {STEP} J: {STEP} {WAIT}", 33, 65),
        (f"{STEP} {STEP} @p bra J; {WAIT} add.f32 d0, d0, 0f3F800000; add.f32 d1, d1, 0f3F800000; add.f32 d2, d2, 0f3F800000; add.f32 d3, d3, 0f3F800000; J: {STEP} {WAIT}", 49, 50),
        (f"@p bra J; {STEP} {WAIT} J: {STEP} {WAIT}", 17, 33),
        (f"@!p bra J; {STEP} {WAIT} J:", 17, 1),
        (f"{STEP} @p bra A; {WAIT} bra J; A: wgmma.wait_group.sync.aligned 1; {STEP} {WAIT} J:", 33, 17),
    ],
)  # fmt: skip
def test_warpgroups_that_part(body, first, second, effects, grid):
    """Each warpgroup has the sums of its own products, whoever waits when."""
    out, found = launch(body, async_effects=effects, grid=grid)
    expected = np.repeat(np.array([first, second] * grid, np.float32), 128)

    assert found == []
    assert out.tolist() == np.repeat(expected[:, None], 4, axis=1).tolist()


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize(("threads", "broken"), [(192, range(128, 192)), (64, range(64)), (320, range(256, 320))])
def test_warpgroups_that_lack_threads(threads, broken, effects):
    """A warpgroup of fewer than 128 threads multiplies nothing and is named; the others' products are what they are."""
    out, found = launch(STEP + WAIT, threads=threads, async_effects=effects, on_finding="collect")

    assert found == ["exited-lane"]
    expected = np.full((threads, 4), 17, np.float32)
    expected[list(broken)] = 1
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_warpgroups_that_lose_threads(effects):
    """The same where threads of one warpgroup have ended before."""
    body = f"setp.eq.u32 p, t, 200; @p bra L; bra J; L: exit; J: {STEP} {WAIT}"
    out, _ = launch(body, async_effects=effects, on_finding="collect", checks="none")
    expected = np.full((256, 4), 17, np.float32)
    expected[128:] = 1
    expected[200] = 0

    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("engine", ["interpreter", "auto"])
def test_shared_memory_of_any_size(engine, monkeypatch):
    """It need not end with a whole word."""
    monkeypatch.setattr(f"{__name__}.TEXT", TEXT.replace("room[4096]", "room[4097]"))
    out, findings = launch(STEP + WAIT, grid=3, engine=engine)

    assert (out == 17).all()
    assert findings == []


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_moves_beside_products(effects):
    """Accumulators that are moved behind a wait, or between registers that no product in flight uses, keep their values."""
    body = f".reg .f32 e<4>; mov.f32 e0, d0; {STEP} mov.f32 e1, e0; {WAIT} mov.f32 e2, d0; add.f32 d1, e1, e2; mov.f32 d2, e0;"
    out, _ = launch(body, async_effects=effects, checks="none")

    assert out.tolist() == [[17, 18, 1, 17]] * 256


class BeforeTheWait(Watcher):
    """Writes the state before the first wait for products."""

    state = None

    def step_before(self, machine, group, instruction):
        """Write it."""
        if self.state is None and "wait_group" in instruction.text:
            self.state = pickle.dumps(machine.launch)


def test_products_of_a_state_that_was_read():
    """A product that began before a state was written ends in whoever reads it, where no step of its block has run."""
    before = BeforeTheWait()
    launch(f"{STEP} bra.uni J; J: {WAIT}", async_effects="at_wait", watchers=[before])
    state = pickle.loads(before.state)

    assert Run(state, []).advance() is False
    out = state.memory.at(int.from_bytes(state.params[:8], "little")).data.view(np.float32)
    assert (out[: 4 * 256] == 17).all()

"""mbarrier: objects without initialisation, arrival or completion, as far as their addresses are known."""

import pytest

from .conftest import findings, recorded

INIT = "mbarrier.init.shared::cta.b64 [next], 1; fence.mbarrier_init.release.cluster; bar.sync 0;"
ONE = "setp.eq.u32 p1, tid, 0;"
EXPECT = "@p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [next], 512;"
LOAD = "@p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [at], [out], 512, [next];"
POLL = "poll: mbarrier.try_wait.parity.shared::cta.b64 p2, [next], 0; @!p2 bra poll;"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [next];"
ELSEWHERE = "mbarrier.arrive.shared::cta.b64 _, [next+8];"
REMOTE = "mapa.shared::cluster.u32 r1, at, n; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r1];"


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        ([ONE, INIT, EXPECT, LOAD, POLL], None),
        ([ONE, "", EXPECT, LOAD, POLL], 2),
        ([ONE, INIT.replace("[next]", "[next+8]"), EXPECT, LOAD, POLL], 2),
        ([ONE, INIT.replace("[next]", "[r9]"), EXPECT, LOAD, POLL], None),  # it may be the same
        ([ONE, INIT, "", LOAD, POLL], 4),
        ([ONE, INIT, EXPECT, "", POLL], 4),
        ([ONE, INIT, ARRIVE, POLL], None),
        ([ONE, INIT, POLL, ARRIVE], None),  # which threads come first is not judged
        ([ONE, INIT, POLL], 2),
        ([ONE, INIT, REMOTE, POLL], None),
        ([ONE, INIT, "cp.async.mbarrier.arrive.noinc.shared.b64 [next];", POLL], None),
    ],
)
def test_objects(check, lines, line):
    """Every wait has somebody who arrives, every announced byte a copy, every object its initialisation."""
    lines = ["mul.lo.u32 r9, n, 8; add.u32 r9, r9, at;", *lines]
    found = [f for f in check(*lines) if f[1:] == ("mbarrier", "error")]

    assert found == ([] if line is None else [(line + 1, "mbarrier", "error")])


def test_two_objects(check):
    """Arriving at one object does not help another."""
    both = "mbarrier.init.shared::cta.b64 [next], 1; mbarrier.init.shared::cta.b64 [next+8], 1; bar.sync 0;"

    assert check(both, ELSEWHERE, POLL) == [(2, "mbarrier", "error")]


@pytest.mark.parametrize("removed", ["mbarrier.init", "mbarrier.arrive.expect_tx", "cp.async.bulk.tensor"])
def test_recorded_box(removed):
    """A recorded load of one box, without each of the three."""
    lines = recorded("box_2d_128b")
    at = next(k for k, line in enumerate(lines) if removed in line)
    start = lines[at].index(removed)
    lines[at] = lines[at][: lines[at].rindex("@", 0, start)] + lines[at][lines[at].index(";", start) + 1 :]

    assert "mbarrier" in {f[1] for f in findings(lines) if f[2] == "error"}


@pytest.mark.parametrize("space", ["", ".shared::cluster"])
def test_commits_arrive(space):
    """tcgen05.commit arrives at its mbarrier, whose phase can never complete without it."""
    commit = f"tcgen05.commit.cta_group::1.mbarrier::arrive::one{space}.b64 [bar];"
    text = """.version 9.0
    .target sm_100a
    .address_size 64
    .visible .entry k()
    {
        .reg .pred p; .shared .align 8 .b64 bar;
        mbarrier.init.shared.b64 [bar], 1;
        {commit}
    wait:
        mbarrier.try_wait.parity.shared.b64 p, [bar], 0;
        @!p bra wait;
        ret;
    }
    """

    with_it, without = (text.replace("{commit}", line).split("\n") for line in (commit, ""))

    assert findings(with_it) == []
    assert [rule for _, rule, _, _ in findings(without)] == ["mbarrier"]

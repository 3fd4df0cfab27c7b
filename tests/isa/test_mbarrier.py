"""Every operation on an mbarrier object against the manual's account: phase, pending and expected arrivals, tx-count."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

import warpsim
from ptx_text import module_head

KERNEL = """.visible .entry k(.param .u64 out) {
.shared .align 8 .b64 bar;
.reg .b64 to, state; .reg .b32 n, even, odd, left, passed; .reg .pred p;
ld.param.u64 to, [out]; mov.b64 state, 0;
"""
LOOK = """mbarrier.test_wait.parity.shared.b64 p, [bar], 0; selp.b32 even, 1, 0, p;
mbarrier.test_wait.parity.shared.b64 p, [bar], 1; selp.b32 odd, 1, 0, p;
st.global.v2.b32 [to], {even, odd};
"""
STATE = """mbarrier.test_wait.shared.b64 p, [bar], state; selp.b32 passed, 1, 0, p;
mbarrier.pending_count.b64 left, state;
st.global.v2.b32 [to+8], {left, passed};
"""


@dataclass
class Object:
    """What the manual says that an object holds."""

    expected: int
    pending: int
    bytes: int = 0
    phase: int = 0

    def settle(self) -> None:
        """A phase ends when no arrival is pending and no byte is expected."""
        if self.pending == self.bytes == 0:
            self.phase, self.pending = self.phase + 1, self.expected


def drawn(rng: random.Random, count: int) -> tuple[str, list[tuple[int, ...]]]:
    """A kernel of so many operations on one object, and what is seen after each."""
    object = Object(*[rng.randrange(2, 9)] * 2)
    lines = [KERNEL, f"mbarrier.init.shared.b64 [bar], {object.expected};\n"]
    seen = []
    while len(seen) < count:
        bytes, n = rng.choice([16, 48, 1024, object.bytes or 8]), rng.randint(1, max(object.pending, 1))
        word = rng.choice(
            ["expect_tx", "complete_tx", "arrive", "arrive_drop", "arrive.expect_tx", "arrive_drop.expect_tx"]
        )
        arrivals = {"arrive": n, "arrive_drop": n, "arrive.expect_tx": 1, "arrive_drop.expect_tx": 1}.get(word, 0)
        dropped = arrivals if "drop" in word else 0
        if arrivals > object.pending or dropped >= object.expected or (word == "complete_tx" and bytes > object.bytes):
            continue
        before = object.phase, object.pending
        object.bytes += bytes * (("expect" in word) - ("complete" in word))
        object.pending, object.expected = object.pending - arrivals, object.expected - dropped
        object.settle()
        order = ".relaxed" if not arrivals else rng.choice([".release", ".relaxed"])
        scope = order + rng.choice([".cta", ".cluster"])
        space = rng.choice([".shared", ".shared::cta", ".shared::cluster"])
        state = "" if not arrivals else "_, " if space == ".shared::cluster" else "state, "
        lines.append(f"mov.b32 n, {arrivals if word in ('arrive', 'arrive_drop') else bytes};\n")
        lines.append(f"mbarrier.{word}{scope}{space}.b64 {state}[bar], n;\n{LOOK}")
        found = (object.phase & 1, 1 - object.phase & 1)
        if state == "state, ":
            lines.append(STATE)
            found += (before[1], int(object.phase > before[0]))
        else:
            found += (0, 0)
        lines.append("add.u64 to, to, 16;\n")
        seen.append(found)
    return module_head("sm_90", "8.6") + "".join(lines) + "ret; }\n", seen


@pytest.mark.parametrize("seed", range(8))
def test_operations(seed: int) -> None:
    """Phases end where arrivals and bytes are complete, in random sequences of all operations that count either."""
    text, expected = drawn(random.Random(seed), 40)
    found = np.zeros((len(expected), 4), np.uint32)
    result = warpsim.load(text)["k"]((1,), (1,), (found,))

    assert found.tolist() == [list(row) for row in expected]
    assert len({row[:2] for row in expected}) == 2
    assert result.findings == ()


def test_waiting_at_another_ctas_object() -> None:
    """Threads can only ask an object of their own CTA for its phase, whoever a generic address belongs to."""
    body = """.visible .entry k() {
.shared .align 8 .b64 bar; .reg .b64 own, there; .reg .b32 rank; .reg .pred p;
mbarrier.init.shared.b64 [bar], 1; mov.b64 own, bar; cvta.shared.u64 own, own; mov.u32 rank, %cluster_ctarank;
barrier.cluster.arrive; barrier.cluster.wait; mapa.u64 there, own, RANK; mbarrier.test_wait.parity.b64 p, [there], 1;
barrier.cluster.arrive; barrier.cluster.wait; ret; }
"""
    for rank, rules in (("rank", []), ("0", ["out-of-bounds"])):
        kernel = warpsim.load(module_head("sm_90", "8.6") + body.replace("RANK", rank))["k"]
        findings = kernel((2,), (1,), (), cluster=(2,), on_finding="collect").findings

        assert [f.rule for f in findings] == rules
        assert all("takes an mbarrier of another CTA" in f.message for f in findings)

"""Draws of commands of a session with arguments of any kind: an answer or a `DebugError`, and the session goes on."""

import contextlib
import random

import numpy as np
import pytest

import warpsim
from warpsim.debug import DebugError, Session

SAMPLES = 150, 2_000
TEXT = """.version 8.6
.target sm_90
.address_size 64
.func (.reg .b32 %o) f(.reg .b32 %i) { add.u32 %o, %i, 1; ret; }
.visible .entry k(.param .u64 p) {
    .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p; .shared .b32 s[64];
    ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2;
    st.shared.u32 [%r3], %r1; bar.sync 0;
L:  call (%r1), f, (%r1);
    setp.lt.u32 %p, %r1, 40;
    @%p bra L;
    ld.shared.u32 %r4, [%r3]; mul.wide.u32 %rd2, %r4, 4; add.u64 %rd2, %rd2, %rd1; st.global.u32 [%rd2], %r1; ret; }
"""


class Broken:
    """Whatever it is asked, it fails."""

    def __index__(self):
        raise OverflowError("index")

    def __array__(self, *_, **__):
        raise RuntimeError("array")

    def __len__(self):
        raise ValueError("length")

    def __repr__(self):
        raise RuntimeError("name")


WORDS = ["%r1", "%r1[5]", "%r1[99]", "%r99", "s", "s[3]", "s[", "L", "f", "p", "%p", "matrix d", "shared.u32[0]", "%r1 / 0",
         "%r1 << 99999999999", "((((", "", "\0", "\udcff", "9" * 5000, "(" * 3000, "op:bar*", "op:", "7", "-1", "a.cu:1",
         "lane", "warp", "any", "line", "race", "arrival", "shared", "global", "s + 99999999999999999999"]  # fmt: skip
VALUES = [0, 1, 2, 3, -1, 31, 32, 2**70, 10**5000, 1.5, float("nan"), None, True, "x", b"x", [], [1], (0, 0, 0), {1}, {},
          Broken(), np.arange(4), np.zeros(32), np.array("x"), np.float32(2), np.int64(1), object(), int]  # fmt: skip
COMMANDS = {
    "step": 2, "next": 2, "finish": 0, "until": 1, "back": 2, "reverse_cont": 0, "goto": 1, "cont": 0, "run": 0,
    "break_at": 4, "watch": 4, "catch": 1, "delete": 1, "focus": 3, "select": 1, "evaluate": 1, "memory": 5, "matrix": 1,
    "where": 0, "warps": 0, "barriers": 0, "mbarriers": 0, "in_flight": 0, "origin": 2, "set": 2,
}  # fmt: skip


def draw(rng, count):
    """So many commands, a dozen for each session."""
    kernel = warpsim.load(TEXT)["k"]
    for number in range(count):
        if number % 12 == 0:
            device = warpsim.Device("sm_90", stdout=lambda text: None)
            array = np.zeros(4096, np.uint32)
            session = Session(kernel, (2,), (32,), (array,), device=device, max_instructions=20_000)
        name = rng.choice(list(COMMANDS))
        given = [rng.choice(rng.choice([WORDS, VALUES])) for _ in range(COMMANDS[name])]
        if name in ("step", "next", "break_at", "focus"):
            given = given[: rng.randrange(1, len(given) + 1)]
        try:
            with contextlib.suppress(DebugError, warpsim.ExecutionError):
                getattr(session, name)(*given)
        except Exception as error:
            raise AssertionError(f"command {number}, {name}, ends in {error!r}") from error


def test_a_sample():
    """Of the commands."""
    draw(random.Random(1), SAMPLES[0])


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.long if seed < 3 else pytest.mark.sweep) for seed in range(10)]
)
def test_many(seed):
    """Of them."""
    draw(random.Random(100 + seed), SAMPLES[1])

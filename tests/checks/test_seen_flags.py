"""A strong write that a strong read has seen comes before what follows the read: locks are reset by weak stores."""

import pytest

from docs.tools import faulty

LOCK = """\
setp.ne.u32 %p1, %cta, 0; @%p1 bra SECOND;
@%first red.relaxed.gpu.global.add.u32 [%a], 1; bra DONE;
SECOND: @!%first bra MEET;
POLL: LOAD; setp.ne.u32 %p2, %r1, 1; @%p2 bra POLL;
MEET: bar.sync 0; setp.eq.u32 %p3, %t, WHO; @%p3 st.global.u32 [%a], 0; // here
DONE:
"""


@pytest.mark.parametrize(("load", "who", "races"), [
    ("ld.relaxed.gpu.global.u32 %r1, [%a]", 0, False), ("ld.relaxed.gpu.global.u32 %r1, [%a]", 40, False),
    ("ld.relaxed.gpu.global.u32 %r1, [%b]; mov.u32 %r1, 1", 0, True),
    ("ld.relaxed.cta.global.u32 %r2, [%a+64]; ld.relaxed.gpu.global.u32 %r1, [%a]", 40, False),
])  # fmt: skip
def test_a_lock_that_is_reset(load, who, races):
    """The thread that has polled resets it, or one that has met that thread; without a look at it, this races. What
    is loaded elsewhere with a smaller scope changes nothing."""
    example = faulty.Example.of(LOCK.replace("LOAD", load).replace("WHO", str(who)), "grid=2 block=64 checks=race")
    marks = [n for n, line in enumerate(example.module().split("\n"), 1) if line.endswith("// here")]

    assert [(f.line, f.rule) for f in faulty.findings(example)] == [(n, "race") for n in marks if races]

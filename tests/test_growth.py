"""What grows with a program, or with what is in flight, grows in proportion: four times as much takes four times as long."""

import gc
import itertools
import time

import numpy as np
import pytest

import warpsim
from ptx_text import module_head

DYNAMIC = 200 << 10
HEADER = module_head("sm_90a", "8.6") + ".extern .shared .align 8 .b8 dynamic[]; .visible .entry k(.param .u64 p)\n{\n"
REGISTERS = ".reg .b32 %r<64>; .reg .pred %p; .reg .b64 %rd<8>; ld.param.u64 %rd0, [p]; mov.u32 %r1, %tid.x;\n"
COLUMN = "mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd2, %rd0; mov.u32 %r4, dynamic; mad.lo.u32 %r5, %r1, 4, %r4;\n"
FACTOR, SLACK = 4, 2.4
NUMBERS = itertools.count()


def groups(count):
    """Groups of copies, all in flight, then waited for one by one."""
    copies = "".join(
        f"cp.async.ca.shared.global [%r5+{128 * i}], [%rd2+{128 * i}], 4; cp.async.commit_group;\n"
        for i in range(count)
    )
    reads = "".join(f"cp.async.wait_group {count - 1 - i}; ld.shared.u32 %r6, [%r5+{128 * i}];\n" for i in range(count))
    return f"{COLUMN}{copies}{reads}"


def unwritten(count):
    """Loads from one variable that nobody has written, each a finding."""
    uses = "".join(f"ld.shared.u32 %r4, [s+{4 * i}]; st.global.u32 [%rd0+{4 * i}], %r4;\n" for i in range(count))
    return f".shared .b32 s[{count}];\n{uses}"


def raced(count):
    """Variables that lanes write at once, each a finding that names its variable."""
    return "".join(f".shared .u32 s{i}; st.shared.u32 [s{i}], %r1; ld.shared.u32 %r3, [s{i}];\n" for i in range(count))


def jumps(count):
    """Jumps from anywhere to anywhere: loops with many entries, deep in one another."""
    places = np.random.default_rng(1).integers(count, size=count)
    return "mov.u32 %r2, 0;" + "".join(
        f"L{i}: add.u32 %r2, %r2, 1; setp.gt.u32 %p, %r2, 1000000; @%p bra L{to};\n" for i, to in enumerate(places)
    )


def block(count):
    """Instructions in one block."""
    return "{\n" + "add.u32 %r2, %r2, %r1;\n" * count + "}\n"


def line(count):
    """Instructions on one line of a block."""
    return block(count).replace("\n", " ") + "\n"


def seconds(code, checks):
    """CPU time to load and launch it for the first time: a number in the text keeps what was read before out of it."""
    text = f"{HEADER}{REGISTERS}{code} ret;\n}}\n// {next(NUMBERS)}"
    x = np.zeros(1 << 16, np.uint32)
    gc.collect()
    gc.freeze()  # what earlier tests left is no work for the garbage collector here
    started = time.process_time()
    warpsim.load(text)["k"](
        (1,), (32,), (x,), shared_mem=DYNAMIC if "dynamic" in code else 0, on_finding="collect", checks=checks
    )
    return time.process_time() - started


@pytest.mark.long
@pytest.mark.parametrize(("code", "few", "checks"), [
    (groups, 250, "default"),
    (unwritten, 250, "default"),
    (raced, 400, "all"),
    (jumps, 500, "default"),
    (block, 3000, "default"),
    (line, 2000, "default"),
])  # fmt: skip
def test_proportion(code, few, checks):
    """The factor is that of the lengths, with some slack for what a small one has in the cache."""
    seconds(code(10), checks)

    assert any(seconds(code(FACTOR * few), checks) < SLACK * FACTOR * seconds(code(few), checks) for _ in range(3))

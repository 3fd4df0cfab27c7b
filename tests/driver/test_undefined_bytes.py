"""Undefined values that a kernel stores in device memory, which the host sees by copies alone: reported when somebody reads them."""

import copy
import json
import pickle
import struct

import numpy as np
import pytest

from device_launches import called, source
from ptx_text import module_head
from warpsim import driver
from warpsim.driver import DriverError, Result, Side

TILE = """.visible .entry tile(.param .u64 states, .param .u64 out) {
.reg .b64 %d<9>; .reg .b32 %r<4>; .reg .pred %p; .shared .align 16 .b8 sums[64];
ld.param.u64 %d1, [states]; ld.param.u64 %d2, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, sums; mov.u64 %d6, 101;
mul.wide.u32 %d5, %r1, 16; add.u64 %d2, %d2, %d5; mov.u64 %d7, %d1; add.u64 %d1, %d1, %d5;
ld.shared.u64 %d4, [%r2]; add.u64 %d4, %d4, 1;
STORE  // here
AFTER
st.global.u64 [%d2], %d6;
ret;
}"""
STATE = "st.relaxed.gpu.global.v2.u64 [%d1], {%d4, %d6};"
WEAK = "st.global.v2.u64 [%d1], {%d4, %d6};"
AGAIN = "st.relaxed.gpu.global.v2.u64 [%d1], {%d4, 102};"
LOADS = "ld.relaxed.gpu.global.u64 %d8, [%d7+16];"
LINE = (module_head("sm_90") + TILE).splitlines().index("STORE  // here") + 1
THREADS = 2


class Gpu(driver.Driver):
    """A driver that writes its findings to a file; `states` and `out` are device memory of 64 bytes."""

    def __init__(self, path, **more):
        super().__init__(["sm_90"], quiet=True, report=str(path), **more)
        self.path, self.states, self.out = path, self.memory.allocate(64), self.memory.allocate(64)

    def run(self, store=STATE, after="", states=None):
        """Launch the kernel; what it leaves is undefined in the first eight bytes of sixteen for each thread."""
        text = TILE.replace("STORE", store).replace("AFTER", after)
        function = self.load(module_head("sm_90") + text).function("tile")
        params = struct.pack("<QQ", self.states if states is None else states, self.out)
        self.launch(function, (1, 1, 1), (THREADS, 1, 1), params)
        return self.error

    def found(self):
        """The rules and lines of findings."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [(found["rule"], found["line"]) for found in map(json.loads, lines)]


@pytest.fixture(params=["interpreter", "auto"])
def gpu(request, tmp_path):
    """With either engine."""
    return Gpu(tmp_path / "found", options={"engine": request.param})


def copied(gpu, address, nbytes):
    """Bytes of the device."""
    out = np.zeros(nbytes, np.uint8)
    gpu.copy(out.ctypes.data, address, nbytes)
    return out


@pytest.mark.parametrize("branch", ["", "ld.shared.u32 %r3, [%r2]; setp.ne.u32 %p, %r3, 0; @%p bra B; B: "])
def test_padding_beside_what_nobody_reads(gpu, branch):
    """The host may copy what the second thread has stored there: a word with padding."""
    load = "setp.eq.u32 %p, %r1, 1; @%p st.shared.u32 [%r2+16], 5; @%p ld.shared.u64 %d4, [%r2+16]; "
    assert gpu.run(branch + load + WEAK) is Result.SUCCESS
    assert copied(gpu, gpu.states + 16, 16)[0] == 5
    assert gpu.found() == []


@pytest.mark.parametrize("store", [STATE, WEAK, STATE + AGAIN])
def test_what_nobody_reads(gpu, store):
    """The sum of a tile's status is undefined and unread: CUB's reduce-by-key does so, with a strong store and again."""
    assert gpu.run(store) is Result.SUCCESS
    assert copied(gpu, gpu.out, 8).view(np.uint64) == 101
    assert copied(gpu, gpu.states + 8, 8)[0] in (101, 102)
    gpu.memory.free(gpu.states)
    assert gpu.found() == []


@pytest.mark.parametrize("store", [STATE, WEAK])
def test_what_the_host_reads(gpu, store):
    """A result that is missing is named at the store, by the call that copies it."""
    assert gpu.run(store) is Result.SUCCESS
    with pytest.raises(DriverError):
        copied(gpu, gpu.states + 12, 12)

    assert (gpu.error, gpu.found()) == (Result.LAUNCH_FAILED, [("uninitialised", LINE)])


def test_boxes(gpu):
    """Of a box, only its own bytes count."""
    gpu.run()
    to, gaps = np.zeros(32, np.uint8), Side(gpu.states + 8, 16)
    gpu.memory.copy_box(Side(to.ctypes.data, 8), gaps, 8, 4)
    with pytest.raises(DriverError):
        gpu.memory.copy_box(Side(to.ctypes.data, 9), Side(gpu.states + 8, 16), 9, 2)

    assert gpu.found() == [("uninitialised", LINE)]


@pytest.mark.parametrize("box", [False, True])
def test_copies_onto_themselves(tmp_path, box):
    """What a copy overwrites of its own source is read before."""
    gpu = Gpu(tmp_path / "found", on_finding="collect")
    gpu.run()
    if box:
        gpu.memory.copy_box(Side(gpu.states, 16), Side(gpu.states + 4, 16), 8, 1)
    else:
        gpu.copy(gpu.states, gpu.states + 4, 8)

    assert gpu.found() == [("uninitialised", LINE)]


def test_what_is_written_since(gpu):
    """By the host, or by a kernel."""
    gpu.run()
    gpu.fill(gpu.states, 0, 8, 1)
    gpu.run("st.global.u64 [%d1+16], %d6;")

    assert copied(gpu, gpu.states, 32).size == 32
    assert gpu.found() == []


@pytest.mark.parametrize(
    ("store", "after"),
    [
        (STATE, LOADS),
        (WEAK, f"bar.sync 0; {LOADS}"),
        (f"{LOADS} bar.sync 0; {STATE}", ""),
        (STATE, f"{LOADS} st.global.u64 [%d1+8], %d8;"),
    ],
)
def test_what_the_launch_reads(gpu, store, after):
    """It is undefined there, and so it is where it is moved to: an error where the host copies it."""
    assert gpu.run(store, after) is Result.SUCCESS
    copied(gpu, gpu.out, 8)
    assert gpu.found() == []
    with pytest.raises(DriverError):
        copied(gpu, gpu.states, 32)

    assert gpu.found()[0] == ("uninitialised", LINE)


@pytest.mark.parametrize(
    "use",
    [
        "st.global.u64 [%d8], %d6;",
        "setp.eq.u64 %p, %d8, 0; @%p st.global.u64 [%d2+8], %d6;",
        "atom.add.u64 %d8, [%d2], %d8;",
        "cvt.u32.u64 %r2, %d8; bar.sync %r2;",
    ],
)
def test_what_the_launch_uses(gpu, use):
    """An error at the use, which names what was loaded before the store."""
    assert gpu.run(STATE, f"{LOADS} {use}") is Result.LAUNCH_FAILED
    assert gpu.found() == [("uninitialised", LINE + 1)]
    (found,) = map(json.loads, gpu.path.read_text().splitlines())
    assert f"module-1.ptx:{LINE - 1}:1: loaded here" in found["text"]


def test_what_other_threads_replace(gpu):
    """Is defined then."""
    assert (
        gpu.run(STATE, "bar.sync 0; st.global.v2.u64 [%d7], {%d6, %d6}; st.global.v2.u64 [%d7+16], {%d6, %d6};")
        is Result.SUCCESS
    )
    copied(gpu, gpu.states, 32)
    assert gpu.found() == []


def test_what_is_always_the_same(gpu):
    """Is not undefined, wherever it is stored."""
    store = "shr.u64 %d4, %d4, 60; mul.lo.u64 %d8, %d4, %d4; sub.u64 %d4, %d8, %d8; st.global.u64 [%d1], %d4;"
    assert gpu.run(store) is Result.SUCCESS
    copied(gpu, gpu.states, 16)
    assert (
        gpu.run("ld.global.u64 %d8, [%d1]; add.u64 %d8, %d8, %d2; st.global.u64 [%d8], %d6;", "trap;")
        is Result.LAUNCH_FAILED
    )
    assert gpu.found() == [("trap", LINE + 1)]


def test_what_an_undefined_branch_stores_there_afterwards(gpu):
    """It is defined, and differs."""
    branch = "setp.gt.u64 %p, %d4, 1000; @%p bra B; st.global.u64 [%d1], 8;\nB: "
    assert gpu.run(f"st.global.u64 [%d1], %d4; st.global.u64 [%d1], 7; {branch}") is Result.LAUNCH_FAILED
    assert gpu.found() == [("uninitialised", LINE)]


def test_what_strict_checks_say(tmp_path):
    """It is an error at the store, as without the driver."""
    gpu = Gpu(tmp_path / "found", checks="default+strict-undefined")
    assert gpu.run() is Result.LAUNCH_FAILED
    assert gpu.found() == [("uninitialised", LINE)]


PAD = "mov.b64 %d8, {%r1, %r3}; st.cg.u64 [%d1], %d8; bar.sync 0; ld.cg.u64 %d8, [%d7+16];"


@pytest.mark.parametrize(
    ("use", "missed"),
    [
        ("st.global.u64 [%d2+8], %d8;", False),
        (
            "mov.b64 {%r1, %r3}, %d8; add.u32 %r1, %r1, 1; mov.b64 %d8, {%r1, %r3}; st.global.v2.u32 [%d2+8], {%r1, %r3};",
            False,
        ),
        ("shr.u64 %d8, %d8, 32; add.u64 %d8, %d8, 1; st.global.u64 [%d2+8], %d8;", True),
    ],
)
def test_padding_that_other_threads_load(gpu, use, missed):
    """CUB's scan stores a tile's status so: the host may copy a structure with its padding, but not what is computed from that."""
    assert gpu.run(PAD, use) is Result.SUCCESS
    if missed:
        with pytest.raises(DriverError):
            copied(gpu, gpu.out, 16)
    else:
        copied(gpu, gpu.out, 32)

    assert gpu.found() == [("uninitialised", LINE + 1)] * missed


@pytest.mark.parametrize(
    "stores", ["st.cg.v2.u32 [%d1], {%r1, %r3};", "mov.u32 %r2, %r3; st.cg.v2.u32 [%d1], {%r1, %r2};"]
)
def test_a_whole_register_that_nothing_wrote(gpu, stores):
    """It is no padding of what other threads load with it, moved or not."""
    assert gpu.run(stores) is Result.SUCCESS
    assert gpu.run("ld.cg.v2.u32 {%r1, %r3}, [%d1]; st.global.v2.u32 [%d2+8], {%r1, %r3};") is Result.SUCCESS
    with pytest.raises(DriverError):
        copied(gpu, gpu.out, 32)

    assert gpu.found() == [("uninitialised", LINE)]


@pytest.mark.parametrize("use", ["ld.cg.u64 %d4, [%d8];", "setp.ne.u64 %p, %d8, 0; @%p st.global.u64 [%d2+8], %d6;"])
def test_uses_of_padding_that_other_threads_load(gpu, use):
    """They are errors."""
    assert gpu.run(PAD, f"shr.u64 %d8, %d8, 32; {use}") is Result.LAUNCH_FAILED
    assert gpu.found() == [("uninitialised", LINE + 1)]


OUT = "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r2], 32; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_what_bulk_copies_store(tmp_path, effects):
    """It stays undefined, too; the group of eight bytes that has a byte is padding."""
    gpu = Gpu(tmp_path / "found", options={"async_effects": effects})
    store = "setp.ne.u32 %p, %r1, 0; @%p bra B; " + "st.shared.u32 [%r2], 7; fence.proxy.async; " + OUT + "\nB: "
    assert gpu.run(store, "ld.global.u64 %d8, [%d7+8]; st.global.u64 [%d2+8], %d8;") is Result.SUCCESS
    assert copied(gpu, gpu.states, 8)[0] == 7
    assert gpu.found() == []
    with pytest.raises(DriverError):
        copied(gpu, gpu.states, 16)

    assert gpu.found() == [("uninitialised", LINE)]


def test_bulk_copies_to_both_memories(gpu):
    """In one step; what is undefined goes to that of the device alone."""
    gpu.out = gpu.memory.allocate_host(64)
    store = "st.shared.v2.u64 [%r2+32], {%d6, %d6}; fence.proxy.async; shl.b32 %r3, %r1, 5; add.u32 %r2, %r2, %r3; "
    store += "setp.eq.u32 %p, %r1, 0; selp.b64 %d1, %d1, %d2, %p; " + OUT.replace("32;", "16;")
    assert gpu.run(store) is Result.SUCCESS
    with pytest.raises(DriverError):
        copied(gpu, gpu.states, 16)

    assert gpu.found() == [("uninitialised", LINE)]


def test_what_bulk_copies_add(gpu):
    """It is an error at once, as what atomics add."""
    adds = OUT.replace("cp.", "cp.reduce.", 1).replace("bulk_group [", "bulk_group.add.u64 [")
    assert gpu.run(f"fence.proxy.async; {adds}") is Result.LAUNCH_FAILED
    assert gpu.found() == [("uninitialised", LINE)]


def test_padding_stays_undefined(gpu):
    """The next kernel may copy it, but not use it."""
    copies = "st.shared.u32 [%r2], 5; ld.shared.u64 %d4, [%r2]; st.global.u64 [%d1], %d4;"
    gpu.run(copies)
    gpu.run("ld.global.u64 %d8, [%d1]; st.global.u64 [%d2+8], %d8;")
    copied(gpu, gpu.out, 32)
    assert (
        gpu.run("\nld.global.u32 %r3, [%d1+4]; cvt.u64.u32 %d8, %r3; ld.global.u64 %d4, [%d8];") is Result.LAUNCH_FAILED
    )
    assert gpu.found() == [("uninitialised", LINE + 1)]


def test_what_the_next_kernel_reads(gpu):
    """It is undefined there: an error where it decides an address."""
    gpu.run()
    assert gpu.run("ld.global.u64 %d8, [%d1]; st.global.u64 [%d8], %d6;") is Result.LAUNCH_FAILED
    assert gpu.found() == [("uninitialised", LINE)]


HALF = "ld.shared.u32 %r3, [%r2]; st.global.u32 [%d1+4], %r3;"
WORD = "ld.global.u64 %d8, [%d1]; st.global.u64 [%d2+8], %d8;"
PAIR = "ld.global.v2.u32 {%r2, %r3}, [%d1]; st.global.v2.u32 [%d2+8], {%r2, %r3};"
TAKE = "shl.b32 %r1, %r1, 4; add.u32 %r2, %r2, %r1; ld.shared.u64 %d8, [%r2+16]; st.global.u64 [%d2+8], %d8;"
ASYNC = (
    "shl.b32 %r3, %r1, 4; add.u32 %r3, %r3, %r2; cp.async.ca.shared.global [%r3+16], [%d1], 8; cp.async.wait_all; "
    + TAKE
)
BULK = (
    "setp.ne.u32 %p, %r1, 0; @%p bra W; mbarrier.init.shared.b64 [%r2+48], 1; mbarrier.arrive.expect_tx.shared.b64 %d8, [%r2+48], 32;"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+16], [%d7], 32, [%r2+48];"
    "W: bar.sync 0; V: mbarrier.try_wait.parity.shared.b64 %p, [%r2+48], 0; @!%p bra V;" + TAKE
)


ALTERNATELY = "st.global.u64 [%d1], %d4;\nld.shared.u64 %d8, [%r2+32]; add.u64 %d8, %d8, 1; st.global.u64 [%d1+8], %d8;"
LOW = "cvt.u32.u64 %r3, %d4; st.global.u32 [%d1], %r3;"


@pytest.mark.parametrize(
    ("after", "load", "named"),
    [
        (ALTERNATELY, "ld.global.u64 %d8, [%d1];", f"module-1.ptx:{LINE - 1}"),
        (ALTERNATELY, "ld.global.u64 %d8, [%d1+8];", f"module-1.ptx:{LINE + 1}"),
        (ALTERNATELY, "ld.global.v2.u64 {%d6, %d8}, [%d1];", f"module-1.ptx:{LINE + 1}"),
        ("st.global.u64 [%d1+8], %d4;", "\nld.global.u64 %d8, [%d1];", f"module-2.ptx:{LINE + 1}"),
        (LOW, "st.global.u32 [%d1], 5;\nld.global.u64 %d8, [%d1];", f"module-2.ptx:{LINE + 1}"),
    ],
)
def test_where_what_a_load_finds_was_left(gpu, after, load, named):
    """Of the bytes that it reads: the origin of what was stored there last, or the load where nothing was."""
    gpu.run(after)
    assert gpu.run(f"{load} st.global.u64 [%d8], %d2;") is Result.LAUNCH_FAILED
    (found,) = map(json.loads, gpu.path.read_text().splitlines())
    assert f"{named}:1: loaded here" in found["text"]


def test_what_was_read_too_early(gpu):
    """The next kernel names where, not only the copy."""
    early = "cp.async.ca.shared.global [%r2], [%d1], 4;\nld.shared.u64 %d8, [%r2]; st.global.u64 [%d1], %d8; cp.async.wait_all;"
    gpu.fill(gpu.states, 0, 8, 8)
    assert gpu.run(early) is Result.SUCCESS
    assert gpu.run("ld.global.u64 %d8, [%d1]; st.global.u64 [%d8], %d2;") is Result.LAUNCH_FAILED
    (found,) = map(json.loads, gpu.path.read_text().splitlines())
    assert f"module-1.ptx:{LINE + 1}:1: async-read-early" in found["text"]


@pytest.mark.parametrize("moves", [WORD, PAIR, ASYNC, BULK])
def test_what_the_next_kernel_copies(gpu, moves):
    """What it loads together with defined bytes is no padding of theirs, unless nothing ever wrote it."""
    gpu.run(HALF)
    gpu.run("st.global.u32 [%d1+4], 5;")
    assert gpu.run(moves) is Result.SUCCESS
    copied(gpu, gpu.out, 16)
    gpu.run(HALF + "st.global.u32 [%d1], 5;")
    assert gpu.run(moves) is Result.SUCCESS
    with pytest.raises(DriverError):
        copied(gpu, gpu.out, 16)

    assert gpu.found() == [("uninitialised", LINE)]


def test_memory_that_the_host_sees(gpu):
    """Its stores are judged at once."""
    assert gpu.run(states=gpu.memory.allocate_host(64)) is Result.LAUNCH_FAILED
    assert gpu.found() == [("uninitialised", LINE)]


def test_launches_that_go_on(tmp_path):
    """Where findings are collected, the copy is made, and it is said once."""
    gpu = Gpu(tmp_path / "found", on_finding="collect")
    gpu.run()
    assert [copied(gpu, gpu.states, 16)[8] for _ in range(2)] == [101, 101]
    assert (gpu.error, gpu.found()) == (Result.SUCCESS, [("uninitialised", LINE)])


def test_copies_of_the_memory(gpu):
    """They keep what is withheld."""
    gpu.run()
    space = gpu.memory.space
    (kept,) = pickle.loads(pickle.dumps(space.at(gpu.states))).withheld.values()
    assert kept.finding.line == LINE


def test_copies_that_kernels_make(tmp_path):
    """They keep it, too: the host sees it where the copy has put it."""
    moves = called("__cudaCDP2MemcpyAsync", (8, "%d0"), (8, "%d8"), (8, 32), (4, 3), (8, 0))
    moves += called("__cudaCDP2MemcpyAsync", (8, "%d7"), (8, "%d8"), (8, 8), (4, 3), (8, 0))
    moves += called("__cudaCDP2MemcpyAsync", (8, "%d7"), (8, "%d6"), (8, 8), (4, 3), (8, 0))
    text = source(main="add.s64 %d8, %d0, 64; add.s64 %d7, %d0, 32; add.s64 %d6, %d0, 48;" + moves)
    gpu = Gpu(tmp_path / "found")
    both = gpu.memory.allocate(128)
    assert gpu.run(states=both + 64) is Result.SUCCESS
    gpu.launch(gpu.load(text).function("main"), (1, 1, 1), (1, 1, 1), struct.pack("<Q", both))
    gpu.fill(both + 64, 0, 1, 64)
    assert copied(gpu, both + 8, 8)[0] == 101
    copied(gpu, both + 32, 8)  # copied over by unwritten bytes
    with pytest.raises(DriverError):
        copied(gpu, both, 8)

    assert gpu.found() == [("uninitialised", LINE)]


@pytest.mark.parametrize("over", ["another store", "unwritten bytes"])
def test_what_is_undefined_since_for_another_reason(gpu, over):
    """The store whose value is there is named, or none: copies of unwritten bytes are no error."""
    gpu.run()
    if over == "another store":
        gpu.run("\n" + WEAK)
        with pytest.raises(DriverError):
            copied(gpu, gpu.states, 32)
    else:
        gpu.copy(gpu.states, gpu.memory.allocate(32), 32)
        copied(gpu, gpu.states, 32)

    assert gpu.found() == ([("uninitialised", LINE + 1)] if over == "another store" else [])


def test_bytes_of_copies_of_the_memory(gpu):
    """What is withheld, or no more, after a copy was made changes nothing in it."""
    gpu.run()
    space = gpu.memory.space
    before = copy.deepcopy(space)
    gpu.run(states=gpu.states + 32)
    then, now = ([one.marks.data.sum() for one in each.at(gpu.states).withheld.values()] for each in (before, space))

    assert (then, now) == ([16], [32])

    before = copy.deepcopy(space)
    gpu.run("\n" + WEAK)
    between = copy.deepcopy(space)
    gpu.fill(gpu.states, 0, 1, 64)
    marks = [
        [one.marks.data.sum() for one in each.at(gpu.states).withheld.values()] for each in (before, between, space)
    ]
    assert marks == [[32], [16, 16], [0, 0]]

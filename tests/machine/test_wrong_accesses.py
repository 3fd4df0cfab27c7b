"""Accesses that a GPU would fault at: what is said of them, what memory holds afterwards, and how a launch goes on."""

import numpy as np
import pytest

import warpsim
from ptx_text import module_head

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .u64 a, .param .u64 b)
{
.reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .pred %p<9>; .reg .f32 %f<40>;
"""
START = """ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 64, %r1;
mul.wide.u32 %rd3, %r3, 4; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3; mov.u32 %r9, 7; mov.u64 %rd9, 7; mov.f32 %f1, 0f00000000;
"""


def launch(body, declared="", size=256, block=64, **options):
    """Four CTAs of these instructions with two arrays 0, 1, 2 ...; gives the findings and the arrays."""
    a, b = np.arange(size, dtype=np.uint32), np.arange(size, dtype=np.uint32)
    kernel = warpsim.load(HEAD + declared + START + body + "\nret;\n}\n")["k"]
    try:
        found = kernel(4, block, (a, b), max_instructions=100_000, **options).findings
    except warpsim.ExecutionError as error:
        found = error.findings
    return found, a, b


def one(body, **options):
    """The finding that ends a launch."""
    (found,), _, _ = launch(body, **options)
    return found


ACCESSES = [
    "ld.shared.u8 %r9, [%r10];",
    "ld.shared.v4.u32 {%r9, %r11, %r12, %r13}, [%r10];",
    "st.shared.u64 [%r10], %rd9;",
    "setp.lt.u32 %p1, %r1, 9; @%p1 ld.shared.u32 %r9, [%r10];",
    "ld.local.u64 %rd9, [%r10];",
    "st.local.u32 [%r10], %r9;",
    "atom.shared.add.u32 %r9, [%r10], 1;",
    "atom.shared.cas.b64 %rd9, [%r10], 0, 1;",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r9, %r11, %r12, %r13}, [%r10];",
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r10], {%r9};",
    "wmma.load.c.sync.aligned.m16n16k16.shared.row.f32 {%f20, %f21, %f22, %f23, %f24, %f25, %f26, %f27}, [%r10];",
    "wmma.store.d.sync.aligned.m16n16k16.shared.row.f32 [%r10], {%f1, %f1, %f1, %f1, %f1, %f1, %f1, %f1};",
    "cp.async.ca.shared.global [%r10], [%rd1], 16; cp.async.wait_all;",
    "mbarrier.init.shared.b64 [%r10], 64;",
    "mbarrier.arrive.shared.b64 %rd9, [%r10];",
    "cp.async.mbarrier.arrive.shared.b64 [%r10];",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd1], 16, [%r10];",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r10], %r9, [%r10];",
    "wgmma.fence.sync.aligned; mov.u64 %rd9, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f20, %f21, %f22, %f23}, %rd9, %rd9, 0, 1, 1, 0, 0;"
    "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
]


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("declared", ["", ".shared .align 16 .b8 s[96]; .local .align 16 .b8 l[32];\n"])
@pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_launch_that_collects_goes_on(access, declared, turn):
    """Whatever lies outside shared and local memory, even where there is none, is named, and the rest is done; by default
    with every checks at one of two addresses."""
    for number, checks in enumerate(("none", "default", "all")):
        address = (0xFFFF0, 0x5000000)[(number + turn + bool(declared)) % 2]
        body = f"mov.u32 %r10, {address}; {access} mov.u32 %r9, 5; st.global.u32 [%rd5], %r9;"
        found, _, b = launch(body, declared, block=128, size=512, checks=checks, on_finding="collect")

        assert {"out-of-bounds", "descriptor"} & {f.rule for f in found}, (checks, address)
        assert b[:128].tolist() == [5] * 128


@pytest.mark.parametrize("access", ["st.shared.u32 [%r10+256], %r9;", "ld.shared.u32 %r9, [%r10+132];"])
def test_an_offset_past_the_end(access):
    """The address in the register lies inside; with the offset the lanes at the end, or all, do not."""
    finding = one(
        f"mov.u32 %r10, s; shl.b32 %r11, %r1, 2; add.u32 %r10, %r10, %r11; {access}",
        declared=".shared .align 16 .b8 s[256];",
    )

    assert (finding.rule, finding.values["address"]) == ("out-of-bounds", 256)


STORES = [
    "st.global.u32 [%rd4], %r9;",
    "red.global.add.u32 [%rd4], %r9;",
    "atom.global.exch.b32 %r8, [%rd4], %r9;",
    "setp.ne.u32 %p1, %r1, 0; @%p1 st.u32 [%rd4], %r9;",
    "mul.wide.u32 %rd6, %r3, 8; add.u64 %rd6, %rd1, %rd6; st.global.u64 [%rd6], %rd9;",
]


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("on_finding", ["raise", "collect"])
def test_memory_after_a_store_outside_an_array(store, on_finding):
    """What the threads before the fault stored is there, and nothing else, however many CTAs run side by side."""
    results = [launch(store, size=150, on_finding=on_finding, batch_threads=n)[1].tolist() for n in (1, 150, 1 << 17)]

    assert results[0] != list(range(150))
    assert results[1:] == results[:1] * 2


PLACE = "mul.wide.u32 %rd6, %r1, 16; add.u64 %rd6, %rd1, %rd6; setp.eq.u32 %p1, %r1, 2; "
BY_WARP = "shr.u32 %r8, %r1, 5; mul.wide.u32 %rd6, %r8, 8; add.u64 %rd6, %rd1, %rd6; setp.eq.u32 %p1, %r8, 0; "
MATRIX = "{%f20, %f21, %f22, %f23, %f24, %f25, %f26, %f27}"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (f"{PLACE}@%p1 discard.global.L2 [%rd6], 128;", "32 bytes past"),
        (f"{PLACE}@%p1 tensormap.replace.tile.global_address.global.b1024.b64 [%rd6], %rd9;", "32 bytes past"),
        (f"{BY_WARP}@%p1 wmma.load.c.sync.aligned.m16n16k16.global.row.f32 {MATRIX}, [%rd6+16];", "16 bytes past"),
        (
            f"{BY_WARP}sub.u32 %r8, 8, %r8; @%p1 wmma.load.c.sync.aligned.m16n16k16.global.row.f32 {MATRIX}, [%rd1], %r8;",
            "the stride 8 is",
        ),
    ],
    ids=["discard", "tensor map", "matrix", "stride"],
)
def test_what_takes_no_part_is_not_named(body, said):
    """A message has the value of a thread that is wrong, not of one that the guard leaves out."""
    assert said in one(body, size=512).message


def test_an_undefined_value_is_not_stored():
    """The finding comes before the store; the threads before it have stored."""
    body = "setp.lt.u32 %p1, %r3, 100; @%p1 mov.u32 %r8, 3; st.global.u32 [%rd4], %r8;"
    for threads in (1, 1 << 17):
        found, a, _ = launch(body, batch_threads=threads)

        assert found[0].rule == "uninitialised"
        assert a.tolist() == [3] * 100 + list(range(100, 256))


def test_null_pointer():
    """A pointer that is null is called so, with the distance from it."""
    found = one("mov.u64 %rd6, 0; ld.global.u32 %r8, [%rd6+16];")

    assert found.message == "access of 4 bytes at address 0x10, through a null pointer, 16 bytes from it"
    assert "pass an array" in found.advice


def test_far_from_everything():
    """No distance is told where no allocation is near."""
    assert one("mov.u64 %rd6, 0x123456789000; ld.global.u32 %r8, [%rd6];").message.endswith("and none is near")


@pytest.mark.parametrize(
    "access",
    [
        "st.shared.u32 [%r10], 1;",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r10];",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd1], 16, [%r10];",
    ],
)
def test_forgotten_shared_mem(access):
    """Where a kernel's dynamic shared memory is missing, or too small, the advice names the argument."""
    body = f"mov.u32 %r10, dynamic; add.u32 %r10, %r10, 256; {access}"

    assert "pass shared_mem=: " in one(body, checks="none").advice
    assert "pass more than shared_mem=64" in one(body, checks="none", shared_mem=64).advice


def test_all_local_memory_has_a_limit():
    """Frames of functions count as well as alloca, for a thread and for all that run side by side."""
    recursion = """.version 9.0
.target sm_80
.address_size 64
.func deep(.reg .u32 n) { .local .align 16 .b8 mine[65536]; .reg .pred p; .reg .u32 m; sub.u32 m, n, 1; st.local.u32 [mine], m;
setp.ne.u32 p, m, 0; @p call deep, (m); ret; }
.visible .entry k(.param .u32 n) { .reg .u32 m; ld.param.u32 m, [n]; call deep, (m); ret; }
"""
    kernel = warpsim.load(recursion)["k"]
    kernel(1, 32, (6,))
    with pytest.raises(
        warpsim.ExecutionError, match="limit: the call of deep makes the local memory of a thread larger than 524288"
    ):
        kernel(1, 32, (9,))
    alloca = module_head("sm_80", "9.0") + ".visible .entry k() { .reg .u64 p; alloca.u64 p, 400000; ret; }\n"
    with pytest.raises(warpsim.ExecutionError, match="limit: alloca makes the local memory of the 131072 threads"):
        warpsim.load(alloca)["k"](1024, 128, ())


def test_addresses_just_below_a_multiple():
    """Addresses that follow no stride, each a byte before a word."""
    found = one(
        "mov.u32 %r8, %tid.x; mul.lo.u32 %r8, %r8, %r8; and.b32 %r8, %r8, 15; shl.b32 %r8, %r8, 2; add.u32 %r8, %r8, 3;"
        " mov.u32 %r10, s; add.u32 %r10, %r10, %r8; st.shared.u32 [%r10], 1;",
        declared=".shared .align 16 .b8 s[256];",
    )

    assert found.rule == "misaligned"

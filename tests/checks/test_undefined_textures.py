"""uninitialised: what textures and surfaces read of memory that nobody wrote, and what surfaces store."""

import numpy as np
import pytest

import warpsim

TEXT = """.version 8.6\n.target sm_90\n.address_size 64
.visible .entry fill(.param .u64 a) {
.reg .b64 %a; .reg .b32 %x; .reg .pred %p; ld.param.u64 %a, [a]; mov.u32 %x, %tid.x; mad.wide.u32 %a, %x, 4, %a;
setp.lt.u32 %p, %x, 4; @%p st.global.u32 [%a], %x; ret; }
.visible .entry k(.param .u64 t, .param .u64 out) {
.reg .b64 %o, %t, %q; .reg .b32 %x, %y, %a, %r<4>; .reg .f32 %f, %d<4>; .reg .b16 %h<4>; .shared .b32 s;
ld.param.u64 %o, [out]; ld.param.u64 %t, [t]; mov.u32 %x, %tid.x; cvt.rn.f32.u32 %f, %x; shl.b32 %a, %x, 2; mad.wide.u32 %o, %x, 4, %o;
READ // the origin
USE // the finding
ret; }
"""
READ = next(number for number, line in enumerate(TEXT.splitlines(), 1) if "READ" in line)
HALF = "add.f32 %f, %f, 0f3f000000;"
SAMPLE = "tex.1d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%t, {%f}];"
STORE = "st.global.f32 [%o], %d0;"


def launched(read, use, surface=False, **how):
    """What is found where the first four of eight words were written: line, line of the origin, lanes."""
    device, module = warpsim.Device("sm_90"), warpsim.load(TEXT.replace("READ", read).replace("USE", use))
    array, out = device.empty(8, np.float32), np.zeros(8, np.float32)
    module["fill"](1, 8, (array,), device=device)
    given = warpsim.Surface(array) if surface else warpsim.Texture(array, **how)
    found = module["k"](1, 8, (given, out), device=device, on_finding="collect").findings
    assert {f.rule for f in found} <= {"uninitialised"}
    return [(f.line - READ, f.other.line - READ, f.lanes) for f in found]


@pytest.mark.parametrize(
    ("read", "use", "how"),
    [
        (SAMPLE, STORE, {}),
        (HALF + SAMPLE, STORE, {"filter": "linear"}),  # at the middle of an element, others weigh nothing
        ("tex.1d.v4.f32.s32 {%d0, %d1, %d2, %d3}, [%t, {%x}];", STORE, {"buffer": True}),
        ("tex.1d.v4.f16.f32 {%h0, %h1, %h2, %h3}, [%t, {%f}];", "and.b16 %h0, %h0, 0x8000; st.global.b16 [%o], %h0;", {}),
        ("suld.b.1d.b32.zero %r1, [%t, {%a}];", "st.global.u32 [%o], %r1;", {"surface": True}),
    ],
)  # fmt: skip
def test_what_they_read(read, use, how):
    """Named where it is stored, with the read that it comes from; what is written is defined."""
    assert launched(read, use, **how) == [(1, 0, (4, 5, 6, 7))]


def test_what_filters_weigh():
    """An element of two is enough; channels that the texture lacks are defined, and so is a border."""
    assert launched(SAMPLE, STORE, filter="linear") == [(1, 0, (4, 5, 6, 7))]
    assert launched(f"add.f32 %f, %f, 0f3f400000; {SAMPLE}", STORE, filter="linear") == [(1, 0, (3, 4, 5, 6, 7))]
    assert launched(SAMPLE, "st.global.f32 [%o], %d1;") == []
    outside = f"add.f32 %f, %f, 0f41000000; {SAMPLE}"
    assert launched(outside, STORE, address="border", border=(1.0,)) == []
    assert launched(outside, STORE) == [(1, 0, tuple(range(8)))]
    some = f"add.f32 %f, %f, 0f40800000; {SAMPLE}"
    assert launched(some, STORE, address="border", border=(1.0,)) == [(1, 0, (0, 1, 2, 3))]


def test_what_is_there():
    """Whether something is in memory is defined, whatever it holds."""
    read = f".reg .pred %p; {SAMPLE.replace('}, [', '}|%p, [')} selp.f32 %d0, %f, 0f00000000, %p;"
    assert launched(read, STORE) == []


def test_what_is_gathered():
    """tld4 reads four elements of two rows."""
    device = warpsim.Device("sm_90")
    read = "tld4.r.2d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%t, {%f, %f}];"
    module = warpsim.load(TEXT.replace("READ", read).replace("USE", STORE))
    array = device.empty((2, 4), np.float32)
    module["fill"](1, 8, (array,), device=device)
    (found,) = module["k"](
        1, 2, (warpsim.Texture(array), np.zeros(8, np.float32)), device=device, on_finding="collect"
    ).findings
    assert (found.rule, found.lanes) == ("uninitialised", (1,))


@pytest.mark.parametrize("stores", ["sust.b.1d.b32.zero", "sust.p.1d.b32.zero", "sured.b.add.1d.u32.zero"])
def test_what_surfaces_store(stores):
    """Memory of a surface is global memory."""
    store = f"{stores} [%t, {{{'%x' if '.p' in stores else '%a'}}}], %r1;"
    assert launched("ld.shared.u32 %r1, [s];", store, surface=True) == [(1, 0, tuple(range(8)))]
    after = "" if "sured" in stores else " suld.b.1d.b32.zero %r1, [%t, {%a}]; st.global.u32 [%o], %r1;"
    assert launched("mov.u32 %r1, 0;", store + after, surface=True) == []


@pytest.mark.parametrize(("stores", "expected"), [("sust.b.1d.b32.zero", []), ("sured.b.add.1d.u32.zero", [(1, 0)])])
def test_padding(stores, expected):
    """It may be stored, but not added."""
    load = ".shared .align 8 .b32 w[2]; st.shared.u32 [w], %x; ld.shared.v2.u32 {%r1, %r2}, [w];"
    assert [found[:2] for found in launched(load, f"{stores} [%t, {{%a}}], %r2;", surface=True)] == expected


def test_padding_and_something_undefined_that_decides_nothing():
    """Other values in padding make no difference in a surface."""
    load = ".reg .pred %p; .shared .align 8 .b32 w[2]; setp.lt.u32 %p, %r3, 4; @%p bra A; A: "
    load += "st.shared.u32 [w], %x; ld.shared.v2.u32 {%r1, %r2}, [w];"
    assert launched(load, "sust.b.1d.v2.b32.zero [%t, {0}], {%r1, %r2};", surface=True) == []


def test_what_is_outside():
    """Nothing is stored there."""
    some = "ld.shared.u32 %r1, [s]; .reg .pred %p; setp.lt.u32 %p, %x, 3; @%p mov.u32 %r1, 1; shl.b32 %a, %a, 1;"
    assert launched(some, "sust.b.1d.b32.zero [%t, {%a}], %r1;", surface=True) == [(1, 0, (3,))]


def test_a_reduction_writes_nothing():
    """What is added to is as undefined as before."""
    add = "sured.b.add.1d.u32.zero [%t, {%a}], 1; suld.b.1d.b32.zero %r1, [%t, {%a}];"
    assert launched(add, "st.global.u32 [%o], %r1;", surface=True) == [(1, 0, (4, 5, 6, 7))]

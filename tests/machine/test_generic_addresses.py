"""Generic addresses whose lanes lie in different spaces, under guards: each lane accesses its own place, and no other."""

import numpy as np
import pytest

import warpsim

TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
.reg .b32 t, u, v, k; .reg .b64 i, o, g, s, l, w, a; .reg .pred p, q, r; .shared .align 8 .b32 room[40]; .local .align 8 .b32 mine[2];
ld.param.u64 i, [in]; ld.param.u64 o, [out]; mov.u32 t, %tid.x; mul.wide.u32 w, t, 4; add.u64 g, i, w; add.u64 o, o, w;
mov.u64 s, room; cvta.shared.u64 s, s; add.u64 s, s, w; mov.u64 l, mine; cvta.local.u64 l, l;
add.u32 u, t, 2000; st.shared.u32 [room], u; st.u32 [s], u; add.u32 u, t, 3000; st.local.u32 [mine], u; bar.sync 0;
{choose}
{guard} {access}
bar.sync 0; {show}
}}
"""
CHOOSE = "rem.u32 u, t, 3; setp.eq.u32 q, u, 1; setp.eq.u32 r, u, 2; mov.u64 a, g; @q mov.u64 a, s; @r mov.u64 a, l;"
ONE_OF = {
    "global": "mov.u64 a, g;",
    "shared": "mov.u64 a, s;",
    "local": "mov.u64 a, l;",
    "all": CHOOSE,
    "two": CHOOSE.replace("@r mov.u64 a, l;", ""),
}
GUARDS = {
    "": lambda t: True,
    "setp.lt.u32 p, t, 17; @p": lambda t: t < 17,
    "and.b32 u, t, 5; setp.eq.u32 p, u, 5; @!p": lambda t: t & 5 != 5,
}
SPACES = {"global": 1000, "shared": 2000, "local": 3000}


def space(chosen, t):
    """The space of a thread's address."""
    if chosen in SPACES:
        return chosen
    return ("global", "shared", "local" if chosen == "all" else "global")[t % 3]


@pytest.mark.parametrize("chosen", ONE_OF)
@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("checks", [pytest.param("none", marks=pytest.mark.long), "all"])
@pytest.mark.parametrize(("access", "old", "new"), [
    ("ld.u32 v, [a];", True, lambda old, t: old),
    ("st.u32 [a], t;", False, lambda old, t: t),
    ("atom.add.u32 v, [a], 7;", True, lambda old, t: old + 7),
    ("atom.exch.b32 v, [a], t;", True, lambda old, t: t),
])  # fmt: skip
def test_lanes_in_several_spaces(chosen, guard, access, old, new, checks):
    """What they read is what was there; what they write is there afterwards, and everything else is as it was."""
    show = "ld.global.u32 k, [g]; st.global.u32 [o], v; st.global.u32 [o+160], k; ld.shared.u32 k, [room]; ld.u32 k, [s]; st.global.u32 [o+320], k; ld.local.u32 k, [mine]; st.global.u32 [o+480], k; ret;"
    text = TEXT.format(choose=ONE_OF[chosen], guard=f"mov.u32 v, 5; {guard}", access=access, show=show)
    text = text.replace("st.shared.u32 [room], u; ", "").replace("ld.shared.u32 k, [room]; ", "")
    given, out = np.arange(1000, 1040, dtype=np.uint32), np.zeros((4, 40), np.uint32)
    kernel, local = (
        warpsim.load(text)["k"],
        tuple(t for t in range(32) if GUARDS[guard](t) and space(chosen, t) == "local"),
    )
    if access.startswith("atom") and local:  # atom may be used "where the address points to .global or .shared space"
        with pytest.raises(warpsim.ExecutionError) as caught:
            kernel(1, 40, (given, out), checks=checks)
        assert [(f.rule, f.lanes) for f in caught.value.findings] == [("out-of-bounds", local)]
        assert "an atomic at address 0x0 of local memory" in str(caught.value)
        return
    found = kernel(1, 40, (given, out), checks=checks).findings
    wanted = [[5 if name == "v" else base + t for t in range(40)] for name, base in (("v", 0), *SPACES.items())]
    for t in range(40):
        if GUARDS[guard](t):
            here = space(chosen, t)
            before = SPACES[here] + t
            wanted[0][t] = before if old else 5
            wanted[1 + list(SPACES).index(here)][t] = new(before, t)

    assert found == ()
    assert out.tolist() == wanted


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("tcgen05.alloc.cta_group::1.sync.aligned.b32 [%r0], 32;", "out-of-bounds"),
        ("st.bulk.weak [%r0], 64, 0;", "out-of-bounds"),
        ("tcgen05.st.sync.aligned.32x32b.x2.unpack::16b.b32 [%r0], {%r1, %r1};", "tcgen05"),
    ],
)
def test_addresses_in_registers_of_32_bits(line, rule):
    """The assembler extends them; what is not there is reported."""
    text = f""".version 9.0 .target sm_100a .address_size 64
    .visible .entry k() {{ .reg .b32 %r<2>; mov.u32 %r0, 64; mov.u32 %r1, 1; {line} ret; }}"""
    with pytest.raises(warpsim.ExecutionError) as caught:
        warpsim.load(text)["k"]((1,), (32,), ())

    assert caught.value.findings[0].rule == rule

"""Textures and surfaces against an H200 (tools/recordings/textures.py, textures_wider.py, textures_drawn.py): some threads of each
case.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path

import numpy as np
import pytest

import textures as recorded
import textures_drawn as drawn
import textures_wider as wider
import warpsim
from warpsim.numerics import filtering

DATA = Path(__file__).parents[1] / "data"
ANSWERS, WIDER = np.load(DATA / "textures_h200.npz"), np.load(DATA / "textures_wider_h200.npz")
CASES = [
    pytest.param(case, id=case.name.replace(" ", "_"), marks=[pytest.mark.long] * (number % 6 != 0))
    for number, case in enumerate(case for case in recorded.cases() if case.name in ANSWERS)
]


def texture(described: recorded.Texture) -> tuple[warpsim.Texture, np.ndarray]:
    """The texture that a recording describes, and the elements of its first level."""
    layered, cube = bool(described.flags & recorded.LAYERED), bool(described.flags & recorded.CUBE)
    _, height, depth = (*described.size, 0, 0)[:3]
    dims = 2 if cube else 1 if not height else 2 if layered or not depth else 3
    arrays = []
    for level in range(described.levels):
        w, h, d = described.level(level)
        outer = ([depth // 6] if cube else [depth]) * layered + [6] * cube
        inner = [d, h, w][-dims:]
        arrays.append(np.ascontiguousarray(described.data(level).reshape(*outer, *inner, described.channels)))
    made = warpsim.Texture(
        arrays,
        dims=dims,
        channels=described.channels,
        layered=layered,
        cube=cube,
        filter="linear" if described.linear else "point",
        address=described.address,
        normalized=bool(described.read & recorded.NORMALIZED),
        integer=bool(described.read & recorded.INTEGER),
        border=described.border,
        anisotropy=max(described.anisotropy, 1),
        srgb=bool(described.read & recorded.SRGB),
        seamless=bool(described.read & recorded.SEAMLESS),
        buffer=described.kind == "linear",
        mip_filter="linear" if described.mip_linear else "point",
        mip_bias=described.bias,
        mip_levels=(described.least, described.most),
    )
    return made, arrays[0]


def is_nan(words: np.ndarray) -> np.ndarray:
    """Whether words are NaNs of f32."""
    return (words & 0x7FFFFFFF) > 0x7F800000


@pytest.mark.parametrize("case", CASES)
def test_recorded(case: recorded.Case) -> None:
    """Each thread gets what the GPU's thread got; a surface then holds what the GPU's holds, but where threads store to one place."""
    threads = min(case.threads, 256)
    made, elements = texture(case.texture)
    words, out = np.ascontiguousarray(case.operands[:threads]), np.zeros((threads, 4), np.uint32)
    before = elements.copy()
    warpsim.load(case.text)["k"](1, threads, (words, out, made), on_finding="collect")
    expected = ANSWERS[case.name]

    differ = ((out != expected) & ~(is_nan(out) & is_nan(expected))).any(1)
    if "tex.grad" in case.name:  # the level is near, and few are filtered from another one
        values, answers = out.view(np.float32), expected.view(np.float32)
        near = np.abs(values - answers) <= (2 / 256 if "gradients" in case.name else 0.06)
        assert (near | np.isnan(answers)).all(1).mean() > 0.98
    else:
        assert not differ.any()
    if case.texture.surface:
        after = ANSWERS.get(case.name + " after", before.reshape(-1)).reshape(elements.shape)
        assert (after != elements).sum() <= contended(case)
        assert (elements != before).any() == ("store" in case.name or "reduce" in case.name)


def contended(case: recorded.Case) -> int:
    """The most channels that more than one thread may store to."""
    axes = {"1d": [0], "2d": [0, 1], "3d": [0, 1, 2], "a1d": [3, 0], "a2d": [3, 0, 1]}[case.name.split()[1]]
    if not ("store" in case.name or "formatted" in case.name):
        return 0
    clamped = case.operands[:, axes].view(np.int32)
    if "clamp" in case.name:
        limits = [case.texture.size[0], *case.texture.size[1:], 1, 1]
        clamped = np.stack(
            [np.clip(c, 0, limits[2 if a == 3 else a] - 1) for a, c in zip(axes, clamped.T, strict=True)], 1
        )
    _, counts = np.unique(clamped, axis=0, return_counts=True)
    return int((counts > 1).sum()) * case.texture.channels


GROUPS = (
    "grad",
    "border",
    "modes",
    "formats",
    "halves",
    "srgb",
    "gather",
    "offset",
    "level",
    "memory",
    "pitch",
    "seamless",
    "load",
    "formatted",
    "reduce",
    "",
)


@functools.cache
def wider_cases() -> list[recorded.Case]:
    """All, made once."""
    return wider.cases()


def group_of(case: recorded.Case) -> str:
    """What a case is about."""
    return next(group for group in GROUPS if group in case.name)


@pytest.mark.parametrize(
    "group", [pytest.param(g, marks=[pytest.mark.long] * (g not in ("grad", "gather"))) for g in GROUPS]
)
def test_wider(group: str) -> None:
    """The same of the second recording. Levels from gradients are near."""
    checked, wrong = 0, []
    for whole in wider_cases():
        if whole.name not in WIDER or group_of(whole) != group or whole.texture.anisotropy:
            continue
        checked += 1
        expected, after = WIDER[whole.name], WIDER.get(whole.name + " after")
        case = wider.sampled(whole, changed=after is not None)
        made, elements = texture(case.texture)
        out = np.zeros((case.threads, 4), np.uint32)
        block = min(case.threads, 256)
        warpsim.load(case.text)["k"](case.threads // block, block, (case.operands, out, made), on_finding="collect")
        values, answers = out.view(np.float32), expected.view(np.float32)
        differ = ((out != expected) & ~(is_nan(out) & is_nan(expected))).any(1)
        near = group == "grad" or any(word in case.name for word in NEAR)
        if group == "grad":  # the last channel is the level; beyond 1e9, steps in f32 are as wide as textures
            differ &= np.abs(values - answers)[:, 3] > 2 / 256
        elif near:
            differ &= ~np.isclose(values, answers, rtol=0.01, atol=2 / 256).all(1)
        changed = after is not None and (after.reshape(elements.shape) != elements).sum() > contended(case)
        if differ.sum() > 2 * near or changed:
            wrong.append((case.name, int(differ.sum())))

    assert checked
    assert wrong == []


NEAR = ("query", "seamless gather")
"""How many levels there are, and corners of cubes."""


@pytest.mark.parametrize("part", [pytest.param(n, marks=[pytest.mark.long] * (n > 0)) for n in range(10)])
def test_drawn(part: int) -> None:
    """Levels, slices, light, edges of cubes and borders, as they come: every bit."""
    wrong = []
    with np.load(DATA / "textures_drawn_h200.npz") as stored:
        seed, numbers, answers = str(stored["seed"]), stored["numbers"][part::10], stored["answers"][part::10]
    for number, expected in zip(numbers.tolist(), answers, strict=True):
        case = drawn.drawn(seed, number)
        out, words = np.zeros((drawn.KEPT, 4), np.uint32), np.ascontiguousarray(case.operands[: drawn.KEPT])
        warpsim.load(case.text)["k"](1, drawn.KEPT, (words, out, texture(case.texture)[0]), on_finding="collect")
        if ((out != expected) & ~(is_nan(out) & is_nan(expected))).any():
            wrong.append(case.name)

    assert len(numbers) == 25
    assert wrong == []


TEXT = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 texture, .param .u64 out)
{
    .reg .b64 %t, %o; .reg .b32 %x; .reg .f32 %f, %d<4>;
    ld.param.u64 %t, [texture]; ld.param.u64 %o, [out];
    mov.u32 %x, %tid.x; cvt.rn.f32.u32 %f, %x;
    tex.1d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%t, {%f}];
    mad.wide.u32 %o, %x, 4, %o; st.global.f32 [%o], %d0;
    ret;
}
"""


def test_halves_between_elements() -> None:
    """Linear filtering at whole numbers is the mean of two neighbours."""
    row, out = np.arange(8, dtype=np.float32) ** 2, np.zeros(8, np.float32)
    warpsim.load(TEXT)["k"](1, 8, (warpsim.Texture(row, dims=1, filter="linear"), out))

    assert out.tolist() == [0.0, 0.5, 2.5, 6.5, 12.5, 20.5, 30.5, 42.5]


def test_no_texture() -> None:
    """A handle that is none is an error that names it."""
    out = np.zeros(8, np.float32)
    with pytest.raises(warpsim.ExecutionError, match="0x1234 is no texture or surface object"):
        warpsim.load(TEXT)["k"](1, 8, (0x1234, out))


@pytest.mark.parametrize(
    ("array", "options", "message"),
    [
        (np.zeros(4, np.float64), {"dims": 1}, "elements of"),
        (np.zeros((4, 4), np.float32), {"dims": 1}, "x are asked for"),
        (np.zeros((4, 4, 3), np.float32), {"channels": 3}, "1, 2 or 4 channels"),
        (np.zeros((5, 4, 4), np.float32), {"cube": True}, "six faces"),
        (np.zeros((4, 4), np.float32), {"filter": "cubic"}, "none of point, linear"),
        ([np.zeros((4, 4), np.float32), np.zeros((3, 2), np.float32)], {}, "level 1"),
        (np.zeros((8, 8), np.float32)[:, ::2], {}, "C-contiguous"),
    ],
)
def test_refused(array: object, options: dict[str, object], message: str) -> None:
    """What no texture is, says so."""
    with pytest.raises(warpsim.LaunchError, match=message):
        warpsim.Texture(array, **options)


def test_an_element_in_a_longer_vector():
    """Without .v2 or .v4, each of two or four registers gets the element that is loaded, and the first is stored: so the machine
    code of ptxas 13.0 says."""
    source = """.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 surface) {
    .reg .b32 %r<9>; .reg .b64 %d<2>;
    ld.param.u64 %d0, [out]; ld.param.u64 %d1, [surface];
    mov.b32 %r0, 4; mov.b32 %r5, 11; mov.b32 %r6, 12;
    sust.b.1d.b32.trap [%d1, {%r0}], {%r5, %r6};
    suld.b.1d.b32.trap {%r1, %r2, %r3, %r4}, [%d1, {%r0}];
    st.v4.b32 [%d0], {%r1, %r2, %r3, %r4};
    ret;
}"""
    out, cells = np.zeros(4, np.uint32), np.zeros(4, np.uint32)
    warpsim.load(source)["k"]((1,), (1,), (out, warpsim.Surface(cells)))

    assert out.tolist() == [11] * 4
    assert cells.tolist() == [0, 11, 0, 0]


@pytest.mark.parametrize(
    ("bias", "least", "most", "expected"),
    [
        (math.nan, 0, 1, [128, 256]),
        (0, math.nan, 2, [128, 384]),
        (1, 0, math.nan, [0, 0]),
        (math.inf, 0, math.inf, [768, 768]),
    ],
)
def test_levels_that_are_no_numbers(bias, least, most, expected):
    """A descriptor may hold any float: NaN stands for 0, as a level that a thread asks for does."""
    assert filtering.levels(np.array([0.5, 1.5]), bias, least, most, 4).tolist() == expected

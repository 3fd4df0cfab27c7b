"""Passes of machine code over the shadows of values: what they find is what exact arithmetic says, special values, too."""

import math
from fractions import Fraction

import numpy as np
import pytest

import warpsim
from warpsim.native.shadows import Passes

pytest.importorskip("llvmlite")
SHAPE = (3, 5, 7)
LEAST = Fraction(2) ** -126
EXACT = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "exchanged": lambda a, b: b - a,
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: a * b + c,
    "div": lambda a, b: a / b,
    "rcp": lambda a: 1 / a,
    "sqrt": lambda a: Fraction(math.isqrt(int(a * 2**300))) / 2**150,
    "rsqrt": lambda a: 2**150 / Fraction(math.isqrt(int(a * 2**300))),
    "min": min,
    "max": max,
    "pos": lambda a: a,
    "neg": lambda a: -a,
    "abs": abs,
}
SHARES = {"add": [(0, 1), (1, 0)], "sub": [(0, 1), (1, 0)], "fma": [(2, 0)]}
PASSES = Passes()


def compiled(root, kind="f32"):
    """The pass of an operation."""
    PASSES.compile(root, kind)
    return PASSES.of(root, kind, 1)


def sizes(got, errors):
    """Relative errors, exactly."""
    return [abs(Fraction(float(e))) / max(abs(Fraction(float(g))), LEAST) for g, e in zip(got, errors, strict=True)]


@pytest.mark.parametrize(
    "root",
    ["fma", "sub", *(pytest.param(r, marks=pytest.mark.long) for r in sorted(EXACT.keys() - {"fma", "sub"}))],
)
def test_an_operation(root):
    """Sources of all rows, of one, and for all lanes; exact ones and others; terms that vanish, and some below the normal range."""
    rng, count = np.random.default_rng(5), EXACT[root].__code__.co_argcount if root not in ("min", "max", "abs") else 2
    count = 1 if root == "abs" else count
    shapes = [SHAPE, (1, 5, 7), (3, 1, 7)][:count]
    values = [(np.abs(rng.standard_normal(s)) + 0.5).astype(np.float32) for s in shapes]
    if count > 1:
        values[-1][..., :2] *= np.float32(2.0**-40)
        small = np.float32(2.0 ** (-40 if root == "div" else -90))
        values[0][0, :2] *= small
        values[1][0, 3:] *= small
    errors = [rng.standard_normal(SHAPE) * 1e-9 * np.abs(values[0]), None, np.array([1e-30])][:count]
    wide = [np.broadcast_to(v, SHAPE).reshape(-1) for v in values]
    lost = [np.broadcast_to(0.0 if e is None else e, SHAPE).reshape(-1) for e in errors]
    shadows = [
        [Fraction(float(x)) + Fraction(float(e)) for x, e in zip(v, es, strict=True)]
        for v, es in zip(wide, lost, strict=True)
    ]
    exact = [EXACT[root](*s) for s in zip(*shadows, strict=True)]
    got = np.array([float(e) for e in exact]).astype(np.float32)

    out = np.empty(SHAPE)
    found = compiled(root)(got.reshape(SHAPE), list(zip(values, errors, strict=True)), out, SHAPE)

    expected = np.array([float(e - Fraction(float(g))) for e, g in zip(exact, got, strict=True)])
    np.testing.assert_allclose(out.reshape(-1), expected, rtol=1e-6, atol=1e-15 * float(max(map(abs, exact))))
    relative = sizes(got, out.reshape(-1))
    assert found[0] == pytest.approx(float(sum(relative)), rel=1e-6)
    assert found[1] == pytest.approx(float(max(relative)), rel=1e-6)
    assert relative[found[2]] == pytest.approx(float(max(relative)), rel=1e-6)
    signs = {1: -1} if root == "sub" else {}
    same = sum(
        int(np.count_nonzero((got == signs.get(term, 1) * wide[term]) & (wide[other] != 0)))
        for term, other in SHARES.get(root, ())
    )
    assert found[3:] == (-1, same, int(out.any()))
    assert same or root not in ("add", "sub", "fma")


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("n", [1, 8, 19])
def test_special_values(n):
    """The error of what is not finite is its shadow; one that is no number begins anew; an endless one is the largest."""
    cases = [  # a, error of a, b, result, its error, relative
        (1.0, 0.0, 2.0, 3.0, 0.0, 0.0),
        (3e38, 0.0, 3e38, INF, 6e38, INF),
        (INF, 0.0, 1.0, INF, 0.0, 0.0),
        (INF, 5.0, 1.0, INF, 6.0, INF),
        (INF, 0.0, -INF, NAN, 0.0, 0.0),
        (INF, -1.0, 1.0, INF, 5e-324, INF),
        (1.0, INF, 1.0, 2.0, INF, INF),
        (1e-40, 1e-41, 0.0, 1e-40, 1e-41, 1e-41 * 2.0**126),
    ]
    for a, lost, b, got, error, relative in cases:
        lanes, out = np.ones(n, np.float32), np.empty(n)
        left, right, wrong, result = lanes.copy(), lanes.copy(), np.zeros(n), lanes * 2
        left[-1], right[-1], wrong[-1], result[-1] = a, b, lost, got
        rest = float(result[-1]) - got if math.isfinite(got) else 0.0
        found = compiled("add")(result, [(left, wrong), (right, None)], out, (n,))

        assert out[-1] == pytest.approx(error - rest, rel=1e-3, abs=0 if error > 1e-300 or not error else 1e-323)
        assert not out[:-1].any()
        if relative == INF:
            assert found[3] == n - 1
            assert found[1] == 0.0
        else:
            assert found[1] == pytest.approx(relative, rel=1e-3)
            assert found[3] == -1


@pytest.mark.parametrize(("root", "sign"), [("min", 1), ("max", -1)])
def test_the_other_of_a_nan(root, sign):
    """What is no number loses against any number, on either side."""
    left, right, out = np.array([NAN, 2, 1, NAN], np.float32), np.array([2, NAN, 3, NAN], np.float32), np.empty(4)
    got, wrong = sign * np.array([2, 2, 1, NAN], np.float32), np.array([0.0, 0.25, 0.25, 0.0])
    found = compiled(root)(got, [(sign * left, sign * wrong), (sign * right, None)], out, (4,))

    np.testing.assert_array_equal(out, sign * np.array([0.0, 0.25, 0.25, 0.0]))
    assert found[:4] == (0.375, 0.25, 2, -1)


def test_arrays_in_another_order():
    """Elements count where they stand in the shape, however an array is kept, in rows of one and of all."""
    rng = np.random.default_rng(6)
    values = rng.standard_normal((70, 3)).astype(np.float32).T
    row, errors = np.ones((3, 1), np.float32), rng.standard_normal((70, 3)).T
    got, out = values + row, np.empty((3, 70))
    compiled("add")(got, [(row, None), (values, errors)], out, (3, 70))

    np.testing.assert_allclose(out, (values.astype(float) + errors + 1) - got, rtol=1e-12)


@pytest.mark.parametrize(
    ("compiler", "engine", "there"), [(True, "auto", True), (True, "interpreter", False), (False, "auto", False)]
)
def test_who_has_passes(monkeypatch, compiler, engine, there):
    """The interpreter never compiles, and a browser has no ctypes, which machine code imports."""
    asked = []
    monkeypatch.setattr("warpsim.native.compiling.available", lambda: compiler)
    monkeypatch.setattr("warpsim.native.shadows.passes", lambda: asked.append(PASSES) or PASSES)
    text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }"

    assert warpsim.load(text)["k"](1, 32, (), shadow="f64", engine=engine).accuracy is not None
    assert bool(asked) == there


SUMS = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x) {
    .reg .b32 %r<3>; .reg .b64 %rd<3>; .reg .f32 %f<9>;
    ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; ld.global.f32 %f1, [%rd1];
    add.f32 %f2, %f1, 0f322BCC77;
    mul.f32 %f3, %f2, 0f40490FDB;
    sub.f32 %f4, %f3, 0f7F7FFFFF;
    add.f32 %f5, %f4, 0f7F7FFFFF;
    st.global.f32 [%rd1], %f5; ret; }
"""


class Only:
    """Some of the passes."""

    def __init__(self, *roots):
        self.roots = roots

    def of(self, root, kind, lanes):
        """The pass, if it is one of them."""
        return compiled(root) if root in self.roots else None


@pytest.mark.parametrize("roots", [("add", "sub", "mul"), ("sub",)])
@pytest.mark.parametrize("special", [1, np.inf, 3e38])
def test_a_launch_with_passes(monkeypatch, roots, special):
    """It reports what one reports whose shadows are computed by NumPy: sums that absorb a term, too, and what is not finite."""
    monkeypatch.setattr("warpsim.native.shadows.passes", lambda: Only(*roots))
    x = np.linspace(0, 5, 1024, dtype=np.float32)
    x[77] = special
    found = {}
    for engine in ("auto", "interpreter"):
        births = warpsim.load(SUMS)["k"](1, 1024, (x.copy(),), shadow="f64", engine=engine).accuracy.births
        found[engine] = [(b.line, b.lanes, b.kinds, b.largest, pytest.approx(b.total)) for b in births.values()]

    assert found["auto"] == found["interpreter"]
    assert sum(kinds["absorption"] for _, _, kinds, _, _ in found["auto"]) > 1000


@pytest.mark.long
def test_halves():
    """The least normal f16 is 2^-14."""
    got, out = np.array([2.0**-20, 1.0], np.float16), np.empty(2)
    found = compiled("add", "f16")(got, [(got, np.array([2.0**-24, 0.0])), (got * 0, None)], out, (2,))
    assert found[:3] == (2.0**-10, 2.0**-10, 0)

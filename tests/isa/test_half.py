"""Arithmetic of f16 and bf16, alone and in pairs, against exact rationals: rounding, .ftz, .sat, .relu, NaN, signs of zeros."""

import functools
from fractions import Fraction

import numpy as np
import pytest

import warpsim

NAN = 0x7FFF
FORMATS = {"f16": (5, 10), "bf16": (8, 7)}
"""Bits of the exponent and of the fraction."""


@functools.cache
def split(code, kind):
    """Sign, and the magnitude: a Fraction, "inf" or "nan"."""
    exponent, fraction = FORMATS[kind]
    field, rest = code >> fraction & ((1 << exponent) - 1), code & ((1 << fraction) - 1)
    if field == (1 << exponent) - 1:
        return code >> 15, "nan" if rest else "inf"
    bias = (1 << (exponent - 1)) - 1
    number, unit = rest + ((1 << fraction) if field else 0), max(field, 1) - bias - fraction
    return code >> 15, Fraction(number << unit) if unit > 0 else Fraction(number, 1 << -unit)


def rounded(value, kind):
    """The magnitude code nearest to a positive rational, to even."""
    exponent, fraction = FORMATS[kind]
    bias = (1 << (exponent - 1)) - 1
    n, d = value.as_integer_ratio()
    power = max(n.bit_length() - d.bit_length(), 1 - bias)
    unit = power - fraction
    d <<= max(unit, 0)
    count, rest = divmod(n << max(-unit, 0), d)
    count += 2 * rest > d or (2 * rest == d and count % 2)
    code = count + (power + bias - 1 << fraction) if n else 0
    return min(code, ((1 << exponent) - 1) << fraction)


def fma(a, b, c, kind):
    """a * b + c, rounded once."""
    (sa, a), (sb, b), (sc, c) = (split(x, kind) for x in (a, b, c))
    if "nan" in (a, b, c) or ("inf" in (a, b) and 0 in (a, b)):
        return NAN
    infinite = ((1 << FORMATS[kind][0]) - 1) << FORMATS[kind][1]
    if "inf" in (a, b):
        return NAN if c == "inf" and sc != sa ^ sb else (sa ^ sb) << 15 | infinite
    if c == "inf":
        return sc << 15 | infinite
    total = a * b * (-1) ** (sa ^ sb) + c * (-1) ** sc
    negative = total < 0 or (total == 0 and (sa ^ sb) and sc)
    return negative << 15 | rounded(abs(total), kind)


def flushed(code, kind, ftz):
    """A zero of its sign where subnormal numbers are flushed."""
    exponent, fraction = FORMATS[kind]
    return code & 0x8000 if ftz and not code >> fraction & ((1 << exponent) - 1) else code


def wanted(opcode, kind, codes):
    """What an instruction makes of its operands."""
    root, *words = opcode.split(".")
    ftz, (a, b, c) = "ftz" in words, [flushed(x, kind, "ftz" in words) for x in codes]
    nan = [split(x, kind)[1] == "nan" for x in (a, b, c)]
    one = ((1 << (FORMATS[kind][0] - 1)) - 1) << FORMATS[kind][1]
    if root in ("neg", "abs"):
        return NAN if nan[0] else a & 0x7FFF if root == "abs" else a ^ 0x8000
    if root in ("min", "max"):
        sign = (a ^ b) & 0x8000 if "xorsign" in words else 0
        a, b = (a & 0x7FFF, b & 0x7FFF) if "xorsign" in words else (a, b)
        if (nan[0] and nan[1]) or ("NaN" in words and (nan[0] or nan[1])):
            return NAN
        if nan[0] or nan[1]:
            return (b if nan[0] else a) | sign
        least, most = sorted((a, b), key=lambda x: 0x7FFF - x if x >> 15 else x + 0x8000)
        return (least if root == "min" else most) | sign
    if root == "fma":
        result = fma(a, b, c, kind)
    elif root == "mul":
        result = fma(a, b, 0x8000 if split(a, kind)[0] ^ split(b, kind)[0] else 0, kind)
    else:
        result = fma(a, one, b ^ 0x8000 if root == "sub" else b, kind)
    result = flushed(result, kind, ftz)
    if "sat" in words:
        return 0 if result == NAN or result >> 15 else min(result, one)
    return 0 if "relu" in words and result >> 15 else result


def operands(kind, n):
    """Three codes each: any, near one another, zeros, least, greatest, infinite, NaN."""
    rng = np.random.default_rng(8)
    exponent, fraction = FORMATS[kind]
    near = rng.integers(0, 6, (3, n)) + (1 << (exponent - 1)) - 4 << fraction | rng.integers(0, 1 << fraction, (3, n))
    top = ((1 << exponent) - 1) << fraction
    special = rng.choice([0, 1, (1 << fraction) - 1, 1 << fraction, top - 1, top, top + 1, NAN, top >> 1], (3, n))
    magnitudes = np.choose(
        rng.choice(4, (3, n), p=[0.2, 0.5, 0.2, 0.1]),
        [rng.integers(0, 1 << 15, (3, n)), near, special, near[[0, 0, 0]]],
    )
    return (magnitudes | rng.integers(0, 2, (3, n)) << 15).astype(np.uint16)


OPCODES = [
    *[(op, "f16") for op in ("add.rn", "sub.rn.ftz", "mul.rn", "add.rn.sat", "sub.rn.sat", "mul.rn.ftz.sat", "fma.rn", "fma.rn.ftz")],
    *[(op, "f16") for op in ("fma.rn.sat", "fma.rn.relu", "fma.rn.ftz.relu", "neg", "neg.ftz", "abs", "abs.ftz")],
    *[(op, "f16") for op in ("min", "max.ftz", "min.NaN", "max.NaN", "min.xorsign.abs", "max.NaN.xorsign.abs")],
    *[(op, "bf16") for op in ("add.rn", "sub.rn", "mul.rn", "fma.rn", "fma.rn.relu", "neg", "abs", "min", "max", "max.NaN", "min.xorsign.abs")],
]  # fmt: skip


@pytest.mark.parametrize(("opcode", "kind"), OPCODES)
def test_halves(opcode, kind):
    """32 lanes of operands, alone and in pairs."""
    count = {"neg": 1, "abs": 1, "fma": 3}.get(opcode.split(".")[0], 2)
    codes = operands(kind, 320)
    expected = np.array([wanted(opcode, kind, lane) for lane in codes.T.tolist()], np.uint16)
    pairs = [np.ascontiguousarray(x).view(np.uint32).reshape(5, 32) for x in codes]
    names = ("a", "b", "c")[:count]
    lines = [f".reg .b16 {', '.join(f'{x}l, {x}h' for x in ('d', *names))}; .reg .b32 {', '.join(('d', 'e', *names))};"]
    lines += [f"mov.b32 {{{x}l, {x}h}}, {x};" for x in names]
    lines += [f"{opcode}.{kind} d{half}, {', '.join(x + half for x in names)};" for half in "lh"]
    lines += ["mov.b32 d, {dl, dh};", f"{opcode}.{kind}x2 e, {', '.join(names)};"]
    for k in range(5):
        result = warpsim.run("\n".join(lines), registers={x: p[k] for x, p in zip(names, pairs, strict=False)})
        for name in "de":
            found = np.ascontiguousarray(result.registers[name]).view(np.uint16)
            wrong = np.flatnonzero(found != expected[64 * k : 64 * k + 64])
            assert not len(wrong), (name, [hex(x) for x in codes[:, 64 * k + wrong[0]]], hex(found[wrong[0]]))

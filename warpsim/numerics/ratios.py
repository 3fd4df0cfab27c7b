"""Single f64 operations in integer arithmetic, for exponents where error-free transforms over- or underflow."""

from __future__ import annotations

import numpy as np


def exact_fma(a: float, b: float, c: float, mode: str) -> float:
    """Compute one fma of a nonzero product in integers."""
    (na, da), (nb, db), (nc, dc) = a.as_integer_ratio(), b.as_integer_ratio(), c.as_integer_ratio()
    exact = na * nb * dc + nc * da * db
    if exact == 0:
        return -0.0 if mode == "rm" else 0.0
    return round_ratio(exact, da * db * dc, mode)


def exact_quotient(a: float, b: float, mode: str) -> float:
    """Divide finite nonzero numbers in integers."""
    (na, da), (nb, db) = a.as_integer_ratio(), b.as_integer_ratio()
    return round_ratio(na * db if nb > 0 else -na * db, da * abs(nb), mode)


def round_ratio(numerator: int, denominator: int, mode: str) -> float:
    """Round a nonzero rational (with positive denominator) to f64 in a rounding mode, with the mode's overflow."""
    sign, x = (-1.0 if numerator < 0 else 1.0), abs(numerator)
    exponent = max(x.bit_length() - denominator.bit_length() - 52, -1074)
    n, rest = divmod(x << max(-exponent, 0), one := denominator << max(exponent, 0))
    if n < 1 << 52 and exponent > -1074:
        exponent -= 1
        n, rest = divmod(x << max(-exponent, 0), one := denominator << max(exponent, 0))
    up = {
        "rn": 2 * rest > one or (2 * rest == one and n & 1),
        "rz": False,
        "rm": sign < 0 and rest,
        "rp": sign > 0 and rest,
    }
    n += bool(up[mode])
    limit = ((1 << 53) - 1) << 971
    if exponent >= 0 and n << exponent > limit:
        keeps = mode == "rz" or (mode == "rm" and sign > 0) or (mode == "rp" and sign < 0)
        return sign * (float(limit) if keeps else float("inf"))
    return sign * float(np.ldexp(float(n), exponent))

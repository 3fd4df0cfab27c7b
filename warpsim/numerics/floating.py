"""IEEE arithmetic of f32 and f64 arrays in every rounding mode, with the hardware's NaNs.

Modes are ``rn``, ``rz``, ``rm``, ``rp``. Exactness comes from error-free transforms: a sum of two doubles is rounded to
odd (the last bit records that something was lost), and rounding that to single is a single rounding.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from warpsim.numerics.arrays import F32, F64, WORKSPACE, Array, few, least, overridable, some


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


NAN32 = np.uint32(0x7FFFFFFF)
_HALFWAY = np.int64(-(2**63))
_TIE = int(_HALFWAY)
_TINY = np.float32(2.0**-126)
_NORMAL = 2.0**-126
_BELOW = np.array(35)
"""Shifts out the bits of a double above the one that is half of a single's last bit."""


def canonical(x: Array) -> Array:
    """Replace every NaN of an f32 array by 0x7FFFFFFF, in place (but NumPy's scalars)."""
    if few(x):
        lowest = least(x)
        if lowest == lowest:
            return x
    elif not (x.size and np.isnan(np.minimum.reduce(x, axis=None))):
        return x
    if isinstance(x, np.generic):
        return NAN32.view(F32)
    x.view(np.uint32)[np.isnan(x)] = NAN32
    return x


def flush(x: Array) -> Array:
    """Replace subnormal f32 values by zeros of the same sign."""
    small = np.abs(x) < _TINY
    if some(small):
        x = np.where(small, np.copysign(np.float32(0), x), x)
    return x


def flush_product(r: Array, mode: str, a: Array, b: Array, c: Array | None = None) -> Array:
    """a * b (+ c), rounded to the f32 ``r``, with subnormal results flushed to zero, including results that reach the
    least normal number only through the coarser rounding of subnormals (as on an H100)."""
    least = np.abs(r) == _TINY
    if some(least):
        a, b, *rest = (x.astype(F64) for x in np.broadcast_arrays(a, b, *([] if c is None else [c])))
        exact = odd_sum(a * b, rest[0]) if rest else a * b
        fine = narrow(exact * 2.0**64, mode)  # rounded as if the exponent were unbounded
        r = np.where(least & (np.abs(fine) < np.float32(2.0**-62)), np.copysign(np.float32(0), r), r)
    return flush(r)


def flush_quotient(r: Array, mode: str, a: Array, b: Array) -> Array:
    """a / b, rounded to the f32 ``r``, with subnormal results flushed as in `flush_product`."""
    least = np.abs(r) == _TINY
    if some(least):
        short = (
            2.0**-151 if mode == "rn" else 2.0**-150
        )  # of the least normal number; toward it, the next one below counts
        a, b = (np.abs(x.astype(F64)) for x in np.broadcast_arrays(a, b))
        edge = b * (2.0**-126 - short)
        r = np.where(least & ((a < edge) if mode == "rn" else (a <= edge)), np.copysign(np.float32(0), r), r)
    return flush(r)


def saturate(x: Array) -> Array:
    """Clamp to [0, 1]; NaN and -0 become +0."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    return np.minimum(np.where(x > 0, x, zero), one)


def extreme(a: Array, b: Array, *, is_least: bool) -> Array:
    """The minimum or maximum of two: -0 is less than +0, and a number wins over a NaN; of two NaNs as f32, the
    canonical one.

    np.fmin and np.fmax depend on the processor: on Arm, a signalling NaN wins.
    """
    if few(a) and few(b):
        r = np.minimum(a, b) if is_least else np.maximum(a, b)
        if r.itemsize > 2 and least(np.abs(r)) > 0:  # neither NaN nor zero
            return r
    first = (a < b) if is_least else (a > b)
    first |= (a == b) & (np.signbit(a) if is_least else ~np.signbit(a))
    r = np.where(first | np.isnan(b), a, b)
    return canonical(r) if r.dtype == F32 else r


def odd_sum(p: Array, c: Array) -> Array:
    """p + c in f64, rounded to odd."""
    s = p + c
    t = s - p
    error = (p - (s - t)) + (c - t)
    lost = (error != 0) & np.isfinite(s)
    if lost.any():
        even = lost & ((s.view(np.int64) & 1) == 0)
        s = np.where(even, np.nextafter(s, np.where(error > 0, np.inf, -np.inf)), s)
    return s


def narrow(s: Array, mode: str) -> Array:
    """Convert f64 values (exact or rounded to odd) to f32 in a rounding mode."""
    r = s.astype(F32)
    if mode == "rn":
        return r
    return step_toward(r, r.astype(F64), s, mode)


def step_toward(r: Array, rounded: Array, exact: Array, mode: str) -> Array:
    """Step a nearest-rounded result to its neighbour if the mode requires it."""
    zero = r.dtype.type(0)
    up, down = r.dtype.type(np.inf), r.dtype.type(-np.inf)
    with np.errstate(all="ignore"):
        above, below = rounded > exact, rounded < exact
        if mode == "rz":
            move = np.where(exact >= 0, above, below)
            r = np.where(move, np.nextafter(r, zero), r)
            return np.where(move & (r == 0), np.copysign(zero, exact.astype(r.dtype)), r)
        if mode == "rm":
            return np.where(above, np.nextafter(r, down), r)
        return np.where(below, np.nextafter(r, up), r)


def _zero_sign(r: Array, exact_zero: Array, mode: str) -> Array:
    """Make an exact cancellation to zero -0 when rounding down."""
    return np.where(exact_zero, np.copysign(r, r.dtype.type(-1)), r) if mode == "rm" else r


def add(a: Array, b: Array, mode: str = "rn") -> Array:
    """a + b."""
    if a.dtype == F64:
        return add64(a, b, mode)
    if mode == "rn":
        return canonical(a + b)
    return _directed_sum(a.astype(F64), b.astype(F64), mode)


def _directed_sum(p: Array, c: Array, mode: str) -> Array:
    """p + c of f64 that f32 (or exact products of them) hold, rounded to f32."""
    r = narrow(odd_sum(p, c), mode)
    cancelled = (p + c == 0) & ~((p == 0) & (c == 0) & (np.signbit(p) == np.signbit(c)))
    return canonical(_zero_sign(r, cancelled, mode))


def mul(a: Array, b: Array, mode: str = "rn") -> Array:
    """a * b."""
    if a.dtype == F64:
        return mul64(a, b, mode)
    if mode == "rn":
        return canonical(a * b)
    return canonical(narrow(a.astype(F64) * b.astype(F64), mode))


def fma(a: Array, b: Array, c: Array, mode: str = "rn") -> Array:
    """a * b + c, rounded once."""
    if a.dtype == F64:
        return fma64(a, b, c, mode)
    if mode == "rn":
        return fma32(a, b, c)
    return _directed_sum(a.astype(F64) * b.astype(F64), c.astype(F64), mode)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of f32. The product is exact in f64; the sum is rounded twice only for ties and below the normal range."""
    return _fma_of_few(a, b, c) if few(a) and few(b) and few(c) else _fma_of_many(a, b, c)


@overridable
def _fma_of_many(a: Array, b: Array, c: Array) -> Array:
    """Each pass works in place, because a third f64 array would evict the other two from the cache."""
    shape = _common_shape(a.shape, b.shape, c.shape)
    p, s = WORKSPACE.take("product", shape, F64), WORKSPACE.take("sum", shape, F64)
    np.copyto(s, c)
    np.multiply(a.astype(F64), b.astype(F64), out=p)
    row = s.reshape(-1)  # along one axis, an operation on many lanes takes a twentieth less
    np.add(p.reshape(-1), row, out=row)
    bits = row.view(np.int64)
    try:
        with np.errstate(under="raise"):
            r = s.astype(F32)
    except FloatingPointError:
        with np.errstate(under="ignore"):
            r = s.astype(F32)
        _round_again(r, p, c, (bits << _BELOW == _TIE) | (np.abs(row) < _NORMAL))
        return canonical(r)
    canonical(r)  # while it is in the cache; no NaN is at a tie
    np.left_shift(bits, _BELOW, out=bits)
    if np.minimum.reduce(bits) == _TIE:
        _round_again(r, p, c, bits == _TIE)
    return r


@lru_cache(maxsize=256)
def _common_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """`np.broadcast_shapes`, which takes as long as an operation on a few thousand lanes."""
    return np.broadcast_shapes(*shapes)


def _round_again(r: Array, p: Array, c: Array, doubtful: Array) -> None:
    """Round p + c to the f32 ``r`` once, in the doubtful lanes: those at a tie, or below the normal range. Where the
    sum was exact, ``r`` is right."""
    lanes = np.flatnonzero(doubtful)
    p = p.reshape(-1).take(lanes)
    c = c.reshape(-1).take(lanes) if c.size == r.size else np.broadcast_to(c, r.shape)[np.unravel_index(lanes, r.shape)]
    c = c.astype(F64)
    s = p + c
    t = s - p
    inexact = np.flatnonzero((p - (s - t)) + (c - t))
    if inexact.size:
        with np.errstate(under="ignore"):
            r.reshape(-1)[lanes.take(inexact)] = odd_sum(p.take(inexact), c.take(inexact)).astype(F32)


def _fma_of_few(a: Array, b: Array, c: Array) -> Array:
    """a * b + c as f32, in few calls."""
    p, c = a.astype(F64) * b.astype(F64), c.astype(F64)
    s = p + c
    r = s.astype(F32)
    bits = s.view(np.int64) << _BELOW
    if least(np.abs(r)) >= _NORMAL and least(bits) != _TIE:
        return r
    t = s - p
    error = (p - (s - t)) + (c - t)
    lost = (error != 0) & ((bits == _HALFWAY) | (np.abs(s) < _NORMAL))
    if np.count_nonzero(lost):
        even = lost & ((s.view(np.int64) & 1) == 0)
        r = np.where(even, np.nextafter(s, np.where(error > 0, np.inf, -np.inf)), s).astype(F32)
    return canonical(r)


def div(a: Array, b: Array, mode: str = "rn") -> Array:
    """a / b."""
    r = a / b if mode == "rn" else directed_quotient(a, b, mode)
    return canonical(r) if r.dtype == F32 else nan64(r, a, b)


def sqrt(a: Array, mode: str = "rn") -> Array:
    """Square root."""
    r = np.sqrt(a)
    if mode != "rn":
        if a.dtype == F32:
            r = step_toward(r, r.astype(F64) * r.astype(F64), a.astype(F64), mode)
        else:
            up = np.where(a < 2.0**-900, 2.0**100, 1.0)  # keeps the residual of tiny arguments from underflowing
            high, low = two_product(r * up, r * up)
            scaled = a * up * up
            over, under = (
                (high > scaled) | ((high == scaled) & (low > 0)),
                (high < scaled) | ((high == scaled) & (low < 0)),
            )
            exact = np.where(over, -1.0, np.where(under, 1.0, 0.0)) * np.isfinite(a)
            moved = np.nextafter(r, np.where(over, -np.inf, np.inf))
            wanted = (over & (mode != "rp")) | (under & (mode == "rp"))
            r = np.where((exact != 0) & wanted, moved, r)
    return canonical(r) if r.dtype == F32 else nan64(r, a)


@overridable
def directed_quotient(a: Array, b: Array, mode: str) -> Array:
    """a / b in a directed rounding, but for NaNs: the nearest quotient, corrected by the sign of a - r * b."""
    r = a / b
    if r.dtype == F32:
        residual = a.astype(F64) - r.astype(F64) * b.astype(F64)
    else:
        high, low = two_product(r, b)
        residual = (a - high) - low
    finite = np.isfinite(r) & np.isfinite(a) & np.isfinite(b) & (b != 0)
    if r.dtype == F64:
        r, done = _extreme_quotients(r, a, b, mode)
        finite &= ~done
    over = (residual * np.sign(b) < 0) & finite
    under = (residual * np.sign(b) > 0) & finite
    overflow = np.isinf(r) & np.isfinite(a) & (b != 0) & (r.dtype == F32)
    over |= overflow & (r > 0)
    under |= overflow & (r < 0)
    exact = np.where(over, -1.0, np.where(under, 1.0, 0.0))
    if mode == "rz":
        move = np.where(np.signbit(a) ^ np.signbit(b), under, over)
        moved = np.nextafter(r, r.dtype.type(0))
        return np.where(move, moved, r)
    return step_toward(r, np.zeros_like(exact), exact, mode)


def _extreme_quotients(r: Array, a: Array, b: Array, mode: str) -> tuple[Array, Array]:
    """Quotients whose residual would over- or underflow, by exact rationals, and a mask of those lanes."""
    a, b = np.broadcast_to(a, r.shape), np.broadcast_to(b, r.shape)
    extreme = np.zeros(r.shape, np.bool_)
    for x in (a, b, r):
        size = np.abs(x)
        extreme |= (size > 2.0**900) | (size < 2.0**-900)
    extreme &= np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)
    if extreme.any():
        r = r.copy()
        where = np.nonzero(extreme)
        r[where] = [exact_quotient(float(x), float(y), mode) for x, y in zip(a[where], b[where], strict=True)]
    return r, extreme


# ---- f64 ----------------------------------------------------------------------------------------


def nan64(r: Array, *operands: Array) -> Array:
    """f64 NaN results: the first NaN of the operands, quieted; else 0xFFF8000000000000.

    The hardware looks at b first, then c, then a: callers give the operands in that order."""
    bad = np.isnan(r)
    if not bad.any():
        return r
    bits = np.full(r.shape, 0xFFF8000000000000, np.uint64)
    for operand in reversed(operands):
        x = np.broadcast_to(operand, r.shape)
        bits = np.where(np.isnan(x), x.view(np.uint64) | np.uint64(1 << 51), bits)
    return np.where(bad, bits.view(F64), r)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a * b as an unevaluated sum (Dekker); exact while nothing over- or underflows."""
    p = a * b
    split = 134217729.0
    ah = a * split
    ah = ah - (ah - a)
    al = a - ah
    bh = b * split
    bh = bh - (bh - b)
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def add64(a: Array, b: Array, mode: str) -> Array:
    """a + b in f64."""
    r = a + b
    if mode != "rn":
        t = r - a
        error = (a - (r - t)) + (b - t)
        exact_zero = (r == 0) & ~((a == 0) & (b == 0) & (np.signbit(a) == np.signbit(b)))
        overflow = np.isinf(r) & np.isfinite(a) & np.isfinite(b)
        error = np.where(overflow, -np.sign(r), error)
        r = _directed(r, error, mode)
        r = _zero_sign(r, exact_zero, mode)
    return nan64(r, b, a)


def _directed(r: Array, error: Array, mode: str) -> Array:
    """Move a nearest result whose exact value is r + error."""
    if mode == "rz":
        move = np.where(r > 0, error < 0, error > 0)
        return np.where(move, np.nextafter(r, 0.0), r)
    if mode == "rm":
        return np.where(error < 0, np.nextafter(r, -np.inf), r)
    return np.where(error > 0, np.nextafter(r, np.inf), r)


def mul64(a: Array, b: Array, mode: str) -> Array:
    """a * b in f64."""
    if mode == "rn":
        return nan64(a * b, b, a)
    return fma64(a, b, np.copysign(np.zeros(1), np.where(np.signbit(a) ^ np.signbit(b), -1.0, 1.0)), mode)


@overridable
def fma64(a: Array, b: Array, c: Array, mode: str = "rn") -> Array:
    """a * b + c in f64, rounded once (Boldo and Melquiond); extreme exponents go through exact rationals."""
    a, b, c = np.broadcast_arrays(a, b, c)
    high, low = two_product(a, b)
    th = c + low
    t = th - c
    tl = (c - (th - t)) + (low - t)
    vh = high + th
    t = vh - high
    vl = (high - (vh - t)) + (th - t)
    z = odd_sum(tl, vl)
    r = vh + z
    product_zero = (a == 0) | (b == 0)
    plain = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, a * b + c)
    if mode != "rn":
        t = r - vh
        error = (vh - (r - t)) + (z - t)
        r = np.where(r == 0, 0.0, _directed(r, error, mode))
        if mode == "rm":
            same = product_zero & (c == 0) & (np.signbit(a) ^ np.signbit(b) == np.signbit(c))
            r = np.where((r == 0) & ~same, -0.0, r)
            plain = np.where((plain == 0) & product_zero & ~same, -0.0, plain)
    hard = _hard(a, b, c) & ~product_zero
    if hard.any():
        r = r.copy()
        where = np.nonzero(hard)
        r[where] = [
            exact_fma(float(x), float(y), float(w), mode) for x, y, w in zip(a[where], b[where], c[where], strict=True)
        ]
    easy = product_zero | ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c))
    return nan64(np.where(easy, plain, r), b, c, a)


def _hard(a: Array, b: Array, c: Array) -> Array:
    """Lanes where the error-free transforms may over- or underflow. No other product has bits below 2**-1066, so that sums near
    zero are exact."""
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    p = np.abs(a * b)
    bad = (p > 2.0**990) | (p < 2.0**-960) | (np.abs(a) > 2.0**990) | (np.abs(b) > 2.0**990)
    bad |= np.abs(c) > 2.0**990
    return finite & bad

"""Host memory that a device sees at the host's own addresses: managed variables, pinned and managed memory."""

from __future__ import annotations

import mmap

import numpy as np

from warpsim.host.arrays import Array

GUARD = 1 << 16
"""Bytes left free on either side, so that a stray access hits nothing."""


def pages(nbytes: int) -> Array:
    """Allocate zeroed memory, at least page aligned. Raises OSError, ValueError or OverflowError if that fails."""
    return np.frombuffer(mmap.mmap(-1, nbytes + 2 * GUARD), np.uint8)[GUARD : GUARD + nbytes]

"""What threads of a CTA release by a strong write that follows a fence and then a barrier."""

from __future__ import annotations

import numpy as np

from warpsim.machine.values import Array


def released_since(fences: Array, threads: Array, cta: Array, warp: Array) -> Array:
    """Per thread of a CTA, the time before which ``threads`` release what it did: what they knew at their fences, and what
    the others did before fences of their own and the barrier, which libraries rely on.

    ``fences`` are the times of each thread's last fence, and of the barriers of the CTA and the warp before it; ``cta`` and
    ``warp`` the times of the last barriers of ``threads``.
    """
    at, cta_then, warp_then = fences
    told = np.maximum(np.minimum(at, cta.max()), cta_then[threads].max())
    for number in np.unique(threads >> 5).tolist():
        lanes, inside = slice(number * 32, number * 32 + 32), threads >> 5 == number
        known = np.maximum(np.minimum(at[lanes], warp[inside].max()), warp_then[threads[inside]].max())
        told[lanes] = np.maximum(told[lanes], known)
    return np.asarray(told)

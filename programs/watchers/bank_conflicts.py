"""Shared-memory bank conflicts by PTX line: how many passes the accesses of a warp take beyond the first."""

from collections import Counter

import numpy as np

import warpsim

BANKS = 32
"""Of 32 bits each: lanes that want different words of one bank wait for each other."""


class BankConflicts(warpsim.Watcher):
    """``passes[line]`` and ``accesses[line]``: what warps needed, and how often they came."""

    def __init__(self):
        self.passes, self.accesses = Counter(), Counter()

    def memory_accessed(self, machine, group, access):
        """Count the words that a warp wants of its busiest bank."""
        if not access.space.startswith("shared"):
            return
        warps, shape = group.warps, group.selection.shape
        active = True if access.active is None else access.active
        here = warps.active & warps.spread(np.broadcast_to(active, shape))
        lanes = np.moveaxis(np.broadcast_to(here, warps.active.shape), 1, 2).reshape(-1, 32)
        words = warps.spread(np.broadcast_to(access.place, shape)) >> 2
        words = np.moveaxis(np.broadcast_to(words, warps.active.shape), 1, 2).reshape(-1, 32)
        words = np.sort(np.where(lanes, words, -1), axis=1)  # equal words are one: they are broadcast
        new = (words >= 0) & np.c_[np.ones(len(words), bool), words[:, 1:] != words[:, :-1]]
        banks = np.arange(len(words))[:, None] * BANKS + words % BANKS
        busy = np.bincount(banks[new], minlength=len(words) * BANKS).reshape(-1, BANKS).max(axis=1)
        line = group.instruction.span.line
        self.passes[line] += int(busy.sum())
        self.accesses[line] += int(np.count_nonzero(busy))

    def conflicts(self):
        """Passes beyond the first, for each line that has any."""
        return dict(+(self.passes - self.accesses))

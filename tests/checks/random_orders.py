"""Random kernels that synchronise, with what the memory consistency model says of them: a clock of every thread about every other.

A kernel is a list of steps. Those that access memory (*probes*) come in pairs, each in memory of its own: in the first step each of
some threads accesses its own word, in the second the word of another thread. So a pair races exactly if the second access does not
know of the first.
"""

import random

import numpy as np

HEAD = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b)
{{
.reg .b32 %r<20>, %t, %w, %l, %c, %g, %s, %m, %v, %k, %own, %far, %rank; .reg .b64 %rd<20>, %data, %flags, %table, %x, %mine; .reg .pred %p<9>, %q, %z;
.shared .align 16 .b32 s[{shared}]; .shared .align 8 .b64 m[64]; .shared .align 4 .b32 f[{shared}];
ld.param.u64 %data, [a]; ld.param.u64 %table, [b]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; shr.u32 %w, %t, 5; and.b32 %l, %t, 31;
mad.lo.u32 %g, %c, {block}, %t; mul.wide.u32 %mine, %g, 4; mov.u32 %s, s; shl.b32 %own, %t, 2; mov.u32 %rank, %cluster_ctarank;
add.u64 %flags, %data, {flags}; setp.eq.u32 %z, %t, 0;
"""
MANY = 64
"""Flags that are set in one step and told apart: of more, a thread that reads one acquires what all have released."""


class Threads:
    """What the threads of a grid know of each other, and the PTX of a kernel in the making; ``alike``: every CTA does the same;
    ``strict``: a relaxed write hands on only what its thread knew at its fence.
    """

    def __init__(self, seed, ctas=4, warps=2, cluster=1, *, alike=False, kinds=None, strict=False):
        self.rng, self.strict = random.Random(seed), strict
        self.ctas, self.warps, self.cluster, self.alike = ctas, warps, cluster, alike
        self.block, self.n = warps * 32, ctas * warps * 32
        self.thread = np.arange(self.n)
        self.cta, self.tid = np.divmod(self.thread, self.block)
        self.lines, self.tables = [], []
        self.racing, self.certain = {}, {}
        """The pairs of threads that race in two lines, and those that must be found: who exits after it has told anybody what it did
        is taken to have told all.
        """
        self.knows = np.zeros((self.n, self.n), np.int64)
        self.fences = {}
        self.pending = {}
        self.alive = np.ones(self.n, bool)
        self.now, self.labels, self.words, self.shared, self.objects, self.barriers = 0, 0, 0, 0, [], 0
        self.arrived = None
        self.crowded = False
        self.given = np.zeros(self.n, np.int64)
        """The time before which each thread has told anybody what it did."""
        self.open, self.flags = [], {"shared": 0, "global": 0}
        self.kinds = (kinds or "probe probe probe probe cta warp named flag flag fence exit mbarrier").split()
        self.kinds += ["cluster", "cluster", "remote"] * (cluster > 1)

    # ---- the model ---------------------------------------------------------------------------

    def tick(self, who):
        """A new moment, before which these threads know what they have done themselves."""
        self.now += 1
        self.knows[who, who] = self.now

    def meet(self, who):
        """Threads that wait for each other."""
        self.tick(who)
        self.knows[who] = self.knows[who].max(0)
        self.given[who] = self.now

    def snapshot(self, who):
        """What each of these threads knows now."""
        self.tick(who)
        self.given[who] = self.now
        return self.knows[who].copy()

    def give(self, who, known):
        """These threads tell somebody what they did."""
        self.given[who] = np.maximum(self.given[who], known.diagonal()[who])

    # ---- PTX ---------------------------------------------------------------------------------

    def label(self):
        """A fresh one."""
        self.labels += 1
        return f"L{self.labels}"

    def emit(self, text):
        """One line."""
        self.lines.append(text)
        return len(self.lines) - 1

    def table(self, words):
        """A word for each thread, read into ``%m``."""
        self.tables.append(np.asarray(words, np.uint32))
        return (
            f"add.u64 %x, %table, {4 * self.n * (len(self.tables) - 1)}; add.u64 %x, %x, %mine; ld.global.u32 %m, [%x];"
        )

    def guard(self, who):
        """Sets ``%q`` in these threads; the guard."""
        if who.all():
            return ""
        rows = who.reshape(self.ctas, self.block)
        if (rows == rows[0]).all():
            masks = [sum(1 << k for k in range(32) if rows[0, 32 * w + k]) for w in range(self.warps)]
            text = f"mov.u32 %m, {masks[0]};"
            for w in range(1, self.warps):
                text += f" setp.eq.u32 %q, %w, {w}; selp.b32 %m, {masks[w]}, %m, %q;"
            text += " shr.u32 %m, %m, %l; and.b32 %m, %m, 1;"
        else:
            text = self.table(who)
        self.emit(text + " setp.ne.u32 %q, %m, 0;")
        return "@%q "

    # ---- choices -----------------------------------------------------------------------------

    def some(self, *, warps=False, ctas=None):
        """Threads that are alive: of some CTAs, whole warps or single ones."""
        rng = self.rng
        chosen = np.isin(self.cta, list(ctas)) if ctas is not None else np.ones(self.n, bool)
        if ctas is None and not self.alike and rng.random() < 0.5:
            chosen &= np.isin(self.cta, rng.sample(range(self.ctas), rng.randint(1, self.ctas)))
        kind = rng.choice(["all", "warps"] if warps else ["all", "warps", "lane", "lanes"])
        if kind == "warps":
            chosen &= np.isin(self.tid // 32, rng.sample(range(self.warps), rng.randint(1, self.warps)))
        elif kind == "lane":
            chosen &= self.tid == rng.randrange(self.block)
        elif kind == "lanes":
            chosen &= np.isin(self.tid, rng.sample(range(self.block), rng.randint(2, self.block)))
        return chosen & self.alive

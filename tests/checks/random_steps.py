"""Steps of random kernels: accesses, and every way to synchronise."""

import random

import numpy as np

import warpsim

from .random_orders import HEAD, MANY, Threads


class Kernel(Threads):
    """A kernel of random steps."""

    # ---- steps -------------------------------------------------------------------------------

    def probe(self):
        """Accesses of one pair: the first, or the second of one that is open."""
        rng = self.rng
        if self.open and rng.random() < 0.5:
            self.second(self.open.pop(rng.randrange(len(self.open))))
            return
        space = rng.choice(["global", "global", "shared", "remote" if self.cluster > 1 else "shared"])
        if space != "global" and self.shared >= 8:
            space = "global"
        kind = rng.choice(["st", "st", "ld", "red"])
        who = self.some()
        place = self.words if space == "global" else self.shared * self.block
        if space == "global":
            self.words += self.n
        else:
            self.shared += 1
        first = self.access(kind, space, place, who, self.thread)
        self.tick(who)
        times = np.full(self.n, self.now - 1)
        self.open.append((space, place, kind, who, times, first))

    def second(self, pair):
        """Threads access the words of others."""
        rng = self.rng
        space, place, kind, first, times, line = pair
        other = rng.choice(["st", "ld"] if kind == "red" else ["st", "red", "ld"] if kind == "st" else ["st", "red"])
        n = self.n if space == "global" else self.block
        if self.alike and space == "global":
            whose = (self.thread // self.block + rng.randrange(self.ctas)) % self.ctas * self.block + (
                self.tid ^ rng.randrange(32)
            )
        elif space == "global":
            whose = (
                np.array(rng.sample(range(n), n))
                if rng.random() < 0.5
                else self.thread ^ rng.choice([1, 2, 16, 31, 32])
            )
        elif self.alike:
            whose = self.thread ^ rng.choice([1, 5, 16, 31])
        else:
            whose = self.cta * n + np.array(rng.sample(range(n), n))[self.tid]
        if space == "remote":
            whose = (
                whose // self.block // self.cluster * self.cluster
                + (self.cta + rng.randrange(self.cluster)) % self.cluster
            ) * self.block + whose % self.block
        who = self.some()
        at = self.access(other, space, place, who, whose)
        self.tick(who)
        racing = [
            (int(t), int(whose[t]))
            for t in np.flatnonzero(who & first[whose] & (whose != self.thread))
            if self.knows[t, whose[t]] <= times[whose[t]]
        ]
        told = {(t, w) for t, w in racing if not self.alive[w] and times[w] < self.given[w]}
        self.racing[line, at], self.certain[line, at] = set(racing), set(racing) - told

    def access(self, kind, space, place, who, whose):
        """The instruction, alone in its line; ``whose`` is the thread that owns the word of each."""
        if (whose == self.thread).all():
            text = "mov.u32 %m, %g;"
        else:
            delta = whose ^ self.thread
            text = f"xor.b32 %m, %g, {delta[0]};" if (delta == delta[0]).all() else self.table(whose)
        guarded = self.guard(who)
        self.crowded |= kind == "red" and space == "global" and who.sum() > MANY
        if space == "global":
            self.emit(f"{text} mul.wide.u32 %x, %m, 4; add.u64 %x, %x, %data; add.u64 %x, %x, {4 * place};")
            name, address, scope = "global", "[%x]", "gpu"
        else:
            name, address, scope = "shared", "[%far]", "cta"
            self.emit(
                f"{text} rem.u32 %far, %m, {self.block}; shl.b32 %far, %far, 2; add.u32 %far, %far, %s; add.u32 %far, %far, {4 * place};"
            )
            if space == "remote":
                self.emit(
                    f"div.u32 %m, %m, {self.block}; rem.u32 %m, %m, {self.cluster}; mapa.shared::cluster.u32 %far, %far, %m;"
                )
                name, scope = "shared::cluster", "cluster"
        self.emit(f"mad.lo.u32 %v, %g, 1000, {len(self.lines)};")
        if kind == "st":
            return self.emit(f"{guarded}st.{name}.u32 {address}, %v;")
        if kind == "ld":
            return self.emit(f"{guarded}ld.{name}.u32 %k, {address};")
        return self.emit(f"{guarded}red.relaxed.{scope}.{name}.add.u32 {address}, 1;")

    def barrier_of_cta(self):
        """All threads of the CTAs, or of some of them."""
        whole = self.some(
            ctas=range(self.ctas) if self.alike else self.rng.sample(range(self.ctas), self.rng.randint(1, self.ctas))
        )
        ctas = set(self.cta[whole].tolist())
        who = np.isin(self.cta, list(ctas)) & self.alive
        self.emit(f"{self.guard(np.isin(self.cta, list(ctas)))}bar.sync 0;")
        for cta in ctas:
            self.meet(np.flatnonzero(who & (self.cta == cta)))

    def meeting_of_lanes(self):
        """Lanes of each warp."""
        rng = self.rng
        everyone = rng.random() < 0.3
        who = self.some(warps=True)
        for w in range(self.n // 32):  # a mask names lanes that are there
            mine = slice(32 * w, 32 * w + 32)
            who[mine] &= (who[mine] & self.alive[mine]).any() & self.alive[mine]
        masks = np.zeros(self.n, np.int64)
        chosen = rng.getrandbits(32) | 1 << rng.randrange(32)
        for w in range(self.n // 32):
            mine = slice(32 * w, 32 * w + 32)
            here = sum(1 << k for k in range(32) if who[32 * w + k])
            mask = here if everyone else here & chosen
            masks[mine] = mask
            who[mine] &= (mask >> np.arange(32) & 1).astype(bool)
        if not who.any():
            return
        if len(set(masks[who].tolist())) == 1:
            mask = str(int(masks[who][0]))
        else:
            self.emit(self.table(masks) + " mov.u32 %r9, %m;")
            mask = "%r9"
        guarded = self.guard(who)
        self.emit(guarded + rng.choice([
            f"bar.warp.sync {mask};", f"shfl.sync.bfly.b32 %k, %t, 0, 31, {mask};", f"vote.sync.ballot.b32 %k, %z, {mask};",
            f"match.any.sync.b32 %k, %t, {mask};", f"redux.sync.add.s32 %k, %t, {mask};",
        ]))  # fmt: skip
        for w in range(self.n // 32):
            mine = np.flatnonzero(who & (self.thread // 32 == w))
            if len(mine):
                self.meet(mine)

    def barrier_of_warps(self):
        """Some warps arrive, or wait, at a barrier of their CTA with a number of its own."""
        rng = self.rng
        if self.barriers >= 15 or self.warps < 2:
            return
        living = [
            w
            for w in range(self.warps)
            if all(self.alive[(self.cta == c) & (self.tid // 32 == w)].all() for c in range(self.ctas))
        ]
        if len(living) < 2:
            return
        self.barriers += 1
        chosen = rng.sample(living, rng.randint(2, len(living)))
        waiting = chosen[: rng.randint(1, len(chosen))]
        ctas = range(self.ctas) if self.alike else rng.sample(range(self.ctas), rng.randint(1, self.ctas))
        here, warp = np.isin(self.cta, list(ctas)), self.tid // 32
        arrives, waits = here & np.isin(warp, chosen[len(waiting) :]), here & np.isin(warp, waiting)
        for who, what in ((arrives, "arrive"), (waits, "sync")):
            if who.any():
                self.emit(f"{self.guard(who)}bar.{what} {self.barriers}, {32 * len(chosen)};")
        for cta in ctas:
            self.hand_over(
                np.flatnonzero((arrives | waits) & (self.cta == cta)), np.flatnonzero(waits & (self.cta == cta))
            )

    def hand_over(self, givers, takers):
        """What some know, others learn."""
        known = self.snapshot(givers).max(0)
        self.knows[takers] = np.maximum(self.knows[takers], known)

    def cluster_barrier(self):
        """Threads arrive at the barrier of their clusters, or wait for the phase in which they have arrived."""
        rng = self.rng
        if self.arrived is not None:
            who, known = self.arrived
            self.emit(f"{self.guard(who)}barrier.cluster.wait;")
            for cluster in range(self.ctas // self.cluster):
                mine = np.flatnonzero(who & (self.cta // self.cluster == cluster))
                if len(mine):
                    self.knows[mine] = np.maximum(self.knows[mine], known[cluster])
            self.arrived = None
            return
        relaxed, known, who = rng.random() < 0.3, {}, self.alive.copy()
        self.emit(f"barrier.cluster.arrive{'.relaxed' * relaxed};")
        for cluster in range(self.ctas // self.cluster):
            mine = np.flatnonzero(who & (self.cta // self.cluster == cluster))
            if len(mine):
                fenced = self.fences.get("gpu", 0 * self.knows)
                known[cluster] = (fenced[mine] if relaxed else self.snapshot(mine)).max(0)
                self.give(mine, fenced)
        self.arrived = who, known

    def fenced(self, scope):
        """What a relaxed write hands on: what its thread had done before its last fence of at least a scope, and what it knows of
        others. By the text that is what it knew at the fence (``strict``); but CUDA programs fence in all threads, meet at a
        barrier, and let one thread write, and no GPU so far is known to break this.
        """
        if self.strict:
            return self.fences.get(scope, np.zeros_like(self.knows)).copy()
        own = self.fences.get(scope, np.zeros_like(self.knows)).diagonal()
        known = np.where(own[:, None] > 0, self.knows, 0)
        known[self.thread, self.thread] = own
        return known

    def fence(self, who=None):
        """A fence of some scope."""
        who = self.some() if who is None else who
        scope = self.rng.choice(["cta", "gpu", "gpu"])
        self.emit(
            f"{self.guard(who)}"
            + (
                f"fence.acq_rel.{scope};"
                if self.rng.random() < 0.5
                else {"cta": "membar.cta;", "gpu": "membar.gl;"}[scope]
            )
        )
        mine = np.flatnonzero(who)
        self.tick(mine)
        for level in ("cta", "gpu") if scope == "gpu" else ("cta",):
            taken = self.pending.pop(level, None)
            if taken is not None:
                self.knows[mine] = np.maximum(self.knows[mine], taken[mine])
                taken[mine] = 0
                self.pending[level] = taken
        for level in ("cta", "gpu") if scope == "gpu" else ("cta",):
            held = self.fences.setdefault(level, np.zeros_like(self.knows))
            held[mine] = self.knows[mine]

    def flag(self):
        """Some threads each set a flag, others wait for one of these."""
        rng = self.rng
        shared = rng.random() < 0.3 and self.flags["shared"] < 8
        space = "shared" if shared else "global"
        ctas = None if not shared else range(self.ctas) if self.alike else [rng.randrange(self.ctas)]
        givers, takers = self.some(ctas=ctas), self.some(ctas=ctas)
        if rng.random() < 0.3:  # one for all
            givers &= (self.tid if shared else self.thread) == (self.tid if shared else self.thread)[givers][:1].sum()
        elif givers.sum() > MANY and rng.random() < 0.9:
            givers &= self.tid % 8 == rng.randrange(8)
        sources = self.sources(givers, takers, within=shared)
        takers &= sources >= 0
        if not takers.any():
            return
        self.crowded |= givers.sum() > MANY
        one_cta = (self.cta[takers] == self.cta[sources[takers]]).all()
        scope = "cta" if shared or (one_cta and rng.random() < 0.5) else "gpu"
        release, acquire = rng.choice(["release", "relaxed", "relaxed"]), rng.choice(["acquire", "relaxed", "relaxed"])
        if release == "relaxed" and rng.random() < 0.7:
            self.fence(givers)
        base = self.flags[space] * (self.block if shared else self.n)
        self.flags[space] += 1
        address, text = ("[%far]", self.word_of("f", base)) if shared else ("[%x]", self.word_of("%flags", base))
        guarded = self.guard(givers)
        self.emit(f"mov.u32 %m, %g; {text}")
        write = rng.choice(["st", "st", "red", "exch"])
        write = {"st": f"st.{release}.{scope}.{space}.u32 {address}, 1;", "red": f"red.{release}.{scope}.{space}.add.u32 {address}, 1;",
                 "exch": f"atom.{release}.{scope}.{space}.exch.b32 %k, {address}, 1;"}[write]  # fmt: skip
        self.emit(guarded + write)
        if release == "release":
            self.snapshot(givers)
        given = {level: self.knows.copy() if release == "release" else self.fenced(level) for level in ("cta", "gpu")}
        self.give(givers, given["cta"])
        whose = np.where(takers, sources, self.thread)
        delta = whose ^ self.thread
        guarded, again, out = self.guard(takers), self.label(), self.label()
        self.emit((f"xor.b32 %m, %g, {delta[0]};" if (delta == delta[0]).all() else self.table(whose)) + text)
        if guarded:
            self.emit(f"@!%q bra {out};")
        self.emit(f"{again}: ld.{acquire}.{scope}.{space}.u32 %k, {address}; setp.eq.u32 %p1, %k, 0; @%p1 bra {again};")
        self.emit(f"{out}:")
        for t in np.flatnonzero(takers).tolist():
            giver = int(sources[t])
            near = self.cta[t] == self.cta[giver]
            known = given["cta" if near else "gpu"][giver]
            if acquire == "acquire":
                self.knows[t] = np.maximum(self.knows[t], known)
            else:
                held = self.pending.setdefault("cta" if near else "gpu", np.zeros_like(self.knows))
                held[t] = np.maximum(held[t], known)
        if acquire == "relaxed" and rng.random() < 0.7:
            self.fence(takers)

    def sources(self, givers, takers, *, within):
        """For each thread one of the givers (of its CTA), -1 if there is none."""
        found = np.full(self.n, -1)
        for cta in range(self.ctas):
            mine = takers & (self.cta == cta)
            given = np.flatnonzero(givers & (self.cta == cta)) if within else np.flatnonzero(givers)
            if len(given) and mine.any():
                rng = random.Random(7) if self.alike and within else self.rng  # the same in every CTA
                found[mine] = [given[rng.randrange(len(given))] for _ in range(int(mine.sum()))]
        return found

    def word_of(self, start, base):
        """The address of a word of the thread in ``%m``."""
        if start == "f":
            return f"rem.u32 %far, %m, {self.block}; shl.b32 %far, %far, 2; mov.u32 %k, f; add.u32 %far, %far, %k; add.u32 %far, %far, {4 * base};"
        return f"mul.wide.u32 %x, %m, 4; add.u64 %x, %x, {start}; add.u64 %x, %x, {4 * base};"

    def mbarrier(self):
        """Some threads arrive at an mbarrier of their CTA, others wait."""
        rng = self.rng
        if sum(o == "mbarrier" for o in self.objects) >= 16:
            return
        ctas = range(self.ctas) if self.alike else rng.sample(range(self.ctas), 1)
        arrives, waits = self.some(ctas=ctas), self.some(ctas=ctas)
        if not all(arrives[self.cta == c].any() for c in ctas):
            return
        number = len(self.objects)
        self.objects.append("mbarrier")
        relaxed = rng.random() < 0.3
        counts = {c: int(arrives[self.cta == c].sum()) for c in ctas}
        self.inits.append((number, counts))
        if relaxed and rng.random() < 0.6:
            self.fence(arrives)
        self.emit(f"{self.guard(arrives)}mbarrier.arrive{'.relaxed.cta' * relaxed}.shared.b64 _, [m+{8 * number}];")
        self.wait(waits, number, ".acquire.cta")
        for cta in ctas:
            mine = np.flatnonzero(arrives & (self.cta == cta))
            known = self.fenced("cta")[mine] if relaxed else self.snapshot(mine)
            self.give(mine, self.fenced("cta"))
            taken = np.flatnonzero(waits & (self.cta == cta))
            self.knows[taken] = np.maximum(self.knows[taken], known.max(0))

    def wait(self, waits, number, how):
        """Threads wait for the first phase of an mbarrier."""
        guarded, again, out = self.guard(waits), self.label(), self.label()
        if guarded:
            self.emit(f"@!%q bra {out};")
        self.emit(
            f"{again}: mbarrier.try_wait.parity{how}.shared::cta.b64 %p1, [m+{8 * number}], 0; @!%p1 bra {again};"
        )
        self.emit(f"{out}:")

    def remote(self):
        """Threads of a cluster arrive at the mbarrier of one of its CTAs, whose threads wait."""
        rng = self.rng
        if sum(o == "mbarrier" for o in self.objects) >= 16:
            return
        rank = rng.randrange(self.cluster)
        arrives, waits = self.some(), self.some() & (self.cta % self.cluster == rank)
        clusters = self.cta // self.cluster
        counts = {
            c * self.cluster + rank: int((arrives & (clusters == c)).sum()) for c in range(self.ctas // self.cluster)
        }
        waits &= np.isin(clusters, [c // self.cluster for c, n in counts.items() if n])
        if not arrives.any():
            return
        number = len(self.objects)
        self.objects.append("mbarrier")
        self.inits.append((number, {c: max(n, 1) for c, n in counts.items()}))
        guarded = self.guard(arrives)
        self.emit(f"mov.u32 %far, m; mapa.shared::cluster.u32 %far, %far, {rank};")
        self.emit(f"{guarded}mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%far+{8 * number}];")
        self.wait(waits, number, ".acquire.cluster")
        for cluster in range(self.ctas // self.cluster):
            mine, taken = (np.flatnonzero(who & (clusters == cluster)) for who in (arrives, waits))
            if len(mine):
                self.hand_over(mine, taken)

    def leave(self):
        """Some warps, or lanes, exit."""
        who = self.some()
        for cta in range(self.ctas):
            if not (self.alive & ~who & (self.cta == cta)).any():
                return
        if self.arrived is not None or not who.any() or self.rng.random() < 0.6:
            return
        self.emit(f"{self.guard(who)}exit;")
        self.alive &= ~who

    # ---- all of it ---------------------------------------------------------------------------

    def build(self, steps):
        """Random steps; the pairs that are open are closed."""
        self.inits = []
        does = {
            "probe": self.probe, "cta": self.barrier_of_cta, "warp": self.meeting_of_lanes, "named": self.barrier_of_warps,
            "cluster": self.cluster_barrier, "fence": self.fence, "flag": self.flag, "mbarrier": self.mbarrier,
            "remote": self.remote, "exit": self.leave,
        }  # fmt: skip
        for _ in range(steps):
            does[self.rng.choice(self.kinds)]()
        while self.open:
            self.second(self.open.pop())
        if self.arrived is not None:
            self.cluster_barrier()
        if self.cluster > 1:
            self.emit("barrier.cluster.arrive; barrier.cluster.wait;")
        first = self.beginning()
        head = HEAD.format(block=self.block, shared=8 * self.block, flags=4 * self.words)
        self.text = head + "\n".join([first, *self.lines, "ret;", "}", ""])
        self.first = HEAD.count("\n") + 2 + first.count("\n")
        return self

    def beginning(self):
        """Objects in shared memory."""
        words = [
            f"mov.u32 %k, f; add.u32 %far, %own, %k; mov.u32 %k, 0; st.shared.u32 [%far+{4 * self.block * k}], %k;"
            for k in range(self.flags["shared"])
        ]
        for number, counts in self.inits:
            for cta, count in counts.items():
                init = f"@%q mbarrier.init.shared.b64 [m+{8 * number}], {count};"
                words.append(f"setp.eq.and.u32 %q, %c, {cta}, %z; {init}")
        meet = "fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;"
        words.append(meet if self.cluster > 1 else "bar.sync 0;")
        return " ".join(words)

    def findings(self, **options):
        """What the rule finds."""
        data = np.zeros(self.words + self.n * (self.flags["global"] + 1), np.uint32)
        table = np.concatenate(self.tables) if self.tables else np.zeros(1, np.uint32)
        cluster = (self.cluster, 1, 1) if self.cluster > 1 else None
        result = warpsim.load(self.text)["k"](
            self.ctas, self.block, (data, table), checks="race", on_finding="collect", cluster=cluster,
            max_instructions=10**6, **options,
        )  # fmt: skip
        return result.findings

"""race: random accesses of every size, shape and overlap, against every pair of them."""

import random
from collections import defaultdict

import numpy as np
import pytest

import warpsim

HEAD = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b)
{{
.reg .b16 h; .reg .b32 %t, %c, %g, %m, %v, %at, %k; .reg .b64 %data, %table, %x, %y, %mine, q<2>; .reg .pred %q;
.shared .align 16 .b8 s[{size}];
ld.param.u64 %data, [a]; ld.param.u64 %table, [b]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mad.lo.u32 %g, %c, {block}, %t;
mul.wide.u32 %mine, %g, 4; add.u64 %mine, %mine, %table;
"""
SIZES = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "v2.u64"}
REGISTER = {1: "%v", 2: "h", 4: "%v", 8: "q0", 16: "{{q0, q1}}"}


class Kernel:
    """Lines that access one memory, all threads one line after another; ``lines`` has what each thread accesses there."""

    def __init__(self, seed, space, ctas):
        self.rng = random.Random(seed)
        self.space, self.ctas, self.block = space, ctas, 64
        self.n, self.size = ctas * 64, 64 * 64
        self.thread = np.arange(self.n)
        self.text, self.tables, self.accesses, self.epoch = [], [], {}, 0
        self.calm, self.atomics = self.rng.random() < 0.5, self.rng.random() < 0.3
        for _ in range(9):
            if space == "shared" and self.rng.random() < 0.25:
                self.text.append("bar.sync 0;")
                self.epoch += 1
            self.access()

    def table(self, words):
        """A word for each thread, read into ``%m``."""
        self.tables.append(np.asarray(words, np.uint32))
        return f"ld.global.u32 %m, [%mine+{4 * self.n * (len(self.tables) - 1)}];"

    def access(self):
        """One line."""
        rng, nbytes = self.rng, self.rng.choice([1, 2, 4, 4, 4, 8, 16])
        kind = rng.choice(["ld", "ld", "st", "st", "red" if nbytes == 4 and self.atomics else "ld"])
        who = np.ones(self.n, bool)
        if rng.random() < 0.6:
            who = np.array([rng.random() < rng.choice([0.02, 0.5]) for _ in range(self.n)])
        near = self.thread % self.block if self.space == "shared" or rng.random() < 0.3 else self.thread
        shape = rng.random()
        if self.calm and shape < 0.93:  # in 16 bytes of the thread's own
            start = nbytes * rng.randrange(16 // nbytes)
            own = "%t" if self.space == "shared" else "%g"
            at = 16 * (self.thread % self.block if self.space == "shared" else self.thread) + start
            make = f"mad.lo.u32 %m, {own}, 16, {start};" if shape < 0.7 else self.table(at)
        elif shape < 0.5:  # a regular access: the same stride from each thread to the next
            stride, start = nbytes * rng.choice([0, 1, 1, 1, 2, 3]), nbytes * rng.randrange(8)
            at = start + stride * near % (self.size - 256)
            if (start + stride * near).max() < self.size - 256:
                variable = "%t" if near is not self.thread else "%g"
                make = f"mad.lo.u32 %m, {variable}, {stride}, {start};"
            else:
                make = self.table(at)
        else:
            at = nbytes * np.array([rng.randrange(rng.choice([3, 40, 200])) for _ in range(self.n)])
            make = self.table(at)
        guard = ""
        if not who.all():
            self.text.append(self.table(who) + " setp.ne.u32 %q, %m, 0;")
            guard = "@%q "
        place = (
            "mov.u32 %at, s; add.u32 %at, %at, %m;"
            if self.space == "shared"
            else "cvt.u64.u32 %x, %m; add.u64 %x, %x, %data;"
        )
        value = f"mad.lo.u32 %v, %g, 7, {len(self.text)}; cvt.u16.u32 h, %v; cvt.u64.u32 q0, %v; mov.u64 q1, q0;"
        self.text.append(f"{make} {place} {value}")
        address, register = "[%at]" if self.space == "shared" else "[%x]", REGISTER[nbytes].format()
        if kind == "red":
            self.text.append(f"{guard}red.relaxed.gpu.{self.space}.add.u32 {address}, 1;")
        elif kind == "st":
            self.text.append(f"{guard}st.{self.space}.{SIZES[nbytes]} {address}, {register};")
        else:
            self.text.append(f"{guard}ld.{self.space}.{SIZES[nbytes]} {register}, {address};")
        self.accesses[len(self.text) - 1] = kind, nbytes, at, who, self.epoch

    def races(self):
        """Every pair of threads that race, by their lines; and the lines that must be told: the first for some byte."""
        seen, pairs, first = defaultdict(list), defaultdict(set), set()
        raced = set()
        for line, (kind, nbytes, at, who, epoch) in self.accesses.items():
            here = []
            for t in np.flatnonzero(who).tolist():
                column = t // self.block if self.space == "shared" else 0
                for byte in range(int(at[t]), int(at[t]) + nbytes):
                    for other, what, thread, when in seen[column, byte]:
                        ordered = thread == t or (self.space == "shared" and when < epoch)
                        if not ordered and {kind, what} not in ({"ld"}, {"red"}):
                            pairs[line, other].add((t, thread))
                            here.append((column, byte))
                    seen[column, byte].append((line, kind, t, epoch))
            if any(byte not in raced for byte in here) and not any(
                kind == "red" for kind, *_ in self.accesses.values()
            ):
                first.add(line)
            raced.update(here)
        return pairs, first

    def findings(self, **options):
        """What the rule finds."""
        text = HEAD.format(size=self.size, block=self.block) + "\n".join([*self.text, "ret;", "}", ""])
        data, table = np.zeros(self.size, np.uint8), np.concatenate([*self.tables, np.zeros(1, np.uint32)])
        found = warpsim.load(text)["k"](
            self.ctas, self.block, (data, table), checks="race", on_finding="collect", **options
        ).findings
        return [(f, f.line - HEAD.count("\n") - 1, f.other.line - HEAD.count("\n") - 1) for f in found]


CASES = [("shared", 1), ("shared", 3), ("global", 1), ("global", 3)]


def cases(first, last, marks=()):
    """Kernels of each kind."""
    return [
        pytest.param(f"{seed} {space} {ctas}", space, ctas, marks=marks)
        for seed in range(first, last)
        for space, ctas in CASES
    ]


@pytest.mark.parametrize("options", [{}, {"batch_threads": 64}], ids=["together", "in waves"])
@pytest.mark.parametrize(("seed", "space", "ctas"), cases(0, 2) + cases(2, 60, [pytest.mark.long]))
def test_random_accesses(seed, space, ctas, options):
    """The first access that makes a byte race is told, with a thread that it races with; and nothing else is."""
    if options and (space, ctas) != ("global", 3):
        options = {"batch_threads": 128}
    kernel = Kernel(seed, space, ctas)
    pairs, first = kernel.races()
    found = kernel.findings(**options)
    for f, line, other in found:
        lanes = {f.cta[0] * 64 + 32 * f.warp + lane for lane in f.lanes}
        if "several threads in one instruction" in f.message:
            assert (line, line) in pairs
            continue
        theirs = f.other.cta[0] * 64 + 32 * f.other.warp + f.other.lanes[0]
        there = pairs[line, other] | {(w, t) for t, w in pairs[other, line]}
        assert theirs in {w for t, w in there if t in lanes}, (f.message, line, other)
        assert lanes <= {t for (a, _), every in pairs.items() for t, w in every if a == line} | {
            w for (_, b), every in pairs.items() for t, w in every if b == line
        }
    if not options:
        assert first <= {line for _, line, _ in found}
    assert bool(found) == bool([p for p in pairs.values() if p])

"""Random chains in which the threads of a warp exchange values, between instructions of ``chains.py``.

    python tools/recordings/exchanges.py SEED COUNT LIST     draws chains; record and compare them with chains.py

Shuffles, votes, matches and reductions, by all lanes or by the first few; shared memory in all widths, atomics, ``ldmatrix``,
``stmatrix`` and ``movmatrix``; products of matrices whose operands are whatever is in the registers; branches that only some
lanes take. What a chain leaves does not depend on the order of threads.
"""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import chains

HEAD = ".shared .align 128 .b8 sh[4096]; .reg .b32 y, w; .reg .pred few;"
OWN, OTHER = "shl.b32 y, t, 5; mov.u32 w, sh; add.u32 y, y, w;", "xor.b32 y, t, {x}; shl.b32 y, y, 5; add.u32 y, y, w;"
WIDTHS = {
    "b8": "b s u h uh sh q", "u8": "b u uh h uq q", "s8": "s sh sq h b q", "b16": "h b q uh sh", "u16": "uh u uq b", "s16": "sh s sq q",
    "b32": "b u s f x q", "u32": "u uq b", "s32": "s sq b q", "f32": "f", "b64": "q uq sq d", "u64": "uq q", "s64": "sq", "f64": "d",
}  # fmt: skip
"""The registers that loads and stores of a type take."""
PREFIXES = {
    "u32": "u", "s32": "s", "b32": "b", "u64": "uq", "s64": "sq", "b64": "q", "f32": "f", "f64": "d", "f16": "hf", "b16": "h",
    "f16x2": "x", "bf16": "h", "bf16x2": "b",
}  # fmt: skip
"""A register of each type of an atomic."""
REDUCTIONS = ("add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32")
ATOMICS = (
    *REDUCTIONS, "add.u64", "add.f32", "add.f64", "inc.u32", "dec.u32", "min.u64", "min.s64", "max.u64", "max.s64", "and.b64", "or.b64", "xor.b64",
    "exch.b32", "exch.b64", "cas.b32", "cas.b64", "cas.b16", "add.noftz.f16", "add.noftz.f16x2", "add.noftz.bf16", "add.noftz.bf16x2",
)  # fmt: skip
PRODUCTS = (
    "m16n8k8.row.col.f32.f16.f16.f32 F4 X2 X1 F4", "m16n8k8.row.col.f16.f16.f16.f16 X2 X2 X1 X2", "m16n8k8.row.col.f32.bf16.bf16.f32 F4 B2 B1 F4",
    "m16n8k16.row.col.f32.f16.f16.f32 F4 X4 X2 F4", "m16n8k16.row.col.f16.f16.f16.f16 X2 X4 X2 X2", "m16n8k16.row.col.f32.bf16.bf16.f32 F4 B4 B2 F4",
    "m16n8k4.row.col.f32.tf32.tf32.f32 F4 B2 B1 F4", "m16n8k8.row.col.f32.tf32.tf32.f32 F4 B4 B2 F4",
    "m8n8k4.row.col.f64.f64.f64.f64 D2 D1 D1 D2", "m16n8k4.row.col.f64.f64.f64.f64 D4 D2 D1 D4", "m16n8k8.row.col.f64.f64.f64.f64 D4 D4 D2 D4",
    "m8n8k16.row.col.s32.s8.s8.s32 B2 B1 B1 B2", "m8n8k16.row.col.satfinite.s32.u8.s8.s32 S2 B1 B1 S2", "m16n8k16.row.col.s32.s8.u8.s32 S4 B2 B1 S4",
    "m16n8k32.row.col.satfinite.s32.s8.s8.s32 S4 B4 B2 S4", "m16n8k32.row.col.s32.u4.s4.s32 S4 B2 B1 S4", "m8n8k32.row.col.s32.s4.s4.s32 S2 B1 B1 S2",
    "m8n8k128.row.col.s32.b1.b1.s32.xor.popc S2 B1 B1 S2", "m16n8k128.row.col.s32.b1.b1.s32.and.popc S4 B2 B1 S4",
    "m16n8k32.row.col.f32.e4m3.e5m2.f32 F4 B4 B2 F4", "m16n8k32.row.col.f32.e5m2.e5m2.f32 F4 B4 B2 F4",
)  # fmt: skip


class Exchange:
    """Draws what threads do together."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def any(self, *prefixes: str) -> str:
        """Any of the few registers of these types."""
        return f"{self.rng.choice(prefixes)}{self.rng.randrange(chains.FEW)}"

    def word(self) -> str:
        """A register of 32 bits without a float type, or one time in four a number."""
        return (
            self.any("b", "u", "s")
            if self.rng.random() < 0.75
            else str(self.rng.choice([0, 1, 2, 3, 5, 16, 30, 31, 32, 33]))
        )

    def vector(self, kind: str) -> str:
        """Registers that follow each other: ``F4`` is four of ``f``."""
        count, first = int(kind[1]), self.rng.randrange(chains.FEW)
        names = [f"{kind[0].lower()}{(first + n) % chains.FEW}" for n in range(count)]
        return f"{{{', '.join(names)}}}"

    def masked(self, text: str, *counts: int) -> str:
        """The instruction by all lanes, or by the first few: ``text`` names the mask ``MASK``."""
        if self.rng.random() < 0.6:
            return text.replace("MASK", "-1")
        count = self.rng.choice(counts)
        return f"mov.u32 y, %laneid; setp.lt.u32 few, y, {count}; @few {text.replace('MASK', hex((1 << count) - 1))} bar.warp.sync -1;"

    def shuffle(self) -> str:
        """``shfl.sync``; where few lanes take part, each reads one of them."""
        target, source = self.any("b", "u", "s", "f"), self.any("b", "u", "s", "f")
        if self.rng.random() < 0.5:
            target += f"|{self.any('p')}"
        if self.rng.random() < 0.3:
            count = self.rng.choice([2, 4, 8, 16])
            text = f"shfl.sync.bfly.b32 {target}, {source}, {self.rng.randrange(count)}, 31, {hex((1 << count) - 1)};"
            return f"mov.u32 y, %laneid; setp.lt.u32 few, y, {count}; @few {text} bar.warp.sync -1;"
        clamp = self.rng.choice(["31", "0", "0x1800", "0x1c03", "0x1e1f", self.any("b", "u", "s"), self.any("b")])
        mode = self.rng.choice(["up", "down", "bfly", "idx"])
        return f"shfl.sync.{mode}.b32 {target}, {source}, {self.word()}, {clamp}, -1;"

    def vote(self) -> str:
        """``vote.sync``."""
        source = self.rng.choice(["", "!"]) + self.any("p")
        mode = self.rng.choice(["all.pred", "any.pred", "uni.pred", "ballot.b32"])
        target = self.any("b", "u") if mode == "ballot.b32" else self.any("p")
        return self.masked(f"vote.sync.{mode} {target}, {source}, MASK;", 1, 7, 16, 31)

    def match(self) -> str:
        """``match.sync`` on values with few bits."""
        bits, prefix = self.rng.choice([(32, "b"), (64, "q")])
        source = self.any(prefix)
        made = f"and.b{bits} {source}, {source}, {self.rng.choice([0, 1, 3, 7])};" if self.rng.random() < 0.8 else ""
        if self.rng.random() < 0.5:
            return made + self.masked(f"match.any.sync.b{bits} {self.any('b', 'u')}, {source}, MASK;", 1, 7, 16, 31)
        target = self.any("b") + self.rng.choice(["", f"|{self.any('p')}"])
        return made + self.masked(f"match.all.sync.b{bits} {target}, {source}, MASK;", 1, 7, 16, 31)

    def reduce(self) -> str:
        """``redux.sync``."""
        operation = self.rng.choice(REDUCTIONS)
        prefix = operation[-3]
        return self.masked(
            f"redux.sync.{operation} {self.any(prefix, 'b')}, {self.any(prefix, 'b')}, MASK;", 1, 7, 16, 31
        )

    def elect(self) -> str:
        """``elect.sync``."""
        return self.masked(f"elect.sync {self.any('b')}|{self.any('p')}, MASK;", 1, 7, 31)

    def barrier(self) -> str:
        """``bar.red``."""
        source = self.rng.choice(["", "!"]) + self.any("p")
        operation = self.rng.choice(["popc.u32", "and.pred", "or.pred"])
        target = self.any("u", "b") if operation == "popc.u32" else self.any("p")
        return f"bar.red.{operation} {target}, 0, {source};"

    def access(self, name: str) -> str:
        """A load or a store of one to four elements."""
        type = self.rng.choice(list(WIDTHS))
        size, prefix = int(type[1:]) // 8, self.rng.choice(WIDTHS[type].split())
        count = self.rng.choice([n for n in (1, 2, 4) if n * size <= 16])
        values = ", ".join(f"{prefix}{n}" for n in self.rng.sample(range(chains.FEW), count))
        place = f"[y+{self.rng.randrange(0, 32, count * size)}]"
        vector, values = (f".v{count}", f"{{{values}}}") if count > 1 else ("", values)
        operands = f"{values}, {place}" if name == "ld" else f"{place}, {values}"
        return f"{name}.shared{vector}.{type} {operands};"

    def memory(self) -> str:
        """Stores to a slot, loads from another's in another type."""
        texts = [OWN, *(self.access("st") for _ in range(self.rng.randrange(1, 3)))]
        texts.append("bar.sync 0;" + OTHER.format(x=self.rng.choice([0, 1, 5, 31, 32, 63])))
        texts += [self.access("ld") for _ in range(self.rng.randrange(1, 4))]
        return " ".join([*texts, "bar.sync 0;"])

    def atomic(self) -> str:
        """An atomic on a thread's own word; or sums, extremes and bits of all threads."""
        if self.rng.random() < 0.4:
            operation = self.rng.choice([*REDUCTIONS, "add.u64", "min.u64", "max.s64", "xor.b64"])
            type = operation[-3:]
            value, result = self.any(PREFIXES[type]), self.any(PREFIXES[type])
            first, second = self.rng.randrange(0, 64, 8), self.rng.randrange(0, 64, 8)
            load = f"ld.shared.{type} {result}, [y+{second}];"
            return f"mov.u32 y, sh; red.shared.{operation} [y+{first}], {value}; bar.sync 0; {load} bar.sync 0;"
        operation = self.rng.choice(ATOMICS)
        prefix = PREFIXES[operation.split(".")[-1]]
        more = f", {self.any(prefix)}" if operation.startswith("cas") else ""
        return f"{OWN} atom.shared.{operation} {self.any(prefix)}, [y+{self.rng.randrange(0, 32, 8)}], {self.any(prefix)}{more};"

    def matrices(self) -> str:
        """Matrices to and from shared memory, each warp its own half, or transposed in registers."""
        if self.rng.random() < 0.2:
            return f"movmatrix.sync.aligned.m8n8.trans.b16 {self.any('b')}, {self.any('b')};"
        at = "and.b32 y, t, 31; shl.b32 y, y, 4; and.b32 w, t, 32; shl.b32 w, w, 4; add.u32 y, y, w; mov.u32 w, sh; add.u32 y, y, w;"
        count = self.rng.choice([1, 2, 4])
        transposed = self.rng.choice(["", ".trans"])
        store = f"stmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 [y], {self.vector(f'B{count}')};"
        count = self.rng.choice([1, 2, 4])
        load = f"ldmatrix.sync.aligned.m8n8.x{count}{self.rng.choice(['', '.trans'])}.shared.b16 {self.vector(f'B{count}')}, [y];"
        return f"bar.sync 0; {at} {self.rng.choice([store, ''])} bar.sync 0; {load} bar.sync 0;"

    def product(self) -> str:
        """``mma.sync``."""
        name, *operands = self.rng.choice(PRODUCTS).split()
        vectors = [self.vector(kind) for kind in operands]
        if "e5m2" in name:
            vectors[3] = vectors[0]
        return f"mma.sync.aligned.{name} {', '.join(vectors)};"


def make(seed: str, count: int) -> list[list[str]]:
    """Chains: half exchanges, half instructions of threads alone, some of them behind a branch."""
    rng = random.Random(seed)
    draw = Exchange(rng)
    kinds = [
        draw.shuffle,
        draw.vote,
        draw.match,
        draw.reduce,
        draw.elect,
        draw.barrier,
        draw.memory,
        draw.atomic,
        draw.matrices,
        draw.product,
    ]
    clear = "bar.sync 0; shl.b32 y, t, 6; mov.u32 w, sh; add.u32 y, y, w; " + " ".join(
        f"st.shared.v4.b32 [y+{n}], {{b{n // 16 % 4}, u{n // 16 % 4}, s{n // 16 % 4}, b3}};" for n in range(0, 64, 16)
    )
    alone = [i for chain in chains.make(seed, count) for i in chain if not re.search(r"bra|set\.\S*\.b?f16\.", i)]
    found = []
    for _ in range(count):
        chain = [HEAD, clear + " bar.sync 0;"]
        for n in range(rng.randrange(4, 12)):
            if rng.random() < 0.6:
                chain.append(rng.choice(kinds)())
            elif rng.random() < 0.2:
                inner = " ".join(rng.choice(alone) for _ in range(rng.randrange(1, 4)))
                other = " ".join(rng.choice(alone) for _ in range(rng.randrange(1, 3)))
                chain.append(
                    f"@p{rng.randrange(chains.FEW)} bra E{n}; {inner} bra J{n}; E{n}: {other} J{n}: bar.warp.sync -1;"
                )
            else:
                chain.append(rng.choice(alone))
        found.append(chain)
    return found


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    Path(sys.argv[3]).write_text("".join("\t".join(c) + "\n" for c in make(sys.argv[1], int(sys.argv[2]))))

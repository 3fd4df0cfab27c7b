"""Random chains of instructions, which the assembler may fold, fuse and reorder: what is in every register at their ends.

    python tools/recordings/chains.py make SEED COUNT LIST     draws chains of what the package takes
    python tools/recordings/chains.py record LIST OUT.npz      on a machine with a GPU of sm_90 and its driver
    python tools/recordings/chains.py compare OUT.npz          runs them in the simulator and names what differs

LIST has a chain in each line, its instructions separated by tabs. Instructions come from the forms that the package declares,
registers are few, so that most results are operands again; some instructions are guarded, some jumped over. The driver's
compiler ends in a fault over one chain of some hundreds: give ``record`` short lists. Left out is what it changes the meaning
of (docs/inside/exactness.md).
"""

from __future__ import annotations

import hashlib
import random
import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

import drawn
import forms
import instruction_heads
import warpsim
from instruction_heads import REGISTERS
from moves import Gpu
from warpsim.types import ScalarType

FEW, LENGTH, MODULE = 4, 14, 40
TARGET, VERSION = "sm_90a", "8.8"
SLOT = 8
UNGUARDED = re.compile(r"testp|set\.|mov\.v|vadd4\.u32\.u32\.u32\.add|abs\.f32|neg\.f32")
"""What the assembler executes whatever its guard, or selects with a NaN's bits under one."""
FOLDED = re.compile(r"bf[ei]\..*, (-?\d\S*, \S+|\S+, -?\d\S*);|cvt\.sat\.f32\.f32")
"""Bit fields with numbers, which the assembler folds to something else where these exceed 31, and a saturation that it drops."""
ROOTS = (
    "abs add addc and bfe bfi bfind bmsk brev clz cnot copysign cos cvt cvt.pack div dp2a dp4a ex2 fma fns lg2 lop3 mad mad24 madc max min "
    "mov mul mul24 neg not or popc prmt rcp rem rsqrt sad selp set setp shf shl shr sin slct sqrt sub subc szext tanh testp "
    "vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vset vset2 vset4 vshl vshr vsub "
    "vsub2 vsub4 xor"
)


class Chain(drawn.Draw):
    """Draws instructions between few registers."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.roots = [root for root in self.roots if root in ROOTS.split()]

    def register(self, type: ScalarType | None) -> str:
        """Any of the few of a type."""
        return f"{self.rng.choice(drawn.registers(type))}{self.rng.randrange(FEW)}"

    def disturbed(self, operands: list[str]) -> list[str]:
        """Operands stay as the form has them."""
        return operands

    def changed(self, root: str, words: list[str]) -> list[str]:
        """So do modifiers."""
        return words


def few(name: re.Match[str]) -> str:
    """A register's name, as one of the few."""
    return f"{name[1]}{int(name[2]) % FEW}" if name[1] in REGISTERS else name[0]


def legal(seed: str, count: int) -> list[str]:
    """As many drawn instructions, those that the package takes."""
    draw, found = Chain(seed), []
    for text in dict.fromkeys(draw.instruction() for _ in range(count)):
        if (
            re.search("mem|prm|\\bo\\d|%|WARP", text)
            or FOLDED.match(text)
            or (text[0] == "@" and UNGUARDED.search(text))
        ):
            continue
        text = re.sub(r"(?<![.\w])([a-z]+)(\d+)\b", few, text)
        try:
            warpsim.load(instruction_heads.head(TARGET, VERSION) + text + drawn.TAIL)
        except warpsim.PtxError:
            continue
        found.append(text)
    return found


def make(seed: str, count: int) -> list[list[str]]:
    """Chains of legal instructions: each root as often as any other."""
    rng, by_root = random.Random(seed), defaultdict(list)
    for text in legal(seed, 12 * count):
        by_root[text.split()[text[0] == "@"].split(".")[0]].append(text)
    roots, chains = sorted(by_root), []
    for _ in range(count):
        chain = []
        for n in range(rng.randrange(3, LENGTH)):
            text = rng.choice(by_root[rng.choice(roots)])
            if rng.random() < 0.1 and text[0] != "@" and not UNGUARDED.match(text):
                text = f"@{rng.choice(['', '!'])}p{rng.randrange(FEW)} {text}"
            if rng.random() < 0.06:
                text = f"@p{rng.randrange(FEW)} bra N{n}; {text} N{n}:"
            chain.append(text)
        chains.append(chain)
    return chains


def names() -> list[str]:
    """All registers."""
    return [f"{prefix}{n}" for prefix in REGISTERS for n in range(FEW)]


def moved(name: str, at: str, store: bool) -> str:
    """Code that loads or stores a register."""
    prefix = name[:-1]
    if prefix == "p":
        return (
            f"selp.u32 z, 1, 0, {name}; st.global.u32 [{at}], z;"
            if store
            else f"ld.global.u32 z, [{at}]; and.b32 z, z, 1; setp.ne.u32 {name}, z, 0;"
        )
    if prefix in ("hf", "x"):
        bits, word = (16, "half") if prefix == "hf" else (32, "z")
        return (
            f"mov.b{bits} {word}, {name}; st.global.b{bits} [{at}], {word};"
            if store
            else f"ld.global.b{bits} {word}, [{at}]; mov.b{bits} {name}, {word};"
        )
    return (
        f"st.global.{REGISTERS[prefix]} [{at}], {name};" if store else f"ld.global.{REGISTERS[prefix]} {name}, [{at}];"
    )


def entry(number: int, chain: list[str]) -> str:
    """A kernel: each register is loaded, the chain runs, each register is stored."""
    every = names()
    size = SLOT * len(every)
    return "\n".join([
        f".visible .entry k{number}(.param .u64 source, .param .u64 target) {{",
        *(f".reg .{type} {name}<{FEW}>;" for name, type in REGISTERS.items()),
        ".reg .b64 in, out; .reg .b32 t, z; .reg .b16 half;",
        "ld.param.u64 in, [source]; ld.param.u64 out, [target]; mov.u32 t, %tid.x;",
        f"mad.wide.u32 in, t, {size}, in; mad.wide.u32 out, t, {size}, out;",
        *(moved(name, f"in+{SLOT * at}", False) for at, name in enumerate(every)),
        "add.cc.u32 z, z, z;",
        *chain,
        *(moved(name, f"out+{SLOT * at}", True) for at, name in enumerate(every)),
        "ret; }",
    ])  # fmt: skip


def inputs(chain: list[str]) -> np.ndarray:
    """``[THREADS, slots * SLOT]`` bytes, half of them special for the registers' types."""
    rng = np.random.default_rng(zlib.crc32("\t".join(chain).encode()))
    every = names()
    data = rng.integers(0, 256, (forms.THREADS, SLOT * len(every)), dtype=np.uint8)
    for at, name in enumerate(every):
        prefix = name[:-1]
        if prefix == "p":
            continue
        bits = forms.bits_of(prefix)
        kinds = {16: ["f16", "bf16"], 32: ["f32", "f16x2", "bf16x2"], 64: ["f64"]}.get(bits, [])
        for kind in [REGISTERS[prefix], *kinds]:
            width = 16 if kind.endswith("x2") else bits
            special = forms.special_words(width, kind).astype(f"<u{width // 8}")
            words = data[:, SLOT * at : SLOT * at + bits // 8].copy().view(f"<u{width // 8}")
            chosen = rng.random(words.shape) < 0.2
            words[chosen] = special[rng.integers(0, len(special), int(chosen.sum()))]
            few = rng.random(words.shape) < 0.05
            words[few] = rng.integers(0, 70, int(few.sum())).astype(words.dtype)
            data[:, SLOT * at : SLOT * at + bits // 8] = words.view(np.uint8)
    return data


def module(chains: list[list[str]]) -> str:
    """A module with an entry for each chain."""
    return forms.HEAD + "\n".join(entry(n, chain) for n, chain in enumerate(chains))


def digests(out: np.ndarray) -> np.ndarray:
    """A number for each register's values in all threads."""
    columns = np.split(out, len(names()), axis=1)
    return np.array(
        [int.from_bytes(hashlib.blake2b(c.tobytes(), digest_size=8).digest(), "big") for c in columns], np.uint64
    )


def record(listed: str, path: str) -> None:
    """Run on the GPU the chains that its driver takes, and keep the digests of the registers."""
    gpu, kept, results = Gpu(), [], []
    for line in Path(listed).read_text().splitlines():
        chain = line.split("\t")
        try:
            gpu.load(module([chain]))
        except RuntimeError:
            gpu.module = None
            continue
        given = inputs(chain)
        kept.append(line)
        results.append(digests(gpu.run("k0", given, np.zeros_like(given), forms.THREADS)))
    np.savez_compressed(path, chains=np.array(kept), digests=np.stack(results))


def simulated(chains: list[list[str]]) -> list[np.ndarray]:
    """What the simulator leaves in the registers of each chain."""
    results = []
    for start in range(0, len(chains), MODULE):
        part = chains[start : start + MODULE]
        loaded = warpsim.load(module(part))
        for n, chain in enumerate(part):
            given = inputs(chain)
            out = np.zeros_like(given)
            loaded[f"k{n}"]((1,), (forms.THREADS,), (given, out))
            results.append(out)
    return results


def differences(path: str | Path, part: slice = slice(None)) -> list[str]:
    """The recorded chains after which registers differ, and which."""
    with np.load(path) as stored:
        chains, expected = [line.split("\t") for line in stored["chains"][part].tolist()], stored["digests"][part]
    wrong = []
    for chain, out, want in zip(chains, simulated(chains), expected, strict=True):
        if found := [name for name, same in zip(names(), digests(out) == want, strict=True) if not same]:
            wrong.append("\n".join([*chain, f"differ: {' '.join(found)}"]))
    return wrong


def main(
    doc: str, make: Callable[[str, int], list[list[str]]], record: Callable[[str, str], None], differences: Callable[[str], list[str]]
) -> None:  # fmt: skip
    """Draw, record or compare, as the command line says."""
    match sys.argv[1:]:
        case ["make", seed, count, listed]:
            Path(listed).write_text("".join("\t".join(made) + "\n" for made in make(seed, int(count))))
        case ["record", listed, path]:
            record(listed, path)
        case ["compare", path]:
            found = differences(path)
            print("\n\n".join([*found, f"{len(found)} differ"]))
            sys.exit(bool(found))
        case _:
            sys.exit(doc)


if __name__ == "__main__":
    main(__doc__, make, record, differences)

"""Registers of every type as the address of every instruction that has one, and what the assembler says of each.

python tools/recordings/addresses.py       judges them with the ptxas on the PATH; writes tests/isa/address_verdicts.txt
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from instruction_heads import head

OUT = Path(__file__).parents[2] / "tests" / "isa" / "address_verdicts.txt"
TARGET, VERSION = "sm_90a", "8.7"
BYTES = "mbarrier::complete_tx::bytes"
SPACES = ("", ".global", ".shared", ".shared::cta", ".shared::cluster", ".local", ".const", ".param", ".param::entry")
WRITABLE = ("", ".global", ".shared", ".shared::cta", ".shared::cluster", ".local")
ATOMIC = ("", ".global", ".shared", ".shared::cta", ".shared::cluster")
BARRIER = ("", ".shared", ".shared::cta")
BASES = [
    *[f"ld{s}.b32 b0, [@];" for s in SPACES],
    *[f"ld.relaxed.gpu{s}.v2.b32 {{b0,b1}}, [@];" for s in ATOMIC],
    "ld.global.nc.b32 b0, [@];",
    "ldu.global.b32 b0, [@];",
    "ldu.b32 b0, [@];",
    *[f"st{s}.b32 [@], b0;" for s in WRITABLE],
    *[f"atom{s}.add.u32 u0, [@], u1;" for s in ATOMIC],
    *[f"atom{s}.cas.b32 b0, [@], b1, b2;" for s in ATOMIC],
    *[f"red{s}.add.f32 [@], f1;" for s in ATOMIC],
    "atom.global.v2.f32.add {f0,f1}, [@], {f2,f3};",
    *[f"prefetch{s}.L1 [@];" for s in ("", ".global", ".local")],
    "prefetch.global.L2::evict_last [@];",
    "prefetch.tensormap [@];",
    "prefetchu.L1 [@];",
    "applypriority.global.L2::evict_normal [@], 128;",
    "discard.global.L2 [@], 128;",
    *[f"ldmatrix.sync.aligned.m8n8.x1{s}.b16 {{b0}}, [@];" for s in BARRIER],
    *[f"stmatrix.sync.aligned.m8n8.x1{s}.b16 [@], {{b0}};" for s in BARRIER],
    *[f"wmma.load.a.sync.aligned.row.m8n8k4{s}.f64 {{d0}}, [@], b8;" for s in ("", ".global", ".shared")],
    *[f"wmma.store.d.sync.aligned.row.m8n8k4{s}.f64 [@], {{d0,d1}}, b8;" for s in ("", ".global", ".shared")],
    *[f"mbarrier.init{s}.b64 [@], 1;" for s in BARRIER],
    *[f"mbarrier.inval{s}.b64 [@];" for s in BARRIER],
    *[f"mbarrier.arrive{s}.b64 q0, [@];" for s in BARRIER],
    *[f"mbarrier.arrive.expect_tx{s}.b64 q0, [@], b1;" for s in BARRIER],
    "mbarrier.arrive.shared::cluster.b64 _, [@];",
    *[f"mbarrier.arrive_drop{s}.b64 q0, [@];" for s in BARRIER],
    *[f"mbarrier.expect_tx.relaxed.cta{s}.b64 [@], b1;" for s in (*BARRIER, ".shared::cluster")],
    *[f"mbarrier.complete_tx.relaxed.cta{s}.b64 [@], b1;" for s in (*BARRIER, ".shared::cluster")],
    *[f"mbarrier.test_wait{s}.b64 p0, [@], q1;" for s in BARRIER],
    *[f"mbarrier.try_wait.parity{s}.b64 p0, [@], b1;" for s in BARRIER],
    *[f"cp.async.mbarrier.arrive{s}.b64 [@];" for s in BARRIER],
    "cp.async.ca.shared.global [@], [@], 16;",
    "cp.async.cg.shared::cta.global [@], [@], 16;",
    f"cp.async.bulk.shared::cluster.global.{BYTES} [@], [@], 16, [@];",
    f"cp.async.bulk.shared::cta.global.{BYTES} [@], [@], 16, [@];",
    f"cp.async.bulk.shared::cluster.global.{BYTES}.multicast::cluster [@], [@], 16, [@], h0;",
    f"cp.async.bulk.shared::cluster.shared::cta.{BYTES} [@], [@], 16, [@];",
    "cp.async.bulk.global.shared::cta.bulk_group [@], [@], 16;",
    "cp.async.bulk.prefetch.L2.global [@], 16;",
    f"cp.reduce.async.bulk.shared::cluster.shared::cta.{BYTES}.add.u32 [@], [@], 16, [@];",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [@], [@], 16;",
    f"cp.async.bulk.tensor.1d.shared::cluster.global.tile.{BYTES} [@], [@, {{b1}}], [@];",
    f"cp.async.bulk.tensor.3d.shared::cluster.global.im2col.{BYTES} [@], [@, {{b1,b2,b3}}], [@], {{h0}};",
    "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [@, {b1}], [@];",
    "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [@, {b1}], [@];",
    "cp.async.bulk.prefetch.tensor.1d.L2.global.tile [@, {b1}];",
    f"st.async.weak.shared::cluster.{BYTES}.b32 [@], b0, [@];",
    f"red.async.relaxed.cluster.shared::cluster.{BYTES}.add.u32 [@], u0, [@];",
    *[f"multimem.ld_reduce.relaxed.gpu{s}.add.u32 u0, [@];" for s in ("", ".global")],
    *[f"multimem.st.relaxed.gpu{s}.u32 [@], u0;" for s in ("", ".global")],
    *[f"multimem.red.relaxed.gpu{s}.add.u32 [@], u0;" for s in ("", ".global")],
    *[f"tensormap.replace.tile.global_address{s}.b1024.b64 [@], q1;" for s in ("", ".global", ".shared::cta")],
    *[f"tensormap.replace.tile.rank{s}.b1024.b32 [@], 1;" for s in ("", ".global", ".shared::cta")],
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [@], [@], 128;",
    "fence.proxy.tensormap::generic.acquire.gpu [@], 128;",
]
REGISTERS = ["bb5", "uh5", "sh5", "hf5", "h5", "b5", "u5", "s5", "f5", "x5", "q5", "uq5", "sq5", "d5", "o5", "p5"]
OTHERS = ["b5+16", "q5+16", "5", "smem", "gmem", "lmem"]
USUAL = "q6"
WRONG = re.compile(r"line (\d+); error|32-bit address on line '(\d+)'")
"""A 32-bit address ends in an error, but beside one of 16 bits, of which the assembler only warns."""
PATIENCE = 15
"""Seconds for a module: for some the assembler does not end."""


def instructions() -> list[str]:
    """Each base with each address in each of its places, beside addresses of 64 bits in the others."""
    found: dict[str, None] = {}
    for base in BASES:
        parts = base.split("@")
        for place in range(len(parts) - 1):
            for address in [*REGISTERS, *OTHERS]:
                filled = [USUAL] * (len(parts) - 1)
                filled[place] = address
                found["".join(a + b for a, b in zip(parts, [*filled, ""], strict=True))] = None
    return list(found)


def assembled(texts: list[str]) -> tuple[int, set[int]]:
    """The assembler's status for these, and which of them it reports."""
    before = head(TARGET, VERSION)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.ptx"
        path.write_text(before + "\n".join(f"{{ {text} }}" if text else "" for text in texts) + "\nret;\n}\n")
        command = ["ptxas", "-O0", "-arch", TARGET, str(path), "-o", os.devnull]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            return -1, set()
    lines = {int(a or b) - before.count("\n") - 1 for a, b in WRONG.findall(done.stderr + done.stdout)}
    return done.returncode, lines & set(range(len(texts)))


def verdicts(texts: list[str]) -> list[str]:
    """The assembler's of each: what it reports is taken out until the rest is accepted; where it crashes or does not end, half by half."""
    kept, found = list(texts), ["accepted"] * len(texts)
    status, wrong = assembled(kept)
    while wrong:
        for n in wrong:
            kept[n], found[n] = "", "refused"
        status, wrong = assembled(kept)
    if status and len(texts) > 1:
        half = len(texts) // 2
        return verdicts(texts[:half]) + verdicts(texts[half:])
    return ["crash"] if status else found


def main() -> None:
    """Judge, and write."""
    texts, rows = instructions(), []
    for start in range(0, len(texts), 150):
        part = texts[start : start + 150]
        rows += [f"{TARGET}\t{VERSION}\t{found}\t{text}" for text, found in zip(part, verdicts(part), strict=True)]
        print(start, len(texts), flush=True)
    kept = [row for row in rows if "\tcrash\t" not in row]
    OUT.write_text("\n".join(kept) + "\n")
    print(
        len(rows),
        "instructions;",
        len(rows) - len(kept),
        "crashes;",
        sum("\taccepted\t" in row for row in kept),
        "accepted",
    )


if __name__ == "__main__":
    main()

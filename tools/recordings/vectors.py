"""Pairs of registers and numbers of every kind as the vectors of instructions, and what the assembler says of each.

python tools/recordings/vectors.py       judges them with the ptxas on the PATH in twenty minutes; writes tests/isa/vector_verdicts.txt
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from instruction_heads import head

OUT = Path(__file__).parents[2] / "tests" / "isa" / "vector_verdicts.txt"
VERSION = "9.0"
WORDS = ("b1", "u1", "s1", "f1", "x1", "WARP_SZ", "0", "-1", "1.5", "0f3f800000")
NAMES = (*WORDS, "%tid.x")
HALVES = ("h1", "uh1", "hf1", "0", "-1", "1.5", "0f3f800000")
DOUBLES = ("q1", "uq1", "sq1", "d1", "0", "1.5", "0f3f800000")
F4, B4, S8 = "{f2,f3,f4,f5}", "{b2,b3,b4,b5}", "{s2,s3,s4,s5,s6,s7,s8,s9}"
BYTES = "mbarrier::complete_tx::bytes"
ALONE = ("f1", "b1", "1.5", "0", "{f1}", "{b1}", "{u1}", "{1.5}", "{0}")
"""Elements of one, with and without braces."""
FP8 = {
    "mma.sync.aligned.m16n8k16.row.col.f16.e4m3.e4m3.f16 {@,&}, {b2,b3}, {b4}, {b5,b6};": (*WORDS, "_"),
    "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16 {b5,b6}, {b2,b3,b7,b8}, {b4,b9}, {@,&};": WORDS,
    f"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {F4}, {{b2,b3,b7,b8}}, {{@,&}}, {F4};": WORDS,
    f"mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32 {F4}, {B4}, {B4}, {{@,&,@,&}}, b9, 0;": WORDS,
}
VECTORS = {
    "st.v2.b32 [q1], {@,&};": NAMES,
    "st.v2.u32 [q1], {@,&};": NAMES,
    "st.v2.f32 [q1], {@,&};": WORDS,
    "ld.v2.f32 {@,&}, [q1];": WORDS,
    "ld.v2.u32 {@,&}, [q1];": WORDS,
    "mov.b64 q2, {@,&};": NAMES,
    "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {s2,s3,s4,s5}, {@,&}, {b2}, {s2,s3,s4,s5};": WORDS,
    "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {s2,s3}, {b2}, {b3}, {@,&};": WORDS,
    "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {@,&}, {b2}, {b3}, {s2,s3};": WORDS,
    f"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {F4}, {{@,&}}, {{b2}}, {F4};": WORDS,
    f"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {F4}, {{b2,b3}}, {{b2}}, {{@,&,@,&}};": WORDS,
    "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {b2,b3}, {b2,b3}, {b2}, {@,&};": WORDS,
    f"mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {F4}, {{b2,b3}}, {{@,&}}, {F4}, b4, 0;": WORDS,
    f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {F4}, {{@,&,@,&}}, q1, 0, 1, 1, 1;": WORDS,
    "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {s2,s3,s4,s5}, {@,&,@,&}, q1, 0;": WORDS,
    "stmatrix.sync.aligned.m8n8.x2.shared.b16 [q1], {@,&};": NAMES,
    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {@,&}, [q1];": WORDS,
    f"wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32 {S8}, {{@,&}}, {{b2,b3}}, {S8};": WORDS,
    "red.global.add.v2.f32 [q1], {@,&};": WORDS,
    "red.global.add.noftz.v2.f16 [q1], {@,&};": HALVES,
    "multimem.st.v2.f32 [q1], {@,&};": WORDS,
    "multimem.st.v2.f16x2 [q1], {@,&};": WORDS,
    "multimem.st.v2.bf16x2 [q1], {@,&};": NAMES,
    "multimem.st.v2.f16 [q1], {@,&};": HALVES,
    "multimem.st.v2.bf16 [q1], {@,&};": HALVES,
    "multimem.red.add.v2.f16x2 [q1], {@,&};": WORDS,
    f"st.async.weak.shared::cluster.{BYTES}.v2.b32 [b2], {{@,&}}, [b3];": WORDS,
    "sust.b.1d.v2.b32.trap [q1, {b2}], {@,&};": NAMES,
    "sust.b.2d.b32.trap [q1, {@,&}], {b2};": WORDS,
    f"tex.2d.v4.f32.f32 {F4}, [q1, {{@,&}}];": WORDS,
    f"tex.2d.v4.f32.s32 {F4}, [q1, {{@,&}}];": NAMES,
    "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [q1, {@,&}], [b2];": NAMES,
    "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {d2,d3,d4,d5}, {d2,d3,d4,d5}, {@,&}, {d2,d3,d4,d5};": DOUBLES,
    "st.v2.b64 [q1], {@,&};": (*DOUBLES, "%clock64"),
    "st.v2.f64 [q1], {@,&};": DOUBLES,
    "st.v4.b32 [q1], {@,b2,&,b3};": WORDS,
    "st.v4.b32 [q1], {b2,@,&,b3};": WORDS,
    f"tex.grad.1d.v4.f32.f32 {F4}, [q1, {{f1}}], @, &;": ALONE,
    **FP8,
}
ASKED = {
    "sm_90a": VECTORS,
    "sm_100a": {"mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {s2,s3}, {@}, {&}, {s2,s3};": WORDS},
    "sm_120a": FP8,
}
"""The vectors by target."""


def accepted(text: str, target: str) -> bool:
    """Whether the assembler ends well."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.ptx"
        path.write_text(f"{head(target, VERSION)}{text}\nret;\n}}\n")
        command = ["ptxas", "-O0", "-arch", target, str(path), "-o", os.devnull]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def rows() -> Iterator[str]:
    """For each target, vector and first element: which second elements are accepted."""
    for target, vectors in ASKED.items():
        for text, elements in vectors.items():
            for first in elements:
                good = [e for e in elements if accepted(text.replace("@", first).replace("&", e), target)]
                yield f"{target}\t{text}\t{first}\t{' '.join(good)}"


if __name__ == "__main__":
    OUT.write_text("\n".join(rows()) + "\n")

"""The pages of the gallery: each bundled program with its source, its replay, and what happens without one of its lines."""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from docs.tools.broken import BREAKS, ROOT, without, write
from docs.tools.playground import door, of_program

H100 = json.loads(Path(__file__).with_name("broken_h100.json").read_text(encoding="utf-8"))


class Entry(NamedTuple):
    """A page: its title, what to look at, and what the missing line was for."""

    title: str
    look: str
    broken: str


ENTRIES = {
    "hello": Entry(
        "Hello from a lane",
        "Device `printf` becomes a call of `vprintf` with a buffer in local memory: see `st.local` before the `call`. Text appears in lane "
        "order within a warp, and is also in `LaunchResult.stdout`. Between warps a GPU promises no order; the recording of two warps came "
        "out as warp 1, then warp 0.",
        "`lanes` has 32 elements. A launch with blocks of 64 threads writes beyond it.",
    ),
    "saxpy": Entry(
        "saxpy",
        "One element per thread. The last CTA has 256 threads and 232 elements: `setp.ge` and `bra` are the guard, and in warp 7 of CTA 3 "
        "only lanes 0-7 pass it.",
        "Without the branch of line 4, 24 lanes reach beyond the arrays.",
    ),
    "histogram": Entry(
        "Histogram with shared-memory atomics",
        "`atom.shared.add` on the CTA's own bins, then one `atom.global.add` per bin that is not empty. The profile "
        "(`warpsim run --profile`) counts how often lanes of a warp meet in one bank.",
        "Without the `__syncthreads()` of line 5 a thread may count in a bin that another one has not zeroed yet.",
    ),
    "reduce_shfl": Entry(
        "Reduction by shuffles",
        "Five `shfl.sync.down` halve the distance each time; lane 0 of each warp hands its sum to warp 0 through shared memory. The order of "
        "the additions is fixed by the program, so the f32 sum is bit-exact too.",
        "Without the `__syncthreads()` of line 28 warp 0 may read sums that other warps have not stored yet.",
    ),
    "softmax_rows": Entry(
        "Softmax of rows",
        "`ex2.approx` and a division per element; `warpsim` computes both as the H100 does, bit for bit. The array `row` is dynamic shared "
        "memory: the launch passes `shared_mem=`.",
        "The second `__syncthreads()` (line 19) looks redundant. It keeps a fast warp from storing its sum over maxima that a slow warp "
        "still reads.",
    ),
    "transpose": Entry(
        "Transpose without bank conflicts",
        "Lanes of a warp read a column of the tile. With rows of 33 words the 32 words lie in 32 banks; in `transpose_conflicts`, the same "
        "kernel with rows of 32, they all lie in one and the load takes 32 passes. Count them with "
        "[`programs/watchers/bank_conflicts.py`](../watchers.md) or the profile.",
        "Without the `__syncthreads()` of line 9 a warp may read elements of the tile that other warps have not stored yet.",
    ),
    "copy_pipeline": Entry(
        "A two-stage cp.async pipeline",
        "`cp.async.wait_group 1` leaves the newest group in flight: the copy of the next tile runs while this one is used. Under "
        '`async_effects="at_wait"` values appear as late as the rules allow.',
        "Without the `wait_group 1` of line 22 the tile is read while its copy is in flight.",
    ),
    "scan_lookback": Entry(
        "Scan with decoupled look-back",
        "CTAs depend on each other: each publishes its sum and looks back over what earlier ones published. It takes forward progress of all "
        "CTAs; the ticket makes sure that those it waits for have started. A CTA that waits is set aside until memory changes.",
        "Without the `__syncthreads()` of line 37 threads may use `before` before the last thread has stored it.",
    ),
    "cluster_reduce": Entry(
        "Cluster reduction over distributed shared memory",
        "`mapa` (here behind `map_shared_rank`) turns a shared address into that of a peer; rank 0 reads four parts with ordinary loads.",
        "The last `cluster.sync()` keeps every CTA alive while rank 0 reads its shared memory. Without it the CTA may be gone.",
    ),
    "mma_f16_gemm": Entry(
        "A tensor-core gemm for Ampere",
        "`warpsim layout` shows which lane owns which element of each `mma` operand; the XOR in `chunk_a` and `chunk_b` spreads the rows that "
        "`ldmatrix` reads over all banks.",
        "Without the second `__syncthreads()` of the loop (line 57) the next stage's `cp.async` overwrites a tile that slower warps still read.",
    ),
    "gemm_sparse": Entry(
        "2:4 sparse mma",
        "Of four neighbours of a row of A two are stored; two bits for each say which. With selector 0, lanes 0 and 1 of each four bring the "
        "metadata. `launch.py` builds it from a dense matrix.",
        "Without the load of the metadata (line 14) the register holds whatever was there.",
    ),
    "gemm_fp8_scaled": Entry(
        "fp8 gemm with promotion",
        "The tensor core of an H100 keeps 13 fraction bits when it adds fp8 products: the low 10 bits of every f32 result are zero. Kernels "
        "therefore add slices of k outside of it; here every 128, with a scale for each. See [Why does my fp8 gemm differ?](../guides/fp8.md)",
        "Without the `wgmma.fence` of line 29 nothing orders the accumulators' earlier uses before the product. ptxas inserts one and says so "
        "(C7519), which is why the GPU still gives the right bits.",
    ),
    "gemm_tma": Entry(
        "TMA and wgmma, pipelined",
        "One thread starts tensor copies, which count their bytes at an mbarrier; all wait for its phase. The tiles are swizzled by 128 bytes, "
        "and the descriptors of `wgmma` say so.",
        "Without the `wgmma.wait_group` of line 33 the next copy overwrites tiles that products in flight still read.",
    ),
    "gemm_multicast": Entry(
        "TMA multicast in a cluster",
        "Each CTA loads half of B's slice and multicasts it to both. A stage is free when both CTAs have read it: each arrives at the mbarriers "
        "of both, through `mapa`.",
        "Without the arrivals of line 34 no stage is ever free again; the message lists who waits for what.",
    ),
    "gemm_specialised": Entry(
        "Warp-specialised and persistent",
        "`setmaxnreg` moves registers from the producer to the consumers. The mbarriers `full` and `empty` hand stages back and forth; tiles of "
        "C leave through shared memory and TMA stores. A wait names only the parity of a phase, so a consumer that comes two rounds early would "
        "pass: `turn` keeps the consumers in order.",
        "Without the `fence.proxy.async` of line 63 the TMA store may read shared memory as it was before the threads' stores.",
    ),
    "stream_k": Entry(
        "Stream-K",
        "Three CTAs share ten slices of two tiles: the middle one works on both. Parts are added to C by `cp.reduce.async.bulk.tensor`.",
        "Without the `wait_group.read` of line 33 a CTA overwrites the tile that its own reduction still reads.",
    ),
    "flash_attention": Entry(
        "Flash attention on mma.sync",
        "The accumulator layout of S is the A layout of P: compare `warpsim layout mma.m16n8k16.row.col.f32.f16.f16.f32` with operand C and A. "
        "V goes through `ldmatrix.trans`.",
        "Without the `__syncthreads()` at the end of the loop (line 59) a fast warp overwrites keys that the other one still reads.",
    ),
    "attention_overlapped": Entry(
        "Flash attention on wgmma",
        "The scores of the next block are in flight while the softmax of this one runs; `wait_group 1` waits for the scores and leaves the second "
        "product in flight.",
        "Without the `wait_group 1` of line 83 the softmax reads scores in flight. ptxas notices, waits and says so (C7517), which is why the "
        "GPU still gives the right bits.",
    ),
    "cancelled_launches": Entry(
        "Launches that are cancelled",
        "A quarter of the CTAs begins. Each asks for another one's launch to be cancelled while it sums its own row, takes that row next, and ends when "
        "the answer is that none was left.",
        "Without the `__syncthreads()` at the end of the loop (line 43) a fast warp writes its part of the next sum where the first thread still reads.",
    ),
    "gemm_tcgen05": Entry(
        "tcgen05: D in tensor memory",
        "One thread issues the products, which `tcgen05.commit` reports to an mbarrier: to `empty`, so that the stage is loaded again, and at the "
        "end to `done`. Each warp reads its 32 lanes of D. Compare the descriptors with those of `gemm_tma`.",
        "Without the `tcgen05.commit` of line 39 nothing arrives at `done`: all threads wait for ever.",
    ),
    "gemm_tcgen05_pair": Entry(
        "tcgen05 with a pair of CTAs",
        "Each CTA holds half of the rows of A and of B; the even one issues products of 256 rows for both, which read both shared memories and "
        "write both tensor memories. The commit arrives in both.",
        "Without the arrival of line 35 the even CTA does not know that the other one's halves are there: it waits for ever.",
    ),
    "gemm_mxfp8": Entry(
        "Block scales: MXFP8",
        "A scale factor for every 32 elements of a row. Tensor memory has them four to a word, 32 rows to a column, and once in each warp's "
        "quarter; the instruction descriptor says which byte counts.",
        "Without the barrier of line 39 the product that one thread issues is not ordered behind the other warps' stores to tensor memory.",
    ),
    "softmax_triton": Entry(
        "Softmax in Triton",
        "A row per program. The reductions of `tl.max` and `tl.sum` end in shuffles and an exchange through shared memory; the two null pointers "
        "at the end are Triton's scratch buffers.",
        "Without the second `bar.sync` a warp may read partial maxima that other warps have not stored yet. (Here all lanes that read belong to "
        "one warp, which a GPU runs in step by luck, not by promise.)",
    ),
    "matmul_triton": Entry(
        "A Triton matmul with tensor descriptors",
        "Triton's pipeliner made the ring of four stages, the mbarriers and the `wgmma` waits.",
        "Without the `fence.proxy.async` before the store, TMA may read shared memory as it was before `stmatrix`.",
    ),
}
SESSIONS = {
    "hello": ("b 56", "c", "info lanes"),
    "saxpy": ("b 52 if %r1 > 990", "c", "p %f4"),
    "histogram": ("b 78", "c", "p/x %r22", "info warps"),
    "transpose": ("b 116", "c", "p %r13"),
    "scan_lookback": ("b kernel.cu:28", "c", "bt", "info warps"),
    "mma_f16_gemm": ("b op:mma*", "c", "p/f16x2 %r483"),
    "gemm_sparse": ("b op:mma*", "c", "p/x %r84"),
    "flash_attention": ("b kernel.cu:50", "c", "p %f174"),
    "gemm_specialised": ("b kernel.cu:56", "c", "info mbarriers", "info async"),
}
"""What to type in the debugger."""
ORDER = {
    "Threads and warps": (
        "hello",
        "saxpy",
        "histogram",
        "reduce_shfl",
        "softmax_rows",
        "transpose",
        "copy_pipeline",
        "scan_lookback",
    ),
    "Tensor cores": ("mma_f16_gemm", "gemm_sparse", "flash_attention"),
    "Hopper": (
        "cluster_reduce",
        "gemm_tma",
        "gemm_fp8_scaled",
        "gemm_multicast",
        "gemm_specialised",
        "stream_k",
        "attention_overlapped",
    ),
    "Blackwell": ("cancelled_launches", "gemm_tcgen05", "gemm_tcgen05_pair", "gemm_mxfp8"),
    "Triton": ("softmax_triton", "matmul_triton"),
}


@cache
def report(name: str) -> str:
    """What the program without its line is found to break first."""
    from warpsim.errors import describe
    from warpsim.host.cases import run_case

    with tempfile.TemporaryDirectory() as folder:
        target = write(name, Path(folder))
        result: Any = run_case(target, checks=BREAKS[name].checks, on_finding="collect")
        return describe(result.findings[0]).replace(f"{target}/", "").replace(f"{target}\\", "")


def on_h100(name: str) -> str:
    """What the recorded H100 made of the program without its line."""
    seen = H100.get(name)
    if seen is None:
        return ""
    if "failed" in seen:
        return (
            "On an H100 this ends in `CUDA_ERROR_LAUNCH_FAILED` (719)."
            if "719" in seen["failed"]
            else "On an H100 this does not end."
        )
    counts = seen["differing"]
    bad = sum(map(bool, counts))
    if name in ("hello", "saxpy") and not bad:
        return f"On an H100 all {len(counts)} launches ended without an error: the memory behind the array belongs to the same page."
    if not bad:
        return f"On an H100 all {len(counts)} launches gave the right bits. No test on that GPU would find this."
    low, high = min(c for c in counts if c), max(counts)
    wrong = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    share = "every launch" if bad == len(counts) else f"{bad} of {len(counts)} launches"
    return f"On an H100 {share} gave wrong values: {wrong} of {seen['elements']:,} elements."


def page(name: str) -> str:
    """The page of a program."""
    entry, folder = ENTRIES[name], ROOT / "programs" / name
    case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    source = next(folder / f for f in ("kernel.cu", "kernel.py") if (folder / f).exists())
    language = "cuda" if source.suffix == ".cu" else "python"
    what = re.sub(r" \((nvcc|Triton|sm_90a?)[^)]*\)", "", (folder / "README.md").read_text(encoding="utf-8").strip())
    cluster = f", clusters of {case['cluster']}" if case["cluster"] else ""
    shared = f", {case['dynamic_smem']:,} bytes of dynamic shared memory" if case["dynamic_smem"] else ""
    drawn = f"\n![Who holds which element]({name}.svg){{ .picture }}\n" if name in PICTURES else ""
    checks = BREAKS[name].checks
    option = "" if checks == "default" else f" --checks {checks}"
    removed = ""
    if BREAKS[name].ptx:
        text = without((folder / "kernel.ptx").read_text(encoding="utf-8"), BREAKS[name])
        gone = [line.strip()[3:] for line in text.split("\n") if line.startswith("\t// ") and BREAKS[name].ptx in line]
        times = f" ({len(gone)} times: the loop is unrolled)" if len(gone) > 2 else ""
        removed = f"\n```ptx\n{gone[0]}\n```\n{door(of_program(name, broken=True))}\n\nis taken out of `kernel.ptx`{times}, and `warpsim replay {name}{option}` says:\n"
    else:
        removed = "\n`warpsim` says:\n"
    gpu = case.get("hardware")
    recorded = (
        f"Recorded on an\n{gpu['gpu']}, driver {gpu['driver']}." if gpu
        else "No GPU\nhas recorded it yet: its result is held against one that `launch.py` computes."
    )  # fmt: skip
    left = f"what the {gpu['gpu'].split()[1]} left" if gpu else "what was computed"
    return f"""# {entry.title}

{what}

`{case["entry"]}` for {case["target"]}, compiled by {case["origin"]}; grid {case["grid"]}, block {case["block"]}{cluster}{shared}. {recorded}

{door(of_program(name, broken=False))}

```sh
warpsim replay {name} --bits      # equal in every bit to {left}
python -c "import warpsim; print(warpsim.__path__)"   # programs/{name}/ lies there, with launch.py, which takes other sizes
```

## What to look at

{entry.look}
{session(name)}
[The launch as a page]({name}.trace.html){{ target="_blank" }}: warps over steps, barriers and waits, what is in flight, shared memory, the text with counts
(`warpsim trace replay {name} -o trace.html`).
{drawn}
## What breaks without a line

{entry.broken}
{removed}
```text
{report(name)}
```

{on_h100(name)}

## The source

```{language} title="{source.name}" linenums="1"
{source.read_text(encoding="utf-8").rstrip()}
```

```python title="launch.py"
{(folder / "launch.py").read_text(encoding="utf-8").rstrip()}
```
"""


def session(name: str) -> str:
    """What the debugger answers to the commands of a program, as a part of its page."""
    if name not in SESSIONS:
        return ""
    words = [word for command in (*SESSIONS[name], "quit") for word in ("-ex", command)]
    said = _printed("debug", "replay", name, *words)
    assert said.count("Breakpoint 1") == 2, said
    lines = [line[:160] for line in said.splitlines() if line != "(warpsim) quit"]
    lines = [line for line in lines if not line.startswith("Left at")]
    typed = " ".join(f"-ex '{command}'" for command in SESSIONS[name])
    return f"\n```sh\nwarpsim debug replay {name} {typed}\n```\n\n```text\n" + "\n".join(lines) + "\n```\n"


def trace(name: str) -> str:
    """The trace of a program: a page of its own."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "trace.html"
        _printed("trace", "replay", name, "-o", str(target))
        return target.read_text(encoding="utf-8")


def _printed(*words: str) -> str:
    """What a command prints."""
    from warpsim.cli import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = main(words)
    assert status == 0, out.getvalue()
    return out.getvalue()


PICTURES = {
    "mma_f16_gemm": ("mma.m16n8k16...f16", "A"),
    "gemm_sparse": ("mma.sp.m16n8k32...f16", "E0"),
    "flash_attention": ("mma.m16n8k16...f16", "C"),
}
"""An operand to draw."""


def picture(name: str) -> str:
    """Who holds which element of an operand of the program, as SVG."""
    instruction, operand = PICTURES[name]
    return _printed("layout", instruction, "--operand", operand, "--format", "svg")


def index() -> str:
    """The list."""
    launches = list(H100.values())
    always = sum("differing" in r and not any(r["differing"]) for r in launches)
    parts = [
        f"# Gallery\n\n{sum(map(len, ORDER.values()))} programs travel with warpsim: sources, PTX, inputs, and what an H100 made of them, or, for those of sm_100,"
        " exact arithmetic. `warpsim examples` lists where they lie,"
        " `warpsim replay NAME --bits` runs one and compares every bit.\n\nEach page also takes out one line, a barrier, a wait, a fence or a guard, and shows"
        f" what warpsim reports. An H100 ran {len(launches)} of these faulty kernels 20 times each: {always} gave the right bits every time.\n"
    ]
    for title, names in ORDER.items():
        parts.append(f"\n## {title}\n\n| program | what | without a line | on an H100 |\n| --- | --- | --- | --- |")
        for name in names:
            rule = (re.search(r"^[^\n]*?:\d+:\d+: ([\w-]+):", report(name)) or ["", "?"])[1]
            seen = H100.get(name, {})
            there = json.loads((ROOT / "programs" / name / "case.json").read_text(encoding="utf-8")).get("hardware")
            gpu = (
                "it is for sm_100" if not there else "not tried: it would hang" if not seen else "fails" if "failed" in seen
                else "right every time" if not any(seen["differing"]) else f"wrong in {sum(map(bool, seen['differing']))} of 20"
            )  # fmt: skip
            what = (ROOT / "programs" / name / "README.md").read_text(encoding="utf-8").strip().rsplit(" (", 1)[0]
            parts.append(f"| [{name}]({name}.md) | {what} | [{rule}](../reference/rules/{rule}.md) | {gpu} |")
    return "\n".join(parts) + "\n"


def pages() -> dict[str, str]:
    """The text of every generated page by its place in the site."""
    made = {"gallery/index.md": index()}
    for name in ENTRIES:
        made[f"gallery/{name}.md"] = page(name)
        made[f"gallery/{name}.trace.html"] = trace(name)
    return {**made, **{f"gallery/{name}.svg": picture(name) for name in PICTURES}}

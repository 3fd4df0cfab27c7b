"""Random launches of what moves memory and multiplies matrices: what is in all memory and in every result at their ends.

    python tools/recordings/transfers.py make SEED COUNT LIST     draws launches
    python tools/recordings/transfers.py record LIST OUT.npz      on a machine with a GPU of sm_90 and its driver
    python tools/recordings/transfers.py compare OUT.npz          runs them in the simulator and names what differs

LIST has a launch in each line: its header, then its steps, separated by tabs. CTAs of 128 threads, alone or in a cluster,
have 8 KB of global memory, 24 KB of shared memory and 16 KB of input each, in which numbers of the header's types and kinds
(``matrix_operands``) lie. A step (``transfer_steps``) is a copy or a reduction, a box of a tensor, groups of ``wgmma`` whose
matrices lie anywhere, ``mma``, ``wmma`` with any stride, ``ldmatrix``, atomics, loads and stores, or an mbarrier's life; all
wait before the next. Digests of every KB are kept. ``record`` leaves out what the driver refuses. Left out is also what the
assembler changes the meaning of (docs/inside/exactness.md).
"""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import numpy as np

import chains
import matrix_operands as operands
import record as recorder
from case_files import ptr
from instruction_heads import REGISTERS
from matrix_kernels import metadata
from matrix_operands import BITS, CATEGORIES, EACH, Draw
from transfer_steps import GLOBAL, INPUT, META, SHARED, SYNC, THREADS, Steps

PAGE = 1024


def make(seed: str, count: int) -> list[list[str]]:
    """Launches."""
    rng, found = random.Random(seed), []
    while len(found) < count:
        draw = Steps(rng, rng.choice([1, 1, 1, 2, 4]))
        kinds, steps = draw.kinds(), []
        for draw.number in range(rng.randrange(1, 5)):
            steps.append(rng.choice(kinds)())
        types, categories = sorted(set(draw.types)) or ["u8"], [rng.choice(CATEGORIES) for _ in range(2)]
        room = -(-(GLOBAL + SHARED + draw.room) // PAGE) * PAGE
        maps = json.dumps(draw.maps, separators=(",", ":"))
        found.append([f"{draw.ctas} {room} {','.join(types)} {','.join(categories)} {maps}", *steps])
    return found


def copied(label: str, load: str, store: str) -> str:
    """A loop over shared memory at ``w`` and an array at ``q``, 16 bytes of each thread at a time."""
    words, size = "{b0, b1, b2, b3}", 16 * THREADS
    return (
        f"mad.lo.u32 w, t, 16, sm; mov.u32 y, 0; {label}: ld.{load.replace('WORDS', words)}; st.{store.replace('WORDS', words)};"
        f" add.u32 w, w, {size}; add.u64 q, q, {size}; add.u32 y, y, {size}; setp.lt.u32 few, y, {SHARED}; @few bra {label};"
    )


def entry(launch: list[str]) -> str:
    """The kernel: shared memory is filled, the steps run, shared memory is stored."""
    ctas, room = map(int, launch[0].split()[:2])
    maps = "".join(f", .param .align 64 .b8 map{n}[128]" for n in range(len(json.loads(launch[0].split()[4]))))
    return "\n".join([
        ".version 8.8\n.target sm_90a\n.address_size 64",
        f".visible .entry k(.param .u64 source, .param .u64 target{maps}) {{",
        *(f".reg .{type} {name}<8>;" for name, type in REGISTERS.items()),
        ".reg .b128 o<4>; .reg .b64 in, out, policy, q, g; .reg .b32 t, rank, sm, peer, bar, peerbar, y, z, w;",
        f".reg .pred one, few, done; .shared .align 1024 .b8 memory[{SHARED}]; .shared .align 8 .b8 bars[72];",
        "ld.param.u64 in, [source]; ld.param.u64 out, [target]; cvta.to.global.u64 in, in; cvta.to.global.u64 out, out;",
        f"mov.u32 y, %ctaid.x; mad.wide.u32 in, y, {INPUT + SHARED}, in; mad.wide.u32 out, y, {room}, out;",
        "mov.u32 t, %tid.x; setp.eq.u32 one, t, 0; mov.u32 rank, %cluster_ctarank; mov.u32 sm, memory; mov.u32 bar, bars;",
        f"add.u32 y, rank, 1; and.b32 y, y, {ctas - 1};",
        "mapa.shared::cluster.u32 peer, sm, y; mapa.shared::cluster.u32 peerbar, bar, y; mad.wide.u32 q, t, 16, in;",
        copied("FILL", f"global.v4.b32 WORDS, [q+{INPUT}]", "shared.v4.b32 [w], WORDS"),
        *(f"@one mbarrier.init.shared::cta.b64 [bar+{8 * n}], 1;" for n in range(len(launch) - 1)),
        *(f"mov.b64 q{n}, 0;" for n in range(4)),
        "fence.mbarrier_init.release.cluster;",
        SYNC,
        *(f"{step}\n{SYNC}" for step in launch[1:]),
        "mad.wide.u32 q, t, 16, out;",
        copied("DUMP", "shared.v4.b32 WORDS, [w]", f"global.v4.b32 [q+{GLOBAL}], WORDS"),
        "ret; }",
    ])  # fmt: skip


def elements(draw: Draw, kind: str, category: str) -> np.ndarray:
    """A KB of numbers of a type and a category; bytes where the type is none of matrices."""
    kind = {"u32": "s32", "b32": "s32"}.get(kind, kind)
    width = BITS.get(kind, 8)
    shape = (EACH, PAGE * 8 // width // EACH)
    if kind not in operands.FORMATS:
        made = operands.integers(draw, category, kind if kind in BITS else "u8", shape)
    elif category in ("floor", "overflow", "brink"):
        parts = operands.triple(f"{int(draw.words(1)[0])}", category, (kind, kind, kind), (shape[1:],) * 3)
        made = parts[int(draw.below(2, 1)[0])]
    else:
        made = operands.floats(draw, category, kind, shape, "abc"[int(draw.below(3, 1)[0])], draw.below(41, EACH))
    return operands.packed(made.reshape(-1), width).view(np.uint8)


def filled(draw: Draw, kinds: list[str], categories: list[str], size: int) -> np.ndarray:
    """Bytes: each KB has numbers of one of the types and categories."""
    return np.concatenate([
        elements(draw, kinds[int(draw.below(len(kinds), 1)[0])], categories[int(draw.below(len(categories), 1)[0])])
        for _ in range(size // PAGE)
    ])  # fmt: skip


def inputs(launch: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """What is in the input and in the output before a launch, ``[CTAs, bytes]`` each."""
    ctas, room, types, categories, _ = launch[0].split()
    draw = Draw("\t".join(launch))
    given = (draw, types.split(","), categories.split(","))
    sources, targets = [], []
    for _ in range(int(ctas)):
        valid = [
            metadata(draw, pairs, ordered, (128,)) for pairs, ordered in ((False, True), (True, False), (True, True))
        ]
        head = np.concatenate([*valid, valid[2]]).view(np.uint8)
        sources.append(np.concatenate([head, filled(*given, INPUT - META + SHARED)]))
        targets.append(np.concatenate([filled(*given, GLOBAL), np.zeros(int(room) - GLOBAL, np.uint8)]))
    return np.stack(sources), np.stack(targets)


def digests(out: np.ndarray) -> np.ndarray:
    """A number for each KB."""
    parts = out.reshape(-1, PAGE)
    return np.array(
        [int.from_bytes(hashlib.blake2b(p.tobytes(), digest_size=4).digest(), "big") for p in parts], np.uint32
    )


def case(launch: list[str]) -> tuple[dict[str, object], dict[str, np.ndarray]]:
    """A launch in the format of cases, and its arrays."""
    source, target = inputs(launch)
    ctas, arrays = len(source), {"in_source": source, "in_target": target}
    buffers = [
        {
            "name": name, "dtype": "u8", "shape": list(arrays[f"in_{name}"].shape), "nbytes": arrays[f"in_{name}"].nbytes,
            "role": "inout" if name == "target" else "in", "in": f"in_{name}", "out": "out_target" if name == "target" else None,
        }
        for name in ("source", "target")
    ]  # fmt: skip
    return {
        "format": 1, "name": "transfer", "origin": "random", "source": "", "entry": "k", "target": "sm_90a", "grid": [ctas, 1, 1],
        "block": [THREADS, 1, 1], "cluster": [ctas, 1, 1], "cooperative": False, "dynamic_smem": 0, "buffers": buffers,
        "params": [ptr("source"), ptr("target"), *json.loads(launch[0].split()[4])], "check": {},
    }, arrays  # fmt: skip


def simulated(launch: list[str], **options: object) -> np.ndarray:
    """The output in the simulator."""
    from warpsim.host.cases import Case

    ready = Case(Path("transfer"), *case(launch), (entry(launch), "k.ptx")).prepare()
    ready.launch(**options)
    return ready.outputs()["out_target"]


def record(listed: str, path: str) -> None:
    """Run on the GPU the launches that its driver takes, and keep the digests of what they leave."""
    gpu, kept, results = recorder.Gpu(), [], []
    for line in Path(listed).read_text().splitlines():
        launch = line.split("\t")
        try:
            function = gpu.kernel(entry(launch).encode(), "k")
            found = recorder.launch(gpu, function, *case(launch))["out_target"]
        except RuntimeError as problem:
            if "cuTensorMapEncode" not in str(problem):
                raise
            continue
        kept.append(line)
        results.append(digests(found))
    counts = np.array([len(part) for part in results])
    np.savez_compressed(path, launches=np.array(kept), counts=counts, digests=np.concatenate(results))


def differences(path: str | Path, part: slice = slice(None)) -> list[str]:
    """The recorded launches that leave something else, and where."""
    with np.load(path) as stored:
        lines, expected = stored["launches"].tolist(), np.split(stored["digests"], np.cumsum(stored["counts"])[:-1])
    wrong = []
    for line, want in zip(lines[part], expected[part], strict=True):
        launch = line.split("\t")
        found = np.flatnonzero(digests(simulated(launch, checks="none")) != want)  # matrices overlap
        if len(found):
            size = int(launch[0].split()[1]) // PAGE
            places = ", ".join(f"KB {n % size} of CTA {n // size}" for n in found[:8])
            wrong.append("\n".join([*launch, f"differ: {places}"]))
    return wrong


if __name__ == "__main__":
    chains.main(__doc__, make, record, differences)

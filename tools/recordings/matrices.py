"""Every matrix instruction of sm_90 on new operands, as a GPU computes it: record once, compare whenever wanted.

    python tools/recordings/matrices.py record OUT.npz      on a machine with a GPU of sm_90; needs NumPy, attrs and the driver
    python tools/recordings/matrices.py compare OUT.npz     the same operands in the simulator; names what differs
    python tools/recordings/matrices.py check OUT.npz       both at once; what differs is kept whole in OUT.npz.failed.npz

A recording holds a digest of the results for each form and category of operands (`matrix_operands`). A third argument
takes only forms whose name has it in it; of a share such as ``2/8``, every eighth form from the third on; ``wmma.mma 2/8``
is a share of those with the name.
"""

from __future__ import annotations

import collections
import hashlib
import itertools
import re
import sys
from collections.abc import Iterator

import numpy as np

import matrix_trials
import warpgroup_trials
from matrix_kernels import Trial
from matrix_operands import CATEGORIES

KEPT = 12
"""Cases of a form that differ, of which the results are kept."""


def trials() -> Iterator[Trial]:
    """Everything."""
    yield from matrix_trials.register_trials()
    yield from matrix_trials.row_trials()
    yield from matrix_trials.wmma_move_trials()
    yield from matrix_trials.wmma_mma_trials()
    yield from warpgroup_trials.wgmma_trials()


def digests(result: np.ndarray) -> np.ndarray:
    """One number for each category: cases are in their order, the same number of each."""
    parts = np.split(result, len(CATEGORIES)) if len(result) % len(CATEGORIES) == 0 else [result]
    parts += [parts[0][:0]] * (len(CATEGORIES) - len(parts))
    return np.array(
        [int.from_bytes(hashlib.blake2b(p.tobytes(), digest_size=8).digest(), "little") for p in parts], np.uint64
    )


class OnGpu:
    """Results of the hardware."""

    def __init__(self) -> None:
        import record

        self.recorder, self.gpu = record, record.Gpu()

    def __call__(self, trial: Trial) -> np.ndarray:
        """The output after a launch."""
        function = self.gpu.kernel(trial.text.encode(), "k")
        arrays = {**trial.inputs, "d": trial.output}
        types = {1: "u8", 4: "u32", 8: "u64"}
        buffers = [
            {
                **{"name": name, "nbytes": array.nbytes, "in": name, "out": name if name == "d" else None},
                **{"shape": array.shape, "dtype": types[array.itemsize]},
            }
            for name, array in arrays.items()
        ]
        case = {
            "buffers": buffers,
            "params": [{"kind": "ptr", "buffer": name, "byte_offset": 0} for name in arrays],
            "cluster": None,
            "cooperative": False,
            "dynamic_smem": 0,
            "grid": [len(trial.output), 1, 1],
            "block": [trial.threads, 1, 1],
        }
        found: np.ndarray = self.recorder.launch(self.gpu, function, case, arrays)["d"]
        return found


def simulated(trial: Trial) -> np.ndarray:
    """The output in the simulator."""
    import warpsim

    arrays = trial.arrays
    warpsim.load(trial.text)["k"](len(trial.output), trial.threads, tuple(arrays), checks="none")
    return arrays[-1]


def wanted(part: str) -> Iterator[Trial]:
    """Forms with a text in their name, or of a share."""
    name, share = re.fullmatch(r"(.*?) ?(\d+/\d+)?", part).groups()  # type: ignore[union-attr]
    first, of = (int(x) for x in (share or "0/1").split("/"))
    return itertools.islice((trial for trial in trials() if name in trial.name), first, None, of)


def record(path: str, part: str = "") -> int:
    """Run every form on the GPU and keep digests."""
    gpu = OnGpu()
    found = {trial.name: digests(gpu(trial)) for trial in wanted(part)}
    np.savez_compressed(path, names=np.array(list(found)), digests=np.stack(list(found.values())))
    return 0


def compare(path: str, part: str = "") -> int:
    """Names of the forms and categories whose bits differ; a count of each family."""
    with np.load(path) as stored:
        recorded = dict(zip((str(name) for name in stored["names"]), stored["digests"], strict=True))
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for trial in wanted(part):
        wrong = digests(simulated(trial)) != recorded[trial.name]
        tally(counts, trial, wrong)
    return summary(counts)


def check(path: str, part: str = "") -> int:
    """Record and compare; operands are made again from a form's name, so that results are all that is kept of failures."""
    gpu, found, kept = OnGpu(), {}, {}
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for trial in wanted(part):
        result = gpu(trial)
        found[trial.name] = digests(result)
        ours = simulated(trial)
        differs = np.flatnonzero((ours != result).reshape(len(result), -1).any(axis=1))
        tally(counts, trial, digests(ours) != found[trial.name])
        if len(differs):
            kept[trial.name] = differs[:KEPT], result[differs[:KEPT]]
    np.savez_compressed(path, names=np.array(list(found)), digests=np.stack(list(found.values())))
    failures = {
        f"{i}_{what}": value
        for i, pair in enumerate(kept.values())
        for what, value in zip(("case", "d"), pair, strict=True)
    }
    np.savez_compressed(f"{path}.failed.npz", names=np.array(list(kept)), **failures)
    return summary(counts)


def tally(counts: dict[str, collections.Counter[str]], trial: Trial, wrong: np.ndarray) -> None:
    """Count a form."""
    counts[trial.family] += collections.Counter(
        forms=1, cases=len(trial.output), results=trial.output.size, different=bool(wrong.any())
    )
    if wrong.any():
        print(f"{trial.name}: {', '.join(c for c, bad in zip(CATEGORIES, wrong, strict=True) if bad)}", flush=True)


def summary(counts: dict[str, collections.Counter[str]]) -> int:
    """A table; whether something differs."""
    print("| family | forms | cases | words of results | forms that differ |\n| --- | --- | --- | --- | --- |")
    for family, count in counts.items():
        print(f"| {family} | {count['forms']} | {count['cases']} | {count['results']} | {count['different']} |")
    return int(any(count["different"] for count in counts.values()))


if __name__ == "__main__":
    commands = {"record": record, "compare": compare, "check": check}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    sys.exit(commands[sys.argv[1]](*sys.argv[2:]))

"""What a GPU makes of the bundled programs with a line taken out: broken_trials.py OUT.json CASE...

The cases are those that ``python -m docs.tools.broken`` writes. Each is launched 20 times in a process of its own; written is how
many elements differ from the recording in each launch, or how the launch failed.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from record import Gpu, launch, printed

LAUNCHES = 20


def differences(path):
    """Elements that differ from the recording, for each launch."""
    case = json.loads((path / "case.json").read_text())
    with np.load(path / "data.npz") as stored:
        data = {name: stored[name] for name in stored.files}
    gpu, counts, texts = Gpu(), [], []
    for _ in range(LAUNCHES):
        function = gpu.kernel((path / "kernel.ptx").read_bytes(), case["entry"])
        with printed(texts):
            out = launch(gpu, function, case, data)
        wrong = 0
        for key, got in out.items():
            raw = [np.ascontiguousarray(a).reshape(-1).view(f"u{a.itemsize}") for a in (got, data[key])]
            wrong += int(np.count_nonzero(raw[0] != raw[1]))
        counts.append(wrong)
    return counts, sum(int(np.size(data[b["out"]])) for b in case["buffers"] if b["out"])


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        print(json.dumps(differences(Path(sys.argv[2]))))
    else:
        results = {}
        for folder in map(Path, sys.argv[2:]):
            command = [sys.executable, __file__, "--one", str(folder)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=20)
            except subprocess.TimeoutExpired:
                results[folder.name] = {"failed": "no end"}
                continue
            if done.returncode:
                results[folder.name] = {"failed": done.stderr.strip().splitlines()[-1]}
            else:
                counts, elements = json.loads(done.stdout.splitlines()[-1])
                results[folder.name] = {"differing": counts, "elements": elements}
            print(folder.name, results[folder.name], flush=True)
        Path(sys.argv[1]).write_text(json.dumps(results, indent=1) + "\n")

"""What the first launches of a process cost: ``python benchmarks/first_launches.py [--engines A,B] [--runs N] [NAME...]``.

Each workload runs in fresh processes under each engine, with an empty cache and with one that earlier processes have filled.
Times are CPU milliseconds of the whole process, threads included, on a machine where Python makes 27 million additions a second
(each process measures how many it makes), medians of a few processes:

- *first*: from the process's beginning until the first launch is done;
- *launch*: the first launch alone;
- *3 to 10*: launches 3 to 10 together;
- *end*: from the process's beginning to its end, ten launches and what they have left to compile.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ENGINES = "interpreter", "auto", "compiled"
NAMES = "w1", "w2", "w3", "w3n", "w4", "w5", "w7", "thin", "row", "tiny"
FILLING = 2
"""Processes that fill the cache."""
ADDITIONS = 10**6
FIGURES = "first", "launch", "3 to 10", "end"


def launch_of(name: str) -> Callable[[], object]:
    """A workload's launch, its module read and its arguments made."""
    import numpy as np

    import warpsim

    file = {"w5": "mma_sm80", "w3n": "kernels_noshfl_sm80", "thin": "thin", "row": "thin"}.get(name, "kernels_sm80")
    kernels = warpsim.load(HERE / f"{file}.ptx").kernels
    f, n = np.float32, 1 << 20
    if name in ("w1", "tiny"):
        count = n if name == "w1" else 256
        x, y = np.ones(count, f), np.ones(count, f)
        saxpy = kernels["w1_saxpy"]
        if name == "w1":
            return lambda: saxpy((n // 256,), (256,), (x, y, 2.0, n))
        return lambda: [saxpy((1,), (256,), (x, y, 2.0, 256)) for _ in range(100)]
    if name == "w2":
        a, c = np.ones((256, 256), f), np.zeros((256, 256), f)
        return lambda: kernels["w2_sgemm"]((16, 16), (16, 16), (a, a, c, 256))
    if name in ("w3", "w3n"):
        x, y = np.ones(n, f), np.zeros(n // 256, f)
        return lambda: kernels[f"{name}_reduce"]((n // 256,), (256,), (x, y, n))
    if name == "w4":
        image = np.zeros((256, 256), np.int32)
        return lambda: kernels["w4_mandel"]((16, 16), (16, 16), (image, 256, 256, 256))
    if name == "w5":
        p, c = (
            np.ones((512, 512), np.float16).view(np.uint16) + np.arange(512, dtype=np.uint16),
            np.zeros((512, 512), f),
        )
        return lambda: kernels["w5_mma"]((8, 8), (128,), (p, p, c, 512, 512, 512))
    if name == "w7":
        h, bins = np.arange(1 << 18, dtype=np.uint32) * np.uint32(2654435761) >> np.uint32(8), np.zeros(256, np.uint32)
        return lambda: kernels["w7_hist"]((64,), (256,), (h, bins, 1 << 18))
    if name == "thin":
        lanes = np.zeros(32, np.uint32)
        return lambda: kernels["thin"]((1,), (32,), (lanes, 20_000))
    x, y = np.ones(1 << 17, f), np.zeros(1 << 17, f)
    return lambda: kernels["row"]((1,), (32,), (x, y, 1 << 17))


def slowness() -> float:
    """How many times as long an addition takes here."""
    began, total = time.process_time(), 0
    for number in range(ADDITIONS):
        total += number
    return (time.process_time() - began) * 27e6 / ADDITIONS


def in_this_process(name: str) -> None:
    """Launch ten times, and print what it took, and how slow the machine was before and behind it."""
    run = launch_of(name)
    began, slow = time.process_time(), slowness()
    counted = time.process_time() - began
    before = time.process_time()
    at = []
    for _ in range(10):
        run()
        at.append(time.process_time())
    print(json.dumps([at[0], at[0] - before, at[9] - at[1], slow, slowness(), counted]))


def in_a_process(name: str, engine: str, cache: str) -> list[float]:
    """The figures of one process, in milliseconds."""
    given = {**os.environ, "WARPSIM_ENGINE": engine, "WARPSIM_CACHE": cache, "OPENBLAS_NUM_THREADS": "1"}
    before = os.times()
    done = subprocess.run(
        [sys.executable, __file__, "--launch", name], env=given, capture_output=True, text=True, check=True
    )
    after = os.times()
    whole = after.children_user + after.children_system - before.children_user - before.children_system
    first, launch, later, *slow, counted = json.loads(done.stdout)
    return [1e3 * figure * len(slow) / sum(slow) for figure in (first - counted, launch, later, whole - 2 * counted)]


def measured(name: str, engines: list[str], runs: int) -> dict[tuple[str, str], list[float]]:
    """The medians of a workload by cache and engine; engines take turns."""
    found: dict[tuple[str, str], list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(FILLING):
            in_a_process(name, "compiled", folder)
            in_a_process(name, "auto", folder)
        for _ in range(runs):
            for engine in engines:
                with tempfile.TemporaryDirectory() as empty:
                    found.setdefault(("cold", engine), []).append(in_a_process(name, engine, empty))
                found.setdefault(("warm", engine), []).append(in_a_process(name, engine, folder))
    return {key: [statistics.median(column) for column in zip(*rows, strict=True)] for key, rows in found.items()}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--launch", help=argparse.SUPPRESS)
    options: Any = parser.parse_args()
    if options.launch:
        in_this_process(options.launch)
        return
    engines = options.engines.split(",")
    print("| workload | cache | figure |", " | ".join(engines), "|")
    print("| --- | --- | --- |", " | ".join(["---:"] * len(engines)), "|")
    for name in options.names:
        found = measured(name, engines, options.runs)
        for cache in ("cold", "warm"):
            for number, figure in enumerate(FIGURES):
                cells = [f"{found[cache, engine][number]:.0f}" for engine in engines]
                print("|", " | ".join([name, cache, figure, *cells]), "|", flush=True)


if __name__ == "__main__":
    main()

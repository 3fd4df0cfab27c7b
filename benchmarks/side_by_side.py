"""Workloads beside NumPy, Numba, other simulators and plain Python, in one process: ``python benchmarks/side_by_side.py [--page FILE]``.

Times are CPU milliseconds, the median of five runs with warm caches. Numba, where it is installed, compiles the same kernel written
as a loop over threads; its simulator of CUDA and plain Python run as much of that loop as takes a moment, and count for all of it.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np
import peers
from peers import numba

import warpsim
from warpsim.host.cases import run_case
from warpsim.native.compiling import available
from warpsim.native.compiling.queue import compile_queue

HERE = Path(__file__).parent
F = np.float32
N = 1 << 20
RUNS, WARM, MANY = 5, 3, 20


def milliseconds(run: Callable[[], object], warm: int = WARM, runs: int = RUNS) -> float:
    """The median of a few runs, after some that warm up: what is compiled behind a run serves the next."""
    for _ in range(warm):
        run()
        compile_queue().wait(60)
    found = []
    for _ in range(runs):
        began = time.process_time()
        run()
        found.append(time.process_time() - began)
    return statistics.median(found) * 1e3


def calibrator() -> None:
    """Ten million additions in plain Python: what other machines can be compared by."""
    total = 0
    for number in range(10_000_000):
        total += number


# ---- the kernels as loops over threads ----------------------------------------------------------


def saxpy(x: Any, y: Any, a: Any, first: int, last: int) -> None:
    """y = a x + y."""
    for i in range(first, last):
        y[i] = a * x[i] + y[i]


def sgemm(a: Any, b: Any, c: Any, first: int, last: int) -> None:
    """Rows of a product."""
    for i in range(first, last):
        for j in range(b.shape[1]):
            total = F(0)
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total


def reduce(x: Any, out: Any, first: int, last: int) -> None:
    """Sums of blocks of 256."""
    for block in range(first, last):
        total = F(0)
        for i in range(256):
            total += x[block * 256 + i]
        out[block] = total


def histogram(h: Any, out: Any, first: int, last: int) -> None:
    """Counts of the low bytes."""
    for i in range(first, last):
        out[h[i] & 255] += 1


def mandelbrot(out: Any, first: int, last: int) -> None:
    """Rows of the set."""
    for i in range(first, last):
        for j in range(256):
            cr, ci = F(-2.0) + F(3.0 / 256) * F(j), F(-1.5) + F(3.0 / 256) * F(i)
            zr, zi, count = F(0), F(0), 0
            while count < 256 and zr * zr + zi * zi <= F(4):
                zr, zi = zr * zr - zi * zi + cr, F(2) * zr * zi + ci
                count += 1
            out[i, j] = count


def thin(out: Any, n: int, first: int, last: int) -> None:
    """A long loop of one warp."""
    for lane in range(32):
        value = np.uint32(lane)
        for i in range(first + 1, last + 1):
            value = np.uint32(value ^ np.uint32(i))
            value = np.uint32(value + np.uint32(value << np.uint32(3)))
        out[lane] = value


def row(x: Any, y: Any, first: int, last: int) -> None:
    """A sum, and what is left without it."""
    total = F(0)
    for i in range(first, last):
        total += x[i]
    for i in range(first, last):
        y[i] = x[i] - total


# ---- the workloads ------------------------------------------------------------------------------


Loop = tuple[Callable[..., Any], tuple[Any, ...], int]
Workload = tuple[Callable[..., Any], Callable[[], Any] | None, Loop | None]


def workloads() -> dict[str, Workload]:
    """By name: the launch (which takes the engine), NumPy, and the loop with its arguments and how far it goes."""
    rng = np.random.default_rng(0)
    k: dict[str, Any] = {}
    for name in ("kernels_sm80", "kernels_noshfl_sm80", "mma_sm80", "thin"):
        k.update(warpsim.load(HERE / f"{name}.ptx").kernels)
    x, y = rng.standard_normal(N).astype(F), rng.standard_normal(N).astype(F)
    a, b = rng.integers(-4, 5, (256, 256)).astype(F), rng.integers(-4, 5, (256, 256)).astype(F)
    h = rng.integers(0, 1 << 32, 1 << 18, dtype=np.uint64).astype(np.uint32)
    p, q = rng.standard_normal((512, 512)).astype(np.float16), rng.standard_normal((512, 512)).astype(np.float16)
    c, sums, counts, image = (
        np.zeros((256, 256), F),
        np.zeros(N // 256, F),
        np.zeros(256, np.uint32),
        np.zeros((256, 256), np.int32),
    )
    product, lanes, long = np.zeros((512, 512), F), np.zeros(32, np.uint32), np.ones(1 << 17, F)
    short = np.zeros(1 << 17, F)

    def tiny(**engine: Any) -> None:
        for _ in range(100):
            k["w1_saxpy"]((1,), (256,), (x[:256], y[:256], 2.0, 256), **engine)

    def tiny_numpy() -> None:
        for _ in range(100):
            y[:256] = F(2) * x[:256] + y[:256]

    return {
        "saxpy, 2^20 elements": (
            lambda **e: k["w1_saxpy"]((N // 256,), (256,), (x, y, 2.0, N), **e),
            lambda: F(2) * x + y,
            (saxpy, (x, y, F(2)), N),
        ),
        "sgemm 256^3, tiles in shared memory": (
            lambda **e: k["w2_sgemm"]((16, 16), (16, 16), (a, b, c, 256), **e),
            lambda: a @ b,
            (sgemm, (a, b, c), 256),
        ),
        "sums of blocks, shuffles": (
            lambda **e: k["w3_reduce"]((N // 256,), (256,), (x, sums, N), **e),
            lambda: x.reshape(-1, 256).sum(1),
            (reduce, (x, sums), N // 256),
        ),
        "sums of blocks, barriers": (
            lambda **e: k["w3n_reduce"]((N // 256,), (256,), (x, sums, N), **e),
            lambda: x.reshape(-1, 256).sum(1),
            (reduce, (x, sums), N // 256),
        ),
        "Mandelbrot set, divergent": (
            lambda **e: k["w4_mandel"]((16, 16), (16, 16), (image, 256, 256, 256), **e),
            None,
            (mandelbrot, (image,), 256),
        ),
        "gemm 512^3, mma.sync f16": (
            lambda **e: k["w5_mma"](
                (8, 8), (128,), (p.view(np.uint16), q.view(np.uint16), product, 512, 512, 512), **e
            ),
            lambda: p.astype(F) @ q.astype(F).T,
            None,
        ),
        "histogram, atomics": (
            lambda **e: k["w7_hist"]((64,), (256,), (h, counts, 1 << 18), **e),
            lambda: np.bincount(h & 255, minlength=256),
            (histogram, (h, counts), 1 << 18),
        ),
        "one warp, a loop of 180,000 instructions": (
            lambda **e: k["thin"]((1,), (32,), (lanes, 20_000), **e),
            None,
            (thin, (lanes, 20_000), 20_000),
        ),
        "one warp, a row of 131,072": (
            lambda **e: k["row"]((1,), (32,), (long, short, 1 << 17), **e),
            lambda: long - long.sum(),
            (row, (long, short), 1 << 17),
        ),
        "100 launches of one CTA": (tiny, tiny_numpy, None),
        "Triton's softmax, checked against a GPU": (
            lambda **e: run_case(HERE.parent / "programs" / "softmax_triton", **e),
            None,
            None,
        ),
    }


ALONE = {"one warp, a loop of 180,000 instructions", "one warp, a row of 131,072"}
"""Loops whose steps are not threads."""


def python_milliseconds(loop: Callable[..., Any], arguments: tuple[Any, ...], size: int) -> float:
    """A loop in plain Python: as much of it as takes a few milliseconds, for all of it."""
    done = max(size >> 8, 1)
    began = time.process_time()
    loop(*arguments, 0, done)
    return (time.process_time() - began) * 1e3 * size / done


def measured(names: list[str]) -> list[list[str]]:
    """The rows of the table."""
    rows, triton = [], peers.in_triton(np.ones(N, F), np.ones(N, F), np.zeros(N // 256, F))
    for name, (launch, with_numpy, loop) in workloads().items():
        if names and not any(part in name for part in names):
            continue
        cells = [milliseconds(lambda launch=launch: launch(engine="interpreter"))]
        cells.append(milliseconds(lambda launch=launch: launch(engine="auto"), MANY) if available() else float("nan"))
        cells.append(milliseconds(with_numpy) if with_numpy else float("nan"))
        compiled = numba.njit(loop[0]) if numba is not None and loop is not None else None
        cells.append(
            milliseconds(lambda f=compiled, n=loop: f(*n[1], 0, n[2])) if compiled is not None else float("nan")
        )
        parallel = name not in ALONE and loop is not None and numba is not None
        with np.errstate(all="ignore"):
            cells.append(milliseconds(peers.in_numba(*loop[:2]), 1, 3) * loop[2] / 32 if parallel else float("nan"))
            cells.append(milliseconds(triton[name], 1, 1) if name in triton else float("nan"))
            cells.append(python_milliseconds(*loop) if loop is not None else float("nan"))
        rows.append(
            [name, *("" if cell != cell else f"{cell:,.3g}" if cell < 1000 else f"{cell:,.0f}" for cell in cells)]
        )
        print(*rows[-1], sep=" | ", file=sys.stderr)
    return rows


def page(rows: list[list[str]], unit: float) -> str:
    """The measurements as a page."""
    heads = ["workload", "interpreter", "default", "NumPy", "Numba", "its simulator", "Triton's", "Python"]
    table = [heads, ["---", *["---:"] * 7], *rows]
    load = f", load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores" if hasattr(os, "getloadavg") else ""
    return "\n".join(
        [
            "# Measured",
            "",
            "Made by `python benchmarks/side_by_side.py --page docs/measured.md`: CPU milliseconds of one core, the median of"
            f" {RUNS} runs in one",
            "process, default checks, warm caches. *Numba* is the kernel as a loop over its threads, compiled, with no checks;"
            " *its",
            "simulator* and *Python* are the same loop as it is, *Triton's* is its interpreter (`TRITON_INTERPRET=1`).",
            "",
            *("| " + " | ".join(line) + " |" for line in table),
            "",
            f"Ten million additions in a loop of plain Python took {unit:,.0f} ms in the same process"
            f" (Python {platform.python_version()}, NumPy {np.__version__},"
            f" {platform.machine()}{load}).",
            "",
        ]
    )


def main() -> None:
    """Measure, and print the page or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of workloads; all without any")
    parser.add_argument("--page", type=Path, help="write the page to a file")
    options = parser.parse_args()
    text = page(measured(options.names), milliseconds(calibrator))
    if options.page:
        options.page.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()

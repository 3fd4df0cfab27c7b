"""Where a launch spends its time: ``python -m benchmarks.profile_launch CASE [--lines N] [--repeat N] [--checks WORD]``.

CASE is a bundled program or a case folder. It runs once to warm up, then under ``cProfile``.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time

from warpsim.cli.launching import find_case
from warpsim.host.cases import run_case


def main() -> None:
    """Run, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", help="a bundled program or a case folder")
    parser.add_argument("--lines", type=int, default=25, help="functions to list")
    parser.add_argument("--repeat", type=int, default=3, help="launches to measure")
    parser.add_argument("--checks", default=None, help="default, all or none")
    wanted = parser.parse_args()
    folder = find_case(wanted.case)
    cold = time.perf_counter()
    result = run_case(folder, checks=wanted.checks)
    print(f"first launch {time.perf_counter() - cold:.3f} s, {result.instructions} warp-instructions")
    profiler = cProfile.Profile()
    for _ in range(wanted.repeat):
        profiler.enable()
        result = run_case(folder, checks=wanted.checks)
        profiler.disable()
        print(f"launch {result.seconds:.3f} s (with the profiler's own cost)")
    pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(wanted.lines)


if __name__ == "__main__":
    main()

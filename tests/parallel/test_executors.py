"""Clusters of real processes as executors, those that are installed: a gemm in parts has every bit of the one in one piece."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SCRIPT = """
import contextlib, os, signal, sys
from concurrent.futures import Executor
import numpy as np
import warpsim


@contextlib.contextmanager
def executor(which):
    if which == "loky":
        from loky import get_reusable_executor

        yield get_reusable_executor(max_workers=2), None
    elif which == "concurrent.futures":
        from concurrent.futures import ProcessPoolExecutor

        with ProcessPoolExecutor(2) as pool:
            yield pool, None
    elif which == "mpi4py":
        from mpi4py.futures import MPIPoolExecutor

        with MPIPoolExecutor(2) as pool:
            yield pool, None
    elif which == "ray":
        import ray

        class Ray(Executor):
            def __init__(self):
                self.call = ray.remote(lambda function, args, kwargs: function(*args, **kwargs))

            def submit(self, function, /, *args, **kwargs):
                return self.call.remote(function, args, kwargs).future()

        ray.init(num_cpus=2, include_dashboard=False)
        yield Ray(), None
        ray.shutdown()
    else:
        from distributed import Client, LocalCluster

        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            workers = list(client.run(os.getpid).values())
            yield client, workers.pop if which == "a worker of dask lost" else None


def gemm(path, **options):
    numbers = np.random.default_rng(0)
    a, b = (numbers.standard_normal((320, 320)).astype(np.float32) for _ in "ab")
    c = np.zeros((320, 320), np.float32)
    result = warpsim.load(path)["w2_sgemm"]((20, 20), (16, 16), (a, b, c, 320), engine="interpreter", **options)
    return c.tobytes(), result.instructions


def main():
    path, which = sys.argv[1:]
    alone, done = gemm(path), []
    with executor(which) as (pool, lose):

        def progress(instructions, ctas, total):
            if lose is not None and not done:
                os.kill(lose(), signal.SIGKILL)
            done.append((ctas, total))

        assert gemm(path, executor=pool, workers=4, progress=progress) == alone
    assert len(done) > 1 and done[-1] == (400, 400), done
    print("equal")


if __name__ == "__main__":
    main()
"""
NEEDED = {"a worker of dask lost": "distributed", "dask": "distributed"}


@pytest.mark.long
@pytest.mark.parametrize("which", ["concurrent.futures", "loky", "dask", "a worker of dask lost", "mpi4py", "ray"])
def test_a_cluster(tmp_path, which):
    """400 CTAs in four parts, whose progress is reported; a worker that is lost after the first changes nothing."""
    pytest.importorskip(NEEDED.get(which, which))
    script = tmp_path / "gemm.py"
    script.write_text(SCRIPT)
    command = [sys.executable]
    if which == "mpi4py":
        mpiexec = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
        if mpiexec is None:
            pytest.skip("no mpiexec")
        command = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures"]
    openmpi = {f"OMPI_ALLOW_RUN_AS_ROOT{more}": "1" for more in ("", "_CONFIRM")}
    openmpi["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"
    run = subprocess.run(
        [*command, script, ROOT / "benchmarks" / "kernels_sm80.ptx", which],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **openmpi},
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "equal"

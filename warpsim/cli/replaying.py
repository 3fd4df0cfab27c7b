"""Finds recorded launches and bundled programs, and runs them: here, in local processes, or on a cluster."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, cast

import attrs

from warpsim.cli.output import Unusable, internal
from warpsim.errors import LaunchError
from warpsim.host.cases import CaseResult, failed_case, run_case
from warpsim.host.files import named
from warpsim.parallel.processes import Processes


def find_case(name: str) -> Path:
    """A case directory, or the bundled program of that name."""
    for folder in (name, os.path.join(programs(), name)):
        if os.path.exists(os.path.join(folder, "case.json")):
            return named(folder)
    raise Unusable(f"{name} is neither a case directory nor a bundled program (see: warpsim examples)")


def programs() -> Path:
    """The directory of the bundled programs: in the package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "programs"
    return inside if inside.is_dir() else package.parent / "programs"


SCHEME = "dask://"


def executor_of(address: str | None) -> Executor | None:
    """The executor of ``--executor``: a Dask cluster, given by its scheduler's address."""
    if address is None:
        return None
    if not address.startswith(SCHEME):
        raise Unusable(f"--executor {address}: write {SCHEME}HOST:PORT, the address of a Dask scheduler")
    try:
        dask = importlib.import_module("distributed")
    except ImportError:
        raise Unusable(f"--executor {address} needs Dask: pip install distributed") from None
    try:
        found: Executor = dask.Client("tcp://" + address[len(SCHEME) :], timeout=10).get_executor()
    except (OSError, ValueError, TimeoutError) as problem:
        raise Unusable(f"--executor {address}: no scheduler answers: {problem}") from None
    return found


@attrs.frozen
class Shipped:
    """A recorded launch as bytes: its name, and its files by name."""

    name: str
    files: dict[str, bytes]

    @classmethod
    def of(cls, path: Path) -> Shipped:
        """Read the files of a case directory."""
        return cls(path.name, {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()})


def run_shipped(case: Shipped, options: Mapping[str, Any]) -> CaseResult:
    """Run a case from its bytes, on any machine."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, case.name)
        path.mkdir()
        for name, content in case.files.items():
            (path / name).write_bytes(content)
        return run_case(path, **options)


def results_of(names: Sequence[str], options: Mapping[str, Any]) -> Iterator[tuple[CaseResult, bool]]:
    """The results of recorded launches, in order, and whether each could be read. Several cases are shared among the
    workers; a single case is divided among them.
    """
    workers, executor = options.get("workers"), options.get("executor")
    if len(names) < 2 or (executor is None and (workers or 1) < 2):
        for name in names:
            yield _result(name, lambda name: run_case(find_case(name), **options))
        return
    alone = {**options, "workers": None, "executor": None, "progress": None}
    pool = executor or Processes(min(workers or 1, len(names)))
    try:
        futures = {name: pool.submit(run_shipped, Shipped.of(path), alone) for name, path in _readable(names)}
        for name in names:
            yield _result(name, lambda name: _outcome(futures.get(name), name, pool, alone))
    finally:
        if executor is None:
            pool.shutdown(cancel_futures=True)


def _outcome(future: Any, name: str, pool: Any, options: dict[str, Any]) -> CaseResult:
    """A case's result from elsewhere; if the worker is lost, from another one, and finally from this process."""
    for again in (True, False):
        if future is None:
            break
        try:
            return cast(CaseResult, future.result())
        except (LaunchError, Unusable):
            raise
        except Exception:  # every executor reports a lost worker in its own way
            future = _submitted(pool, name, options) if again else None
    return run_case(find_case(name), **options)


def _submitted(pool: Any, name: str, options: dict[str, Any]) -> Any:
    try:
        return pool.submit(run_shipped, Shipped.of(find_case(name)), options)
    except Exception:  # the executor itself is broken
        return None


def _readable(names: Sequence[str]) -> Iterator[tuple[str, Path]]:
    for name in names:
        try:
            yield name, find_case(name)
        except (LaunchError, Unusable, OSError):  # reported in its turn
            continue


def _result(name: str, run: Any) -> tuple[CaseResult, bool]:
    try:
        return run(name), True
    except (LaunchError, Unusable) as problem:
        return failed_case(name, str(problem)), False
    except Exception as defect:  # keep the other cases' results
        return failed_case(name, internal(defect)), True


__all__ = ["Shipped", "executor_of", "results_of", "run_shipped"]

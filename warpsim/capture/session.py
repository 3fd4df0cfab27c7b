"""``with warpsim.recording(DIR)`` and ``warpsim record -- COMMAND``."""

from __future__ import annotations

import atexit
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from warpsim.capture.convert import convert
from warpsim.capture.launches import LARGEST, Captured, Recorder
from warpsim.errors import LaunchError, WarpsimError

FOLDER = "WARPSIM_RECORD"
KERNELS = "WARPSIM_RECORD_KERNELS"
MOST = "WARPSIM_RECORD_LAUNCHES"
FAILED = "WARPSIM_RECORD_FAILED"
"""A file that a process makes if the replay of a case that it has recorded fails."""
START = """# made by `warpsim record`: what it starts records itself
import importlib.util, os, sys
from warpsim.capture.session import start_from_environment
start_from_environment()
here = os.path.dirname(os.path.abspath(__file__))
for folder in sys.path:
    other = os.path.join(folder, "sitecustomize.py")
    if os.path.abspath(folder) != here and os.path.exists(other):
        spec = importlib.util.spec_from_file_location("sitecustomize", other)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        break
"""


class recording:
    """Record every GPU launch of this process, each as a case in its own folder.

    Args:
        directory: where to write the cases when the block ends.
        kernels: only kernels whose names match this ``fnmatch`` pattern.
        launches: record at most this many.
        largest: skip launches that use an allocation of more bytes than this.

    Raises:
        LaunchError: there is no driver or no CUPTI.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        kernels: str = "*",
        launches: int | None = None,
        largest: int = LARGEST,
    ) -> None:
        self.directory = Path(directory)
        self.cases: list[Path] = []
        self.failed: list[Path] = []
        self.notes: list[str] = []
        try:
            self.recorder = Recorder(kernels, launches, largest)
        except OSError as problem:
            raise LaunchError(f"recording needs a machine with an NVIDIA driver: {problem}") from None
        os.environ.setdefault("CUPY_COMPILE_WITH_PTX", "1")

    def __enter__(self) -> recording:
        self.recorder.open()
        return self

    def __exit__(self, *problem: object) -> None:
        self.recorder.close()
        self.notes += [*self.recorder.notes, *dict.fromkeys(self.recorder.sources.notes)]
        for launch in self.recorder.launches:
            self._keep(launch)

    def _keep(self, launch: Captured) -> None:
        base = re.sub(r"\W+", "_", launch.name)[:60].strip("_") or "kernel"
        number = 0
        while (self.directory / f"{base}-{number}").exists():
            number += 1
        folder = self.directory / f"{base}-{number}"
        try:
            result = convert(launch, folder)
        except Exception as problem:  # the other launches must not be lost
            self.notes.append(f"{launch.name}: {type(problem).__name__}: {problem}")
            return
        self.cases.append(folder)
        if not (result.ok and result.bits_equal):
            self.failed.append(folder)
            wrong = [f"{o.buffer}: {o.differing} elements differ" for o in result.outputs if not o.bits_equal]
            broken = sorted({f.rule for f in result.findings if f.severity == "error"})
            self.notes.append(f"{folder}: its replay fails ({result.error or ', '.join([*wrong, *broken])})")


def start_from_environment() -> None:
    """Record until the process ends, as requested by `warpsim record`."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    most = os.environ.get(MOST)
    try:
        session = recording(folder, kernels=os.environ.get(KERNELS, "*"), launches=int(most) if most else None)
        session.__enter__()
    except WarpsimError as problem:
        print(f"warpsim record: {problem}", file=sys.stderr)
        return

    def end() -> None:
        session.__exit__(None, None, None)
        for note in session.notes:
            print(f"warpsim record: {note}", file=sys.stderr)
        for case in session.cases:
            print(f"warpsim record: {case}", file=sys.stderr)
        if session.failed and FAILED in os.environ:
            Path(os.environ[FAILED]).touch()

    atexit.register(end)


def record_command(command: list[str], folder: str, kernels: str = "*", launches: int | None = None) -> int:
    """Run a Python program and record its launches, and those of every Python program that it starts; returns its exit
    status (128 and the signal that ended it), or 1 if it is good but the replay of a case fails.

    Raises:
        LaunchError: the program cannot run, or it ends well and nothing has been recorded.
    """
    with tempfile.TemporaryDirectory(prefix="warpsim-record-") as place:
        (Path(place) / "sitecustomize.py").write_text(START, encoding="utf-8")
        package = str(Path(__file__).resolve().parents[2])
        paths = [place, package, *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            FOLDER: os.path.abspath(folder),
            KERNELS: kernels,
            FAILED: os.path.join(place, "failed"),
            "CUPY_COMPILE_WITH_PTX": "1",
            "CUPY_CACHE_DIR": os.path.join(place, "cupy"),
        }
        if launches is not None:
            env[MOST] = str(launches)
        before = _written(folder)
        try:
            status = subprocess.run(command, env=env, check=False).returncode
        except OSError as problem:
            raise LaunchError(f"cannot run {command[0]}: {problem}") from None
        failed = os.path.exists(env[FAILED])
    if status == 0 and _written(folder) == before:
        which = "" if kernels == "*" else f" of a kernel named {kernels}"
        raise LaunchError(
            f"nothing was recorded: no Python program that {command[0]} ran made a launch{which} on a GPU"
        )
    return 128 - status if status < 0 else status or int(failed)


def _written(folder: str) -> dict[Path, int]:
    """The cases of a folder, and when each was written."""
    return {path: path.stat().st_mtime_ns for path in Path(folder).glob("*/case.json")}

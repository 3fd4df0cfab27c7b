"""Settings of a test session's launches, recorded launches as its tests, findings of its child processes, its summary."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from warpsim.errors import Finding, LaunchError, WarpsimError, describe, shown
from warpsim.host import defaults
from warpsim.host.command_options import EFFECTS
from warpsim.host.defaults import FILE, forward, pass_on_uncaught
from warpsim.host.device import Device
from warpsim.host.files import text_of
from warpsim.host.launch_options import Keywords
from warpsim.host.options import budget, choice, integer, resolve_checks
from warpsim.host.unhandled import UnhandledErrors, launching
from warpsim.machine.state.launch import LaunchState
from warpsim.records import define
from warpsim.testing.coverage import Forms, Lines

_CHECKS: dict[str, Callable[[str, Any], object]] = {
    "target": lambda what, value: Device(value),
    "checks": lambda what, value: resolve_checks(value),
    "max_seconds": budget,
    "async_effects": functools.partial(choice, words=EFFECTS),
    "schedule": integer,
    "findings": functools.partial(choice, words=("fail", "allow")),
}
_MEANINGFUL = frozenset({"findings"})
"""Arguments for which None does not stand for the usual value."""


def check(marker: pytest.Mark, nodeid: str) -> None:
    """Check the arguments of a marker.

    Raises:
        pytest.UsageError: an argument is unknown, or its value is none that it takes.
    """
    unknown = [repr(a) for a in marker.args] + sorted(set(marker.kwargs) - set(_CHECKS))
    if unknown:
        raise pytest.UsageError(f"{nodeid}: pytest.mark.ptx takes {', '.join(_CHECKS)}, not {', '.join(unknown)}")
    for name, value in marker.kwargs.items():
        if value is None and name not in _MEANINGFUL:
            continue
        try:
            _CHECKS[name](name, value)
        except LaunchError as problem:
            raise pytest.UsageError(f"{nodeid}: pytest.mark.ptx({name}={shown(value)}): {problem}") from None


class Children:
    """The file that child processes write their findings to."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.read = 0
        """How many bytes have been read."""

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """Receive findings of processes that are started within the context."""
        outer = os.environ.get(FILE)
        defaults.keep_findings()
        with tempfile.TemporaryDirectory(prefix="warpsim-", ignore_cleanup_errors=True) as folder:
            self.path = Path(folder, "findings")
            os.environ[FILE] = str(self.path)
            _watch_forks()
            try:
                yield
            finally:
                self.path = None
                os.environ.pop(FILE)
                if outer is not None:
                    os.environ[FILE] = outer

    def take(self) -> list[str]:
        """Return the findings that have arrived since the last call, each once."""
        if self.path is None or not os.access(self.path, os.F_OK):
            return []
        with self.path.open("rb") as file:
            file.seek(self.read)
            whole = file.read().rpartition(b"\n")[0]
        self.read += len(whole) + 1 if whole else 0
        return list(dict.fromkeys(f"in a child process: {json.loads(line)}" for line in whole.splitlines()))


@functools.cache
def _watch_forks() -> None:
    """Let forked processes, which inherit the session's own listeners, pass findings on instead."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    if FILE in os.environ:
        defaults.listeners[:] = [forward]
        pass_on_uncaught(defaults.listeners)


_OPTIONS = {
    "target": "target",
    "checks": "checks",
    "max_seconds": "max-seconds",
    "async_effects": "async",
    "schedule": "schedule",
}
"""Arguments of the marker that are options of the session, too, and what follows ``--warpsim-`` there."""
_NUMBERS: dict[str, Callable[[str], float]] = {"max_seconds": float, "schedule": int}
_KEY: pytest.StashKey[Settings] = pytest.StashKey()
_DEVICE: pytest.StashKey[Device] = pytest.StashKey()
HANDED = "warpsim"
"""Key of the data that a pytest-xdist worker passes to the controller."""


@define
class Settings:
    """The options from the command line or the ini file, and what the session's launches have executed."""

    cases: list[Path]
    collect: bool
    bits: bool
    record: bool
    launch: Keywords
    """Options of launches by the names of the marker's arguments, and ``findings``; None where none was given."""
    both: bool
    """Whether tests run with both settings of async_effects."""
    coverage: str | None
    fidelity: bool
    lines: Lines = attrs.field(factory=Lines)
    forms: Forms = attrs.field(factory=Forms)
    said: list[str] = attrs.field(factory=list)
    """Lines of the summary."""
    outside: list[str] = attrs.field(factory=list)
    """Findings of launches outside tests, for example at import, which no test would report."""
    running: int = 0
    """Number of tests running."""
    over: bool = False
    """Whether the last test has ended, after which no test can report what a launch raises."""
    unhandled: UnhandledErrors = attrs.field(factory=UnhandledErrors)
    children: Children = attrs.field(factory=Children)
    snapshots: dict[Path, str] = attrs.field(factory=dict)
    """Text of the snapshots that this session has recorded."""

    @property
    def fails(self) -> bool:
        """Whether findings fail a test that does not allow them."""
        return bool(self.launch["findings"] == "fail")

    def taken(self) -> list[str]:
        """Errors of the running test that nobody looked at."""
        return self.unhandled.take() + self.children.take()

    def launched(self, state: LaunchState) -> None:
        """Count a finished launch."""
        self.unhandled.launches += 1
        if not self.running and self.fails:
            self.outside += [describe(finding) for finding in _errors(state, raised=self.over)]
        if self.coverage:
            self.lines.add(state)
        if self.fidelity:
            self.forms.add(state)

    def debugged(self, found: Sequence[Finding]) -> None:
        """Note errors that a debug session ran past."""
        if not self.running and self.fails:
            self.outside += map(describe, found)


def _errors(state: LaunchState, *, raised: bool = False) -> list[Finding]:
    """Findings of severity error that a launch collected; with ``raised``, also those that it raised."""
    counts = raised or state.settings.on_finding == "collect"
    return [f for f in state.findings.values() if f.severity == "error"] if counts else []


def settings_of(config: pytest.Config) -> Settings:
    """The settings of a session."""
    return config.stash[_KEY]


def configure(config: pytest.Config) -> None:
    """Read and check the options, and let pytest collect where the cases are.

    Raises:
        pytest.UsageError: an option is invalid, or a folder contains no cases.
    """
    settings = config.stash[_KEY] = _read(config)
    for folder in settings.cases:
        found = [path.parent.relative_to(folder).parts for path in folder.glob("**/case.json")]
        if not found:
            raise pytest.UsageError(f"--warpsim-cases: no case.json below {folder}")
        for pattern in config.getini("norecursedirs"):
            if hidden := next((parts for parts in found if fnmatch.filter(parts, pattern)), None):
                raise pytest.UsageError(
                    f"--warpsim-cases: {folder.joinpath(*hidden)} would not be collected: norecursedirs has {pattern!r}"
                )
        if str(folder) not in config.args:
            config.args.append(str(folder))
    hooks = contextlib.ExitStack()
    hooks.enter_context(defaults.listening(settings.launched, settings.debugged))
    hooks.enter_context(settings.unhandled.session())
    hooks.enter_context(settings.children.session())
    config.add_cleanup(hooks.close)


def _read(config: pytest.Config) -> Settings:
    def given(name: str) -> Any:
        option = config.getoption(f"--warpsim-{name}")
        unset = option is None or option is False  # 0 is a seed
        return config.getini(f"warpsim_{name.replace('-', '_')}") or None if unset else option

    launch = {name: given(option) for name, option in _OPTIONS.items()}
    both = launch["async_effects"] == "both"
    if both:
        launch["async_effects"] = None
    launch["findings"] = config.getini("warpsim_findings")
    for name, value in launch.items():
        what = f"--warpsim-{_OPTIONS[name]}" if name in _OPTIONS else f"warpsim_{name}"
        with contextlib.suppress(ValueError):  # no number: the check says so
            launch[name] = _NUMBERS.get(name, str)(value) if value is not None else None
        try:
            if value is not None:
                _CHECKS[name](what, launch[name])
        except LaunchError as problem:
            raise pytest.UsageError(f"{what}: {problem}") from None
    root = config.invocation_params.dir
    named = [root / folder for folder in config.getoption("--warpsim-cases")]
    return Settings(
        cases=[folder.resolve() for folder in [*named, *config.getini("warpsim_cases")]],
        collect=config.getini("warpsim_collect"),
        bits=bool(given("bits")),
        record=bool(config.getoption("--warpsim-record")),
        launch=launch,
        both=both,
        coverage=given("coverage"),
        fidelity=bool(given("fidelity")),
    )


def _marks(item: pytest.Item) -> Keywords:
    """The arguments of a test's markers; the nearest marker wins."""
    found: dict[str, object] = {}
    for marker in item.iter_markers("ptx"):
        check(marker, item.nodeid)  # a fixture may have added it
        found = {**marker.kwargs, **found}
    return found


def _options(item: pytest.Item) -> Keywords:
    """The options of a test's launches: those of its markers, of its run with ``--warpsim-async=both``, of the session."""
    own: Keywords = {}
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        mode = item.callspec.params.get("_warpsim_async")
        own = {} if mode is None else {"async_effects": mode}
    return {**settings_of(item.config).launch, **own, **_marks(item)}


def device_of(item: pytest.Item) -> Device:
    """A fresh GPU for a test. If a target is named, the test's launches without ``device=`` use it too."""
    if _DEVICE not in item.stash:
        given = _options(item)
        made = item.stash[_DEVICE] = Device(given["target"] or "sm_90a")
        made.checks, made.max_seconds = given["checks"], given["max_seconds"]
    return item.stash[_DEVICE]


@contextlib.contextmanager
def watched(item: pytest.Item) -> Iterator[None]:
    """Apply a test's defaults while it runs. Fail it for findings of severity error that its launches collect, and for
    errors that would otherwise go unnoticed."""
    settings, given = settings_of(item.config), _options(item)
    collected: list[Finding] = []
    defaults.keep_findings()  # a runner may have forked this process
    device = device_of(item) if given["target"] else None
    usual = {name: given[name] for name in ("checks", "max_seconds", "async_effects", "schedule")}
    settings.running += 1
    stopped: BaseException | None = None
    try:
        with (
            defaults.defaults(**usual, device=device),
            defaults.listening(lambda state: collected.extend(_errors(state)), collected.extend),
            settings.unhandled.hooks(),
        ):
            yield
    except (pytest.skip.Exception, pytest.xfail.Exception) as skipped:
        stopped = skipped
    finally:
        settings.running -= 1
    unhandled = settings.taken()
    said = [] if getattr(item, "reports_findings", False) else [describe(f) for f in collected]
    if (said or unhandled) and _options(item)["findings"] != "allow":  # the test may have added a marker
        __tracebackhide__ = True
        broke = "a launch of this test broke a rule" if said else "an error that nobody looked at"
        pytest.fail(
            "\n".join([f"{broke}:", *said, *unhandled, 'where that is expected: @pytest.mark.ptx(findings="allow")']),
            pytrace=False,
        )
    if stopped is not None:
        raise stopped


# ---- recorded launches ---------------------------------------------------------------------------


def collect(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The collector for a case.json with a kernel.ptx beside it, where cases are collected."""
    settings = settings_of(parent.config)
    asked = parent.session.isinitpath(path) or any(folder in path.parents for folder in settings.cases)
    whole = any((path.parent / name).exists() for name in ("kernel.ptx", "data.npz"))
    if not asked and not (settings.collect and whole):  # a case.json alone may belong to another tool
        return None
    return CaseFile.from_parent(parent, path=path)


class CaseFile(pytest.File):
    """A case.json."""

    def collect(self) -> list[CaseItem]:
        """Make one test, or one per setting of async_effects."""
        name, markers = self.path.parent.name, _markers(self.path)
        if not settings_of(self.config).both:
            return [CaseItem.from_parent(self, name=name, marks=markers, options={})]
        modes = [{"async_effects": mode} for mode in ("eager", "at_wait")]
        return [
            CaseItem.from_parent(self, name=f"{name}[{m['async_effects']}]", marks=markers, options=m) for m in modes
        ]


def _markers(path: Path) -> list[str]:
    """The names of markers in the case; none for an unreadable case, which its test reports."""
    try:
        found = json.loads(text_of(path)).get("markers", [])
    except (OSError, ValueError, AttributeError, RecursionError):
        return []
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


class CaseItem(pytest.Item):
    """One recorded launch."""

    reports_findings = True
    """The item's failure message includes its findings."""

    def __init__(self, *, marks: list[str], options: Keywords, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.options = options
        for name in marks:  # a case that is expected to fail must fail
            self.add_marker(pytest.mark.xfail(strict=True) if name == "xfail" else name)

    def runtest(self) -> None:
        """Run and compare the case, or record it."""
        settings = settings_of(self.config)
        case = self.path.parent
        given = {name: value for name, value in settings.launch.items() if name not in ("target", "findings")}
        options = {**{name: value for name, value in given.items() if value is not None}, **self.options}
        if settings.record and self.options.get("async_effects", "eager") == "eager":
            from warpsim.host.recording import renew

            renew(case, **options)
            return
        from warpsim.testing.replaying import failure_of

        found = failure_of(case, bits=settings.bits, device=settings.launch["target"], **options)
        if found is not None:
            raise CaseFailure(found)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The message alone, because it says what differs."""
        if not isinstance(excinfo.value, CaseFailure | WarpsimError):
            return super().repr_failure(excinfo, style)
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, None, str]:
        """The place of the case."""
        return self.path, None, self.name


class CaseFailure(AssertionError):
    """A recorded launch does not reproduce its recording."""


# ---- the end of a session ------------------------------------------------------------------------


def finish(session: pytest.Session) -> None:
    """End the session: a pytest-xdist worker passes on what it observed, any other process writes the coverage."""
    config = session.config
    settings = settings_of(config)
    settings.over = True
    while launching():  # in a thread that was not joined
        time.sleep(0.01)
    if settings.fails:
        settings.outside += settings.unhandled.take_all() + settings.children.take()
    output = getattr(config, "workeroutput", None)
    if output is not None:
        output[HANDED] = {
            "lines": settings.lines.plain(),
            "forms": settings.forms.plain(),
            "outside": settings.outside,
        }
        return
    for found in dict.fromkeys(settings.outside):
        settings.said += ["a launch outside of any test broke a rule:", *found.splitlines()]
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
    if settings.fidelity:
        settings.said += settings.forms.summary()
    if settings.coverage:
        settings.said += settings.lines.write(config.rootpath / settings.coverage)


def take_over(config: pytest.Config, output: Keywords) -> None:
    """Take over what a worker observed."""
    if HANDED in output:
        settings = settings_of(config)
        settings.lines.merge(output[HANDED]["lines"])
        settings.forms.merge(output[HANDED]["forms"])
        settings.outside += output[HANDED]["outside"]

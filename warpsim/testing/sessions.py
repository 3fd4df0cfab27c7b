"""Settings of a test session's launches, findings of its child processes, and the session's summary."""

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

from warpsim.errors import Finding, LaunchError, describe, shown
from warpsim.host import defaults
from warpsim.host.checks import resolve_checks
from warpsim.host.defaults import FILE, forward, tell_uncaught
from warpsim.host.device import Device
from warpsim.host.options import budget, integer
from warpsim.host.unhandled import UnhandledErrors, launching
from warpsim.testing.coverage import Forms, Lines


def _one_of(*choices: str) -> Callable[[str, Any], object]:
    def check(what: str, value: Any) -> None:
        if not (isinstance(value, str) and value in choices):
            raise LaunchError(f"{what} must be {' or '.join(map(repr, choices))}, not {shown(value)}")

    return check


_CHECKS: dict[str, Callable[[str, Any], object]] = {
    "target": lambda what, value: Device(value),
    "checks": lambda what, value: resolve_checks(value),
    "max_seconds": budget,
    "async_effects": _one_of("eager", "at_wait"),
    "schedule": integer,
    "findings": _one_of("fail", "allow"),
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
        defaults.judge()
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
        tell_uncaught(defaults.listeners)


_KEY: pytest.StashKey[Settings] = pytest.StashKey()
HANDED = "warpsim"
"""Key of the data that a pytest-xdist worker passes to the controller."""


@attrs.define
class Settings:
    """The options from the command line or the ini file, and what the session's launches have executed."""

    cases: list[Path]
    collect: bool
    bits: bool
    record: bool
    max_seconds: float
    checks: str | None
    target: str | None
    async_effects: str | None
    schedule: int | None
    coverage: str | None
    fidelity: bool
    findings: str
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

    def launch_options(self) -> dict[str, Any]:
        """Options for a case's launch, unless the case gives its own."""
        given = {"checks": self.checks, "async_effects": self.async_effects, "schedule": self.schedule}
        given["async_effects"] = None if self.async_effects == "both" else self.async_effects
        return {"max_seconds": self.max_seconds, **{key: value for key, value in given.items() if value is not None}}

    def taken(self) -> list[str]:
        """Errors of the running test that nobody looked at."""
        return self.unhandled.take() + self.children.take()

    def launched(self, state: Any) -> None:
        """Count a finished launch."""
        self.unhandled.launches += 1
        if not self.running and self.findings == "fail":
            self.outside += [describe(finding) for finding in _errors(state, raised=self.over)]
        if self.coverage:
            self.lines.add(state)
        if self.fidelity:
            self.forms.add(state)

    def debugged(self, found: Sequence[Finding]) -> None:
        """Note errors that a debug session ran past."""
        if not self.running and self.findings == "fail":
            self.outside += map(describe, found)


def _errors(state: Any, *, raised: bool = False) -> list[Finding]:
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

    seconds, schedule = given("max-seconds"), given("schedule")
    try:
        limit = float(seconds)
        if not limit >= 0:
            raise ValueError
    except (TypeError, ValueError):
        raise pytest.UsageError(f"--warpsim-max-seconds takes a number from 0, not {seconds!r}") from None
    try:
        seed = None if schedule is None else int(schedule)
        if seed is not None and seed < 0:
            raise ValueError
    except ValueError:
        raise pytest.UsageError(f"--warpsim-schedule takes a seed, not {schedule!r}") from None
    _check(given("checks"), given("target"))
    mode, findings = given("async"), config.getini("warpsim_findings")
    if mode not in (None, "eager", "at_wait", "both"):
        raise pytest.UsageError(f"warpsim_async is eager, at_wait or both, not {mode!r}")
    if findings not in ("fail", "allow"):
        raise pytest.UsageError(f"warpsim_findings is fail or allow, not {findings!r}")
    root = config.invocation_params.dir
    named = [root / folder for folder in config.getoption("--warpsim-cases")]
    return Settings(
        cases=[folder.resolve() for folder in [*named, *config.getini("warpsim_cases")]],
        collect=config.getini("warpsim_collect"),
        bits=bool(given("bits")),
        record=bool(config.getoption("--warpsim-record")),
        max_seconds=limit,
        checks=given("checks"),
        target=given("target"),
        async_effects=mode,
        schedule=seed,
        coverage=given("coverage"),
        fidelity=bool(given("fidelity")),
        findings=findings,
    )


def _check(checks: str | None, target: str | None) -> None:
    """Reject unknown rules and GPUs."""
    from warpsim.host.checks import resolve_checks

    try:
        resolve_checks(checks)
        if target:
            from warpsim.host.device import Device

            Device(target)
    except LaunchError as problem:
        raise pytest.UsageError(f"--warpsim-checks or --warpsim-target: {problem}") from None


def _marks(item: pytest.Item) -> dict[str, Any]:
    """The arguments of a test's markers; the nearest marker wins."""
    found: dict[str, Any] = {}
    for marker in item.iter_markers("ptx"):
        check(marker, item.nodeid)  # a fixture may have added it
        found = {**marker.kwargs, **found}
    return found


def _defaults(item: pytest.Item, marks: dict[str, Any]) -> dict[str, Any]:
    settings = settings_of(item.config)
    mode = getattr(item, "callspec", None) and item.callspec.params.get("_warpsim_async")  # type: ignore[attr-defined]
    usual = None if settings.async_effects == "both" else settings.async_effects
    return {
        "checks": marks.get("checks", settings.checks),
        "max_seconds": marks.get("max_seconds", settings.max_seconds),
        "async_effects": marks.get("async_effects", mode or usual),
        "schedule": marks.get("schedule", settings.schedule),
    }


def _target(item: pytest.Item, marks: dict[str, Any]) -> str | None:
    target: str | None = marks.get("target", settings_of(item.config).target)
    return target


def device_of(item: pytest.Item) -> Device:
    """A fresh GPU for a test. If a target is named, the test's launches without ``device=`` use it too."""
    from warpsim.host.device import Device

    made: Device | None = getattr(item, "_warpsim_device", None)
    if made is None:
        marks = _marks(item)
        usual = _defaults(item, marks)
        made = Device(_target(item, marks) or "sm_90a")
        made.checks, made.max_seconds = usual["checks"], usual["max_seconds"]
        item._warpsim_device = made  # type: ignore[attr-defined]
    return made


@contextlib.contextmanager
def watched(item: pytest.Item) -> Iterator[None]:
    """Apply a test's defaults while it runs. Fail it for findings of severity error that its launches collect, and for
    errors that would otherwise go unnoticed.
    """
    settings, marks = settings_of(item.config), _marks(item)
    collected: list[Finding] = []
    defaults.judge()  # a runner may have forked this process
    device = device_of(item) if _target(item, marks) else None
    settings.running += 1
    unhandled: list[str] = []
    try:
        with (
            defaults.defaults(**_defaults(item, marks), device=device),
            defaults.listening(lambda state: collected.extend(_errors(state)), collected.extend),
            settings.unhandled.hooks(),
        ):
            yield
    except (pytest.skip.Exception, pytest.xfail.Exception):
        unhandled = settings.taken()
        if not collected and not unhandled:
            raise
    finally:
        settings.running -= 1
    unhandled += settings.taken()
    said = [] if getattr(item, "judges_findings", False) else [describe(f) for f in collected]
    if not said and not unhandled:
        return
    if _marks(item).get("findings", settings.findings) != "allow":  # the test may have added a marker
        __tracebackhide__ = True
        broke = "a launch of this test broke a rule" if said else "an error that nobody looked at"
        pytest.fail(
            "\n".join([f"{broke}:", *said, *unhandled, 'where that is expected: @pytest.mark.ptx(findings="allow")']),
            pytrace=False,
        )


# ---- the end of a session ------------------------------------------------------------------------


def finish(session: pytest.Session) -> None:
    """End the session: a pytest-xdist worker passes on what it observed, any other process writes the coverage."""
    config = session.config
    settings = settings_of(config)
    settings.over = True
    while launching():  # in a thread that was not joined
        time.sleep(0.01)
    if settings.findings == "fail":
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


def take_over(config: pytest.Config, output: dict[str, Any]) -> None:
    """Take over what a worker observed."""
    if HANDED in output:
        settings = settings_of(config)
        settings.lines.merge(output[HANDED]["lines"])
        settings.forms.merge(output[HANDED]["forms"])
        settings.outside += output[HANDED]["outside"]

"""Collects recorded launches for pytest: each ``case.json`` is a file with one or two tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from warpsim.host.files import text_of
from warpsim.testing.sessions import settings_of


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
        settings = settings_of(self.config)
        name, markers = self.path.parent.name, _markers(self.path)
        if settings.async_effects != "both":
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

    judges_findings = True
    """The item's failure message includes its findings."""

    def __init__(self, *, marks: list[str], options: dict[str, Any], **keywords: Any) -> None:
        super().__init__(**keywords)
        self.options = options
        for name in marks:  # a case that is expected to fail must fail
            self.add_marker(pytest.mark.xfail(strict=True) if name == "xfail" else name)

    def runtest(self) -> None:
        """Run and compare the case, or record it."""
        settings = settings_of(self.config)
        case = self.path.parent
        options = {**settings.launch_options(), **self.options}
        if settings.record and self.options.get("async_effects", "eager") == "eager":
            from warpsim.host.recording import renew

            renew(case, **options)
            return
        from warpsim.testing.replaying import failure_of

        found = failure_of(case, bits=settings.bits, device=settings.target, **options)
        if found is not None:
            raise CaseFailure(found)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The message alone, because it says what differs."""
        from warpsim.errors import WarpsimError

        if not isinstance(excinfo.value, CaseFailure | WarpsimError):
            return super().repr_failure(excinfo, style)
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, None, str]:
        """The place of the case."""
        return self.path, None, self.name


class CaseFailure(AssertionError):
    """A recorded launch does not reproduce its recording."""

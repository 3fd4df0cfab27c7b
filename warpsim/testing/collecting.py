"""Recorded launches as pytest collects them: a file ``case.json`` with a test, or two of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from warpsim.testing.sessions import settings_of


def collect(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The collector of a case.json that lies beside a kernel.ptx, where cases are to be collected."""
    settings = settings_of(parent.config)
    asked = parent.session.isinitpath(path) or any(folder in path.parents for folder in settings.cases)
    whole = any((path.parent / name).exists() for name in ("kernel.ptx", "data.npz"))
    if not asked and not (settings.collect and whole):  # a case.json alone may be anybody's
        return None
    return CaseFile.from_parent(parent, path=path)


class CaseFile(pytest.File):
    """A case.json."""

    def collect(self) -> list[CaseItem]:
        """One test, or one for each moment at which asynchronous effects may appear."""
        settings = settings_of(self.config)
        name, markers = self.path.parent.name, _markers(self.path)
        if settings.async_effects != "both":
            return [CaseItem.from_parent(self, name=name, marks=markers, options={})]
        modes = [{"async_effects": mode} for mode in ("eager", "at_wait")]
        return [
            CaseItem.from_parent(self, name=f"{name}[{m['async_effects']}]", marks=markers, options=m) for m in modes
        ]


def _markers(path: Path) -> list[str]:
    """The names of markers in the case; none of a case that cannot be read: the test says so."""
    try:
        found = json.loads(path.read_text(encoding="utf-8")).get("markers", [])
    except (OSError, ValueError, AttributeError, RecursionError):
        return []
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


class CaseItem(pytest.Item):
    """One recorded launch."""

    judges_findings = True
    """What is wrong with the launch is said whole, findings among the rest."""

    def __init__(self, *, marks: list[str], options: dict[str, Any], **keywords: Any) -> None:
        super().__init__(**keywords)
        self.options = options
        for name in marks:  # a case that is expected to fail and does not is no success
            self.add_marker(pytest.mark.xfail(strict=True) if name == "xfail" else name)

    def runtest(self) -> None:
        """Run it and compare, or record it."""
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
        """The message alone: it says what differs."""
        from warpsim.errors import WarpsimError

        if not isinstance(excinfo.value, CaseFailure | WarpsimError):
            return super().repr_failure(excinfo, style)
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where the case lies."""
        return self.path, None, self.name


class CaseFailure(AssertionError):
    """A recorded launch that is not as it was recorded."""

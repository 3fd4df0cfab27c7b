"""Prints findings to standard error, and optionally writes them to a report file."""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from warpsim.errors import Finding, describe

NO_KERNEL = "CUDA_ERROR_NO_BINARY_FOR_GPU"
SHOWN = 20
"""Findings printed in full to standard error; the rest are only in the report."""


class Report:
    """The findings of one process. The file is appended one JSON document per line."""

    def __init__(self, path: str | None = None, *, quiet: bool = False) -> None:
        self.path, self.quiet = path, quiet
        self.launches = self.told = 0
        self._known: set[tuple[Any, ...]] = set()
        self._lock = threading.Lock()

    def finding(self, finding: Finding, result: str) -> None:
        """Report a finding, once per place."""
        key = finding.rule, finding.file, finding.line, finding.kernel, finding.message
        with self._lock:
            if key in self._known:
                return
            self._known.add(key)
            self.told += 1
        text = describe(finding)
        if self.told <= SHOWN:
            self._say(f"warpsim: {finding.severity} in kernel {finding.kernel}, launch {self.launches}\n{text}")
        self._append(
            {
                "rule": finding.rule,
                "severity": finding.severity,
                "result": result,
                "kernel": finding.kernel,
                "launch": self.launches,
                "file": finding.file,
                "line": finding.line,
                "source": finding.source,
                "inlined_at": finding.inlined_at,
                "cta": finding.cta,
                "warp": finding.warp,
                "lanes": list(finding.lanes),
                "message": finding.message,
                "text": text,
            }
        )

    def problem(self, what: str, message: str, result: str) -> None:
        """Report why a call was refused.

        A missing kernel is an error even if the program continues without it, as some do, with wrong values.
        """
        with self._lock:
            key = what, message
            if key in self._known:
                return
            self._known.add(key)
        self._say(f"warpsim: {what}: {message}")
        severity = "error" if result == NO_KERNEL else "note"
        self._append({"rule": "refused", "severity": severity, "result": result, "function": what, "message": message})

    def finish(self) -> None:
        """Note that the program has ended."""
        self._append({"rule": "end", "severity": "note", "launches": self.launches})

    def _say(self, text: str) -> None:
        if not self.quiet and sys.stderr is not None:
            print(text, file=sys.stderr, flush=True)

    def _append(self, record: dict[str, Any]) -> None:
        if self.path is None:
            return
        line = json.dumps({"process": os.getpid(), **record}, default=str) + "\n"
        try:
            with open(self.path, "a", encoding="utf-8") as stream:
                stream.write(line)
        except OSError as problem:
            self._say(f"warpsim: cannot write the report {self.path}: {problem}")
            self.path = None

"""A trace, and its output formats."""

from __future__ import annotations

import base64
import html
import json
import os
from typing import Any

import attrs
import numpy as np

from warpsim.errors import describe, plural, source_lines
from warpsim.isa.traits import Traits
from warpsim.trace.page import page
from warpsim.trace.perfetto import events
from warpsim.trace.recording import Recording

CLASSES = ("arithmetic", "control", "memory", "shared", "async", "matrix", "barrier", "wait")
"""Classes of instructions, in the order of precedence for a picture that has room for one."""


class Trace(Recording):
    """A launch, step by step; `save` writes it for a browser or for Perfetto."""

    def __repr__(self) -> str:
        return f"Trace({self.profile.kernel!r}, {len(self.steps)} steps of {len(self.warps)} warps)"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a page (``.html``), or a document for https://ui.perfetto.dev (``.json``)."""
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(self.perfetto() if os.fspath(path).endswith(".json") else self.html())

    def html(self) -> str:
        """A self-contained page."""
        profile = self.profile
        facts = [
            f"grid {profile.grid}, block {profile.block}",
            profile.target,
            plural(len(self.steps), "step"),
            plural(profile.total.executions, "warp-instruction"),
            *(["the launch continued after the last step"] if self.full else []),
        ]
        return page(profile.kernel, facts, self.record())

    def perfetto(self) -> str:
        """JSON in the trace event format."""
        return json.dumps({"traceEvents": events(self), "displayTimeUnit": "ns"})

    def _repr_html_(self) -> str:
        return f'<iframe style="width:100%;height:720px;border:0" srcdoc="{html.escape(self.html())}"></iframe>'

    def record(self) -> dict[str, Any]:
        """The trace as plain data, which the page reads. Long lists are 32-bit little-endian integers in base64."""
        profile = self.profile
        return {
            "kernel": profile.kernel,
            "file": profile.file,
            "target": profile.target,
            "grid": profile.grid,
            "block": profile.block,
            "full": self.full,
            "warps": self.warps,
            "instructions": [
                [i.span.line, i.text, CLASSES.index(class_of(i.traits)), list(i.source) if i.source else None]
                for i in self.instructions
            ],
            "classes": CLASSES,
            "steps": _packed(self.steps),
            "runs": _packed(self.runs),
            "crews": self.crews,
            "waits": self.waits,
            "flights": [attrs.astuple(flight) for flight in self.flights],
            "shared": {
                "size": self.shared_size,
                "variables": self.variables,
                "block": self.block,
                "marks": _packed(self.marks),
            },
            "findings": [[step, f.severity, f.rule, f.line, describe(f)] for step, f in self.findings],
            "text": profile.program,
            "counts": {line.number: line.counts.executions for line in profile.lines},
            "sources": {
                file: {
                    "text": source_lines(file, profile.file),
                    "counts": {
                        line.number: line.counts.executions for line in profile.by_source() if line.file == file
                    },
                }
                for file in {line.source[0] for line in profile.lines if line.source}
            },
        }


def class_of(traits: Traits) -> str:
    """The class of an instruction, one of `CLASSES`."""
    if traits.mbarrier is not None or (traits.asynchronous is not None and "wait" in traits.asynchronous.stage.value):
        return "wait"
    if traits.barrier is not None or traits.fence is not None:
        return "barrier"
    if traits.matrix is not None:
        return "matrix"
    if traits.asynchronous is not None:
        return "async"
    if traits.access is not None:
        return "shared" if "shared" in traits.spaces else "memory"
    return "control" if traits.ending is not None else "arithmetic"


def _packed(numbers: Any) -> str:
    return base64.b64encode(np.asarray(numbers, "<i4").tobytes()).decode()

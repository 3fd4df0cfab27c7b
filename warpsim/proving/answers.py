"""What is asked of a kernel, and what is answered."""

from __future__ import annotations

import enum

import attrs

from warpsim.errors import Finding
from warpsim.records import frozen
from warpsim.report.findings import finding_record
from warpsim.types import JsonObject

RULES: dict[str, frozenset[str]] = {
    "races": frozenset({"race"}),
    "barriers": frozenset({
        "aligned-divergence", "barrier-divergence", "deadlock", "exited-lane", "membermask", "nonuniform-operand", "setmaxnreg",
    }),
    "asynchrony": frozenset({
        "async-read-early", "async-smem-overwrite", "cluster-launch", "mbarrier", "proxy-fence", "tcgen05", "tensor-map",
        "wgmma-in-flight", "wgmma-missing-fence", "wgmma-uncommitted",
    }),
    "bounds": frozenset({"misaligned", "other-variable", "out-of-bounds", "read-only"}),
}  # fmt: skip
"""The properties, and the rules of a running launch that break them, as errors or warnings."""


class Verdict(enum.Enum):
    """What is known of a property."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


@frozen
class Answer:
    """Whether a kernel has a property. ``findings`` are those of a launch that breaks it, or what could not be followed;
    none where it is proved."""

    property: str
    verdict: Verdict
    findings: tuple[Finding, ...] = ()

    def record(self) -> JsonObject:
        """Plain data, for JSON."""
        found = [finding_record(f) for f in self.findings]
        return {"property": self.property, "answer": self.verdict.value, "findings": found}


@frozen
class Proof:
    """The answers for a kernel, what they assume, and how a launch that refutes one is made: ``inputs`` are its scalars by
    their parameters' names, ``options`` those of `Kernel.__call__`."""

    kernel: str
    answers: tuple[Answer, ...]
    assumptions: tuple[str, ...]
    seconds: float = attrs.field(default=0.0, eq=False)
    inputs: dict[str, int] = attrs.field(factory=dict)
    options: dict[str, object] = attrs.field(factory=dict)

    def __getitem__(self, name: str) -> Answer:
        """The answer for a property.

        Raises:
            KeyError: there is no such property.
        """
        for answer in self.answers:
            if answer.property == name:
                return answer
        raise KeyError(name)

    @property
    def verdict(self) -> Verdict:
        """Of all properties together."""
        found = {answer.verdict for answer in self.answers}
        return next((v for v in (Verdict.REFUTED, Verdict.UNKNOWN) if v in found), Verdict.PROVED)

    def __str__(self) -> str:
        """The answers, one after another, with findings in full, and the assumptions."""
        lines = [f"{self.kernel}: {self.verdict.value}"]
        for (verdict, findings), names in self._together().items():
            lines.append(f"  {', '.join(names)}: {verdict.value}")
            lines += [f"    {line}" for finding in findings for line in str(finding).splitlines()]
        given = {**self.inputs, **self.options}
        if given:
            lines.append("  refuted with: " + ", ".join(f"{name} = {value}" for name, value in given.items()))
        return "\n".join([*lines, "  assumed:", *(f"    {each}" for each in self.assumptions)])

    def _together(self) -> dict[tuple[Verdict, tuple[Finding, ...]], list[str]]:
        """The properties with the same answer, for the same reasons."""
        found: dict[tuple[Verdict, tuple[Finding, ...]], list[str]] = {}
        for answer in self.answers:
            found.setdefault((answer.verdict, answer.findings), []).append(answer.property)
        return found

    def record(self) -> JsonObject:
        """Plain data, for JSON."""
        return {
            "kernel": self.kernel,
            "answer": self.verdict.value,
            "properties": [answer.record() for answer in self.answers],
            "assumptions": list(self.assumptions),
            "inputs": self.inputs,
            "options": self.options,
            "seconds": self.seconds,
        }

"""The evidence for an instruction's bits: recordings from a GPU, exact arithmetic, or a model of that GPU.

fidelity.txt lists the kind of evidence and its source of each form that does not rest on the tests' arithmetic alone;
tools/recordings/fidelity.py makes it.
"""

from __future__ import annotations

import functools
from pathlib import Path

from warpsim.isa.spec import Form
from warpsim.records import frozen

RECORDED, RECOVERED, EXACT, MODELLED, STATED = "recorded", "recovered", "exact", "modelled", "stated"
MEANING = {
    RECORDED: "compared with a GPU's bits",
    RECOVERED: "left open by the manual, found from a GPU's bits and equal to them",
    EXACT: "one result by the manual, worked out independently",
    MODELLED: "a public model of this GPU, or by analogy with another",
    STATED: "has no result of its own",
}
MEASURED = 90
"""The GPU on which approximate units and tensor cores were recorded: its capability times ten."""
UNITS = frozenset({"mma", "wmma", "wgmma", "tcgen05"})
APPROXIMATE = frozenset({"approx", "full"})
FUNCTIONS = frozenset({"ex2", "lg2", "sin", "cos", "tanh", "rsqrt"})
NOT_COMMUTING = ("exch", "cas")
WHOLE = ("s8", "u8", "s4", "u4", "b1", "f64", "kind::i8")


@frozen
class Evidence:
    """A form's kind of evidence (one of `MEANING`), and its source."""

    standing: str
    source: str


COMPUTED = Evidence(EXACT, "arithmetic of the tests")
"""That of a form which the list leaves out."""


@functools.cache
def _table() -> dict[tuple[str, str], Evidence]:
    text = Path(__file__).with_name("fidelity.txt").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines()]
    return {(root, form): Evidence(standing, source) for root, form, standing, source in rows}


def evidence(form: Form, text: str, sm: int) -> Evidence:
    """The evidence for an instruction as written, on a GPU (capability times ten)."""
    known = _table().get((form.root, form.syntax), COMPUTED)
    words = text.split()[0].split(".") if text else []
    multiplies = form.root in UNITS and ("mma" in words[:2] or "mma_async" in words)
    product = multiplies and not any(word in WHOLE for word in words)
    approximate = not APPROXIMATE.isdisjoint(words) or form.root in FUNCTIONS
    if not (product or approximate) or known.standing == STATED:
        return known
    if sm == MEASURED:
        return Evidence(RECOVERED, known.source) if known.standing == RECORDED else known
    if form.root == "tcgen05":
        return Evidence(MODELLED, "public models, checked against published words of a B200 (docs/numerics.md)")
    why = "public models of its tensor cores (docs/numerics.md)" if product else "assumed to be as on sm_90"
    return Evidence(MODELLED, why)


CHOSEN = {
    **dict.fromkeys(("clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"), "clocks"),
    **dict.fromkeys(("smid", "nsmid", "warpid", "nwarpid", "gridid"), "where threads run"),
}
"""Special registers whose values PTX leaves open."""


def choice_of(form: Form, text: str, *, unread: bool = False) -> str:
    """What of an instruction's result PTX leaves open and warpsim chooses, the same in every run; empty for nothing. ``unread``: nobody
    reads the registers that it writes."""
    words = text.split()[0].split(".") if text else []
    if form.root in ("atom", "red", "multimem") or words[:2] == ["cp", "reduce"]:
        floats = any(word.startswith(("f16", "bf16", "f32", "f64")) for word in words) or "tensor" in words
        returns = (form.n_dest > 0 and form.root == "atom" and not unread) or any(
            word in words for word in NOT_COMMUTING
        )
        return "order of atomics" if (floats and "add" in words) or returns else ""
    if "try_cancel" in words:
        return "where threads run"
    if form.root == "activemask":
        return "which lanes run together"
    if "f64" in words and form.n_dest and form.root in ("add", "sub", "mul", "fma", "div", "sqrt", "rcp", "rsqrt"):
        return "payload of a NaN"
    return ""

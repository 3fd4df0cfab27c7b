"""The rules: identifier, group, and one sentence each. Watchers of the rules that a launch may leave out are selected in
`warpsim.checks.watchers`; docs/tools/rules.md has a faulty and a mended program for each."""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """A rule. ``group`` is what ``checks=`` takes; "load" for module text, "" for what a kernel asks for itself."""

    name: str
    group: str
    sentence: str


BY_GROUP = {
    "load": {
        "unreadable": "A file is missing or contains no PTX.",
        "syntax": "The text is not PTX.",
        "undeclared": "A register, label, variable or function is not declared.",
        "redeclared": "A name is declared twice in one scope.",
        "operand-type": "An operand's class, type or size does not fit the instruction.",
        "operand-count": "An instruction has too many or too few operands, or vector elements.",
        "illegal-form": "No target supports this combination of modifiers.",
        "target": "The instruction is legal, but not on the module's .target or in its .version.",
        "immediate-range": "A constant operand is out of range.",
        "directive": "A directive is misused.",
        "initialiser": "An initial value does not fit its variable.",
        "linkage": "A symbol is used but not defined.",
        "unsupported": "Legal PTX that this version does not run.",
        "internal": "A defect of warpsim itself.",
    },
    "sync": {
        "aligned-divergence": "An aligned instruction is not executed by all threads of its warp or warpgroup.",
        "exited-lane": "A warp executes a matrix instruction, or one of tensor memory, after some of its lanes have exited.",
        "nonuniform-operand": "An operand differs between threads that must agree on it.",
        "membermask": "A membermask omits a lane that executes the instruction, or names one that never arrives.",
        "barrier-divergence": "The thread counts of a barrier cannot add up.",
        "setmaxnreg": "setmaxnreg has an invalid count, or is not executed by a whole warpgroup.",
        "cluster-launch": "A launch is to be cancelled, or was not, where the attempt has failed before.",
        "deadlock": "No thread can make progress.",
    },
    "matrix": {
        "wmma-stride": "A wmma stride is below the leading dimension.",
        "wmma-alignment": "A wmma address or stride is not aligned.",
        "matrix-address-space": "A matrix instruction's address is outside the state space that it needs.",
        "matrix-alignment": "A matrix row or start address is not aligned.",
        "fragment-mismatch": "Registers hold a wmma fragment that does not match the operand.",
        "sparse-metadata": "Sparsity metadata names the wrong elements.",
        "sparse-selector": "A sparsity selector does not fit the shape.",
        "scale-selector": "A scale selector does not fit the shape.",
        "descriptor": "A matrix descriptor contradicts itself or leaves shared memory.",
    },
    "async": {
        "wgmma-missing-fence": "wgmma reads registers that were written with no wgmma.fence in between.",
        "wgmma-in-flight": "Registers of a wgmma in flight are accessed before it is waited for.",
        "wgmma-uncommitted": "The code relies on a wgmma that was never committed.",
        "proxy-fence": "Memory is accessed through the generic and the async proxy with no proxy fence in between.",
        "async-smem-overwrite": "Shared memory is written while an asynchronous operation still reads it.",
        "async-read-early": "The destination of an asynchronous copy is accessed before the copy is waited for.",
        "mbarrier": "An mbarrier is used before it is initialised, initialised twice, or counts beyond its limits.",
        "tcgen05": "Tensor memory is used without being allocated, by the wrong warp, or before an asynchronous operation on it has completed.",
        "tensor-map": "A tensor map, its coordinates or its box are malformed.",
    },
    "memory": {
        "out-of-bounds": "An access lies outside any live allocation.",
        "misaligned": "An address is not a multiple of the access size.",
        "read-only": "A store targets read-only memory.",
        "other-variable": "An address that is made from one variable reaches another one.",
        "limit": "A limit on instructions, time, memory or call depth is exceeded.",
    },
    "init": {"uninitialised": "A value that was never written affects the result."},
    "race": {"race": "Two threads access the same byte, one of them writes, and nothing orders the two."},
    "": {"trap": "The kernel executed trap.", "assert": "An assertion of the kernel failed."},
}
RULES = {name: Rule(name, group, sentence) for group, rules in BY_GROUP.items() for name, sentence in rules.items()}
ALWAYS = frozenset(("deadlock", "out-of-bounds", "misaligned", "read-only", "limit", "trap", "assert"))
"""Those that ``checks=`` cannot turn off: a GPU would stop or hang, too."""
GROUPS = {group: frozenset(BY_GROUP[group]) for group in ("sync", "matrix", "async", "memory", "init", "race")}

SITE = "https://warpsim.github.io/warpsim/"


def page_of(rule: str) -> str:
    """The address of a rule's page; empty if it has none."""
    known = RULES.get(rule)
    return f"{SITE}reference/rules/{rule}/" if known is not None and known.group and rule != "internal" else ""

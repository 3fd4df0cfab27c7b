"""The rules: identifier, group, and one sentence each. Watchers of the rules that a launch may leave out are selected in
`warpsim.checks.watchers`; docs/tools/rules.md has a faulty and a mended program for each.
"""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """A rule. ``group`` is what ``checks=`` takes; "load" for module text, "" for what a kernel asks for itself."""

    name: str
    group: str
    sentence: str
    always: bool = False
    """Whether ``checks=`` cannot turn it off: a GPU would stop or hang, too."""


RULES = {
    rule.name: rule
    for rule in (
        Rule("unreadable", "load", "A file is missing or contains no PTX."),
        Rule("syntax", "load", "The text is not PTX."),
        Rule("undeclared", "load", "A register, label, variable or function is not declared."),
        Rule("redeclared", "load", "A name is declared twice in one scope."),
        Rule("operand-type", "load", "An operand's class, type or size does not fit the instruction."),
        Rule("operand-count", "load", "An instruction has too many or too few operands, or vector elements."),
        Rule("illegal-form", "load", "No target supports this combination of modifiers."),
        Rule("target", "load", "The instruction is legal, but not on the module's .target or in its .version."),
        Rule("immediate-range", "load", "A constant operand is out of range."),
        Rule("directive", "load", "A directive is misused."),
        Rule("initialiser", "load", "An initial value does not fit its variable."),
        Rule("linkage", "load", "A symbol is used but not defined."),
        Rule("unsupported", "load", "Legal PTX that this version does not run."),
        Rule("internal", "load", "A defect of warpsim itself."),
        Rule(
            "aligned-divergence",
            "sync",
            "An aligned instruction is not executed by all threads of its warp or warpgroup.",
        ),
        Rule("exited-lane", "sync", "A warp executes a matrix instruction after some of its lanes have exited."),
        Rule("nonuniform-operand", "sync", "An operand differs between threads that must agree on it."),
        Rule(
            "membermask",
            "sync",
            "A membermask omits a lane that executes the instruction, or names one that never arrives.",
        ),
        Rule("barrier-divergence", "sync", "The thread counts of a barrier cannot add up."),
        Rule("setmaxnreg", "sync", "setmaxnreg has an invalid count, or is not executed by a whole warpgroup."),
        Rule("deadlock", "sync", "No thread can make progress.", always=True),
        Rule("wmma-stride", "matrix", "A wmma stride is below the leading dimension."),
        Rule("wmma-alignment", "matrix", "A wmma address or stride is not aligned."),
        Rule(
            "matrix-address-space", "matrix", "A matrix instruction's address is outside the state space that it needs."
        ),
        Rule("matrix-alignment", "matrix", "A matrix row or start address is not aligned."),
        Rule("fragment-mismatch", "matrix", "Registers hold a wmma fragment that does not match the operand."),
        Rule("sparse-metadata", "matrix", "Sparsity metadata names the wrong elements."),
        Rule("sparse-selector", "matrix", "A sparsity selector does not fit the shape."),
        Rule("scale-selector", "matrix", "A scale selector does not fit the shape."),
        Rule("descriptor", "matrix", "A matrix descriptor contradicts itself or leaves shared memory."),
        Rule("wgmma-missing-fence", "async", "wgmma reads registers that were written with no wgmma.fence in between."),
        Rule("wgmma-in-flight", "async", "Registers of a wgmma in flight are accessed before it is waited for."),
        Rule("wgmma-uncommitted", "async", "The code relies on a wgmma that was never committed."),
        Rule(
            "proxy-fence",
            "async",
            "Memory is accessed through the generic and the async proxy with no proxy fence in between.",
        ),
        Rule(
            "async-smem-overwrite", "async", "Shared memory is written while an asynchronous operation still reads it."
        ),
        Rule(
            "async-read-early",
            "async",
            "The destination of an asynchronous copy is accessed before the copy is waited for.",
        ),
        Rule(
            "mbarrier",
            "async",
            "An mbarrier is used before it is initialised, initialised twice, or counts beyond its limits.",
        ),
        Rule("tensor-map", "async", "A tensor map, its coordinates or its box are malformed."),
        Rule("out-of-bounds", "memory", "An access lies outside any live allocation.", always=True),
        Rule("misaligned", "memory", "An address is not a multiple of the access size.", always=True),
        Rule("read-only", "memory", "A store targets read-only memory.", always=True),
        Rule("uninitialised", "init", "A value that was never written affects the result."),
        Rule("race", "race", "Two threads access the same byte, one of them writes, and nothing orders the two."),
        Rule("limit", "memory", "A limit on instructions, time, memory or call depth is exceeded.", always=True),
        Rule("trap", "", "The kernel executed trap.", always=True),
        Rule("assert", "", "An assertion of the kernel failed.", always=True),
    )
}
ALWAYS = frozenset(rule.name for rule in RULES.values() if rule.always)
GROUPS = {
    group: frozenset(rule.name for rule in RULES.values() if rule.group == group)
    for group in ("sync", "matrix", "async", "memory", "init", "race")
}

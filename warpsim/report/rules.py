"""What each rule says, in a sentence: for pages and documents that list rules."""

from __future__ import annotations

RULES = {
    # of a module's text
    "unreadable": "A file is missing, or holds no PTX.",
    "syntax": "The text is not PTX.",
    "undeclared": "A register, label, variable or function is declared nowhere.",
    "redeclared": "A name is declared twice in one scope.",
    "operand-type": "An operand's class, type or size does not fit the instruction.",
    "operand-count": "An instruction has too many or too few operands, or vector elements.",
    "illegal-form": "No target has this combination of modifiers.",
    "target": "The instruction is legal, but not on the module's .target or in its .version.",
    "immediate-range": "A constant operand is out of its range.",
    "directive": "A directive is misused.",
    "initialiser": "An initial value does not fit its variable.",
    "linkage": "A symbol is used and defined nowhere.",
    "unsupported": "Legal PTX that this version does not run.",
    "internal": "A defect of warpsim itself.",
    # of warps and barriers
    "aligned-divergence": "An aligned instruction is not executed by all threads of its warp or warpgroup.",
    "exited-lane": "A matrix instruction is executed by a warp some of whose lanes have exited.",
    "nonuniform-operand": "An operand differs between threads that must agree on it.",
    "membermask": "A membermask leaves out a lane that executes the instruction, or names one that never comes.",
    "barrier-divergence": "The thread counts of a barrier cannot add up.",
    "setmaxnreg": "setmaxnreg with a bad count, or not by a whole warpgroup.",
    "deadlock": "Nothing can make progress.",
    # of matrix operands
    "wmma-stride": "A wmma stride is below the leading dimension.",
    "wmma-alignment": "A wmma address or stride is not aligned.",
    "matrix-address-space": "A matrix instruction's address lies outside the space that it needs.",
    "matrix-alignment": "A matrix row or start address is not aligned.",
    "fragment-mismatch": "Registers hold a wmma fragment of another kind than the operand.",
    "sparse-metadata": "Sparsity metadata names the wrong elements.",
    "sparse-selector": "A sparsity selector does not fit the shape.",
    "scale-selector": "A scale selector does not fit the shape.",
    "descriptor": "A matrix descriptor contradicts itself or leaves shared memory.",
    # of asynchronous operations
    "wgmma-missing-fence": "wgmma reads registers that were written without a wgmma.fence since.",
    "wgmma-in-flight": "Registers of a wgmma in flight are touched before it is waited for.",
    "wgmma-uncommitted": "A wgmma is relied on that was never committed.",
    "proxy-fence": "Memory is used through the generic and the async proxy without a proxy fence between.",
    "async-smem-overwrite": "Shared memory is written that an asynchronous operation still reads.",
    "async-read-early": "The destination of an asynchronous copy is touched before the copy is waited for.",
    "mbarrier": "An mbarrier is used before it is made, made twice, or counts beyond its limits.",
    "tensor-map": "A tensor map, its coordinates or its box are malformed.",
    # of memory
    "out-of-bounds": "An access lies outside any live allocation.",
    "misaligned": "An address is not a multiple of the access size.",
    "read-only": "A store goes to memory that cannot be written.",
    "uninitialised": "A value matters that nothing has written.",
    "race": "Two threads access the same byte, one of them writes, and nothing orders the two.",
    "limit": "A budget of instructions, time, memory or call depth is used up.",
    "trap": "The kernel executed trap.",
    "assert": "An assertion of the kernel failed.",
}

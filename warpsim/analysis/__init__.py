"""Static analysis: what can be said about a program without running it.

::

    flow, dataflow   blocks in scheduling order, liveness, reconvergence points       (the machine binds these blocks too)
    constants, contraction, operand_order      what the assembler folds, fuses and sorts: the program as it runs
    loops, verified_loads, wmma_fragments, shared_layout      what the machine asks before it runs
    values, facts    what is known about a register in each thread, and which threads reach which block
    accesses, async_order, collectives, divergence, undefined, wgmma_order: one file per family of rules
    strict           all of them over all functions: ``check --strict``

A pass is a function from `facts.Facts` to findings. It asks an instruction's graph and traits, never its opcode.
"""

"""Static analysis: what can be said about a program without running it.

::

    flow, graph      blocks in scheduling order, liveness, reconvergence points       (the machine binds these blocks too)
    identities, constants, contraction, operand_order      what the assembler folds, fuses and sorts: the program as it runs
    loops, guesses, wgmma_moves, wmma_fragments, shared_layout      what the machine asks before it runs
    lanes, evaluate, facts      what is known about a register in each thread, and which threads reach which block
    accesses, groups, dataflow  what an instruction accesses; possible states of asynchronous operations; the data flow
    divergence, collectives, places, undefined, shared_races, async_order, mbarriers, wgmma_order: one file per family of rules
    strict           all of them over all functions: ``check --strict``

A pass is a function from `facts.Facts` to findings. It asks an instruction's traits, never its opcode.
"""

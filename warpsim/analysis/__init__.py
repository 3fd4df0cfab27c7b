"""What can be said of a program without running it.

::

    flow, graph      blocks in scheduling order, liveness, where paths join       (the machine binds these blocks, too)
    constants, contraction      what the assembler computes and fuses: the program as it runs
    loops, guesses, wgmma_moves, wmma_fragments, shared_layout      what the machine asks before it runs
    lanes, evaluate, facts      what is known of a register in each thread, and who reaches which block
    accesses, groups, dataflow  what an instruction accesses; what may have become of asynchronous operations; the flow
    divergence, collectives, places, undefined, shared_races, async_order, mbarriers, wgmma_order: one file a family of rules
    strict           all of them over all functions: ``check --strict``

A pass is a function from `facts.Facts` to findings. It asks an instruction's traits, never its opcode.
"""

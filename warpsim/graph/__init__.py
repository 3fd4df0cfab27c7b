"""What instructions do, as graphs: a body is called once with stand-ins for arrays, which record the operations on them.

    trace       calls a body with `Lane`s, which NumPy's own protocols let stand for arrays
    nodes       a form's graph: its inputs, outputs and accesses of memory, of `Node`s made by functions that fold constants
    evaluate    walks a graph over the values of a domain: arrays, other graphs, LLVM values, or what is known of bits
    text        a graph to read

A graph is that of the form (with modifiers and types), not of an instruction: it knows no registers.
"""

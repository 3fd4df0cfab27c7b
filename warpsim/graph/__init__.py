"""What instructions do, as graphs: a body is called once with stand-ins for arrays, which record the operations on them.

    trace       calls a body with `Lane`s, which NumPy's own protocols let stand for arrays
    nodes       a graph: `Node`s, made by functions that fold constants
    evaluate    walks a graph over the values of a domain: arrays, other graphs, LLVM values, or what is known of bits
    form        the graph of a form: its inputs, outputs and accesses of memory
    text        a graph to read

A graph is that of the form (with modifiers and types), not of an instruction: it knows no registers.
"""

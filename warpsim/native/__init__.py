"""The compiled engine: regions of instructions as machine code, made from the graphs of `warpsim.graph`.

``regions`` forms regions, ``lowering`` turns graphs into LLVM IR, ``codegen`` emits a region's function, ``compiling`` compiles
and caches it, ``runtime`` runs it between two steps of the interpreter or rolls it back, and ``tiering`` decides when. ``matrix``
holds the products of tensor cores. An instruction without a graph stays interpreted.
"""

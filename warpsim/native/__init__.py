"""The compiled engine: runs of instructions as machine code, made by tracing the array bodies of ``warpsim.isa``.

Nothing here gives an instruction a meaning of its own: `trace` calls its body with stand-ins that record what it does,
`lower` writes that down for LLVM, `regions` chooses which instructions run together, and `runs` calls the result between two
step boundaries of the interpreter. Whatever is not taken runs as before.
"""

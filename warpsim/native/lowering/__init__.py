"""Graphs of instructions as LLVM: vectors of lanes, scalars that all lanes share, affine values."""

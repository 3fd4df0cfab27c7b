"""Adapters for programs that would launch on a GPU: Triton and tinygrad. Each imports its client only when it is used."""

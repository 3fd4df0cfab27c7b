"""Adapters for GPU clients: Triton and tinygrad. Each imports its client on first use."""

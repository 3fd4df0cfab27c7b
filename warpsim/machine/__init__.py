"""Bound programs, groups of threads, memory, and the scheduler."""

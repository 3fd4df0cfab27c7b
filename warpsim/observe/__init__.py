"""Observers of a running launch."""

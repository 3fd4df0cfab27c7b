"""Tiering: when to compile, and where compiled code runs."""

"""Runners for public suites: each takes the path of a checkout that the user has, and compares with expected.tsv."""

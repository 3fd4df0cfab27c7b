"""The command line: all printing is here."""

from warpsim.cli.main import main

__all__ = ["main"]

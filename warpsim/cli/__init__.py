"""The command line. All printing happens here."""

from warpsim.cli.main import main

__all__ = ["main"]

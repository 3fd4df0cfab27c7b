"""``warpsim lsp``: PTX in editors, a server of the Language Server Protocol over standard input and output (pygls)."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from argparse import Namespace

from warpsim.cli.output import Unusable


def command_lsp(options: Namespace) -> int:
    """Serve one editor until it leaves."""
    if importlib.util.find_spec("pygls") is None:
        raise Unusable('the language server needs pygls: python -m pip install "warpsim[lsp]"')
    from warpsim.cli.lsp.server import Server

    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")  # for the protocol alone; pygls closes it
    with contextlib.redirect_stdout(sys.stderr):
        Server().serve(sys.stdin.buffer, output)
    return 0

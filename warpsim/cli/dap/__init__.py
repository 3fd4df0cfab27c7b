"""``warpsim dap``: the debugger for editors, a server of the Debug Adapter Protocol over standard input and output."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import Namespace

from warpsim.cli.dap.adapter import Adapter
from warpsim.cli.dap.wire import Printed, Wire


def command_dap(options: Namespace) -> int:
    """Serve one client until it disconnects."""
    source = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)  # read by a thread that may never end
    wire = Wire(source, sys.stdout.buffer)
    with (
        contextlib.redirect_stdout(Printed(wire, "stdout")),
        contextlib.redirect_stderr(Printed(wire, "stderr")),
    ):
        return Adapter(wire).serve()

"""The command line: runs commands and determines exit statuses. All printing happens in this package."""

from __future__ import annotations

import gc
import os
import shlex
import sys
from collections.abc import Sequence

from warpsim.cli import output
from warpsim.host.defaults import FILE, append_errors

__all__ = ["main"]

COLLECTED = 200_000
"""Objects between two garbage collections: a process that starts makes 100,000, and hardly any is garbage."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; always returns an exit status."""
    if arguments is not None:
        return _status(list(arguments))
    gc.set_threshold(COLLECTED)
    words = sys.argv[1:]
    if not {"exec", "record"} & {*words[:1]}:  # whose programs decide for themselves
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a thread of it spins for 25 ms when NumPy is imported
    if FILE not in os.environ:
        status = _status(words)
        gc.freeze()  # the process ends: there is nothing to look for
        return status
    from warpsim.host import defaults

    defaults.keep_findings()  # the exit status reports the findings
    status = _status(words)
    if status == 1:
        append_errors([f"{shlex.join(['warpsim', *words])}: exit status 1"])
    return status


def _status(words: list[str]) -> int:
    as_json = "--json" in words[: words.index("--") if "--" in words else None]
    output.prepare()
    try:
        status = _run(words)
        output.flush()
        return status
    except SystemExit as done:  # --help and --version
        return int(done.code or 0)
    except KeyboardInterrupt:
        return output.end("interrupted", 130, as_json=as_json)
    except output.Unusable as problem:
        return output.end(str(problem), 2, as_json=as_json)
    except BrokenPipeError:  # the reader is gone
        output.mute(sys.stdout)
        return 2
    except OSError as problem:
        output.mute(sys.stdout)
        return output.end(f"cannot continue: {problem}", 2, as_json=False)
    except MemoryError:
        return output.end("not enough memory on this machine", 2, as_json=as_json)
    except Exception as defect:
        return output.end(output.internal(defect), 1, as_json=as_json)


def _run(words: list[str]) -> int:
    from importlib import import_module

    from warpsim.cli.grammar import command_in, parser, spelled

    options = parser(command_in(words)).parse_args(spelled(words))
    options.words, options.then = words, []
    from warpsim.errors import LaunchError, WarpsimError
    from warpsim.host.options import resolve_checks

    try:
        resolve_checks(getattr(options, "checks", None))
        for path in (getattr(options, "sarif", None), getattr(options, "profile_to", None)):
            if path and (os.path.isfile(path) or not os.path.exists(path)):
                from warpsim.host.files import Target

                Target(path).abandon()  # report unwritable files before anything runs
        module = import_module(f"warpsim.cli.{options.module}")
        status = int(getattr(module, f"command_{options.command.replace('-', '_')}")(options))
    except LaunchError as problem:
        raise output.Unusable(str(problem)) from None
    except WarpsimError as problem:
        return output.failed(problem, as_json=options.json)
    return _run(options.then) if options.then else status

"""Arguments, subcommands and exit statuses."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import warpsim


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--device", help="the GPU, for example sm_90a")
    common.add_argument("--checks", help="all, none, default, or a list of rules and groups")
    common.add_argument("--async-effects", default="eager", choices=["eager", "at_wait"])
    common.add_argument("--numerics", default="exact", choices=["exact", "ieee"])
    common.add_argument("--max-instructions", type=int, default=10**9)
    common.add_argument("--json", action="store_true", help="one JSON document on standard output")
    launch = argparse.ArgumentParser(add_help=False)
    launch.add_argument("file")
    launch.add_argument("--kernel")
    launch.add_argument("--grid", required=True, help="for example 4 or 16,16")
    launch.add_argument("--block", required=True)
    launch.add_argument("--shared", type=int, default=0, help="bytes of dynamic shared memory")
    launch.add_argument("--cluster")
    launch.add_argument(
        "--arg",
        action="append",
        default=[],
        help="i32:5, f32:2.0, in:x.npy, out:f32:1024=y.npy, inout:y.npy=z.npy, zeros:f16:64x64",
    )
    top = argparse.ArgumentParser(prog="warpsim", description="Run, check and step through NVIDIA PTX without a GPU.")
    top.add_argument("--version", action="version", version=f"warpsim {warpsim.__version__}")
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("run", parents=[launch, common], help="run a kernel")
    replay = commands.add_parser("replay", parents=[common], help="run recorded launches and compare")
    replay.add_argument("case", nargs="+")
    replay.add_argument("--bits", action="store_true", help="compare bit by bit")
    check = commands.add_parser("check", help="parse and validate only")
    check.add_argument("file", nargs="+")
    check.add_argument("--strict", action="store_true", help="report too what can be seen to be wrong without running")
    check.add_argument("--json", action="store_true")
    info = commands.add_parser("info", help="kernels of a file, or the table of supported instructions")
    info.add_argument("file", nargs="?")
    info.add_argument("--isa", action="store_true")
    info.add_argument("--json", action="store_true")
    examples = commands.add_parser("examples", help="the bundled programs")
    examples.add_argument("name", nargs="?")
    layout = commands.add_parser("layout", help="who holds which element of a matrix operand")
    layout.add_argument("instruction", help='in full or in short: "mma.m16n8k16...f16", "ldmatrix.m16n16.trans"')
    layout.add_argument("--operand", help="one of them: a, b, c, d, e (metadata), r")
    layout.add_argument("--format", default="text", choices=["text", "svg", "html"])
    layout.add_argument("--device", help="the GPU, for example sm_90a: wmma's fragments differ")
    layout.add_argument("--json", action="store_true")
    debug = commands.add_parser("debug", help="the stepping debugger")
    kinds = debug.add_subparsers(dest="kind", required=True)
    kinds.add_parser("run", parents=[launch, common])
    again = kinds.add_parser("replay", parents=[common])
    again.add_argument("case", nargs=1)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives its exit status."""
    try:
        options = parser().parse_args(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    from warpsim.cli import commands
    from warpsim.errors import LaunchError
    from warpsim.host.checks import resolve_checks

    try:
        resolve_checks(getattr(options, "checks", None))
        return int(getattr(commands, f"command_{options.command}")(options))
    except (commands.Unusable, LaunchError) as problem:
        print(f"warpsim: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("warpsim: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0

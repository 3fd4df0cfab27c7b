"""The command line's grammar."""

from __future__ import annotations

import argparse
from typing import NoReturn

import warpsim
from warpsim.cli import outcome, testing

REPLAY_SECONDS = 600.0
"""How long a recorded launch may take unless more is asked for: long enough for any case that somebody waits for."""


class _Parser(argparse.ArgumentParser):
    """Its complaints end in `main` as any other."""

    def error(self, message: str) -> NoReturn:
        raise outcome.Unusable(f"{message}\n{self.format_usage().strip()}")


def number(text: str) -> float | None:
    """A limit as it is typed: a number, or ``none``."""
    return None if text == "none" else float(text) if not text.isdecimal() else int(text)


def _common(max_seconds: float | None) -> _Parser:
    """The options of every command that launches, with its limit of wall-clock time."""
    common = _Parser(add_help=False)
    common.add_argument("--device", help="the GPU, for example sm_90a")
    common.add_argument(
        "--checks",
        help="all, none, default (every rule but race), with +NAME and -NAME behind, or a list of rules and groups",
    )
    common.add_argument("--async-effects", choices=["eager", "at_wait"])
    common.add_argument("--numerics", choices=["exact", "ieee"])
    common.add_argument(
        "--schedule", type=int, metavar="SEED", help="another legal order of warps, CTAs and completions"
    )
    common.add_argument("--max-instructions", type=number, default=10**9, help="or none")
    common.add_argument(
        "--max-seconds", type=number, metavar="S", default=max_seconds, help="of wall-clock time, or none"
    )
    common.add_argument("--profile", action="store_true", help="count what every line does")
    common.add_argument(
        "--profile-to", metavar="FILE", help="write the counts there: FILE.html on the source, or FILE.json"
    )
    common.add_argument(
        "--engine",
        choices=["auto", "interpreter", "compiled"],
        help="machine code where it pays, never, or wherever it can",
    )
    common.add_argument("--workers", type=int, metavar="N", help="processes of this machine that share the work")
    common.add_argument("--executor", metavar="ADDRESS", help="a cluster that shares it: dask://HOST:PORT")
    common.add_argument("--json", action="store_true", help="one JSON document on standard output")
    return common


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    common = _common(None)
    launch = _Parser(add_help=False)
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
    from warpsim.cli import executing

    top = _Parser(prog="warpsim", description="Run, check and step through NVIDIA PTX without a GPU.")
    top.add_argument("--version", action="version", version=f"warpsim {warpsim.__version__}")
    commands = top.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", parents=[launch, common], help="run a kernel")
    run.add_argument("--record", metavar="DIR", help="write the launch there as a case")
    replay = commands.add_parser("replay", parents=[_common(REPLAY_SECONDS)], help="run recorded launches and compare")
    replay.add_argument("case", nargs="+")
    replay.add_argument("--bits", action="store_true", help="compare bit by bit")
    check = commands.add_parser("check", help="parse and validate only")
    check.add_argument("file", nargs="+")
    check.add_argument("--strict", action="store_true", help="report too what can be seen to be wrong without running")
    check.add_argument("--json", action="store_true")
    for parser in (run, replay, check):
        parser.add_argument("--sarif", metavar="FILE", help="write the findings there as SARIF, for code scanning")
    info = commands.add_parser("info", help="kernels of a file, or the table of supported instructions")
    info.add_argument("file", nargs="?")
    info.add_argument("--isa", action="store_true")
    info.add_argument("--json", action="store_true")
    testing.add_commands(commands)
    examples = commands.add_parser("examples", help="the bundled programs")
    examples.add_argument("name", nargs="?")
    examples.add_argument("--json", action="store_true")
    layout = commands.add_parser("layout", help="who holds which element of a matrix operand")
    layout.add_argument(
        "instruction",
        help='in full or in short: "mma.m16n8k16...f16", "ldmatrix.x4"; or shared memory: "tile.64x64.f16"',
    )
    layout.add_argument("--operand", help="one of them: a, b, c, d, e (metadata), m0 to m3, a_desc, b_desc")
    layout.add_argument("--swizzle", default="128B", choices=["none", "32B", "64B", "128B"], help="of shared memory")
    layout.add_argument("--major", default="k", choices=["k", "mn"], help="what runs along the lines of shared memory")
    layout.add_argument("--descriptor", metavar="BITS", help="the matrix descriptor of wgmma, instead of the usual one")
    layout.add_argument("--format", default="text", choices=["text", "svg", "html"])
    layout.add_argument("--device", help="the GPU, for example sm_90a: wmma's fragments differ")
    layout.add_argument("--json", action="store_true")
    trace = commands.add_parser("trace", help="a launch as a page: warps over steps, what is in flight, shared memory")
    kinds = trace.add_subparsers(dest="kind", required=True)
    for name, parents in (("run", [launch, common]), ("replay", [common])):
        traced = kinds.add_parser(name, parents=parents)
        traced.add_argument(
            "-o", "--output", metavar="FILE", required=True, help="FILE.html, or FILE.json for Perfetto"
        )
        traced.add_argument("--ctas", type=int, default=4, metavar="N", help="show the first N CTAs (4)")
        traced.add_argument(
            "--cta", action="append", metavar="X,Y,Z", help="show this CTA, and no others but those named"
        )
        traced.add_argument("--steps", type=int, default=10**6, metavar="N", help="record so many steps (1000000)")
    traced.add_argument("case", nargs=1)
    traced.add_argument("--bits", action="store_true", help="compare bit by bit")
    commands.add_parser("dap", help="the debugger for editors: Debug Adapter Protocol over standard input and output")
    debug = commands.add_parser("debug", help="the stepping debugger")
    kinds = debug.add_subparsers(dest="kind", required=True)
    script = _Parser(add_help=False)
    script.add_argument(
        "-x",
        dest="first",
        metavar="FILE",
        action="append",
        type=lambda name: ("file", name),
        help="obey the commands in a file first",
    )
    script.add_argument(
        "-ex",
        dest="first",
        metavar="COMMAND",
        action="append",
        type=lambda text: ("command", text),
        help="obey a command first",
    )
    kinds.add_parser("run", parents=[launch, common, script])
    again = kinds.add_parser("replay", parents=[common, script])
    again.add_argument("case", nargs=1)
    again.add_argument("--bits", action="store_true", help="compare bit by bit")
    executing.declare(commands.add_parser("exec", help="run a CUDA program on the simulated GPU"))
    return top

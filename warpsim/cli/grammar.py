"""The command line's grammar: commands and options."""

from __future__ import annotations

import argparse
import functools
from typing import NoReturn

from warpsim.cli import output, testing
from warpsim.version import VERSION

REPLAY_SECONDS = 600.0
"""Default time limit of a recorded launch, in seconds: long enough for any case a person waits for."""


class _Parser(argparse.ArgumentParser):
    """Raises errors for `main` to report like all others."""

    def error(self, message: str) -> NoReturn:
        raise output.Unusable(f"{message}\n{self.format_usage().strip()}")


def number(text: str) -> float | None:
    """Parse a limit: a number, or ``none``."""
    return None if text == "none" else float(text) if not text.isdecimal() else int(text)


def _common(max_seconds: float | None) -> _Parser:
    """The options of every command that launches; ``max_seconds`` is the default time limit."""
    common = _Parser(add_help=False)
    common.add_argument("--device", help="the GPU, for example sm_90a")
    common.add_argument(
        "--checks",
        help="default (every rule but race), all or none, then +NAME or -NAME to change it; or a list of rules and groups",
    )
    common.add_argument(
        "--async-effects",
        choices=["eager", "at_wait"],
        help="asynchronous operations act at issue (eager), or as late as the rules allow",
    )
    common.add_argument(
        "--numerics", choices=["exact", "ieee"], help="matrix products with the GPU's bits, or in float64 rounded once"
    )
    common.add_argument(
        "--schedule", type=int, metavar="SEED", help="run warps, CTAs and completions in another legal order"
    )
    common.add_argument(
        "--max-instructions",
        type=number,
        default=10**9,
        metavar="N",
        help="stop after N warp-instructions (1000000000), or none",
    )
    common.add_argument(
        "--max-seconds",
        type=number,
        metavar="S",
        default=max_seconds,
        help="stop after S seconds of wall-clock time, or none",
    )
    common.add_argument("--profile", action="store_true", help="count what each line does")
    common.add_argument(
        "--profile-to",
        metavar="FILE",
        help="write the profile: FILE.html shows it beside the source, FILE.json is data",
    )
    common.add_argument(
        "--engine",
        choices=["auto", "interpreter", "compiled"],
        help="compile to machine code where it pays (auto), never, or wherever possible",
    )
    common.add_argument("--workers", type=int, metavar="N", help="divide the work among N local processes")
    common.add_argument(
        "--executor", metavar="ADDRESS", help="divide the work among the workers of a cluster: dask://HOST:PORT"
    )
    common.add_argument("--json", action="store_true", help="print one JSON document")
    return common


def _case(replay: argparse.ArgumentParser, count: int | str) -> None:
    replay.add_argument("case", nargs=count, help="a case folder, or the name of a bundled program")
    replay.add_argument("--bits", action="store_true", help="compare bit by bit, even if the case allows less")


@functools.cache
def parser() -> argparse.ArgumentParser:
    """The argument parser, which is built once: it takes 5 ms."""
    common = _common(None)
    launch = _Parser(add_help=False)
    launch.add_argument("file", help="PTX, a fatbin, or an executable with PTX in it")
    launch.add_argument("--kernel", metavar="NAME", help="the kernel (the first one)")
    launch.add_argument("--grid", required=True, metavar="X,Y,Z", help="CTAs, for example 4 or 16,16")
    launch.add_argument("--block", required=True, metavar="X,Y,Z", help="threads per CTA")
    launch.add_argument("--shared", type=int, default=0, metavar="BYTES", help="dynamic shared memory per CTA (0)")
    launch.add_argument("--cluster", metavar="X,Y,Z", help="CTAs per cluster")
    launch.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="KIND:VALUE",
        help="one per parameter, in order: a number (i32:5, f32:2.0), a file (in:x.npy, inout:y.npy=z.npy), zeros "
        "(zeros:f16:64x64, out:f32:1024=y.npy), raw bytes (bytes:00ff), or a generator (normal:f16:64x64:seed=3, "
        "arange:u32:1000, also uniform, integers, full, bits, hurtful)",
    )
    from warpsim.cli import executing

    top = _Parser(prog="warpsim", description="Run, check and step through NVIDIA PTX without a GPU.")
    top.add_argument("--version", action="version", version=f"warpsim {VERSION}")
    commands = top.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", parents=[launch, common], help="run a kernel")
    run.add_argument("--timing", action="store_true", help="say where the time went, phase by phase and line by line")
    run.add_argument("--record", metavar="DIR", help="also write the launch to DIR as a case")
    replay = commands.add_parser(
        "replay", parents=[_common(REPLAY_SECONDS)], help="run recorded launches again and compare"
    )
    _case(replay, "+")
    check = commands.add_parser("check", help="parse and validate, without running")
    check.add_argument("file", nargs="+", help="PTX, a fatbin, or an executable with PTX in it")
    check.add_argument("--strict", action="store_true", help="also analyse the control flow for errors of a launch")
    check.add_argument("--json", action="store_true", help="print one JSON document")
    for parser in (run, replay, check):
        parser.add_argument("--sarif", metavar="FILE", help="write the findings as SARIF, for code scanning")
    info = commands.add_parser("info", help="kernels of a file, or the table of supported instructions")
    info.add_argument("file", nargs="?", help="PTX, a fatbin, or an executable with PTX in it")
    info.add_argument("--isa", action="store_true", help="list the instructions that run")
    info.add_argument(
        "--graph", metavar="OPCODE", help='what an instruction does: add.f32, or "lop3.b32 0x96" with its constants'
    )
    info.add_argument("--json", action="store_true", help="print one JSON document")
    testing.add_commands(commands)
    examples = commands.add_parser("examples", help="the bundled programs")
    examples.add_argument("name", nargs="?", help="describe this program")
    examples.add_argument("--json", action="store_true", help="print one JSON document")
    layout = commands.add_parser("layout", help="show which lane holds which element of a matrix operand")
    layout.add_argument(
        "instruction",
        help='in full or in short: "mma.m16n8k16...f16", "ldmatrix.x4"; or shared memory: "tile.64x64.f16"',
    )
    layout.add_argument("--operand", help="draw one operand: a, b, c, d, e (metadata), m0 to m3, a_desc, b_desc")
    layout.add_argument(
        "--swizzle", default="128B", choices=["none", "32B", "64B", "128B"], help="swizzle of shared memory (128B)"
    )
    layout.add_argument(
        "--major", default="k", choices=["k", "mn"], help="the contiguous dimension in shared memory (k)"
    )
    layout.add_argument(
        "--descriptor", metavar="BITS", help="a wgmma matrix descriptor, in place of the densest packing"
    )
    layout.add_argument("--format", default="text", choices=["text", "svg", "html"], help="of the picture (text)")
    layout.add_argument("--device", help="the GPU, for example sm_90a: wmma's fragments differ")
    layout.add_argument("--json", action="store_true", help="print one JSON document")
    trace = commands.add_parser(
        "trace", help="write a launch as a web page: warps over steps, what is in flight, shared memory"
    )
    kinds = trace.add_subparsers(dest="kind", required=True)
    for name, parents in (("run", [launch, common]), ("replay", [common])):
        traced = kinds.add_parser(name, parents=parents, help=f"as warpsim {name}")
        traced.add_argument(
            "-o", "--output", metavar="FILE", required=True, help="FILE.html, or FILE.json for Perfetto"
        )
        traced.add_argument("--ctas", type=int, default=4, metavar="N", help="show the first N CTAs (4)")
        traced.add_argument("--cta", action="append", metavar="X,Y,Z", help="show only this CTA; may be repeated")
        traced.add_argument("--steps", type=int, default=10**6, metavar="N", help="record at most N steps (1000000)")
    _case(traced, 1)
    commands.add_parser(
        "dap", help="serve the debugger to editors: Debug Adapter Protocol over standard input and output"
    )
    debug = commands.add_parser("debug", help="step through a launch")
    kinds = debug.add_subparsers(dest="kind", required=True)
    script = _Parser(add_help=False)
    script.add_argument(
        "-x",
        dest="first",
        metavar="FILE",
        action="append",
        type=lambda name: ("file", name),
        help="run the debugger commands in FILE first",
    )
    script.add_argument(
        "-ex",
        dest="first",
        metavar="COMMAND",
        action="append",
        type=lambda text: ("command", text),
        help="run a debugger command first",
    )
    kinds.add_parser("run", parents=[launch, common, script], help="as warpsim run")
    again = kinds.add_parser("replay", parents=[common, script], help="as warpsim replay")
    _case(again, 1)
    executing.declare(commands.add_parser("exec", help="run a CUDA program on the simulated GPU"))
    return top

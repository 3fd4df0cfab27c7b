"""The command line's grammar: commands and options."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence
from typing import NoReturn

from warpsim.cli import output
from warpsim.host.command_options import add_options
from warpsim.version import VERSION

REPLAY_SECONDS = 600.0
"""Default time limit of a recorded launch, in seconds: long enough for any case a person waits for."""
ON_FINDING = "--debug-on-finding"
PTX = "PTX, a fatbin, or an executable with PTX in it"


class _Parser(argparse.ArgumentParser):
    """Raises errors for `main` to report like all others."""

    def error(self, message: str) -> NoReturn:
        raise output.Unusable(f"{message}\n{self.format_usage().strip()}")


def _common(max_seconds: float | None = None) -> _Parser:
    """The options of every command that launches; ``max_seconds`` is the default time limit."""
    common = _Parser(add_help=False)
    add_options(
        common.add_argument,
        "device checks async_effects numerics schedule max_instructions max_seconds engine workers executor profile shadow",
        max_seconds=max_seconds,
    )
    common.add_argument(
        "--profile-to",
        metavar="FILE",
        help="write the profile: FILE.html shows it beside the source, FILE.json is data",
    )
    common.add_argument(
        "--shadow-to", metavar="FILE", help="write what --shadow found: FILE.html with a picture, FILE.json as data"
    )
    _add_json(common)
    return common


def _launch(*, case: bool = False) -> _Parser:
    """The options that describe a launch; with ``case``, a recorded one may stand in place of it."""
    launch = _Parser(add_help=False)
    also = "; or a recorded case, whose launch it is then" if case else ""
    launch.add_argument("file", help=f"{PTX}; or CUDA C++ (.cu), compiled with your nvcc, or NVRTC from pip{also}")
    launch.add_argument(
        "--cuda-flags", default="", metavar="FLAGS", help='for that compiler: --cuda-flags="-I include -DN=4"'
    )
    launch.add_argument("--kernel", metavar="NAME", help="the kernel (the first one)")
    launch.add_argument("--grid", required=not case, metavar="X,Y,Z", help="CTAs, for example 4 or 16,16")
    launch.add_argument("--block", required=not case, metavar="X,Y,Z", help="threads per CTA")
    launch.add_argument("--shared", type=int, default=0, metavar="BYTES", help="dynamic shared memory per CTA (0)")
    launch.add_argument("--cluster", metavar="X,Y,Z", help="CTAs per cluster")
    launch.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="KIND:VALUE",
        help="one per parameter, in order: a number (i32:5, f32:2.0), a file (in:x.npy, inout:y.npy=z.npy), zeros "
        "(zeros:f16:64x64, out:f32:1024=y.npy), raw bytes (bytes:00ff), or a generator (normal:f16:64x64:seed=3, "
        "arange:u32:1000, also uniform, integers, full, bits, hurtful), an array of --array (array:A), a tensor map "
        "of an array (tensormap:A:box=64x64:swizzle=128B, the innermost dimension first), a texture or "
        "a surface of one (texture:A:dims=1:filter=linear), or a struct (struct:FILE.json, an object whose members are written as arguments)",
    )
    launch.add_argument(
        "--array",
        action="append",
        default=[],
        metavar="NAME=KIND:VALUE",
        help="an array that arguments refer to by name: A=normal:f16:128x64, C=out:f32:64=c.npy",
    )
    return launch


def _case(replay: argparse.ArgumentParser, count: int | str) -> None:
    replay.add_argument("case", nargs=count, help="a case folder, or the name of a bundled program")
    replay.add_argument("--bits", action="store_true", help="compare bit by bit, even if the case allows less")


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document")


@functools.cache
def parser(only: str | None = None) -> argparse.ArgumentParser:
    """The argument parser of all commands, or of ``only`` one in a tenth of the time. The module of a command is its ``module``."""
    top = _Parser(prog="warpsim", description="Run, check and step through NVIDIA PTX without a GPU.")
    top.add_argument("--version", action="version", version=f"warpsim {VERSION}")
    shown = None if only is None else f"{{{','.join(COMMANDS)}}}"
    commands = top.add_subparsers(dest="command", required=True, metavar=shown)
    for name in COMMANDS if only is None else (only,):
        module, help, parents, add = COMMANDS[name]
        made = commands.add_parser(name, parents=[parent() for parent in parents], help=help)
        made.set_defaults(module=module, json=False)
        add(made)
    return top


def command_in(words: Sequence[str]) -> str | None:
    """The command that a command line begins with; None without one."""
    return words[0] if words and words[0] in COMMANDS else None


def _add_run(run: argparse.ArgumentParser) -> None:
    run.add_argument("--timing", action="store_true", help="say where the time went, phase by phase and line by line")
    run.add_argument("--record", metavar="DIR", help="also write the launch to DIR as a case")
    _add_reports(run)


def _add_replay(replay: argparse.ArgumentParser) -> None:
    _case(replay, "+")
    _add_reports(replay)


def _add_reports(launching: argparse.ArgumentParser) -> None:
    _add_sarif(launching)
    launching.add_argument(
        "--fidelity", action="store_true", help="say what the bits rest on, instruction by instruction"
    )
    launching.add_argument(
        ON_FINDING, action="store_true", help="open the debugger at the first finding, if there is one"
    )


def _add_sarif(finding: argparse.ArgumentParser) -> None:
    finding.add_argument("--sarif", metavar="FILE", help="write the findings as SARIF, for code scanning")


def _add_check(check: argparse.ArgumentParser) -> None:
    check.add_argument("file", nargs="+", help=PTX)
    check.add_argument("--strict", action="store_true", help="also analyse the control flow for errors of a launch")
    _add_sarif(check)
    _add_json(check)


def _add_info(info: argparse.ArgumentParser) -> None:
    info.add_argument("file", nargs="?", help=PTX)
    info.add_argument("--isa", action="store_true", help="list the instructions that run")
    info.add_argument(
        "--graph", metavar="OPCODE", help='what an instruction does: add.f32, or "lop3.b32 0x96" with its constants'
    )
    _add_json(info)


def _add_shrink(shrink: argparse.ArgumentParser) -> None:
    shrink.add_argument("case", help="the folder of a case that fails")
    shrink.add_argument("-o", "--output", metavar="DIR", help="where to write the smaller case (CASE-small)")
    shrink.add_argument("--seconds", type=float, default=60.0, metavar="S", help="how long to try (60)")
    add_options(shrink.add_argument, "checks async_effects schedule")
    _add_json(shrink)


def _add_record(record: argparse.ArgumentParser) -> None:
    record.add_argument("-o", "--output", metavar="DIR", default="cases", help="where to write the cases (cases)")
    record.add_argument("--kernels", default="*", metavar="PATTERN", help="only kernels whose names match (*)")
    record.add_argument("--launches", type=int, metavar="N", help="at most N launches per process")
    record.add_argument("program", nargs="+", metavar="COMMAND", help="the program and its arguments, after --")


def _add_template(template: argparse.ArgumentParser) -> None:
    template.add_argument("directory", help="the folder to create")
    _add_json(template)


def _add_examples(examples: argparse.ArgumentParser) -> None:
    examples.add_argument("name", nargs="?", help="describe this program")
    _add_json(examples)


def _add_completion(completion: argparse.ArgumentParser) -> None:
    completion.add_argument("shell", choices=["bash", "zsh", "fish"], help="for which shell")
    completion.add_argument("word", nargs="*", help="instead list what may stand for the last of these words, after --")


def _add_layout(layout: argparse.ArgumentParser) -> None:
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
        "--descriptor",
        metavar="BITS",
        help="a matrix descriptor of wgmma or tcgen05.mma, in place of the densest packing",
    )
    layout.add_argument("--format", default="text", choices=["text", "svg", "html"], help="of the picture (text)")
    layout.add_argument("--device", help="the GPU, for example sm_90a: wmma's fragments differ")
    _add_json(layout)


def _add_equal(equal: argparse.ArgumentParser) -> None:
    equal.add_argument("other", help=f"the other text: {PTX}; or CUDA C++")
    for name, metavar, what in (
        ("kernel", "NAME", "its kernel"),
        ("grid", "X,Y,Z", "its grid"),
        ("block", "X,Y,Z", "its block"),
    ):
        equal.add_argument(f"--other-{name}", metavar=metavar, help=f"{what}, if it is another one")
    equal.add_argument("--other-shared", type=int, metavar="BYTES", help="its dynamic shared memory, if it is another")
    equal.add_argument("--other-flags", metavar="FLAGS", help="its --cuda-flags, if they are others")
    equal.add_argument(
        "--order",
        metavar="N,N,...",
        help="which --arg each parameter of the other kernel gets, from 0, if the orders differ",
    )
    equal.add_argument(
        "--inputs", type=_count, default=1, metavar="N", help="compare on N inputs: generators get N seeds (1)"
    )
    equal.add_argument(
        "--reference",
        action="append",
        default=[],
        metavar="N=FILE.npy | FILE.py[:NAME]",
        help="compare both with exact values: those of array argument N, or a function (reference) that computes them from the arguments",
    )
    equal.add_argument("--ulps", type=_count, default=0, metavar="N", help="floats may differ by N ulps (0: in no bit)")


def _add_trace(trace: argparse.ArgumentParser) -> None:
    kinds, common = trace.add_subparsers(dest="kind", required=True), _common()
    for name, parents in (("run", [_launch(), common]), ("replay", [common])):
        traced = kinds.add_parser(name, parents=parents, help=f"as warpsim {name}")
        traced.add_argument(
            "-o", "--output", metavar="FILE", required=True, help="FILE.html, or FILE.json for Perfetto"
        )
        traced.add_argument("--ctas", type=int, default=4, metavar="N", help="show the first N CTAs (4)")
        traced.add_argument("--cta", action="append", metavar="X,Y,Z", help="show only this CTA; may be repeated")
        traced.add_argument("--steps", type=int, default=10**6, metavar="N", help="record at most N steps (1000000)")
    _case(traced, 1)


def _add_debug(debug: argparse.ArgumentParser) -> None:
    kinds, common = debug.add_subparsers(dest="kind", required=True), [_common(), _script()]
    kinds.add_parser("run", parents=[_launch(), *common], help="as warpsim run")
    _case(kinds.add_parser("replay", parents=common, help="as warpsim replay"), 1)


def _add_prove(prove: argparse.ArgumentParser) -> None:
    kinds = prove.add_subparsers(dest="kind", required=True)
    kinds.add_parser("run", parents=[_launch(), common := _proof()], help="as warpsim run")
    replay = kinds.add_parser("replay", parents=[common], help="as warpsim replay")
    replay.add_argument("case", help="a case folder, or the name of a bundled program")


def _proof() -> _Parser:
    """The options of a proof; those of a launch that it chooses itself have no meaning."""
    proof = _Parser(add_help=False)
    add_options(proof.add_argument, "device")
    proof.add_argument(
        "--bounds",
        action="append",
        default=[],
        metavar="NAME=LEAST..GREATEST",
        help="all values of an integer parameter, by its name or number (2=0..4096)",
    )
    proof.add_argument(
        "--max-seconds",
        type=float,
        default=300.0,
        metavar="S",
        help="when to stop (300); how much is tried is limited anyway",
    )
    _add_json(proof)
    chosen = ("checks", "numerics", "async_effects", "schedule", "max_instructions", "engine", "workers", "executor")
    proof.set_defaults(**dict.fromkeys((*chosen, "profile_to", "shadow", "shadow_to")), profile=False)
    return proof


def _script() -> _Parser:
    """The debugger's options; ``first`` gets (kind, text) of each in their order."""
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
    script.add_argument(
        "--at-finding", type=_count, metavar="N", help="begin where the Nth finding is met, before its instruction"
    )
    return script


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not 1, 2, 3 ...")
    return int(text)


def spelled(words: list[str]) -> list[str]:
    """The words with what may be left out: ``debug CASE`` is ``debug replay CASE``."""
    short = words[:1] == ["debug"] and len(words) > 1 and words[1] not in ("run", "replay") and words[1][:1] != "-"
    return ["debug", "replay", *words[1:]] if short else words


OF_REPORTS = {
    "--sarif": 1,
    "--record": 1,
    "--profile-to": 1,
    "--shadow": 1,
    "--shadow-to": 1,
    "--timing": 0,
    "--json": 0,
    "--profile": 0,
    "--fidelity": 0,
    ON_FINDING: 0,
}
"""Options of run and replay that say what to do with the results, and how many words follow each."""


def debug_words(words: list[str], case: str | None, number: int) -> list[str]:
    """The command that opens the launch of ``run`` or (its ``case``) of ``replay``, as they were called, at a finding."""
    kept, given = [], iter(words[1:])
    for word in given:
        name, _, value = word.partition("=")
        count = OF_REPORTS.get(name)
        if count is None:
            kept.append(word)
        elif count and not value:
            next(given, None)
    if case is not None:
        cases = parser(words[0]).parse_args([words[0], *kept]).case
        kept = [case, *(word for word in kept if word not in cases)]
    return ["debug", words[0], *kept, "--at-finding", str(number)]


def _add_exec(parser: argparse.ArgumentParser) -> None:
    add_options(parser.add_argument, "checks on_finding numerics engine async_effects", on_finding=None)
    parser.add_argument("--device", help="the GPU, for example sm_90a; or several, separated by commas")
    parser.add_argument("--max-instructions", metavar="N", help="limit of each launch")
    parser.add_argument("--max-seconds", metavar="S", help="limit of each launch")
    parser.add_argument("--report", metavar="FILE", help="write findings to FILE, one JSON document per line")
    parser.add_argument(
        "--ptx", metavar="DIR", help="write each module's PTX to DIR, under the file name that findings use"
    )
    parser.add_argument(
        "--preload",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="load the simulator's libcudart, libnvrtc and libnvJitLink before the program's own",
    )
    parser.add_argument(
        "--link-flags",
        action="store_true",
        help="print where the driver library lies, as the linker's option for -lcuda, and run nothing",
    )
    parser.add_argument("program", nargs="*", metavar="PROGRAM", help="the program and its arguments, after --")


def _add_nothing(_: argparse.ArgumentParser) -> None:
    """A command without options."""


COMMANDS: dict[str, tuple[str, str, Sequence[Callable[[], _Parser]], Callable[[argparse.ArgumentParser], None]]] = {
    "run": ("running", "run a kernel", (_launch, _common), _add_run),
    "replay": (
        "running",
        "run recorded launches again and compare",
        (functools.partial(_common, REPLAY_SECONDS),),
        _add_replay,
    ),
    "check": ("commands", "parse and validate, without running", (), _add_check),
    "equal": (
        "testing",
        "run a launch under two texts, and show the first difference in what they store",
        (functools.partial(_launch, case=True), _common),
        _add_equal,
    ),
    "info": ("commands", "kernels of a file, or the table of supported instructions", (), _add_info),
    "shrink": ("testing", "reduce a failing case while it still fails in the same way", (), _add_shrink),
    "record": ("testing", "run a program on a real GPU and write its launches as cases", (), _add_record),
    "init-tests": (
        "testing",
        "create a folder with a kernel, its tests, and a CI workflow without a GPU",
        (),
        _add_template,
    ),
    "examples": ("commands", "the bundled programs", (), _add_examples),
    "layout": ("commands", "show which lane holds which element of a matrix operand", (), _add_layout),
    "trace": (
        "running",
        "write a launch as a web page: warps over steps, what is in flight, shared memory",
        (),
        _add_trace,
    ),
    "prove": ("proving", "prove or refute for all contents of memory and all orders of threads", (), _add_prove),
    "dap": (
        "dap",
        "serve the debugger to editors: Debug Adapter Protocol over standard input and output",
        (),
        _add_nothing,
    ),
    "lsp": ("lsp", "serve editors of PTX: Language Server Protocol over standard input and output", (), _add_nothing),
    "debug": ("debug", "step through a launch", (), _add_debug),
    "exec": ("executing", "run a CUDA program on the simulated GPU", (), _add_exec),
    "completion": ("completion", "print the completion of this command line for a shell", (), _add_completion),
}
"""By the name of a command: the module that runs it, what it does, the options that it shares, and what adds its own."""

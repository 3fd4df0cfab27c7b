"""Small faulty programs and the nearest correct ones: what they begin with, how they are launched, and what is found.

The pages of the rules show some; ``tests/checks/pairs`` holds many, in files. ``python -m docs.tools.faulty FILE...`` runs those."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

PREAMBLE = """\
.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .align 64 .b8 map[128])
{{
.reg .b16 %h<4>; .reg .b32 %r<16>, %t, %lane, %warp, %cta, %s, %own, %bar; .reg .b64 %x<8>, %a, %b, %at, %bt, %s64;
.reg .f32 %f<16>; .reg .pred %p<8>, %first, %low;
.shared .align 1024 .b8 s[4096]; .shared .align 8 .b64 bar[2];
ld.param.u64 %a, [a]; ld.param.u64 %b, [b];             // two arrays of 4,096 words
mov.u32 %t, %tid.x; mov.u32 %cta, %ctaid.x; and.b32 %lane, %t, 31; shr.u32 %warp, %t, 5;
mul.wide.u32 %x0, %t, 4; add.u64 %at, %a, %x0; add.u64 %bt, %b, %x0;  // the thread's own words
mov.u32 %s, s; mov.u32 %bar, bar; mad.lo.u32 %own, %t, 4, %s; cvt.u64.u32 %s64, %s;
setp.eq.u32 %first, %t, 0; setp.lt.u32 %low, %lane, 16;
"""
WGMMA_START = """\
.reg .b64 %tile, %desc; mov.b32 %r15, 0; mad.lo.u32 %r14, %t, 16, %s;  // tiles of zeros, and their descriptor
st.shared.v4.b32 [%r14], {%r15, %r15, %r15, %r15}; st.shared.v4.b32 [%r14+2048], {%r15, %r15, %r15, %r15};
mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
fence.proxy.async; bar.sync 0; shr.u32 %r14, %s, 4; cvt.u64.u32 %tile, %r14; or.b64 %desc, %tile, 0x1000080000;
"""
END = "ret;\n}\n"
LAUNCH = re.compile(r"^// launch:([^/\n]*)", re.M)


class Example(NamedTuple):
    """A program, and the words that say how it is launched: ``block=128``, ``locked``; ``none`` where it is only loaded.

    A text that begins with ``.version``, and one with the word ``module``, is a whole module; any other is what stands
    between the preamble and ``ret``."""

    text: str
    options: dict[str, str]

    @classmethod
    def of(cls, text: str, words: str) -> Example:
        """An example with the options that these words are."""
        return cls(text, {key: value for key, _, value in (word.partition("=") for word in words.split())})

    @classmethod
    def read(cls, path: Path) -> Example:
        """The program in a file, which says in a comment ``// launch:`` how it is launched, where not with one warp."""
        text = path.read_text(encoding="utf-8")
        return cls.of(text, " ".join(LAUNCH.findall(text)))

    def module(self) -> str:
        """The whole module."""
        head = self.head()
        return head + self.text + END if head else self.text

    def launch(self) -> str:
        """Its launch in options of ``warpsim run``, where they can say it."""
        given = {"grid": 1, "block": 32, "checks": "all", "effects": "eager", **self.options}
        words = [f"--{name} {given[name]}" for name in ("grid", "block", "cluster", "checks") if name in given]
        words += [f"--async-effects {given['effects']} --max-instructions 8000"]
        params = len(re.findall(r"\.param\b", self.module().partition("{")[0]))
        arrays = ["A=zeros:u32:4096", "B=zeros:u32:4096", "T=zeros:u32:16x32"][:params]
        words += [f"--array {array}" for array in arrays]
        words += [f"--arg {argument}" for argument in ("array:A", "array:B", "tensormap:T:box=32x16")[:params]]
        return " ".join(words)

    def head(self) -> str:
        """What the module has before the text; empty for a whole module."""
        if "module" in self.options or re.search(r"^\.version", self.text, re.M):
            return ""
        return PREAMBLE.format(target=self.options.get("target", "sm_90a")) + (
            WGMMA_START if "wgmma" in self.options else ""
        )


def launch_of(example: Example) -> tuple[Any, int, int, tuple[Any, ...], int | None]:
    """A program's kernel, and its grid, block, arguments and cluster."""
    import numpy as np

    import warpsim

    options = example.options
    first, second = np.zeros(4096, np.uint32), np.zeros(4096, np.uint32)
    first.flags.writeable = "locked" not in options
    tensor = warpsim.TensorMap(second, global_dim=[32, 16], global_strides=[128], box_dim=[32, 16])
    kernel = warpsim.load(example.module())["k"]
    cluster = int(options["cluster"]) if "cluster" in options else None
    args = (first, second, tensor)[: len(kernel.params)]
    return kernel, int(options.get("grid", 1)), int(options.get("block", 32)), args, cluster


def findings(example: Example, watchers: Sequence[Any] = ()) -> tuple[Any, ...]:
    """What loading and launching a program is found to break: under all checks, unless it says under which."""
    import warpsim

    options = example.options
    try:
        if "none" in options:
            warpsim.load(example.module())
            return ()
        kernel, grid, block, args, cluster = launch_of(example)
        result = kernel(
            grid,
            block,
            args,
            cluster=cluster,
            checks=options.get("checks", "all"),
            async_effects=options.get("effects", "eager"),
            batch_threads=int(options.get("batch_threads", 1 << 17)),
            on_finding="collect",
            max_instructions=8_000,
            watchers=watchers,
        )
    except (warpsim.PtxError, warpsim.ExecutionError) as error:
        return error.findings
    return result.findings


def main(paths: list[str]) -> None:
    """Say of each file what is found in it; lines are those of the whole module, which is printed first."""
    for path in paths:
        example = Example.read(Path(path))
        for number, line in enumerate(example.module().rstrip().split("\n"), 1):
            print(f"{number:4} {line}")
        found = findings(example)
        print(f"\n{path}: " + ("\n\n".join(str(f) for f in found) or "nothing is found") + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

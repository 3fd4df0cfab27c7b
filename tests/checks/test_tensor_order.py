"""tcgen05: the manual's patterns of synchronisation as kernels, each correct, and faulty without one of its lines.

The files of ``tensor_order/`` stand between `HEAD` and `TAIL`. The first line has the launch and what each of its threads
0 to 127 stores. ``// @name`` names a line. ``// without: RULE [SEVERITY] at NAME`` says what is found without a line, and where;
``// with TEXT: ...`` the same with TEXT in its place (behind the comma, where TEXT begins with one)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import warpsim
from warpsim.machine.values import Array

FOLDER = Path(__file__).with_name("tensor_order")
HEAD = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 ones_)
{
.reg .pred %p<10>, %no, %yes; .reg .b16 %h<4>;
.reg .b32 %r<40>, %t, %warp, %rank, %tm, %quarter, %id, %id2, %s, %slot, %flag, %tile, %words, %one, %bar<4>;
.reg .b64 %rd<10>, %A, %B, %W, %out, %ones, %gbar0;
.shared .align 1024 .b8 tiles[16384];
.shared .align 8 .b64 bars[4];
.shared .align 4 .b32 slots[2];
mov.u32 %t, %tid.x; shr.u32 %warp, %t, 5; mov.u32 %rank, %cluster_ctarank;
setp.ne.u32 %no, %t, %t; setp.eq.u32 %yes, %t, %t;
mov.u32 %s, tiles; mov.u32 %slot, slots; add.u32 %flag, %slot, 4; shl.b32 %quarter, %warp, 21;
mov.u32 %bar0, bars; add.u32 %bar1, %bar0, 8; add.u32 %bar2, %bar0, 16; add.u32 %bar3, %bar0, 24;
cvt.u64.u32 %rd1, %bar0; cvta.shared.u64 %gbar0, %rd1;
// A is 128 x 16 ones (f16) at 0, B 32 x 16 ones at 4096, W 128 x 8 ones (f32) at 8192; core matrices lie side by side
shr.u32 %r1, %s, 4; cvt.u64.u32 %rd1, %r1; or.b64 %A, %rd1, 0x0000401000080000;
add.u64 %B, %A, 256; add.u64 %W, %A, 512;
mov.b32 %id, 0x08080010; mov.b32 %id2, 0x10080010; mov.b32 %one, 0x3c003c00;
shl.b32 %r1, %t, 2; add.u32 %tile, %s, %r1; add.u32 %words, %tile, 8192;
ld.param.u64 %out, [out]; ld.param.u64 %ones, [ones_];
mov.u32 %r2, %ctaid.x; mad.lo.u32 %r2, %r2, 512, %r1; cvt.u64.u32 %rd1, %r2; add.u64 %out, %out, %rd1;
setp.lt.u32 %p9, %t, 128;
@!%p9 bra filled_;
mov.u32 %r3, %tile; mov.b32 %r4, 0;
fill_: st.shared.b32 [%r3], %one; add.u32 %r3, %r3, 512; add.u32 %r4, %r4, 1; setp.lt.u32 %p9, %r4, 10;
@%p9 bra fill_;
mov.u32 %r3, %words; mov.b32 %r4, 0;
fill2_: st.shared.b32 [%r3], 0f3F800000; add.u32 %r3, %r3, 512; add.u32 %r4, %r4, 1; setp.lt.u32 %p9, %r4, 8;
@%p9 bra fill2_;
fence.proxy.async.shared::cta;
filled_:
bar.sync 0;
"""
TAIL = "\nret;\n}\n"
CHANGE = re.compile(r"// (?:without|with (?P<new>.*?)): (?P<found>[\w-]+(?: [\w-]+)* at \w+)")
WAIT = re.compile(r"mbarrier\.try_wait\S* (\S+?),.*;")
MODES: dict[str, dict[str, Any]] = {
    "eager": {"async_effects": "eager"},
    "at_wait": {"async_effects": "at_wait"},
    "random": {"async_effects": "at_wait", "schedule": 5},
}


class Change(NamedTuple):
    """A line of a kernel, what replaces it, and the findings of which one is there: rule, severity and line."""

    line: int
    new: str
    expected: set[tuple[str, str, int]]


def changes(text: str) -> list[Change]:
    """Those that the comments of a kernel announce."""
    lines = text.split("\n")
    names = {name: number for number, line in enumerate(lines) for name in re.findall(r"// @(\w+)", line)}
    made = []
    for number, line in enumerate(lines):
        for found in CHANGE.finditer(line):
            code, new = line.split("//")[0], found["new"] or ""
            if new.startswith(","):
                code = code[: code.rindex(",")] + new
            elif WAIT.search(code):
                code = WAIT.sub(r"setp.eq.u32 \1, 0, 0;", code)
            else:
                label = re.match(r"\w+:(?= )", code)
                code = (label.group() if label else "") + new
            expected = set()
            for rule, *severity, _, name in (words.split() for words in found["found"].split(" or ")):
                expected.add((rule, *(severity or ["error"]), names[name]))
            made.append(Change(number, code, expected))
    return made


def run(body: str, mode: str) -> tuple[list[tuple[str, str, int]], Array]:
    """The findings (rule, severity, line of the body), and what the threads have stored."""
    options = dict(re.findall(r"(\w+)=(\d+)", body.split("\n")[0]))
    grid = int(options.get("grid", 1))
    out, ones = np.zeros((grid, 128), np.float32), np.full(2560, 1, np.float16)
    kernel = warpsim.load(HEAD + body + TAIL)["k"]
    try:
        findings = kernel(
            (grid,), (int(options["block"]),), (out, ones), cluster=int(options.get("cluster", 1)), checks="all",
            on_finding="collect", max_instructions=100_000, **MODES[mode],
        ).findings  # fmt: skip
    except warpsim.ExecutionError as error:
        findings = error.findings
    above = HEAD.count("\n") + 1
    return [(f.rule, f.severity, f.line - above) for f in findings], out


def params() -> list[Any]:
    """A parameter for each change of each kernel and each mode; long, but for the first with its findings in one mode."""
    found, seen = [], set()
    for path in sorted(FOLDER.glob("*.ptx")):
        for change in changes(path.read_text()):
            what = {(rule, severity) for rule, severity, _ in change.expected}
            for k, mode in enumerate(MODES):
                first = k == len(seen) % len(MODES) and (path, *what) not in seen
                name = f"{path.stem}-{change.line + 1}-{mode}"
                found.append(pytest.param(path, change, mode, id=name, marks=[] if first else [pytest.mark.long]))
            seen.add((path, *what))
    return found


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        pytest.param(path, mode, id=f"{path.stem}-{mode}", marks=[pytest.mark.long] * ((k + n) % len(MODES) > 0))
        for k, path in enumerate(sorted(FOLDER.glob("*.ptx")))
        for n, mode in enumerate(MODES)
    ],
)
def test_correct(path: Path, mode: str) -> None:
    """Nothing is found, and the result is there, whenever the operations act."""
    text = path.read_text()
    found, out = run(text, mode)

    assert found == []
    assert (out == float(re.findall(r"gives=(\d+)", text)[0])).all()


@pytest.mark.parametrize(("path", "change", "mode"), params())
def test_without_a_line(path: Path, change: Change, mode: str) -> None:
    """What the comment says (or one of two things) is found at the line that it names."""
    lines = path.read_text().split("\n")
    lines[change.line] = change.new

    assert change.expected.intersection(run("\n".join(lines), mode)[0])

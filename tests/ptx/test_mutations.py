"""Damaged PTX ends in PtxError, never in another exception or a hang."""

import contextlib
import random
import re
import time
from pathlib import Path

import pytest

import warpsim
from ptx_text import module_head

ROOT = Path(__file__).parents[2]
TEXTS = [
    text
    for path in sorted([*ROOT.glob("tests/cases/*/kernel.ptx"), *ROOT.glob("programs/*/kernel.ptx")])
    if (text := path.read_text()).count("\n") <= 300
]
TOKEN = re.compile(r"\s+|[\w$%.]+|.", re.DOTALL)
STRANGE = [
    *("0", "-1", "99999999999999999999", "{", "}", "[", "]", ";", ",", ".b128", "%r999", "_", "@", '"', "(", "0x"),
    *("0f12", ".reg", ".shared", "!", "|", "<5>", "//", "/*"),
]
SECONDS = 20
"""Loading one of these files takes some milliseconds; more than this is a hang."""


def damaged(rng, text):
    """Tokens deleted, doubled, swapped, altered or replaced by random characters; the file cut short."""
    tokens = TOKEN.findall(text)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if len(tokens) < 5:
            break
        kind, i, j = rng.randrange(7), rng.randrange(len(tokens)), rng.randrange(len(tokens))
        if kind == 0:
            del tokens[i]
        elif kind == 1:
            tokens.insert(i, tokens[i])
        elif kind == 2:
            tokens[i], tokens[j] = tokens[j], tokens[i]
        elif kind == 3:
            tokens[i] = rng.choice([tokens[j], *STRANGE])
        elif kind == 4:
            tokens = tokens[: max(i, 2)]
        elif kind == 5:
            tokens[i] = "".join(chr(rng.choice([rng.randrange(1, 128), rng.randrange(128, 999)])) for _ in range(5))
        else:
            tokens[i] = tokens[i][:-1]
    return "".join(tokens) + "\n"


def try_mutations(seed, count):
    """Load ``count`` damaged files."""
    rng = random.Random(seed)
    for number in range(count):
        text = damaged(rng, rng.choice(TEXTS))
        started = time.monotonic()
        try:
            with contextlib.suppress(warpsim.PtxError):
                warpsim.load(text)
        except Exception as defect:
            raise AssertionError(f"mutation {number} of seed {seed} ends in {defect!r}") from defect
        assert time.monotonic() - started < SECONDS, f"mutation {number} of seed {seed}"


def test_sample():
    """Some."""
    try_mutations(1, 40)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100, 110))
def test_many(seed):
    """20,000 in all."""
    try_mutations(seed, 2000)


@pytest.mark.parametrize(
    ("file", "loc", "line"),
    [('.file 1 "a"', ".loc 1 [ 3", 6), ('.file x "a"', "", 4), ('.file 1 "a"', ".loc 1 2 3", 0)],
)
def test_directives_without_numbers(file, loc, line):
    """Mutations that once ended in a ValueError, and the nearest correct module."""
    text = module_head() + f"{file}\n.visible .entry k() {{\n{loc}\nret; }}\n"
    if not line:
        assert warpsim.load(text).kernels
        return

    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(text)
    assert caught.value.findings[0].line == line

"""Faulty programs in files, each beside the nearest correct one; ``pairs/README.md`` says how to read and to run them."""

import re
from pathlib import Path

import pytest

from docs.tools import faulty
from warpsim.host.options import EVERY
from warpsim.machine.reporting import ALWAYS

PAIRS = Path(__file__).parent / "pairs"
FAULTY = sorted(PAIRS.glob("*/*.bad.ptx"))
EXPECT = re.compile(r"// expect: ([^/]*)")


def correct(path):
    """The file of the correct program beside a faulty one."""
    return path.with_name(path.name.replace(".bad.", ".good."))


def marked(text):
    """(line, rule, severity) of every finding that the comments of a module announce."""
    announced = set()
    for number, line in enumerate(text.split("\n"), 1):
        for comment in EXPECT.findall(line):
            for words in comment.split(","):
                rule, *severity = words.split()
                announced.add((number, rule, *(severity or ["error"])))
    return announced


def params(paths, step=1):
    """A parameter for each path; of ``step`` of them, one runs by default."""
    return [
        pytest.param(path, id=f"{path.parent.name}/{path.name[:-8]}", marks=[pytest.mark.long] if k % step else [])
        for k, path in enumerate(paths)
    ]


@pytest.mark.parametrize("path", params(FAULTY))
def test_pair(path):
    """The faulty program breaks its rule first, and is found to break what its comments say and no more; the correct one is
    silent."""
    program = faulty.Example.read(path)
    text, found = program.module(), faulty.findings(program)
    others = [number for number, line in enumerate(text.split("\n"), 1) if line.endswith("// other")]

    assert {(f.line, f.rule, f.severity) for f in found} == marked(text)
    assert found[0].rule == path.parent.name
    assert others in ([], [found[0].other and found[0].other.line])
    assert all(
        f.advice or f.rule not in EVERY | ALWAYS for f in found
    )  # what is wrong in a text says what was expected
    assert faulty.findings(faulty.Example.read(correct(path))) == ()


LATE = [
    p
    for p in FAULTY
    if re.search(r"async|bulk", p.read_text(encoding="utf-8") + correct(p).read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("path", params(LATE, 5))
def test_pair_with_late_effects(path):
    """Where copies act as late as they may, the same is found at the same lines; data that has not come is found missing
    besides."""
    bad, good = faulty.Example.read(path), faulty.Example.read(correct(path))
    bad.options["effects"] = good.options["effects"] = "at_wait"
    found = {(f.line, f.rule, f.severity) for f in faulty.findings(bad)}

    assert found >= marked(bad.module())
    assert {rule for _, rule, _ in found - marked(bad.module())} <= {"uninitialised", "mbarrier"}
    assert faulty.findings(good) == ()


WAVES = [p for p in FAULTY if re.search(r"launch:.*grid=", p.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize("path", params(WAVES, 5))
def test_pair_in_waves(path, effects):
    """CTAs (or clusters) that run one after another: the same is found as side by side."""
    bad, good = faulty.Example.read(path), faulty.Example.read(correct(path))
    for example in (bad, good):
        example.options.update(batch_threads="1", effects=effects)

    assert {(f.line, f.rule, f.severity) for f in faulty.findings(bad)} == marked(bad.module())
    assert faulty.findings(good) == ()


def test_the_coordinate_that_is_wrong():
    """Of several coordinates, the innermost is named."""
    (found, *_) = faulty.findings(faulty.Example.read(PAIRS / "tensor-map" / "coordinate-not-aligned.bad.ptx"))

    assert "the innermost coordinate 2 is 8 bytes" in found.message


def test_every_file_is_of_a_pair():
    """No correct program without its faulty one, and no file that nothing runs."""
    assert set(PAIRS.glob("*/*")) == {*FAULTY, *map(correct, FAULTY)}


@pytest.mark.parametrize("grid", [2, 5])
def test_a_race_in_many_ctas(grid):
    """CTAs that hand over through mbarriers of their own, side by side: as one of them alone."""
    path = PAIRS / "race" / "stage-reused-one-phase-early.bad.ptx"
    bad, good = faulty.Example.read(path), faulty.Example.read(correct(path))
    bad.options["grid"] = good.options["grid"] = str(grid)
    races = {(f.line, f.rule, f.severity) for f in faulty.findings(bad) if f.rule == "race"}

    assert races == {found for found in marked(bad.module()) if found[1] == "race"} != set()
    assert faulty.findings(good) == ()

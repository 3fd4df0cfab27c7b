"""Rules of the structure, held by reading the source."""

import re
from pathlib import Path

import warpsim

PACKAGE = Path(warpsim.__file__).parent
ORDER = {
    "errors": 0,
    "types": 0,
    "numerics": 1,
    "layout": 1,
    "ptx": 2,
    "isa": 2,
    "program": 3,
    "analysis": 4,
    "machine": 5,
    "observe": 6,
    "host": 7,
    "cli": 8,
    "testing": 8,
    "pytest_plugin": 9,
    "__main__": 9,
}


def layer(path):
    """The top-level part of the package that a file belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path):
    """Names of our own packages that a file imports while it is imported or run."""
    return re.findall(r"^ *(?:from|import) +warpsim\.(\w+)", path.read_text(), re.M)


def test_import_directions():
    """A layer imports only from layers below it; ptx and isa do not know each other."""
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        own = layer(path)
        if own == "__init__":
            continue
        for other in imports(path):
            if other != own and ORDER[other] >= ORDER[own]:
                wrong.append(f"{path.relative_to(PACKAGE)} imports {other}")

    assert wrong == []


def test_no_lane_loops_in_semantics():
    """Semantics never import the machine, so they cannot reach scheduling or registers."""
    for path in (PACKAGE / "isa").glob("*.py"):
        assert "machine" not in set(imports(path))


def test_public_names():
    """Every public name resolves."""
    for name in warpsim.__all__:
        assert getattr(warpsim, name) is not None


def test_nothing_that_processors_do_differently():
    """What NumPy hands to the processor's own instructions or C library gives other bits elsewhere (an Arm's fmin lets a
    signalling NaN win)."""
    found = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in PACKAGE.rglob("*.py")
        for name in re.findall(r"np\.(?:fmin|fmax|exp2?|log2?|sin|cos|tanh|power|longdouble)\(", path.read_text())
    ]

    assert found == []

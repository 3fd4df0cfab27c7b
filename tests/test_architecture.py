"""Rules of the structure, held by reading the source."""

import ast
import re
from pathlib import Path

import pytest

import warpsim
from warpsim.isa import spec

PACKAGE = Path(warpsim.__file__).parent
ORDER = {
    "records": -1,
    "errors": 0,
    "owned": -1,
    "cache": 0,
    "types": 0,
    "version": 0,
    "numerics": 0,
    "layout": 1,
    "graph": 1,
    "ptx": 2,
    "isa": 2,
    "program": 3,
    "analysis": 4,
    "machine": 5,
    "checks": 6,
    "observe": 6,
    "report": 4,
    "native": 6,
    "trace": 7,
    "parallel": 7,
    "host": 8,
    "driver": 9,
    "debug": 9,
    "testing": 9,
    "proving": 9,
    "capture": 9,
    "compat": 10,
    "cli": 10,
    "pytest_plugin": 11,
    "__main__": 11,
}


FACES = {"warpsim", "warpsim.testing.starter.tests.test_axpy"}
"""The public face, and the test of a user's project that ``warpsim init-tests`` writes, which uses it."""


def layer(path):
    """The top-level part of the package that a file belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


IMPORTS = re.compile(r"^[ \t]*((?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+(?:\([^)]*\)|[^\n]*))", re.MULTILINE)
IMPORTS_BY_NAME = re.compile(r"(?:import_module|__import__|_later)\(f?[\"']([\w.]+)")


def module_name(path):
    """The dotted name of a file of the package."""
    return ".".join(("warpsim", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def imported(source, name):
    """Full names of what the module ``name`` imports, for types alone and inside functions, too."""
    found = {full.rstrip(".") for full in IMPORTS_BY_NAME.findall(source)}
    for node in ast.parse("\n".join(IMPORTS.findall(source))).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        else:
            above = name.split(".")[: -node.level] if node.level else []
            found |= {".".join((*above, *filter(None, [node.module]), alias.name)) for alias in node.names}
    return found


def layers_imported(source, name):
    """The parts of the package that a module imports; ``__init__`` is the public face, which can be all of them."""
    for full in imported(source, name):
        package, _, inside = full.partition(".")
        if package == "warpsim":
            part = inside.split(".")[0]
            yield part if part in ORDER else "__init__"


def upward(source, name):
    """The parts of the package that a module imports although they are not below its own."""
    own = name.split(".")[1]
    return {other for other in layers_imported(source, name) if other != own and ORDER.get(other, 99) >= ORDER[own]}


def test_import_directions():
    """A layer imports only from layers below it; ptx and isa do not know each other."""
    wrong = {
        name: sorted(found)
        for path in PACKAGE.rglob("*.py")
        if (name := module_name(path)) not in FACES and (found := upward(path.read_text(encoding="utf-8"), name))
    }

    assert wrong == {}


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("warpsim.ptx.words", "from warpsim.isa import spec"),
        ("warpsim.isa.logic", "import warpsim.machine.machine"),
        ("warpsim.isa.logic", "def f():\n    from warpsim import machine"),
        ("warpsim.host.recording", "import warpsim"),
        ("warpsim.isa.logic", "from warpsim import (\n    Kernel,\n)"),
        ("warpsim.machine.runtime", "from ..checks import races"),
        ("warpsim.machine.state.group", "from ... import checks"),
        ("warpsim.machine.runtime", 'import_module("warpsim.checks.race.detector")'),
    ],
)
def test_upward_imports_are_found(name, planted):
    """The test above sees each way of importing."""
    assert upward(planted, name)


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


OPCODES_ELSEWHERE = {
    "layout/pictures.py": "likewise, by the names that a user writes",
    "ptx/parser.py": "call, whose operands are lists in parentheses",
    "report/rules.py": "names of rules",
    "proving/answers.py": "names of rules",
    "proving/symbols.py": "operations of graphs",
    "__init__.py": "the public function mma",
    "analysis/values.py": "operations of graphs",
    "analysis/loops.py": "operations of graphs",
    "analysis/made_from.py": "operations of graphs",
    "analysis/constants.py": "which spellings the assembler computes from constants, with the units it asks",
    "layout/instructions.py": "fragments by the names of their instructions: layout lies below isa, and declares none",
    "host/mma.py": "the names by which a user asks for a product, beside layout/instructions.py",
    "testing/assertions.py": "which arithmetic a bound is for, in the words of whoever writes the test",
    "debug/matrices.py": "likewise, of the instruction that a session shows",
    "debug/breakpoints.py": "names of events",
    "debug/timeline.py": "names of events",
    "cli/debug/shell.py": "gdb's commands have names of their own",
    "native/lowering/affine.py": "ufuncs of NumPy and instructions of LLVM",
    "native/lowering/graphs.py": "ufuncs of NumPy",
    "native/lowering/operations.py": "ufuncs of NumPy and instructions of LLVM",
    "native/shadows.py": "instructions of LLVM for the operations of isa/exact.py",
    "graph/evaluate.py": "operations of graphs",
    "graph/nodes.py": "operations of graphs",
    "graph/text.py": "operations of graphs",
    "graph/trace.py": "ufuncs of NumPy",
    "machine/memory/atomics.py": "the .op of an atomic, for which NumPy has a name",
}
"""Files that may name opcodes, and why."""
OTHER_WORDS = {
    "trap": "a rule",
    "mbarrier": "a rule",
    "setmaxnreg": "a rule",
    "fence": "an event of watchers",
    "bar": "an operand",
    "tensormap": "a kind of argument in case.json",
    "set": "a mode of comparison in case.json",
    "popc": "a reduction of a barrier",
    "and": "a reduction of a barrier",
}
"""Opcodes that are words of their own, too; `opcode_tests` passes over them where the other side is not an opcode's."""
ASKED_OF = re.compile(r"\b(root|opcode|text)\b")


def opcode_tests(source, opcodes):
    """Lines that compare something with an opcode, look for one in a collection, or keep a table by opcode."""
    if opcodes.isdisjoint(re.findall(r"[\"'](\w+)[\"']", source)):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            tested = [c for s in sides for c in (s.elts if isinstance(s, (ast.Tuple, ast.List, ast.Set)) else [s])]
        elif isinstance(node, ast.Set):
            tested = node.elts
        elif isinstance(node, ast.Dict):
            tested = node.keys
        elif isinstance(node, ast.MatchValue):
            tested = [node.value]
        else:
            continue
        words = {c.value for c in tested if isinstance(c, ast.Constant) and isinstance(c.value, str)} & opcodes
        if words - OTHER_WORDS.keys() or (words and ASKED_OF.search(ast.unparse(node))):
            yield node.lineno, sorted(words)


def test_functions_are_made_by_def_and_lambda_alone():
    """Specialised calls of CPython 3.12 know a function by a number. It counts those that are made otherwise, or whose defaults are
    set, from 1 again, as others were: after some 15,000 calls one of them is taken for another, and the process crashes."""
    made = re.compile(r"\bFunctionType\(|__(kw)?defaults__ *=|__code__ *=")
    assert not [str(path) for path in PACKAGE.rglob("*.py") if made.search(path.read_text("utf-8"))]


def test_opcodes_are_named_where_they_are_declared():
    """Outside isa passes and checks ask `Traits`; nobody tests for an opcode."""
    opcodes = set(spec.opcodes())
    found = [
        f"{path.relative_to(PACKAGE).as_posix()}:{line}: {', '.join(words)}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if layer(path) != "isa" and path.relative_to(PACKAGE).as_posix() not in OPCODES_ELSEWHERE
        for line, words in opcode_tests(path.read_text(encoding="utf-8"), opcodes)
    ]

    assert found == []


@pytest.mark.parametrize(
    "planted",
    [
        'if form.root == "st": pass',
        'if root in ("wmma", "tensormap"): pass',
        'MATRIX = {"mma", "wgmma"}',
        'RULES = {"shl": 1}',
        'if instruction.form.root == "trap": pass',
        'ENDS = frozenset({"bra"})',
        'match root:\n    case "ret": pass',
    ],
)
def test_opcode_tests_are_found(planted):
    """The test above sees each way of testing for an opcode."""
    assert list(opcode_tests(planted, set(spec.opcodes())))


def imported_by(source, name, modules):
    """The modules among ``modules`` that a module imports anywhere."""
    found = {full if full in modules else full.rpartition(".")[0] for full in imported(source, name)}
    return (found & modules) - {name}


def circles(graph):
    """Sets of modules each of which reaches all others of its set by imports."""
    reached = {}
    for name in graph:
        seen, left = set(), [name]
        while left:
            new = graph[left.pop()] - seen
            seen |= new
            left += new
        reached[name] = seen
    return {
        frozenset({name, *(m for m in reached[name] if name in reached[m])}) for name in graph if name in reached[name]
    }


def test_no_import_circles():
    """No file imports another that imports it again, directly or through others, wherever the imports stand."""
    paths = {module_name(path): path for path in PACKAGE.rglob("*.py")}
    graph = {name: imported_by(path.read_text(encoding="utf-8"), name, paths.keys()) for name, path in paths.items()}

    assert [sorted(circle) for circle in circles(graph)] == []


def test_machine_code_stands_on_ten_floors():
    """A file of ``native`` loads others that load others, ten deep at most: parts that are handed over are known by their types."""
    paths = {module_name(path): path for path in (PACKAGE / "native").rglob("*.py")}
    floors = {}

    def floor(name):
        if name not in floors:
            tops = (n for n in ast.parse(paths[name].read_text(encoding="utf-8")).body if isinstance(n, ast.ImportFrom))
            found = imported_by("\n".join(map(ast.unparse, tops)), name, paths.keys())
            floors[name] = 1 + max((floor(other) for other in found if "." in other[15:]), default=0)
        return floors[name]

    assert max(map(floor, paths)) <= 10, sorted(floors, key=floors.get)[-3:]


@pytest.mark.parametrize(
    "planted",
    [
        "import a.b",
        "from a import b",
        "from . import b",
        "def f():\n    from a.b import x",
        "if TYPE_CHECKING:\n    from a.b import X",
    ],
)
def test_import_circles_are_found(planted):
    """The test above sees a circle, however it is made."""
    modules = {"a.b", "a.c", "a.d"}
    graph = {"a.b": imported_by("from a.d import y", "a.b", modules), "a.c": imported_by(planted, "a.c", modules)}
    graph["a.d"] = imported_by("import a.c", "a.d", modules)

    assert circles(graph) == {frozenset(modules)}


def test_few_values_are_of_any_type():
    """`Any` switches the type checker off: lines that say it are counted, and not to become more."""
    lines = [line for path in PACKAGE.rglob("*.py") for line in path.read_text(encoding="utf-8").splitlines()]

    assert sum(re.search(r"\bAny\b", line) is not None for line in lines) < 285


def test_only_declared_events_are_called():
    """Every attribute of the hooks that the package asks for is their own or a method of `Watcher`, and every event is asked for."""
    from warpsim.machine.hooks import Hooks
    from warpsim.machine.watcher import EVENTS

    sources = [
        path.read_text(encoding="utf-8") for part in ("machine", "native") for path in (PACKAGE / part).rglob("*.py")
    ]
    asked = {name for source in sources for name in re.findall(r"\bhooks\.([a-z]\w+)", source)}

    assert asked - {*vars(Hooks()), "py"} == set(EVENTS)


OPERANDS_NAMED_LIKE_RULES = {"membermask"}
"""Operands that the machine names, and rules too."""


def watchers_and_rules(source, name, rules):
    """What a module says of watchers: imports of their packages, and names of rules."""
    if not rules.isdisjoint(re.findall(r"[\"']([\w-]+)[\"']", source)):
        yield from (n.value for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant) and n.value in rules)
    yield from set(layers_imported(source, name)) & {"checks", "observe", "debug", "trace"}


def rules_of_watchers():
    """The rules that a launch may leave out."""
    from warpsim.host.options import EVERY
    from warpsim.report.rules import ALWAYS

    return EVERY - ALWAYS - OPERANDS_NAMED_LIKE_RULES


def test_the_machine_names_no_watcher_and_no_rule():
    """What a launch may leave out is said by watchers, and the machine knows none of them."""
    rules = rules_of_watchers()
    found = {
        str(path.relative_to(PACKAGE)): sorted(named)
        for path in (PACKAGE / "machine").rglob("*.py")
        if (named := set(watchers_and_rules(path.read_text(encoding="utf-8"), module_name(path), rules)))
    }

    assert found == {}


@pytest.mark.parametrize(
    "planted",
    [
        'machine.fault("race", message, group)',
        'if "uninitialised" in checks: pass',
        "import warpsim.checks.race.detector",
        "def f():\n    from warpsim.debug import session",
        "from warpsim import trace",
        "from .. import observe",
    ],
)
def test_watchers_and_rules_are_found(planted):
    """The test above sees rules and watchers, however they are named."""
    assert list(watchers_and_rules(planted, "warpsim.machine.runtime", rules_of_watchers()))

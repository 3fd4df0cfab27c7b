"""No state is shared by accident: nothing changes what a file of the package holds at its top level."""

import ast
import functools
import re
from pathlib import Path

import pytest

import warpsim
from warpsim.program.load import no_collection

PACKAGE = Path(warpsim.__file__).parent
OF_THE_PROCESS = {PACKAGE / "driver" / "abi", PACKAGE / "host" / "defaults.py"}
"""A C library is loaded once into a process, and so is what it forwards to: its handles are the process's. And what a test
session sets holds for launches from all threads of its tests."""
MUTATORS = frozenset(
    [
        "append",
        "add",
        "update",
        "setdefault",
        "pop",
        "popitem",
        "clear",
        "extend",
        "insert",
        "remove",
        "discard",
        "appendleft",
        "sort",
        "reverse",
    ]
)


@pytest.fixture(scope="module")
def trees():
    """The syntax tree of every file by its path."""
    with no_collection():
        return {
            path: ast.parse(path.read_text(encoding="utf-8"))
            for path in PACKAGE.rglob("*.py")
            if OF_THE_PROCESS.isdisjoint([path, *path.parents])
        }


def module_names(tree):
    """Names that a file assigns at its top level."""
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


@functools.cache
def changed(function):
    """Names whose objects a function changes in place, with the line."""
    found = []
    for node in ast.walk(function):
        targets = []
        if isinstance(node, (ast.Assign, ast.Delete)):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
            targets = [node.func]
        for target in targets:
            while isinstance(target, (ast.Subscript, ast.Attribute)):
                target = target.value
                if isinstance(target, ast.Name):
                    found.append((target.id, node.lineno))
    return found


def functions(tree):
    """The functions of a file and the methods of its classes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from (n for n in node.body if isinstance(n, ast.FunctionDef))


def own_names(function):
    """Parameters and local variables of a function and of those within it."""
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def test_no_state_of_modules(trees):
    """No function changes what a file holds at its top level: threads would share it. Caches of pure functions
    (functools) keep nothing that anybody changes."""
    found = []
    for path, tree in trees.items():
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        held = set(module_names(tree))
        held |= {
            a.asname or a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names if a.name.isupper()
        }
        if re.search(r"^\s+global ", text, re.MULTILINE):
            found += [f"{path.name}:{n.lineno}: global" for n in ast.walk(tree) if isinstance(n, ast.Global)]
        used = re.compile(rf"\b(?:{'|'.join(held) or '$.'})\s*[.\[]")  # an element or a part of a held object
        for function in functions(tree):
            if not used.search("\n".join(lines[function.lineno - 1 : function.end_lineno])):
                continue
            there = [(name, line) for name, line in changed(function) if name in held]
            own = set(own_names(function)) if there else set()
            found += [f"{path.name}:{line}: {name}" for name, line in there if name not in own]

    assert found == []


def test_objects_of_modules_do_not_change(trees):
    """An object that a file makes of a class of ours at its top level, and that changes itself, is of one thread or locked."""
    classes = {}
    values = [
        node.value for tree in trees.values() for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))
    ]
    made = {ast.unparse(value.func) for value in values if isinstance(value, ast.Call)}
    for tree in trees.values():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name in made:
                methods = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name != "__init__"]
                if any(name == "self" for m in methods for name, _ in changed(m)):
                    source = ast.unparse(node)
                    classes[node.name] = "threading.local" in source or "threading.RLock" in source
    found = []
    for path, tree in trees.items():
        for node in tree.body:
            value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
            if isinstance(value, ast.Call) and not classes.get(ast.unparse(value.func), True):
                found.append(f"{path.name}:{node.lineno}: {ast.unparse(value.func)}")

    assert found == []

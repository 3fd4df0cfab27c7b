"""Textures, samplers and surfaces as variables and parameters: what ptxas 13.0 takes loads, what it refuses is an error of its kind."""

from __future__ import annotations

import pytest

import warpsim

HEAD = ".version 9.0\n.target sm_90{}\n.address_size 64\n"
ENTRY = ".visible .entry k({}) {{ {} ret; }}\n"
KINDS = ["texref", "samplerref", "surfref"]
FIELD = {"texref": "width", "samplerref": "filter_mode", "surfref": "width"}


def rule_of(module: str, parameters: str = "", body: str = "", *, independent: bool = True) -> str:
    """The rule that a module with an empty kernel breaks first; empty if none."""
    head = HEAD.format(", texmode_independent" if independent else "")
    try:
        warpsim.load(f"{head}{module}\n{ENTRY.format(parameters, body)}")
    except warpsim.PtxError as error:
        return error.findings[0].rule
    return ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "declaration",
    [
        ".global .{kind} t;", ".global .{kind} t[4];", ".global .align 16 .{kind} t, u;", ".extern .global .{kind} t;", ".weak .global .{kind} t<4>;",
        ".global .attribute(.managed) .{kind} t;", ".global .{kind} t = {{ }};",
        ".global .{kind} t = {{ {field} = 4 }};", ".global .{kind} t = {{ {field} = nearest, {field} = -0x10 }};",
        ".global .{kind} t[2] = {{ {{ {field} = 1+1 }}, {{ {field} = wrap }} }};", ".global .{kind} t[] = {{ {{ {field} = 1 }} }};",
    ],
)  # fmt: skip
def test_variables(kind: str, declaration: str) -> None:
    """Declarations at module level, with fields as initial values."""
    assert rule_of(declaration.format(kind=kind, field=FIELD[kind])) == ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("declaration", "rule"),
    [
        (".const .{kind} t;", "directive"), (".shared .{kind} t;", "directive"), (".global .v2 .{kind} t;", "directive"),
        (".global .{kind} t[];", "directive"), (".common .global .{kind} t;", "linkage"), (".func f(.param .{kind} t) {{ ret; }}", "directive"),
        (".func f(.param .u64 .ptr .{kind} t) {{ ret; }}", "directive"), (".extern .global .{kind} t = {{ {field} = 1 }};", "linkage"), (".extern .global .{kind} t[];", "linkage"),
        (".global .{kind} t = 5;", "initialiser"), (".global .{kind} t = {{ 1, 2 }};", "initialiser"), (".global .{kind} t = {{ {field} = 1, 2 }};", "initialiser"),
        (".global .{kind} t = {{ nonsense = 1 }};", "initialiser"), (".global .{kind} t = {{ {field} = rgba }};", "initialiser"),
        (".global .{kind} t = {{ {{ {field} = 1 }} }};", "initialiser"), (".global .{kind} t[2] = {{ {field} = 1, 2 }};", "initialiser"),
        (".global .{kind} t = {{ {field} = 1, }};", "syntax"), (".global .{kind} t = {{ {field} = {{1}} }};", "syntax"), (".global .u32 t = {{ width = 1 }};", "syntax"),
    ],
)  # fmt: skip
def test_misuse(kind: str, declaration: str, rule: str) -> None:
    """Other places, and other initial values."""
    assert rule_of(declaration.format(kind=kind, field=FIELD[kind])) == rule


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_and_bodies(kind: str) -> None:
    """A kernel's parameter is such an object, or points to one; a function's body declares none."""
    assert rule_of("", f".param .{kind} t") == ""
    for pointer in (
        f".param .u64 .ptr .{kind} t",
        f".param .u64 .ptr .{kind} .align 16 t",
        f".param .u32 .ptr .{kind} t",
    ):
        assert rule_of("", pointer) == ""
    assert rule_of("", f".param .u64 .ptr .global .{kind} t") == "syntax"
    assert rule_of("", f".param .u64 .ptr .{kind} .align 3 t") == "directive"
    assert {rule_of("", "", f".{space} .{kind} t;") for space in ("reg", "local", "global")} == {"directive"}


def test_samplers_of_the_unified_mode() -> None:
    """There are none, unless a parameter points to one."""
    assert rule_of(".global .samplerref s;", independent=False) == "directive"
    assert rule_of("", ".param .samplerref s", independent=False) == "directive"
    assert rule_of("", ".param .u64 .ptr .samplerref s", independent=False) == ""
    assert rule_of(".global .texref t = { filter_mode = nearest };", independent=False) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_printed_as_written(kind: str) -> None:
    """Fields and what a parameter points to are printed again."""
    from warpsim.ptx.parser import parse
    from warpsim.ptx.printer import print_module

    text = HEAD.format("") + f".global .{kind} t[1] = {{{{{FIELD[kind]} = nearest, {FIELD[kind]} = 4}}}};\n"
    module = parse(text + ENTRY.format(f".param .u64 .ptr .{kind} .align 8 p", ""))

    assert f"{{{{{FIELD[kind]} = nearest, {FIELD[kind]} = 4}}}}" in print_module(module)
    assert parse(print_module(module)) == module

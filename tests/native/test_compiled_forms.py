"""The list of the forms that become machine code, with the reasons of the others (docs/tools/compiled.py makes it)."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from warpsim.isa import spec

REASONS = {
    "128-bit registers",
    "a collective with memory",
    "a matrix product of this kind",
    "a vector of atomics",
    "addresses in the cluster",
    "an access of more than 16 bytes",
    "an atomic at a generic address",
    "an atomic of 64 bits in shared memory",
    "asynchronous",
    "checks its operands",
    "leaves the function",
    "mbarriers and proxies",
    "parameters of a function",
    "shared memory of the cluster",
    "tensor maps",
    "tensor memory",
    "textures and surfaces",
    "the thread's stack",
    "waits",
}
"""Each is something that machine code does not do, never how a body happens to be written."""


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What makes the list."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    return importlib.import_module("docs.tools.compiled")


def test_every_form_is_listed(compiled: Any) -> None:
    """Each with ``compiled``, reasons, or both; the first spelling is as the list says."""
    listed = compiled.listed()
    found = {key: said for root in spec.opcodes() for key, said in compiled.verdicts(root, 1).items()}

    assert found.keys() == listed.keys()
    assert {reason for said in listed.values() for reason in said} == {compiled.COMPILED, *REASONS}
    assert {key: said for key, said in found.items() if not said <= set(listed[key])} == {}


@pytest.mark.long
def test_every_spelling(compiled: Any) -> None:
    """The list is what the script writes."""
    found = {key: said for root in spec.opcodes() for key, said in compiled.verdicts(root).items()}

    assert found == {key: set(said) for key, said in compiled.listed().items()}

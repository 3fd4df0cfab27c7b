"""How instructions are declared: the manual's syntax block above a function on arrays that gives its meaning.

`instruction` registers a function under the opcodes of its block. Blocks are parsed when an opcode is first looked up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from warpsim.isa import syntax
from warpsim.isa.spec import Declaration, Form, Gate, Op, Scope, Target, forms_of
from warpsim.isa.traits import PLAIN, Traits

Function = TypeVar("Function", bound=Callable[..., Any])


def instruction(
    block: str,
    *,
    anchor: str,
    scope: Scope = Scope.THREAD,
    types: Mapping[str, Any] | None = None,
    vectors: Mapping[str, Any] | None = None,
    relaxed: bool | Collection[str] | Callable[[Op], bool] = False,
    version: tuple[int, int] | None = None,
    target: Target | None = None,
    arch: Target | None = None,
    until: tuple[int, tuple[int, int]] | None = None,
    gates: Mapping[str, Gate] | None = None,
    gate: Callable[[Op], Gate | None] | None = None,
    legal: Callable[[Op], str | None] | None = None,
    classes: Mapping[str, Sequence[str]] | None = None,
    constants: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    registers: Collection[str] | Mapping[str, Callable[[Op], bool]] = (),
    sinks: Collection[str] = (),
    exact: Collection[str] | Mapping[str, Callable[[Op], bool]] = (),
    checked_as: Mapping[str, Any] | None = None,
    kinds: Mapping[str, str] | None = None,
    spaces: Mapping[str, Any] | None = None,
    bare: Mapping[str, Any] | None = None,
    destinations: Collection[str] | None = None,
    traits: Traits | Callable[[Op], Traits] = PLAIN,
) -> Callable[[Function], Function]:
    """Declare the forms of ``block``, with the function below as their meaning. May be stacked.

    - ``types``: operand -> ``".u32"``, the name of a slot (``"atype"``), ``"2*type"``, ``"type/2"`` (bits of half the width), ``"bits"`` /
      ``"bits:atype"`` (untyped, of the same width), or a function of the op. Default: ``.pred`` for ``{!}c`` and the second of ``d|p``,
      else the slot ``type``.
    - ``vectors``: operand -> number of elements in braces, the name of a slot (``"vec"``: ``.v4`` is 4), or a function of the op. 1 is a
      scalar without braces, or in warp-wide instructions one element in braces; 0 takes as many elements as the type needs (mov).
      Default: ``d`` and ``b`` follow the slot ``.vec``, if the block has one.
    - ``relaxed``: registers may be wider than the type (all operands, those named, or all where a function of the op says so).
    - ``version``, ``target`` (``arch`` is the same for ``"90a"``): what all forms require. ``until``: the target and PTX version from
      which on, together, the forms no longer exist. ``gates``: modifier word -> ``(target, version)``, such as ``{".bf16": (80, (7,
      0))}``; a key ``"atype.e4m3"`` applies to that slot only. ``gate``: the same as a function of the op.
    - ``legal``: a function of the op that returns why these modifiers cannot be combined, or None.
    - ``classes``: modifier classes besides those of the block, name -> words without dots.
    - ``constants``: operand -> the values of a mandatory immediate: ``(least, greatest)``, a set, None for any, or a function of the op.
      ``limits``: the same for operands that may also be registers. ``registers``: never immediates, and never ``_``;
      in a mapping, if its function of the op says so.
    - ``sinks``: destinations for which ``_`` is allowed (it always is for elements of vectors and halves of pairs).
    - ``exact``: operands whose register must be declared ``.bN``; in a mapping, if its function of the op says so.
    - ``checked_as``: operand -> the type whose registers it takes, without pairs of halves if that is an integer; for where the assembler
      does not go by the operand's own type. As in ``types``, or None from a function of the op.
    - ``kinds``: operand -> target, tlist. ``spaces``: address operand -> the spaces of a symbol in it (``{"shared"}``); by default the
      slot ``space`` or ``ss``. ``bare``: address operand -> ``"address"`` if the assembler accepts it without brackets, ``"value"`` if it
      accepts a 64-bit register or a number, or a function of the op.
    - ``destinations``: the operands written; by default those that are not parameters of the function.
    - ``traits``: what passes and checks must know, as a value or a function of the op.
    """
    options = {
        "anchor": anchor,
        "scope": scope,
        "types": types or {},
        "vectors": vectors or {},
        "relaxed": relaxed,
        "version": version,
        "target": (tuple(arch.split()) if isinstance(arch, str) else arch) if arch else target or None,
        "until": until,
        "gates": {key.lstrip("."): value for key, value in (gates or {}).items()},
        "gate": gate,
        "legal": legal,
        "classes": classes,
        "constants": constants or {},
        "limits": limits or {},
        "registers": registers,
        "sinks": sinks,
        "exact": exact,
        "checked_as": checked_as or {},
        "kinds": kinds or {},
        "spaces": spaces or {},
        "bare": bare or {},
        "destinations": destinations,
        "traits": traits,
    }

    def declare(function: Function) -> Function:
        declaration = Declaration(block, function, options)
        for root in syntax.roots(block):
            REGISTRY.declare(root, declaration)
        return function

    return declare


class Registry(Mapping[str, list[Form]]):
    """Every opcode with its forms. An opcode's blocks are parsed on first use."""

    def __init__(self) -> None:
        self.revision = 0  # counts declarations, for users that cache results
        self._declared: dict[str, list[Declaration]] = {}
        self._forms: dict[str, list[Form]] = {}
        self._parsed: dict[int, list[Form]] = {}
        self._blocks: dict[Callable[..., Any], list[Declaration]] = {}
        self._lock = threading.RLock()

    def declare(self, root: str, declaration: Declaration) -> None:
        """Keep a block for later."""
        self._declared.setdefault(root, []).append(declaration)
        blocks = self._blocks.setdefault(declaration.function, [])
        if declaration not in blocks:
            blocks.append(declaration)
        self._forms.pop(root, None)
        self.revision += 1

    def __getitem__(self, root: str) -> list[Form]:
        forms = self._forms.get(root)
        if forms is None:
            forms = []
            with self._lock:
                for declaration in self._declared[root]:
                    if id(declaration) not in self._parsed:
                        self._parsed[id(declaration)] = forms_of(declaration, self._blocks[declaration.function])
                    forms += [form for form in self._parsed[id(declaration)] if form.root == root]
                self._forms[root] = forms
        return forms

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)

    def __contains__(self, root: object) -> bool:
        return root in self._declared


REGISTRY = Registry()


def opcodes() -> list[str]:
    """Every declared opcode."""
    return list(REGISTRY)


def forms(root: str) -> list[Form]:
    """The forms of an opcode; empty if it is not declared."""
    return REGISTRY.get(root, [])

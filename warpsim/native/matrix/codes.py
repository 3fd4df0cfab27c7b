"""Compiled products of matrices: kept on disk, made where it pays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TypeVar, cast

from warpsim.cache import digest
from warpsim.native.compiling.compiler import compiled_function, kept_function
from warpsim.native.compiling.images import Function, function_at
from warpsim.native.compiling.queue import compile_queue, tell
from warpsim.native.tiering.cost import (
    FIRST_SHARE,
    PRODUCT,
    QUEUED_SHARE,
    Account,
    Policy,
    account_of_product,
    share_of,
)

T = TypeVar("T")
Key = tuple[object, ...]
"""An instruction's text, and what else decides its code."""


class Codes:
    """Compiled products."""

    def __init__(self) -> None:
        self.texts: dict[Key, tuple[str, str]] = {}
        self.functions: dict[Key, Function | None] = {}
        """None: it failed to compile."""
        self.sought: set[Key] = set()
        """What was looked up on disk."""
        self.wanted: dict[Key, Callable[[str], str]] = {}
        """What this launch has asked for in vain."""
        self.plans: dict[Key, object] = {}
        self.lock = threading.RLock()

    def of(self, key: Key, make: Callable[[str], str], policy: Policy) -> Function | None:
        """A function, None while it does not pay. ``make`` writes it under a name."""
        if key in self.functions:
            return self.functions[key]
        if key not in self.sought:
            self.sought.add(key)
            kept = kept_function(_name(key))
            if kept is not None:
                self.functions[key] = function_at(kept)
                return self.functions[key]
        if policy is Policy.AT_ONCE or account_of_key(key).allows(PRODUCT, FIRST_SHARE):
            with self.lock:
                if key not in self.functions:
                    self._make(key, make)
                return self.functions[key]
        self.wanted[key] = make
        return None

    def text(self, key: Key, make: Callable[[str], str]) -> tuple[str, str]:
        """A product's module, and its function's name."""
        with self.lock:
            if key not in self.texts:
                text = make("matrix_core")
                name = "matrix_" + digest(text)[:24]
                self.texts[key] = text.replace("@matrix_core(", f"@{name}("), name
            return self.texts[key]

    def over(self, policy: Policy) -> None:
        """A launch is over: what it has asked for in vain is compiled behind it, where that pays."""
        for key in list(self.wanted):  # those of other threads add to them meanwhile, and take some
            make = self.wanted.pop(key, None)
            account = account_of_key(key)
            share = QUEUED_SHARE if policy is Policy.ASKED else share_of(account.launches)
            if make is not None and account.allows(PRODUCT, share):
                account.compiled += PRODUCT
                compile_queue().submit(partial(self._make_behind, key, make))

    def _make(self, key: Key, make: Callable[[str], str]) -> None:
        text, name = self.text(key, make)
        self.functions[key] = function_at(compiled_function(_name(key), text, name))

    def _make_behind(self, key: Key, make: Callable[[str], str]) -> None:
        """Make a product behind a launch. One that fails is told of once, and left to the instruction's body."""
        try:
            self._make(key, make)
        except Exception:
            tell()
            self.functions.setdefault(key, None)

    def planned(self, key: Key, make: Callable[[], T]) -> T:
        """A key's plan, made once."""
        if key not in self.plans:
            self.plans[key] = make()
        return cast("T", self.plans[key])


def _name(key: Key) -> str:
    return f"product {key}"


def account_of_key(key: Key) -> Account:
    """What the products of a key have cost, and what was spent on them."""
    return account_of_product(str(key[0]))


@lru_cache(maxsize=1)
def codes() -> Codes:
    """The process-wide instance."""
    return Codes()


def unreported(*_: object, **__: object) -> None:
    """Metadata was checked when its positions were read."""

"""Classes of attrs whose methods are made when they are first used.

attrs compiles the methods of a class where it is declared, which takes half a millisecond: a process that starts declares 180
classes, and makes objects of 60. Everything else is as attrs has it. Commands that make no such objects start without attrs, a third
sooner.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["SharedByCopies", "cached_property", "changed", "define", "field", "frozen"]


class _Later:
    """A method, or a fact of the class, that takes its place when it is first asked for."""

    def __init__(self, model: Callable[[], type]) -> None:
        self._model = model

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> Any:
        setattr(self._owner, self._name, vars(self._model())[self._name])
        return getattr(owner if instance is None else instance, self._name)


class _Field:
    """`attrs.field`, for modules that are imported without attrs."""

    def __init__(self, **options: object) -> None:
        self._options = options

    def made(self) -> object:
        """The field."""
        import attrs

        return attrs.field(**self._options)  # type: ignore[call-overload]


def _immutable(instance: object, name: str, value: object = None) -> None:
    import attrs

    raise attrs.exceptions.FrozenInstanceError


def _record(kind: str, given: type | None = None, *, eq: bool = True, repr: bool = True, **options: Any) -> Any:
    """A class like the one that ``attrs.define`` or ``attrs.frozen``, the ``kind``, makes of ``given``; without ``given``, a decorator."""
    if given is None:
        return partial(_record, kind, eq=eq, repr=repr, **options)
    own = {**vars(given), "__qualname__": given.__qualname__}
    slots, immutable = options.get("slots", True), kind == "frozen"
    kinds = own.get("__annotations__", {})
    fields = [name for name, kind in kinds.items() if not kind.startswith("ClassVar")]
    models: dict[bool, type] = {}

    def model(*, whole: bool) -> type:
        if whole not in models:
            import attrs

            declared = {*fields, "__annotations__", "__attrs_post_init__", "__module__", "__qualname__"}
            found = {name: value for name, value in own.items() if name in declared}
            bare = {name: value.made() if isinstance(value, _Field) else value for name, value in found.items()}
            made = getattr(attrs, kind)(**options, eq=eq and whole, repr=repr and whole)
            models[whole] = made(type(given)(given.__name__, given.__bases__, bare))
        return models[whole]

    plain, whole = partial(model, whole=False), partial(model, whole=True)
    later: dict[Callable[[], type], list[str]] = {
        plain: ["__init__", "__attrs_attrs__", "__match_args__"]
        + ["__getstate__", "__setstate__"] * slots
        + ["__replace__"] * (sys.version_info >= (3, 13)),
        whole: ["__repr__"] * repr + ["__eq__", "__ne__"] * eq + ["__hash__"] * (eq and immutable),
    }
    body: dict[str, Any] = {
        name: value for name, value in own.items() if name not in (*fields, "__dict__", "__weakref__")
    }
    body |= {name: _Later(made) for made, names in later.items() for name in names if name not in own}
    if eq and not immutable:
        body["__hash__"] = None
    if immutable:
        body |= {"__setattr__": _immutable, "__delattr__": _immutable}
    if slots:
        weak = any(hasattr(base, "__weakref__") for base in given.__bases__)
        body["__slots__"] = fields if weak else [*fields, "__weakref__"]
    return type(given)(given.__name__, given.__bases__, body)


T = TypeVar("T")


def changed(record: T, **changes: object) -> T:
    """A copy of a record, all of whose slots are set, with some changed. No initialiser runs, for which `attrs.evolve` would have one
    made."""
    made = object.__new__(type(record))
    for name in record.__slots__:  # type: ignore[attr-defined]
        if name != "__weakref__":
            object.__setattr__(made, name, getattr(record, name))
    for name, value in changes.items():
        object.__setattr__(made, name, value)
    return made


class SharedByCopies:
    """What a copy of a state shares with it, as it never changes."""

    __slots__ = ()

    def __deepcopy__(self: T, memo: object) -> T:
        return self


class _Cached:
    """`functools.cached_property` without the lock that Python had before 3.12, which takes longer than what it guards."""

    def __init__(self, compute: Callable[[object], object]) -> None:
        self._compute, self._name, self.__doc__ = compute, compute.__name__, compute.__doc__

    def __get__(self, instance: object, owner: type) -> object:
        if instance is None:
            return self
        found = instance.__dict__[self._name] = self._compute(instance)
        return found


if TYPE_CHECKING:
    from functools import cached_property

    from attrs import define, field, frozen
else:
    cached_property = _Cached
    define, field, frozen = partial(_record, "define"), _Field, partial(_record, "frozen")

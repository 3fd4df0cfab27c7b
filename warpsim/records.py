"""Classes as attrs makes them, whose methods are made when they are first used.

attrs compiles the methods of a class where it is declared, which takes half a millisecond: a process that starts declares 280
classes, and makes objects of 90. What such a process needs of them is made here, in a fifth of the time; attrs, whose import takes
as long as 30 classes, makes the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["SharedByCopies", "asdict", "cached_property", "changed", "define", "evolve", "field", "fields", "frozen"]


T = TypeVar("T")


class _Later:
    """A method, or a fact of a class, which `make` makes of the class when it is first asked for: it then takes this place."""

    def __init__(self, name: str, make: Callable[[type], object]) -> None:
        self._name, self._make = name, make

    def __get__(self, instance: object, owner: type) -> object:
        record = next((each for each in owner.__mro__ if vars(each).get(self._name) is self), None)
        if record is None:  # another thread was faster
            return getattr(owner if instance is None else instance, self._name)
        made = self._make(record)
        setattr(record, self._name, made)
        return made.__get__(instance, owner) if isinstance(made, FunctionType) else made


class _Field:
    """`attrs.field`, for modules that are imported without attrs."""

    def __init__(self, **options: object) -> None:
        self.options = options

    def default(self, method: Callable[[object], object]) -> Callable[[object], object]:
        """Take the default from a method."""
        self.options["method"] = method
        return method

    def made(self) -> object:
        """The field."""
        import attrs

        options = {name: value for name, value in self.options.items() if name != "method"}
        if "method" in self.options:
            options["default"] = attrs.Factory(self.options["method"], takes_self=True)  # type: ignore[call-overload]
        return attrs.field(**options)  # type: ignore[call-overload]


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


_NONE = _Nothing()
"""Where there is no default."""


class _Fact:
    """What a field of a class is, as `attrs.fields` tells. ``make`` makes its default, of the object if ``of_object``."""

    def __init__(self, name: str, kind: str, value: object, *, kw_only: bool) -> None:
        options = value.options if isinstance(value, _Field) else {"default": value}
        self.name, self.alias, self.type = name, name.lstrip("_"), kind
        self.init, self.eq = options.get("init", True), options.get("eq", True)
        self.kw_only, self.default = kw_only or bool(options.get("kw_only")), options.get("default", _NONE)
        self.of_object = "method" in options
        self.make = options["method"] if self.of_object else options.get("factory")
        if type(value).__module__.startswith("attr"):
            raise TypeError(f"{name}: write `field` of warpsim.records, not attrs.field")


@functools.cache
def _fields(record: type) -> tuple[_Fact, ...]:
    found: dict[str, _Fact] = {}
    for base in reversed(record.__mro__):
        given, _, options = vars(base).get("__given__", (object, "", {}))
        for name in _names(given):
            found.pop(name, None)
            kind, value = given.__annotations__[name], vars(given).get(name, _NONE)
            found[name] = _Fact(name, kind, value, kw_only=options.get("kw_only", False))
    return tuple(found.values())


def _names(given: type) -> list[str]:
    """The fields that a class itself declares."""
    kinds: dict[str, str] = vars(given).get("__annotations__", {})
    return [name for name, kind in kinds.items() if not kind.startswith("ClassVar")]


def _evolve(record: T, **changes: object) -> T:
    for fact in _fields(type(record)):  # type: ignore[arg-type]
        if fact.init and fact.alias not in changes:
            changes[fact.alias] = getattr(record, fact.name)
    return type(record)(**changes)


def _asdict(record: object, **options: object) -> dict[str, object]:
    import attrs

    return attrs.asdict(record, **options)  # type: ignore[arg-type]


def _function(
    record: type, name: str, parameters: list[str], lines: list[str], scope: dict[str, object]
) -> FunctionType:
    """A method of a class."""
    text = f"def {name}({', '.join(['self', *parameters])}):\n " + "\n ".join(lines or ["pass"])
    exec(compile(text, f"<{record.__module__}.{record.__qualname__}>", "exec"), scope)
    made = scope[name]
    assert isinstance(made, FunctionType)
    made.__qualname__ = f"{record.__qualname__}.{name}"
    return made


_SETTING = {False: ("", "self.{0} = {1}"), True: ("_set = _bind(self)", "_set('{0}', {1})")}
"""How an initialiser begins, and sets a field of a class that can be changed, or cannot."""


def _initialiser(record: type) -> object:
    begin, setting = _SETTING[record.__given__[1] == "frozen"]  # type: ignore[attr-defined]
    scope: dict[str, object] = {"_bind": object.__setattr__.__get__, "_NONE": _NONE}
    given: dict[bool, list[str]] = {False: [], True: []}
    lines, annotations = [begin] * bool(begin), {"return": None}
    for fact in _fields(record):
        value, default = fact.alias, f"_of_{fact.name}"
        scope[default] = fact.make or fact.default
        made = f"{default}({'self' * fact.of_object})"
        if fact.init:
            has = fact.make or fact.default is not _NONE
            given[fact.kw_only].append(value + (f"={'_NONE' if fact.make else default}" if has else ""))
            annotations[value] = fact.type  # type: ignore[assignment]
            value = f"{made} if {value} is _NONE else {value}" if fact.make else value
        elif fact.make or fact.default is not _NONE:
            value = made if fact.make else default
        else:
            continue
        lines.append(setting.format(fact.name, value))
    if hasattr(record, "__attrs_post_init__"):
        lines.append("self.__attrs_post_init__()")
    function = _function(record, "__init__", given[False] + ["*"] * bool(given[True]) + given[True], lines, scope)
    function.__annotations__ = annotations
    return function


def _compared(record: type, scope: dict[str, object], *objects: str) -> list[list[str]]:
    """What counts for the equality of a class's objects, of each field."""
    facts = [fact for fact in _fields(record) if fact.eq]
    scope |= {f"_of_{fact.name}": fact.eq for fact in facts}
    return [
        [f"_of_{fact.name}({made}.{fact.name})" if callable(fact.eq) else f"{made}.{fact.name}" for made in objects]
        for fact in facts
    ]


def _equality(record: type) -> object:
    scope: dict[str, object] = {}
    pairs = " and ".join(" == ".join(pair) for pair in _compared(record, scope, "self", "other"))
    lines = ["if other.__class__ is not self.__class__: return NotImplemented", f"return {pairs or True}"]
    return _function(record, "__eq__", ["other"], lines, scope)


def _hash(record: type) -> object:
    scope: dict[str, object] = {"_record": record}
    parts = ["_record", *[part for (part,) in _compared(record, scope, "self")]]
    return _function(record, "__hash__", [], [f"return hash(({', '.join(parts)},))"], scope)


def _by_attrs(name: str, record: type) -> object:
    """What attrs makes of that name."""
    return vars(_model(record))[name]


@functools.cache
def _model(record: type) -> type:
    import attrs

    given, kind, options = record.__given__  # type: ignore[attr-defined]
    declared = {*_names(given), "__annotations__", "__attrs_post_init__", "__module__"}
    found = {name: value for name, value in vars(given).items() if name in declared}
    bare = {name: value.made() if isinstance(value, _Field) else value for name, value in found.items()}
    made = getattr(attrs, kind)(**options, eq=False, init=False)
    whole: type = made(type(given)(given.__name__, given.__bases__, {**bare, "__qualname__": given.__qualname__}))
    return whole


def _immutable(instance: object, name: str, value: object = None) -> None:
    import attrs

    raise attrs.exceptions.FrozenInstanceError


def _later(*names: str) -> dict[str, object]:
    return {name: _Later(name, partial(_by_attrs, name)) for name in names}


_ALWAYS = {
    **_later("__attrs_attrs__", "__match_args__"),
    "__init__": _Later("__init__", _initialiser),
    "__replace__": _evolve,
}
_SLOTS, _REPR = _later("__getstate__", "__setstate__"), _later("__repr__")
_EQ, _HASH = {"__eq__": _Later("__eq__", _equality)}, {"__hash__": _Later("__hash__", _hash)}
_FROZEN = {"__setattr__": _immutable, "__delattr__": _immutable}


def _record(kind: str, given: type | None = None, *, eq: bool = True, repr: bool = True, **options: Any) -> Any:
    """A class like the one that ``attrs.define`` or ``attrs.frozen``, the ``kind``, makes of ``given``; without ``given``, a decorator."""
    if given is None:
        return partial(_record, kind, eq=eq, repr=repr, **options)
    slots, immutable, names = options.get("slots", True), kind == "frozen", _names(given)
    body: dict[str, Any] = {**_ALWAYS}
    if slots:
        weak = any(hasattr(base, "__weakref__") for base in given.__bases__)
        body |= {"__slots__": names if weak else [*names, "__weakref__"], **_SLOTS}
    if repr:
        body |= _REPR
    if eq:
        body |= _EQ | (_HASH if immutable else {})
    body |= vars(given)
    for name in (*names, "__dict__", "__weakref__"):
        body.pop(name, None)
    if eq and not immutable:
        body["__hash__"] = None
    if immutable:
        body |= _FROZEN
    body |= {"__given__": (given, kind, options), "__qualname__": given.__qualname__}
    return type(given)(given.__name__, given.__bases__, body)


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
    """What copies share."""

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

    from attrs import asdict, define, evolve, field, fields, frozen
else:
    asdict, cached_property, evolve, field, fields = _asdict, _Cached, _evolve, _Field, _fields
    define, frozen = partial(_record, "define"), partial(_record, "frozen")

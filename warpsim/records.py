"""Classes of attrs whose methods are made when they are first used.

attrs compiles the methods of a class where it is declared, which takes half a millisecond: a process that starts declares 180
classes, and makes objects of 60. What makes objects is compiled here, in a fifth of the time. Everything else is as attrs has it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import attrs

__all__ = ["cached_property", "changed", "define", "frozen"]


Methods: TypeAlias = Mapping[str, Any]
_FIELD: type = type(attrs.field())
_FACTORY: type = type(attrs.Factory(list))


class _Later:
    """A method, or a fact of the class, that takes its place when it is first asked for."""

    def __init__(self, methods: Callable[[], Methods]) -> None:
        self._methods = methods

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> Any:
        setattr(self._owner, self._name, self._methods()[self._name])
        return getattr(owner if instance is None else instance, self._name)


def _immutable(instance: object, name: str, value: object = None) -> None:
    raise attrs.exceptions.FrozenInstanceError


def _argument(own: Methods, field_name: str, names: dict[str, object]) -> tuple[str, str] | None:
    """How a field is given to the initialiser (empty: it is not), and its value (empty: none), in terms of ``names``, which grow by
    those of defaults. None where there is more to it."""
    field = default = own[field_name]
    name, given, made, kind = field_name.lstrip("_"), True, f"_made{len(names)}", type(field)
    if kind is _FIELD:
        default, given, kind = field._default, field.init, type(field._default)
        if field._validator or field.converter or field.kw_only or field.on_setattr or field.alias:
            return None
    if default is attrs.NOTHING:
        return (name, name) if given else ("", "")
    if kind is not _FACTORY:
        names[made] = default
        return (f"{name}={made}", name) if given else ("", made)
    names[made] = default.factory
    if default.takes_self:
        return None
    return (f"{name}=_NOTHING", f"{made}() if {name} is _NOTHING else {name}") if given else ("", f"{made}()")


def _initialiser(
    own: Methods, fields: list[str], places: Methods, *, slots: bool, immutable: bool
) -> FunctionType | None:
    """What makes the objects of a class with these fields, as attrs has it, given their ``places`` if it has slots; None where there
    is more to it."""
    own = {**dict.fromkeys(fields, attrs.NOTHING), **own}
    names: dict[str, object] = {"_NOTHING": attrs.NOTHING}
    arguments, lines, kinds = ["self"], ["pass"], {"return": None}
    store = "self.{} = {}" if not immutable else "_set_{}(self, {})" if slots else "_stored['{}'] = {}"
    if immutable and slots:
        names |= {f"_set_{name}": places[name].__set__ for name in fields}
    elif immutable:
        lines = ["_stored = self.__dict__"]
    for name in fields:
        found = _argument(own, name, names)
        if found is None:
            return None
        argument, value = found
        if argument:
            arguments.append(argument)
            kinds[name.lstrip("_")] = own["__annotations__"][name]
        if value:
            lines.append(store.format(name, value))
    if "__attrs_post_init__" in own:
        lines.append("self.__attrs_post_init__()")
    exec(f"def __init__({', '.join(arguments)}):\n    {'; '.join(lines)}", names)
    made = names["__init__"]
    assert isinstance(made, FunctionType)
    made.__annotations__, made.__qualname__ = kinds, f"{own['__qualname__']}.__init__"
    return made


def _record(decorate: Any, given: type | None = None, *, eq: bool = True, repr: bool = True, **options: Any) -> Any:
    """A class like the one that ``decorate`` makes of ``given``; without ``given``, a decorator."""
    if given is None:
        return partial(_record, decorate, eq=eq, repr=repr, **options)
    own = {**vars(given), "__qualname__": given.__qualname__}
    slots, immutable = options.get("slots", True), decorate is attrs.frozen
    kinds = own.get("__annotations__", {})
    fields = [name for name, kind in kinds.items() if not kind.startswith("ClassVar")]
    declared = {*fields, "__annotations__", "__attrs_post_init__", "__module__", "__qualname__"}
    bare = {name: value for name, value in own.items() if name in declared}

    def model(**methods: bool) -> Methods:
        return vars(decorate(**options, **methods)(type(given)(given.__name__, given.__bases__, dict(bare))))

    def initialiser() -> Methods:
        simple = given.__bases__ == (object,) and not options.keys() - {"slots"}
        made = _initialiser(own, fields, vars(result), slots=slots, immutable=immutable) if simple else None
        return plain() if made is None else {"__init__": made}

    plain, whole = cache(partial(model, eq=False, repr=False)), cache(partial(model, eq=eq, repr=repr))
    later: dict[Callable[[], Methods], list[str]] = {
        initialiser: ["__init__"],
        plain: ["__attrs_attrs__", "__match_args__"]
        + ["__getstate__", "__setstate__"] * slots
        + ["__replace__"] * (sys.version_info >= (3, 13)),
        whole: ["__repr__"] * repr + ["__eq__", "__ne__"] * eq + ["__hash__"] * (eq and immutable),
    }
    body: dict[str, object] = {
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
    result: type = type(given)(given.__name__, given.__bases__, body)
    return result


T = TypeVar("T")


def changed(record: T, **changes: object) -> T:
    """A copy of a record that has slots, and takes all of them, with some changed. `attrs.evolve` asks first what the class is, which
    has to be made for that."""
    made = object.__new__(type(record))
    for name in record.__slots__:  # type: ignore[attr-defined]
        if name != "__weakref__":
            object.__setattr__(made, name, changes[name] if name in changes else getattr(record, name))
    return made


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

    from attrs import define, frozen
else:
    cached_property = _Cached
    define, frozen = partial(_record, attrs.define), partial(_record, attrs.frozen)

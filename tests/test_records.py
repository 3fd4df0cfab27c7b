"""Records behave as the classes that attrs makes at once."""

from __future__ import annotations

import copy
import inspect
import pickle
import sys
import weakref
from typing import ClassVar

import attrs
import pytest

from warpsim import records


def declared(decorate, field):
    """A class and one that inherits from it, each with one of everything that the package uses."""

    @decorate
    class Base:
        """A base."""

        kinds: ClassVar = ("a", "b")
        x: int
        hidden: str = field(default="h", eq=False, repr=False)
        parts: list[int] = field(factory=list)
        _own: int = 5
        counted: int = field(init=False, default=3)
        noted: list[int] = field(init=False, factory=list, repr=False)

        def __attrs_post_init__(self):
            self.parts.append(self.x)

        @property
        def double(self):
            return 2 * self.x

    @decorate
    class Derived(Base):
        """A derived one."""

        y: int = field(default=4, kw_only=True)

        def __str__(self):
            return f"derived {self.x}"

    return Base, Derived


def facts(cls):
    """What can be asked of a class and its objects."""
    one, same, other = cls(1), cls(1, "other"), cls(2)
    copied = copy.copy(one)
    changed = attrs.evolve(one, x=7, parts=[])
    yield [
        repr(one),
        str(one),
        repr(changed),
        one.double,
        one.parts,
        one.noted,
        copied.parts is one.parts,
        cls.kinds,
        cls.__doc__,
    ]
    yield [one == same, one != same, one == other, one == copied, weakref.ref(one)() is one]
    yield [hasattr(one, "__dict__"), inspect.signature(cls), cls.__match_args__, cls.__qualname__, cls.__module__]
    if sys.version_info >= (3, 13):
        yield repr(copy.replace(one, x=5, parts=[]))
    yield [attrs.asdict(one), [field.name for field in attrs.fields(cls)], cls.kinds]
    for attempt in (
        lambda: hash((cls(1).x, type(hash(one)))),
        lambda: setattr(one, "x", 3),
        lambda: setattr(one, "z", 3),
        cls,
    ):
        try:
            yield attempt()
        except (TypeError, AttributeError) as problem:
            yield type(problem)


@pytest.mark.parametrize("options", [{}, {"eq": False}, {"repr": False}, {"slots": False}, {"kw_only": False}])
@pytest.mark.parametrize("kind", ["frozen", "define"])
def test_like_attrs(kind, options):
    """A record answers as the same class of attrs does, whichever method is used first."""
    expected = declared(getattr(attrs, kind)(**options), attrs.field)
    made = declared(getattr(records, kind)(**options), records.field)

    if options.get("repr", True):
        assert [list(facts(cls)) for cls in expected] == [list(facts(cls)) for cls in made]
    else:
        assert all("Base object at" in repr(cls(1)) or "Derived object at" in repr(cls(1)) for cls in made)


@records.frozen
class Sent:
    """A record that is pickled."""

    x: int
    more: tuple[int, ...] = ()


def test_pickled():
    """A record comes back as it was, and cannot be changed then either."""
    back = pickle.loads(pickle.dumps(Sent(1, (2, 3))))

    assert (Sent(1, (2, 3)), hash(Sent(1, (2, 3)))) == (back, hash(back))
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        back.x = 2
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        del back.x


def test_made_when_used():
    """A method is compiled when it is used, and once: only its first use finds the stand-in."""

    @records.frozen
    class Fresh:
        x: int

    assert not inspect.isfunction(vars(Fresh)["__init__"])
    assert Fresh(1) == Fresh(1)
    assert inspect.isfunction(vars(Fresh)["__init__"])
    assert inspect.isfunction(vars(Fresh)["__eq__"])
    assert not inspect.isfunction(vars(Fresh)["__repr__"])


@pytest.mark.parametrize("kind", ["frozen", "define"])
def test_changed(kind):
    """A copy with other values, of fields that there are."""

    @getattr(records, kind)
    class Pair:
        x: int
        y: list[int]

    one = Pair(1, [])
    other = records.changed(one, x=2)

    assert (one.x, other.x, other.y is one.y, other == attrs.evolve(one, x=2)) == (1, 2, True, True)
    with pytest.raises(AttributeError):
        records.changed(one, z=2)

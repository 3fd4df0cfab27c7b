"""Values that the user keeps: those printed (``$1``, ``$``, ``$$``, ``$$3``) and those given a name (``$i``)."""

from __future__ import annotations

import re

from warpsim.debug.errors import DebugError
from warpsim.debug.values import Value

_PRINTED = re.compile(r"\$(\$?)([0-9]*)")


class Convenience:
    """The history of printed values, and the convenience variables."""

    def __init__(self) -> None:
        self.history: list[Value] = []
        self.named: dict[str, Value] = {}

    def keep(self, value: Value) -> None:
        """Append a printed value to the history."""
        self.history.append(value)

    def name(self, name: str, value: Value) -> None:
        """Give a convenience variable a value.

        Raises:
            DebugError: this is not the name of one.
        """
        if not re.fullmatch(r"\$[A-Za-z_]\w*", name) or name == "$pc":
            raise DebugError(f"{name} cannot be changed: a convenience variable is a $ and a name, such as $i")
        self.named[name] = value

    def find(self, name: str) -> Value | None:
        """The value of ``$name``; of ``$3``, the third of the history; of ``$``, ``$$`` and ``$$3``, the last, the one
        before it, and the third before it. None if there is none."""
        found = _PRINTED.fullmatch(name)
        if found is None:
            return self.named.get(name)
        back, digits = found.groups()
        last = len(self.history)
        number = last - int(digits or 1) if back else int(digits or last)
        return self.history[number - 1] if 1 <= number <= last else None

"""Words of PTX's grammar other than instructions: which directives may appear where, and the types of variables."""

from __future__ import annotations

SPACES = frozenset({".reg", ".const", ".global", ".local", ".param", ".shared"})
LEADING = frozenset({".align", ".attribute"})
"""Directives that may precede the state space of a declaration."""
DECLARING = SPACES | LEADING
OPAQUE = frozenset({"texref", "samplerref", "surfref"})
TYPES = OPAQUE.union(
    [f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)],
    ["b128", "f16", "f16x2", "f32", "f64", "u16x2", "s16x2", "e4m3", "e5m2", "e4m3x2", "e5m2x2", "pred"],
)
"""Types of variables; .bf16 and .tf32 are types of instructions only."""

ENTRY_DIRECTIVES = {
    "maxntid": 3,
    "reqntid": 3,
    "minnctapersm": 1,
    "maxnctapersm": 1,
    "maxnreg": 1,
    "reqnctapercluster": 3,
    "explicitcluster": 0,
    "maxclusterrank": 1,
    "blocksareclusters": 0,
    "language": 16,
    "pragma": 1,
}
"""Directives between the parameters and the body of an .entry, with the maximum number of arguments."""

TILE_IR = 7
"""What ``.language`` says of kernels of tileiras. These may have more than 48 KB of static shared memory."""

FUNC_DIRECTIVES = {"noreturn": 0, "abi_preserve": 1, "abi_preserve_control": 1}
"""The same for a .func: .noreturn comes first, and each appears once."""
POSITIVE = frozenset({"maxntid", "reqntid", "minnctapersm", "maxnreg"})
LISTS = frozenset({"maxntid", "reqntid", "reqnctapercluster"})
NEWER: dict[str, tuple[int, tuple[int, int]]] = {
    **dict.fromkeys(("reqnctapercluster", "maxclusterrank", "explicitcluster"), (90, (7, 8))),
    "blocksareclusters": (90, (9, 0)),
    **dict.fromkeys(("abi_preserve", "abi_preserve_control"), (0, (9, 0))),
    "noreturn": (0, (6, 4)),
    "loc_intermediate": (0, (9, 4)),
    "alias": (0, (6, 3)),
}
"""The target and PTX version that introduced a directive."""

MODULE_DIRECTIVES = frozenset({"pragma", "file", "alias"})
NEWEST = (9, 5)
VERSIONS = frozenset(
    (major, minor)
    for major, last in ((1, 5), (2, 3), (3, 2), (4, 3), (5, 0), (6, 5), (7, 8), (8, 8), NEWEST)
    for minor in range(last + 1)
)
"""Published versions up to the newest that is known here."""
TARGETS = frozenset(
    (
        *(10, 11, 12, 13, 20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75),
        *(80, 86, 87, 88, 89, 90, 100, 101, 103, 107, 110, 120, 121),
    )
)
SUFFIXED = {"": 0, "a": 90, "f": 100}
"""The first target with each suffix."""
TARGET_OPTIONS = frozenset({"debug", "texmode_unified", "texmode_independent", "map_f64_to_f32"})
RESERVED = frozenset({".reg", ".align", ".entry", ".func", ".visible", ".extern"})
"""Directives that are never a modifier of an instruction."""

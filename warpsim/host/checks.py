"""Names of rules and groups of rules that a launch checks."""

from __future__ import annotations

from collections.abc import Iterable

from warpsim.errors import LaunchError

GROUPS: dict[str, frozenset[str]] = {
    "sync": frozenset(
        {"aligned-divergence", "exited-lane", "nonuniform-operand", "membermask", "barrier-divergence", "setmaxnreg"}
    ),
    "matrix": frozenset(
        {
            "wmma-stride",
            "wmma-alignment",
            "matrix-address-space",
            "matrix-alignment",
            "fragment-mismatch",
            "sparse-metadata",
            "sparse-selector",
            "scale-selector",
            "descriptor",
        }
    ),
    "async": frozenset(
        {
            "wgmma-missing-fence",
            "wgmma-in-flight",
            "wgmma-uncommitted",
            "proxy-fence",
            "async-smem-overwrite",
            "async-read-early",
            "mbarrier",
            "tensor-map",
        }
    ),
    "memory": frozenset({"out-of-bounds", "misaligned", "read-only"}),
    "init": frozenset({"uninitialised"}),
    "race": frozenset({"race"}),
}
EVERY = frozenset().union(*GROUPS.values())


def resolve_checks(checks: str | Iterable[str] | None) -> frozenset[str]:
    """The rules that ``checks=`` names: "default", "all", "none", or rules and groups."""
    if checks is None or checks == "default":
        return EVERY - GROUPS["race"]
    if checks == "all":
        return EVERY
    if checks == "none":
        return frozenset()
    names = checks.split(",") if isinstance(checks, str) else list(checks)
    chosen: set[str] = set()
    for name in names:
        if name in GROUPS:
            chosen |= GROUPS[name]
        elif name in EVERY:
            chosen.add(name)
        elif name in ("default", "all", "none"):
            chosen |= resolve_checks(name)
        else:
            raise LaunchError(f"{name!r} is no rule and no group of rules; groups are {', '.join(GROUPS)}")
    return frozenset(chosen)

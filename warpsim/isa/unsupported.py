"""PTX that this version does not run; it is rejected as unsupported, not as an error."""

from __future__ import annotations

OPCODES = frozenset(("fabric", "spcompress", "spdecompress"))
"""Opcodes without a declaration."""

MODIFIERS: dict[str, frozenset[str]] = {
    root: frozenset(words.split())
    for root, words in {
        "add": "noftz",
        "applypriority": "async",
        "cos": "2pi",
        "cp": "im2col_no_offs::w multicast::cluster::16b multicast::cluster::32b override::global_address"
        " override::global_dim override::global_dim_stride sync_restrict::proxy::async",
        "cvt": "pzo scaled::n1::ue8m0 ue5m3x2 scaled",
        "fence": "sync_restrict::read",
        "mbarrier": "layout::v1 multicast::cluster::16b multicast::cluster::32b phase_type::conditional",
        "set": "u8x4 s8x4 u16x2 s16x2",
        "sin": "2pi",
        "sured": "p",
        "tcgen05": "exclusive spcompress",
        "tensormap": "alloc_class alloc_class_large query",
        "tld4": "v2 f16x2",
    }.items()
}
"""Modifiers that PTX has for an opcode, with which no form runs here, or not in this combination."""


def is_known(opcode: str, modifiers: tuple[str, ...], strange: list[str]) -> bool:
    """Whether PTX has what this version does not run; no form of the opcode takes the ``strange`` modifiers."""
    return any(word in MODIFIERS.get(opcode, ()) for word in strange or modifiers)

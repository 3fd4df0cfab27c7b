"""PTX that this version does not run; it is rejected as unsupported, not as an error."""

from __future__ import annotations

OPCODES = frozenset(("fabric", "spcompress", "spdecompress"))
"""Opcodes without a declaration."""

MODIFIERS: dict[str, frozenset[str]] = {
    root: frozenset(words.split())
    for root, words in {
        "add": "cc f32x2 noftz",
        "barrier": "cluster",
        "cp": "bulk reduce tensor mbarrier prefetch noftz u32 s32 u64 s64 b32 b64 f16 bf16 f64 cp_mask ignore_oob relaxed weak"
        " override::global_address override::global_dim override::global_dim_stride multicast::cluster::16b"
        " multicast::cluster::32b im2col_no_offs::w",
        "applypriority": "async",
        "cvt": "pack rs e4m3x2 e5m2x2 e4m3x4 e5m2x4 e2m1x2 e2m1x4 e2m3x2 e3m2x2 e2m3x4 e3m2x4 ue8m0x2 tf32 scaled"
        " pzo ue5m3x2 scaled::n1::ue8m0",
        "fence": "proxy mbarrier_init sync_restrict::shared::cta sync_restrict::shared::cluster",
        "fma": "f32x2 oob",
        "ld": "unified proxy::readonly",
        "mad": "cc",
        "mul": "f32x2",
        "multimem": "cp async bulk reduce acc::f16 e4m3 e5m2 e4m3x2 e5m2x2 e4m3x4 e5m2x4",
        "mbarrier": "layout check_layout multicast::cluster::32b multicast::cluster::16b",
        "prefetch": "tensormap valid_addr L1::32B",
        "atom": "noftz",
        "red": "async mmio noftz",
        "redux": "f32",
        "set": "f16x2 bf16x2 u8x4 s8x4 u16x2 s16x2",
        "setp": "f16x2 bf16x2",
        "st": "async b128",
        "sub": "cc f32x2",
        "sured": "p",
        "tex": "2dms a2dms v2 f16x2",
        "tld4": "v2 f16x2",
        "txq": "filter_mode addr_mode_0 addr_mode_1 addr_mode_2 force_unnormalized_coords",
    }.items()
}
"""Modifiers that PTX has for an opcode, whether or not this version runs them."""


def is_known(opcode: str, modifiers: tuple[str, ...], strange: list[str]) -> bool:
    """Whether PTX has what this version does not run; no form of the opcode takes the ``strange`` modifiers."""
    return any(word in MODIFIERS.get(opcode, ()) for word in strange)

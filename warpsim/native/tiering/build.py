"""Form, emit and compile regions: in a launch that waits, or in the background."""

from __future__ import annotations

import warnings

from warpsim.graph.nodes import Untraceable
from warpsim.native.codegen.function import emit, holding_lanes
from warpsim.native.compiling.compiler import Invalid
from warpsim.native.compiling.region_code import RegionModule, compile_module
from warpsim.native.lowering.values import Unlowerable
from warpsim.native.regions.options import Place, Variant
from warpsim.native.regions.region import RegionFormer
from warpsim.native.runtime.compiled_region import CompiledRegion
from warpsim.native.runtime.inputs import InputKind, Signature
from warpsim.native.tiering.cost import QUEUED_SHARE, Policy, rate, spent
from warpsim.native.tiering.entry_points import WAITING, EntryPoint, Profile, Request

LEAST = 3
"""A region without a loop needs at least so many steps to pay."""


def form(profile: Profile, place: Place, entry: EntryPoint) -> None:
    """Form the region of an entry point. The caller holds the profile's lock."""
    region = RegionFormer(profile.traces, entry.options).form(place[0], place[1])
    if region is not None and not region.loops and region.size < LEAST + 1:
        region = None
    entry.region, entry.formed = region, True


def emitted(
    profile: Profile, entry: EntryPoint, givens: tuple[InputKind, ...], variant: Variant
) -> RegionModule | None:
    """Emit a region for a signature; None where a graph cannot be lowered. The caller holds the profile's lock."""
    region = entry.region
    if region is None:
        return None
    try:
        return emit(profile.traces, region, givens, variant)
    except (Untraceable, Unlowerable):
        entry.region = None
        return None


def compile_region(profile: Profile, place: Place, entry: EntryPoint, made: RegionModule) -> CompiledRegion | None:
    """Compile a module; None where LLVM rejects it."""
    began, kept, lines = spent(), made.kept, made.lines
    try:
        code, linked = compile_module(made)
    except Invalid as problem:
        entry.region = None
        warnings.warn(f"a part of a kernel is interpreted, please report why: {problem}", RuntimeWarning, stacklevel=2)
        return None
    if not kept:
        rate().record(lines, spent() - began)
    if entry.region is code.region:
        profile.records.keep(place, entry.options, (code.given, code.variant), code, made.name, linked)
    return code


def same_code(profile: Profile, place: Place, entry: EntryPoint, signature: Signature) -> CompiledRegion | None:
    """The code for a signature, where it is that for another one: registers that are the same in all lanes where a loop begins, and
    differ once a launch has come around it, hold lanes in both. The caller holds the profile's lock."""
    region, traces, (given, variant) = entry.region, profile.traces, signature
    if region is None:
        return None
    for other, code in list(entry.codes.items()):
        if not isinstance(code, CompiledRegion) or code.region is not region or other[1] != variant:
            continue
        wider = all(a == b or (a.how, b.how) == ("uniform", "varying") for a, b in zip(given, other[0], strict=True))
        if wider and holding_lanes(traces, region, given) == holding_lanes(traces, region, other[0]):
            profile.records.keep_same(place, entry.options, other, signature)
            return code
    return None


def make(policy: Policy, request: Request) -> CompiledRegion | None:
    """Compile while the launch waits; None where that does not pay."""
    profile, entry, signature = request.profile, request.entry, request.signature
    assert signature is not None
    made = emitted(profile, entry, *signature)
    if made is None:
        return None
    if policy is not Policy.AT_ONCE and not made.kept:
        entry.kept, entry.cost = False, rate().of(made.lines)
        if not profile.waits(entry):
            return None
    return compile_region(profile, request.place, entry, made)


def compile_queued(request: Request) -> None:
    """Serve a request in the background, as far as it pays."""
    profile, entry = request.profile, request.entry
    began = spent()
    if request.signature is None:
        with profile.lock:
            if not entry.formed and (request.now or not profile.covers(request.place)):
                form(profile, request.place, entry)
                entry.next_check = 0
    elif entry.codes.get(request.signature) is WAITING:
        code, region = None, entry.region
        if profile.allows(entry, QUEUED_SHARE):
            with profile.lock:
                code = same_code(profile, request.place, entry, request.signature)
                made = emitted(profile, entry, *request.signature) if code is None else None
            code = code if made is None else compile_region(profile, request.place, entry, made)
            if entry.codes.get(request.signature) is WAITING and entry.region in (region, None):
                entry.put(request.signature, code)
        else:
            entry.codes.pop(request.signature, None)
    profile.account.compiled += spent() - began

"""Regions and their code as earlier processes have left them on disk: found again without tracing a graph or importing LLVM.

The key of a region is the text that it comes from, whatever else decides its code (`warpsim.native.compiling.images.made_by`), and
where it begins. That of its code is the same with the kinds of its inputs.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import attrs

from warpsim.cache import digest, note, read_object, write_object
from warpsim.machine.plan import FunctionPlan
from warpsim.native.compiling import images
from warpsim.native.compiling.linking import Linked
from warpsim.native.regions.options import Options, Place, Stops, described
from warpsim.native.regions.region import BlockSlice, Region, live_at, live_in_source
from warpsim.native.runtime.compiled_region import Access, CompiledRegion
from warpsim.native.runtime.counting import Counter
from warpsim.native.runtime.inputs import Signature
from warpsim.native.runtime.trail import Piece, Trace
from warpsim.native.tiering.notes import note_of
from warpsim.types import JsonObject

_KEPT = "left", "accesses", "once", "outer", "frame_bytes", "spaces", "products", "counters", "counter_words", "pieces"
"""What is kept of code, beside its functions and tables."""
_dumps = partial(json.dumps, default=lambda value: sorted(value) if isinstance(value, frozenset) else int(value))


class Records:
    """Those of a function on a GPU ``sm``; instructions on ``maybe_undefined`` registers are in no region."""

    def __init__(self, plan: FunctionPlan, sm: int | None, maybe_undefined: frozenset[int], stops: Stops) -> None:
        self.plan = plan
        self._slots = plan.n_registers + len(plan.extras)
        what = (
            plan.extra_names,
            plan.kernel.image.addresses,
            plan.kernel.program.debug,
            sm,
            sorted(maybe_undefined),
            described(stops),
        )
        self._name = digest(note_of(plan.kernel), plan.name, what, images.made_by())

    def _key(self, place: Place, options: Options, signature: Signature | None = None) -> str:
        return digest(self._name, place, tuple(options), "" if signature is None else _dumps(signature))

    def region(self, place: Place, options: Options) -> Region | None:
        """A region of which there is code on disk."""
        if images.made_by() is None:
            return None
        data = read_object(self._key(place, options))
        return None if data is None else _region(self.plan, json.loads(data))

    def code(self, place: Place, options: Options, signature: Signature, region: Region) -> CompiledRegion | None:
        """A region's code."""
        found = images.find(self._key(place, options, signature))
        if found is None:
            return None
        facts, addresses, tables = found
        given, variant = signature
        made = {
            "left": [(number, varying) for number, varying in facts["left"]],
            "accesses": [Access(*access) for access in facts["accesses"]],
            "spaces": frozenset(facts["spaces"]),
            "counters": [Counter(*counter) for counter in facts["counters"]],
            "pieces": [
                Piece(b, i, k, n, [Trace(*trace) for trace in traces]) for b, i, k, n, traces in facts["pieces"]
            ],
        }
        function = images.function_at(addresses[facts["name"]])
        kept = {what: facts[what] for what in _KEPT} | made
        return CompiledRegion(region, given, variant, function, tables, **kept)

    def keep(
        self,
        place: Place,
        options: Options,
        signature: Signature,
        code: CompiledRegion,
        name: str,
        linked: Linked | None,
    ) -> None:
        """Keep a region, and its code."""
        region = code.region
        if images.made_by() is None or any(slot >= self._slots for slot in _slots(region)):
            return
        if linked is not None:
            facts = {what: getattr(code, what) for what in _KEPT} | {"name": name, "spaces": sorted(code.spaces)}
            images.keep(self._key(place, options, signature), linked, facts, code.tables)
        write_object(self._key(place, options), _dumps(_facts(region)).encode())
        note(note_of(self.plan.kernel))

    def keep_same(self, place: Place, options: Options, code_of: Signature, signature: Signature) -> None:
        """Keep for a signature the code that is kept for another one."""
        data = read_object(self._key(place, options, code_of))
        if data is not None:
            write_object(self._key(place, options, signature), data)


def _slots(region: Region) -> list[int]:
    """The slots that a region reads."""
    return [slot for key in region.reads if isinstance(slot := key[0] if isinstance(key, tuple) else key, int)]


_DERIVED = "plan", "sources", "read", "wgmma"


def _facts(region: Region) -> JsonObject:
    """A region without its function."""
    found = {field.name: getattr(region, field.name) for field in attrs.fields(Region) if field.name not in _DERIVED}
    return found | {"entry": _words(region.entry), "slices": [_words(slice_) for slice_ in region.slices.values()]}


def _words(slice_: BlockSlice) -> list[Any]:
    return [getattr(slice_, field.name) for field in attrs.fields(BlockSlice)]


def _region(plan: FunctionPlan, facts: JsonObject) -> Region:
    """The region again."""

    def slice_of(values: list[Any]) -> BlockSlice:
        block, first, last, ends, guard, target, following = values
        return BlockSlice(block, first, last, ends, None if guard is None else tuple(guard), target, following)

    slices = {s.block: s for s in map(slice_of, facts["slices"])}
    entry = slice_of(facts["entry"])
    reads = [tuple(key) if isinstance(key, list) else key for key in facts["reads"]]
    read = live_at(plan, entry.block, entry.first)
    sets = {name: frozenset(facts[name]) for name in ("live_across", "stored", "registers")}
    return Region(
        **facts
        | sets
        | {
            "plan": plan,
            "entry": slices[entry.block] if entry.first == 0 else entry,
            "slices": slices,
            "exits": [(block, at) for block, at in facts["exits"]],
            "reads": reads,
            "sources": [live_in_source(plan, key, read) for key in reads],
            "live": [frozenset(slots) for slots in facts["live"]],
            "barriers": [(block, at) for block, at in facts["barriers"]],
        }
    )

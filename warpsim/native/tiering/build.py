"""Making units: formed, written down and compiled, in a launch or behind it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence

from warpsim.graph.nodes import Untraceable
from warpsim.native.codegen.base import Manner
from warpsim.native.codegen.inputs import Given
from warpsim.native.compiling.cache import note
from warpsim.native.compiling.compiler import Invalid
from warpsim.native.compiling.region_code import Code, Draft, draft, finish
from warpsim.native.lowering.values import Unlowerable
from warpsim.native.regions.region import Former
from warpsim.native.tiering.cost import BEHIND, WITHIN, Pace, beside, rate
from warpsim.native.tiering.entry_points import WAITING, Place, Plans, Request, Spot

LEAST = 3
"""Steps of a unit without a loop: fewer are as well interpreted."""


def form(plans: Plans, place: Place, spot: Spot) -> None:
    """Find the unit that begins at a place. The caller holds the lock of the plans."""
    shape = Former(plans.known, spot.options).form(place[0], place[1])
    if shape is not None and not shape.loops and shape.size < LEAST + 1:
        shape = None
    spot.shape, spot.formed = shape, True


def written(plans: Plans, spot: Spot, givens: tuple[Given, ...], manner: Manner) -> Draft | None:
    """A variant of a unit in LLVM's text; None where that cannot be. The caller holds the lock of the plans."""
    shape = spot.shape
    if shape is None:
        return None
    try:
        return draft(plans.known, shape, givens, manner)
    except (Untraceable, Unlowerable):
        spot.shape = None
        return None


def compiled(plans: Plans, place: Place, spot: Spot, made: Draft) -> Code | None:
    """A text's machine code; None where LLVM refuses it."""
    began, kept, lines = time.thread_time(), made.kept, made.lines
    try:
        code = finish(made)
    except Invalid as problem:
        spot.shape = None
        warnings.warn(f"a part of a kernel is interpreted, please report why: {problem}", RuntimeWarning, stacklevel=2)
        return None
    if not kept:
        rate().note(lines, time.thread_time() - began)
        note(plans.note_of(place))
    return code


def make(pace: Pace, request: Request) -> Code | None:
    """Code in a launch that waits for it; None where there is none, or it does not pay: then a thread makes it, or nobody."""
    plans, spot, variant = request.plans, request.spot, request.variant
    assert variant is not None
    known = pace is Pace.ASKED and plans.keeps(request.place, spot) and plans.allows(spot, BEHIND)
    if pace is not Pace.AT_ONCE and not known and (beside() or not plans.allows(spot, WITHIN)):
        return None
    made = written(plans, spot, *variant)
    if made is None:
        return None
    if pace is not Pace.AT_ONCE and not made.kept:
        spot.kept, spot.cost = False, rate().of(made.lines)
        if beside() or not plans.allows(spot, WITHIN):
            return None
    return compiled(plans, request.place, spot, made)


def make_behind(requests: Sequence[Request]) -> None:
    """What launches have asked for, as far as it may pay for later ones."""
    for request in requests:
        plans, spot = request.plans, request.spot
        began = time.thread_time()
        if request.variant is None:
            with plans.lock:
                if not spot.formed and (request.now or not plans.covers(request.place)):
                    form(plans, request.place, spot)
                    spot.look_at = 0
        elif spot.codes.get(request.variant) is WAITING:
            code, shape = None, spot.shape
            if plans.allows(spot, BEHIND):
                with plans.lock:
                    made = written(plans, spot, *request.variant)
                code = None if made is None else compiled(plans, request.place, spot, made)
                if spot.codes.get(request.variant) is WAITING and spot.shape in (shape, None):
                    spot.put(request.variant, code)
            else:
                spot.codes.pop(request.variant, None)
        plans.compiled += time.thread_time() - began

"""Warp-wide communication: shfl, vote, match, redux, activemask, elect (PTX ISA: Parallel Synchronization)."""

from __future__ import annotations

import functools
from functools import lru_cache, wraps

import numpy as np

from warpsim.isa.ports import Elements, Lanes, ReportPort
from warpsim.isa.spec import Body, Op, Scope, instruction
from warpsim.isa.traits import Traits
from warpsim.types import TYPES

_warp = functools.partial(instruction, chapter="parallel-synchronization-and-communication-instructions")

LANE = np.arange(32, dtype=np.int64)[None, :, None]
_EVERYBODY = np.full((1, 1, 1), 0xFFFFFFFF, np.uint32)


def _sources(mode: str, b: Lanes, c: Lanes) -> tuple[Lanes, Lanes]:
    """Source lane of each lane, and whether it is in range."""
    offset = (b & np.uint32(31)).astype(np.int64)
    clamp = (c & np.uint32(31)).astype(np.int64)
    segment = ((c >> np.uint32(8)) & np.uint32(31)).astype(np.int64)
    lowest = LANE & segment
    limit = lowest | (clamp & ~segment)
    if mode == "up":
        j = LANE - offset
        valid = j >= limit
    elif mode == "idx":
        j = lowest | (offset & ~segment)
        valid = j <= limit
    else:
        j = LANE + offset if mode == "down" else LANE ^ offset
        valid = j <= limit
    return np.where(valid, j, LANE), valid


@lru_cache(maxsize=4096)
def _table(mode: str, b: int, c: int) -> tuple[Lanes, Lanes]:
    """The same for a warp whose lanes agree on b and c: ``[32]`` and ``[1, 32, 1]``."""
    source, valid = _sources(mode, np.full((1, 1, 1), b, np.uint32), np.full((1, 1, 1), c, np.uint32))
    return source.reshape(-1), valid


def _agreed(x: Lanes) -> bool:
    """Whether all lanes share an operand, as its shape tells."""
    return bool(x.size == 1 or (x.shape[0] == x.shape[2] == 1 and x.strides[1] == 0))


def _whole(active: Lanes) -> bool:
    """Whether every lane takes part; of arrays, found in a third of the time."""
    if type(active) is np.ndarray:
        return np.count_nonzero(active) == active.size
    return bool(active.all())


def _shuffle(
    mode: str, a: Lanes, b: Lanes, c: Lanes, active: Lanes, report: ReportPort, masks: Lanes | None = None
) -> tuple[Lanes, Lanes]:
    """The source lane's register, unchanged, and whether that lane was in range."""
    if _agreed(b) and _agreed(c):
        source, valid = _table(mode, int(b.item(0)), int(c.item(0)))
        value = a if a.shape[1] == 1 or a.strides[1] == 0 else a.take(source, axis=1)
    else:
        source, valid = _sources(mode, b, c)
        shape = np.broadcast_shapes(a.shape, source.shape)
        value = np.take_along_axis(np.broadcast_to(a, shape), np.broadcast_to(source, shape), axis=1)
    if masks is not None and not _agreed(masks):
        _check_masks(source.reshape(1, 32, 1) if source.ndim == 1 else source, masks, active, report)
    if not _whole(active):
        absent = _absent(source.reshape(1, 32, 1) if source.ndim == 1 else source, active, report)
        value = np.where(absent, np.uint32(0), value)  # undefined in the text; an H100 gives 0
    return value, valid


def _absent(source: Lanes, active: Lanes, report: ReportPort) -> Lanes:
    """A mask of lanes that read from a lane that does not take part, after a warning about them."""
    source = np.broadcast_to(source, active.shape)
    reading = active & ~np.take_along_axis(active, source, axis=1)
    _warn(source[reading], "does not take part", report)
    return reading


def _check_masks(source: Lanes, masks: Lanes, active: Lanes, report: ReportPort) -> None:
    """Warn of lanes that read from a lane which takes part, with others: their own mask does not name it."""
    lanes = np.arange(32, dtype=np.uint32).reshape(1, 32, 1)
    outside = active & (masks >> lanes & 1 == 1) & (masks >> source.astype(np.uint32) & 1 == 0)
    outside &= np.take_along_axis(active, np.broadcast_to(source, active.shape), axis=1)
    _warn(np.broadcast_to(source, active.shape)[outside], "is not in the membermask", report)


def _warn(sources: Lanes, why: str, report: ReportPort) -> None:
    """Warn of what lanes read."""
    if sources.size:
        report(
            "membermask",
            f"shfl reads lane {int(sources[0])}, which {why}: the value is undefined",
            None,
            severity="warning",
            advice="let the lanes that are read take part, or use the value only where p is true",
        )


_UNIFORM = Traits(uniform="warp")
_shfl = functools.partial(
    instruction,
    chapter="data-movement-and-conversion-instructions",
    anchor="shfl-sync",
    scope=Scope.WARP,
    types={"membermask": ".u32"},
    needs=(30, (6, 0)),
)


@_shfl("shfl.sync.mode.b32 d, a, b, c, membermask;  .mode = { .up, .down, .bfly, .idx };", traits=Traits(shuffles=True))
def shfl_sync(op: Op, a: Lanes, b: Lanes, c: Lanes, membermask: Lanes, *, active: Lanes, report: ReportPort) -> Lanes:
    """d = a of another lane."""
    return _shuffle(op.mode, a, b, c, active, report, membermask)[0]


@_shfl(
    "shfl.sync.mode.b32 d|p, a, b, c, membermask;  .mode = { .up, .down, .bfly, .idx };",
    registers=("d",),
    traits=Traits(shuffles=True),
)
def shfl_sync_pred(
    op: Op, a: Lanes, b: Lanes, c: Lanes, membermask: Lanes, *, active: Lanes, report: ReportPort
) -> tuple[Lanes, Lanes]:
    """d = a of another lane; p says whether that lane was in range."""
    return _shuffle(op.mode, a, b, c, active, report, membermask)


_unsynced = functools.partial(_warp, scope=Scope.WARP, until=(70, (6, 4)))
"""Without .sync, the lanes that happen to be together take part. Not allowed since PTX 6.4 for sm_70 and newer."""


@_unsynced(
    """
    shfl.mode.b32 d{|p}, a, b, c;
    .mode = { .up, .down, .bfly, .idx };
    """,
    chapter="data-movement-and-conversion-instructions",
    needs=(30, (3, 0)),
    traits=Traits(shuffles=True),
)
def shfl(op: Op, a: Lanes, b: Lanes, c: Lanes, *, active: Lanes, report: ReportPort) -> tuple[Lanes, Lanes]:
    """d = a of another lane; p says whether that lane was in range."""
    return _shuffle(op.mode, a, b, c, active, report)


def _bits(flags: Lanes) -> Lanes:
    """``[n, 1, m]``: the lanes' flags as the bits of a word."""
    weights = (np.uint32(1) << np.arange(32, dtype=np.uint32))[None, :, None]
    return np.add.reduce(np.where(flags, weights, np.uint32(0)), axis=1, keepdims=True, dtype=np.uint32)


def _members(membermask: Lanes, active: Lanes) -> Lanes:
    """The active lanes in a uniform membermask."""
    bits = (membermask >> np.arange(32, dtype=np.uint32)[None, :, None]) & np.uint32(1)
    return active & (bits != 0)


def _per_mask(body: Body) -> Body:
    """Run a body once per distinct membermask: lanes of a warp may synchronise in several groups."""

    @wraps(body)
    def run(op: Op, *operands: Lanes, active: Lanes) -> Elements | None:
        masks = operands[-1]
        if masks.shape[1] == 1 or masks.strides[1] == 0 or (masks.size == 32 and (masks == masks[:, :1]).all()):
            return body(op, *operands, active=active)
        full = np.broadcast_to(masks, active.shape)
        values = np.unique(full[active])
        out: Elements | None = None
        for value in values:
            here = active & (full == value)
            part = body(op, *operands[:-1], np.full((1, 1, 1), value, masks.dtype), active=here)
            if len(values) == 1:
                return part
            if isinstance(part, tuple):
                out = part if out is None else tuple([np.where(here, p, o) for p, o in zip(part, out, strict=True)])
            else:
                out = part if out is None else np.where(here, part, out)
        return out

    return run


_vote = functools.partial(_warp, anchor="vote-sync", scope=Scope.WARP, needs=(30, (6, 0)), traits=_UNIFORM)


@_vote("vote.sync.mode.pred d, {!}a, membermask; .mode = { .all, .any, .uni };", types={"membermask": ".u32"})
@_per_mask
def vote_sync(op: Op, a: Lanes, membermask: Lanes, *, active: Lanes) -> Lanes:
    """Whether the predicate is true in all members, in any, or equal in all."""
    members = _members(membermask, active)
    every = (a | ~members).all(axis=1, keepdims=True)
    none = ~(a & members).any(axis=1, keepdims=True)
    out = every if op.mode == "all" else ~none if op.mode == "any" else every | none
    return np.broadcast_to(out, active.shape)


@_vote("vote.sync.ballot.b32 d, {!}a, membermask;", types={"membermask": ".u32"})
@_per_mask
def vote_ballot(op: Op, a: Lanes, membermask: Lanes, *, active: Lanes) -> Lanes:
    """The members' predicates as bits."""
    return np.broadcast_to(_bits(a & _members(membermask, active)), active.shape)


@_unsynced("vote.mode.pred d, {!}a; .mode = { .all, .any, .uni };", needs=(None, (1, 2)), traits=_UNIFORM)
def vote(op: Op, a: Lanes, *, active: Lanes) -> Lanes:
    """Whether the predicate is true in all lanes here, in any, or equal in all."""
    return vote_sync(op, a, _EVERYBODY, active=active)


@_unsynced("vote.ballot.b32 d, {!}a;", needs=(None, (2, 0)), traits=_UNIFORM)
def vote_unsynced_ballot(op: Op, a: Lanes, *, active: Lanes) -> Lanes:
    """The predicates of the lanes here, as bits."""
    return vote_ballot(op, a, _EVERYBODY, active=active)


_match = functools.partial(
    _warp,
    anchor="match-sync",
    scope=Scope.WARP,
    types={"d": ".b32", "membermask": ".u32"},
    checked_as={"d": ".u32"},
    needs=(70, (6, 0)),
)


@_match("match.any.sync.type d, a, membermask; .type = { .b32, .b64 };")
@_per_mask
def match_any(op: Op, a: Lanes, membermask: Lanes, *, active: Lanes) -> Lanes:
    """A mask of the members with the same value."""
    members = _members(membermask, active)
    full = np.broadcast_to(a, active.shape)
    out = np.zeros(active.shape, np.uint32)
    for lane in range(32):
        same = (full == full[:, lane : lane + 1, :]) & members[:, lane : lane + 1, :]
        out |= np.where(same, np.uint32(1 << lane), np.uint32(0))
    return out


@_match("match.all.sync.type d, a, membermask;  .type = { .b32, .b64 };", traits=_UNIFORM, sinks=("d",))
@_per_mask
def match_all_mask(op: Op, a: Lanes, membermask: Lanes, *, active: Lanes) -> Lanes:
    """The mask of all members if they have the same value, else 0."""
    return _match_all(a, membermask, active)[0]


@_match("match.all.sync.type d|p, a, membermask; .type = { .b32, .b64 };", traits=_UNIFORM, sinks=("d",))
@_per_mask
def match_all(op: Op, a: Lanes, membermask: Lanes, *, active: Lanes) -> tuple[Lanes, Lanes]:
    """The mask of all members if they have the same value, else 0."""
    return _match_all(a, membermask, active)


def _match_all(a: Lanes, membermask: Lanes, active: Lanes) -> tuple[Lanes, Lanes]:
    members = _members(membermask, active)
    full = np.broadcast_to(a, active.shape)
    first = np.take_along_axis(full, members.argmax(axis=1, keepdims=True), axis=1)
    same = ((full == first) | ~members).all(axis=1, keepdims=True)
    mask = np.where(same, _bits(members), np.uint32(0))
    return np.broadcast_to(mask, active.shape), np.broadcast_to(same, active.shape)


_REDUX = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@_warp(
    """
    redux.sync.op.type d, a, membermask;  .op = { .add, .min, .max };  .type = { .u32, .s32 };
    redux.sync.bop.b32 d, a, membermask;  .bop = { .and, .or, .xor };
    """,
    anchor="redux-sync",
    scope=Scope.WARP,
    types={"membermask": ".u32", **{n: (lambda op: op.type or TYPES["u32"]) for n in "da"}},
    checked_as=dict.fromkeys("da", ".u32"),
    needs=(80, (7, 0)),
    traits=_UNIFORM,
)
@_per_mask
def redux_sync(op: Op, a: Lanes, membermask: Lanes, *, active: Lanes) -> Lanes:
    """A reduction over the members."""
    name = op.op or op.bop
    members = _members(membermask, active)
    info = np.iinfo(a.dtype)
    neutral = {"min": info.max, "max": info.min, "and": -1 if a.dtype.kind == "i" else info.max}.get(name, 0)
    values = np.where(members, a, a.dtype.type(neutral))
    return np.broadcast_to(_REDUX[name].reduce(values, axis=1, keepdims=True, dtype=a.dtype), active.shape)


@_warp(
    "redux.sync.op{.abs}{.NaN}.f32 d, a, membermask;  .op = { .min, .max };",
    anchor="redux-sync",
    scope=Scope.WARP,
    types={"membermask": ".u32"},
    needs=("100f", (8, 6)),
    traits=_UNIFORM,
)
@_per_mask
def redux_sync_f32(op: Op, a: Lanes, membermask: Lanes, *, active: Lanes) -> Lanes:
    """The minimum or maximum of the members, with -0 below +0; NaNs count with .NaN, or if there is nothing else."""
    members = _members(membermask, active)
    values = np.abs(a) if op.abs else a
    nan = np.isnan(values)
    bits = values.view(np.int32)
    order = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits)
    counted = members & ~nan
    if op.op == "min":
        best = np.where(counted, order, np.int32(0x7FFFFFFF)).min(axis=1, keepdims=True)
    else:
        best = np.where(counted, order, np.int32(-0x80000000)).max(axis=1, keepdims=True)
    result = np.where(best < 0, best ^ np.int32(0x7FFFFFFF), best)
    lost = (members & nan).any(axis=1, keepdims=True) if op.NaN else ~counted.any(axis=1, keepdims=True)
    return np.broadcast_to(np.where(lost, np.int32(0x7FFFFFFF), result).view(np.float32), active.shape)


@_warp("activemask.b32 d;", scope=Scope.WARP, needs=(30, (6, 2)), traits=Traits(uniform="warp"))
def activemask(op: Op, *, active: Lanes) -> Lanes:
    """The lanes that execute this instruction together."""
    return np.broadcast_to(_bits(active), active.shape)


@_warp(
    "elect.sync d|p, membermask;",
    anchor="elect-sync",
    scope=Scope.WARP,
    types={"d": ".b32", "membermask": ".u32"},
    checked_as={"d": ".u32"},
    registers=("p",),
    needs=(90, (8, 0)),
    traits=Traits(elects=True),
)
@_per_mask
def elect_sync(op: Op, membermask: Lanes, *, active: Lanes) -> tuple[Lanes, Lanes]:
    """One leader among the members: the lowest lane."""
    members = _members(membermask, active)
    leader = members.argmax(axis=1, keepdims=True)
    return np.broadcast_to(leader.astype(np.uint32), active.shape), (leader == LANE) & members

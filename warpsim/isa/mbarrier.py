"""mbarrier (PTX ISA: Parallel Synchronization and Communication Instructions: mbarrier)."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from warpsim.isa.ports import Address, Lanes, ObjectsPort, ReportPort, first_of
from warpsim.isa.spec import Gate, Op, instruction
from warpsim.isa.traits import Mbarrier, Order, Traits
from warpsim.layout import mbarriers

_ANCHOR = "parallel-synchronization-and-communication-instructions-mbarrier-"
_OWN = ".space = { .shared, .shared::cta };"
_ANY = ".space = { .shared, .shared::cta, .shared::cluster };"
_SCOPES = ".sem = { .release, .relaxed }; .scope = { .cta, .cluster };"
_WAITS = ".sem = { .acquire, .relaxed }; .scope = { .cta, .cluster };"
_GATES: dict[str, Gate] = {
    "shared::cta": (80, (7, 8)),
    "shared::cluster": (90, (8, 0)),
    "expect_tx": (90, (8, 0)),
    "relaxed": (90, (8, 6)),
    "cluster": (90, (8, 0)),
    "release": (80, (8, 0)),
    "acquire": (80, (8, 0)),
}
_common = functools.partial(instruction, needs=(80, (7, 0)), gates=_GATES)


def _incomplete(op: Op) -> str | None:
    """Check .noComplete against the other modifiers."""
    if "noComplete" not in op.modifiers:
        return None
    if op.sem == "relaxed" or op.scope == "cluster":
        return f".noComplete does not go with .{'relaxed' if op.sem == 'relaxed' else 'cluster'}"
    return None


def _traits(op: Op) -> Traits:
    """Arrivals have release semantics and waits acquire, unless relaxed; byte counts alone are always relaxed."""
    words = op.modifiers
    done = Mbarrier(0)
    for word, what in _DOES.items():
        if word in words:
            done |= what
    waits, ordered = bool(done & Mbarrier.WAIT), "relaxed" not in words
    arrives = bool(done & Mbarrier.ARRIVE)
    order = Order(strong=True, release=ordered and arrives, acquire=ordered and waits)
    return Traits(mbarrier=done, polls=True, order=order)


_DOES = {
    "expect_tx": Mbarrier.EXPECT,
    "complete_tx": Mbarrier.COMPLETE,
    **dict.fromkeys(("arrive", "arrive_drop"), Mbarrier.ARRIVE),
    **dict.fromkeys(("test_wait", "try_wait"), Mbarrier.WAIT),
    "pending_count": Mbarrier.READ,
}
_SPACES = {"address": {"shared"}}
_COUNT = {"count": (1, (1 << 63) - 1)}
"""What ptxas takes; whether an object can count so many is said at run time."""


def _space(op: Op) -> str:
    return op.space or ("shared::cluster" if "shared::cluster" in op.modifiers else "")


@functools.cache
def _arrival(*, drop: bool, complete: bool) -> Callable[..., Lanes]:
    return functools.partial(mbarriers.arrive, drop=drop, complete=complete)


@functools.cache
def _expectation(*, drop: bool) -> Callable[..., Lanes]:
    return functools.partial(mbarriers.expect_and_arrive, drop=drop)


_ONE = np.ones(1, np.uint32)
_ONE.flags.writeable = False


def _counted(count: Lanes | None, active: Lanes, report: ReportPort) -> Lanes:
    """A number of arrivals (None: one), in the range of one."""
    if count is None:
        return _ONE
    wrong = ((count == 0) | (count > mbarriers.MAX_COUNT)) & active
    if wrong.any():
        report("mbarrier", f"{first_of(count, wrong)} arrivals at once; the count is 1 to {mbarriers.MAX_COUNT}", wrong)
    return np.minimum(count, np.uint32(mbarriers.MAX_COUNT))


@_common(
    f"mbarrier.init{{.layout::v0}}{{.space}}.b64 [address], count; {_OWN}",
    anchor=_ANCHOR + "init",
    types={"count": ".u32"},
    spaces=_SPACES,
    gates={**_GATES, "layout::v0": (90, (9, 3))},
    traits=Traits(mbarrier=Mbarrier.INIT, polls=True),
)
def init(op: Op, address: Address, count: Lanes, *, objects: ObjectsPort) -> None:
    """Initialise an object that expects count arrivals."""
    objects.init(_space(op), address, count)


@instruction(
    f"mbarrier.check_layout.layout{{.space}}.b64 d, [address]; {_OWN} .layout = {{ .layout::v0, .layout::v1 }};",
    anchor=_ANCHOR + "check-layout",
    types={"d": ".pred"},
    spaces=_SPACES,
    needs=(90, (9, 3)),
    traits=Traits(mbarrier=Mbarrier.READ, polls=True),
)
def check_layout(op: Op, address: Address) -> Lanes:
    """Whether an object has a layout: all have the first."""
    return np.full(1, op.layout == "layout::v0")


@_common(
    f"mbarrier.inval{{.space}}.b64 [address]; {_OWN}",
    anchor=_ANCHOR + "inval",
    spaces=_SPACES,
    traits=Traits(mbarrier=Mbarrier.INVAL, polls=True),
)
def inval(op: Op, address: Address, *, objects: ObjectsPort) -> None:
    """Invalidate an object, so that its memory may be reused."""
    objects.invalidate(_space(op), address)


@instruction(
    f"""
    mbarrier.expect_tx{{.sem.scope}}{{.space}}.b64 [address], bytes;
    mbarrier.complete_tx{{.sem.scope}}{{.space}}.b64 [address], bytes;
    {_ANY} .sem = {{ .relaxed }}; .scope = {{ .cta, .cluster }};
    """,
    anchor=_ANCHOR + "expect-tx",
    types={"bytes": ".u32"},
    spaces=_SPACES,
    needs=(90, (8, 0)),
    traits=_traits,
)
def transactions(op: Op, address: Address, bytes: Lanes, *, objects: ObjectsPort) -> None:
    """Expect bytes, or complete them."""
    change = mbarriers.complete_bytes if "complete_tx" in op.modifiers else mbarriers.expect
    objects.update(_space(op), address, change, bytes)


_arrives = functools.partial(
    instruction,
    anchor=_ANCHOR + "arrive",
    types={"state": ".u64", "count": ".u32", "bytes": ".u32"},
    limits=_COUNT,
    sinks=("state",),
    spaces=_SPACES,
    gates=_GATES,
    traits=_traits,
)


@_arrives(
    """
    mbarrier.arrive{.sem.scope}.shared::cluster.b64 _, [address]{, count};
    mbarrier.arrive_drop{.sem.scope}.shared::cluster.b64 _, [address]{, count};
    .sem = { .release, .relaxed }; .scope = { .cta, .cluster };
    """,
    needs=(90, (8, 0)),
)
@_arrives(
    f"""
    mbarrier.arrive{{.sem.scope}}{{.space}}.b64 state, [address], count;
    mbarrier.arrive_drop{{.sem.scope}}{{.space}}.b64 state, [address], count;
    {_OWN} {_SCOPES}
    """,
    needs=(90, (7, 8)),
)
@_arrives(
    f"""
    mbarrier.arrive{{.sem.scope}}{{.space}}.b64 state, [address];
    mbarrier.arrive_drop{{.sem.scope}}{{.space}}.b64 state, [address];
    mbarrier.arrive.noComplete{{.sem.scope}}{{.space}}.b64 state, [address], count;
    mbarrier.arrive_drop.noComplete{{.sem.scope}}{{.space}}.b64 state, [address], count;
    {_OWN} {_SCOPES}
    """,
    legal=_incomplete,
    needs=(80, (7, 0)),
)
def arrive(
    op: Op, address: Address, count: Lanes | None = None, *, objects: ObjectsPort, active: Lanes, report: ReportPort
) -> Lanes | None:
    """Arrive count times; the state is the phase before the arrival. In another CTA of the cluster there is none."""
    n = _counted(count, active, report)
    drop, complete = "arrive_drop" in op.modifiers, "noComplete" not in op.modifiers
    return objects.update(
        _space(op), address, _arrival(drop=drop, complete=complete), n, returns=not _is_remote(op), arrivals=True
    )


def _is_remote(op: Op) -> bool:
    return "shared::cluster" in op.modifiers


@_arrives(
    """
    mbarrier.arrive.expect_tx{.sem.scope}.shared::cluster.b64 _, [address], bytes;
    mbarrier.arrive_drop.expect_tx{.sem.scope}.shared::cluster.b64 _, [address], bytes;
    .sem = { .release, .relaxed }; .scope = { .cta, .cluster };
    """,
    needs=(90, (8, 0)),
)
@_arrives(
    f"""
    mbarrier.arrive.expect_tx{{.sem.scope}}{{.space}}.b64 state, [address], bytes;
    mbarrier.arrive_drop.expect_tx{{.sem.scope}}{{.space}}.b64 state, [address], bytes;
    {_OWN} {_SCOPES}
    """,
    needs=(80, (7, 0)),
)
def arrive_expect(op: Op, address: Address, bytes: Lanes, *, objects: ObjectsPort) -> Lanes | None:
    """Expect bytes, then arrive once."""
    drop = "arrive_drop" in op.modifiers
    return objects.update(_space(op), address, _expectation(drop=drop), bytes, returns=not _is_remote(op))


_waits = functools.partial(
    instruction,
    anchor=_ANCHOR + "test-wait-mbarrier-try-wait",
    types={"d": ".pred", "state": ".u64", "parity": ".u32", "hint": ".u32"},
    limits={"parity": (0, 1)},
    spaces=_SPACES,
    gates={**_GATES, "try_wait": (90, (7, 8))},
    traits=_traits,
)


@_waits(
    f"""
    mbarrier.test_wait{{.sem.scope}}{{.space}}.b64 d, [address], state;
    mbarrier.try_wait{{.sem.scope}}{{.space}}.b64 d, [address], state{{, hint}};
    {_OWN} {_WAITS}
    """,
    needs=(80, (7, 0)),
)
def wait_state(op: Op, address: Address, state: Lanes, hint: Lanes | None = None, *, objects: ObjectsPort) -> Lanes:
    """Whether the phase of a state has completed."""
    before = state.view(np.uint64)
    return mbarriers.has_passed(objects.look(_space(op), address, mbarriers.phase(before)), before)


@_waits(
    f"""
    mbarrier.test_wait.parity{{.sem.scope}}{{.space}}.b64 d, [address], parity;
    mbarrier.try_wait.parity{{.sem.scope}}{{.space}}.b64 d, [address], parity{{, hint}};
    {_OWN} {_WAITS}
    """,
    needs=(80, (7, 1)),
)
def wait_parity(op: Op, address: Address, parity: Lanes, hint: Lanes | None = None, *, objects: ObjectsPort) -> Lanes:
    """Whether the phase with a parity has completed."""
    return mbarriers.has_passed_parity(objects.look(_space(op), address, parity), parity)


_reports = functools.partial(
    instruction,
    anchor=_ANCHOR + "test-wait-mbarrier-try-wait",
    types={"d": ".pred", "seen": ".pred", "value": ".b8", "state": ".u64", "parity": ".u32", "hint": ".u32"},
    limits={"parity": (0, 1)},
    spaces=_SPACES,
    needs=(90, (9, 3)),
    traits=_traits,
)
_REPORTS = f"""
    mbarrier.test_wait.phase_type::primary{{.sem.scope}}{{.space}}.b64 d{{|seen}}, [address], state;
    mbarrier.try_wait.phase_type::primary{{.sem.scope}}{{.space}}.b64 d{{|seen}}, [address], state{{, hint}};
    mbarrier.test_wait.parity.phase_type::primary{{.sem.scope}}{{.space}}.b64 d{{|seen}}, [address], parity;
    mbarrier.try_wait.parity.phase_type::primary{{.sem.scope}}{{.space}}.b64 d{{|seen}}, [address], parity{{, hint}};
    {_OWN} {_WAITS}
    """


@_reports(_REPORTS)
def wait_reporting(
    op: Op,
    address: Address,
    state: Lanes | None = None,
    parity: Lanes | None = None,
    hint: Lanes | None = None,
    *,
    objects: ObjectsPort,
) -> tuple[Lanes, ...]:
    """The same, and whether a copy has reported something: none does but those of sm_107f."""
    if state is not None:
        return wait_state(op, address, state, objects=objects), np.zeros(1, np.bool_)
    assert parity is not None, "the forms have one of the two"
    return wait_parity(op, address, parity, objects=objects), np.zeros(1, np.bool_)


@_reports(_REPORTS.replace("{|seen},", "{|seen}, value,"))
def wait_reporting_value(
    op: Op,
    address: Address,
    state: Lanes | None = None,
    parity: Lanes | None = None,
    hint: Lanes | None = None,
    *,
    objects: ObjectsPort,
) -> tuple[Lanes, ...]:
    """The same, and what has been reported."""
    return *wait_reporting(op, address, state, parity, objects=objects), np.zeros(1, np.uint8)


@instruction(
    "mbarrier.pending_count.b64 count, state;",
    anchor=_ANCHOR + "pending-count",
    types={"count": ".u32", "state": ".u64"},
    needs=(80, (7, 0)),
    traits=_traits,
)
def pending_count(op: Op, state: Lanes) -> Lanes:
    """The pending arrivals of a state's phase."""
    return mbarriers.pending(state.view(np.uint64))

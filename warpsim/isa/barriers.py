"""Barriers and fences (PTX ISA: Parallel Synchronization and Communication). The machine executes the barriers."""

from __future__ import annotations

from typing import Any

from warpsim.isa.spec import Op, Scope, instruction

Lanes = Any
_B32 = {"a": ".u32", "b": ".u32"}


@instruction(
    """
    barrier{.cta}.sync{.aligned} a{, b};  barrier{.cta}.arrive{.aligned} a, b;
    bar{.cta}.sync a{, b};                bar{.cta}.arrive a, b;
    """,
    anchor="parallel-synchronization-and-communication-instructions-bar",
    scope=Scope.SYNC,
    types=_B32,
)
def bar(op: Op, a: Lanes, b: Lanes = None) -> None:
    """Wait for the CTA's threads at barrier a, or arrive without waiting."""


@instruction(
    """
    barrier{.cta}.red.popc{.aligned}.u32 d, a{, b}, {!}c;  bar{.cta}.red.popc.u32 d, a{, b}, {!}c;
    """,
    anchor="parallel-synchronization-and-communication-instructions-bar",
    scope=Scope.SYNC,
    types={"d": ".u32", "c": ".pred", **_B32},
)
def bar_popc(op: Op, a: Lanes, b: Lanes, c: Lanes) -> None:
    """Wait, and count the threads whose predicate holds."""


@instruction(
    """
    barrier{.cta}.red.popc{.aligned}.u32 d, a, {!}c;  bar{.cta}.red.popc.u32 d, a, {!}c;
    """,
    anchor="parallel-synchronization-and-communication-instructions-bar",
    scope=Scope.SYNC,
    types={"d": ".u32", "c": ".pred", **_B32},
)
def bar_popc_all(op: Op, a: Lanes, c: Lanes) -> None:
    """Wait, and count the threads whose predicate holds."""


@instruction(
    """
    barrier{.cta}.red.op{.aligned}.pred d, a, b, {!}c;  bar{.cta}.red.op.pred d, a, b, {!}c;
    .op = { .and, .or };
    """,
    anchor="parallel-synchronization-and-communication-instructions-bar",
    scope=Scope.SYNC,
    types={"d": ".pred", "c": ".pred", **_B32},
)
def bar_red(op: Op, a: Lanes, b: Lanes, c: Lanes) -> None:
    """Wait, and combine the predicates."""


@instruction(
    """
    barrier{.cta}.red.op{.aligned}.pred d, a, {!}c;  bar{.cta}.red.op.pred d, a, {!}c;
    .op = { .and, .or };
    """,
    anchor="parallel-synchronization-and-communication-instructions-bar",
    scope=Scope.SYNC,
    types={"d": ".pred", "c": ".pred", **_B32},
)
def bar_red_all(op: Op, a: Lanes, c: Lanes) -> None:
    """Wait, and combine the predicates."""


@instruction(
    "bar.warp.sync membermask;",
    anchor="parallel-synchronization-and-communication-instructions-bar-warp-sync",
    scope=Scope.SYNC,
    types={"membermask": ".b32"},
    version=(6, 0),
    target=30,
)
def bar_warp_sync(op: Op, membermask: Lanes) -> None:
    """Wait for the lanes of the mask."""


@instruction(
    """
    membar.level;  fence{.sem}.scope;
    .level = { .cta, .gl, .sys, .gpu };  .sem = { .sc, .acq_rel, .acquire, .release };  .scope = { .cta, .cluster, .gpu, .sys };
    """,
    anchor="parallel-synchronization-and-communication-instructions-membar-fence",
)
def fence(op: Op) -> None:
    """Memory is sequentially consistent here: a fence changes no value."""

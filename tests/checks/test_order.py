"""What the order of accesses is found out by."""

import numpy as np
import pytest

from warpsim.checks.race.order import Order
from warpsim.checks.race.vector_clocks import MOST, Numbering, grouped
from warpsim.machine.selection import shape_of


@pytest.mark.parametrize("span", [1, 3, 200, 10**12])
def test_keys_are_grouped_as_by_sorting(span):
    """Close together or far apart, distinct keys come in order, and each key finds its own."""
    rng = np.random.default_rng(span % 1000)
    for n in (1, 2, 70, 1000):
        keys = rng.integers(-span, span, n) + 5 * 10**12
        distinct, group = grouped(keys)
        assert distinct.tolist() == sorted(set(keys.tolist()))
        assert (distinct[group] == keys).all()


def order_of_two_ctas():
    """The clocks of two CTAs of 64 threads."""
    shape, numbers = shape_of(1, 64, 1, 2), Numbering()
    return Order(shape, numbers.enter(np.arange(2), shape), {}, np.arange(2), numbers)


def test_a_fence_takes_what_each_thread_has_read():
    """However many states of knowledge there have been, and though unused ones are collected meanwhile."""
    order = order_of_two_ctas()
    readers = np.arange(0, 20, 2)  # of CTA 0
    for thread in readers:
        order.expect({1: np.full(order.rows, 10_000 + thread)}, np.array([thread]))
    for time in range(1, MOST - 13):
        order.acquire({1: np.full(order.rows, time)}, np.array([126]))
    order.fence(readers, "gpu", 20_000)

    theirs = np.full(len(readers), 5)  # a thread of CTA 1
    assert not order.unordered(theirs, 10_000 + readers - 1, readers).any()
    assert order.unordered(theirs, 10_000 + readers, readers).all()


def test_barriers_keep_the_table_small():
    """What a CTA knows of others is told at its first barrier, and costs nothing at later ones."""
    order = order_of_two_ctas()
    order.acquire({1: np.full(order.rows, 7)}, np.array([0]))
    for time in range(10, 3 * MOST):
        order.cta_barrier(np.arange(0, 128, 2), time)

    assert len(order.acquired.table) < 8
    assert not order.unordered(np.full(64, 5), np.full(64, 6), np.arange(0, 128, 2)).any()


@pytest.mark.parametrize("everyone", [True, False])
def test_nothing_before_a_barrier_is_asked_for_once_the_end_of_copies_is_known(everyone):
    """Only copies whose end some CTA has not seen keep what they did in question; mbarriers without copies do not."""
    shape, numbers = shape_of(1, 64, 1, 2), Numbering(slots=16)
    order = Order(shape, numbers.enter(np.arange(2), shape), {}, np.arange(2), numbers)
    order.widen()
    first, threads = np.array([0, 1]), None if everyone else np.arange(128)
    places = order.copies_of(first, np.array([3, 3]), 5)
    order.cta_barrier(threads, 8)
    assert order.unordered(places, np.array([5, 5]), first).all()
    assert order.floor <= 5
    for column in range(2):
        order.publish_copies(column, places[column : column + 1], np.array([6]))
        order.acquire(order.variables[column], first[column : column + 1])
        order.cta_barrier(threads, 10 + column)
        assert order.floor == (11 if column else 0)
    assert not order.unordered(places, np.array([5, 5]), first + 64).any()

"""Streams, events and capture. Work submitted to a stream is done at once, which is one of the orders that CUDA allows."""

from __future__ import annotations

import time

from warpsim.driver.graphs import Graph, Node
from warpsim.driver.owner import Owner
from warpsim.driver.results import DriverError, Result
from warpsim.driver.work import Work


class Capture:
    """Streams being captured into a graph, until the stream that began the capture ends it."""

    def __init__(self, origin: Stream, graph: Graph, mode: int, number: int) -> None:
        self.origin, self.graph, self.mode, self.number = origin, graph, mode, number
        self.streams = [origin]


class Stream:
    """An ordered queue of work."""

    def __init__(self, driver: Owner, flags: int = 0, priority: int = 0, ordinal: int = 0) -> None:
        self.driver, self.flags, self.priority, self.ordinal = driver, flags, priority, ordinal
        self.capture: Capture | None = None
        self.tail: list[Node] = []

    def submit(self, work: Work) -> None:
        """Do a piece of work, or add it to the graph being captured."""
        if self.capture is not None:
            self.tail = [self.capture.graph.add(work, self.tail)]
            return
        work.run(self.driver)

    def begin(self, mode: int = 0, graph: Graph | None = None, before: list[Node] | None = None) -> None:
        """Begin capturing."""
        if self.capture is not None:
            raise DriverError(Result.ILLEGAL_STATE, "the stream is captured already")
        self.driver.captures += 1
        self.capture = Capture(self, graph or Graph(), mode, self.driver.captures)
        self.tail = list(before or [])

    def end(self) -> Graph:
        """End capturing, and return the graph."""
        capture = self.capture
        if capture is None:
            raise DriverError(Result.ILLEGAL_STATE, "the stream is not captured")
        if capture.origin is not self:
            raise DriverError(Result.STREAM_CAPTURE_UNMATCHED, "another stream began this capture")
        joined, todo = set(self.tail), list(self.tail)
        while todo:
            for node in todo.pop().before:
                if node not in joined:
                    joined.add(node)
                    todo.append(node)
        lost = [node for stream in capture.streams for node in stream.tail if node not in joined]
        for stream in capture.streams:
            stream.capture, stream.tail = None, []
        if lost:
            raise DriverError(Result.STREAM_CAPTURE_UNJOINED)
        return capture.graph

    def synchronize(self) -> None:
        """Wait for submitted work, which has been done already."""
        if self.capture is not None:
            raise DriverError(Result.STREAM_CAPTURE_UNSUPPORTED)

    def record(self, event: Event) -> None:
        """Record an event after the work so far."""
        if self.capture is not None:
            event.capture, event.nodes = self.capture, list(self.tail)
            return
        event.capture, event.nodes, event.recorded = None, [], True
        event.nanoseconds = time.perf_counter_ns()

    def wait(self, event: Event) -> None:
        """Make later work wait for an event; a captured event draws this stream into its capture."""
        if event.capture is None:
            return
        if event.capture.origin.capture is not event.capture:
            raise DriverError(Result.CAPTURED_EVENT, "the event belongs to a capture that has ended")
        if self.capture is None:
            self.capture, self.tail = event.capture, []
            event.capture.streams.append(self)
        elif self.capture is not event.capture:
            raise DriverError(Result.STREAM_CAPTURE_MERGE)
        self.tail = list(dict.fromkeys([*self.tail, *event.nodes]))


class Event:
    """A point in a stream, and the host time at which it was passed."""

    def __init__(self, flags: int = 0) -> None:
        self.flags = flags
        self.recorded = False
        self.nanoseconds = 0
        self.capture: Capture | None = None
        self.nodes: list[Node] = []

    def synchronize(self) -> None:
        """Wait for the event, which has been passed already."""
        if self.capture is not None:
            raise DriverError(Result.CAPTURED_EVENT)

    def since(self, other: Event) -> float:
        """Host time between two events, in milliseconds."""
        if not (self.recorded and other.recorded) or (self.flags | other.flags) & 2:
            raise DriverError(Result.INVALID_HANDLE, "the event was not recorded, or was created without timing")
        return (self.nanoseconds - other.nanoseconds) / 1e6

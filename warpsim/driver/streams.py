"""Streams, events and capture. Submitted work is done at once, which is one of the orders that CUDA allows."""

from __future__ import annotations

import time

from warpsim.driver.graphs import Graph, Node
from warpsim.driver.modules import DriverInterface
from warpsim.driver.results import DriverError, Result, present, require
from warpsim.driver.work import Work
from warpsim.records import frozen


class Capture:
    """Streams being captured into a graph, until the stream that began the capture ends it."""

    def __init__(self, origin: Stream, graph: Graph, mode: int, number: int) -> None:
        self.origin, self.graph, self.mode, self.number = origin, graph, mode, number
        self.streams = [origin]
        self.invalid = False
        """Whether something was done that a capture does not allow."""

    def invalidate(self, result: Result) -> DriverError:
        """Make it invalid; returns the error to raise."""
        self.invalid = True
        return DriverError(result)


class Stream:
    """An ordered queue of work."""

    def __init__(self, driver: DriverInterface, flags: int = 0, priority: int = 0, context: object = None) -> None:
        self.driver, self.flags, self.priority, self.context = driver, flags, priority, context
        self.capture: Capture | None = None
        self.tail: list[Node] = []
        """The nodes that the next captured one depends on."""
        self.kept: object = None
        """C memory that holds their handles."""

    def submit(self, work: Work) -> None:
        """Do a piece of work, or add it to the graph being captured."""
        if self.capture is not None:
            require(not self.capture.invalid, result=Result.STREAM_CAPTURE_INVALIDATED)
            self.tail = [self.capture.graph.add(work, self.tail)]
            return
        work.run(self.driver)

    def begin(self, mode: int = 0, graph: Graph | None = None, before: list[Node] | None = None) -> None:
        """Begin capturing."""
        require(self.capture is None, "the stream is captured already", Result.ILLEGAL_STATE)
        self.driver.captures += 1
        self.capture = Capture(self, graph or Graph(), mode, self.driver.captures)
        self.tail = list(before or [])

    def end(self) -> Graph:
        """End capturing, and return the graph."""
        capture = present(self.capture, "the stream is not captured", Result.ILLEGAL_STATE)
        require(capture.origin is self, "another stream began this capture", Result.STREAM_CAPTURE_UNMATCHED)
        joined, todo = set(self.tail), list(self.tail)
        while todo:
            for node in todo.pop().before:
                if node not in joined:
                    joined.add(node)
                    todo.append(node)
        lost = [node for stream in capture.streams for node in stream.tail if node not in joined]
        for stream in capture.streams:
            stream.capture, stream.tail = None, []
        require(not capture.invalid, result=Result.STREAM_CAPTURE_INVALIDATED)
        require(not lost, result=Result.STREAM_CAPTURE_UNJOINED)
        return capture.graph

    def synchronize(self) -> None:
        """Do nothing outside a capture: submitted work has been done."""
        if self.capture is not None:
            raise self.capture.invalidate(Result.STREAM_CAPTURE_UNSUPPORTED)

    def record(self, event: Event) -> None:
        """Record an event after the work so far."""
        if self.capture is not None:
            event.capture, event.nodes = self.capture, list(self.tail)
        else:
            event.take_place()

    def wait(self, event: Event) -> None:
        """Make later work wait for an event; a captured event draws this stream into its capture."""
        if event.capture is None:
            if self.capture is not None and event.recorded:
                raise self.capture.invalidate(Result.STREAM_CAPTURE_ISOLATION)
            return
        require(event.capture.origin.capture is event.capture, "the event belongs to a capture that has ended")
        if self.capture is None:
            self.capture, self.tail = event.capture, []
            event.capture.streams.append(self)
        elif self.capture is not event.capture:
            event.capture.invalid = True
            raise self.capture.invalidate(Result.INVALID_VALUE)
        self.tail = list(dict.fromkeys([*self.tail, *event.nodes]))


class Event:
    """A point in a stream, and the host time at which it was passed."""

    def __init__(self, flags: int = 0, context: object = None) -> None:
        self.flags, self.context = flags, context
        self.recorded = False
        self.nanoseconds = 0
        self.capture: Capture | None = None
        self.nodes: list[Node] = []

    def take_place(self) -> None:
        """Record it: earlier work has been done."""
        self.capture, self.nodes, self.recorded = None, [], True
        self.nanoseconds = time.perf_counter_ns()

    def synchronize(self) -> None:
        """Do nothing outside a capture: earlier work has been done."""
        require(self.capture is None, result=Result.CAPTURED_EVENT)

    def since(self, other: Event) -> float:
        """Host time between two events, in milliseconds."""
        if not (self.recorded and other.recorded) or (self.flags | other.flags) & 2:
            raise DriverError(Result.INVALID_HANDLE, "the event was not recorded, or was created without timing")
        return (self.nanoseconds - other.nanoseconds) / 1e6


@frozen(eq=False)
class Record:
    """An event recorded by a graph node."""

    event: Event
    kind: int = 7

    def run(self, driver: DriverInterface) -> None:
        """Record it."""
        self.event.take_place()


@frozen(eq=False)
class Wait:
    """A graph node that waits for an event."""

    event: Event
    kind: int = 6

    def run(self, driver: DriverInterface) -> None:
        """Do nothing: earlier work has been done."""

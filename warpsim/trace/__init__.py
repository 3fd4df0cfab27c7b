"""A launch as a picture: what was executed when, who waited for whom, what was in flight, and how shared memory filled.

`Tracer` is a watcher that records; `Trace` is what it has recorded, as a page of HTML, for Perfetto, and as plain data.
Time is counted in steps: one step is one instruction executed by one group of threads in lockstep."""

from warpsim.trace.document import Trace
from warpsim.trace.recorder import Tracer

__all__ = ["Trace", "Tracer"]

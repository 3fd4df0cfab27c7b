"""Traces of a launch: what executed when, which warps waited, what was in flight, and how shared memory was used.

`Tracer` is a watcher that records; `Trace` is the recording, as an HTML page, for Perfetto, and as plain data. Time is
counted in steps: one step is one instruction executed by one group of threads in lockstep.
"""

from warpsim.trace.document import Trace
from warpsim.trace.recorder import Tracer

__all__ = ["Trace", "Tracer"]

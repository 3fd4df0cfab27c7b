"""Records GPU launches: each launch of a process, intercepted at the driver API, becomes a case."""

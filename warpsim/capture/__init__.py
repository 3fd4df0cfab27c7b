"""Recording on a machine with a GPU: every launch of a process, seen at the driver's own entry points, becomes a case."""

"""Everything that a launch in progress is, as plain data: no closures, no way back to whoever owns it."""

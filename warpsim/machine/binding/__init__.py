"""Instructions and operands as closures over a group's slots."""

"""How lanes hold matrices."""

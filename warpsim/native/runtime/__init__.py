"""Running machine code between two step boundaries: what it reads, what it leaves, and taking it back."""

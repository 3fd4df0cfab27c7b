"""When machine code is made, and where it serves."""

"""PTX text to a syntax tree and back; knows no opcode."""

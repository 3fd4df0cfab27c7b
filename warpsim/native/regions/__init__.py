"""Regions: which instructions run as one piece of machine code, what they read, leave and touch."""

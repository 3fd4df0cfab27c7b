"""Regions: which instructions are compiled as one function, their live-ins, live-outs and effects."""

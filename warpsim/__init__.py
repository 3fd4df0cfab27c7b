"""warpsim: a warp-level functional simulator of NVIDIA PTX."""

"""The function of a region: its blocks for converged and for diverged warps, its accesses, its exits."""

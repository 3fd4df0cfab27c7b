"""Code generation: a region's function, with blocks for converged and for diverged warps."""

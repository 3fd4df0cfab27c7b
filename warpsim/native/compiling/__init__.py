"""From LLVM IR to functions: compiler and compile queue."""

from functools import lru_cache


@lru_cache(maxsize=1)
def available() -> bool:
    """Whether there is a compiler: the extra ``jit`` is installed."""
    import importlib.util  # takes 5 ms

    return importlib.util.find_spec("llvmlite") is not None

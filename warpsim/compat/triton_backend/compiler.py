"""Triton wants a compiler of each backend; here it is its own one for CUDA, found under that name."""

from typing import Any

from triton.backends.nvidia import compiler


class Compiler(compiler.CUDABackend):  # type: ignore[misc]
    """Never chosen: `CUDABackend` compiles for the simulated GPU too."""

    @staticmethod
    def supports_target(target: Any) -> bool:
        """No target is this one's alone."""
        return False

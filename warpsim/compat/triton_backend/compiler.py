"""The compiler that Triton expects of each backend: its own CUDA compiler, under this backend's name."""

from triton.backends.nvidia import compiler


class Compiler(compiler.CUDABackend):  # type: ignore[misc]
    """Never selected, because `CUDABackend` also compiles for the simulated GPU."""

    @staticmethod
    def supports_target(target: object) -> bool:
        """False: no target needs this class."""
        return False

"""The entry point by which Triton finds the simulated GPU: ``TRITON_DEFAULT_BACKEND=warpsim``."""

"""Entry point through which Triton finds the simulated GPU: ``TRITON_DEFAULT_BACKEND=warpsim``."""

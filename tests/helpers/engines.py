"""The engines on which tests run kernels: machine code where llvmlite is installed."""

import importlib.util

import pytest

compiles = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="the extra jit is not installed")
ENGINES = ["interpreter", pytest.param("compiled", marks=compiles)]

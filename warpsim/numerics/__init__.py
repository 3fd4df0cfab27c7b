"""Pure array functions: rounding, approximate units, conversions, matrix products. No PTX names."""

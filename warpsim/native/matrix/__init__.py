"""Machine code of matrix instructions."""

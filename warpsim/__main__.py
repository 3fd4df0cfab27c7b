"""``python -m warpsim``."""

import sys

try:
    from warpsim.cli import main

    status = main()
except KeyboardInterrupt:  # before `main` could say anything
    status = 130
sys.exit(status)

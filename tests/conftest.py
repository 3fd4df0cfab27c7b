"""What a run costs, said at its end."""

import os
import time

STARTED = time.monotonic()


def pytest_terminal_summary(terminalreporter):
    """Time, and processor time of this process and of those that it started."""
    used = os.times()
    cpu = used.user + used.system + used.children_user + used.children_system
    terminalreporter.write_line(f"took {time.monotonic() - STARTED:.0f} s, {cpu:.0f} CPU-seconds")

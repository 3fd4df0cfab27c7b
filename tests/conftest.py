"""What a run costs, said at its end."""

import gc
import math
import os
import sys
import time

import pytest

STARTED = time.monotonic()


if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):  # each process that a test starts would compile the package anew
    sys.dont_write_bytecode = False


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Python's garbage collector looked a tenth of the time at what lives to the end of the run, modules and the tests, and as
    long again at the syntax trees that a first run makes of each file."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
        gc.set_threshold(5_000)
        from warpsim.program import load

        load.LONG = math.inf  # no text that a test reads is to come from a test before it


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems():
    """Hypothesis draws no constants of the package: to look for them in all of its files took seconds, and what is drawn would
    depend on which tests were collected."""
    providers = sys.modules.get("hypothesis.internal.conjecture.providers")
    if hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = lambda: providers._local_constants  # none yet


def pytest_terminal_summary(terminalreporter):
    """Time, and processor time of this process and of those that it started."""
    used = os.times()
    cpu = used.user + used.system + used.children_user + used.children_system
    terminalreporter.write_line(f"took {time.monotonic() - STARTED:.0f} s, {cpu:.0f} CPU-seconds")


@pytest.fixture
def browser(tmp_path_factory):
    """A headless browser, where one is installed: ``.dom(path)`` and ``.screenshot(path)``."""
    from pages import Browser

    return Browser(tmp_path_factory.mktemp("browser"))

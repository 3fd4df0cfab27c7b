"""These tests compare compiled code: launches wait for it."""

import pytest


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Whatever can be compiled is."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")

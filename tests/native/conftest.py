"""These tests compare compiled code: launches wait for it."""

import pytest


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Whatever can be compiled is."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")


@pytest.fixture
def done(monkeypatch):
    """A list that grows with every region that runs to its end: a comparison in which none does compares nothing."""
    from warpsim.native.regions.options import Outcome
    from warpsim.native.runtime.run import Runner

    units, run = [], Runner.run

    def counted(self, machine, group, code, *given, **options):
        outcome = run(self, machine, group, code, *given, **options)
        if outcome is Outcome.DONE:
            units.append(code)
        return outcome

    monkeypatch.setattr(Runner, "run", counted)
    return units


@pytest.fixture
def served(monkeypatch, done):
    """How many products of matrices machine code has served: within regions, or in the place of a body."""
    from warpsim.native.matrix.codes import Codes

    bodies, of = [], Codes.of

    def counted(self, key, *given):
        found = of(self, key, *given)
        if found is not None:
            bodies.append(key)
        return found

    monkeypatch.setattr(Codes, "of", counted)
    return lambda: len(bodies) + sum(code.products for code in done)

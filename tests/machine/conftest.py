"""Parts of the machine, each built alone: the state of a batch, what steps act through, and groups, without an engine."""

import numpy as np
import pytest

import warpsim
from warpsim.machine.hooks import Hooks
from warpsim.machine.machine import Machine
from warpsim.machine.selection import Shape, from_positions
from warpsim.machine.state.batch import BatchState
from warpsim.machine.state.launch import LaunchState, Settings
from warpsim.machine.watcher import Watcher

KERNEL = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k() {{
.reg .b32 r<4>; .reg .pred p<2>; .shared .align 16 .b8 s[{shared}];
{body} ret; }}
"""


class Stage:
    """A machine of one batch, whose groups stand at the first instruction of a kernel; nothing runs them."""

    def __init__(self, threads, ctas=1, *, body="mov.u32 r0, s;", shared=64, watcher=None, device=None, **settings):
        self.device = device or warpsim.Device("sm_90a")
        self.module = warpsim.load(KERNEL.format(shared=shared, body=body))
        plan = self.module.image(self.device).plan("k")
        options = Settings(**settings)
        spec = self.device.spec
        self.launch = LaunchState(plan, (ctas, 1, 1), (threads, 1, 1), b"", self.device.memory, spec, options)
        self.batch = BatchState.of(Shape(1, threads, 1, ctas), np.arange(ctas), shared, 0)
        self.machine = Machine(self.launch, self.batch, Hooks([watcher or Watcher()]))

    def group(self, *threads, cta=None, generation=0):
        """Threads of one CTA, or of all."""
        n = self.batch.shape.n_ctas
        ctas = range(n) if cta is None else (cta,)
        positions = np.array(sorted(t * n + c for t in threads or range(self.batch.shape.n_threads) for c in ctas))
        selection = from_positions(self.batch.shape, positions)
        return self.machine.group(selection, self.launch.plan.main, (), 0, 0, 0, generation)

    def runnable(self):
        """(CTA, thread) of all that can run, and take those groups away."""
        groups, self.batch.runnable = self.batch.runnable, []
        return sorted((int(p) % self.batch.shape.n_ctas, int(p) // self.batch.shape.n_ctas) for g in groups for p in g.selection.positions.reshape(-1))  # fmt: skip


@pytest.fixture
def stage():
    """``Stage``."""
    return Stage

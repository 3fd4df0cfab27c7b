"""Which lines of the PTX were executed, and by which warps of which CTAs."""

from collections import defaultdict

import warpsim


class Coverage(warpsim.Watcher):
    """``warps[line]`` is the set of (CTA, warp) that executed the line; CTAs by their linear number in the grid."""

    def __init__(self):
        self.warps = defaultdict(set)

    def step_before(self, machine, group, instruction):
        """Add the warps of the group."""
        selection = group.selection
        ctas = machine.batch.ctas[selection.ctas.reshape(-1)].tolist()
        self.warps[instruction.span.line].update(zip(ctas, (selection.threads.reshape(-1) >> 5).tolist(), strict=True))

    def missed(self, kernel):
        """Lines of a kernel's instructions that no warp has executed."""
        return sorted({i.span.line for i in kernel.function.code} - self.warps.keys())

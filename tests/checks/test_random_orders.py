"""race: random kernels, against clocks that every thread has about every other."""

import pytest

from .random_steps import Kernel


def wrong(kernel, **options):
    """What is found and should not be, or is not found and should be."""
    found, said = {}, []
    for f in kernel.findings(**options):
        pair = tuple(sorted((f.line - kernel.first, f.other.line - kernel.first)))
        if f.message.startswith("the CTA exits"):
            continue
        if pair not in kernel.racing:
            said.append(("elsewhere", pair, f.message))
            continue
        found[pair] = f
        racing = kernel.racing[pair]
        here = {(t, w) if f.line - kernel.first == pair[1] else (w, t) for t, w in racing}
        cta, base = f.cta[0], 32 * f.warp
        threads = {cta * kernel.block + base + lane for lane in f.lanes}
        other = f.other.cta[0] * kernel.block + 32 * f.other.warp + f.other.lanes[0]
        if not threads <= {t for t, _ in here} or other not in {w for t, w in here if t in threads}:
            said.append(("others", pair, sorted(threads)[:4], other))
    said += [
        ("missed", pair)
        for pair, racing in kernel.certain.items()
        if racing and pair not in found and not kernel.crowded
    ]
    return said + [("false", pair) for pair in found if not kernel.racing[pair]]


def judged(steps, *arguments, **options):
    """A kernel with what must be found in it, and what may be by the text."""
    kernel, strict = (Kernel(*arguments, **options, strict=strict).build(steps) for strict in (False, True))
    assert kernel.lines == strict.lines
    kernel.racing = strict.racing
    return kernel


KINDS = [(cluster, alike) for cluster in (1, 2) for alike in (False, True)]


def cases(first, last, marks=()):
    """Kernels of every kind."""
    return [
        pytest.param(f"{seed} {c} {alike}", c, alike, marks=marks) for seed in range(first, last) for c, alike in KINDS
    ]


@pytest.mark.parametrize(("seed", "cluster", "alike"), cases(0, 3) + cases(3, 90, [pytest.mark.long]))
def test_random_kernels(seed, cluster, alike):
    """Races are found where the model has them, by threads that race, and nowhere else."""
    kernel = judged(16, seed, cluster=cluster, alike=alike)

    assert wrong(kernel) == []


@pytest.mark.parametrize(("seed", "cluster", "alike"), cases(300, 302) + cases(302, 320, [pytest.mark.long]))
def test_random_kernels_in_waves(seed, cluster, alike):
    """The same where CTAs, or clusters, run in batches."""
    kernel = judged(14, seed, cluster=cluster, alike=alike, warps=3)

    assert wrong(kernel, batch_threads=96 * cluster) == []

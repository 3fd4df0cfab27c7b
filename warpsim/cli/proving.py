"""The command prove: answers that hold for all contents of memory and all orders of threads."""

from __future__ import annotations

import re
from argparse import Namespace

from warpsim.cli.launching import Left, find_case, launch_from
from warpsim.cli.output import Unusable, document
from warpsim.host.arguments import Arguments
from warpsim.host.cases import Case
from warpsim.host.kernel import Kernel, LaunchResult
from warpsim.host.options import Dim
from warpsim.proving import Proof, Verdict, prove

BOUND = re.compile(r"([^=]+)=(-?\d{1,20})\.\.(-?\d{1,20})")
STATUS = {Verdict.PROVED: 0, Verdict.REFUTED: 1, Verdict.UNKNOWN: 3}


def command_prove(options: Namespace) -> int:
    """Prove what is so for a launch, and print it."""
    proofs: list[Proof] = []

    def proving(kernel: Kernel, grid: Dim, block: Dim, args: Arguments, **given: object) -> LaunchResult:
        names = ("shared_mem", "cluster", "cooperative", "device")
        kept = {name: given[name] for name in names if name in given}
        bounds = dict(map(_bound, options.bounds))
        proofs.append(prove(kernel, grid, block, args, bounds=bounds, max_seconds=options.max_seconds, **kept))  # type: ignore[arg-type]
        raise Left

    try:
        if options.kind == "run":
            launch_from(options, proving)
        else:
            Case.read(find_case(options.case)).prepare(device=options.device).launch(proving)
    except Left:
        pass
    (proof,) = proofs
    if options.json:
        document(proof.record())
    else:
        print(proof)
    return STATUS[proof.verdict]


def _bound(text: str) -> tuple[str | int, tuple[int, int]]:
    """Parse ``n=0..4096``, or ``2=0..4096`` for the parameter of that number."""
    found = BOUND.fullmatch(text)
    if found is None:
        raise Unusable(f"--bounds {text}: write NAME=LEAST..GREATEST, with the name of a parameter or its number")
    return int(found[1]) if found[1].isdecimal() else found[1], (int(found[2]), int(found[3]))

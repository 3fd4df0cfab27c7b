"""The driver's verdict on 547 argument sets of tensor maps, recorded on an H200 (tools/recordings/tensor_map_arguments.py)."""

import gzip
import json
from pathlib import Path

import warpsim

VERDICTS = json.loads(
    gzip.decompress((Path(__file__).parent.parent / "data" / "tensor_map_verdicts.json.gz").read_bytes())
)
ADDRESS = 0x7F00_0000_0000


def refusal(mode, arguments):
    """Why warpsim refuses a set, empty where it does not."""
    make = warpsim.TensorMap.im2col if mode == "im2col" else warpsim.TensorMap
    arguments = dict(arguments)
    address = ADDRESS + arguments.pop("offset")
    try:
        make(address, **arguments).encode(address)
    except warpsim.LaunchError as problem:
        return str(problem)
    return ""


def test_every_verdict():
    """What the driver refuses is refused; what it takes is taken."""
    wrong = []
    for verdict in VERDICTS:
        found = refusal(verdict["mode"], verdict["arguments"])
        if (not found) != verdict["accepted"]:
            wrong.append((verdict, found))

    assert wrong == []


def test_both_verdicts_occur():
    """The sets lie on both sides of the limits."""
    accepted = [v["accepted"] for v in VERDICTS]

    assert min(accepted.count(True), accepted.count(False)) > 200

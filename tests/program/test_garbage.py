"""Garbage of the process is found however many programs are loaded."""

import subprocess
import sys

import pytest

BEGIN = """
import gc, weakref
from warpsim.program.load import no_collection, program_of

class Cycle:
    def __init__(self):
        self.itself = self

def garbage(load, rounds):
    left = []
    for number in range(rounds):
        left.append(weakref.ref(Cycle()))
        load(number)
    return sum(each() is not None for each in left)

def small(number):
    program_of(f".version 8.0\\n.target sm_90\\n.address_size 64\\n.visible .entry k{number}() {{ ret; }}\\n")

def large(number):
    with no_collection():
        return [[] for _ in range(20_000)]
"""


@pytest.mark.parametrize(
    "code",
    [
        "assert garbage(small, 300) < 30",
        "assert garbage(large, 100) < 30",
        "garbage(small, 300); kept = large(0); assert gc.get_count()[0] < 1_000",
    ],
)
def test_garbage(code):
    """In a process of its own: here, much is frozen."""
    subprocess.run([sys.executable, "-c", BEGIN + code], check=True)

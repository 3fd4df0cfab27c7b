"""Global memory alone: what lies where, against a plain list of the bytes that were mapped."""

import copy
import itertools
import pickle

import numpy as np
import pytest

from warpsim.errors import LaunchError
from warpsim.machine.memory.addresses import INDEX, outside_global
from warpsim.machine.state import global_memory
from warpsim.machine.state.global_memory import ALIGNMENT, CAPACITY, FIRST_ADDRESS, GUARD, GlobalMemory

SIZES = (16, 0, 300, 1)
HERE = (0x8000, 0x8100, 0x8140, 0x9000)
"""Chosen addresses: the second and third are neighbours."""


def filled():
    """Four arrays at chosen addresses, each of its own number."""
    memory = GlobalMemory()
    for number, (at, size) in enumerate(zip(HERE, (16, 64, 0x40, 1), strict=True), 1):
        memory.map(np.full(size, number, np.uint8), name=f"a{number}", address=at)
    return memory, [(at, at + size) for at, size in zip(HERE, (16, 64, 0x40, 1), strict=True)]


EDGES = sorted({p + d for at, size in zip(HERE, (16, 64, 0x40, 1), strict=True) for p in (at, at + size) for d in (-2, -1, 0, 1, 2)})  # fmt: skip


@pytest.mark.parametrize("nbytes", [1, 2, 16, 64, 65, 128])
def test_who_holds_a_run(nbytes):
    """The array that holds all of it, if one does; which mapping it would meet, if any byte is taken."""
    memory, extents = filled()
    for at in EDGES:
        holds = [k for k, (low, high) in enumerate(extents) if low <= at and at + nbytes <= high]
        meets = [k for k, (low, high) in enumerate(extents) if low < at + nbytes and at < high]
        found = memory.find(at, at + nbytes)
        assert (None if found is None else found.start) == (extents[holds[0]][0] if holds else None)
        assert memory.owners(np.array([at]), nbytes).tolist() == (holds or [-1])
        assert (memory.overlapped_by(at, nbytes) is None) == (not meets)
        if meets:
            assert memory.overlapped_by(at, nbytes) in {f"a{k + 1} at 0x{extents[k][0]:x}" for k in meets}
    assert GlobalMemory().owners(np.array([0, 5]), nbytes).tolist() == [-1, -1]


def test_the_nearest():
    """The distance is negative before an array, 0 in it and at its end, positive past it."""
    memory, extents = filled()
    for at in EDGES:
        allocation, distance = memory.nearest(at)
        away = [at - low if at < low else max(at - high, 0) for low, high in extents]
        assert abs(distance) == min(map(abs, away))
        assert (allocation.start, distance) in {(low, d) for (low, _), d in zip(extents, away, strict=True)}
    assert GlobalMemory().nearest(5) is None


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (0, ", through a null pointer"),
        (12, ", through a null pointer, 12 bytes from it"),
        (0xFFFF, ", through a null pointer, 65535 bytes from it"),
        (0x10000 - (1 << 17), f"at address 0x{(1 << 64) - 0x10000:x} is outside any live allocation; it is {0x10000000 + 0x10000} bytes before a [0x10000000, 0x10000004)"),
        (0x10000, f" is outside any live allocation; it is {0x10000000 - 0x10000} bytes before a [0x10000000, 0x10000004)"),
        (0x10000004, "; it is at the end of a ["),
        (0x10000006, "; it is 2 bytes past the end of a ["),
        (0x10000004 + (1 << 32) - 1, f"; it is {(1 << 32) - 1} bytes past the end of a ["),
        (0x10000004 + (1 << 32), " is outside any live allocation, and none is near"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_stray_address(address, said):
    """A null pointer up to 64 KiB, the nearest array with the distance up to 4 GiB, or that none is near."""
    memory = GlobalMemory()
    memory.map(np.zeros(4, np.uint8), name="a", address=0x10000000)
    text, advice = outside_global(memory, address, 4)

    assert text.startswith("access of 4 bytes at address 0x")
    assert said in text
    assert advice.startswith("pass an array" if "null" in said else "check that it is" if "none" in said else INDEX)  # fmt: skip


def test_windows_are_taken():
    """Arrays cannot be mapped where shared, local or parameter memory has its generic addresses."""
    memory = GlobalMemory()
    for start, name in ((0x7E00_0000_0000, "shared"), (0x7D00_0000_0000, "local"), (0x7B00_0000_0000, "parameter")):
        for at, taken in ((start - 4, False), (start - 3, True), (start, True), (start + (1 << 32) - 1, True), (start + (1 << 32), False)):  # fmt: skip
            assert memory.overlapped_by(at, 4) == (f"the window of {name} memory" if taken else None)


def test_places():
    """Arrays are aligned, far apart, and never where something was mapped at a chosen address; constants have a range of their own."""
    memory = GlobalMemory()
    memory.map(np.zeros(8, np.uint8), address=FIRST_ADDRESS + ALIGNMENT)
    extents = [(FIRST_ADDRESS + ALIGNMENT, FIRST_ADDRESS + ALIGNMENT + 8)]
    for size, align, const in itertools.product(SIZES, (1, 256, 4096, 1 << 22), (False, True)):
        at, data = memory.allocate(size, align=align, const=const)
        assert at % max(align, ALIGNMENT) == 0
        assert (at >= 0x7C00_0000_0000) == const
        assert memory.at(at).read_only == const
        assert data.size == size
        assert not data.any()
        extents.append((at, at + max(size, 1)))
    chosen = extents[0]
    extents.sort()
    for (first, end), (start, last) in itertools.pairwise(extents):
        assert start - end >= (0 if chosen in ((first, end), (start, last)) else GUARD)
    assert [a.start for a in memory.allocations] == [start for start, _ in extents]


@pytest.mark.parametrize(("nbytes", "aligned"), [(1 << 20, 256), ((1 << 20) + 1, 1 << 21), (3 << 20, 1 << 21)])
def test_large_allocations(nbytes, aligned):
    """More than a MiB lies as cuMemAlloc of an H200 puts it: Taichi's run time divides such a block into pages."""
    memory = GlobalMemory()
    memory.map(np.zeros(1, np.uint8))

    address = memory.map(np.zeros(nbytes, np.uint8))
    assert (address & -address) >= aligned
    if aligned == 256:
        assert address % (1 << 21)


def test_capacity():
    """As much as the GPU has can be asked for, a byte more not; what this machine does not have is named."""
    memory = GlobalMemory()
    with pytest.raises(LaunchError, match=f"big takes {CAPACITY + 1} bytes of global memory; the GPU has {80 << 30}"):
        memory.allocate(CAPACITY + 1, "big")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(global_memory, "CAPACITY", 1 << 62)
        with pytest.raises(LaunchError, match=r"big takes .* bytes, which this machine does not have"):
            memory.allocate(1 << 61, "big")
    assert memory.allocations == ()


def test_what_is_gone():
    """An unmapped array is nowhere; a dropped one goes before the next is mapped. Bytes can be had by their first address only."""
    memory, _ = filled()
    memory.unmap(HERE[1])
    memory.drop(HERE[3])
    assert [a.name for a in memory.allocations] == ["a1", "a3", "a4"]
    memory.map(np.zeros(4, np.uint8), name="new", address=0x100)
    assert [a.name for a in memory.allocations] == ["new", "a1", "a3"]
    assert memory.total("a3", 10) == 0x40 + 10
    assert memory.bytes_at(HERE[0]).tolist() == [1] * 16
    for wrong in (HERE[0] + 1, HERE[1], 0, 1 << 60):
        with pytest.raises(KeyError):
            memory.bytes_at(wrong)
        with pytest.raises(KeyError):
            memory.own(wrong)


def test_who_shares_bytes_with_whom():
    """The caller's array stays in place: where either side writes, the copies move away, together; those of others do not."""
    memory, _ = filled()
    array = memory.bytes_at(HERE[0])
    first = copy.deepcopy(memory)
    second = copy.deepcopy(first)
    assert first.bytes_at(HERE[0]) is second.bytes_at(HERE[0]) is array
    first.own(HERE[0])
    first.bytes_at(HERE[0])[:] = 9
    assert (memory.bytes_at(HERE[0]) is array, second.bytes_at(HERE[0]) is array, array[0]) == (True, True, 1)
    memory.own(HERE[0])
    array[:] = 7
    assert second.bytes_at(HERE[0]).tolist() == [1] * 16
    assert memory.bytes_at(HERE[0]) is array
    third = copy.deepcopy(memory)
    memory.settle()
    array[:] = 5
    assert third.bytes_at(HERE[0]).tolist() == [7] * 16
    assert pickle.loads(pickle.dumps(third)).bytes_at(HERE[0]).tolist() == [7] * 16


def test_restored():
    """Going back puts the old bytes into the arrays that are mapped; what was freed since comes back, what is new goes."""
    memory, _ = filled()
    array = memory.bytes_at(HERE[0])
    then = copy.deepcopy(memory)
    memory.own(HERE[0])
    array[:] = 99
    memory.unmap(HERE[2])
    memory.map(np.zeros(4, np.uint8), name="new", address=0x100)
    memory.restore(then)

    assert [a.name for a in memory.allocations] == ["a1", "a2", "a3", "a4"]
    assert memory.bytes_at(HERE[0]) is array
    assert array.tolist() == [1] * 16
    assert memory.bytes_at(HERE[2]).tolist() == [3] * 0x40
    memory.own(HERE[2])
    memory.bytes_at(HERE[2])[:] = 8
    assert then.bytes_at(HERE[2]).tolist() == [3] * 0x40


def test_elements():
    """Memory as whole elements, or rows of them; what is left over at the end belongs to none."""
    memory = GlobalMemory()
    at = memory.map(np.arange(30, dtype=np.uint8))
    words = memory.at(at).elements(np.dtype("<u4"))
    assert words.tolist() == [int.from_bytes(bytes(range(k, k + 4)), "little") for k in range(0, 28, 4)]
    assert memory.at(at).elements(np.dtype("<u2"), 4).tolist() == [[0x100 * (k + 1) + k for k in range(j, j + 8, 2)] for j in (0, 8, 16)]  # fmt: skip
    words[0] = 7
    assert memory.bytes_at(at)[:4].tolist() == [7, 0, 0, 0]

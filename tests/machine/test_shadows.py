"""Shadows: what goes along with the values of registers and bytes of memory, through splits, meetings, calls and copies."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest

import warpsim
from warpsim.machine.control import part
from warpsim.machine.hooks import Hooks
from warpsim.machine.selection import Shape, from_positions, split, union
from warpsim.machine.state.group import Frame, Group
from warpsim.machine.state.word_space import WordSpace
from warpsim.machine.watcher import READ, Watcher

SHAPE = Shape(1, 8, 1, 1)
PLAN = SimpleNamespace(n_registers=2, zeros=[np.zeros(1, np.uint32)] * 2)
MARKS = np.arange(8, dtype=np.uint32)


def group(selection, frame, plan=PLAN):
    """Threads at the first step of a function."""
    return Group(frame, selection, plan, (), 0, 0, 0)


def marked(frame=None):
    """All eight threads: thread t holds 100 + t in register 0, with shadow t; register 1 has no shadow."""
    whole = group(SHAPE.whole, Frame([None, None]) if frame is None else frame)
    whole.set(0, (MARKS + 100).reshape(SHAPE.extents))
    whole.set(1, MARKS.reshape(SHAPE.extents))
    whole.set_shadow("mark", 0, MARKS.reshape(SHAPE.extents))
    return whole


def marks(threads):
    """The shadows of the register that has them, by thread; the other has none."""
    assert threads.shadow("mark", 1) is None
    found = threads.shadow("mark", 0)
    if found is None:
        return {}
    found = np.broadcast_to(found, threads.selection.shape).reshape(-1)
    return dict(zip(threads.selection.positions.reshape(-1).tolist(), found.tolist(), strict=True))


@pytest.mark.parametrize("flags", [MARKS < 4, MARKS % 3 == 0], ids=["a run", "lanes"])
def test_split_and_merge(flags):
    """Both parts of a group have the shadows of their threads, and the group of both has all of them."""
    whole = marked()
    whole.flush()
    parts = [group(s, whole.frame) for s in split(SHAPE.whole, flags.reshape(SHAPE.extents))]

    assert [marks(p) for p in parts] == [{t: t for t in range(8) if flags[t] == wanted} for wanted in (True, False)]

    parts[1].set(0, np.full(parts[1].selection.shape, 7, np.uint32))
    parts[1].set_shadow("mark", 0, None)
    for p in parts:
        p.flush()

    merged = group(union([p.selection for p in parts]), whole.frame)
    assert marks(merged) == {t: t if flags[t] else 0 for t in range(8)}


def test_only_live_registers_are_written():
    """A register that nobody reads afterwards leaves its shadow behind with its value."""
    whole = marked()
    whole.flush(frozenset({1}))

    assert not group(SHAPE.whole, whole.frame).has_shadows


def test_lists_of_lanes():
    """A part of a list of lanes takes shadows along without passing by the frame."""
    frame = Frame([None, None])
    marked(frame).flush()
    lanes = group(from_positions(SHAPE, np.array([0, 3, 5, 6])), frame)
    lanes.read(0)
    machine = SimpleNamespace(
        batch=SimpleNamespace(shape=SHAPE),
        launch=SimpleNamespace(settings=SimpleNamespace(keeps=False)),
        hooks=Hooks(),
        stand_in=lambda whole, selection: group(selection, frame, whole.plan),
    )
    lanes.set_shadow("mark", 0, np.array([9, 0, 8, 7], np.uint32))
    yes, no = part(machine, lanes, np.array([True, False, True, False]))

    assert (marks(yes), marks(no)) == ({0: 9, 5: 8}, {3: 0, 6: 7})


def test_calls():
    """An argument comes with its shadow into the function's register, a result back."""
    caller, callee = marked(), group(SHAPE.whole, Frame([None, None]))
    caller.hand_on(0, callee, 0)
    caller.hand_on(1, callee, 1)

    assert marks(callee) == dict(enumerate(range(8)))


def test_without_shadows_nothing_is_reported():
    """A group whose last shadow is taken away costs no more than one that never had any."""
    whole = marked()
    assert whole.has_shadows
    whole.set_shadow("mark", 0, None)
    assert not whole.has_shadows


def test_memory():
    """The shadow of a memory grows with it, and moves with what is moved."""
    space = WordSpace(16, 2)
    space.shadow = WordSpace(16, 2)
    columns = np.array([1])
    space.shadow.words[:4] = [[1, 2], [3, 4], [5, 6], [7, 8]]
    space.grow(32)
    space.move(0, 16, 8, columns)

    assert space.shadow.size >= 32
    assert space.shadow.words[:6].tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [0, 2], [0, 4]]


KERNEL = """
.version 8.0
.target sm_80
.address_size 64
.func (.reg .b32 out) half(.reg .b32 in)
{
    shr.u32 out, in, 1;
    ret;
}
.visible .entry k(.param .u64 a)
{
    .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [a];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    ld.global.u32 %r2, [%rd1];
    setp.lt.u32 %p1, %r1, 5;
    @%p1 bra low;
    mov.u32 %r3, %r2;
    bra done;
low:
    mov.u32 %r3, 0;
done:
    call (%r4), half, (%r3);
    st.global.u32 [%rd1], %r4;
    ret;
}
"""


class FromGlobal(Watcher):
    """Follows what moves and shifts make of what was loaded from global memory."""

    def __init__(self):
        self.told = []
        self.stored = None

    def memory_accessed(self, machine, group, access):
        """Loads are looked at when they are done."""
        if access.kind == READ:
            machine.attend()

    def shadowed_before(self, machine, group, instruction):
        """The next step of a group that holds such values."""
        self.told.append(instruction.text)
        if instruction.text.startswith("st"):
            self.stored = group.shadow("loaded", instruction.operands[1].register.index)

    def shadowed_after(self, machine, group, instruction):
        """The destination comes from there, if a source does."""
        operands = [o.register.index for o in instruction.operands if o.register is not None]
        if instruction.text.startswith("ld"):
            group.set_shadow("loaded", operands[0], np.ones(1, np.bool_))
        elif instruction.text.startswith(("mov", "shr")):
            found = group.shadow("loaded", operands[1]) if operands[1:] else None
            group.set_shadow("loaded", operands[0], found)


def test_watchers_follow_values():
    """A watcher is told of the steps of groups that carry what it gave them, from the load that it asked to be told of."""
    watcher, data = FromGlobal(), np.arange(8, dtype=np.uint32) * 2
    warpsim.load(KERNEL)["k"](1, 8, (data,), checks="none", watchers=[watcher])

    assert watcher.told[0].startswith("setp")
    assert {text.split(".")[0] for text in watcher.told} >= {"bra", "mov", "call", "shr", "ret", "st"}
    assert np.broadcast_to(watcher.stored, (1, 8, 1, 1)).reshape(-1).tolist() == [t >= 5 for t in range(8)]
    assert data.tolist() == [0, 0, 0, 0, 0, 5, 6, 7]


def test_steps_are_told_only_where_something_is_carried():
    """A launch in which a watcher gives shadows to nothing hears of no step."""

    class Nothing(FromGlobal):
        def memory_accessed(self, machine, group, access):
            """Asks for nothing."""

    watcher = Nothing()
    warpsim.load(KERNEL)["k"](1, 8, (np.zeros(8, np.uint32),), checks="none", watchers=[watcher])

    assert watcher.told == []


def test_a_watcher_is_told_of_its_own_shadows():
    """Values that carry what another watcher gave them are not told, but where a watcher beside it follows them."""

    class Other(FromGlobal):
        shadows = frozenset({"another"})

    class Own(FromGlobal):
        shadows = frozenset({"loaded"})

    def stores(*watchers):
        warpsim.load(KERNEL)["k"](1, 8, (np.arange(8, dtype=np.uint32) * 2,), checks="none", watchers=watchers)
        return ["st" in {text.split(".")[0] for text in watcher.told} for watcher in watchers]

    assert stores(Other()) == [False]
    assert stores(Own()) == [True]
    assert stores(Other(), Own()) == stores(Other(), FromGlobal()) == [True, True]


def test_what_others_change_is_read_again():
    """Threads that part and meet find their registers as they left them, but those that some of them have changed."""
    whole = marked()
    whole.flush()
    frame, second = whole.frame, split(SHAPE.whole, MARKS.reshape(SHAPE.extents) < 3)[0]
    before = group(SHAPE.whole, frame)
    kept = [before.read(index) for index in (0, 1)]
    some = group(second, frame)
    some.set(0, np.full(second.shape, 7, np.uint32))
    some.set_shadow("mark", 0, None)
    some.flush()
    after = group(SHAPE.whole, frame)

    assert after.read(0).reshape(-1).tolist() == [7, 7, 7, 103, 104, 105, 106, 107]
    assert marks(after) == {t: t if t > 2 else 0 for t in range(8)}
    assert kept[0].reshape(-1).tolist() == list(range(100, 108))
    assert after.read(1) is kept[1]


def test_copies_have_shadows_of_their_own():
    """All threads, copied, keep what they had read when the others write; they hold no view of what is written in place."""
    marked(frame := Frame([None, None])).flush()
    whole = group(SHAPE.whole, frame)
    assert marks(whole) == {t: t for t in range(8)}
    kept = copy.deepcopy(whole)

    whole.set_shadow("mark", 0, None)
    whole.flush()

    assert marks(kept) == {t: t for t in range(8)}

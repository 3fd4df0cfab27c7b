"""Tensor memory in a session: its words, what is allocated, and how it comes back with a step back."""

from __future__ import annotations

import copy
import pickle

import numpy as np

import warpsim
from warpsim.cli import main
from warpsim.debug import Session

TEXT = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .b32 r<8>; .reg .b64 d; .reg .pred first; .shared .b32 slot;
  mov.u32 r0, %tid.x; shr.u32 r1, r0, 5; setp.eq.u32 first, r1, 0; mov.b32 r6, 0f3FC00000;
  @first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
  bar.sync 0;
  ld.shared.b32 r2, [slot]; shl.b32 r3, r1, 21; add.u32 r3, r3, r2;
  tcgen05.st.sync.aligned.32x32b.x2.b32 [r3], {r0, r6};
  tcgen05.wait::st.sync.aligned;
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {r4}, [r3];
  tcgen05.wait::ld.sync.aligned;
  ld.param.u64 d, [out]; mad.wide.u32 d, r0, 4, d; st.global.b32 [d], r4;
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  @first tcgen05.dealloc.cta_group::1.sync.aligned.b32 r2, 32;
  ret;
}
"""


def begun():
    """A session before its first step."""
    return Session(warpsim.load(TEXT)["k"], 1, 128, (np.zeros(128, np.uint32),))


def line(words):
    """The number of the line with these words."""
    return next(number for number, text in enumerate(TEXT.splitlines(), 1) if words in text)


def test_words():
    """Words by lane and column; what is not allocated is masked; a step back brings back what was there."""
    session = begun()
    assert session.tensor_memory().mask.all()
    session.break_at(line("wait::ld"))
    session.cont()
    session.focus(warp=3)
    session.until(line("wait::ld"))
    cells = session.tensor_memory()
    assert cells.shape == (128, 512)
    assert (~cells.mask).any(axis=0).nonzero()[0].tolist() == list(range(32))
    assert cells[96:, 0].tolist() == list(range(96, 128))
    assert cells[100, 1] == 0x3FC00000
    session.goto(0)
    assert session.tensor_memory().mask.all()


def test_copies_of_a_state_have_memories_of_their_own():
    """A copy, and one that was stored, continue as the launch does, and change nothing in it."""
    session = begun()
    session.break_at(line("wait::st"))
    session.cont()
    state = session.timeline.state
    copied, stored = copy.deepcopy(state), pickle.loads(pickle.dumps(state))
    before = session.tensor_memory().copy()
    for other in (copied, stored):
        memory = other.batches[0].tensor
        assert (memory.cells() == state.batches[0].tensor.cells()).all()
        memory.space.own()
        memory.cells()[:] = 7
    assert (session.tensor_memory() == before).all()


def test_loads_in_flight():
    """With late effects a load is in flight until the wait, also after a step back; its register holds no value."""
    out = np.zeros(128, np.uint32)
    session = Session(warpsim.load(TEXT)["k"], 1, 128, (out,), async_effects="at_wait")
    session.break_at(line("wait::ld"))
    session.cont()
    for _ in range(2):
        (flight,) = session.in_flight()
        assert (flight.line, flight.lanes, flight.until) == (line("tcgen05.ld"), "0-31", "tcgen05.wait::ld")
        assert (session.evaluate("r4") == 0xFFFADEAD).all()
        session.step()
        assert (session.evaluate("r4") == np.arange(32)).all()
        session.back()
    session.delete()
    session.cont()
    assert (out == np.arange(128)).all()


def test_command(tmp_path, capsys):
    """The command shows a part of it, as hexadecimal numbers or floats."""
    path = tmp_path / "k.ptx"
    path.write_text(TEXT)
    stop = ["-ex", f"break {line('wait::ld')}", "-ex", "continue"]
    shown = ["-ex", "tensor", "-ex", "tensor 30-31,0-1", "-ex", "tensor/f 2,1", "-ex", "tensor 200,0", "-ex", "quit"]
    main(["debug", "run", str(path), "--grid", "1", "--block", "128", "--arg", "zeros:u32:128", *stop, *shown])
    said = capsys.readouterr().out

    assert "32 columns are allocated, 0 to 31." in said
    assert "31:         31 1069547520" in said
    assert "2: 1.5" in said
    assert "lanes 0 to 127" in said


def test_scope_of_an_editor(client, tmp_path):
    """An editor shows the lanes of tensor memory, and the columns that are allocated in them."""
    path = tmp_path / "k.ptx"
    path.write_text(TEXT)
    client.start(program=str(path), grid=1, block=[128], args=["zeros:u32:128"])
    client.event("stopped")
    client.ask("setBreakpoints", source={"path": str(path)}, breakpoints=[{"line": line("wait::ld")}])
    client.ask("continue", threadId=1)
    thread = client.event("stopped")["threadId"]
    frame = client.ask("stackTrace", threadId=thread)["stackFrames"][0]["id"]
    scope = client.ask("scopes", frameId=frame)["scopes"][-1]
    lanes = client.ask("variables", variablesReference=scope["variablesReference"])["variables"]
    columns = client.ask("variables", variablesReference=lanes[5]["variablesReference"])["variables"]

    assert (scope["name"], len(lanes), len(columns)) == ("Tensor memory", 128, 32)
    assert (lanes[5]["name"], lanes[5]["value"]) == ("lane 5", "32 columns")
    assert [(c["name"], c["value"]) for c in columns[:2]] == [("column 0", "0x00000005"), ("column 1", "0x3fc00000")]

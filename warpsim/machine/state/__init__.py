"""Everything that a launch in progress is, as plain data: no closures, no way back to whoever owns it.

::

    launch.py     LaunchState: what was asked for, its batches, whose turn it is, time, counts, findings, printed text
    batch.py      BatchState: CTAs that run side by side, their groups and barriers
    group.py      Group (threads in lockstep) and Frame (the registers of one activation depth, for all threads)
    global_memory.py, word_space.py   memories; each may have a companion that watchers fill and read
    transfers.py, footprints.py, wgmma.py   what is in flight, as records of what is left to do
    equality.py, pickling.py          what makes two states equal; states as bytes

A launch pauses only at step boundaries (`warpsim.machine.engine.Run.advance`), and there its state can be copied::

    snapshot = state.copy()           # cheap: big arrays are shared until either side writes to them
    Run(snapshot, watchers).advance() # runs on to the same end as the original, which it leaves alone
    state.restore(snapshot)           # back to that moment, in the caller's own arrays; then make a new Run of it
    equal(state, snapshot)            # warpsim.machine.state.equality
    pickle.dumps(state)               # with the text of the module, to go on in another process

Whoever writes to the bytes of an `Allocation` or the words of a `WordSpace` calls ``own()`` first; then copies keep what was
there. What watchers know of a launch lies in ``launch.notes`` and ``batch.notes`` by their names, and in companions: data
like the rest, so that it goes back in time, too. Watchers of a copy are made anew (`warpsim.checks.watchers.watchers_of`)
or are the same again: they keep nothing but what never changes.
"""

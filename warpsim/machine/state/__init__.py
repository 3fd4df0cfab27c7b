"""A launch in progress, as plain data: no closures, no references to its owner.

::

    launch.py     LaunchState: settings, batches, whose turn it is, time, counts, findings, printed text
    batch.py      BatchState: CTAs that run side by side, their groups, barriers and wgmma
    group.py      Group (threads in lockstep) and Frame (the registers of one activation depth, for all threads)
    global_memory.py, word_space.py   memories; each may have a shadow that watchers fill and read
    transfers.py  copies in flight, as records of what is left to do

A launch pauses only at step boundaries (`warpsim.machine.engine.Run.advance`), where its state can be copied::

    snapshot = state.copy()           # cheap: large arrays are shared until either side writes to them
    Run(snapshot, watchers).advance() # runs to the same end as the original, which is unaffected
    state.restore(snapshot)           # back to that moment, in the caller's own arrays; then make a new Run
    pickle.dumps(state)               # with the module's text, to continue in another process

Code that writes to the bytes of an `Allocation` or the words of a `WordSpace` calls ``own()`` first, so that copies
keep the old contents. Watchers store what they learn about a launch in ``launch.notes`` and ``batch.notes`` under their
keys (`warpsim.machine.state.notes.Note`), and in shadows: data like the rest, so that it goes back in time too. The
watchers of a copy are made anew (`warpsim.checks.watchers.watchers_of`) or reused, because they keep only immutable
state themselves.
"""

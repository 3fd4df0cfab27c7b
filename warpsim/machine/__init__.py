"""The machine: runs a bound program, warps and CTAs side by side, and reports what happens through one set of hooks.

::

    plan.py, binding/     bound once per kernel: blocks of steps, closures with the signature step(machine, group)
    values.py, selection.py   values with the axes that they depend on; the threads of a group
    state/                a launch in progress, as data: groups, registers, memories, barriers, counts
    machine.py            what steps act through: the state of a batch and of its launch, and the hooks
    memory/, asynchrony/  the ports of the bodies in isa/: accesses, copies, mbarriers, wgmma
    collectives.py, barriers.py, control.py, waiting.py   where groups wait, split, call and sleep
    engine.py             scheduling; a launch can pause at every step boundary
    watcher.py, hooks.py  the list of events, as the methods of Watcher; what the machine calls where they happen

A step enters at `engine.Run._run_group`, reads slots of its group, asks a port for memory (which reports to the hooks,
then acts), and writes slots. The machine's own faults are out-of-bounds, misaligned, read-only, deadlock and limit.
Every other rule is a watcher in `warpsim.checks`.
"""

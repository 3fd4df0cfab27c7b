"""The machine: runs a bound program, warps and CTAs side by side, and tells what happens through one window.

::

    plan.py, binding/     what is bound once per kernel: blocks of steps, closures with the signature step(machine, group)
    values.py, selection.py   values with the axes that they depend on; which threads a group holds
    state/                everything a launch in progress is, as data: groups, registers, memories, barriers, counts
    machine.py            what steps act through: the state of a batch, that of its launch, and the window
    memory/, asynchrony/  the ports of the bodies in isa/: accesses, copies, mbarriers, wgmma
    gate.py, barriers.py, control.py, waiting.py   where groups wait, split, call and sleep
    engine.py             whose turn it is; a launch can pause at every step boundary
    window.py             the list of events, and Watcher, the base of whoever looks

A step enters at `engine.Run._run_group`, reads slots of its group, asks a port for memory (which tells the window, then
acts), and writes slots. What it finds impossible is a fault of the machine: out-of-bounds, misaligned, read-only, deadlock,
limit. Every other rule is a watcher in `warpsim.checks`.
"""

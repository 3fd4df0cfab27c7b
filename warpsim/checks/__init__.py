"""The rules: watchers that listen at the machine's window and report what the PTX manual leaves undefined.

`watchers.watchers_of` chooses those that a launch checks. What a watcher knows of a launch lies in the state's notes and
companions. The machine imports nothing from here; it reports only its own faults.

::

    races, race_*, order, knowledge, cells   accesses that nothing orders
    proxies, map_fences                      memory that crosses between the generic and another proxy without a fence
    uninitialised, undefined_*, written, origins   data that nothing wrote, bit by bit
    async_*, stamps                          memory that copies and wgmma in flight still read or write
    mbarriers, wgmma_registers, register_counts    the objects and registers of Hopper's asynchrony
    convergence, barriers, stalls, fragments       who takes part, who waits for whom, whose fragment it is
"""

"""The rules: watchers that report what the PTX manual leaves undefined.

`watchers.watchers_of` selects those that a launch needs. A watcher stores what it knows about a launch in the state's
notes and shadows. The machine imports nothing from here; it reports only its own faults.

::

    race/, cells                             accesses that nothing orders
    proxies                                  memory accessed through the generic and another proxy without a fence in between
    uninitialised, undefined_*, written      data that was never written, bit by bit
    async_*, epochs                          memory that copies and wgmma in flight still read or write
    mbarriers, wgmma_registers               the objects and registers of Hopper's asynchrony
    matrices                                 boxes, matrices and rows that cannot be copied or read as asked
    convergence                              participation in collectives and barriers, and waiting
"""

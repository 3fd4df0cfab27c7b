"""Runs a launch in parts: CTAs on the cores of this machine, or on other machines.

    divide.py     whether a launch can be divided, into which parts; whether these were independent; its result from theirs
    part.py       the work unit (`Part`), its result (`Outcome`), and `perform`, which runs a part anywhere and marks the
                  bytes of global memory that it reads, writes and reduces into
    processes.py  the executor of ``workers=``: local processes, or threads if everything is compiled; how a part gets
                  global memory: shared (threads), through a mapped file (processes), as bytes

A part is self-contained: module text, device memory, arguments, settings and CTAs. The caller's memory does not change
until all parts are back and have proved independent: no byte written by one part is read or written by another, and
integer reductions into the same bytes are of the same kind. The result is then identical, in every bit, to that of the
launch in one piece. Otherwise the launch runs again in one piece.
"""

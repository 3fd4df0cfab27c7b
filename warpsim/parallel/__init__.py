"""A launch in parts: CTAs on the cores of this machine, or on others.

    divide.py     whether a launch may be divided, into which parts, and its result from theirs
    part.py       what is shipped (`Part`), what comes back (`Outcome`), and `perform`, which runs a part anywhere
    shipping.py   how global memory comes to a part: as it is (threads), through a mapped file (processes), as bytes
    footprint.py  the watcher that marks which bytes of global memory a part reads, writes and reduces into
    merge.py      whether parts were independent, and what they wrote as one memory
    processes.py  the executor of ``workers=``: processes of this machine
    threads.py    likewise threads, where all is compiled

A part holds everything: the module's text, the device's memory, the arguments, the settings and its CTAs. Nothing of the
caller's memory changes before all parts are back and were shown to be independent: no byte that one part writes is read or
written by another, and integer reductions into the same bytes are of one kind. Then the result is that of the launch in one
piece in every bit. Otherwise the launch runs in one piece, from the start.
"""

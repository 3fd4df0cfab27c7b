"""Asks a CUDA driver for the codes of its functions before cuInit: pointers to zeros, and 0 for all else.

driver_before_init.py SIGNATURES OUT.txt     on a machine with a GPU and libcuda.so.1; SIGNATURES is `driver_signatures`' file
"""

import ctypes
import os
import sys
from pathlib import Path


def code(function, letters):
    """What a function answers, in a process of its own."""
    buffers = [ctypes.create_string_buffer(4096) for _ in letters]
    arguments = [ctypes.addressof(b) if x in "*&" else 0 for b, x in zip(buffers, letters, strict=True)]
    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.write(into, str(function(*map(ctypes.c_uint64, arguments))).encode())
        os._exit(0)
    os.close(into)
    with open(out) as stream:
        answered = stream.read()
    status = os.waitpid(child, 0)[1]
    return answered or f"ended with {-os.WTERMSIG(status)}"


if __name__ == "__main__":
    cuda = ctypes.CDLL("libcuda.so.1")
    signatures = (line.partition(" ") for line in Path(sys.argv[1]).read_text().splitlines())
    lines = [f"{name}: {code(getattr(cuda, name), letters.replace(' ', ''))}\n" for name, _, letters in signatures]
    Path(sys.argv[2]).write_text("".join(lines))

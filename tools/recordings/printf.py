"""Conversions of printf, as a GPU's driver prints them.

printf.py source SEED FILE.cu      writes a kernel with a thousand calls; compile it with nvcc -ptx
printf.py run FILE.ptx OUT         runs it on a GPU; OUT gets what it prints
printf.py rows FILE.cu OUT ROWS    writes ROWS: per call the format, the arguments (as 64 bits in hexadecimal, or a string in
                                   quotes) and the text, in JSON
Formats are of the documented set (CUDA C++ Programming Guide, Format Specifiers): the driver prints others wrongly or not at all,
``.*`` among them.
"""

import ctypes
import json
import random
import re
import struct
import sys
from pathlib import Path

INTS = (0, 1, -1, 7, 42, -42, 255, 65535, 32768, -32768, 2**31 - 1, -(2**31), 123456789)
LONGS = (0, 1, -1, 2**63 - 1, 1 - 2**63, 1234567890123456789, -5)
REALS = ["0.0", "-0.0", "1.0", "-1.5", "0.1", "123456.789", "1e10", "1e-10", "1e300", "-1e-300", "5e-324", "0.5", "1.5", "2.5", "0.05", "9.995", "99999.95", "1e15", "1e17", "0.0001", "3.14159265358979", "inf", "-inf", "nan", "-nan", "1e22"]  # fmt: skip
TEXTS = ("", "a", "hello", "with space", "%d", "longer text than the width")
PLACES = (0, 16, 0x7FFF12345678, 2**64 - 1)


def conversion(rng):
    """A conversion, and its arguments as C and as data."""
    flags = "".join(f for f in "-+ #0" if rng.random() < 0.22)
    width = rng.choice(["", "", "1", "5", "8", "12", "20", "*", "33"])
    precision = rng.choice(["", "", "", ".", f".{rng.choice([0, 1, 2, 3, 5, 8, 10, 17, 20, 25])}"])
    given = []
    if width == "*":
        number = rng.choice([0, 3, 10, -10, 15, -1])
        given.append((str(number), f"{number & 2**64 - 1:x}"))
    kind = rng.random()
    if kind < 0.4:
        length = rng.choice(["", "", "", "h", "l", "ll"])
        number = rng.choice(LONGS if "l" in length else INTS)
        given.append((f"({'long long' if 'l' in length else 'int'}){number}LL", f"{number & 2**64 - 1:x}"))
        return f"%{flags}{width}{precision}{length}{rng.choice('diuxXo')}", given
    if kind < 0.8:
        text = rng.choice(REALS)
        (bits,) = struct.unpack("<Q", struct.pack("<d", float(text)))
        given.append((f"__longlong_as_double({bits}ULL)", f"{bits:x}"))
        return f"%{flags}{width}{precision}{rng.choice('feEgGaA')}", given
    if kind < 0.9:
        text = rng.choice(TEXTS)
        return f"%{flags}{width}{precision}s", [*given, (f'"{text}"', f'"{text}"')]
    if kind < 0.94:
        letter = rng.choice("A0z ")
        return f"%{flags}{width}c", [*given, (f"'{letter}'", f"{ord(letter):x}")]
    if kind < 0.97:
        place = rng.choice(PLACES)
        return f"%{flags}{width}p", [*given, (f"(void*){place}ULL", f"{place:x}")]
    return "%%", []


def source(seed, file):
    """A call for each line."""
    rng, lines = random.Random(seed), []
    for number in range(1000):
        template, given = "", []
        for _ in range(rng.choice((1, 1, 2, 3))):
            text, more = conversion(rng)
            template, given = template + rng.choice(("", "|", " ")) + text, given + more
        data = json.dumps([template, [word for _, word in given]])
        values = "".join(f", {c}" for c, _ in given)
        lines.append(f'printf("{number}:{template}<\\n"{values});  // {data}')
    body = "\n".join(lines)
    Path(file).write_text(f'#include <cstdio>\nextern "C" __global__ void k() {{\n{body}\n}}\n')


def run(file, out):
    """Launch it; what it prints goes to standard output, which is OUT for that time."""
    cuda, device, context, module, function = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), *(ctypes.c_void_p() for _ in range(3))  # fmt: skip
    sys.stdout = open(out, "w")  # noqa: SIM115  the driver writes to the descriptor until the end
    import os

    os.dup2(sys.stdout.fileno(), 1)
    for status in (
        cuda.cuInit(0),
        cuda.cuDeviceGet(ctypes.byref(device), 0),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        cuda.cuCtxSetCurrent(context),
        cuda.cuModuleLoadData(ctypes.byref(module), Path(file).read_bytes() + b"\0"),
        cuda.cuModuleGetFunction(ctypes.byref(function), module, b"k"),
        cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None),
        cuda.cuCtxSynchronize(),
    ):
        if status:
            sys.exit(f"the driver says {status}")


def rows(file, out, target):
    """What was asked beside what was printed."""
    said = {int(n): text for n, text in re.findall(r"^(\d+):(.*)<$", Path(out).read_text(), re.M)}
    asked = re.findall(r'^printf\("(\d+):.*// (.*)$', Path(file).read_text(), re.M)
    Path(target).write_text("".join(f"{json.dumps([*json.loads(data), said[int(n)]])}\n" for n, data in asked))


if __name__ == "__main__":
    {"source": source, "run": run, "rows": rows}[sys.argv[1]](*sys.argv[2:])

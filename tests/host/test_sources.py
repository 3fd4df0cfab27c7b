"""What `load` takes: text, paths, fatbins and executables, and what it says to anything else."""

import base64
import copy
import importlib.util
import os
import pickle
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

import warpsim
from warpsim.host import sources

HEADER = ".version 8.0 .target sm_80 .address_size 64 "
EMPTY = HEADER + ".visible .entry k() { ret; }"
KERNEL = "_Z1kPi"
# __global__ void k(int* p) { p[threadIdx.x] = threadIdx.x * 3 + 1; }
# nvcc 13.0 -fatbin -gencode arch=compute_80,code=compute_80 -gencode arch=compute_90,code=compute_90 --compress-mode=...
SPEED = base64.b64decode("""
UO1VugEAEADwAgAAAAAAAAEAAQFQAAAAKAEAAAAAAAAjAQAAQAAAAAAACQBQAAAAAAAAAAAAAAARIAAAAAAAAAAAAAAAAAAAYQEAAAAAAABIAAAA
AAAAAAAAAAAAAAAAEwoBAPAcLnZlcnNpb24gOS4wCi50YXJnZXQgc21fODAKLmFkZHJlc3Nfc2l6ZSA2NDEA8xQudmlzaWJsZSAuZW50cnkgX1ox
a1BpKAoucGFyYW0gLnU2NBQAEV8SAPQIXzAKKQp7Ci5yZWcgLmIzMiAlcjwzPjsRAPIANjQgJXJkPDU+OwoKCmxkRgABRQB6JXJkMSwgW0wA9AJd
OwpjdnRhLnRvLmdsb2JhbCsAITIsMQBxOwptb3YudWcA8QQxLCAldGlkLng7Cm1hZC5sby5zGAABKwBgMSwgMywgMABzdWwud2lkZTUAI2QzHgCC
NDsKYWRkLnOhABA0NAADZQBVMzsKc3R/AJAzMiBbJXJkNF0iANAyOwpyZXQ7Cgp9CgoAAAAAAAABAAEBUAAAACgBAAAAAAAAIwEAAEAAAAAAAAkA
WgAAAAAAAAAAAAAAESAAAAAAAAAAAAAAAAAAAGEBAAAAAAAASAAAAAAAAAAAAAAAAAAAABMKAQDwHC52ZXJzaW9uIDkuMAoudGFyZ2V0IHNtXzkw
Ci5hZGRyZXNzX3NpemUgNjQxAPMULnZpc2libGUgLmVudHJ5IF9aMWtQaSgKLnBhcmFtIC51NjQUABFfEgD0CF8wCikKewoucmVnIC5iMzIgJXI8
Mz47EQDyADY0ICVyZDw1PjsKCgpsZEYAAUUAeiVyZDEsIFtMAPQCXTsKY3Z0YS50by5nbG9iYWwrACEyLDEAcTsKbW92LnVnAPEEMSwgJXRpZC54
OwptYWQubG8ucxgAASsAYDEsIDMsIDAAc3VsLndpZGU1ACNkMx4AgjQ7CmFkZC5zoQAQNDQAA2UAVTM7CnN0fwCQMzIgWyVyZDRdIgDQMjsKcmV0
OwoKfQoKAAAAAAAA
""")
SIZE = base64.b64decode("""
UO1VugEAEABwAgAAAAAAAAEAAQFQAAAA6AAAAAAAAADnAAAAQAAAAAAACQBQAAAAAAAAAAAAAAARgAAAAAAAAAAAAAAAAAAAYQEAAAAAAABIAAAA
AAAAAAAAAAAAAAAAKLUv/WBhAO0GAHJMJxlQeQN6cosvs4VuuCzImdWq16Leho0ZHEMdgHvpTvfNTo9J2topQiT6ra1OE8Rei8HPvEkgxKGfy97W
8C3ehvcfpzkljqxWXHY9t7/uz3I6SZMwvLeZu+LYZKEP4uRgHkj187r5nfTBC4pKFu+nVnPt3gUMYUZETTHv7f68WYU1TpZ5R6wprW+2tr4XDKXp
ue+V634vvpkbh3W+33saKEBElNwNYAi6a5gDP0J4OR4EfY1OWDwPGWMzswMQvGiQqzWmftOOO/d6jOiCE0KiDA+n6fqbqzeZlA+EAAEAAQFQAAAA
6AAAAAAAAADnAAAAQAAAAAAACQBaAAAAAAAAAAAAAAARgAAAAAAAAAAAAAAAAAAAYQEAAAAAAABIAAAAAAAAAAAAAAAAAAAAKLUv/WBhAO0GAHJM
JxlQ1wP8vwkGslcGWMoqYtQR/3+RQMHMM8mMgPvoPrfNPg8p2tonQiT6a6U+E6Taer3HnCQQ4tCv4a/0+3q3wX2nYT6JA1NKw9Zr++nuKp9SJAmD
+4rdlaYmy3SQJgfyQKiXls3vog9eTFOycC8xmun2LtznMqBJgnln9qXF1NU3WaQNr560trlW+l4wE6bltlam+714Rmba1dl27wEaKEBElNwNYAi6
a5gDP0J4OR4EfY1OWDwPGWMzswMQvGiQqzWmftOOO/d6jOiCE0KiDA+n6fqbqzeZlA+EAA==
""")
ZSTD = sys.version_info >= (3, 14) or any(map(importlib.util.find_spec, ("zstandard", "pyzstd")))


def refusal(source):
    """The one finding of a source that is none."""
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(source)
    (finding,) = caught.value.findings
    assert finding.advice
    return finding


def results(module):
    """What the fatbin's kernel writes."""
    out = np.zeros(4, np.int32)
    module[KERNEL]((1,), (4,), (out,))
    return out.tolist()


@pytest.mark.parametrize("source", [
    EMPTY,
    EMPTY.encode(),
    bytearray(EMPTY.encode()),
    "\n\n" + EMPTY,
    "// a comment; and braces {}\n" + EMPTY,
    EMPTY.replace(" .", "\n."),
    EMPTY + "\0\0",
])  # fmt: skip
def test_text(source):
    """Text is what holds a newline, a brace or a semicolon."""
    assert list(warpsim.load(source).kernels) == ["k"]


def test_text_of_one_line():
    """Text is what begins with a directive, too."""
    assert dict(warpsim.load(HEADER.strip()).kernels) == {}
    assert dict(warpsim.load(b"  .version 8.0 .target sm_80 .address_size 64").kernels) == {}


def test_paths(tmp_path, monkeypatch):
    """Everything else is a path, and a PathLike always is; findings name it as it was written."""
    monkeypatch.chdir(tmp_path)
    odd = Path(".versions;{}")
    for path in (Path("a.ptx"), odd):
        path.write_text(EMPTY)
    for source in ("a.ptx", "./a.ptx", b"a.ptx", Path("a.ptx"), tmp_path / "a.ptx", odd):
        assert list(warpsim.load(source).kernels) == ["k"]
    Path("a.ptx").write_text(HEADER + "nonsense")
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load("./a.ptx")
    assert caught.value.findings[0].file == "./a.ptx"


@pytest.mark.parametrize("source", [
    "", b"", "missing.ptx", b"missing.ptx", "a\0b", ".", Path("missing"), 5, -1, None, [], {}, 1.5, object(), [10**5000],
    "x" * 100_000, b"\xff\xfe\n", b"\x7fELF" + bytes(100), b"\x7fELF", sources.MAGIC, sources.MAGIC + b"\xff" * 300,
    "__global__ void k() {}", "#include <cuda.h>\n",
])  # fmt: skip
def test_unreadable(source):
    """What is no PTX is rule ``unreadable``, with what to do; nothing else comes out."""
    assert refusal(source).rule == "unreadable"


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no such device")
def test_endless_file():
    """A file without an end is refused in time."""
    assert refusal("/dev/zero").rule == "unreadable"


def test_machine_code_names_the_command():
    """A cubin is refused with the command that makes PTX."""
    cubin = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xbe\x00" + bytes(100)
    assert "nvcc -ptx" in refusal(cubin).advice
    assert "nvcc -ptx" in refusal("__global__ void k() {}").advice


def test_fatbin(tmp_path):
    """The PTX for the newest GPU, out of a fatbin and out of an executable that holds it."""
    (tmp_path / "a.fatbin").write_bytes(SPEED)
    executable = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00" + bytes(200) + SPEED + bytes(64)
    for source in (SPEED, tmp_path / "a.fatbin", executable, b"MZ" + bytes(60) + SPEED, b"MZ" + sources.MAGIC + SPEED):
        module = warpsim.load(source)
        assert module.target == "sm_90"
        assert results(module) == [1, 4, 7, 10]
    assert "2 PTX modules" in refusal(executable + SPEED).message


def test_zstd():
    """A frame of zstd is unpacked by the library, where there is one, else refused by that name."""
    if ZSTD:
        assert results(warpsim.load(SIZE)) == [1, 4, 7, 10]
    else:
        assert "zstd" in refusal(SIZE).message


def test_text_in_a_fatbin_as_it_is():
    """An entry that is not compressed."""
    text = EMPTY.encode() + b"\0" * 5
    entry = struct.pack("<HHIQIIHHIIIQQQ", 1, 0x101, 64, len(text), 0, 0, 0, 8, 80, 0, 0, 0x11, 0, 0)
    data = struct.pack("<4sHHQ", sources.MAGIC, 1, 16, len(entry) + len(text)) + entry + text
    assert list(warpsim.load(data).kernels) == ["k"]
    (unit,) = sources.units(data + entry + text)
    assert len(unit) == 1  # its header says where it ends


def test_damaged_fatbins():
    """Every cut, and every byte altered, is refused or loads; nothing else."""
    outcomes = set()
    for at in range(0, len(SPEED), 13):
        for data in (SPEED[:at], SPEED[:at] + bytes([SPEED[at] ^ 0xFF]) + SPEED[at + 1 :]):
            try:
                warpsim.load(data if data else b"\0")
                outcomes.add("loads")
            except warpsim.PtxError:
                outcomes.add("refused")
    assert outcomes == {"loads", "refused"}


def test_lz4_block():
    """The example of overlapping matches: a run is a match at distance 1."""
    assert sources.lz4_block(b"\x1fa\x01\x00\x04\x50bcdef", 24 + 5) == b"a" * 24 + b"bcdef"
    for block in (b"\x1fa\x02\x00\x04", b"\x1fa\x00\x00\x04", b"\x1fa\x01", b"", b"\xf0\xff"):
        with pytest.raises(sources.Packed):
            sources.lz4_block(block, 24)


def test_copies():
    """A copy of a module is that module loaded anew, with variables of its own; a kernel brings its module along."""
    text = (
        HEADER
        + """.visible .global .u32 total;
    .visible .entry k() { .reg .u32 %r; atom.global.add.u32 %r, [total], 1; ret; }"""
    )
    module = warpsim.load(text)
    module["k"]((1,), (32,), ())
    for other in (copy.deepcopy(module), copy.copy(module), pickle.loads(pickle.dumps(module))):
        other["k"]((1,), (5,), ())
        assert other.get_global("total").get().tolist() == [5]
        assert copy.deepcopy(other["k"]).module.program.lines == module.program.lines
    assert module.get_global("total").get().tolist() == [32]


def test_results_and_errors_are_plain_data():
    """What a launch gives and what it raises can be sent to another process."""
    result = warpsim.load(EMPTY)["k"]((1,), (32,), ())
    assert pickle.loads(pickle.dumps(result)) == result
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(HEADER + "nonsense")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.findings) == (str(caught.value), caught.value.findings)


def test_public_names():
    """dir() lists what `__all__` does."""
    assert set(warpsim.__all__) <= set(dir(warpsim))

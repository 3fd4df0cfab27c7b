"""libnvrtc: what its programs are compiled from is shown in findings."""

import linecache
import os

import pytest

from warpsim.driver.abi import compiling
from warpsim.errors import source_text


@pytest.fixture
def kept():
    """Python's store of sources that are in memory, as it was."""
    before = dict(linecache.cache)
    yield
    linecache.cache.clear()
    linecache.cache.update(before)


def test_a_line_of_a_text_in_memory(kept):
    """A name without a folder is one of the working directory, as in the PTX that NVRTC makes."""
    compiling.keep("twice.cu", "first line\n  second line\n")

    assert source_text((os.path.join(os.getcwd(), "twice.cu"), 2)) == "twice.cu:2: second line"
    assert source_text((os.path.join(os.getcwd(), "twice.cu"), 3)) == "twice.cu:3"


def test_two_texts_of_one_name(kept):
    """Which of them a kernel came from is not known, and no line is shown."""
    for text in ("one\n", "one\n", "another\n"):
        before = source_text((os.path.join(os.getcwd(), "default_program"), 1))
        compiling.keep("default_program", text)

    assert before == "default_program:1: one"
    assert source_text((os.path.join(os.getcwd(), "default_program"), 1)) == "default_program:1"


class Library:
    """NVIDIA's library: what it is called with."""

    def __init__(self):
        self.options = []

    def nvrtcCompileProgram(self, program, count, options):
        """Note the options."""
        pointers = (compiling.ctypes.c_char_p * count.value).from_address(options.value)
        self.options.append([word.decode() for word in pointers])
        return 0


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (["-arch=sm_90a"], ["-arch=compute_90a", "-lineinfo"]),
        (["--gpu-architecture", "sm_80", "-G"], ["--gpu-architecture", "compute_80", "-G"]),
    ],
)
def test_options(monkeypatch, given, options):
    """Machine code becomes PTX with lines, unless the program asks for more than lines."""
    library = Library()
    monkeypatch.setattr(compiling, "_LOADED", [library])
    words = [word.encode() for word in given]
    array = (compiling.ctypes.c_char_p * len(words))(*words)

    assert compiling.compile_program(0, len(words), compiling.ctypes.addressof(array)) == 0
    assert library.options == [options]

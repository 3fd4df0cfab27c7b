"""libnvrtc: what its programs are compiled from is shown in findings."""

import linecache
import os

import pytest

from warpsim.driver.abi import compilers
from warpsim.driver.abi.compilers import Link
from warpsim.driver.results import DriverError
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
    compilers.keep("twice.cu", "first line\n  second line\n")

    assert source_text((os.path.join(os.getcwd(), "twice.cu"), 2)) == "twice.cu:2: second line"
    assert source_text((os.path.join(os.getcwd(), "twice.cu"), 3)) == "twice.cu:3"


def test_two_texts_of_one_name(kept):
    """Which of them a kernel came from is not known, and no line is shown."""
    for text in ("one\n", "one\n", "another\n"):
        before = source_text((os.path.join(os.getcwd(), "default_program"), 1))
        compilers.keep("default_program", text)

    assert before == "default_program:1: one"
    assert source_text((os.path.join(os.getcwd(), "default_program"), 1)) == "default_program:1"


class Library:
    """NVIDIA's library: what it is called with."""

    def __init__(self):
        self.options = []

    def nvrtcCompileProgram(self, program, count, options):
        """Note the options."""
        pointers = (compilers.ctypes.c_char_p * count.value).from_address(options.value)
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
    monkeypatch.setitem(compilers.LOADED, "nvrtc", library)
    words = [word.encode() for word in given]
    array = (compilers.ctypes.c_char_p * len(words))(*words)

    assert compilers.compile_program(0, len(words), compilers.ctypes.addressof(array)) == 0
    assert library.options == [options]


PTX = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"


class Linker:
    """NVIDIA's linker: it makes one text of all that it is given, or has something to say."""

    def __init__(self, log=b""):
        self.log, self.seen = log, []

    def nvJitLinkCreate(self, handle, count, options):
        """Note the options."""
        self.seen.append([options[i] for i in range(count)])
        return 0

    def nvJitLinkAddData(self, handle, kind, image, nbytes, name):
        """Note the image."""
        self.seen.append((kind, image[: nbytes.value]))
        return 0

    def nvJitLinkComplete(self, handle):
        """Fail where there is a log."""
        return 6 if self.log else 0

    def nvJitLinkDestroy(self, handle):
        """Note the end."""
        self.seen.append("end")

    def __getattr__(self, name):
        """Sizes and texts."""
        text = self.log if "ErrorLog" in name else PTX

        def size(handle, out):
            out._obj.value = len(text)

        def fill(handle, out):
            out.value = text

        return size if name.endswith("Size") else fill


def test_the_intermediate_form(monkeypatch):
    """All modules of the form become one of PTX, which is linked with the others."""
    linker, link = Linker(), Link(80)
    monkeypatch.setitem(compilers.LOADED, "nvJitLink", linker)
    images = [compilers.MAGIC + b"first", compilers.MAGIC + b"second"]
    for image in (*images, PTX.replace(b"entry k", b"entry other")):
        link.take(image)
    link.finish()

    assert linker.seen == [[b"-arch=sm_80", b"-lto", b"-ptx", b"-lineinfo"], *((3, i) for i in images), "end"]
    assert b"entry k" in link.result
    assert b"entry other" in link.result


def test_an_intermediate_form_that_cannot_be_read(monkeypatch):
    """Without NVIDIA's linker the message says what to install; else it is the linker's own."""
    link = Link(80)
    link.take(compilers.MAGIC)
    for linker, message in (
        (None, "pip install nvidia-nvjitlink"),
        (Linker(b"undefined reference to f"), "undefined reference"),
    ):
        monkeypatch.setitem(compilers.LOADED, "nvJitLink", linker)
        with pytest.raises(DriverError, match=message):
            link.finish()

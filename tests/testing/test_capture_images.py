"""What a process loads into the driver: text, machine code, fatbins; and the PTX that belongs to it."""

import ctypes
import struct
import sys
import types

import pytest

from ptx_text import module_head
from warpsim.capture import launches
from warpsim.capture.launches import Sources, image_at

ADD, SUB = (module_head() + f".visible .entry {name}() {{ ret; }}\n" for name in ("add", "sub"))  # fmt: skip


def cubin(sections_at, sections, segments_at=0, segments=0):
    """A head of a 64-bit ELF file with its tables (ELF-64 object file format: e_phoff, e_shoff, the sizes and numbers of
    entries), and bytes to the end of the last.
    """
    head = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, segments_at, sections_at, 0, 64, 56, segments, 64, sections, 1)  # fmt: skip
    size = max(sections_at + 64 * sections, segments_at + 56 * segments)
    return head.ljust(size, b"\x11")


def fatbin(*texts, compressed=0):
    """A fatbin with texts for architectures: the head (magic, version, its own size, the size of the rest), entries."""
    rest = b""
    for arch, text in texts:
        data = text.encode() + b"\0"
        data += bytes(-len(data) % 8)
        head = struct.pack("<HHIQIIHHIIIQQQ", 1, 0x101, 64, len(data), compressed, 0, 0, 8, arch, 0, 0, 0x11 if not compressed else 0x2000, 0, 0)  # fmt: skip
        rest += head[:64].ljust(64, b"\0") + data
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(rest)) + rest


@pytest.mark.parametrize("image", [cubin(200, 3), cubin(64, 2, 300, 4), ADD.encode(), fatbin((80, ADD))])
def test_an_image_in_memory(image):
    """Only the address is given: where it ends is read from its head, and what follows is left."""
    held = ctypes.create_string_buffer(image + (b"\0" if image[:4] == b".ver" else b"") + b"not of it", len(image) + 10)

    assert image_at(ctypes.addressof(held)) == image


def test_what_cuda_s_runtime_registers():
    """A structure that points to the fatbin (fatbinary_section.h: magic, version, data)."""
    inner = ctypes.create_string_buffer(fatbin((80, ADD)))
    outer = ctypes.create_string_buffer(struct.pack("<IIQQ", 0x466243B1, 1, ctypes.addressof(inner), 0))

    assert image_at(ctypes.addressof(outer)) == fatbin((80, ADD))


def test_a_head_that_cannot_be_right():
    """Sizes of a quarter of a gigabyte and more are not read."""
    wrong = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 1 << 28)
    held = ctypes.create_string_buffer(wrong.ljust(64, b"\0"))
    assert image_at(ctypes.addressof(held)) == b""
    held = ctypes.create_string_buffer(cubin(64, 1)[:40] + struct.pack("<Q", 1 << 28) + cubin(64, 1)[48:])
    assert image_at(ctypes.addressof(held)) == b""


def test_the_text_of_a_fatbin():
    """That for the newest architecture that the GPU has, if it holds the kernel; otherwise an older one that does."""
    older, newer = ADD.replace("ret;", "bar.sync 0; ret;"), ADD
    image = fatbin((70, older), (90, newer), (80, SUB), (100, newer.replace("ret;", "trap;")))
    sources = Sources()

    assert sources.ptx(image, "add", 90) == newer
    assert sources.ptx(image, "add", 86) == older
    assert sources.ptx(image, "sub", 90) == SUB
    assert sources.ptx(image, "mul", 90) is None


def test_a_cubin_that_triton_cached(tmp_path, monkeypatch):
    """The file with the same bytes has its PTX beside it; one of another size, or with other bytes, is not meant."""
    image = cubin(64, 2)
    for folder, held, text in (("a", image[:-1] + b"\x12", SUB), ("b", image + b"\x11", SUB), ("c", image, ADD), ("d", image, None)):  # fmt: skip
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "k.cubin").write_bytes(held)
        if text is not None:
            (tmp_path / folder / "k.ptx").write_text(text)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))

    assert Sources().ptx(image, "add", 90) == ADD
    assert Sources().ptx(image, "sub", 90) is None
    assert Sources().ptx(fatbin((80, SUB)), "add", 90) is None


def test_a_cubin_that_a_linker_made():
    """Its text is known by its bytes; of texts seen without an image the latest that has the kernel counts."""
    sources = Sources()
    sources.cubins[cubin(64, 1)] = ADD
    again = ADD.replace("ret;", "exit;")
    for text in (again.encode() + b"\0", SUB, "no kernel"):
        sources.see(text)

    assert sources.ptx(cubin(64, 1), "add", 90) == ADD
    assert sources.ptx(cubin(64, 2), "add", 90) == again
    assert sources.texts == [again, SUB]
    assert sources.ptx(ADD.encode() + b"\0", "add", 90) == ADD
    assert sources.texts == [again, SUB, ADD]


def test_kernels_of_numba(monkeypatch):
    """It gives machine code to the driver, and keeps the text in its libraries; one that fails is passed over."""

    class Library:
        """numba.cuda.codegen.CUDACodeLibrary."""

        def __init__(self, text):
            self.text = text

        def get_asm_str(self):
            """The PTX."""
            if self.text is None:
                raise RuntimeError("not finished")
            return self.text

    monkeypatch.setitem(sys.modules, "numba.cuda.codegen", types.SimpleNamespace(CUDACodeLibrary=Library))
    kept = [Library(None), Library(SUB), Library(ADD)]

    assert Sources().ptx(cubin(64, 1), "add", 90) == ADD
    assert len(kept) == 3


def test_a_text_that_cannot_be_unpacked():
    """Is noted, once for each entry, and others are tried."""
    sources = Sources()
    image = fatbin((80, ADD), compressed=77)

    assert sources.ptx(image, "add", 90) is None
    assert len(sources.notes) == 1
    assert sources.notes[0].startswith("a fatbin holds PTX that cannot be unpacked: ")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (".visible .entry add(\n", ["add"]),
        ("  .weak .entry _Z3addPf()\n.entry $b()", ["_Z3addPf", "$b"]),
        ("// .entry no()\n.func f()\n", []),
    ],
)
def test_kernels_of_a_text(text, names):
    """Their names, whatever stands before them."""
    assert launches.ENTRY.findall(text) == names

"""Objects are linked into code that runs wherever it lies, and mapped so that it is never written and run at once."""

import ctypes
import platform
import struct
import sys

import pytest

pytest.importorskip("llvmlite", reason="the extra jit is not installed")

import llvmlite.binding as llvm
import numpy as np

from warpsim.native.compiling import images
from warpsim.native.compiling.images import function_at
from warpsim.native.compiling.linking import AARCH64, X86_64, Unlinkable, link

CALLER = """
@numbers = private constant [4 x i32] [i32 3, i32 5, i32 7, i32 11], align 16
declare i32 @twice(i32)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define i32 @caller(ptr %p) {
  %n = load i64, ptr %p
  %to = getelementptr i8, ptr %p, i64 8
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr @numbers, i64 %n, i1 false)
  %at = getelementptr i32, ptr %to, i64 2
  %third = load i32, ptr %at
  %result = call i32 @twice(i32 %third)
  ret i32 %result
}
"""
CALLED = "define i32 @other(i32 %x) {\n ret i32 0\n}\ndefine i32 @twice(i32 %x) {\n %y = add i32 %x, %x\n ret i32 %y\n}"
HERE = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}.get(platform.machine())


def object_of(text, processor, system="unknown-linux-gnu"):
    """A module's object for a processor."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(f"{processor}-{system}")
    return target.create_target_machine(reloc="pic", codemodel="small").emit_object(llvm.parse_assembly(text))


@pytest.mark.skipif(not images.possible(), reason="code cannot be mapped here")
def test_code_that_runs():
    """It finds its constants, a function of another object, and one of the C library."""
    linked = link([object_of(CALLER, HERE), object_of(CALLED, HERE)])
    assert [name for name, _ in linked.outside] == ["memcpy"]
    room = struct.pack("<q", 12) + bytes(16)
    buffer = ctypes.create_string_buffer(room, len(room))
    addresses = [images.map_code(linked.code, linked.outside) for _ in range(2)]

    assert len(set(addresses)) == 2
    for address in addresses:
        assert function_at(address + linked.functions["caller"])(ctypes.addressof(buffer)) == 14
        assert struct.unpack("<qiiii", buffer.raw[:24]) == (12, 3, 5, 7, 0)


@pytest.mark.skipif(not images.possible(), reason="code cannot be mapped here")
def test_code_that_is_kept():
    """It is found with what is known of it and its tables, whatever their types and shapes."""
    linked = link([object_of(CALLED, HERE)])
    tables = [np.arange(5, dtype=np.uint8), np.arange(6.0).reshape(2, 3), np.arange(8, dtype=np.int64)[::2]]
    images.keep("code with tables", linked, {"lines": [3, 4]}, tables)

    facts, addresses, found = images.find("code with tables")

    assert facts["lines"] == [3, 4]
    assert images.function_at(addresses["other"])(None) == 0
    for table, kept in zip(tables, found, strict=True):
        assert kept.dtype == table.dtype
        assert kept.flags.aligned
        assert np.array_equal(kept, table)


@pytest.mark.parametrize("processor", ["x86_64", "aarch64"])
@pytest.mark.parametrize("system", ["unknown-linux-gnu", "apple-darwin-elf"])
def test_a_call_between_objects(processor, system):
    """It leads to where the other function lies: by the instruction set's own encoding of calls and jumps."""
    first, second = object_of(CALLER, processor, system), object_of(CALLED, processor, system)
    linked = link([first, second])
    (_, slot), target = linked.outside[0], linked.functions["twice"]
    code = linked.code
    if processor == "x86_64":  # call rel32, counted from its end; jmp [rip + 2]
        places = [at for at in range(len(code) - 4) if code[at] in (0xE8, 0xE9)]
        found = {at + 5 + struct.unpack_from("<i", code, at + 1)[0] for at in places}
        assert code[slot - 8 : slot - 2] == bytes.fromhex("ff2502000000")
    else:  # bl and b: 26 bits of words; ldr x16, 8 bytes on; br x16
        words = struct.unpack(f"<{len(code) // 4}I", code[: len(code) // 4 * 4])
        jumps = [(k, w & 0x3FFFFFF) for k, w in enumerate(words) if w >> 26 in (0b100101, 0b000101)]
        found = {4 * (k + (n - (1 << 26) if n >> 25 else n)) for k, n in jumps}
        assert struct.unpack_from("<II", code, slot - 8) == (0x58000050, 0xD61F0200)
    assert {target, slot - 8} <= found


def test_constants_on_another_page():
    """An address by its page and what is left of it (`adrp` and `add`) is that of the constant."""
    text = "@t = private constant [1200 x i32] [{}]\ndefine ptr @f(ptr %p) {{\n ret ptr getelementptr ([1200 x i32], ptr @t, i64 0, i64 1100)\n}}"
    linked = link([object_of(text.format(", ".join(f"i32 {k}" for k in range(1200))), "aarch64")])
    at = linked.functions["f"]
    page, add = struct.unpack_from("<II", linked.code, at)
    pages = (page >> 29 & 3) | (page >> 5 & 0x7FFFF) << 2
    where = (at & ~0xFFF) + (pages << 12) + (add >> 10 & 0xFFF)

    assert struct.unpack_from("<i", linked.code, where)[0] == 1100


@pytest.mark.parametrize(
    ("text", "system", "why"),
    [
        ("@g = global i32 7\ndefine ptr @f(ptr %p) {\n ret ptr @g\n}", "unknown-linux-gnu", "section .data"),
        (CALLED, "apple-darwin", "no ELF object"),
    ],
)
def test_what_is_refused(text, system, why):
    """Variables, and objects of another format."""
    with pytest.raises(Unlinkable, match=why):
        link([object_of(text, "x86_64", system)])


def test_another_processor():
    """An object for a processor whose relocations are not known here."""
    data = bytearray(object_of(CALLED, "x86_64"))
    assert struct.unpack_from("<H", data, 18)[0] == X86_64 != AARCH64
    struct.pack_into("<H", data, 18, 243)
    with pytest.raises(Unlinkable, match="machine 243"):
        link([bytes(data)])


def test_a_function_that_is_missing():
    """Code that calls one is not mapped."""
    assert images.map_code(bytes(64), [("no_such_function_anywhere", 8)]) is None


@pytest.mark.skipif(sys.platform != "linux" or not images.possible(), reason="read from /proc")
def test_what_is_run_is_not_written():
    """The pages of code may be read and run, not written."""
    address = images.map_code(bytes(64), [])
    with open("/proc/self/maps") as maps:
        held = [line.split()[:2] for line in maps]
    modes = [m for r, m in held if int(r.split("-")[0], 16) <= address < int(r.split("-")[1], 16)]

    assert modes == ["r-xp"]

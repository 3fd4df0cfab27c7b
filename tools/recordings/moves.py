"""Shuffles, votes, matches, reductions and atomics as a GPU does them: record once, compare whenever wanted.

    python tools/recordings/moves.py record OUT.npz     on a machine with a GPU of sm_90 and its driver; needs NumPy and attrs
    python tools/recordings/moves.py compare OUT.npz    runs the same cases in the simulator and names what differs

A case is one instruction in a kernel of one warp (``LANES``) or of threads that each own a memory cell (``CELLS``), so
that no result depends on the order of threads. Operands are random and adversarial, the same ones in both modes. The
simulator runs cases with the same operands in one kernel, one after the other, each with an output of its own.
"""

from __future__ import annotations

import ctypes as C
import itertools
import sys
from collections.abc import Iterator

import attrs
import numpy as np

HEAD = ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .u64 p1) {\n"
LANES, CELLS = 32, 256


@attrs.frozen
class Case:
    """An instruction, and what it works on; ``out`` is the output before the launch."""

    name: str
    head: str
    body: str
    source: np.ndarray
    out: np.ndarray
    threads: int

    @property
    def text(self) -> str:
        """PTX of the case alone."""
        return kernel([self])


def kernel(cases: list[Case]) -> str:
    """Cases of one head, one after the other: each finds in ``po`` where its output is."""
    step = f"add.u64 po, po, {cases[0].out.nbytes};"
    return "\n".join([cases[0].head, *[f"{{ {case.body} }} {step}" for case in cases], "ret; }"])


WARP_HEAD = (
    HEAD
    + """.reg .b32 a, b, c, m, t; .reg .b64 pi, po, v;
    ld.param.u64 pi, [p0]; ld.param.u64 po, [p1]; mov.u32 t, %tid.x; mad.wide.u32 v, t, 16, pi;
    ld.global.v4.b32 {a, b, c, m}, [v];
    """
)


def warp_case(name: str, instructions: str, words: np.ndarray) -> Case:
    """Operands a, b, c, m by lane; d and p of every lane come back, 0xCDCDCDCD and false where nothing is written."""
    body = (
        ".reg .b32 d, s; .reg .b64 w; .reg .pred p, q, g; mov.b32 d, 0xCDCDCDCD; setp.ne.u32 p, t, t;\n"
        + instructions
        + "\nselp.u32 s, 1, 0, p; mad.wide.u32 v, t, 8, po; st.global.v2.b32 [v], {d, s};"
    )
    return Case(name, WARP_HEAD, body, words, np.zeros((LANES, 2), np.uint32), LANES)


def warp_cases() -> Iterator[Case]:
    """One warp, all lanes or some."""
    rng = np.random.default_rng(1)
    words = rng.integers(0, 1 << 32, (LANES, 4), dtype=np.uint64).astype(np.uint32)
    words[:, 3] = 0xFFFFFFFF
    few = words.copy()
    few[:, 0] %= 5
    same = words.copy()
    same[:, 0] = 77
    for mode, c, b in itertools.product(
        ("up", "down", "bfly", "idx"), (0, 31, 0x1F1F, 0x181F, 0x1C03, 0x1000, 0xFFFF), (0, 1, 7, 16, 31, 40)
    ):
        yield warp_case(f"shfl.{mode} b={b} c={c:#x}", f"shfl.sync.{mode}.b32 d|p, a, {b}, {c}, -1;", words)
    for mode in ("up", "down", "bfly", "idx"):
        yield warp_case(f"shfl.{mode} registers", f"shfl.sync.{mode}.b32 d|p, a, b, c, -1;", words)
        guarded = f"setp.lt.u32 g, t, 20; @g shfl.sync.{mode}.b32 d|p, a, b, 31, 0xfffff;"
        yield warp_case(f"shfl.{mode} absent sources", guarded, words)
    for mask, (kind, data) in itertools.product((0xFFFFFFFF, 0x0000FFFF, 0x55555555), (("few", few), ("same", same))):
        guard = f"shr.u32 s, {mask}, t; and.b32 s, s, 1; setp.ne.u32 g, s, 0; setp.ne.u32 q, a, 0; cvt.u64.u32 w, a;"
        instructions = [f"vote.sync.{m}.pred p, {n}q, {mask};" for m in ("all", "any", "uni") for n in ("", "!")]
        instructions += [f"vote.sync.ballot.b32 d, q, {mask};", f"elect.sync d|p, {mask};", "activemask.b32 d;"]
        instructions += [f"match.any.sync.b32 d, a, {mask};", f"match.any.sync.b64 d, w, {mask};"]
        instructions += [f"match.all.sync.b32 d|p, a, {mask};", f"match.all.sync.b64 d|p, w, {mask};"]
        instructions += [f"redux.sync.{o}.{t} d, a, {mask};" for o in ("add", "min", "max") for t in ("u32", "s32")]
        instructions += [f"redux.sync.{o}.b32 d, a, {mask};" for o in ("and", "or", "xor")]
        for instruction in instructions:
            yield warp_case(f"{instruction} {mask:#x} {kind}", f"{guard} @g {instruction}", data)


def special_words(bits: int, name: str) -> np.ndarray:
    """Bits that matter for a type: zeros, ones, extremes, ties, subnormal numbers, infinities, NaNs."""
    if name in ("f16", "f16x2"):
        return np.array(
            [
                0,
                0x8000,
                1,
                0x8001,
                0x3FF,
                0x400,
                0x3C00,
                0xBC00,
                0x7BFF,
                0xFBFF,
                0x7C00,
                0xFC00,
                0x7C01,
                0x7E00,
                0xFFFF,
            ],
            np.uint64,
        )
    if name in ("bf16", "bf16x2"):
        return np.array(
            [0, 0x8000, 1, 0x8001, 0x7F, 0x80, 0x3F80, 0xBF80, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7F81, 0x7FC0, 0xFFFF],
            np.uint64,
        )
    if name == "f32":
        return np.array(
            [
                0,
                1 << 31,
                1,
                2147483649,
                8388607,
                8388608,
                2155872256,
                1065353216,
                3212836864,
                864026624,
                2139095039,
                4286578687,
                2139095040,
                4286578688,
                2139095041,
                2143363909,
                4294967295,
            ],
            np.uint64,
        )
    if name == "f64":
        high = np.array(
            [0, 0x8000, 0x0008, 0x0010, 0x3FF0, 0xBFF0, 0x3CA0, 0x7FEF, 0x7FF0, 0xFFF0, 0x7FF8, 0xFFF8], np.uint64
        )
        return high << np.uint64(48)
    top = (1 << bits) - 1
    return np.array([0, 1, 2, top, top - 1, top >> 1, (top >> 1) + 1, 5, 6], np.uint64)


def operands(bits: int, name: str, count: int) -> np.ndarray:
    """``[CELLS, count]`` words of which half are special; packed types get special halves side by side."""
    rng = np.random.default_rng(bits * 100 + count)
    width = 16 if name.endswith("x2") else bits
    special = special_words(width, name)
    shape = (CELLS, count, bits // width)
    plain = np.frombuffer(rng.bytes(8 * int(np.prod(shape))), np.uint64).reshape(shape) & np.uint64((1 << width) - 1)
    parts = np.where(rng.random(shape) < 0.6, special[rng.integers(0, len(special), shape)], plain)
    word = np.zeros(shape[:2], np.uint64)
    for k in range(shape[2]):
        word |= parts[..., k] << np.uint64(width * k)
    return word.astype(f"u{bits // 8}")


def atomic_cases() -> Iterator[Case]:
    """Each thread owns a cell: operands [old, b, c], results [old, new]."""
    kinds = dict.fromkeys(("u32", "s32", "u64"), ("add", "min", "max")) | {
        "s64": ("min", "max"),
        "f32": ("add",),
        "f64": ("add",),
    }
    kinds |= dict.fromkeys(("b32", "b64"), ("and", "or", "xor", "exch", "cas")) | {"b16": ("cas",)}
    kinds |= dict.fromkeys(("f16", "bf16", "f16x2", "bf16x2"), ("add.noftz",))
    table = [(o, t) for t, operations in kinds.items() for o in operations] + [("inc", "u32"), ("dec", "u32")]
    for (operation, type), space in itertools.product(table, ("global", "shared", "generic")):
        bits = 32 if type.endswith("x2") else int(type.lstrip("busf"))
        third = ", c" if operation == "cas" else ""
        dot = "" if space == "generic" else f".{space}"
        yield cell_case(
            f"atom{dot}.{operation}.{type}", f"atom{dot}.{operation}.{type} d, [a], b{third};", space, bits, type
        )
        if operation not in ("exch", "cas"):
            text = f"mov.b{bits} d, b; red{dot}.{operation}.{type} [a], b;"
            yield cell_case(f"red{dot}.{operation}.{type}", text, space, bits, type)
    for operation, type in [("add", "f32")] + [
        (f"{o}.noftz", t) for o in ("add", "min", "max") for t in ("f16", "bf16", "f16x2", "bf16x2")
    ]:
        bits = 32 if type in ("f32", "f16x2", "bf16x2") else 16
        name = f"atom.global.{operation}.v2.{type}"
        yield cell_case(name, f"{name} {{d, e}}, [a], {{b, c}};", "vector", bits, type)


def cell_case(name: str, instruction: str, space: str, bits: int, type: str) -> Case:
    """Thread ``t`` has two elements of its own at ``a``."""
    size = bits // 8
    shared = f".shared .align 16 .b8 room[{CELLS * 2 * size}];" if space in ("shared", "generic") else ""
    there = (
        f"mad.wide.u32 a, t, {2 * size}, po; " if not shared else f"mov.u64 a, room; mad.wide.u32 a, t, {2 * size}, a;"
    )
    write, read = ("shared", "shared") if shared else ("global", "global")
    generic = "cvta.shared.u64 a, a;" if space == "generic" else ""
    back = "cvta.to.shared.u64 a, a;" if space == "generic" else ""
    head = (
        HEAD
        + f"{shared} .reg .b32 t; .reg .b64 pi, po; ld.param.u64 pi, [p0]; ld.param.u64 po, [p1]; mov.u32 t, %tid.x;"
    )
    body = f""".reg .b64 x, a; .reg .b{bits} old, b, c, d, e, new, n2; mad.wide.u32 x, t, {4 * size}, pi;
    ld.global.v4.b{bits} {{old, b, c, e}}, [x]; {there}
    st.{write}.b{bits} [a], old; st.{write}.b{bits} [a+{size}], e; {generic} {instruction} {back}
    ld.{read}.b{bits} new, [a]; ld.{read}.b{bits} n2, [a+{size}]; mad.wide.u32 x, t, {4 * size}, po;
    add.u64 x, x, {CELLS * 2 * size}; st.global.v4.b{bits} [x], {{d, e, new, n2}};"""
    if bits == 64:
        body = body.replace(
            "ld.global.v4.b64 {old, b, c, e}, [x];", "ld.global.v2.b64 {old, b}, [x]; ld.global.v2.b64 {c, e}, [x+16];"
        )
        body = body.replace(
            "st.global.v4.b64 [x], {d, e, new, n2};",
            "st.global.v2.b64 [x], {d, e}; st.global.v2.b64 [x+16], {new, n2};",
        )
    out = np.zeros((CELLS * 6,), f"u{size}")
    label = name if space != "generic" else f"{name} (generic, shared)"
    return Case(label, head, body, operands(bits, type, 4), out, CELLS)


def cases() -> list[Case]:
    """Every case."""
    return [*warp_cases(), *atomic_cases()]


class Gpu:
    """Launches by the CUDA driver."""

    def __init__(self) -> None:
        self.cu = C.CDLL("libcuda.so.1")
        device, context = C.c_int(), C.c_void_p()
        self.check(self.cu.cuInit(0))
        self.check(self.cu.cuDeviceGet(C.byref(device), 0))
        self.check(self.cu.cuDevicePrimaryCtxRetain(C.byref(context), device))
        self.check(self.cu.cuCtxSetCurrent(context))
        self.module: C.c_void_p | None = None

    def check(self, status: int) -> None:
        """Raise where the driver reports an error."""
        if status:
            name = C.c_char_p()
            self.cu.cuGetErrorName(status, C.byref(name))
            raise RuntimeError(f"CUDA error {status}: {(name.value or b'?').decode()}")

    def load(self, text: str) -> None:
        """Load a module in place of the last one."""
        if self.module is not None:
            self.check(self.cu.cuModuleUnload(self.module))
        self.module = C.c_void_p()
        self.check(self.cu.cuModuleLoadData(C.byref(self.module), text.encode() + b"\0"))

    def run(self, name: str, source: np.ndarray, out: np.ndarray, threads: int) -> np.ndarray:
        """``out`` after a kernel of the module."""
        function, places = C.c_void_p(), []
        self.check(self.cu.cuModuleGetFunction(C.byref(function), self.module, name.encode()))
        for array in (source, out):
            place = C.c_uint64()
            self.check(self.cu.cuMemAlloc_v2(C.byref(place), C.c_size_t(array.nbytes)))
            self.check(self.cu.cuMemcpyHtoD_v2(place, array.ctypes.data_as(C.c_void_p), C.c_size_t(array.nbytes)))
            places.append(place)
        arguments = (C.c_void_p * 2)(*(C.addressof(p) for p in places))
        self.check(self.cu.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, None, arguments, None))
        self.check(self.cu.cuCtxSynchronize())
        result = np.empty_like(out)
        self.check(self.cu.cuMemcpyDtoH_v2(result.ctypes.data_as(C.c_void_p), places[1], C.c_size_t(out.nbytes)))
        for place in places:
            self.check(self.cu.cuMemFree_v2(place))
        return result

    def launch(self, text: str, source: np.ndarray, out: np.ndarray, threads: int) -> np.ndarray:
        """``out`` after the kernel ``k`` of a text."""
        self.load(text)
        return self.run("k", source, out, threads)


def record(path: str) -> int:
    """Run every case on the GPU and keep the outputs by case name."""
    gpu, results = Gpu(), {}
    for case in cases():
        results[case.name] = gpu.launch(case.text, np.ascontiguousarray(case.source), case.out, case.threads)
    np.savez_compressed(path, **{str(k): v for k, v in enumerate(results.values())}, names=np.array(list(results)))
    print(f"{len(results)} cases recorded")
    return 0


def compare(path: str) -> int:
    """Run every recorded case in the simulator; 1 where one differs."""
    import warpsim

    with np.load(path) as file:
        stored = dict(file)
    place = {name: str(k) for k, name in enumerate(stored["names"].tolist())}
    together: dict[tuple[str, bytes], list[Case]] = {}
    for case in cases():
        if case.name in place:
            together.setdefault((case.head, case.source.tobytes()), []).append(case)
    wrong = total = 0
    for part in together.values():
        total += len(part)
        found = np.stack([case.out for case in part])
        try:
            warpsim.load(kernel(part))["k"]((1,), (part[0].threads,), (part[0].source.copy(), found))
        except warpsim.WarpsimError as error:
            wrong += len(part)
            print(f"{', '.join(case.name for case in part)}: {str(error).splitlines()[0]}")
            continue
        for case, array in zip(part, found, strict=True):
            got, want = array.reshape(-1), stored[place[case.name]].reshape(-1)
            if got.tobytes() != want.tobytes():
                wrong += 1
                at = int(np.flatnonzero(got != want)[0])
                print(f"{case.name}: element {at} is {int(got[at]):#x}, the GPU has {int(want[at]):#x}")
    print(f"{total - wrong} of {total} cases equal the recording")
    return wrong != 0


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("record", "compare"):
        sys.exit(__doc__)
    sys.exit(record(sys.argv[2]) if sys.argv[1] == "record" else compare(sys.argv[2]))

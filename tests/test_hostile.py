"""Draws of hostile arguments, hostile files and damaged modules that are launched: only documented exceptions come out.

`SAMPLES` says how many of each the default run draws and how many the long one does.
"""

import contextlib
import itertools
import json
import random
import re
import shutil
import time
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import warpsim
from warpsim.host.cases import run_case

ROOT = Path(__file__).parents[1]
SAMPLES = {"arguments": (500, 70_000), "modules": (12, 20_000), "files": (60, 10_000)}
SEEDS = 10
SECONDS = 30
"""Each draw takes milliseconds, and a launch is limited to a second; more than this is a hang."""
HEADER = ".version 8.6\n.target {}\n.address_size 64\n.visible .entry k({}) {} {{ ret; }}"


def sweep(draw, seed, count, report=lambda: ""):
    """``count`` draws; each is a description and something to call."""
    rng = random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(count):
            what, act = draw(rng)
            started = time.monotonic()
            try:
                with contextlib.suppress(warpsim.LaunchError, warpsim.PtxError, warpsim.ExecutionError):
                    act()
            except Exception as defect:
                raise AssertionError(f"draw {number} of seed {seed}, {what}, ends in {defect!r}{report()}") from defect
            assert time.monotonic() - started < SECONDS, f"draw {number} of seed {seed}, {what}"


# ---- arguments -----------------------------------------------------------------------------------


class Three:
    """An integer by its ``__index__`` alone."""

    def __index__(self):
        return 3


class Nameless:
    """Something that cannot even be shown."""

    def __repr__(self):
        raise RuntimeError("no name")


def broken(method, problem):
    """Something of which one method fails, or gives what it must not."""

    def act(*_, **__):
        if isinstance(problem, Exception):
            raise problem
        return problem

    return type("Broken", (), {method: act})()


METHODS = ("__index__", "__int__", "__float__", "__len__", "__iter__", "__getitem__", "__array__", "__bool__", "__str__",
           "__fspath__", "__dlpack__", "__hash__", "__eq__")  # fmt: skip
PROBLEMS = (ValueError("v"), RuntimeError("r"), OverflowError("o"), None, "x", -1, 10**30, [1, "a"])
INTERFACES = ({}, None, 5, {"shape": ("a",), "typestr": "??", "data": "x"},
              {"shape": (-4,), "typestr": "<f4", "data": (8, False), "version": 3})  # fmt: skip


class Odd(np.ndarray):
    """An array of which no element can be had."""

    def __getitem__(self, index):
        raise ValueError("odd")


VALUES = [
    *(broken(method, problem) for method in METHODS for problem in PROBLEMS),
    *(
        type("Interface", (), {name: i})()
        for name in ("__array_interface__", "__cuda_array_interface__")
        for i in INTERFACES
    ),
    *(np.ones(6, np.float32).view(Odd), np.broadcast_to(np.float32(1), (8,)), np.void(b"abc"), np.str_("k"), "\udcff"),
    *(Path("a\0b"), memoryview(bytearray(8))[::2], np.zeros((0, 4)), {"race"}, {1, "race"}, slice(1), Ellipsis),
    *(0, 1, -1, 2, 3, 7, 32, 33, 64, 1024, 2**31, 2**32, 2**63, 2**64, 10**400, 10**5000, -(10**400)),
    *(0.5, 1e300, float("nan"), float("inf"), -0.0, True, False, None, 1j),
    *("", "k", "sm_90a", "sm_" + "9" * 5000, "default", "eager", "all-race", "none", "1", "x" * 1000, "%r1", "\0"),
    *(b"", b"abc", bytearray(8), [], [1], [1, 2], [1, 2, 3, 4], (0,), (1, 1, 1), (2**31, 1, 1), (10**400,), ("1",)),
    *([None], {}, {"a": 1}, {1, 2}, set(), [[1, 2], [3]], [10**5000], object(), Three(), lambda: 1, int, range(3)),
    *(np.float32(3), np.int64(-(2**63)), np.uint8(2), np.bool_(1), np.array(3), np.array([1, 2, 3]), np.zeros((2, 2))),
    *(np.zeros(0), np.zeros((2, 3), order="F"), np.array(["a"]), np.array([object()]), np.zeros(3, "M8[s]")),
    *(np.zeros(3, "c16"), np.zeros(4, ml_dtypes.bfloat16), np.zeros(4, [("a", "i4")]), np.zeros(8, ">i4")),
    *(np.ma.array([1, 2]), np.zeros(5)[::-1], np.array([10**30]), np.array([np.nan, 1e300]), np.zeros((1,) * 20)),
    *(np.datetime64("2020"), ml_dtypes.bfloat16(1), np.array([10**5000, 1], object), np.zeros(3, "V5")),
]
OPTIONS = (
    *("shared_mem", "cluster", "cooperative", "device", "checks", "on_finding", "async_effects", "max_instructions"),
    *("max_seconds", "batch_threads", "schedule", "executor", "watchers", "engine", "profile"),
)
PARAMS = ".param .u32 n, .param .f32 a, .param .u64 p, .param .align 8 .b8 s[16], .param .f16 h"
CODES = ("add.u32 d, a, b;", "mov.b32 d, a;", "add.f32 d, a, b;", "and.pred d, a, b;", "add.f64 d, a, b;",
         "add.f16 d, a, b;", "mov.b16 d, a;", "add.bf16 d, a, b;", "add.s64 d, a, b;", "mov.b64 {a, b}, d;")  # fmt: skip
PRODUCTS = {
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32": {"a": (16, 16), "b": (16, 8), "c": (16, 8)},
    "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32": {"a": (16, 32), "b": (32, 8), "c": (16, 8)},
    "mma.sp.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16": {"a": (16, 16), "b": (32, 8), "c": (16, 8), "e": (16, 8)},
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16": {"a": (64, 16), "b": (16, 8), "c": (64, 8)},
}
MAPS = (
    ((16, 64), {"global_dim": (64, 16), "global_strides": (128,), "box_dim": (32, 8)}),
    (
        (2, 4, 4, 64),
        {
            **{"global_dim": (64, 4, 4, 2), "global_strides": (128, 512, 2048), "pixel_box_lower_corner": (0, 0)},
            **{"pixel_box_upper_corner": (0, 0), "channels_per_pixel": 32, "pixels_per_column": 16},
        },
    ),
)
WORDS = ("data_type", "element_strides", "interleave", "swizzle", "l2_promotion", "oob_fill")


def value(rng):
    """Something that may be passed for anything."""
    return rng.choice(VALUES) if rng.random() < 0.98 else rng.choice([Nameless(), iter([1, 2]), itertools.count()])


def arguments(modules):
    """A draw of a call of the public face with one or a few things in the wrong place."""
    plain, clustered, mapped = modules

    def launch(rng):
        module = rng.choice([plain, clustered])
        args = [3, 1.0, None, bytes(16), 1.0] if module is plain else []
        position, options = [(1,), (32,), args], {"max_seconds": 5, "max_instructions": 1000}
        for _ in range(rng.choice([1, 1, 2])):
            at = rng.randrange(8)
            if at < 3:
                position[at] = value(rng)
            elif at < 5 and args:
                args[rng.randrange(5)] = value(rng)
            else:
                options[rng.choice(OPTIONS)] = value(rng)
        return lambda: module["k"](*position, **options)

    def load(rng):
        source = value(rng)
        return lambda: warpsim.load(source)

    def names(rng):
        name, device = value(rng), value(rng)
        return rng.choice([
            lambda: plain[name],
            lambda: plain.get_function(name),
            lambda: plain.get_global(name),
            lambda: plain.get_global("k", device),
        ])  # fmt: skip

    def snippet(rng):
        code, registers, options = rng.choice(CODES), {"a": value(rng)}, {}
        for _ in range(rng.choice([0, 1, 2])):
            word = rng.choice(["registers", "warps", "target", "shared", "checks", "max_seconds", "name", "code"])
            if word == "name":
                with contextlib.suppress(Exception):  # what no mapping can hold
                    registers[value(rng)] = value(rng)
            elif word == "code":
                code = value(rng)
            else:
                options[word] = value(rng)
        return lambda: warpsim.run(code, **{"registers": registers, **options})

    def product(rng):
        spelling, shapes = rng.choice(list(PRODUCTS.items()))
        given = {name: np.full(shape, 4, np.int8) for name, shape in shapes.items()}
        for _ in range(rng.choice([1, 2])):
            word = rng.choice(["a", "b", "c", "e", "scale_a", "scale_b", "target", "bits", "spelling", "words"])
            if word == "spelling":
                spelling = value(rng)
            elif word == "words":
                words = str(type(spelling)) if not isinstance(spelling, str) else spelling
                spelling = ".".join(rng.sample(words.split("."), rng.randrange(words.count(".") + 2)))
            else:
                given[word] = value(rng)
        return lambda: warpsim.mma(spelling, **given)

    def tensor_map(rng):
        which = rng.randrange(2)
        shape, fields = MAPS[which]
        make = (warpsim.TensorMap, warpsim.TensorMap.im2col)[which]
        given, array = dict(fields), np.zeros(shape, np.float16)
        for _ in range(rng.choice([1, 1, 2])):
            given[rng.choice([*fields, *WORDS])] = value(rng)
        if rng.random() < 0.2:
            array = value(rng)
        address = value(rng)

        def act():
            made = make(array, **given)
            mapped["k"]((1,), (1,), (made,))
            made.encode(address)

        return act

    def device(rng):
        first, second = (None if isinstance(v, Nameless) else v for v in (value(rng), value(rng)))  # NumPy shows them
        return rng.choice([
            lambda: warpsim.Device(first),
            lambda: warpsim.Device(numerics=first),
            lambda: warpsim.Device(stdout=first),
            lambda: warpsim.Device().read(first, second),
            lambda: warpsim.Device().write(first, second),
            lambda: warpsim.Device().allocation(first),
            lambda: warpsim.Device().array(first),
            lambda: warpsim.Device().empty(first, second),
            lambda: warpsim.Device().empty(4, second),
            lambda: warpsim.Device().map(first, second),
            lambda: warpsim.Device().array(np.zeros(4, np.int32)).set(first),
        ])  # fmt: skip

    def draw(rng):
        make = rng.choice([launch, launch, load, names, snippet, snippet, product, tensor_map, device])
        return make.__name__, make(rng)

    return draw


@pytest.fixture(scope="module")
def modules():
    """Three small modules to pass things to."""
    heads = (
        ("sm_80", PARAMS, ""),
        ("sm_90", "", ".reqnctapercluster 2"),
        ("sm_90", ".param .align 64 .b8 m[128]", ""),
    )
    return [warpsim.load(HEADER.format(*head)) for head in heads]


# ---- modules -------------------------------------------------------------------------------------

TEXTS = [
    text
    for path in sorted([*ROOT.glob("tests/cases/*/kernel.ptx"), *ROOT.glob("programs/*/kernel.ptx")])
    if (text := path.read_text(encoding="utf-8")).count("\n") <= 250
]
NUMBERS = ("0", "1", "-1", "2", "3", "5", "31", "32", "63", "64", "128", "255", "4096", "65535", "1048576",
           "2147483647", "4294967295", "-2147483648", "9223372036854775807", "0f7FC00000", "0f3F800000")  # fmt: skip
TYPES = ("u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32", "f32", "u64", "s64", "b64", "f64", "f16")


def bent(rng, text):
    """A module that differs in an instruction or a few: most of them still load."""
    lines = text.split("\n")
    inner = [i for i, line in enumerate(lines) if line.strip().endswith(";") and not line.strip().startswith(".")]
    for _ in range(rng.choice([1, 1, 2, 3, 5])):
        i, kind = rng.choice(inner), rng.randrange(8)
        j = rng.choice(inner)
        if kind == 0:
            lines[i] = ""
        elif kind == 1:
            lines[i] = f"{lines[i]} {lines[i]}"
        elif kind == 2:
            lines[i], lines[j] = lines[j], lines[i]
        elif kind in (3, 4):
            lines[i] = _changed(rng, r"(?<![\w.%$])-?\d+(?![\w.])", lines[i], NUMBERS)
        elif kind == 5:
            same = re.findall(r"%(?:rd|rs|fd|[a-z])\d+", text)
            register = rng.choice(same or ["%r1"])
            prefix = register.rstrip("0123456789")
            lines[i] = _changed(rng, rf"{prefix}\d+", lines[i], [register])
        elif kind == 6:
            lines[i] = _changed(rng, rf"(?<=\.)(?:{'|'.join(TYPES)})\b", lines[i], TYPES)
        else:
            lines[i] = lines[i].replace("@!", "@", 1) if "@!" in lines[i] else lines[i].replace("@", "@!", 1)
    return "\n".join(lines)


def _changed(rng, pattern, line, choices):
    """One match replaced."""
    found = list(re.finditer(pattern, line))
    if not found:
        return line
    match = rng.choice(found)
    return line[: match.start()] + rng.choice(choices) + line[match.end() :]


def passed(rng, param, array):
    """An argument that a launch may take for a parameter."""
    if param.array:
        return bytes(rng.choice([0, 1, 255]) for _ in range(param.size))
    if param.type.bits == 64:
        return rng.choice([array, array.ptr + 4, 0, 64, np.zeros(4096, np.float32), np.ones(100, np.uint32)])
    if param.type.kind == "f":
        return rng.choice([0.0, 1.5, float("nan")])
    return rng.choice([0, 1, 4, 32, 100, (1 << param.type.bits) - 1])


class Modules:
    """Draws of bent modules, launched where they load; counts what became of them."""

    def __init__(self):
        self.loaded = self.text = 0

    def draw(self, rng):
        """One module."""
        text = bent(rng, rng.choice(TEXTS))

        def act():
            self.text = text
            module = warpsim.load(text)
            self.loaded += 1
            kernel = next(iter(module.kernels.values()))
            device = warpsim.Device(module.target)
            array = device.array(np.zeros(8192, np.uint32))
            required = kernel.function.directives.get("reqntid")
            block = [int(x) for x in required] if required else rng.choice([(1,), (32,), (33,), (64,), (128,)])
            options = {
                "shared_mem": rng.choice([0, 1024, 40000]),
                "checks": rng.choice(["default", "all", "none"]),
                "on_finding": rng.choice(["raise", "collect"]),
                "async_effects": rng.choice(["eager", "at_wait"]),
            }
            args = [passed(rng, param, array) for param in kernel.function.params]
            grid = rng.choice([(1,), (2,), (3, 2)])
            kernel(grid, block, args, device=device, max_instructions=20_000, max_seconds=1, **options)

        return "a bent module", act


# ---- files ---------------------------------------------------------------------------------------


def strange(rng, node):
    """Plain data with one value replaced somewhere."""
    if isinstance(node, (dict, list)) and node and rng.random() < 0.9:
        key = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
        if rng.random() < 0.1:
            del node[key]
        else:
            node[key] = strange(rng, node[key])
        return node
    return rng.choice(
        [None, 0, -1, 1, 3, 10**30, 0.5, 1e400, "", "x", "f16", "u64", [], [1], {}, {"a": 1}, True, "ptr"]
    )


def files(folder):
    """A draw of a recorded case of which a file is damaged."""

    def draw(rng):
        case = json.loads((folder / "whole.json").read_text())
        data = bytearray((folder / "whole.npz").read_bytes())
        if rng.random() < 0.7:
            for _ in range(rng.choice([1, 1, 2, 3])):
                strange(rng, case)
        else:
            for _ in range(rng.choice([1, 3, 30])):
                data[rng.randrange(len(data))] = rng.randrange(256)
            if rng.random() < 0.2:
                del data[rng.randrange(len(data)) :]
        (folder / "case.json").write_text(json.dumps(case))
        (folder / "data.npz").write_bytes(data)
        return "a damaged case", lambda: run_case(folder, max_seconds=1, max_instructions=20_000)

    return draw


@pytest.fixture
def folder(tmp_path):
    """A case to damage."""
    case = tmp_path / "case"
    shutil.copytree(ROOT / "programs" / "saxpy", case)
    shutil.copy(case / "case.json", case / "whole.json")
    shutil.copy(case / "data.npz", case / "whole.npz")
    return case


# ---- the runs ------------------------------------------------------------------------------------


def test_arguments(modules):
    """A sample of hostile arguments."""
    sweep(arguments(modules), 1, SAMPLES["arguments"][0])


def test_modules():
    """A sample of modules that are launched."""
    drawn = Modules()
    sweep(drawn.draw, 1, SAMPLES["modules"][0], lambda: f":\n{drawn.text}")
    assert drawn.loaded > SAMPLES["modules"][0] // 3


def test_files(folder):
    """A sample of damaged cases."""
    sweep(files(folder), 1, SAMPLES["files"][0])


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100, 100 + SEEDS))
def test_100_000(seed, modules, folder):
    """All of them, a tenth for each seed."""
    sweep(arguments(modules), seed, SAMPLES["arguments"][1] // SEEDS)
    sweep(files(folder), seed, SAMPLES["files"][1] // SEEDS)
    drawn = Modules()
    sweep(drawn.draw, seed, SAMPLES["modules"][1] // SEEDS, lambda: f":\n{drawn.text}")

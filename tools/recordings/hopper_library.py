# ruff: noqa: D103 (the name of a case says what it is)
"""Cases of CUDA's own library, and of the forms of asynchronous instructions one after the other."""

import numpy as np

import async_ptx
from case_files import changed, i32, ptr, random, result, source
from hopper_parts import case, tensor_map

# ---- CUDA's own library ---------------------------------------------------------------------------


def by_library(entry, grid, block, buffers, params, **more):
    """The parts of a case of library.cu."""
    return {
        "source": "library",
        "entry": entry,
        "grid": grid,
        "block": block,
        "buffers": buffers,
        "params": params,
        **more,
    }


@case
def library_bulk():
    data = np.random.default_rng(1).integers(-1000, 1000, 4 * 1024)
    offset = {"kind": "scalar", "dtype": "u64", "value": 1024}
    return by_library("bulk_add_one", (3, 1, 1), (128, 1, 1), {"data": changed("s32", data)}, [ptr("data"), offset])


@case
def library_tensors():
    values = np.random.default_rng(2).integers(-1000, 1000, (40, 72))
    buffers = {"in": source("s32", values), "out": result("s32", 40, 72)}
    maps = [tensor_map(name, "INT32", (72, 40), (32, 16)) for name in buffers]
    return by_library("tensor_negate", (3, 3, 1), (96, 1, 1), buffers, maps)


@case
def library_roles():
    buffers = {"in": source("f32", random(2, 7, 128)), "out": result("f32", 2, 128)}
    return by_library("pipeline_roles", (2, 1, 1), (160, 1, 1), buffers, [ptr("in"), ptr("out"), i32(7)])


@case
def library_groups():
    values = np.random.default_rng(3).integers(-1000, 1000, (2, 5, 128))
    buffers = {"in": source("s32", values), "out": result("s32", 2, 128, 2)}
    return by_library("group_copies", (2, 1, 1), (128, 1, 1), buffers, [ptr("in"), ptr("out"), i32(5)])


@case
def library_histogram():
    values = np.random.default_rng(4).normal(50, 30, 3000).astype(int)
    buffers = {"bins": changed("s32", np.zeros(100)), "in": source("s32", values)}
    params = [ptr("bins"), i32(100), i32(25), ptr("in"), i32(3000)]
    return by_library("cluster_histogram", (8, 1, 1), (128, 1, 1), buffers, params, cluster=(4, 1, 1), dynamic_smem=100)


@case
def library_cluster():
    buffers = {"out": result("u32", 8, 40)}
    return by_library("cluster_exchange", (4, 2, 1), (32, 1, 1), buffers, [ptr("out")], cluster=(2, 2, 1))


@case
def library_edited_map():
    rows = 9
    values = np.random.default_rng(5).integers(-1000, 1000, (3, rows, 16))
    buffers = {"maps": result("u8", 3, 128), "data": source("s32", values), "out": result("s32", 3, 8, 16)}
    params = [tensor_map("data", "INT32", (16, rows), (16, 4)), ptr("maps"), ptr("data"), ptr("out"), i32(rows)]
    return by_library("edited_map", (3, 1, 1), (64, 1, 1), buffers, params, unchecked=("maps",))


# ---- forms one after the other --------------------------------------------------------------------


def forms(text, words, *, inputs=None, **more):
    """A case of a kernel of `async_ptx`: ``words`` of output in each row."""
    buffers = {"out": result("u32", *words)} | ({"in": source("u32", inputs)} if inputs is not None else {})
    return {
        "ptx": text,
        "by": "async_ptx.py",
        "entry": "forms",
        "buffers": buffers,
        "params": [ptr(b) for b in buffers],
        **more,
    }


@case
def mbarrier_forms():
    text, n = async_ptx.mbarrier_forms()
    return forms(text, (n,), grid=(1, 1, 1), block=(32, 1, 1))


@case
def elected():
    text, n = async_ptx.elected()
    return forms(text, (64, n), grid=(1, 1, 1), block=(64, 1, 1))


@case
def cluster_forms():
    text, n = async_ptx.cluster_forms()
    inputs = np.random.default_rng(2).integers(0, 1 << 32, (8, 512), np.uint32)
    return forms(text, (8, n), inputs=inputs, grid=(4, 2, 1), block=(32, 1, 1), cluster=(2, 2, 1))


@case
def cluster_multicast():
    text, n = async_ptx.multicast()
    inputs = np.random.default_rng(3).integers(0, 1 << 32, (8, 64), np.uint32)
    return forms(text, (8, n), inputs=inputs, grid=(8, 1, 1), block=(32, 1, 1), cluster=(4, 1, 1))


INCREASE = "setmaxnreg.inc.sync.aligned.u32 96;"


@case
def register_counts():
    text = async_ptx.register_counts(".maxnreg 64", INCREASE)
    return forms(text, (128,), grid=(3, 1, 1), block=(256, 1, 1))


@case
def register_counts_twice():
    down, up = "setmaxnreg.dec.sync.aligned.u32 32;", "setmaxnreg.inc.sync.aligned.u32 64;"
    first = f"{down} bar.sync 1, 128; {up} bar.sync 1, 128; {INCREASE}"
    text = async_ptx.register_counts(".maxntid 256 .minnctapersm 4", first)
    return forms(text, (128,), grid=(3, 1, 1), block=(256, 1, 1))

"""Random tensor copies: maps of every rank, type, mode and swizzle, loaded, stored and combined, at places inside, across
the edges and outside; some that no GPU makes.

random_boxes.py record OUT.npz        on a machine with a GPU: what became of each, and digests of what was written
"""

import concurrent.futures
import hashlib
import json
import random
import subprocess
import sys

import numpy as np

import boxes_ptx
import record
from case_files import SIZES, STORED, ptr
from hopper_parts import MAP_TYPES, UNITS, tensor_map

COUNT = 2000
REFUSED, FAULT, DONE = range(3)
"""What becomes of a trial: the driver refuses the map, the GPU faults, or the copy is made."""
SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
REDUCTIONS = {
    "s32": "add min max and or xor", "u32": "add min max inc dec and or xor", "s64": "min max and or xor",
    "u64": "add min max and or xor", "f16": "add min max", "bf16": "add min max", "f32": "add", "f64": "add",
}  # fmt: skip
EXTENTS = {1: (400, 256), 2: (60, 40), 3: (20, 12), 4: (9, 7), 5: (6, 5)}
"""By rank, the largest extents of tensors and of boxes."""
LIMITS = {3: (15, 600), 4: (12, 255), 5: (6, 31)}
"""By rank, how far corners of im2col maps leave the tensor, and the largest offset."""
ROOM = 40_000


def numbered(number):
    """A trial, as (case, arrays, PTX) of the case format."""
    rng, numbers = random.Random(number), np.random.default_rng(number)
    while not (made := trial(rng, numbers)):
        pass
    return made


def bits(numbers, name, *shape):
    """Random bits of a type."""
    raw = numbers.integers(0, 256, int(np.prod(shape)) * SIZES[name], np.uint16).astype(np.uint8)
    return raw.view(STORED.get(name, f"u{SIZES[name]}")).reshape(shape)


def dense_strides(rng, dims, size, unit, *, overlapping):
    """Strides in bytes of a tensor without gaps, or with small ones."""
    strides, at = [], dims[0] * size
    for extent in dims[1:]:
        stride = -(-at // unit) * unit + (unit * rng.randint(0, 3) if rng.random() < 0.3 else 0)
        if overlapping and rng.random() < 0.05:
            stride = unit * rng.randint(0, 6)
        strides.append(stride)
        at = stride * extent
    return strides


def im2col_mode(rng, rank, dims, size, per, swizzle):
    """Corners, channels and pixels of an im2col map."""
    far, count = LIMITS[rank][0], rank - 2
    lower, upper = ([rng.randint(-far, 3) for _ in range(count)] for _ in range(2))
    if rng.random() < 0.4:  # stores need a bounding box within the tensor
        lower, upper = [max(x, 0) for x in lower], [min(x, 0) for x in upper]
    upper = [max(u, low - d + 1) for u, low, d in zip(upper, lower, dims if per else dims[1:], strict=False)]
    channels = (per or 16 // size) * rng.randint(1, 4)
    if SPANS[swizzle] and not per:
        channels = min(channels, SPANS[swizzle] // size)
    return lower, upper, channels, rng.choice([rng.randint(1, top) for top in (16, 64, 256)])


def box_of(rng, rank, steps, size, per, swizzle):
    """Extents of a box."""
    box = [min(256, rng.randint(1, EXTENTS[rank][1]) * (s if rng.random() < 0.6 else 1)) for s in steps]
    if not per:
        box[0] = max(16 // size, box[0] // (16 // size) * (16 // size))
        box[0] = min(box[0], SPANS[swizzle] // size or box[0])
    return box


def places_of(rng, count, dims, box, im2col, *, per, size, load):
    """Coordinates of each CTA's box, and its im2col offsets."""
    table, rank = np.zeros((count, 8), np.int32), len(dims)
    for row in table:
        for axis, extent in enumerate(dims):
            pixel = axis if per else axis - 1
            if im2col and 0 <= pixel < rank - 2:
                low = im2col[0][pixel]
                row[axis] = rng.randint(low, max(low, extent + im2col[1][pixel] - 1))
                continue
            reach = box[axis] if box else 8
            row[axis] = rng.choice(
                [0, rng.randint(-reach, extent + 1), rng.randint(0, extent), rng.randint(-3, extent + 3)]
            )
            if rng.random() < 0.01:
                row[axis] = rng.choice([2**31 - 1, -(2**31), 100_000, -100_000])
        if not per and rng.random() < 0.995:
            row[0] = row[0] // (16 // size) * (16 // size)
        if not load and rng.random() < 0.99:
            row[:5] = np.maximum(row[:5], 0)
        for k in range(rank - 2 if im2col else 0):
            row.view(np.uint16)[10 + k] = rng.choice([0, rng.randint(0, 3), rng.randint(0, LIMITS[rank][1])])
    return table


def geometry(rng, *, load):
    """Arguments of a tensor map, and what a copy of its box is: its type, channels of a slice, the size of an element, and bytes
    of the tensor, of the copy and of the place that it takes; and whether it is one."""
    data_type = rng.choice(list(MAP_TYPES))
    name = MAP_TYPES[data_type]
    size = SIZES[name]
    interleave = rng.choice(["none"] * 6 + ["16B", "32B"])
    rank = rng.randint(1, 5) if interleave == "none" else rng.randint(3, 5)
    unit, swizzle = UNITS[interleave], rng.choice(list(SPANS))
    per = unit // size
    dims = [rng.randint(1, EXTENTS[rank][0]) for _ in range(rank)]
    if not unit and rank > 1 and rng.random() < 0.7:
        dims[0] = max(16 // size, dims[0] // (16 // size) * (16 // size))
    strides = dense_strides(rng, dims, unit or size, 32 if unit == 32 else 16, overlapping=load)
    total = sum((d - 1) * s for d, s in zip(dims, [unit or size, *strides], strict=True)) + (unit or size)
    steps = [rng.choice([1, 1, 2, 3, 4, 5, 8]) for _ in dims] if rng.random() < 0.4 else [1] * rank
    box = im2col = None
    if rank >= 3 and rng.random() < 0.3:
        steps[-1] = 1
        im2col = im2col_mode(rng, rank, dims, size, per, swizzle)
        count, inner = (per or im2col[2]) * im2col[3], unit or im2col[2] * size
    else:
        box = box_of(rng, rank, steps, size, per, swizzle)
        sides = [e if i == 0 and not unit else -(-e // s) for i, (e, s) in enumerate(zip(box, steps, strict=True))]
        if unit:
            sides[-2] = 1
        count, inner = int(np.prod(sides)) * (per or 1), unit or box[0] * size
    nbytes = count * size
    room = -(-nbytes // 128) * 128 if unit else nbytes // inner * max(inner, SPANS[swizzle])
    arguments = {
        "data_type": data_type, "dims": dims, "box": box, "strides": strides, "swizzle": swizzle, "element_strides": steps,
        "im2col": im2col, "interleave": interleave,
    }  # fmt: skip
    return arguments, name, per, size, total, nbytes, room, total <= 60_000 and not nbytes % 16 and not inner % 16


def trial(rng, numbers):
    """One trial, None where the draw gives none."""
    kind = rng.choice(["load"] * 5 + ["store"] * 2 + ["reduce"] * 2)
    load = kind == "load"
    arguments, name, per, size, total, nbytes, room, whole = geometry(rng, load=load)
    dims, box, im2col = arguments["dims"], arguments["box"], arguments["im2col"]
    operation = rng.choice(REDUCTIONS[name].split()) if kind == "reduce" and name in REDUCTIONS else None
    if not whole or not 0 < room < ROOM or (kind == "reduce" and not operation):
        return None
    ctas = rng.randint(1, 4) if load else 1  # overlapping stores have no order
    arrays = {
        "in_tensor": bits(numbers, name, -(-total // size)),
        "in_places": places_of(rng, ctas, dims, box, im2col, per=per, size=size, load=load),
    }
    if not load:
        arrays["in_data"] = bits(numbers, name, ctas, room // size)
    text = boxes_ptx.kernel(
        len(dims), nbytes if load else room, room=room, op=operation, im2col=bool(im2col), store=kind == "store"
    )
    fill = "nan_request_zero_fma" if name[0] in "fb" and rng.random() < 0.4 else "zero"
    map = tensor_map("tensor", **arguments, fill=fill)
    return described(map, arrays, name, ctas, room // size, load=load), arrays, text


def described(map, arrays, name, ctas, room, *, load):
    """The case of a launch."""
    shapes = {"tensor": arrays["in_tensor"].shape, "places": (ctas, 8), "data": (ctas, room)}
    types = {"tensor": name, "places": "s32", "data": name}
    out = "data" if load else "tensor"
    buffers = [
        {
            "name": key, "dtype": types[key], "shape": list(shape), "nbytes": int(np.prod(shape)) * SIZES[types[key]],
            "role": "in" if key != out else "out" if load else "inout",
            "in": f"in_{key}" if f"in_{key}" in arrays else None, "out": f"out_{key}" if key == out else None,
        }
        for key, shape in shapes.items()
    ]  # fmt: skip
    return {
        "format": 1, "name": "box", "origin": "random", "source": "", "entry": "box", "target": "sm_90a", "grid": [ctas, 1, 1],
        "block": [128, 1, 1], "cluster": None, "cooperative": False, "dynamic_smem": 0, "buffers": buffers,
        "params": [map, ptr("places"), ptr("data")], "check": {},
    }  # fmt: skip


def digest(outputs):
    """64 bits of what was written."""
    return int.from_bytes(hashlib.sha256(b"".join(v.tobytes() for v in outputs.values())).digest()[:8], "little")


def attempt(gpu, case, arrays, text):
    """What becomes of a trial on the GPU, and its digest."""
    try:
        gpu.tensor_map(case["params"][0], 0x7F00_0000_0000)
    except RuntimeError:
        return REFUSED, 0
    try:
        first, second = (digest(record.launch(gpu, gpu.kernel(text.encode(), "box"), case, arrays)) for _ in range(2))
    except RuntimeError as problem:
        if "715" not in str(problem):  # CUDA_ERROR_ILLEGAL_INSTRUCTION
            raise
        return FAULT, 0
    assert first == second
    return DONE, first


def part(first, last):
    """Verdicts of some trials. A fault ends its process, and another goes on behind it."""
    found = []
    while first + len(found) < last:
        command = [sys.executable, __file__, "part", str(first + len(found)), str(last)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        lines = done.stdout.splitlines()
        if not lines:
            sys.exit(done.stderr)
        found += [json.loads(line) for line in lines]
    return found


def main():
    """The command line."""
    if sys.argv[1:2] == ["part"]:
        gpu = record.Gpu()
        for number in range(int(sys.argv[2]), int(sys.argv[3])):
            verdict = attempt(gpu, *numbered(number))
            print(json.dumps(verdict), flush=True)
            if verdict[0] == FAULT:
                return
    elif sys.argv[1:2] == ["record"]:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            parts = pool.map(part, range(0, COUNT, 50), range(50, COUNT + 50, 50))
        verdicts, digests = zip(*(verdict for part in parts for verdict in part), strict=True)
        np.savez_compressed(sys.argv[2], verdicts=np.array(verdicts, np.uint8), digests=np.array(digests, np.uint64))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()

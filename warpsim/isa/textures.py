"""tex, tld4, txq, suld, sust, sured, suq and istypep (PTX ISA: Texture Instructions, Surface Instructions)."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from warpsim.isa.atomics import illegal_type, update_of
from warpsim.isa.ports import Address, Atomic, Lanes, TexturePort
from warpsim.isa.spec import Function, Op, instruction, oversized, vector_size
from warpsim.layout.textures import FORMATS, Fields
from warpsim.types import ScalarType

_LENGTHS = {"1d": 1, "a1d": 1, "2d": 2, "a2d": 2, "3d": 4, "cube": 4, "acube": 4, "2dms": 2, "a2dms": 2}
"""Elements of an offset and of a gradient."""
_VECTORS = {name: lambda op: _LENGTHS[op.geom] for name in ("e", "dx", "dy")}
_TYPES = ".vec = { .v4, .v2 };  .dtype = { .u32, .s32, .f16, .f32, .f16x2 };"


def _illegal(op: Op) -> str | None:
    late = [word for word in op.modifiers[1:] if word in ("base", "level", "grad")]
    if late:
        return f".{late[0]} comes first"
    if (op.vec == "v2") != (op.dtype.name == "f16x2"):
        return "four values (.v4), or two pairs of halves (.v2.f16x2)"
    if op.geom.endswith("ms") and op.ctype.name != "s32":
        return f".{op.geom} takes coordinates of .s32"
    return None


def _lookup(start: str, levels: str = "") -> Callable[[Function], Function]:
    """Declares the forms of ``tex`` with a way to choose the level: offsets for all but cubes, a depth to compare with for all but
    three dimensions and integer coordinates."""
    place = f"d{{|p}}, [a{{, sampler}}, coordinates]{levels}"
    samples = "" if levels else ", .2dms, .a2dms"
    blocks = (
        f"{start}.geom.vec.dtype.ctype {place}{{, e}}; .geom = {{ .1d, .2d, .3d, .a1d, .a2d{samples} }}; .ctype = {{ .s32, .f32 }}; {_TYPES}",
        f"{start}.geom.vec.dtype.f32 {place}{{, f}}; .geom = {{ .cube, .acube }}; {_TYPES}",
        f"{start}.geom.vec.dtype.f32 {place}{{, e}}, f; .geom = {{ .1d, .2d, .a1d, .a2d }}; {_TYPES}",
    )

    def declare(function: Function) -> Function:
        for block in reversed(blocks):
            function = instruction(
                block,
                anchor="texture-instructions-tex",
                types={
                    "d": "dtype",
                    "e": ".s32",
                    "f": ".b32",
                    **dict.fromkeys(("dx", "dy"), ".f32"),
                    "lod": lambda op: ".s32" if _whole(op) else ".f32",  # as the coordinates
                },
                vectors=_VECTORS,
                enclosed=("dx", "dy"),
                spaces={"a": {"texref"}},
                checked_as={"d": lambda op: ".b32" if op.dtype.name == "f32" else None, "dx": ".f32", "dy": ".f32"},
                no_specials=dict.fromkeys(("dx", "dy"), lambda op: 90 if op.geom == "3d" else None),
                legal=_illegal,
            )(function)
        return function

    return declare


def _whole(op: Op) -> bool:
    """Whether coordinates are integers."""
    return op.get("ctype") is not None and bool(op.ctype.name == "s32")


def _half(value: Lanes) -> Lanes:
    """The bits of the nearest half; a NaN is 0x7FFF."""
    return np.where(np.isnan(value), np.uint16(0x7FFF), value.astype(np.float16).view(np.uint16))


def _typed(found: tuple[tuple[Lanes, ...], Lanes], type: ScalarType) -> tuple[tuple[Lanes, ...], Lanes]:
    """The channels in the destination's type, and whether they are in memory."""
    channels, resident = found
    if "f16" in type.name:
        with np.errstate(over="ignore"):
            halves = [_half(channel.view(np.float32)) for channel in channels]
        if type.name == "f16":
            return tuple([half.view(np.float16) for half in halves]), resident
        red, green, blue, alpha = (half.astype(np.uint32) for half in halves)
        return (red | green << np.uint32(16), blue | alpha << np.uint32(16)), resident
    return tuple([channel.view(type.dtype) for channel in channels]), resident


Found = tuple[tuple[Lanes, ...], Lanes]


@_lookup("tex.grad", ", dx, dy")
@_lookup("tex.level", ", lod")
@_lookup("tex{.base}")
def tex(
    op: Op,
    a: Address,
    lod: Lanes | None = None,
    dx: tuple[Lanes, ...] | None = None,
    dy: tuple[Lanes, ...] | None = None,
    e: tuple[Lanes, ...] | None = None,
    f: Lanes | None = None,
    *,
    textures: TexturePort,
) -> Found:
    """d = the texture at the coordinates, at a level of detail, or at that for which gradients ask. CUDA has no depth textures: on
    those it has, an H200 passes over f."""
    gradients = None if dx is None or dy is None else (dx, dy)
    return _typed(textures.sample(op.geom, a, lod, gradients, e, whole=_whole(op)), op.dtype)


_gather = functools.partial(
    instruction,
    anchor="texture-instructions-tld4",
    types={"d": "dtype", "e": ".s32", "f": ".b32"},
    vectors={**_VECTORS, "d": 4},
    spaces={"a": {"texref"}},
    checked_as={"d": lambda op: ".b32" if op.dtype.name == "f32" else None},
)
_GATHERED = ".comp = { .r, .g, .b, .a };  .dtype = { .u32, .s32, .f32 };"


@_gather(
    f"tld4.comp.geom.v4.dtype.f32 d{{|p}}, [a{{, sampler}}, coordinates]{{, f}}; .geom = {{ .cube, .acube }}; {_GATHERED}"
)
@_gather(f"tld4.comp.geom.v4.dtype.f32 d{{|p}}, [a{{, sampler}}, coordinates], e; .geom = {{ .2d, .a2d }}; {_GATHERED}")
@_gather(
    f"tld4.comp.geom.v4.dtype.f32 d{{|p}}, [a{{, sampler}}, coordinates]{{, e}}, f; .geom = {{ .2d, .a2d }}; {_GATHERED}"
)
@_gather(f"tld4.comp.geom.v4.dtype.f32 d{{|p}}, [a{{, sampler}}, coordinates]; .geom = {{ .2d, .a2d }}; {_GATHERED}")
def tld4(
    op: Op, a: Address, e: tuple[Lanes, ...] | None = None, f: Lanes | None = None, *, textures: TexturePort
) -> Found:
    """d = one channel of the four elements that linear filtering would weigh."""
    return _typed(textures.gather(op.geom, a, "rgba".index(op.comp), offset=e), op.dtype)


def _starts(word: str, legal: Callable[[Op], str | None] | None = None) -> Callable[[Op], str | None]:
    """Other words may stand in any order, but this one is part of the instruction's name."""

    def check(op: Op) -> str | None:
        return f".{word} comes first" if op.modifiers[0] != word else legal and legal(op)

    return check


_ADDRESS_MODES = {"wrap": 0, "mirror": 1, "clamp": 3, "border": 4}
"""In the order of the manual: wrap, mirror, clamp_ogl, clamp_to_edge, clamp_to_border."""
_QUERIES: dict[str, Callable[[Fields], int]] = {
    "width": lambda fields: fields.size[0],
    "height": lambda fields: fields.size[1] if fields.rank > 1 else fields.layers,
    "depth": lambda fields: fields.size[2] if fields.rank > 2 else fields.layers if fields.rank > 1 else 0,
    "channel_data_type": lambda fields: fields.data_type or FORMATS.index(fields.format),
    "channel_order": lambda fields: fields.order or fields.channels,
    "array_size": lambda fields: fields.layers,
    "num_mipmap_levels": lambda fields: len(fields.levels) if len(fields.levels) > 1 else 0,
    "num_samples": lambda fields: fields.samples,
    "normalized_coords": lambda fields: int(fields.normalized),
    "force_unnormalized_coords": lambda fields: int(fields.forced),
    "filter_mode": lambda fields: int(fields.linear),
    "addr_mode_0": lambda fields: _ADDRESS_MODES[fields.address[0]],
    "addr_mode_1": lambda fields: _ADDRESS_MODES[fields.address[1]],
    "addr_mode_2": lambda fields: _ADDRESS_MODES[fields.address[2]],
    "memory_layout": lambda fields: int(fields.buffer or fields.pitch > 0),
}


def _query(queries: str, kind: str | Callable[[Op], set[str]]) -> Callable[[Function], Function]:
    root = "suq" if kind == "surfref" else "txq"
    return instruction(
        f"{root}.query.b32 d, [a]; .query = {{ {queries} }};",
        anchor="surface-instructions-suq" if root == "suq" else "texture-instructions-txq",
        types={"d": ".b32"},
        spaces={"a": {kind} if isinstance(kind, str) else kind},
    )


@_query(".width, .height, .depth, .channel_data_type, .channel_order, .array_size, .memory_layout", "surfref")
def query_surface(op: Op, a: Address, *, textures: TexturePort) -> Lanes:
    """d = what the surface is. An H200 answers .width, .height and .depth of objects by handle."""
    return textures.query(a, _QUERIES[op.query])


@_query(
    ".width, .height, .depth, .channel_data_type, .channel_order, .normalized_coords, .array_size, .num_mipmap_levels, .num_samples, "
    ".memory_layout",
    "texref",
)
@_query(".force_unnormalized_coords", "samplerref")
@_query(".filter_mode, .addr_mode_0, .addr_mode_1, .addr_mode_2", lambda op: {"texref", "samplerref"})
def query(op: Op, a: Address, *, textures: TexturePort) -> Lanes:
    """d = what the texture or sampler is. An H200 answers .width, .height (at least 1) and .depth of objects by handle."""
    found = textures.query(a, _QUERIES[op.query])
    return np.maximum(found, np.uint32(1)) if op.query == "height" else found


@instruction(
    "istypep.type p, a; .type = { .texref, .samplerref, .surfref };",
    anchor="texture-instructions-istypep",
    types={"p": ".pred", "a": ".b64"},
    checked_as={"a": ".u64"},
)
def istypep(op: Op, a: Lanes, *, textures: TexturePort) -> Lanes:
    """p = whether a is the address of an opaque variable of the type; an object made at run time is none."""
    return textures.is_kind(a, op.type)


@instruction(
    "txq.level.query.b32 d, [a], lod; .query = { .width, .height, .depth };",
    anchor="texture-instructions-txq",
    types={"d": ".b32", "lod": ".u32"},
    spaces={"a": {"texref"}},
    legal=_starts("level"),
)
def query_level(op: Op, a: Address, lod: Lanes, *, textures: TexturePort) -> Lanes:
    """d = the extent of a level of detail."""
    axis = ("width", "height", "depth").index(op.query)
    full = textures.query(a, lambda fields: fields.size[axis] if fields.rank > axis else 0)
    same = textures.query(a, lambda fields: max(fields.layers, axis == 1) if fields.rank == axis else 0)
    levels = textures.query(a, lambda fields: len(fields.levels))
    shrunk = np.maximum(full >> np.minimum(lod, np.uint32(31)), np.uint32(full.any()))
    return np.where(lod < levels, np.where(full > 0, shrunk, same), np.uint32(0))


_SURFACE = ".geom = { .1d, .2d, .3d, .a1d, .a2d };  .clamp = { .trap, .clamp, .zero };"


@instruction(
    f"""
    suld.b.geom{{.cop}}{{.vec}}.dtype.clamp d, [a, coordinates]; {_SURFACE}
    .cop = {{ .ca, .cg, .cs, .cv }};  .vec = {{ .v2, .v4 }};  .dtype = {{ .b8, .b16, .b32, .b64 }};
    """,
    anchor="surface-instructions-suld",
    types={"d": "dtype"},
    repeated=("d",),
    spaces={"a": {"surfref"}},
    legal=_starts("b", lambda op: oversized(op, op.dtype)),
    relaxed=True,
)
def suld(op: Op, a: Address, *, textures: TexturePort) -> Lanes | tuple[Lanes, ...]:
    """d = what lies at a byte offset and a row of the surface."""
    count = vector_size(op)
    found = textures.load(op.geom, a, op.dtype.name, count, op.clamp)
    return found if count > 1 else found[0]


@instruction(
    f"""
    sust.b.geom{{.cop}}{{.vec}}.ctype.clamp [a, coordinates], c; {_SURFACE}
    .cop = {{ .wb, .cg, .cs, .wt }};  .vec = {{ .v2, .v4 }};  .ctype = {{ .b8, .b16, .b32, .b64 }};
    """,
    anchor="surface-instructions-sust",
    types={"c": "ctype"},
    vectors={"c": "vec"},
    repeated=("c",),
    spaces={"a": {"surfref"}},
    legal=_starts("b", lambda op: oversized(op, op.ctype)),
    relaxed=True,
)
def sust(op: Op, a: Address, c: Lanes | tuple[Lanes, ...], *, textures: TexturePort) -> None:
    """What lies at a byte offset and a row of the surface = c."""
    textures.store(op.geom, a, op.ctype.name, c if isinstance(c, tuple) else (c,), op.clamp)


@instruction(
    f"sust.p.geom{{.vec}}.b32.clamp [a, coordinates], c; {_SURFACE} .vec = {{ .v2, .v4 }};",
    anchor="surface-instructions-sust",
    types={"c": ".b32"},
    vectors={"c": "vec"},
    repeated=("c",),
    spaces={"a": {"surfref"}},
    legal=_starts("p"),
)
def sust_formatted(op: Op, a: Address, c: Lanes | tuple[Lanes, ...], *, textures: TexturePort) -> None:
    """The element at the coordinates = c, converted to its format."""
    textures.store_elements(op.geom, a, c if isinstance(c, tuple) else (c,), op.clamp)


def _illegal_reduction(op: Op) -> str | None:
    allowed = {"add": ("u32", "s32", "u64"), "min": ("u32", "s32", "u64", "s64"), "max": ("u32", "s32", "u64", "s64")}
    types = allowed.get(op.op, ("b32",))
    return illegal_type(op.op, op.type, types)


@instruction(
    """
    sured.b.op.geom.type.clamp [a, coordinates], c;
    .geom = { .1d, .2d, .3d };  .clamp = { .trap, .clamp, .zero };
    .op = { .add, .min, .max, .and, .or };  .type = { .u32, .s32, .u64, .s64, .b32 };
    """,
    anchor="surface-instructions-sured",
    types={"c": "type"},
    spaces={"a": {"surfref"}},
    legal=_starts("b", _illegal_reduction),
)
def sured(op: Op, a: Address, c: Lanes, *, textures: TexturePort) -> None:
    """What lies at a byte offset and a row of the surface is combined with c."""
    textures.reduce(op.geom, a, op.type.name, Atomic(update_of(op), (c,), op.op), op.clamp)

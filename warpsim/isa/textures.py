"""tex, tld4, txq, suld, sust, sured, suq (PTX ISA: Texture Instructions, Surface Instructions), of objects by handle."""

from __future__ import annotations

import functools

import numpy as np

from warpsim.isa.atomics import update_of
from warpsim.isa.ports import Address, Lanes, TexturePort
from warpsim.isa.spec import Op, instruction
from warpsim.layout.textures import FORMATS
from warpsim.types import ScalarType

_GEOMETRY = ".geom = { .1d, .2d, .3d, .a1d, .a2d, .cube, .acube };"
_TYPES = ".dtype = { .u32, .s32, .f32 };  .ctype = { .s32, .f32 };"
_OFFSETS = {"1d": 1, "a1d": 1, "2d": 2, "a2d": 2, "3d": 4}
_GRADIENTS = {"1d": 1, "a1d": 1, "2d": 2, "a2d": 2, "3d": 4, "cube": 4, "acube": 4}
_VECTORS = {
    "d": lambda op: 4,
    "e": lambda op: _OFFSETS.get(op.geom, 2),
    "dx": lambda op: _GRADIENTS[op.geom],
    "dy": lambda op: _GRADIENTS[op.geom],
}


def _illegal(op: Op) -> str | None:
    if "cube" in op.geom and op.ctype.name == "s32":
        return f".{op.geom} takes coordinates of .f32"
    return None


def _illegal_offset(op: Op) -> str | None:
    return f".{op.geom} takes no offset" if "cube" in op.geom else _illegal(op)


_tex = functools.partial(
    instruction,
    anchor="texture-instructions-tex",
    types={"d": "dtype", "e": ".b32", "lod": ".f32", "dx": ".f32", "dy": ".f32"},
    vectors=_VECTORS,
    spaces={"a": {"texture"}},
)


def _typed(channels: tuple[Lanes, ...], type: ScalarType) -> tuple[Lanes, ...]:
    return tuple([channel.view(type.dtype) for channel in channels])


@_tex(f"tex{{.base}}.geom.v4.dtype.ctype d, [a, coordinates]; {_GEOMETRY} {_TYPES}", legal=_illegal)
@_tex(f"tex{{.base}}.geom.v4.dtype.ctype d, [a, coordinates], e; {_GEOMETRY} {_TYPES}", legal=_illegal_offset)
def tex(op: Op, a: Address, e: tuple[Lanes, ...] | None = None, *, textures: TexturePort) -> tuple[Lanes, ...]:
    """d = the texture at the coordinates."""
    return _typed(textures.sample(op.geom, a, offset=e, whole=op.ctype.name == "s32"), op.dtype)


@_tex(f"tex.level.geom.v4.dtype.ctype d, [a, coordinates], lod; {_GEOMETRY} {_TYPES}", legal=_illegal)
@_tex(f"tex.level.geom.v4.dtype.ctype d, [a, coordinates], lod, e; {_GEOMETRY} {_TYPES}", legal=_illegal_offset)
def tex_level(
    op: Op, a: Address, lod: Lanes, e: tuple[Lanes, ...] | None = None, *, textures: TexturePort
) -> tuple[Lanes, ...]:
    """d = the texture at the coordinates, at a level of detail."""
    return _typed(textures.sample(op.geom, a, lod=lod, offset=e, whole=op.ctype.name == "s32"), op.dtype)


@_tex(f"tex.grad.geom.v4.dtype.ctype d, [a, coordinates], dx, dy; {_GEOMETRY} {_TYPES}", legal=_illegal)
@_tex(f"tex.grad.geom.v4.dtype.ctype d, [a, coordinates], dx, dy, e; {_GEOMETRY} {_TYPES}", legal=_illegal_offset)
def tex_grad(
    op: Op,
    a: Address,
    dx: tuple[Lanes, ...],
    dy: tuple[Lanes, ...],
    e: tuple[Lanes, ...] | None = None,
    *,
    textures: TexturePort,
) -> tuple[Lanes, ...]:
    """d = the texture at the coordinates, at the level of detail that gradients ask for."""
    return _typed(textures.sample(op.geom, a, gradients=(dx, dy), offset=e, whole=op.ctype.name == "s32"), op.dtype)


@instruction(
    """
    tld4.comp.geom.v4.dtype.f32 d, [a, coordinates]{, e};
    .comp = { .r, .g, .b, .a };  .geom = { .2d, .a2d, .cube, .acube };  .dtype = { .u32, .s32, .f32 };
    """,
    anchor="texture-instructions-tld4",
    types={"d": "dtype", "e": ".b32"},
    vectors=_VECTORS,
    spaces={"a": {"texture"}},
)
def tld4(op: Op, a: Address, e: tuple[Lanes, ...] | None = None, *, textures: TexturePort) -> tuple[Lanes, ...]:
    """d = one channel of the four elements that linear filtering would weigh."""
    return _typed(textures.gather(op.geom, a, "rgba".index(op.comp), e), op.dtype)


_NUMBERS = {
    "width": lambda fields: fields.size[0],
    "height": lambda fields: fields.size[1] if fields.rank > 1 else fields.layers,
    "depth": lambda fields: fields.size[2] if fields.rank > 2 else fields.layers if fields.rank > 1 else 0,
    "channel_data_type": lambda fields: (4, 5, 6, 7, 8, 9, 10, 11)[FORMATS.index(fields.format)],
    "channel_order": lambda fields: fields.channels,
    "array_size": lambda fields: fields.layers,
    "num_mipmap_levels": lambda fields: len(fields.levels),
    "num_samples": lambda fields: 1,
    "normalized_coords": lambda fields: int(fields.normalized),
    "memory_layout": lambda fields: 0,
}


@instruction(
    """
    txq.query.b32 d, [a];
    .query = { .width, .height, .depth, .channel_data_type, .channel_order, .normalized_coords, .array_size, .num_mipmap_levels, .num_samples };
    """,
    anchor="texture-instructions-txq",
    types={"d": ".b32"},
    spaces={"a": {"texture"}},
)
@instruction(
    """
    suq.query.b32 d, [a];
    .query = { .width, .height, .depth, .channel_data_type, .channel_order, .array_size, .memory_layout };
    """,
    anchor="surface-instructions-suq",
    types={"d": ".b32"},
    spaces={"a": {"texture"}},
)
def query(op: Op, a: Address, *, textures: TexturePort) -> Lanes:
    """d = what the object is. An H200 answers .width, .height and .depth of objects by handle; 1 as a line's height, in textures."""
    height = op.query == "height" and op.text.startswith("txq")
    return np.maximum(textures.query(a, _NUMBERS[op.query]), np.uint32(height))


@instruction(
    "txq.level.query.b32 d, [a], lod; .query = { .width, .height, .depth };",
    anchor="texture-instructions-txq",
    types={"d": ".b32", "lod": ".u32"},
    spaces={"a": {"texture"}},
)
def query_level(op: Op, a: Address, lod: Lanes, *, textures: TexturePort) -> Lanes:
    """d = the extent of a level of detail."""
    axis = ("width", "height", "depth").index(op.query)
    full = textures.query(a, lambda fields: fields.size[axis] if fields.rank > axis else 0)
    levels = textures.query(a, lambda fields: len(fields.levels))
    there = (full > 0) & (lod < levels)
    return np.where(there, np.maximum(full >> np.minimum(lod, np.uint32(31)), np.uint32(1)), np.uint32(0))


_SURFACE = ".geom = { .1d, .2d, .3d, .a1d, .a2d };  .clamp = { .trap, .clamp, .zero };"


@instruction(
    f"""
    suld.b.geom{{.cop}}{{.vec}}.dtype.clamp d, [a, coordinates]; {_SURFACE}
    .cop = {{ .ca, .cg, .cs, .cv }};  .vec = {{ .v2, .v4 }};  .dtype = {{ .b8, .b16, .b32, .b64 }};
    """,
    anchor="surface-instructions-suld",
    types={"d": "dtype"},
    spaces={"a": {"texture"}},
    legal=lambda op: "a vector has at most 128 bits" if op.vec == "v4" and op.dtype.bits == 64 else None,
    relaxed=True,
)
def suld(op: Op, a: Address, *, textures: TexturePort) -> Lanes | tuple[Lanes, ...]:
    """d = what lies at a byte offset and a row of the surface."""
    count = int(op.vec[1:]) if op.vec else 1
    found = textures.load(op.geom, a, op.dtype.name, count, op.clamp)
    return found if count > 1 else found[0]


@instruction(
    f"""
    sust.b.geom{{.cop}}{{.vec}}.ctype.clamp [a, coordinates], c; {_SURFACE}
    .cop = {{ .wb, .cg, .cs, .wt }};  .vec = {{ .v2, .v4 }};  .ctype = {{ .b8, .b16, .b32, .b64 }};
    """,
    anchor="surface-instructions-sust",
    types={"c": "ctype"},
    vectors={"c": lambda op: int(op.vec[1:]) if op.vec else 1},
    spaces={"a": {"texture"}},
    legal=lambda op: "a vector has at most 128 bits" if op.vec == "v4" and op.ctype.bits == 64 else None,
    relaxed=True,
)
def sust(op: Op, a: Address, c: Lanes | tuple[Lanes, ...], *, textures: TexturePort) -> None:
    """What lies at a byte offset and a row of the surface = c."""
    textures.store(op.geom, a, op.ctype.name, c if isinstance(c, tuple) else (c,), op.clamp)


@instruction(
    f"sust.p.geom{{.vec}}.b32.clamp [a, coordinates], c; {_SURFACE} .vec = {{ .v2, .v4 }};",
    anchor="surface-instructions-sust",
    types={"c": ".b32"},
    vectors={"c": lambda op: int(op.vec[1:]) if op.vec else 1},
    spaces={"a": {"texture"}},
)
def sust_formatted(op: Op, a: Address, c: Lanes | tuple[Lanes, ...], *, textures: TexturePort) -> None:
    """The element at the coordinates = c, converted to its format."""
    textures.store_elements(op.geom, a, c if isinstance(c, tuple) else (c,), op.clamp)


def _illegal_reduction(op: Op) -> str | None:
    allowed = {"add": ("u32", "s32", "u64"), "min": ("u32", "s32", "u64", "s64"), "max": ("u32", "s32", "u64", "s64")}
    types = allowed.get(op.op, ("b32",))
    return None if op.type.name in types else f".{op.op} takes {', '.join('.' + t for t in types)}"


@instruction(
    """
    sured.b.op.geom.type.clamp [a, coordinates], c;
    .geom = { .1d, .2d, .3d };  .clamp = { .trap, .clamp, .zero };
    .op = { .add, .min, .max, .and, .or };  .type = { .u32, .s32, .u64, .s64, .b32 };
    """,
    anchor="surface-instructions-sured",
    types={"c": "type"},
    spaces={"a": {"texture"}},
    legal=_illegal_reduction,
)
def sured(op: Op, a: Address, c: Lanes, *, textures: TexturePort) -> None:
    """What lies at a byte offset and a row of the surface is combined with c."""
    textures.reduce(op.geom, a, op.type.name, update_of(op), c, op.op, op.clamp)

"""Textures and surfaces as arguments, by handle and by name."""

from __future__ import annotations

import copy
import gc

import numpy as np
import pytest

import warpsim

HEAD = ".version 8.6\n.target sm_90{}\n.address_size 64\n"
BODY = """
.visible .entry k({parameter}.param .u64 out)
{{
    .reg .b64 %t, %o; .reg .b32 %x, %a; .reg .f32 %f, %d<4>;
    ld.param.u64 %o, [out];
    mov.u32 %x, %tid.x; cvt.rn.f32.u32 %f, %x; shl.b32 %a, %x, 2;
    {code}
    mad.wide.u32 %o, %x, 4, %o; st.global.f32 [%o], %d0;
    ret;
}}
"""
READ = "tex.1d.v4.f32.f32 {{%d0, %d1, %d2, %d3}}, [{}, {{%f}}];"


def module_of(code: str, parameter: str = "", variables: str = "", option: str = "") -> warpsim.Module:
    """A kernel that stores what its threads have in %d0."""
    return warpsim.load(HEAD.format(option) + variables + BODY.format(code=code, parameter=parameter))


def squares(count: int = 8) -> np.ndarray:
    """0, 1, 4, 9 ..."""
    return np.arange(count, dtype=np.float32) ** 2


@pytest.mark.parametrize("parameter", [".param .texref t, ", ".param .u64 .ptr .texref t, ", ".param .u64 t, "])
@pytest.mark.parametrize("by", ["object", "handle"])
@pytest.mark.parametrize("on_device", [False, True])
def test_argument(parameter: str, by: str, on_device: bool) -> None:
    """A texture, or its handle, is an argument for all three kinds of parameters."""
    named = ".param .texref" in parameter
    module = module_of(READ.format("t") if named else "ld.param.u64 %t, [t]; " + READ.format("%t"), parameter)
    out = np.zeros(8, np.float32)
    texture = warpsim.Texture(module.device.array(squares()) if on_device else squares())
    module["k"](1, 8, (texture if by == "object" else texture.handle, out))

    assert out.tolist() == squares().tolist()


def test_variable() -> None:
    """A module's .texref reads what is bound to it, on each device and until something else is."""
    module = module_of(READ.format("t"), variables=".global .texref t;")
    out, other = np.zeros(8, np.float32), warpsim.Device("sm_120a")
    module.get_global("t").set(warpsim.Texture(squares()))
    module.get_global("t", other).set(warpsim.Texture(squares() + 1))
    gc.collect()  # the module holds what is bound
    module["k"](1, 8, (out,))
    assert out.tolist() == squares().tolist()
    module["k"](1, 8, (out,), device=other)
    assert out.tolist() == (squares() + 1).tolist()

    module.get_global("t").set(None)
    with pytest.raises(warpsim.ExecutionError, match=r"the \.texref t has nothing bound to it") as error:
        module["k"](1, 8, (out,))
    assert 'module.get_global("t").set(warpsim.Texture(array))' in str(error.value)


def test_array_of_variables() -> None:
    """Each element of an array of .texref has an object of its own."""
    code = "mov.u64 %t, t; and.b32 %a, %x, 1; mad.wide.u32 %t, %a, STEP, %t; " + READ.format("%t")
    step = module_of("", variables=".global .texref t;").get_global("t").nbytes
    module = module_of(code.replace("STEP", str(step)), variables=".global .texref t[2];")
    out = np.zeros(8, np.float32)
    module.get_global("t").set([warpsim.Texture(squares()), warpsim.Texture(-squares())])
    module["k"](1, 8, (out,))

    assert out.tolist() == (squares() * np.tile([1, -1], 4)).tolist()


def test_handles_in_memory() -> None:
    """A kernel takes handles from a table; two textures may read one array."""
    code = (
        "ld.param.u64 %t, [t]; and.b32 %a, %x, 1; mad.wide.u32 %t, %a, 8, %t; ld.global.u64 %t, [%t]; "
        + READ.format("%t")
    )
    module, row, out = module_of(code, ".param .u64 t, "), squares(), np.zeros(8, np.float32)
    kept = [warpsim.Texture(row), warpsim.Texture(row, filter="linear")]
    module["k"](1, 8, (np.array([one.handle for one in kept], np.uint64), out))

    assert out.tolist() == [0.0, 0.5, 4.0, 6.5, 16.0, 20.5, 36.0, 42.5]


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_surface(by: str) -> None:
    """A kernel reads and changes a surface's array in place."""
    code = "suld.b.1d.b32.trap %d0, [s, {%a}]; add.f32 %d0, %d0, 1.0; sust.b.1d.b32.trap [s, {%a}], %d0;"
    row, out = squares(), np.zeros(8, np.float32)
    surface = warpsim.Surface(row)
    if by == "argument":
        module_of(code, ".param .surfref s, ")["k"](1, 8, (surface, out))
    else:
        module = module_of(code, variables=".global .surfref s;")
        module.get_global("s").set(surface)
        module["k"](1, 8, (out,))

    assert row.tolist() == (squares() + 1).tolist() == out.tolist()


def test_sampler() -> None:
    """In independent mode, a sampler's filter counts, not the texture's."""
    module = module_of(
        "tex.1d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [t, s, {%f}];",
        variables=".global .texref t;\n.global .samplerref s;",
        option=", texmode_independent",
    )
    out = np.zeros(8, np.float32)
    module.get_global("t").set(warpsim.Texture(squares()))
    module.get_global("s").set(warpsim.Texture(squares(), filter="linear"))
    module["k"](1, 8, (out,))

    assert out.tolist() == [0.0, 0.5, 2.5, 6.5, 12.5, 20.5, 30.5, 42.5]


def test_height_of_a_row() -> None:
    """An H200 answers 1 for the height of a texture of one dimension."""
    out = np.zeros(8, np.float32)
    module_of("txq.height.b32 %d0, [t];", ".param .texref t, ")["k"](1, 8, (warpsim.Texture(squares(), dims=1), out))

    assert out.view(np.uint32).tolist() == [1] * 8


def test_sampler_that_counts_elements() -> None:
    """A sampler with force_unnormalized_coords takes coordinates in elements of a texture that has normalised ones (PTX ISA 5.3.2)."""
    module = module_of(
        "tex.1d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [t, s, {%f}];",
        variables=".global .texref t = {width = 8, height = 1, depth = 1, normalized_coords = 1};\n"
        ".global .samplerref s = {filter_mode = nearest, force_unnormalized_coords = 1};",
        option=", texmode_independent",
    )
    out = np.zeros(8, np.float32)
    module.get_global("t").set(warpsim.Texture(squares(), normalized=True))
    module["k"](1, 8, (out,))

    assert out.tolist() == squares().tolist()


def test_samples() -> None:
    """tex.2dms reads the sample that the first coordinate counts (PTX ISA 9.7.10.3); behind the last, nothing."""
    module = module_of(
        ".reg .b32 %s, %y; and.b32 %s, %x, 3; bfe.u32 %a, %x, 2, 2; shr.u32 %y, %x, 4;"
        "tex.2dms.v4.f32.s32 {%d0, %d1, %d2, %d3}, [t, {%s, %a, %y, %y}];",
        ".param .texref t, ",
    )
    data, out = 1 + squares(2 * 4 * 3).reshape(2, 4, 3), np.zeros(32, np.float32)
    module["k"](1, 32, (warpsim.Texture(data, samples=3), out))

    assert out.tolist() == np.pad(data, ((0, 0), (0, 0), (0, 1))).reshape(-1).tolist()


@pytest.mark.parametrize(
    ("parameter", "given", "message"),
    [
        (".param .texref t, ", squares(), r"takes a warpsim\.Texture, not array.*pass warpsim\.Texture\(array\)"),
        (".param .texref t, ", warpsim.Surface(squares()), r"takes a warpsim\.Texture, not Surface\(8, f32x1"),
        (".param .surfref t, ", warpsim.Texture(squares()), r"takes a warpsim\.Surface, not Texture\(8, f32x1"),
        (".param .b8 t[16], ", warpsim.Texture(squares()), r"takes 16 bytes; put the \.handle of Texture"),
        (".param .f32 t, ", warpsim.Texture(squares()), "takes a number, not Texture"),
    ],
)
def test_refused_arguments(parameter: str, given: object, message: str) -> None:
    """An error says what the parameter takes."""
    with pytest.raises(warpsim.LaunchError, match=rf"argument 0 \(t, .*{message}"):
        module_of("mov.f32 %d0, 0f00000000;", parameter)["k"](1, 8, (given, np.zeros(8, np.float32)))


def test_refused_bindings() -> None:
    """So does one about a variable."""
    variable = module_of(READ.format("t"), variables=".global .texref t;").get_global("t")
    with pytest.raises(warpsim.LaunchError, match=r"takes a warpsim\.Texture, not Surface"):
        variable.set(warpsim.Surface(squares()))
    with pytest.raises(warpsim.LaunchError, match="takes 1 object, not 2"):
        variable.set([warpsim.Texture(squares())] * 2)


def test_handles_end_with_their_objects() -> None:
    """A handle stays the same, is no one else's, and means nothing once its object is gone."""
    module, out = module_of("ld.param.u64 %t, [t]; " + READ.format("%t"), ".param .u64 t, "), np.zeros(8, np.float32)
    texture = warpsim.Texture(squares())
    handle = texture.handle
    assert texture.handle == handle != copy.copy(texture).handle
    del texture
    gc.collect()
    with pytest.raises(warpsim.ExecutionError, match=f"{handle:#x} is no texture or surface object"):
        module["k"](1, 8, (handle, out))


@pytest.mark.parametrize(
    ("shape", "options", "shown"),
    [
        ((8,), {}, "8, f32x1"),
        ((4, 8), {}, "8x4, f32x1"),
        ((2, 4, 8), {}, "8x4x2, f32x1"),
        ((2, 4, 8), {"layered": True}, "8x4, f32x1"),
        ((4, 8, 2), {"channels": 2}, "8x4, f32x2"),
        ((6, 4, 4), {"cube": True}, "4x4, f32x1"),
    ],
)
def test_axes(shape: tuple[int, ...], options: dict[str, object], shown: str) -> None:
    """The array says how many axes there are."""
    assert repr(warpsim.Texture(np.zeros(shape, np.float32), **options)) == f"Texture({shown}, 1 level)"


def test_mipmaps() -> None:
    """Levels follow the array, or are a list with it."""
    levels = [np.full(8 >> k, k, np.float32) for k in range(3)]
    code = "ld.param.u64 %t, [t]; and.b32 %a, %x, 1; cvt.rn.f32.u32 %d3, %a; tex.level.1d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%t, {%f}], %d3;"
    for texture in (warpsim.Texture(levels[0], mipmaps=levels[1:]), warpsim.Texture(levels)):
        out = np.zeros(8, np.float32)
        module_of(code, ".param .u64 t, ")["k"](1, 8, (texture, out))
        assert out.tolist() == [0.0, 1.0] * 4
    with pytest.raises(warpsim.LaunchError, match="level 1"):
        warpsim.Texture(levels[0], mipmaps=levels)

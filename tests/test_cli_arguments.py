"""Kernel arguments and CUDA files on the command line."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from warpsim.cli import compiling, main
from warpsim.cli.arguments import argument, named_arrays
from warpsim.cli.output import Unusable
from warpsim.host.recipes import recipe

ROOT = Path(__file__).parents[1]


STRUCT = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .align 8 .b8 p[48], .param .u64 again)
{
  .reg .u32 %r<6>; .reg .u64 %rd<6>; .reg .f32 %f<4>; .reg .u16 %h;
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd0, %r0, 4;
  ld.param.u64 %rd1, [p+8];
  ld.param.f32 %f0, [p+16];
  ld.param.u64 %rd2, [p+24];
  ld.param.u8 %r1, [p+34];
  ld.param.u16 %h, [p+36];
  cvt.u32.u16 %r2, %h;
  add.u32 %r1, %r1, %r2;
  cvt.rn.f32.u32 %f1, %r1;
  add.u64 %rd3, %rd1, %rd0;
  ld.global.f32 %f2, [%rd3];
  fma.rn.f32 %f2, %f0, %f2, %f1;
  add.u64 %rd4, %rd2, %rd0;
  st.global.f32 [%rd4], %f2;
  ret;
}
"""
FIELDS = {
    "n": "u32:64",
    "in": {"x": "array:X", "scale": "f32:2.0"},
    "y": "out:f32:32=DIR/y.npy",
    "taps": ["u8:1", "u8:2", "u8:30"],
    "last": "u16:7",
    "none": None,
}


def test_structs_and_named_arrays(tmp_path, capsys):
    """A struct lies in memory as C has it, with pointers to arrays; what the kernel writes behind them is saved, and the case
    that was recorded gives the same."""
    (tmp_path / "k.ptx").write_text(STRUCT)
    (tmp_path / "p.json").write_text(json.dumps(FIELDS).replace("DIR", str(tmp_path)))
    given = ["--grid", "1", "--block", "32", "--array", "X=arange:f32:32", "--arg", f"struct:{tmp_path}/p.json"]
    assert main(["run", str(tmp_path / "k.ptx"), *given, "--arg", "array:X", "--record", str(tmp_path / "case")]) == 0
    assert np.load(tmp_path / "y.npy").tolist() == [2 * i + 37 for i in range(32)]
    assert main(["replay", str(tmp_path / "case")]) == 0
    assert "equal in every bit" in capsys.readouterr().out


def test_tensor_maps(tmp_path, capsys):
    """A tensor map of a named array or of one of its own, with the arguments of CUDA, the innermost dimension first."""
    arrays = ["--array", "A=normal:f16:128x256:seed=1", "--array", f"C=out:f32:128x64={tmp_path / 'c.npy'}"]
    maps = [
        "--arg",
        "tensormap:A:box=64x64:swizzle=128B",
        "--arg",
        "tensormap:normal:f16:64x256:seed=2:box=64x64:swizzle=128B",
    ]
    given = [
        "--grid",
        "1,2",
        "--block",
        "128",
        *arrays,
        *maps,
        "--arg",
        "array:C",
        "--arg",
        "i32:64",
        "--arg",
        "i32:256",
    ]
    kernel = str(ROOT / "programs" / "gemm_tma" / "kernel.ptx")
    assert main(["run", kernel, *given, "--record", str(tmp_path / "case")]) == 0
    a, b = (recipe("normal", shape, "f16", seed=n).array() for n, shape in ((1, (128, 256)), (2, (64, 256))))
    assert np.allclose(np.load(tmp_path / "c.npy"), a.astype(np.float64) @ b.astype(np.float64).T, atol=1e-2)
    assert main(["replay", str(tmp_path / "case")]) == 0
    assert "equal in every bit" in capsys.readouterr().out


def test_textures_and_surfaces(tmp_path, capsys):
    """Each of an array; options say how it is read, and what is written is there afterwards."""
    text = """.version 8.6 .target sm_90 .address_size 64
    .visible .entry k(.param .u64 t, .param .u64 s) { .reg .b64 %t, %s; .reg .b32 %x; .reg .f32 %f, %d<4>;
    ld.param.u64 %t, [t]; ld.param.u64 %s, [s]; mov.u32 %x, %tid.x; cvt.rn.f32.u32 %f, %x;
    tex.1d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%t, {%f}];
    shl.b32 %x, %x, 2; sust.b.1d.b32.trap [%s, {%x}], %d0; ret; }"""
    (tmp_path / "k.ptx").write_text(text)
    given = ["--array", f"S=out:f32:4={tmp_path / 's.npy'}", "--arg", "texture:arange:f32:8:dims=1:filter=linear"]
    assert (
        main(["run", str(tmp_path / "k.ptx"), "--grid", "1", "--block", "4", *given, "--arg", "surface:S:dims=1"]) == 0
    )

    assert np.load(tmp_path / "s.npy").tolist() == [0.0, 0.5, 1.5, 2.5]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("texture:B:dims=x", "invalid literal"),
        ("surface:A", "no array 'A'"),
        ('struct:{"n": "texture:B:dims=1"}', "a struct cannot hold a texture or a surface here"),
        ("array:A", "no array 'A'; arrays of --array: B"),
        ("tensormap:B", "use the form tensormap:A:box=64x64:swizzle=128B"),
        ("tensormap:A:box=4", "no array 'A'"),
        ("tensormap:i32:5:box=4", "'i32:5' is no array"),
        ("struct:{", "a struct is a file with JSON, or JSON"),
        ("struct:/nowhere.json", "a struct is a file with JSON, or JSON"),
        ('struct:{"n": 5}', "5 has no type"),
        ('struct:{"n": "u8:300"}', "300"),
        ('struct:{"n": "nothing:300"}', "unknown kind 'nothing'"),
    ],
)
def test_composite_arguments_that_make_no_sense(text, said):
    """It is said what is wrong, and how it is written."""
    with pytest.raises(Unusable, match=re.escape(said)):
        argument(text, named_arrays(["B=zeros:f32:4"]))


@pytest.mark.parametrize("text", ["A", "A=i32:5", "1=zeros:f32:4", "=zeros:f32:4"])
def test_arrays_that_are_none(text):
    """An array has a name, and is one."""
    with pytest.raises(Unusable, match="use the form A=normal"):
        named_arrays([text])


CUDA = """
#include "add.h"
extern "C" __global__ void k(float* y) { y[threadIdx.x] = add(1.0f * threadIdx.x, N); }
"""


def test_cuda_is_compiled(tmp_path, capsys, monkeypatch):
    """A .cu is compiled with its flags, by what is told on standard error; the compiler's own words tell what is wrong."""
    (tmp_path / "k.cu").write_text(CUDA)
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--version*) echo "release 12.9, V12.9.1"; exit;; *-DN=3*) ;; *) echo "N is undefined" >&2; exit 1;; esac\n'
        f'for last; do case "$before" in -o) cp {ROOT}/programs/hello/kernel.ptx "$last";; esac; before=$last; done\n'
        f'echo "$*" > {tmp_path}/asked\n'
    )
    nvcc.chmod(0o755)
    monkeypatch.setenv("PATH", f"{nvcc.parent}:/usr/bin:/bin")
    given = ["--grid", "1", "--block", "32", "--device", "sm_80", "--cuda-flags", "-I inc -DN=3"]
    assert main(["run", str(tmp_path / "k.cu"), *given]) in (0, 2)
    assert f"nvcc 12.9 compiled {tmp_path}/k.cu for sm_80 with line information" in capsys.readouterr().err
    assert "-ptx -arch=sm_80 -lineinfo -I inc -DN=3 -o" in (tmp_path / "asked").read_text()
    assert main(["run", str(tmp_path / "k.cu"), *given[:-2]]) == 2
    assert "nvcc refuses" in capsys.readouterr().err
    assert main(["run", str(tmp_path / "none.cu"), *given]) == 2
    assert "there is no such file" in capsys.readouterr().err
    monkeypatch.setattr("warpsim.cli.compiling._nvcc", lambda: None)
    monkeypatch.setattr("warpsim.cli.compiling._nvrtc", lambda: None)
    assert main(["run", str(tmp_path / "k.cu"), *given]) == 2
    assert "pip install nvidia-cuda-nvrtc" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("by", ["nvcc", "nvrtc"])
def test_real_compilers(tmp_path, capsys, monkeypatch, by):
    """NVIDIA's compilers, where there are any."""
    (tmp_path / "k.cu").write_text(CUDA)
    (tmp_path / "add.h").write_text("static __device__ float add(float a, float b) { return a + b; }\n")
    if getattr(compiling, f"_{by}")() is None:
        pytest.skip(f"needs {by}")
    if by == "nvrtc":
        monkeypatch.setattr(compiling, "_nvcc", lambda: None)
    out = tmp_path / "y.npy"
    given = ["--grid", "1", "--block", "32", "--cuda-flags=-DN=3", "--arg", f"out:f32:32={out}"]
    assert main(["run", str(tmp_path / "k.cu"), *given]) == 0
    assert np.load(out).tolist() == [i + 3 for i in range(32)]

"""Limits on sizes, as ptxas 13.0 has them for each PTX version and target."""

import pytest

import warpsim

FITS = [
    # version, target, bytes of parameters, and of shared variables
    ("6.3", "sm_75", 4352, 49152),
    ("8.0", "sm_90a", 4352, 49152),
    ("8.1", "sm_75", 32764, 49152),
    ("9.0", "sm_90a", 32764, 49152),
    ("9.0", "sm_120", 32764, 49152),
]


def load(version, target, parameters=8, shared=8):
    """A kernel with so many bytes of parameters and of shared variables."""
    warpsim.load(
        f".version {version}\n.target {target}\n.address_size 64\n.shared .b8 m[4];\n.visible .entry k(.param .align 4 .b8 o[{parameters - 4}], .param .u32 n) {{\n"
        f".shared .b8 s[{shared - 4}]; .reg .u32 a; mov.u32 a, s; st.shared.u8 [a], a; mov.u32 a, m; ret; }}\n"
    )


@pytest.mark.parametrize(("version", "target", "parameters", "shared"), FITS)
def test_most(version, target, parameters, shared):
    """So much is taken, and a byte more is not."""
    load(version, target, parameters, shared)
    for more, limit in (({"parameters": parameters + 1}, parameters), ({"shared": shared + 1}, shared)):
        with pytest.raises(
            warpsim.PtxError, match=f"has {limit + (4 if 'parameters' in more else 1)} bytes of .* {limit}"
        ):
            load(version, target, **more)


def test_shared_memory_of_a_launch_goes_beyond():
    """What ``.extern .shared`` holds is for the launch to say."""
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.extern .shared .b8 s[];\n.visible .entry k() { .reg .u32 a; mov.u32 a, s; st.shared.u8 [a+200000], a; ret; }\n"

    assert warpsim.load(text)["k"](1, 1, (), shared_mem=200_004).findings == ()

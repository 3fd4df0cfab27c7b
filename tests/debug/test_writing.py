"""What ``set`` takes: what fits the type written is what is read back, and all else is refused with what would fit."""

import ml_dtypes
import numpy as np
import pytest

import warpsim
from warpsim.debug import DebugError, Session
from warpsim.types import TYPES

INTEGERS = [name for name, type in TYPES.items() if name[0] in "usb" and name[1:].isdigit()]
FLOATS = {
    "f16": 65504.0, "bf16": float.fromhex("0x1.fep127"), "f32": float.fromhex("0x1.fffffep127"), "f64": float.fromhex("0x1.fffffffffffffp1023"),
    "tf32": float.fromhex("0x1.fffffep127"), "e4m3": 448.0, "e5m2": 57344.0, "e3m2": 28.0, "e2m3": 7.5,
}  # fmt: skip
"""The largest finite value of each type, from the formats' definitions."""
REGISTERS = ["u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64", "f16", "f32", "f64", "pred"]
TEXT = f""".version 8.8
.target sm_90a
.address_size 64
.visible .entry k()
{{
  {" ".join(f".reg .{name} %{name};" for name in REGISTERS)} .reg .b128 %b128;
  .shared .align 16 .b8 s[16];
  .shared .align 16 .u32 n;
  mov.u32 %u32, %tid.x;
  mul.wide.u32 %b64, %u32, 4;
  st.shared.b32 [s], 0;
  st.shared.u32 [n], 0;
  bar.sync 0;
  ret;
}}
"""
PLACES = [*(f"shared.{name}[0]" for name in INTEGERS), *(f"%{name}" for name in REGISTERS if name in INTEGERS)]


@pytest.fixture(scope="module")
def session():
    """A session at the barrier."""
    made = Session(warpsim.load(TEXT)["k"], 1, 32, ())
    made.until("op:bar.sync*")
    return made


def read(session, place):
    """The first element; the words of 128 bits as one integer."""
    found = np.asarray(session.evaluate(place)).reshape(-1)[0].item()
    return found[0] | found[1] << 64 if isinstance(found, tuple) else found


@pytest.mark.parametrize("place", PLACES)
def test_integers(session, place):
    """An integer fits a width as signed or unsigned; what has more bits is refused, and cut only where that is written."""
    name = place.partition("[")[0].lstrip("%").rpartition(".")[2]
    bits, mask = TYPES[name].bits, (1 << TYPES[name].bits) - 1
    for value in (0, 1, mask, -(1 << bits - 1)):
        for given in (value, str(value)):
            session.set(place, given)
            assert read(session, place) & mask == value & mask
    for value in (mask + 1, -(1 << bits - 1) - 1, 10**300):
        for given in (value, str(value)):
            with pytest.raises(DebugError) as caught:
                session.set(place, given)
            assert f"takes integers of {bits} bits, not {str(value)[:90]}" in str(caught.value)
    session.set(place, f"{name}({mask + 6})")
    assert read(session, place) & mask == 5 & mask


@pytest.mark.parametrize("place", [p for p in PLACES if "b64" not in p and "b128" not in p])
@pytest.mark.parametrize("value", [1.5, "1.5", "0.5 * 2", float("nan")])
def test_floats_are_no_integers(session, place, value):
    """A float is refused, with how its bits are written."""
    with pytest.raises(DebugError, match=r"takes integers of \d+ bits, not .*; (write|for a float, name)"):
        session.set(place, value)


@pytest.mark.parametrize(
    ("place", "value", "bits"),
    [
        ("%b32", "f32(1.5)", 0x3FC00000),
        ("%b32", "0f3FC00000", 0x3FC00000),
        ("%b64", 1.5, 0x3FF8000000000000),
        ("%b64", "0d3FF8000000000000", 0x3FF8000000000000),
        ("%u32", "u32(f32(1.5))", 0x3FC00000),
        ("%u16", "u16(f16(1.5))", 0x3E00),
        ("%b32", np.full(32, ml_dtypes.bfloat16(3)), 0x4040),
        ("%b16", np.full(32, ml_dtypes.float8_e4m3fn(2)), 0x40),
        ("s.f32[0]", 1.5, 0x3FC00000),
        ("s.b16[0]", "f16(1.5)", 0x3E00),
    ],
)
def test_bits_of_floats(session, place, value, bits):
    """Untyped bits take those of a float that says its width; the others are converted in so many words."""
    session.set("%u32", 0)
    session.set("%b64", 0)
    session.set("s.u64[0]", 0)
    session.set(place, value)
    assert read(session, "s.u64[0]" if place[0] == "s" else f"b64({place})") == bits


@pytest.mark.parametrize("place", [*(f"shared.{name}[0]" for name in FLOATS), "%f16", "%f32", "%f64"])
def test_floats(session, place):
    """Numbers are rounded to floats; those beyond the largest are refused, infinities and NaNs only where there are none."""
    name = place.partition("[")[0].lstrip("%").rpartition(".")[2]
    largest = FLOATS[name]
    for value in (0, 1, 1.5, "3 / 2", -largest, largest, np.float32(2)):
        session.set(place, value)
        assert read(session, place) == (1 if value == "3 / 2" else value)
    for value in (2 * largest, -(10**400), "1" + 390 * "0") if name != "f64" else (-(10**400), "1" + 390 * "0"):
        with pytest.raises(DebugError, match="takes numbers up to"):
            session.set(place, value)
    if name in ("e3m2", "e2m3", "e4m3"):
        with pytest.raises(DebugError, match="takes numbers up to"):
            session.set(place, float("inf"))
    else:
        session.set(place, float("inf"))
        assert read(session, place) == float("inf")


def test_predicates(session):
    """Take 0, 1 and what is true or false."""
    for value, expected in ((1, True), ("0", False), ("%u32 < 40", True), (np.bool_(False), False)):
        session.set("%pred", value)
        assert read(session, "%pred") is expected
    for value in (2, -1, 0.5, "%u32 + 7"):
        with pytest.raises(DebugError, match="takes 0 or 1, not"):
            session.set("%pred", value)


def test_lanes(session):
    """Only lanes that are set have to fit, and the message names the first that does not."""
    values = np.arange(32) * 3000
    with pytest.raises(
        DebugError, match=r"%u16 is \.u16, which takes integers of 16 bits, not 66000 in lane 22; write u16\(66000\)"
    ):
        session.set("%u16", values)
    with pytest.raises(DebugError, match="not 66000 in lane 22"):
        session.set("%u16[22]", values)
    session.set("%u16[3]", values)
    assert np.asarray(session.evaluate("%u16")).tolist()[3] == 9000
    session.set("%b128", "%b128")


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("s[0]", "1.5", "s[0] is .b8, which takes integers of 8 bits, not 1.5; for a float, name a view of memory such as s.f32[0]"),
        ("shared.b8[4]", "1.5", "not 1.5; for a float, name a view of memory such as shared.f32[0]"),
        ("%pred", "1.5", "%pred is .pred, which takes 0 or 1, not 1.5"),
        ("s[0]", "300", "s[0] is .b8, which takes integers of 8 bits, not 300; write b8(300) for its low bits"),
        ("n", "1.5", "n is .u32, which takes integers of 32 bits, not 1.5; write u32(f32(1.5)) for the bits of a float"),
        ("s[0:4]", [1, 2, 3, 256], "not 256; write b8(256)"),
        ("%f16", "65505", "%f16 is .f16, which takes numbers up to 65504, not 65505"),
    ],
)  # fmt: skip
def test_what_is_said(session, place, value, said):
    """What was expected, what was given, and how to write what may be meant."""
    with pytest.raises(DebugError) as caught:
        session.set(place, value)
    assert said in str(caught.value)

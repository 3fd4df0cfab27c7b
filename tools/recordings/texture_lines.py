"""Which lines with textures and surfaces ptxas takes: forms, operands, names in both modes.

python tools/recordings/texture_lines.py OUT.json.gz     with ptxas on the path; a minute or two
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

DECLARED = (
    ".reg .b64 %t,%s,%q<4>; .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b16 %h<4>; .reg .pred %p; .reg .u32 %u<8>; .reg .s32 %i<8>; "
    ".reg .f16 %hf<4>; .reg .f16x2 %hx<4>; .reg .b128 %o; .reg .f64 %fd<4>; .reg .u64 %qu<4>; .reg .s64 %qi<4>; .reg .u16 %hu<4>; "
    ".reg .s16 %hi<4>; .reg .u8 %b<4>;"
)
VARIABLES = ".global .texref tx; .global .texref ta[4]; .global .surfref sx; .global .b32 g; "
PARAMETERS = ".param .texref pt, .param .u64 .ptr .texref pp, .param .surfref pu"
SETTINGS = {
    "forms": ("", "", ""),
    "operands": ("", "", ""),
    "names": ("", VARIABLES, PARAMETERS),
    "names in independent mode": (
        ", texmode_independent",
        VARIABLES + ".global .samplerref sm = {filter_mode = linear};",
        PARAMETERS + ", .param .samplerref ps",
    ),
}
"""Options of .target, variables of the module and parameters, by group of lines."""
KEPT = 1500
"""Refused forms that tests keep, of all."""


def module(lines: list[str], setting: tuple[str, str, str]) -> str:
    """A module with these lines, the first of which is its sixth."""
    mode, variables, parameters = setting
    head = f".version 9.0\n.target sm_90{mode}\n.address_size 64\n{variables}\n"
    return head + f".visible .entry k({parameters}) {{ {DECLARED}\n" + "\n".join(lines) + "\nret; }\n"


GEOMETRIES = {"1d": 1, "2d": 2, "3d": 4, "a1d": 2, "a2d": 4, "cube": 4, "acube": 4, "2dms": 4, "a2dms": 4}
RESULTS = {
    "v4.u32": "{%r4,%r5,%r6,%r7}", "v4.s32": "{%r4,%r5,%r6,%r7}", "v4.f32": "{%f4,%f5,%f6,%f7}", "v4.f16": "{%h0,%h1,%h2,%h3}",
    "v2.f16x2": "{%r4,%r5}", "v4.f16x2": "{%r4,%r5,%r6,%r7}", "v2.f32": "{%f4,%f5}", "v2.f16": "{%h0,%h1}", "f32": "%f4",
    "v4.b32": "{%r4,%r5,%r6,%r7}", "v4.bf16": "{%h0,%h1,%h2,%h3}",
}  # fmt: skip
FLOATS = RESULTS["v4.f32"]
OFFSETS = {"1d": "{%r0}", "a1d": "{%r0}", "3d": "{%r0,%r1,%r2,%r2}"}
GRADIENTS = {"1d": "{%f0}", "a1d": "{%f0}"} | dict.fromkeys(("2d", "a2d", "2dms", "a2dms"), "{%f0,%f1}")


def coordinates(geometry: str, type: str) -> str:
    """As many as a geometry takes, the layer first."""
    register = "%r" if type == "s32" else "%f"
    parts = [f"{register}{k}" for k in range(GEOMETRIES[geometry])]
    return "{" + ",".join(["%r0", *parts[1:]] if geometry[0] == "a" else parts) + "}"


def forms() -> Iterator[str]:
    """tex and tld4 with every geometry, type and operand that may be left out."""
    extras = list(itertools.product((False, True), repeat=3))
    for levels, geometry, (dtype, d), ctype in itertools.product(
        ("", ".base", ".level", ".grad"), GEOMETRIES, RESULTS.items(), ("s32", "f32")
    ):
        gradient = GRADIENTS.get(geometry, "{%f0,%f1,%f2,%f3}")
        how = {".level": ", %f3" if ctype == "f32" else ", %r3", ".grad": f", {gradient}, {gradient}"}.get(levels, "")
        for offset, depth, resident in extras:
            more = how + (", " + OFFSETS.get(geometry, "{%r0,%r1}")) * offset + ", %f2" * depth
            yield f"tex{levels}.{geometry}.{dtype}.{ctype} {d}{'|%p' * resident}, [%t, {coordinates(geometry, ctype)}]{more};"
    for channel, geometry, (dtype, d), ctype in itertools.product("rgba", GEOMETRIES, RESULTS.items(), ("s32", "f32")):
        if channel in "gb" and dtype != "v4.f32":
            continue
        for offset, depth, resident in extras:
            more = (", " + OFFSETS.get(geometry, "{%r0,%r1}")) * offset + ", %f2" * depth
            yield f"tld4.{channel}.{geometry}.{dtype}.{ctype} {d}{'|%p' * resident}, [%t, {coordinates(geometry, ctype)}]{more};"


WRONG = {
    "1d": ["{%r0}", "%r0", "{%f0}", "%f2", "{%f2}", "{%u0}", "{%i0}", "{%q0}", "{%h0}", "{3}", "3", "{-9}", "{3.0}", "0f3F800000", "{%r0,%r1}"],
    "2d": ["{%r0,%r1}", "{%f0,%f1}", "{%u0,%i1}", "{1,2}", "{%r0}", "%f2", "{%f2}", "{%r0,%r1,%r2,%r3}", "{%h0,%h1}", "%r0", "%u0", "%i0", "%q0", "%fd0",
           "0f3F800000", "1", "1.0"],
    "3d": ["{%r0,%r1,%r2,%r3}", "{%r0,%r1,%r2}", "{1,2,3,4}", "%f2"],
}  # fmt: skip
"""Offsets and depths."""
QUERIES = [
    "width",
    "height",
    "depth",
    "channel_data_type",
    "channel_order",
    "normalized_coords",
    "array_size",
    "num_mipmap_levels",
    "num_samples",
    "filter_mode",
    "addr_mode_0",
    "addr_mode_1",
    "addr_mode_2",
    "force_unnormalized_coords",
    "memory_layout",
]


def operands() -> Iterator[str]:
    """Operands of all kinds in every place."""
    pair, four = "{%f0,%f1}", "{%f0,%f1,%f2,%f3}"
    for geometry, values in WRONG.items():
        at = {"1d": "{%f0}", "2d": pair, "3d": four}[geometry]
        yield from (f"tex.{geometry}.v4.f32.f32 {FLOATS}, [%t, {at}], {value};" for value in values)
    levels = ("%f2", "%r2", "%u0", "%i0", "1", "1.0", "0f3F800000", "%h0", "%q0", "%fd0")
    for level, (ctype, at) in itertools.product(levels, (("f32", pair), ("s32", "{%r0,%r1}"))):
        yield f"tex.level.2d.v4.f32.{ctype} {FLOATS}, [%t, {at}], {level};"
    for x in (pair, "{%r0,%r1}", "{%i0,%i1}", "{1.0,2.0}", "{%f0}", four, "%f0", "{0f00000000,%f1}", "{1,2}"):
        yield f"tex.grad.2d.v4.f32.f32 {FLOATS}, [%t, {pair}], {x}, {x};"
    for x in ("{%f0}", "%f0", "{1.0}"):
        yield f"tex.grad.1d.v4.f32.f32 {FLOATS}, [%t, {{%f0}}], {x}, {x};"
    for x, geometry in itertools.product((four, "{%f0,%f1,%f2}", pair), ("3d", "cube")):
        yield f"tex.grad.{geometry}.v4.f32.f32 {FLOATS}, [%t, {four}], {x}, {x};"
    for geometry, (ctype, register), count in itertools.product(
        GEOMETRIES, (("f32", "%f"), ("s32", "%r")), (1, 2, 3, 4)
    ):
        for layer in ("", "%r0", "%u0") if geometry[0] == "a" else ("",):
            parts = [f"{register}{k}" for k in range(count)]
            parts[0] = layer or parts[0]
            yield f"tex.{geometry}.v4.f32.{ctype} {FLOATS}, [%t, {{{','.join(parts)}}}];"
    for geometry in GEOMETRIES:
        yield f"tex.{geometry}.v4.f32.s32 {FLOATS}, [%t, %r0];"
    mixed = (
        "{%r0,%f1}",
        "{1,%f1}",
        "{%f0,1.0}",
        "{1.0,2.0}",
        "{1,2}",
        "{%u0,%u1}",
        "{%i0,%i1}",
        "{%h0,%h1}",
        "{%q0,%q1}",
        "{%fd0,%fd1}",
        "{_, %f0}",
    )
    for at, ctype in itertools.product(mixed, ("f32", "s32")):
        yield f"tex.2d.v4.f32.{ctype} {FLOATS}, [%t, {at}];"
    for layer in ("%r0", "1", "%f0", "%u0", "%i0", "%h0", "%q0", "-1"):
        yield f"tex.a1d.v4.f32.f32 {FLOATS}, [%t, {{{layer},%f1}}];"
    names = ("%r{}", "%u{}", "%i{}", "%f{}")
    results = ["{" + ",".join(name.format(k) for k in range(4, 8)) + "}" for name in names]
    results += [
        "{" + ",".join(f"{name}{k}" for k in range(4)) + "}" for name in ("%h", "%q", "%hf", "%hx", "%fd", "%hu")
    ]
    results += ["{_,%f5,%f6,%f7}", "{_,_,_,_}", "{_,_,_,%f0}", "{%f4,%f4,%f4,%f4}"]
    for d, dtype in itertools.product(results, ("f32", "u32", "s32", "f16")):
        yield f"tex.2d.v4.{dtype}.f32 {d}, [%t, {pair}];"
    for d in ("{%r4,%r5}", "{%hx0,%hx1}", pair, "{%u0,%u1}", "{%h0,%h1}", "{%i0,%i1}", "{_,%r5}"):
        yield f"tex.2d.v2.f16x2.f32 {d}, [%t, {pair}];"
    for resident in ("|%p", "|_", "|%r0", "|!%p"):
        yield f"tex.2d.v4.f32.f32 {FLOATS}{resident}, [%t, {pair}];"
    for base in ("%t", "%r0", "%q0", "%qu0", "%qi0", "%f0", "%fd0", "%t+4", "1234", "%u0", "%h0"):
        yield f"tex.2d.v4.f32.f32 {FLOATS}, [{base}, {pair}];"
        yield f"txq.width.b32 %r0, [{base}];"
        yield f"suld.b.2d.b32.zero %r0, [{base}, {{%r0,%r1}}];"
    yield f"tex.2d.v4.f32.f32 {FLOATS}, %t, {pair};"
    for more in ("", ", {%r0,%r1}, %f2"):
        yield f"tex.2d.v4.f32.f32 {FLOATS}, [%t, %s, {pair}]{more};"
    yield f"tld4.r.2d.v4.f32.f32 {FLOATS}, [%t, %s, {pair}];"
    for query, opcode, type in itertools.product(QUERIES, ("txq", "suq"), ("b32", "u32", "s32")):
        for d in ("%r0", "%f0", "%u0", "%i0", "%q0", "%h0") if query == "width" else ("%r0",):
            yield f"{opcode}.{query}.{type} {d}, [%t];"
    for query, level in itertools.product(QUERIES, ("%r1", "%u1", "%i1", "%f1", "3", "%q0")):
        yield f"txq.level.{query}.b32 %r0, [%t], {level};"
    for type, a in itertools.product(
        ("texref", "samplerref", "surfref"), ("%t", "%r0", "%q0", "%qu0", "%qi0", "%fd0", "[%t]", "0", "1234", "%f0")
    ):
        yield f"istypep.{type} %p, {a};"
    for type, p in itertools.product(("texref", "samplerref", "surfref"), ("_", "%r0")):
        yield f"istypep.{type} {p}, %t;"


NAMES = ("tx", "tx, sm", "tx, %s", "%t, %s", "%t, sm", "%t", "ta[1]", "ta", "tx+8", "sx", "g", "pt", "pp", "pt, ps")


def names() -> Iterator[str]:
    """Variables and parameters in the places of handles, and elsewhere."""
    yield from (f"tex.2d.v4.f32.f32 {FLOATS}, [{name}, {{%f0,%f1}}];" for name in NAMES)
    yield f"tex.2d.v4.f32.f32 {FLOATS}, tx, {{%f0,%f1}};"
    yield f"tex.1d.v4.f32.f32 {FLOATS}, [tx, %f0];"
    for query, name in (*(("width", n) for n in ("tx", "sm", "sx", "pt")), *(("filter_mode", n) for n in ("tx", "sm", "%t")),
                        *(("force_unnormalized_coords", n) for n in ("sm", "tx", "%t")), ("normalized_coords", "tx")):  # fmt: skip
        yield f"txq.{query}.b32 %r0, [{name}];"
    yield "txq.level.width.b32 %r0, [tx], %r1;"
    yield from (f"suq.width.b32 %r0, [{name}];" for name in ("sx", "tx"))
    yield from (f"suld.b.2d.b32.zero %r0, [{name}, {{%r1,%r2}}];" for name in ("sx", "tx", "%t, %s", "pu"))
    yield "sust.b.2d.b32.zero [sx, {%r1,%r2}], %r0;"
    yield from (f"mov.u64 %q0, {name};" for name in ("tx", "sx", "sm", "tx+8", "pt"))
    yield from (f"tld4.r.2d.v4.f32.f32 {FLOATS}, [{name}, {{%f0,%f1}}];" for name in ("tx", "tx, sm"))
    yield from (f"tld4.r.a2d.v4.f32.f32 {FLOATS}, [{name}, {{%r0,%f1,%f1,%f1}}];" for name in ("tx", "tx, sm"))
    yield from (f"ld.param.u64 %q0, [{name}];" for name in ("pt", "pp"))
    yield from (f"istypep.texref %p, {name};" for name in ("tx", "pt"))
    yield from (
        "cvta.global.u64 %q0, tx;", "cvta.u64 %q0, tx;", "ld.global.b32 %r0, [tx];", "st.global.b32 [tx], %r0;", "ldu.global.b32 %r0, [tx];",
        "prefetch.global.L1 [tx];", "atom.global.add.u32 %r0, [tx], 1;", "setp.eq.u64 %p, %q0, tx;", "add.u64 %q0, %q1, tx;",
        "st.global.u64 [%q0], tx;", "selp.b64 %q0, tx, %t, %p;",
    )  # fmt: skip


LINES = {"forms": forms, "operands": operands, "names": names, "names in independent mode": names}


def refused(lines: list[str], setting: tuple[str, str, str]) -> set[str]:
    """The lines that ptxas does not take."""
    found: set[str] = set()
    while rest := [line for line in lines if line not in found]:
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "m.ptx"
            path.write_text(module(rest, setting))
            command = ["ptxas", "-arch", "sm_90", "-O0", str(path), "-o", f"{place}/m.cubin"]
            said = subprocess.run(command, capture_output=True, text=True, check=False)
        if said.returncode == 0:
            return found
        numbers = {int(n) - 6 for n in re.findall(r"line (\d+); (?:error|fatal)", said.stdout + said.stderr)}
        bad = {rest[n] for n in numbers if 0 <= n < len(rest)}
        if not bad:  # an error of no line: ask fewer at once
            half = len(rest) // 2
            return found | (refused(rest[:half], setting) | refused(rest[half:], setting) if half else set(rest))
        found |= bad
    return found


def main(out: str) -> int:
    """Ask, and keep all that ptxas takes and some of what it does not."""
    answers = {}
    for group, made in LINES.items():
        lines, bad = list(dict.fromkeys(made())), set()
        for start in range(0, len(lines), 400):
            bad |= refused(lines[start : start + 400], SETTINGS[group])
        good = [line for line in lines if line not in bad]
        kept = random.Random(1).sample(sorted(bad), min(KEPT, len(bad)))
        answers[group] = {"taken": good, "refused": sorted(kept)}
        print(f"{group}: {len(lines)} lines, {len(good)} taken")
    with open(out, "wb") as stream:
        stream.write(gzip.compress(json.dumps(answers).encode(), mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

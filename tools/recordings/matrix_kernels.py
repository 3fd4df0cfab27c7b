"""A kernel around one matrix instruction, and how operands come to it."""

from __future__ import annotations

import functools
from collections.abc import Callable

import attrs
import numpy as np

import matrix_operands as operands
from matrix_operands import CATEGORIES, Draw

Parts = tuple[str, dict[str, np.ndarray], np.ndarray]
"""The kernel, its inputs ``[cases, ...]`` by parameter, and the output as it is before the launch."""


@attrs.define(slots=False)
class Trial:
    """A form, and how its kernel and operands are made."""

    name: str
    family: str
    threads: int
    build: Callable[[], Parts]

    @functools.cached_property
    def parts(self) -> Parts:
        """Made once."""
        return self.build()

    @property
    def text(self) -> str:
        """PTX of the kernel."""
        return self.parts[0]

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """By parameter."""
        return self.parts[1]

    @property
    def output(self) -> np.ndarray:
        """Before the launch."""
        return self.parts[2]

    @property
    def arrays(self) -> list[np.ndarray]:
        """Arguments of a launch."""
        return [*self.inputs.values(), self.output.copy()]


def stacked(name: str, kinds: tuple[str, str, str], shapes: tuple) -> list[np.ndarray]:
    """A, B and C ``[cases, ...]`` of all categories."""
    parts = [operands.triple(name, category, kinds, shapes) for category in CATEGORIES]
    return [np.concatenate([part[i] for part in parts]) for i in range(3)]


def kernel(
    body: str, inputs: dict[str, np.ndarray], output: np.ndarray, threads: int, *, image: int = 0, shared: int = 0
) -> str:
    """Text around an instruction.

    Inputs ``[cases, threads, n]`` come in registers ``name0``, ... (``.b32``; ``.f64`` for 8 bytes), inputs ``[cases, n]`` in
    64-bit ones that all threads share; ``image`` bytes of a case lie at ``img``, and in shared memory at ``sm`` where
    ``shared``. The output ``[cases, threads, n]`` is what registers ``d0``, ... hold; of ``[cases, n]``, memory at ``out``.
    """
    lines = [f".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k({parameters([*inputs, 'd'])}) {{"]
    if shared:
        lines.append(f".shared .align 1024 .b8 smem[{shared}];")
    lines.append(".reg .b32 t, n, g, sm, i, x; .reg .b64 q, w, img, out; .reg .pred p;")
    lines.append(f"mov.u32 t, %tid.x; mov.u32 n, %ctaid.x; mad.lo.u32 g, n, {threads}, t;")
    for name, array in inputs.items():
        count, width = array.shape[-1], array.itemsize
        lines.append(f"ld.param.u64 q, [p_{name}]; mul.wide.u32 w, {'g' if array.ndim == 3 else 'n'}, {count * width};")
        lines.append("add.u64 q, q, w;")
        if name == "img":
            lines.append("mov.b64 img, q;")
            continue
        kind = "f64" if width == 8 and array.ndim == 3 else f"b{8 * width}"
        lines.append(f".reg .{kind} {name}<{count}>;")
        lines += [f"ld.global.{kind} {name}{i}, [q+{i * width}];" for i in range(count)]
    count, width = output.shape[-1], output.itemsize
    lines.append(f"ld.param.u64 out, [p_d]; mul.wide.u32 w, {'g' if output.ndim == 3 else 'n'}, {count * width};")
    lines.append("add.u64 out, out, w;")
    kind = "f64" if width == 8 else "b32"
    if output.ndim == 3:
        lines.append(f".reg .{kind} d<{count}>;")
    if shared:
        lines.append("mov.u32 sm, smem;")
        if image:
            lines.append(copied(image, threads, "IN", "ld.global.b32 x, [w];", "st.shared.b32 [i], x;", "img"))
        lines.append("fence.proxy.async.shared::cta; bar.sync 0;")
    lines.append(body)
    if output.ndim == 3:
        lines += [f"st.global.{kind} [out+{i * width}], d{i};" for i in range(count)]
    elif shared:
        lines.append("bar.sync 0;")
        lines.append(copied(count * width, threads, "OUT", "ld.shared.b32 x, [i];", "st.global.b32 [w], x;", "out"))
    return "\n".join([*lines, "ret; }"])


def parameters(names: list[str]) -> str:
    """Of the kernel."""
    return ", ".join(f".param .u64 p_{name}" for name in names)


def copied(nbytes: int, threads: int, label: str, load: str, store: str, place: str) -> str:
    """A loop over words that all threads share."""
    return (
        f"shl.b32 i, t, 2; {label}: setp.ge.u32 p, i, {nbytes}; @p bra {label}_DONE; cvt.u64.u32 w, i; add.u64 w, {place}, w;"
        f" add.u32 i, i, sm; {load} {store} sub.u32 i, i, sm; add.u32 i, i, {4 * threads}; bra {label}; {label}_DONE:"
    )


def vector(name: str, count: int) -> str:
    """Registers in braces."""
    return "{" + ", ".join(f"{name}{i}" for i in range(count)) + "}"


def metadata(draw: Draw, pairs: bool, ordered: bool, shape: tuple[int, ...]) -> np.ndarray:
    """Valid words in every lane: nibbles of 32-bit elements (not ``pairs``), or two indices, increasing where ``ordered``."""
    nibbles = [low | high << 2 for low in range(4) for high in range(4) if low < high or (low > high and not ordered)]
    chosen = draw.pick(np.array(nibbles if pairs else [0b1110, 0b0100], np.uint64), *shape, 8)
    return sum(chosen[..., i] << np.uint64(4 * i) for i in range(8)).astype(np.uint32)

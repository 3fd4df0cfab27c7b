"""Recorded launches: a directory with kernel.ptx, case.json and data.npz; read, run, compare."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from warpsim.errors import Finding, LaunchError, PtxError, WarpsimError
from warpsim.host.arrays import Array, DeviceArray
from warpsim.host.device import Device, runs_on
from warpsim.host.files import read_archive, reason
from warpsim.host.kernel import Kernel
from warpsim.host.module import load_text
from warpsim.host.sources import read
from warpsim.host.tensor_map import TensorMap
from warpsim.report.profile import Profile

_INTEGER = {f"{k}{n}": np.dtype(f"{'i' if k == 's' else 'u'}{n // 8}") for k in "su" for n in (8, 16, 32, 64)}
DTYPES: dict[str, np.dtype[Any]] = {
    **_INTEGER,
    **{f"b{n}": np.dtype(f"u{n // 8}") for n in (8, 16, 32, 64)},
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "e4m3": np.dtype(np.uint8),
    "e5m2": np.dtype(np.uint8),
}

MALFORMED = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    RecursionError,
)
"""What values of the wrong type or size in case.json end in."""


@attrs.frozen
class OutputResult:
    """How one output compares with its recording."""

    buffer: str
    ok: bool
    bits_equal: bool
    differing: int
    max_ulp: int | None
    first: dict[str, Any] | None


@attrs.frozen
class CaseResult:
    """How one recorded launch went."""

    case: str
    ok: bool
    bits_equal: bool
    seconds: float
    instructions: int
    stdout: str
    error: str | None
    findings: tuple[Finding, ...]
    outputs: tuple[OutputResult, ...]
    profile: Profile | None = attrs.field(default=None, repr=False)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What a malformed case raises becomes a `LaunchError` that names it."""
    try:
        yield
    except PtxError as problem:
        raise LaunchError(f"{path} is no recorded case: {problem.findings[0].message}") from None
    except WarpsimError:
        raise
    except KeyError as missing:
        raise LaunchError(f"{path} is no recorded case: case.json or data.npz lacks {missing}") from None
    except MALFORMED as problem:
        raise LaunchError(f"{path} is no recorded case: {reason(problem)}") from None


def failed_case(folder: str | os.PathLike[str], error: str) -> CaseResult:
    """The result of a case that could not be run."""
    return CaseResult(Path(folder).name, False, False, 0.0, 0, "", error, (), ())


def run_case(
    folder: str | os.PathLike[str],
    *,
    device: str | None = None,
    numerics: str = "exact",
    keep: dict[str, Array] | None = None,
    launch: Callable[..., Any] = Kernel.__call__,
    **options: Any,
) -> CaseResult:
    """Run a recorded launch on the GPU that recorded it (or ``device``) and compare every output.

    Args:
        folder: the case directory.
        device: a target such as ``sm_90a`` instead of ``hardware.sm``.
        numerics: ``exact`` or ``ieee``.
        keep: takes every output buffer's bytes by the name of its member in data.npz.
        launch: launches the kernel in place of `Kernel.__call__`, for example under a debugger.
        options: as for calling a kernel (checks, async_effects, max_instructions ...).

    Raises:
        LaunchError: where the directory holds no readable case.
    """
    path = Path(folder)
    printed: list[str] = []
    with _reading(path):
        case = json.loads((path / "case.json").read_text(encoding="utf-8"))
        data = read_archive(path / "data.npz")
        expected_text = (path / "stdout.txt").read_text(encoding="utf-8") if (path / "stdout.txt").exists() else None
        target = device or runs_on(case.get("hardware", {}).get("sm") or case["target"])
        gpu = Device(target, numerics=numerics, stdout=printed.append)
        buffers = {b["name"]: _buffer(gpu, b, data) for b in case["buffers"]}
        for b in case["buffers"]:
            if b.get("content") == "pointers":
                places = [buffers[t["buffer"]].ptr + t["byte_offset"] for t in b["targets"]]
                buffers[b["name"]].set(np.array(places, np.uint64).view(buffers[b["name"]].dtype))
        arguments = tuple([_argument(p, buffers, gpu) for p in case["params"]])
        grid, block = tuple(case["grid"]), tuple(case["block"])
        entry, shared_mem = case["entry"], case["dynamic_smem"]
        cluster = tuple(case["cluster"]) if case.get("cluster") else None
        source = read(path / "kernel.ptx")
        checks = {b["name"]: case["check"].get(b["name"], {"mode": "bits"}) for b in case["buffers"] if b.get("out")}
    started = time.perf_counter()
    error: str | None = None
    instructions = 0
    findings: tuple[Finding, ...] = ()
    profile: Profile | None = None
    try:
        module = load_text(*source)
        result = launch(
            module[entry],
            grid,
            block,
            arguments,
            shared_mem=shared_mem,
            cluster=cluster,
            cooperative=bool(case.get("cooperative")),
            device=gpu,
            **options,
        )
        instructions, findings, profile = result.instructions, result.findings, result.profile
    except WarpsimError as problem:
        error, findings = str(problem), problem.findings
    seconds = time.perf_counter() - started
    if keep is not None:
        keep.update({b["out"]: buffers[b["name"]].get() for b in case["buffers"] if b.get("out")})
    if case.get("expect_error"):
        failed = error is not None and any(f.rule in ("assert", "trap") for f in findings)
        text = None if failed else (error or "the launch was to fail, and did not")
        return CaseResult(path.name, failed, failed, seconds, instructions, "".join(printed), text, findings, ())
    outputs: tuple[OutputResult, ...] = ()
    if error is None:
        with _reading(path):
            outputs = tuple(
                _compare(b, buffers[b["name"]].get(), data, checks[b["name"]]) for b in case["buffers"] if b.get("out")
            )
    text_equal = expected_text is None or "".join(printed) == expected_text
    if error is None and not text_equal:
        error = (
            f"printed {''.join(printed)[:200]!r}, not {expected_text[:200]!r}" if expected_text is not None else None
        )
    ok = error is None and all(o.ok for o in outputs)
    return CaseResult(
        path.name,
        ok,
        ok and all(o.bits_equal for o in outputs),
        seconds,
        instructions,
        "".join(printed),
        error,
        findings,
        outputs,
        profile,
    )


def _buffer(device: Device, spec: dict[str, Any], data: dict[str, Array]) -> DeviceArray:
    dtype = DTYPES[spec["dtype"]]
    if spec.get("in"):
        values = np.ascontiguousarray(data[spec["in"]])
        if values.nbytes == spec["nbytes"]:
            return device.array(values)
        padded = np.zeros(spec["nbytes"], np.uint8)
        raw = values.reshape(-1).view(np.uint8)
        padded[: raw.size] = raw
        return device.array(padded)
    return device.array(
        np.zeros(tuple(spec["shape"]), dtype)
    )  # zero-filled, as the format says: that counts as written


def _argument(spec: dict[str, Any], buffers: dict[str, DeviceArray], device: Device) -> Any:
    kind = spec["kind"]
    if kind == "ptr":
        return buffers[spec["buffer"]].ptr + spec["byte_offset"] if spec.get("buffer") else 0
    if kind == "scalar":
        value, dtype = spec["value"], spec["dtype"]
        if dtype in ("f16", "f32", "f64"):
            return DTYPES[dtype].type(float(value))
        return int(value)
    if kind == "bytes":
        return bytes.fromhex(spec["hex"])
    if kind == "tensormap":
        tensor = _tensor_map(spec, buffers[spec["buffer"]])
        return tensor.encode(buffers[spec["buffer"]].ptr)
    raise LaunchError(f"parameter of kind {kind!r}")


def _tensor_map(spec: dict[str, Any], buffer: DeviceArray) -> TensorMap:
    common = {
        "data_type": spec["data_type"],
        "global_dim": spec["global_dim"],
        "global_strides": spec["global_strides_bytes"],
        **{k: spec[k] for k in ("element_strides", "interleave", "swizzle", "l2_promotion", "oob_fill")},
    }
    if spec.get("im2col"):
        return TensorMap.im2col(buffer, **common, **spec["im2col"])
    return TensorMap(buffer, **common, box_dim=spec["box_dim"])


def _compare(spec: dict[str, Any], got: Array, data: dict[str, Array], check: dict[str, Any]) -> OutputResult:
    dtype = DTYPES[spec["dtype"]]
    expected = np.ascontiguousarray(data[spec["out"]])
    got = (
        np.ascontiguousarray(got)
        .reshape(-1)
        .view(np.uint8)[: expected.nbytes]
        .view(expected.dtype)
        .reshape(expected.shape)
    )
    unsigned = np.dtype(f"u{expected.dtype.itemsize}")
    a, b = got.view(unsigned), expected.view(unsigned)
    if check.get("mode") == "set":
        a, b = np.sort(a.reshape(-1)), np.sort(b.reshape(-1))
        got, expected = a.view(expected.dtype), b.view(expected.dtype)
    differs = a != b
    floats: tuple[Any, Any] = (_as_float(expected, spec["dtype"]), _as_float(got, spec["dtype"]))
    if check.get("nan") == "any" and floats[0] is not None and floats[1] is not None:
        differs = differs & ~(np.isnan(floats[0]) & np.isnan(floats[1]))
    count = int(np.count_nonzero(differs))
    ok = count == 0
    if check.get("mode") == "close" and count and floats[0] is not None and floats[1] is not None:
        want, have = floats
        both = np.isnan(want) & np.isnan(have)
        with np.errstate(all="ignore"):
            near = np.abs(have - want) <= check.get("atol", 0.0) + check.get("rtol", 0.0) * np.abs(want)
        ok = bool((near | both | (want == have)).all())
    first = None
    if count:
        at = tuple(int(i) for i in np.argwhere(differs)[0])
        first = {
            "index": list(at),
            "got": _shown(got[at], floats[1], at),
            "expected": _shown(expected[at], floats[0], at),
        }
    return OutputResult(spec["name"], ok, count == 0, count, _ulps(a, b, differs, floats, dtype), first)


def _as_float(values: Array, name: str) -> Array | None:
    if name == "bf16":
        return (values.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return values.astype(np.float64) if name in ("f16", "f32", "f64") else None


def _shown(value: Any, floats: Array | None, at: tuple[int, ...]) -> Any:
    number = float(floats[at]) if floats is not None else int(value)
    return number if number == number and abs(number) != float("inf") else str(number)


def _ulps(a: Array, b: Array, differs: Array, floats: tuple[Any, Any], dtype: np.dtype[Any]) -> int | None:
    if floats[0] is None:
        return None
    if not differs.any():
        return 0
    if np.isnan(floats[0][differs]).any() or np.isnan(floats[1][differs]).any():
        return None
    half = 1 << (a.dtype.itemsize * 8 - 1)

    def ordered(x: Array) -> list[int]:
        return [v if v < half else half - v for v in x.astype(object).tolist()]

    return max(abs(x - y) for x, y in zip(ordered(a[differs][:100000]), ordered(b[differs][:100000]), strict=True))

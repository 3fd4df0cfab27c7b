"""Recorded launches: a directory with kernel.ptx, case.json and data.npz. Reads, runs and compares them; docs/cases.md
has the format."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import ml_dtypes
import numpy as np

from warpsim.errors import Finding, LaunchError, PtxError, WarpsimError
from warpsim.host import defaults
from warpsim.host.arrays import DeviceArray
from warpsim.host.device import Device
from warpsim.host.files import named, problems, read_archive, reason, text_of
from warpsim.host.kernel import Kernel, LaunchResult, Module, load_text
from warpsim.host.launch_options import Keywords
from warpsim.host.recipes import DTYPES, LOGICAL, Recipe
from warpsim.host.sources import read
from warpsim.host.targets import runs_on
from warpsim.host.tensor_map import TensorMap
from warpsim.layout import textures
from warpsim.numerics.arrays import Array, DType
from warpsim.records import define, frozen
from warpsim.types import JsonObject

if TYPE_CHECKING:
    from warpsim.machine.fidelity import Executed
    from warpsim.observe.accuracy_report import AccuracyReport
    from warpsim.report.profile import Profile

MALFORMED = (OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError, RecursionError)
"""Exceptions caused by values of the wrong size in case.json."""
EXPECTED = ("assert", "trap")
"""Rules that a case with ``expect_error`` breaks on purpose."""
NOTHING = "nothing to compare: the case holds no output, no printed text and no expected error; record it again"


@frozen
class CaseResult:
    """The result of running a recorded launch. ``ok``: what it left is as recorded, and no finding fails it;
    ``bits_equal``: what it left is the same in every bit, whatever was found."""

    case: str
    ok: bool = False
    bits_equal: bool = False
    seconds: float = 0.0
    instructions: int = 0
    stdout: str = ""
    error: str | None = None
    findings: tuple[Finding, ...] = ()
    outputs: tuple[OutputResult, ...] = ()
    profile: Profile | None = attrs.field(default=None, repr=False)
    fidelity: Sequence[Executed] = attrs.field(default=(), repr=False, eq=False)
    """Evidence for the bits of each executed instruction form."""
    accuracy: AccuracyReport | None = attrs.field(default=None, repr=False, eq=False)


@functools.cache
def schema() -> JsonObject:
    """The JSON schema of case.json."""
    text = Path(__file__).with_name("case.schema.json").read_text(encoding="utf-8")
    found: JsonObject = json.loads(text)
    return found


def checked(description: Any, path: Path) -> JsonObject:
    """Check a description against the schema, and return it.

    Raises:
        LaunchError: it does not fit; the message says where.
    """
    for at, problem in problems(description, schema()):
        raise LaunchError(f"{path} is not a recorded case: case.json: {at or 'the document'} {problem}")
    found: JsonObject = description
    return found


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a malformed case raises into a `LaunchError` that names the case."""
    try:
        yield
    except PtxError as problem:
        raise LaunchError(f"{path} is not a recorded case: {problem.findings[0].message}") from None
    except WarpsimError:
        raise
    except KeyError as missing:
        raise LaunchError(f"{path} is not a recorded case: case.json or data.npz lacks {missing}") from None
    except MALFORMED as problem:
        raise LaunchError(f"{path} is not a recorded case: {reason(problem)}") from None


@define(eq=False)
class Case:
    """A recorded launch: case.json, the arrays of data.npz, and the module's text."""

    path: Path
    description: JsonObject
    data: dict[str, Array]
    source: tuple[str, str]
    stdout: str | None = None

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Case:
        """Read a case.

        Raises:
            LaunchError: the directory is not a case.
        """
        path = Path(folder)
        with reading(path):
            description = checked(json.loads(text_of(path / "case.json")), path)
            data = read_archive(path / "data.npz")
            printed = path / "stdout.txt"
            text = text_of(printed) if printed.exists() else None
            return cls(path, description, data, read(path / "kernel.ptx"), text)

    @property
    def target(self) -> str:
        """The GPU that recorded it, or else the one that the module runs on by default."""
        case = self.description
        known = case.get("hardware", {}).get("sm") or case.get("simulated", {}).get("device")
        return known or runs_on(case["target"])

    def prepare(self, *, device: str | None = None, numerics: str | None = None) -> Prepared:
        """Make the launch ready to run: GPU, module, buffers, arguments."""
        with reading(self.path):
            numerics = numerics or self.description.get("options", {}).get("numerics", "exact")
            return Prepared(self, Device(device or self.target, numerics=numerics))


class Prepared:
    """A recorded launch on its own GPU: ``kernel(grid, block, args, **keywords)`` runs it."""

    def __init__(self, case: Case, device: Device) -> None:
        description = case.description
        self.case, self.device = case, device
        self.printed: list[str] = []
        device.stdout = self.printed.append
        self.buffers = {b["name"]: _buffer(device, b, case.data) for b in description["buffers"]}
        self.textures = {t["name"]: _texture(device, t, self.buffers) for t in description.get("textures", [])}
        places = {**self.buffers, **self.textures}
        for b in description["buffers"]:
            if b.get("content") == "pointers":
                _place_pointers(b, places)
        self.args = tuple([_argument(p, places) for p in description["params"]])
        self.grid, self.block = tuple(description["grid"]), tuple(description["block"])
        options = description.get("options", {})
        self.keywords: Keywords = {
            "shared_mem": description["dynamic_smem"],
            "cluster": tuple(description["cluster"]) if description.get("cluster") else None,
            "cooperative": bool(description.get("cooperative")),
            "device": device,
            **{key: value for key, value in options.items() if key != "numerics"},
        }
        self._module: Module | None = None

    @property
    def module(self) -> Module:
        """The module, with its variables as recorded.

        Raises:
            PtxError: the module cannot be loaded.
        """
        if self._module is None:
            self._module = load_text(*self.case.source)
            with reading(self.case.path):
                for variable in self.case.description.get("globals", []):
                    if variable.get("in"):
                        values = np.ascontiguousarray(self.case.data[variable["in"]]).reshape(-1).view(np.uint8)
                        self._bytes(variable["name"])[...] = values
                    if variable.get("textures"):
                        bound = [self.textures[name].ptr if name else 0 for name in variable["textures"]]
                        self._bytes(variable["name"]).view(textures.BLOCK)["object"] = bound
        return self._module

    @property
    def kernel(self) -> Kernel:
        """The kernel to launch."""
        return self.module[self.case.description["entry"]]

    def launch(self, launch: Callable[..., LaunchResult] = Kernel.__call__, **options: object) -> LaunchResult:
        """Run it. ``options`` override those of the case; ``launch`` is called in place of the kernel."""
        given = {key: value for key, value in options.items() if value is not None or key not in self.keywords}
        result: LaunchResult = launch(self.kernel, self.grid, self.block, self.args, **{**self.keywords, **given})
        return result

    def schedule(self, options: Keywords) -> int | None:
        """The seed of the order in which a launch with these options runs; None: the usual one."""
        given = options.get("schedule")
        of_case = self.keywords.get("schedule") if given is None else given
        return defaults.current.schedule if of_case is None else of_case

    def _bytes(self, variable: str) -> Array:
        view = self.module.get_global(variable, self.device)
        allocation = self.device.memory.at(view.ptr)
        assert allocation is not None
        return allocation.data[: view.nbytes]

    def outputs(self) -> dict[str, Array]:
        """The current contents of the buffers and variables that the case compares, by their keys in data.npz."""
        described = self.case.description
        found = {b["out"]: self.buffers[b["name"]].get() for b in described["buffers"] if b.get("out")}
        for variable in described.get("globals", []):
            if variable.get("out"):
                found[variable["out"]] = self._bytes(variable["name"]).copy()
        return found

    def comparisons(self) -> list[Comparison]:
        """Compare each output with its recording."""
        described, outputs, data = self.case.description, self.outputs(), self.case.data
        checks = described["check"]
        compared = [
            Comparison(b["name"], *_typed(b["dtype"], outputs[b["out"]], data[b["out"]]), checks.get(b["name"]))
            for b in described["buffers"]
            if b.get("out")
        ]
        for v in described.get("globals", []):
            if v.get("out"):
                compared.append(Comparison(v["name"], *_typed("u8", outputs[v["out"]], data[v["out"]])))
        return compared


def failed_case(folder: str | os.PathLike[str], error: str) -> CaseResult:
    """The result of a case that could not be run."""
    return CaseResult(named(folder).name, error=error)


def run_case(
    folder: str | os.PathLike[str],
    *,
    device: str | None = None,
    numerics: str | None = None,
    keep: dict[str, Array] | None = None,
    **options: object,
) -> CaseResult:
    """Run a recorded launch on the GPU that recorded it (or ``device``) and compare every output.

    Args:
        folder: the case directory.
        device: a target such as ``sm_90a`` instead of ``hardware.sm``.
        numerics: ``exact`` or ``ieee``.
        keep: if given, receives every output buffer's bytes by the name of its member in data.npz.
        options: as for calling a kernel (checks, async_effects, max_instructions ...). ``launch`` is called in place of
            the kernel, for example to run it under a debugger.

    Raises:
        LaunchError: the directory is not a readable case.
    """
    return run_prepared(Case.read(folder).prepare(device=device, numerics=numerics), keep, **options)


def run_prepared(ready: Prepared, keep: dict[str, Array] | None = None, **options: Any) -> CaseResult:
    """Run a prepared launch and compare every output; see `run_case`."""
    case, result = ready.case.description, CaseResult(named(ready.case.path).name)
    started = time.perf_counter()
    error: str | None = None
    try:
        launched = ready.launch(**options)
        taken = ("instructions", "findings", "profile", "fidelity", "accuracy")
        result = attrs.evolve(result, **{name: getattr(launched, name) for name in taken})
    except WarpsimError as problem:
        error, result = str(problem), attrs.evolve(result, findings=problem.findings)
    printed = "".join(ready.printed)
    result = attrs.evolve(result, seconds=time.perf_counter() - started, stdout=printed)
    if keep is not None:
        with reading(ready.case.path):
            keep.update(ready.outputs())
    clean = not counting(case, result.findings)
    if case.get("expect_error"):
        failed = error is not None and any(f.rule in EXPECTED for f in result.findings)
        text = None if failed else (error or "the launch was expected to fail, and did not")
        return attrs.evolve(result, ok=failed and clean, bits_equal=failed, error=text)
    outputs: tuple[OutputResult, ...] = ()
    if error is None:
        with reading(ready.case.path):
            compared = ready.comparisons()
            outputs = tuple(comparison.result() for comparison in compared)
        recorded = ready.case.stdout
        if recorded is not None and not _same_text(printed, recorded, ready.schedule(options)):
            error = f"printed {printed[:200]!r}, not {recorded[:200]!r}"
        elif recorded is None and not any(comparison.expected.size for comparison in compared):
            error = NOTHING
    same = error is None and all(o.ok for o in outputs)
    equal = same and all(o.bits_equal for o in outputs)
    return attrs.evolve(result, ok=same and clean, bits_equal=equal, error=error, outputs=outputs)


def counting(description: JsonObject, findings: Sequence[Finding]) -> list[Finding]:
    """The findings that fail a case: those of severity error that it does not expect."""
    expected = EXPECTED if description.get("expect_error") else ()
    return [f for f in findings if f.severity == "error" and f.rule not in expected]


def _same_text(printed: str, recorded: str, schedule: int | None) -> bool:
    """Whether threads have printed what was recorded; in a random order, in any order of lines."""
    if schedule is None:
        return printed == recorded
    return sorted(printed.splitlines()) == sorted(recorded.splitlines())


def _typed(name: str, got: Array, expected: Array) -> tuple[Array, Array]:
    expected = np.ascontiguousarray(expected)
    raw = np.ascontiguousarray(got).reshape(-1).view(np.uint8)[: expected.nbytes]
    same = raw.view(expected.dtype).reshape(expected.shape)
    return stored_as(name, same), stored_as(name, expected)


def _buffer(device: Device, spec: JsonObject, data: dict[str, Array]) -> DeviceArray:
    dtype = DTYPES[spec["dtype"]]
    if spec.get("recipe"):
        numbers = {k: v for k, v in spec["recipe"].items() if k not in ("generator", "seed")}
        seed = spec["recipe"].get("seed", 0)
        made = Recipe(spec["recipe"]["generator"], tuple(spec["shape"]), spec["dtype"], seed, numbers).array()
        return device.array(made.view(dtype) if made.dtype.itemsize == dtype.itemsize else made)
    if spec.get("in"):
        values = np.ascontiguousarray(data[spec["in"]])
        if values.nbytes == spec["nbytes"]:
            return device.array(values)
        padded = np.zeros(spec["nbytes"], np.uint8)
        raw = values.reshape(-1).view(np.uint8)
        padded[: raw.size] = raw
        return device.array(padded)
    if spec.get("unwritten"):
        return device.empty(tuple(spec["shape"]), dtype)
    return device.array(
        np.zeros(tuple(spec["shape"]), dtype)
    )  # zero-filled, as the format says, and so counts as written


def _texture(device: Device, spec: JsonObject, buffers: dict[str, DeviceArray]) -> DeviceArray:
    levels = [buffers[level["buffer"]].ptr + level["byte_offset"] for level in spec["levels"]]
    fields = textures.fields_of({key: spec[key] for key in spec if key not in ("name", "levels")}, levels)
    return device.array(np.frombuffer(fields.encode(), np.uint8))


def _place_pointers(spec: JsonObject, buffers: dict[str, DeviceArray]) -> None:
    """Store the addresses that a buffer contains."""
    raw = buffers[spec["name"]].get()
    flat = raw.reshape(-1).view(np.uint8)
    for number, target in enumerate(spec["targets"]):
        at = target.get("at", 8 * number)
        address = buffers[target["buffer"]].ptr + target["byte_offset"] if target["buffer"] else 0
        flat[at : at + 8] = np.frombuffer(address.to_bytes(8, "little"), np.uint8)
    buffers[spec["name"]].set(raw)


def _argument(spec: JsonObject, buffers: dict[str, DeviceArray]) -> object:
    kind = spec["kind"]
    if kind == "ptr":
        return buffers[spec["buffer"]].ptr + spec["byte_offset"] if spec.get("buffer") else spec["byte_offset"]
    if kind == "scalar":
        value, dtype = spec["value"], spec["dtype"]
        if dtype in ("f16", "f32", "f64"):
            return DTYPES[dtype].type(float(value))
        return int(value)
    if kind == "bytes":
        raw = bytearray.fromhex(spec["hex"])
        for pointer in spec.get("pointers", []):
            address = buffers[pointer["buffer"]].ptr + pointer["byte_offset"]
            raw[pointer["at"] : pointer["at"] + 8] = address.to_bytes(8, "little")
        return bytes(raw)
    tensor = _tensor_map(spec, buffers[spec["buffer"]])
    return tensor.encode(buffers[spec["buffer"]].ptr + spec.get("byte_offset", 0))


def _tensor_map(spec: JsonObject, buffer: DeviceArray) -> TensorMap:
    common = {
        "data_type": spec["data_type"],
        "global_dim": spec["global_dim"],
        "global_strides": spec["global_strides_bytes"],
        **{k: spec[k] for k in ("element_strides", "interleave", "swizzle", "l2_promotion", "oob_fill")},
    }
    if spec.get("im2col"):
        return TensorMap.im2col(buffer, **common, **spec["im2col"])
    if spec.get("im2col_wide"):
        return TensorMap.im2col_wide(buffer, **common, **spec["im2col_wide"])
    return TensorMap(buffer, **common, box_dim=spec["box_dim"])


# ---- comparing -------------------------------------------------------------------------------------


@frozen
class OutputResult:
    """How one output compares with its recording."""

    buffer: str
    ok: bool
    bits_equal: bool
    differing: int
    max_ulp: int | None
    first: JsonObject | None


def is_float(dtype: DType) -> bool:
    """Whether elements are floating-point numbers of NumPy or ml_dtypes (most ml_dtypes types have no kind)."""
    if dtype.kind in "fV" and dtype.names is None:
        try:
            ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        except (ValueError, TypeError):
            return False
        return True
    return False


def bits_of(values: Array) -> Array:
    """The elements' bits as unsigned integers, or as rows of bytes (one more axis) for other element sizes."""
    values = np.ascontiguousarray(values)
    if values.dtype.itemsize in (1, 2, 4, 8):
        return values.view(f"u{values.dtype.itemsize}")
    return values.reshape(*values.shape, 1).view(np.uint8)


class Comparison:
    """Compares ``got`` with ``expected``: two arrays of the same shape and element type."""

    def __init__(self, name: str, got: Array, expected: Array, check: JsonObject | None = None) -> None:
        self.name, self.check = name, check or {"mode": "bits"}
        self.got, self.expected = np.ascontiguousarray(got), np.ascontiguousarray(expected)
        if self.check.get("mode") == "set":
            unsigned = [np.sort(bits_of(a).reshape(-1)) for a in (self.got, self.expected)]
            self.got, self.expected = (u.view(expected.dtype) for u in unsigned)

    @cached_property
    def floats(self) -> tuple[Array, Array] | None:
        """Both as float64, which represents every narrower float exactly; None if the elements are not floats."""
        if not is_float(self.expected.dtype):
            return None
        with np.errstate(all="ignore"):  # signalling NaNs
            return self.got.astype(np.float64), self.expected.astype(np.float64)

    @cached_property
    def differs(self) -> Array:
        """Mask of elements whose bits differ; with ``nan: any``, two NaNs are equal."""
        a, b = bits_of(self.got), bits_of(self.expected)
        different: Array = np.asarray(a != b)
        if different.ndim > self.expected.ndim:
            different = np.asarray(different.any(axis=-1))
        if self.check.get("nan") == "any" and self.floats is not None:
            different = different & ~(np.isnan(self.floats[0]) & np.isnan(self.floats[1]))
        return different

    @cached_property
    def count(self) -> int:
        """Number of elements that differ."""
        return int(np.count_nonzero(self.differs))

    @cached_property
    def wrong(self) -> Array:
        """Mask of elements that differ by more than the tolerance."""
        if self.check.get("mode") != "close" or self.floats is None:
            return self.differs
        have, want = self.floats
        both = np.isnan(want) & np.isnan(have)
        atol, rtol = np.asarray(self.check.get("atol", 0.0)), self.check.get("rtol", 0.0)
        with np.errstate(all="ignore"):
            near = (np.abs(have - want) <= atol + rtol * np.abs(want)) & np.isfinite(want)
        if "ulps" in self.check:
            near = near | (~np.isnan(want) & ~np.isnan(have) & (self.ulps <= np.uint64(self.check["ulps"])))
        return self.differs & ~(near | both | (want == have))

    @cached_property
    def ulps(self) -> Array:
        """Distance in units in the last place; meaningless for NaNs and for non-floats."""
        half = np.uint64(1 << (self.expected.dtype.itemsize * 8 - 1))
        (a, b) = (bits_of(x).astype(np.uint64) for x in (self.got, self.expected))
        negative = (a & half) != (b & half)
        a, b = a & (half - np.uint64(1)), b & (half - np.uint64(1))
        between: Array = np.where(negative, a + b, np.maximum(a, b) - np.minimum(a, b))
        return between

    @property
    def max_ulp(self) -> int | None:
        """Largest distance between differing elements; None for integers and where a NaN differs."""
        if self.floats is None:
            return None
        if not self.count:
            return 0
        if np.isnan(self.floats[0][self.differs]).any() or np.isnan(self.floats[1][self.differs]).any():
            return None
        return int(self.ulps[self.differs].max())

    def result(self) -> OutputResult:
        """The comparison as plain data."""
        first = None
        if self.count:
            at = tuple(int(i) for i in np.argwhere(self.differs)[0])
            first = {"index": list(at), "got": self.shown(0, at), "expected": self.shown(1, at)}
        return OutputResult(self.name, not self.wrong.any(), self.count == 0, self.count, self.max_ulp, first)

    def shown(self, side: int, at: tuple[int, ...]) -> object:
        """An element of ``got`` (0) or ``expected`` (1) as a JSON value."""
        if self.floats is None:
            value = (self.got, self.expected)[side][at]
            return int(value) if self.expected.dtype.kind in "iub" else str(value)
        number = float(self.floats[side][at])
        return number if number == number and abs(number) != float("inf") else str(number)


def stored_as(name: str, values: Array) -> Array:
    """The content of data.npz for a buffer, as elements of the buffer's type."""
    dtype = LOGICAL[name]
    values = np.ascontiguousarray(values)
    return values.view(dtype) if values.dtype.itemsize == dtype.itemsize else values

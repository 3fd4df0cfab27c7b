"""PyTorch on the simulated GPU: operators of tensors in device memory run PyTorch's own kernels for CPUs, on the same bytes.

PyTorch's wheel holds its CUDA kernels as machine code without PTX. But device memory is memory of this process, so each
operator that has a kernel for CUDA gets one that calls the CPU's on tensors that share the storage: strides, aliasing,
``out=``, autograd and autocast stay PyTorch's. A kernel of the user (Triton, an extension, `torch.cuda._compile_kernel`)
is simulated. `CpuKernels.computed` counts what was not.
"""

from __future__ import annotations

import atexit
import functools
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from types import CodeType

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from warpsim.compat import substitutes
from warpsim.compat.substitutes import Argument
from warpsim.driver.abi.calls import ENTRIES
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.work import Call

NATIVE = frozenset((
    "empty.memory_format", "empty_strided", "as_strided", "view", "view_as_real", "view_as_complex", "_reshape_alias",
    "unfold", "set_", "set_.source_Storage", "set_.source_Storage_storage_offset", "set_.source_Tensor", "resize_",
    "_local_scalar_dense", "is_set_to", "alias", "record_stream", "_pin_memory", "is_pinned", "detach",
    "_efficientzerotensor", "_has_compatible_shallow_copy_type",
))  # fmt: skip
"""Operators of CUDA that launch nothing: they allocate, make views, or copy to the host."""
WHOLE = ("copy_", "convolution")
"""Operators without a kernel for CUDA, whose common code chooses one of cuDNN or launches one."""
WIDE: dict[str, int | None] = {
    "native_layer_norm": 1,  # means and deviations stay
    "native_layer_norm_backward": None,
    "native_group_norm_backward": None,
    "native_batch_norm_backward": None,
    "embedding_dense_backward": None,
    "cumsum": None,
    "cumprod": None,
    "convolution_backward": None,
    "_softmax": None,
    "_softmax_backward_data": None,
    "_log_softmax": None,
    "_log_softmax_backward_data": None,
    "nll_loss_forward": None,
    "nll_loss2d_forward": None,
    "prod": None,
    "trace": None,
    "glu_backward": None,
}
"""Operators whose kernels for CPUs sum 16-bit numbers in 16 bits, and for CUDA in 32; how many results are rounded (None: all)."""
NARROW = (torch.float16, torch.bfloat16)
LONG = ("_softmax_backward_data", "_log_softmax_backward_data")
"""Operators whose kernels for CPUs add up rows in few sums: of 32,000 numbers 1.4e-5 off where CUDA's tree is 1e-7 off."""
WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float64}
GOLDEN = 0x9E3779B97F4A7C15
"""2**64 by the golden ratio: seeds of draws that follow each other lie far apart."""


class CpuKernels:
    """Kernels for CUDA that are those of the CPU; ``computed`` counts how often each operator was computed."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # autograd has threads of its own
        self.computed: Counter[str] = Counter()
        self.library: torch.library.Library | None = None

    def register(self) -> None:
        """Put them in the place of PyTorch's; a second call does nothing."""
        with self._lock:
            if self.library is not None:
                return
            self.library = torch.library.Library("aten", "IMPL")
        registered = torch._C._dispatch_has_kernel_for_dispatch_key
        names = [name[6:] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
        with warnings.catch_warnings():  # PyTorch warns of the first kernel that is replaced
            warnings.simplefilter("ignore")
            for name in names:
                if name in WHOLE or (name not in NATIVE and registered(f"aten::{name}", "CUDA")):
                    self.library.impl(name, _on_the_cpu(name), "CUDA", allow_override=True)
        # PyTorch's own tests let nobody set torch.backends.cudnn.enabled
        torch._C._set_cudnn_enabled(False)  # noqa: FBT003
        for name in ("flash", "mem_efficient", "cudnn"):  # attention is computed by its formula
            getattr(torch.backends.cuda, f"enable_{name}_sdp")(enabled=False)
        torch._C._cuda_sleep = lambda cycles: None  # a kernel of PyTorch's, launched without an operator
        for maker in (_on_the_cpu, *ENTRIES):
            _leave_untraced(maker)
        atexit.register(lambda: PROCESS.driver.report.not_simulated(self.computed))

    def count(self, name: str) -> None:
        """Count an operator that is computed."""
        with self._lock:
            self.computed[name] += 1


def register() -> None:
    """Let operators of PyTorch on tensors of the simulated GPU be computed by the CPU, when PyTorch begins to use CUDA."""
    KERNELS.register()


def _leave_untraced(maker: Callable[..., object]) -> None:
    """Let functions that a function makes run as they are, and all that they call: under `torch.compile` what Python runs is
    traced, even what C calls, and what uses NumPy is rewritten to use PyTorch."""
    frames = torch._C._dynamo.eval_frame
    if not hasattr(frames, "set_code_exec_strategy"):  # before PyTorch 2.7
        return
    skip = frames._FrameAction.SKIP
    for code in maker.__code__.co_consts:
        if isinstance(code, CodeType):
            frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, skip))


def _on_the_cpu(name: str) -> Callable[..., Argument]:
    """A kernel for CUDA that calls the CPU's."""
    return lambda *args, **kwargs: operator(name)(*args, **kwargs)


class Operator:
    """One operator, called on tensors that share the storage of those of the GPU."""

    def __init__(self, name: str) -> None:
        self.name = name
        base, _, overload = name.partition(".")
        packet = getattr(torch.ops.aten, base)
        overloaded = getattr(packet, overload or "default")
        schema = overloaded._schema
        has_kernel = torch._C._dispatch_has_computed_kernel_for_dispatch_key  # for CPUs, or common code
        self.call = overloaded if has_kernel(f"aten::{name}", "CPU") else substitutes.find(name) or self._refuse
        self.random = torch.Tag.nondeterministic_seeded in overloaded.tags
        self.generator = any(argument.name == "generator" for argument in schema.arguments)
        self.written = [a.alias_info is not None and a.alias_info.is_write for a in schema.arguments]
        self.names = [argument.name for argument in schema.arguments]
        self.wide = base.rstrip("_") in WIDE
        self.long = base in LONG
        self.rounded = WIDE.get(base)
        if self.call is overloaded and not torch._C._should_allow_numbers_as_tensors(base):
            self.call = self._choosing(packet, overloaded)

    @staticmethod
    def _choosing(packet: Callable[..., Argument], overloaded: torch._ops.OpOverload) -> Callable[..., Argument]:
        """A function that takes a number where the schema has a tensor, as kernels in Python are given them: by an
        overload for numbers."""
        kinds = [str(argument.type) for argument in overloaded._schema.arguments]
        tensors = [position for position, kind in enumerate(kinds) if kind == "Tensor"]

        def call(*args: Argument, **kwargs: Argument) -> Argument:
            given = any(isinstance(args[p], (int, float, complex)) for p in tensors if p < len(args))
            return (packet if given else overloaded)(*args, **kwargs)

        return call

    def __call__(self, *args: Argument, **kwargs: Argument) -> Argument:
        """Compute it, or record that in the graph that the stream captures."""
        KERNELS.count(self.name)
        if torch.cuda.is_current_stream_capturing():
            return self._captured(args, kwargs)
        return self._run(args, kwargs)

    def _run(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        shared = Shared()
        values, spec = pytree.tree_flatten((args, kwargs))
        args, kwargs = pytree.tree_unflatten([shared.host(value) for value in values], spec)
        result = self._random(args, kwargs, shared) if self.random else self._call(args, kwargs)
        for position, argument in enumerate(self.written):
            if argument:
                given = args[position] if position < len(args) else kwargs.get(self.names[position])
                for tensor in pytree.tree_leaves(given):
                    if isinstance(tensor, Tensor):
                        shared.wrote(tensor)
        return pytree.tree_map_only(Tensor, shared.device, result)

    def _call(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        return self._widely(args, kwargs) if self.wide else self.call(*args, **kwargs)

    def _refuse(self, *args: Argument, **kwargs: Argument) -> Argument:
        raise NotImplementedError(
            f"aten::{self.name}: PyTorch has no kernel of it for CPUs, and its kernel for CUDA is machine code without PTX"
        )

    def _widely(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        """Compute numbers of 16 bits in 32, or those of 32 in 64, and round the results."""
        rounded = 16 if self.rounded is None else self.rounded
        given = [v.dtype if isinstance(v, Tensor) else v for v in args]
        narrow = kwargs.get("dtype") or next((v for v in given if v in NARROW), None)
        if (
            "half_to_float" in self.names and args[self.names.index("half_to_float")]
        ):  # a result of 32 bits: CUDA's alone
            return self.call(args[0].float(), args[1], False, **kwargs)  # noqa: FBT003
        if narrow is None and self.long and torch.float32 in given:
            narrow = torch.float32
        if narrow not in WIDER:
            return self.call(*args, **kwargs)
        args, kwargs = pytree.tree_map(lambda v: WIDER[narrow] if v is narrow else v, (args, kwargs))
        tensors = [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, Tensor) and v.dtype == narrow]
        wide = {id(v): v.to(WIDER[narrow]) for v in tensors}
        asked = {id(wide[id(v)]): v for v in tensors}
        args, kwargs = pytree.tree_map(lambda v: wide.get(id(v), v), (args, kwargs))
        results, spec = pytree.tree_flatten(self.call(*args, **kwargs))
        for position, result in enumerate(results):
            if id(result) in asked:  # for by out=, or changed in place
                results[position] = asked[id(result)].resize_(result.shape).copy_(result)
            elif isinstance(result, Tensor) and result.dtype == WIDER[narrow] and position < rounded:
                results[position] = result.to(narrow)
        return pytree.tree_unflatten(results, spec)

    def _random(self, args: tuple[Argument, ...], kwargs: dict[str, Argument], shared: Shared) -> Argument:
        """Draw from a generator of the CPU that the state of CUDA's determines; seeds repeat."""
        generator = next((v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, torch.Generator)), None)
        if generator is None or generator.device.type != "cuda":
            generator = torch.cuda.default_generators[torch.cuda.current_device()]
        offset = generator.get_offset()
        generator.set_offset(offset + 4)
        seed = (generator.initial_seed() + GOLDEN * (offset // 4 + 1)) % (1 << 63)
        if self.generator:
            drawn = torch.Generator().manual_seed(seed)
            position = self.names.index("generator")
            if position < len(args):
                args = (*args[:position], drawn, *args[position + 1 :])
            else:
                kwargs = {**kwargs, "generator": drawn}
            return self._call(args, kwargs)
        with torch.random.fork_rng(devices=()):
            torch.default_generator.manual_seed(seed)
            return self._call(args, kwargs)

    def _captured(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        """In the capture of a graph: results of the right shapes now, the values whenever the graph runs."""
        values, spec = pytree.tree_flatten((args, kwargs))
        copies = {id(v): _copy(v) for v in values if isinstance(v, Tensor) and v.is_cuda}
        trial = pytree.tree_unflatten([copies.get(id(v), v) for v in values], spec)
        with torch.random.fork_rng(devices=()):
            shapes = self.call(*trial[0], **trial[1])
        where = next((v.device for v in values if id(v) in copies), torch.device("cuda"))
        given = {id(copies[id(v)]): v for v in values if id(v) in copies}
        results = pytree.tree_map_only(Tensor, lambda r: given.get(id(r), _like(r, where)), shapes)

        def again() -> None:
            new = self._run(args, kwargs)
            for kept, made in zip(pytree.tree_leaves(results), pytree.tree_leaves(new), strict=True):
                if isinstance(kept, Tensor) and kept is not made:
                    operator("copy_")._run((kept, made), {})

        PROCESS.stream(torch.cuda.current_stream().cuda_stream).submit(Call(again))
        return results


@functools.cache
def operator(name: str) -> Operator:
    """The operator of a name, made when it is first called."""
    return Operator(name)


class Shared:
    """Tensors of the CPU that share the memory of those of the GPU, for one call."""

    def __init__(self) -> None:
        self.given: dict[int, tuple[Tensor, Tensor]] = {}
        self.storages: dict[int, Tensor] = {}
        self.where = torch.device("cuda")

    def host(self, value: Argument) -> Argument:
        """An argument as the CPU takes it."""
        if isinstance(value, torch.device) and value.type == "cuda":
            return torch.device("cpu")
        if not isinstance(value, Tensor) or not value.is_cuda:
            return value
        made, self.where = _host(value), value.device
        self.given[id(made)] = made, value
        if value.layout is torch.strided:
            self.storages[made.untyped_storage().data_ptr()] = value
        return made

    def wrote(self, tensor: Tensor) -> None:
        """Note that an argument was written: its bytes are defined, or its result became another size."""
        made, value = self.given.get(id(tensor), (None, None))
        if value is None or made is None:
            return
        if made.shape != value.shape:
            value.resize_(made.shape)
            value.as_strided_(made.size(), made.stride())
            _host(value).copy_(made)
        _define(value)

    def device(self, result: Tensor) -> Tensor:
        """A result as a tensor of the GPU: an argument, a view of one, or a new one."""
        if id(result) in self.given:
            return self.given[id(result)][1]
        if result.is_cuda:
            return result
        if result.layout is torch.strided and result.numel():
            base = self.storages.get(result.untyped_storage().data_ptr())
            if base is not None:
                return _as_lazy(base.as_strided(result.size(), result.stride(), result.storage_offset()), result)
        return _to_device(result, self.where)


def _host(value: Tensor) -> Tensor:
    """A tensor of the CPU on the bytes of one of the GPU."""
    if value.layout is torch.sparse_coo:
        return torch._sparse_coo_tensor_unsafe(
            _host(value._indices()), _host(value._values()), value.size()
        )._coalesced_(value.is_coalesced())
    if value.layout is not torch.strided:
        raise NotImplementedError(f"tensors of layout {value.layout} on the simulated GPU")
    storage = value.untyped_storage()
    nbytes = storage.nbytes()
    empty = torch.empty(0, dtype=value.dtype)
    if not nbytes:
        return empty.set_(empty.untyped_storage(), 0, value.size(), value.stride())
    data = PROCESS.memory.bytes_at(storage.data_ptr(), nbytes)
    empty.set_(torch.from_numpy(data).untyped_storage(), value.storage_offset(), value.size(), value.stride())
    return _as_lazy(empty, value)


def _as_lazy(made: Tensor, value: Tensor) -> Tensor:
    """A view that conjugates and negates what lies in memory where another tensor does."""
    if value.is_conj() != made.is_conj():
        made = made.conj()
    return torch._neg_view(made) if value.is_neg() != made.is_neg() else made


def _define(value: Tensor) -> None:
    if value.numel() and value.layout is torch.strided:
        size = value.element_size()
        PROCESS.memory.define(value.data_ptr(), (*value.shape, size), (*(s * size for s in value.stride()), 1))


def _like(result: Tensor, where: torch.device) -> Tensor:
    return torch.empty_strided(result.size(), result.stride(), dtype=result.dtype, device=where)


def _to_device(result: Tensor, where: torch.device) -> Tensor:
    if result.layout is torch.sparse_coo:
        parts = _to_device(result._indices(), where), _to_device(result._values(), where)
        return torch._sparse_coo_tensor_unsafe(*parts, result.size())._coalesced_(result.is_coalesced())
    made = _like(result, where)
    _host(made).copy_(result)
    _define(made)
    return made


def _copy(value: Tensor) -> Tensor:
    return _host(value).clone() if value.numel() else _host(value)


KERNELS = CpuKernels()

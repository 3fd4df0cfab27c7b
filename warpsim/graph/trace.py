"""Calls a body once with stand-ins for arrays, which record the operations on them.

A body serves whole batches, so it must be right for every lane once some other lane has taken a branch: ``any()`` counts
as true and ``all()`` as false, and one pass through the body is enough. Constants are folded by NumPy itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from warpsim.graph.nodes import LANES, Node, Untraceable, bits, cast, constant, of_array, operate, where
from warpsim.numerics.arrays import Array, DType
from warpsim.numerics.floating import canonical, nan64
from warpsim.records import define

Axis: TypeAlias = "int | tuple[int, ...] | None"


@define(eq=False)
class Cell:
    """What a stand-in and its views share: they all change when one is written through."""

    node: Node


class Reduced:
    """A number made of all lanes; nobody knows it, and what is asked of it holds."""

    def __array_ufunc__(self, *_: object, **__: object) -> bool:
        return True

    def _holds(self, other: object = None) -> bool:
        return True

    __bool__ = __lt__ = __le__ = __gt__ = __ge__ = _holds
    __eq__ = __ne__ = _holds
    __hash__ = None  # type: ignore[assignment]


class Lane(np.lib.mixins.NDArrayOperatorsMixin):
    """Stands for an array of lanes in a body."""

    __slots__ = ("cell", "dtype", "shape")

    def __init__(self, node: Node, shape: tuple[int, ...] = (2,), cell: Cell | None = None) -> None:
        self.cell = Cell(node) if cell is None else cell
        self.dtype = node.dtype
        self.shape = shape

    @property
    def node(self) -> Node:
        """What it holds now."""
        return bits(self.cell.node, self.dtype)

    def put(self, node: Node) -> None:
        """Write through it."""
        self.cell.node = bits(cast(node, self.dtype), self.cell.node.dtype)

    def __array__(self, *_: object, **__: object) -> Array:
        raise Untraceable("an array is wanted")

    def _refuse(self) -> NoReturn:
        raise Untraceable("a number is wanted")

    __bool__ = __int__ = __float__ = __index__ = __len__ = __iter__ = _refuse
    __hash__ = None  # type: ignore[assignment]

    # ---- what bodies ask of arrays ----------------------------------------------------------------

    @property
    def size(self) -> int:
        """More than one element."""
        return int(np.prod(self.shape))

    @property
    def ndim(self) -> int:
        """Axes."""
        return len(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """No axis is repeated."""
        return tuple([self.dtype.itemsize] * len(self.shape))

    def view(self, dtype: DTypeLike) -> Lane:
        """The same cell as another type."""
        return Lane(bits(self.node, np.dtype(dtype)), self.shape, self.cell)

    def astype(self, dtype: DTypeLike, *, copy: bool = True, **_: object) -> Lane:
        """Converted, in a cell of its own."""
        return Lane(cast(self.node, np.dtype(dtype)), self.shape)

    def copy(self) -> Lane:
        """A cell of its own."""
        return Lane(self.node, self.shape)

    def reshape(self, *_: object) -> Lane:
        """Shapes mean nothing here."""
        return self

    def byteswap(self) -> Lane:
        """Bytes in reverse order."""
        return Lane(Node("byteswap", (self.node,), self.dtype), self.shape)

    def any(self, axis: Axis = None, *, keepdims: bool = False) -> Lane | bool:
        """True; along the lanes, a value."""
        return True if axis is None else self._along("or", axis)

    def all(self, axis: Axis = None, *, keepdims: bool = False) -> Lane | bool:
        """False; along the lanes, a value."""
        return False if axis is None else self._along("and", axis)

    def min(self, axis: Axis = None, *, keepdims: bool = False) -> Lane | Reduced:
        """The least."""
        return Reduced() if axis is None else self._along("minimum", axis)

    def max(self, axis: Axis = None, *, keepdims: bool = False) -> Lane | Reduced:
        """The greatest."""
        return Reduced() if axis is None else self._along("maximum", axis)

    def _along(self, name: str, axis: Axis) -> Lane:
        if axis != 1 or self.shape != (1, LANES, 1):
            raise Untraceable(f"a reduction along axis {axis}")
        return Lane(Node("reduce", (self.node,), self.dtype, name), self.shape)

    def take(self, index: ArrayLike, axis: Axis = None, **_: object) -> Lane:
        """Other lanes of the warp."""
        return take_lanes(self, index, axis)

    def __getitem__(self, key: object) -> Lane:
        if self.shape == (1, LANES, 1) and isinstance(key, tuple) and isinstance(key[1], slice):
            start, stop = key[1].start or 0, key[1].stop
            if stop == start + 1:
                return Lane(Node("lane", (self.node,), self.dtype, start), self.shape)
        raise Untraceable("an index")

    def __setitem__(self, key: object, value: ArrayLike) -> None:
        if key is Ellipsis:
            self.put(node_of(value, self.dtype))
            return
        if not isinstance(key, Lane) or key.dtype != np.bool_:
            raise Untraceable("an index")
        self.put(where(key.node, cast(node_of(value, self.dtype), self.dtype), self.node))

    # ---- NumPy's protocols ------------------------------------------------------------------------

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple[object, ...] | None = None, **options: Any
    ) -> Lane | Reduced | bool:
        if method == "reduce":
            if options.get("axis", 0) is None:
                return Reduced()
            name = {"add": "add", "bitwise_or": "or", "bitwise_and": "and", "bitwise_xor": "xor"}.get(ufunc.__name__)
            lane: Lane = inputs[0]
            dtype = np.dtype(options.get("dtype") or lane.dtype)
            return Lane(cast(lane.node, dtype), lane.shape)._along(name or ufunc.__name__, options["axis"])
        if method != "__call__" or options.keys() - {"dtype", "casting"}:
            raise Untraceable(f"{ufunc.__name__}.{method}")
        if any(isinstance(x, Reduced) for x in inputs):
            return True
        node = apply(ufunc, inputs, options.get("dtype"))
        target = out[0] if out else None
        if isinstance(target, Lane):
            target.put(node)
            return target
        return Lane(node, self.shape if self.shape != (2,) else shape_of(inputs))

    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
        handler = FUNCTIONS.get(function.__name__)
        if handler is None:
            raise Untraceable(f"np.{function.__name__}")
        return handler(*arguments, **keywords)


def shape_of(values: Sequence[object]) -> tuple[int, ...]:
    """The shape of what is computed from some values."""
    return next((v.shape for v in values if isinstance(v, Lane) and v.shape != (2,)), (2,))


def node_of(value: ArrayLike, dtype: DType | None = None) -> Node:
    """A node of a stand-in, or a constant of anything else; Python's numbers take ``dtype``."""
    if isinstance(value, Lane):
        return value.node
    if isinstance(value, (bool, int, float)) and dtype is not None:
        return constant(value, dtype)
    return of_array(np.asarray(value))


def _weak(value: ArrayLike) -> DType | type:
    if isinstance(value, (bool, np.bool_)):
        return np.dtype(np.bool_)
    return (
        type(value)
        if type(value) in (int, float)
        else np.dtype(getattr(value, "dtype", None) or np.asarray(value).dtype)
    )


def apply(ufunc: np.ufunc, inputs: Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Node:
    """A ufunc on stand-ins and constants, in the types that NumPy would choose."""
    if ufunc.nout != 1:
        raise Untraceable(ufunc.__name__)
    try:
        typed: dict[str, Any] = {} if dtype is None else {"signature": (*(None for _ in inputs), np.dtype(dtype))}
        chosen = ufunc.resolve_dtypes((*map(_weak, inputs), None), **typed)
    except (TypeError, ValueError) as problem:
        raise Untraceable(f"{ufunc.__name__}: {problem}") from None
    return operate(ufunc, [cast(node_of(x, t), t) for x, t in zip(inputs, chosen, strict=False)], chosen[-1])


def _where(condition: ArrayLike, yes: ArrayLike, no: ArrayLike) -> Lane:
    dtype = np.result_type(*[x if type(x) in (int, float) else _weak(x) for x in (yes, no)])
    nodes = [cast(node_of(x, dtype), dtype) for x in (yes, no)]
    return Lane(where(cast(node_of(condition), np.dtype(np.bool_)), *nodes), shape_of((condition, yes, no)))


def _copyto(target: Lane, value: ArrayLike, *, where: Lane | bool = True, **_: object) -> None:
    if where is not True:
        target[where] = value
    else:
        target.put(cast(node_of(value, target.dtype), target.dtype))


WARP = 1, LANES, 1


def take_lanes(x: ArrayLike, index: ArrayLike, axis: Axis = None) -> Lane:
    """Each lane's value from the lane that ``index`` names."""
    if axis != 1:
        raise Untraceable("take")
    node = x.node if isinstance(x, Lane) else node_of(x)
    return Lane(Node("gather", (node, cast(node_of(index), np.dtype(np.int32))), node.dtype), (1, LANES, 1))


def _lookup(table: Array, index: Lane) -> Lane:
    return Lane(Node("table", (cast(index.node, np.dtype(np.int64)),), table.dtype, table), index.shape)


def _rounded(op: str, mode: str, *operands: ArrayLike) -> Lane:
    """An operation that is rounded once."""
    dtype = next(x for x in operands if isinstance(x, Lane)).dtype
    nodes = tuple([cast(node_of(x, dtype), dtype) for x in operands])
    return Lane(Node(op, nodes, dtype, mode), shape_of(operands))


def _like(value: int) -> Callable[..., Lane]:
    return lambda x, dtype=None, **_: Lane(constant(value, np.dtype(dtype or x.dtype)), x.shape)


def trace(function: Callable[..., Any], *arguments: object, **ports: object) -> Any:
    """What a body gives for stand-ins.

    Raises:
        Untraceable: where it does something else with them than arithmetic.
    """
    with np.errstate(all="ignore"):
        try:
            return function(*arguments, **ports)
        except Untraceable:
            raise
        except Exception as problem:  # a body that meets a stand-in where it needs an array may fail in any way
            raise Untraceable(f"{type(problem).__name__}: {problem}") from None


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "where": _where,
    "clip": lambda x, low, high, **_: np.minimum(np.maximum(x, low), high),
    "any": lambda x, axis=None, **_: x.any(axis),
    "all": lambda x, axis=None, **_: x.all(axis),
    "broadcast_to": lambda x, shape, **_: Lane(x.node, WARP) if tuple(shape) == WARP else x,
    "broadcast_arrays": lambda *xs, **_: list(xs),
    "copyto": _copyto,
    "zeros_like": _like(0),
    "ones_like": _like(1),
    "full_like": lambda x, value, dtype=None, **_: _like(value)(x, dtype),
    "take_along_axis": take_lanes,
    "copy": lambda x, **_: x.copy(),
    "shape": lambda x: x.shape,
    "iscomplexobj": lambda x: False,
    "lookup": _lookup,
    "_fma_of_many": lambda a, b, c: canonical(_rounded("fma", "rn", a, b, c)),  # type: ignore[arg-type]
    "fma64": lambda a, b, c, mode="rn": nan64(_rounded("fma", mode, a, b, c), b, c, a),  # type: ignore[arg-type]
    "directed_quotient": lambda a, b, mode: _rounded("divide", mode, a, b),
}

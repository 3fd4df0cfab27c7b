"""Tensors of the host by DLPack, those of types that NumPy does not know among them. Loaded when one is given: a browser has no
ctypes."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from warpsim.host.host_memory import memory_at
from warpsim.numerics.arrays import Array

NARROW = {
    (4, 16): ml_dtypes.bfloat16,
    (7, 8): ml_dtypes.float8_e3m4,
    (8, 8): ml_dtypes.float8_e4m3,
    (9, 8): ml_dtypes.float8_e4m3b11fnuz,
    (10, 8): ml_dtypes.float8_e4m3fn,
    (11, 8): ml_dtypes.float8_e4m3fnuz,
    (12, 8): ml_dtypes.float8_e5m2,
    (13, 8): ml_dtypes.float8_e5m2fnuz,
    (14, 8): ml_dtypes.float8_e8m0fnu,
}
"""By code and bits (dlpack.h, DLDataTypeCode)."""
_CPU, _PINNED = 1, 3


class _Tensor(ctypes.Structure):
    """DLTensor, with which a DLManagedTensor begins."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("ordinal", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


def from_dlpack(value: Any) -> Array:
    """An array on the memory of a tensor of the host, writable unless its owner says that it is not."""
    try:
        found: Array = np.from_dlpack(value)
    except (RuntimeError, BufferError, TypeError):
        narrow = _narrow(value.__dlpack__())
        if narrow is None:
            raise
        return narrow
    if found.flags.writeable or not found.flags.c_contiguous:
        return found
    try:
        read_only = "versioned" in repr(value.__dlpack__(max_version=(1, 0)))
    except TypeError:
        read_only = False  # NumPy treats memory as read-only if the exporter does not say
    if read_only:
        return found
    start = found.__array_interface__["data"][0]
    return memory_at(start, found.nbytes, found).view(found.dtype).reshape(found.shape)


def _narrow(capsule: object) -> Array | None:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.argtypes, get.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    tensor = ctypes.cast(get(capsule, b"dltensor"), ctypes.POINTER(_Tensor)).contents
    dtype = NARROW.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1 or tensor.device not in (_CPU, _PINNED):
        return None
    itemsize = tensor.bits // 8
    shape = tensor.shape[: tensor.rank]
    if not all(shape):
        return np.zeros(shape, dtype)
    strides = [itemsize * s for s in tensor.strides[: tensor.rank]] if tensor.strides else None
    contiguous = itemsize * int(np.prod(shape, dtype=np.int64))
    reach = itemsize + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if strides else contiguous
    memory = memory_at(tensor.data + tensor.offset, reach, capsule)
    return np.ndarray(tuple(shape), dtype, buffer=memory, strides=strides)

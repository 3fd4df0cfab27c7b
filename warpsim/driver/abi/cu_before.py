"""Launches as before CUDA 4, which PyCUDA makes: a function keeps its block and its parameters from call to call."""

from __future__ import annotations

import struct
import weakref

from warpsim.driver.abi.calls import call
from warpsim.driver.abi.cu_work import function_for, submit
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.modules import Function
from warpsim.driver.raw import bytes_at
from warpsim.driver.results import require
from warpsim.driver.streams import Stream
from warpsim.driver.work import Dims, Launch
from warpsim.program.program import MAX_PARAM_BYTES
from warpsim.records import define


@define(eq=False)
class Kept:
    """What a function keeps for its next launch."""

    block: Dims = (1, 1, 1)
    shared: int = 0
    params: bytes = b""


_KEPT: weakref.WeakKeyDictionary[Function, Kept] = weakref.WeakKeyDictionary()


def kept(function: Function) -> Kept:
    """What has been set for a function."""
    return _KEPT.setdefault(function, Kept())


@call("fIII", "cuFuncSetBlockShape")
def set_block(function: Function, *block: int) -> None:
    x, y, z = block
    require(min(block) > 0, f"a block of {x} x {y} x {z} threads")
    kept(function).block = (x, y, z)


@call("fU", "cuFuncSetSharedSize")
def set_shared(function: Function, nbytes: int) -> None:
    kept(function).shared = nbytes


@call("fU", "cuParamSetSize")
def set_size(function: Function, nbytes: int) -> None:
    require(nbytes <= MAX_PARAM_BYTES, f"{nbytes} bytes of parameters")
    kept(function).params = kept(function).params[:nbytes].ljust(nbytes, b"\0")


def put(function: Function, offset: int, data: bytes) -> None:
    """Set bytes of the parameters."""
    require(0 <= offset <= MAX_PARAM_BYTES - len(data), f"parameters at {offset}")
    before = kept(function).params.ljust(offset, b"\0")
    kept(function).params = before[:offset] + data + before[offset + len(data) :]


call("fIU", "cuParamSeti")(lambda function, at, word: put(function, at, struct.pack("<I", word)))
call("fIr", "cuParamSetf")(lambda function, at, value: put(function, at, struct.pack("<f", value)))
call("fIOU", "cuParamSetv")(
    lambda function, at, data, nbytes: put(function, at, bytes_at(data, min(nbytes, MAX_PARAM_BYTES + 1)))
)


@call("fIIs", "cuLaunchGridAsync")
def launch_grid(function: Function, width: int, height: int, stream: Stream) -> None:
    own, needed = kept(function), function.parameter_bytes
    require(width > 0 and height > 0, f"a grid of {width} x {height} blocks")
    require(len(own.params) >= needed, f"{function.name} takes {needed} bytes of parameters; {len(own.params)} are set")
    work = Launch(function_for(function, stream), (width, height, 1), own.block, own.params[:needed], own.shared)
    submit(work, stream)


call("fII", "cuLaunchGrid")(lambda function, width, height: launch_grid(function, width, height, PROCESS.stream(0)))
call("f", "cuLaunch")(lambda function: launch_grid(function, 1, 1, PROCESS.stream(0)))

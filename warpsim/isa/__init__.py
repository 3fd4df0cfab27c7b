"""Instructions, by the chapters of the PTX manual; importing this package declares all of them."""

from warpsim.isa import (  # noqa: F401
    atomics,
    barriers,
    compare,
    control,
    convert,
    copies,
    data_movement,
    extended,
    floating,
    half,
    integer,
    logic,
    matrix_moves,
    memory_access,
    mma,
    proxies,
    video,
    warp,
    wgmma,
    wmma,
)

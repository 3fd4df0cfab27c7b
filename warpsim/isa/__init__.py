"""Instruction declarations, one per instruction, by chapter of the PTX manual. Importing this package declares all of
them, those that few programs have when they are first looked up.

A declaration is the manual's syntax block above a function on arrays::

    @instruction("add.type d, a, b; ...", anchor="...", traits=...)     registry, spec, syntax: blocks to `Form`
    def add(op, a, b): ...                                              integer, floating, warp, mma, wgmma ...

    cp.async.wait_group 0 -> `matching`: the forms that a spelling may be, each with its `Op` (modifiers), the types and
                             limits of its operands, and its `Traits`

A body asks `ports` for everything beyond computing; the machine implements them: memory, mbarrier objects, copies.
`traits` holds what others must know about an instruction, so that they need no opcode: how it ends a block, what it
orders. `graphs` has what follows from a body. `unsupported` lists the rest of PTX. Arithmetic is in numerics/,
fragments are in layout/.
"""

from warpsim.isa import (  # noqa: F401
    atomics,
    barriers,
    compare,
    control,
    convert,
    convert_pairs,
    copies,
    data_movement,
    extended,
    floating,
    half,
    integer,
    logic,
    matrix_moves,
    mbarrier,
    memory_access,
    mma,
    mma_sp,
    textures,
    warp,
    wgmma,
)
from warpsim.isa.spec import REGISTRY

_RARE = (
    ("clusterlaunchcontrol", "cluster_launch"),
    ("multimem", "multimem"),
    ("tcgen05", "tcgen05_mma tcgen05_order tensor_copies tensor_memory"),
    ("tensormap", "tensormaps"),
    ("vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4", "video"),
    ("vset vset2 vset4 vshl vshr vsub vsub2 vsub4", "video"),
    ("wmma", "wmma"),
)
"""Opcodes of few programs, and the modules that declare them, and no others: a process without them starts 3 % sooner."""
for _roots, _modules in _RARE:
    REGISTRY.later |= dict.fromkeys(_roots.split(), tuple([f"{__name__}.{module}" for module in _modules.split()]))
DECLARED = REGISTRY.revision
"""The revision of the registry that holds these declarations alone."""

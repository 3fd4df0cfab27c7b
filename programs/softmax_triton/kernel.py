"""Softmax of each row and where its maximum is, in Triton. `compile` gives kernel.ptx without a GPU."""

import triton
import triton.language as tl


@triton.jit
def softmax_max(x, out, index, columns, BLOCK: tl.constexpr):
    """One row for each program."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    top, where = tl.max(v, 0, return_indices=True)
    e = tl.exp(v - top)
    tl.store(out + row * columns + at, e / tl.sum(e, 0), mask=at < columns)
    tl.store(index + row, where)


if __name__ == "__main__":
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {"x": "*fp32", "out": "*fp32", "index": "*i32", "columns": "i32", "BLOCK": "constexpr"}
    source = ASTSource(softmax_max, signature=signature, constexprs={"BLOCK": 512})
    print(triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4}).asm["ptx"])

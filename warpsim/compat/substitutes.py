"""Operators that PyTorch has for CUDA alone, computed by operators that it has for CPUs.

Fused attention is its formula in 32 bits; cells of recurrent networks keep their gates for the backward pass. What has
another output type is computed in that. Each function takes what the operator's schema says, as tensors of the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Argument = Any
"""What PyTorch passes to an operator, or takes as its result: tensors, numbers, lists of them."""


def find(name: str) -> Callable[..., Argument] | None:
    """What computes an operator instead, by its name without ``aten::``; None if nothing does."""
    base, _, overload = name.partition(".")
    if overload in ("dtype", "dtype_out"):
        return _typed(base)
    if name in OWN:
        return OWN[name]
    from torch._decomp import decomposition_table  # slow to import

    found = decomposition_table.get(getattr(getattr(torch.ops.aten, base), overload or "default"))
    return found if callable(found) else None


def _typed(base: str) -> Callable[..., Argument]:
    """A product with another output type: ``mm.dtype(self, mat2, out_dtype)``."""
    operator = getattr(torch.ops.aten, base)

    def compute(*args: Argument, out: Tensor | None = None, **scales: Argument) -> Tensor:
        *tensors, dtype = args
        found: Tensor = operator(*[tensor.to(dtype) for tensor in tensors], **scales)
        return found if out is None else out.copy_(found)

    return compute


# ---- attention, tensors of (batch, heads, length, width) ---------------------------------------------


def _scores(
    query: Tensor, key: Tensor, bias: Tensor | None, *, causal: bool, scale: float | None
) -> tuple[Tensor, float]:
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query.float() @ _grouped(key, query).mT * factor
    if bias is not None:
        scores = scores + bias.float()
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    return scores, factor


def _grouped(tensor: Tensor, query: Tensor) -> Tensor:
    """Keys or values in 32 bits, repeated for the heads of the queries that share them."""
    return tensor.float().repeat_interleave(query.shape[1] // tensor.shape[1], 1)


def _attend(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, dropout: float, *, causal: bool, scale: float | None
) -> tuple[Tensor, Tensor]:
    """The output, and the logarithm of each row's sum."""
    if dropout:
        raise NotImplementedError(
            "fused attention with dropout on the simulated GPU: leave the kernel's choice to PyTorch"
        )
    scores, _ = _scores(query, key, bias, causal=causal, scale=scale)
    sums = scores.logsumexp(-1)
    rows = sums.masked_fill(sums == float("-inf"), 0)  # rows that see nothing are zero
    output = (scores - rows[..., None]).exp() @ _grouped(value, query)
    return output.to(query.dtype), sums


def _attend_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    output: Tensor,
    sums: Tensor,
    *,
    causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    scores, factor = _scores(query, key, bias, causal=causal, scale=scale)
    rows = sums[..., : query.shape[2]].masked_fill(sums[..., : query.shape[2]] == float("-inf"), 0)
    weights = (scores - rows[..., None]).exp()
    wide = grad.float()
    of_weights = wide @ _grouped(value, query).mT
    of_scores = weights * (of_weights - (wide * output.float()).sum(-1, keepdim=True))

    def together(of_heads: Tensor, like: Tensor) -> Tensor:
        return of_heads.unflatten(1, (like.shape[1], -1)).sum(2).to(like.dtype)

    return (
        (of_scores @ _grouped(key, query) * factor).to(query.dtype),
        together(of_scores.mT @ query.float() * factor, key),
        together(weights.mT @ wide, value),
        of_scores if bias is None else of_scores.sum_to_size(bias.shape).to(bias.dtype),
    )


def _seed() -> Tensor:
    return torch.zeros((), dtype=torch.int64)


def _nothing() -> Tensor:
    return torch.empty(0)


def _flash(
    query: Tensor, key: Tensor, value: Tensor, *rest: Argument, scale: float | None = None
) -> tuple[Argument, ...]:
    dropout, causal, _ = rest + (0.0, False, False)[len(rest) :]
    found = _attend(query, key, value, None, dropout, causal=causal, scale=scale)
    return *found, None, None, query.shape[2], key.shape[2], _seed(), _seed(), _nothing()


def _flash_backward(*args: Argument, scale: float | None = None) -> tuple[Tensor, ...]:
    grad, query, key, value, output, sums, *_, causal, _, _ = args
    return _attend_backward(grad, query, key, value, None, output, sums, causal=causal, scale=scale)[:3]


def _efficient(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *rest: Argument, scale: float | None = None
) -> tuple[Tensor, ...]:
    _, dropout, causal = rest + (True, 0.0, False)[len(rest) :]
    return *_attend(query, key, value, bias, dropout, causal=causal, scale=scale), _seed(), _seed()


def _efficient_backward(*args: Argument, scale: float | None = None) -> tuple[Tensor | None, ...]:
    grad, query, key, value, bias, output, sums, _, _, _, wanted, *causal = args
    found = _attend_backward(grad, query, key, value, _bias(bias), output, sums, causal=any(causal), scale=scale)
    return tuple(each if asked else None for each, asked in zip(found, wanted, strict=True))


def _cudnn(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *rest: Argument, scale: float | None = None
) -> tuple[Argument, ...]:
    found = _efficient(query, key, value, bias, *rest[:3], scale=scale)
    return *found[:2], None, None, query.shape[2], key.shape[2], *found[2:], _nothing()


def _cudnn_backward(*args: Argument, scale: float | None = None) -> tuple[Tensor, ...]:
    grad, query, key, value, output, sums, _, _, bias, *_, causal = args
    return _attend_backward(grad, query, key, value, _bias(bias), output, sums, causal=causal, scale=scale)[:3]


def _bias(given: Tensor | None) -> Tensor | None:
    """A backward pass is given an empty tensor for none."""
    return given if given is not None and given.numel() else None


# ---- recurrent cells, gates of (batch, gates times width) --------------------------------------------


def _gates(given: Tensor, hidden: Tensor, first: Tensor | None, second: Tensor | None) -> tuple[Tensor, Tensor]:
    return (given if first is None else given + first), (hidden if second is None else hidden + second)


def _lstm(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, ...]:
    given, hidden = _gates(input_gates, hidden_gates, input_bias, hidden_bias)
    i, f, g, o = (given + hidden).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat((i, f, g, o), 1)


def _lstm_backward(
    grad_hy: Tensor | None,
    grad_cy: Tensor | None,
    cx: Tensor,
    cy: Tensor,
    workspace: Tensor,
    has_bias: bool,  # noqa: FBT001
) -> tuple[Tensor, ...]:
    i, f, g, o = workspace.chunk(4, 1)
    of_hy = torch.zeros_like(cx) if grad_hy is None else grad_hy
    tanh = cy.tanh()
    of_cy = of_hy * o * (1 - tanh * tanh) + (0 if grad_cy is None else grad_cy)
    gates = of_cy * g * i * (1 - i), of_cy * cx * f * (1 - f), of_cy * i * (1 - g * g), of_hy * tanh * o * (1 - o)
    grad = torch.cat(gates, 1)
    return grad, of_cy * f, grad.sum(0) if has_bias else grad.new_empty(0)


def _gru(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, ...]:
    given, hidden = _gates(input_gates, hidden_gates, input_bias, hidden_bias)
    (ir, iz, i), (hr, hz, hn) = given.chunk(3, 1), hidden.chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (i + r * hn).tanh()
    return n + z * (hx - n), torch.cat((r, z, n, hx, hn), 1)


def _gru_backward(
    grad_hy: Tensor,
    workspace: Tensor,
    has_bias: bool,  # noqa: FBT001
) -> tuple[Tensor, ...]:
    r, z, n, hx, hn = workspace.chunk(5, 1)
    of_z, of_n = grad_hy * (hx - n) * z * (1 - z), grad_hy * (1 - z) * (1 - n * n)
    of_r = of_n * hn * r * (1 - r)
    given, hidden = torch.cat((of_r, of_z, of_n), 1), torch.cat((of_r, of_z, of_n * r), 1)
    biases = (given.sum(0), hidden.sum(0)) if has_bias else (given.new_empty(0), given.new_empty(0))
    return given, hidden, grad_hy * z, *biases


OWN: dict[str, Callable[..., Argument]] = {
    "_scaled_dot_product_flash_attention": _flash,
    "_scaled_dot_product_flash_attention_backward": _flash_backward,
    "_scaled_dot_product_efficient_attention": _efficient,
    "_scaled_dot_product_efficient_attention_backward": _efficient_backward,
    "_scaled_dot_product_cudnn_attention": _cudnn,
    "_scaled_dot_product_cudnn_attention_backward": _cudnn_backward,
    "_thnn_fused_lstm_cell": _lstm,
    "_thnn_fused_lstm_cell_backward_impl": _lstm_backward,
    "_thnn_fused_gru_cell": _gru,
    "_thnn_fused_gru_cell_backward": _gru_backward,
}
"""Operators of CUDA alone for which PyTorch has no decomposition."""

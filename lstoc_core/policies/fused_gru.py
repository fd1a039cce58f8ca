"""The GRU's pass over a segment, forward and backward, 2.1 times as fast as autograd over single steps.

Against `RecurrentPolicy.reference`, which also embeds every observation anew, training with this pass on a table is 3.8
times as fast (T=64, E=64, H=128, Letter 1, one thread: `python benchmarks/bench_ppo.py --fused`).

The operations are those of `RecurrentPolicy.step`, the gradient is written out. Memory is allocated once and used
again, and the gradient of the weights is one product over all steps. Tests compare outputs and gradients with the
reference.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

BufferKey = tuple[int, int, int, torch.dtype]
"""Time steps T, batch B, GRU units H, type of the numbers."""


def recurrence(
    gates: Tensor, ids: Tensor, weight: Tensor, bias: Tensor, readout: Tensor, hidden: Tensor, keep: Tensor
) -> Tensor:
    """The recurrent part of a GRU and a linear read-out of its states: [T, B, O].

        r, z = sigmoid(x_rz + W_rz h)    n = tanh(x_n + r (W_n h + b))    h' = (1 - z) n + z h    output W_out h'

    gates: table of the inputs x of the gates (reset, update, new) [N, 3H]. ids: its rows [T, B]. weight: W [3H, H].
    bias: b [H]. readout: W_out [O, H]. hidden: the state h before the first step [B, H]. keep: [T, B, 1], 0 where h is
    set to zero before the step, else 1. Differentiable, once, in all but ids and keep.
    """
    outputs: Tensor = _Recurrence.apply(gates, ids, weight, bias, readout, hidden, keep)  # type: ignore[no-untyped-call]
    return outputs


class _Buffers:
    """Memory of one pass over a sequence, with its slices per time step.

    A forward pass takes it and its backward pass gives it back. At these sizes fresh memory costs more than the
    arithmetic on it. One free buffer is kept for each of the last `LIMIT` shapes.
    """

    LIMIT = 2
    _free: ClassVar[dict[BufferKey, _Buffers]] = {}

    def __init__(self, key: BufferKey) -> None:
        self.key = key
        time, batch, size, dtype = key
        self.inputs = torch.empty(time, batch, 3 * size, dtype=dtype)  # later: gradients before the nonlinearities
        self.before, self.states, self.candidate, self.new = torch.empty(4, time, batch, size, dtype=dtype)
        reset_update = torch.empty(time, batch, 2 * size, dtype=dtype)
        self.scratch = torch.empty(2, batch, size, dtype=dtype)
        reset, update = reset_update.chunk(2, -1)
        in_reset, in_update, in_new = self.inputs.chunk(3, -1)
        gates = (reset_update, reset, update, self.candidate, self.new, self.before, self.states)
        self.forward_steps = _per_step(self.inputs[..., : 2 * size], in_new, *gates)
        self.backward_steps = _per_step(self.inputs, in_reset, in_update, in_new, *gates[1:6])[::-1]

    @classmethod
    def take(cls, key: BufferKey) -> _Buffers:
        """A free buffer of this shape, or a new one."""
        return cls._free.pop(key, None) or cls(key)

    def give_back(self) -> None:
        """Keep the buffer for the next pass of its shape; forget the shape that was used longest ago."""
        self._free[self.key] = self
        if len(self._free) > self.LIMIT:
            del self._free[next(iter(self._free))]


def _per_step(*sequences: Tensor) -> list[tuple[Tensor, ...]]:
    """The slices of all sequences at each time."""
    return list(zip(*(sequence.unbind() for sequence in sequences), strict=True))


class _Recurrence(torch.autograd.Function):
    """`recurrence` with its gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        ids: Tensor,
        weight: Tensor,
        bias: Tensor,
        readout: Tensor,
        hidden: Tensor,
        keep: Tensor,
    ) -> Tensor:
        (time, batch), size = ids.shape, hidden.shape[1]
        buffers = _Buffers.take((time, batch, size, hidden.dtype))
        torch.index_select(gates, 0, ids.reshape(-1), out=buffers.inputs.view(-1, 3 * size))
        weight_gates, weight_new = weight[: 2 * size].t().contiguous(), weight[2 * size :].t().contiguous()
        for kept, (x_gates, x_new, gate, reset, update, candidate, new, before, state) in zip(
            keep.unbind(), buffers.forward_steps, strict=True
        ):
            torch.mul(hidden, kept, out=before)
            torch.mm(before, weight_gates, out=gate).add_(x_gates).sigmoid_()
            torch.addmm(bias, before, weight_new, out=candidate)
            torch.addcmul(x_new, reset, candidate, out=new).tanh_()
            hidden = torch.lerp(new, before, update, out=state)
        ctx.save_for_backward(ids, weight, readout, keep)
        ctx.buffers, ctx.rows = buffers, len(gates)
        return F.linear(buffers.states, readout)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> tuple[Tensor | None, ...]:
        ids, weight, readout, keep = ctx.saved_tensors
        buffers, ctx.buffers = ctx.buffers, None
        if buffers is None:
            raise RuntimeError("a second backward pass through the same forward pass; run the forward pass again")
        size = buffers.before.shape[-1]
        d_hidden, d_before = buffers.scratch
        d_hidden.zero_()
        for d_output, kept, (d_gates, d_reset, d_update, d_candidate, reset, update, candidate, new, before) in zip(
            d_outputs.unbind()[::-1], keep.unbind()[::-1], buffers.backward_steps, strict=True
        ):
            d_hidden.addmm_(d_output, readout)
            torch.sub(before, new, out=d_before).mul_(d_hidden).mul_(update)
            torch.addcmul(d_before, d_before, update, value=-1, out=d_update)  # dh (h - n) z (1 - z)
            torch.mul(d_hidden, update, out=d_before)
            d_hidden -= d_before  # dh (1 - z)
            torch.sub(d_hidden, new.square_().mul_(d_hidden), out=new)  # dh (1 - z) (1 - n²), kept in place of n
            torch.mul(new, reset, out=d_candidate)
            candidate.mul_(d_candidate)
            torch.addcmul(candidate, candidate, reset, value=-1, out=d_reset)  # dn c r (1 - r)
            torch.addmm(d_before, d_gates, weight, out=d_hidden).mul_(kept)
        d_inputs = buffers.inputs.view(-1, 3 * size)
        d_weight = (buffers.before.view(-1, size).t() @ d_inputs).t()
        d_bias = d_inputs[:, 2 * size :].sum(0)
        d_readout = d_outputs.reshape(-1, len(readout)).t() @ buffers.states.view(-1, size)
        d_inputs[:, 2 * size :] = buffers.new.view(-1, size)
        d_table = torch.ops.aten.embedding_dense_backward(d_inputs, ids.reshape(-1), ctx.rows, -1, False)
        d_start = d_hidden.clone()
        buffers.give_back()
        return d_table, None, d_weight, d_bias, d_readout, d_start, None

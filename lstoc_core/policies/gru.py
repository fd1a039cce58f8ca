"""The exploration policy: a GRU actor-critic over a table of distinct observations.

Appendix "Neural Architecture" of the paper: an observation is embedded by a two-layer MLP of 128 neurons, or by the CNN
of Mnih et al. (2015) for pixels; a GRU of 128 (pixels: 256) units follows; the outputs, action and predicted value, are
conditioned on both the hidden state and the embedding.

Observations repeat, so they arrive as ids into a table. Everything that depends on one observation alone is worked out
once per row of the table: its `embedding`, and by `project` its share of the GRU's gates and of the outputs. A sequence
then only gathers rows and runs the recurrent part. Gradients are those of embedding every observation anew.
Observations that do not repeat work likewise: the table is the batch, the ids are 0, 1, 2, ...
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from lstoc_core.trajectories.representation import is_pixels, nature_cnn


class Projection(NamedTuple):
    """What each row of a table of N observations contributes."""

    gates: Tensor
    """To the GRU's gates (reset, update, new): [N, 3H]."""
    outputs: Tensor
    """To the action logits and the value: [N, A + 1]."""


class Step(NamedTuple):
    """Outputs for a batch of observations: logits [B, A], value [B], and the hidden state after it [B, H]."""

    logits: Tensor
    value: Tensor
    hidden: Tensor


class RecurrentPolicy(nn.Module):
    """GRU actor-critic.

    observation_shape, dtype: of one observation; what is not pixels (`is_pixels`) is flattened. hidden: GRU units H
    (128; pixels 256). features: embedding size F (128; pixels 512). memoryless: forget the hidden state before each
    step, the ablation that shows what memory buys.
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        dtype: np.dtype | type,
        num_actions: int,
        *,
        hidden: int | None = None,
        features: int | None = None,
        memoryless: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.pixels = is_pixels(observation_shape, dtype)
        self.num_actions = num_actions
        self.hidden_size = hidden or (256 if self.pixels else 128)
        self.memoryless = memoryless
        size = features or (512 if self.pixels else 128)
        with torch.random.fork_rng(devices=()):  # modules draw initial weights globally; they are drawn again below
            self.embed = (
                nature_cnn(observation_shape, size) if self.pixels else _mlp(math.prod(observation_shape), size)
            )
            self.embed.append(nn.ReLU())
            self.input = nn.Linear(size, 3 * self.hidden_size)
            self.recurrent = nn.Parameter(torch.empty(3 * self.hidden_size, self.hidden_size))
            self.recurrent_bias = nn.Parameter(torch.zeros(self.hidden_size))
            self.output = nn.Linear(size + self.hidden_size, num_actions + 1)
        self._initialise(generator)
        if self.pixels:
            self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def _initialise(self, generator: torch.Generator | None) -> None:
        """Orthogonal weights, zero biases; logits near zero so that the first policy is nearly uniform."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                nn.init.orthogonal_(module.weight, math.sqrt(2), generator=generator)
                nn.init.constant_(module.bias, 0)  # type: ignore[arg-type]
        for weight in (self.input.weight, self.recurrent):
            for gate in weight.detach().chunk(3):
                nn.init.orthogonal_(gate, generator=generator)
        nn.init.orthogonal_(self.output.weight, 0.01, generator=generator)

    def embedding(self, observations: NDArray[Any]) -> Tensor:
        """Embeddings [N, F] of a table of observations [N, ...]."""
        rows = torch.from_numpy(np.ascontiguousarray(observations))
        if self.pixels:  # channels first in meaning, last in memory
            return self.embed(rows.permute(0, 3, 1, 2).to(self.recurrent.dtype).div_(255))
        return self.embed(rows.reshape(len(rows), -1).to(self.recurrent.dtype))

    def project(self, embedding: Tensor) -> Projection:
        """What each embedding [N, F] contributes to gates and outputs."""
        return Projection(
            self.input(embedding), F.linear(embedding, self.output.weight[:, self.hidden_size :], self.output.bias)
        )

    def initial_hidden(self, batch: int) -> Tensor:
        """Hidden state before the first observation of an episode: zeros [B, H]."""
        return torch.zeros(batch, self.hidden_size, dtype=self.recurrent.dtype)

    def step(self, projection: Projection, ids: Tensor, hidden: Tensor) -> Step:
        """One observation per environment: ids [B], hidden state before it [B, H] (zeros where an episode begins)."""
        size = self.hidden_size
        if self.memoryless:
            hidden = torch.zeros_like(hidden)
        x, g = projection.gates[ids], hidden @ self.recurrent.t()
        reset, update = torch.sigmoid(x[:, : 2 * size] + g[:, : 2 * size]).chunk(2, 1)
        new = torch.tanh(torch.addcmul(x[:, 2 * size :], reset, g[:, 2 * size :] + self.recurrent_bias))
        hidden = torch.lerp(new, hidden, update)
        outputs = torch.addmm(projection.outputs[ids], hidden, self.output.weight[:, :size].t())
        return Step(outputs[:, :-1], outputs[:, -1], hidden)

    def forward(self, projection: Projection, ids: Tensor, hidden: Tensor, begins: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [T, B, A] and values [T, B] of T observations per environment.

        ids: [T, B]. hidden: the state before them [B, H]. begins: [T, B], True where an observation is the first of its
        episode, so that nothing from before it reaches it.
        """
        keep = (torch.zeros_like(begins) if self.memoryless else ~begins).to(hidden.dtype).unsqueeze(-1)
        readout = self.output.weight[:, : self.hidden_size]
        outputs = F.embedding(ids, projection.outputs) + _Recurrence.apply(
            projection.gates, ids, self.recurrent, self.recurrent_bias, readout, hidden, keep
        )
        return outputs[..., :-1], outputs[..., -1]


class ProjectedTable:
    """Projections of an environment's observations while the weights do not change, worked out as they come up.

    env: anything with a table `observations`, which may grow. rows: ids expected to come up, projected at once.
    """

    def __init__(self, policy: RecurrentPolicy, env: Any, rows: NDArray[np.integer]) -> None:
        self._policy, self._env = policy, env
        self._slot = np.full(len(env.observations), -1)
        self._slot[rows] = np.arange(len(rows))
        self._projection = self._project(rows)

    def look_up(self, ids: NDArray[np.integer]) -> tuple[Projection, Tensor]:
        """A projection, and the rows of it that stand for the ids."""
        if ids.max() >= len(self._slot):
            more = len(self._env.observations) - len(self._slot)
            self._slot = np.concatenate([self._slot, np.full(more, -1)])
        slots = self._slot[ids]
        if slots.min() < 0:
            rows = np.unique(ids[slots < 0])
            self._slot[rows] = np.arange(len(rows)) + len(self._projection.gates)
            pairs = zip(self._projection, self._project(rows), strict=True)
            self._projection = Projection(*(torch.cat(pair) for pair in pairs))
            slots = self._slot[ids]
        return self._projection, torch.from_numpy(slots)

    def _project(self, rows: NDArray[np.integer]) -> Projection:
        return self._policy.project(self._policy.embedding(self._env.observations[rows]))


def log_policy(logits: Tensor, epsilon: float = 0.0) -> Tensor:
    """Log-probabilities of the policy that acts at random with probability ε: (1 - ε) softmax(logits) + ε/A.

    The mixture is the distribution actions are drawn from, so that PPO's probability ratios and its entropy bonus are
    those of what the agent really does.
    """
    if epsilon == 0:
        return F.log_softmax(logits, -1)
    return torch.log((1 - epsilon) * F.softmax(logits, -1) + epsilon / logits.shape[-1])


def sample(log_probability: Tensor, uniform: Tensor) -> Tensor:
    """Actions [B] by inverting the cumulative distribution of each row [B, A] at uniform draws [B] in [0, 1)."""
    cumulative = log_probability.exp().cumsum(-1)[:, :-1]
    return (uniform.unsqueeze(-1) >= cumulative).sum(-1)


def _mlp(inputs: int, size: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, size), nn.ReLU(), nn.Linear(size, size))


class _Buffers:
    """Memory of one pass over a sequence, with its slices per time step. It is kept from the forward to the backward
    pass and then used again: at these sizes fresh memory costs more than the arithmetic on it."""

    _free: ClassVar[dict[tuple[Any, ...], list[_Buffers]]] = {}

    def __init__(self, time: int, batch: int, size: int, dtype: torch.dtype) -> None:
        self.key = (time, batch, size, dtype)
        self.inputs = torch.empty(time, batch, 3 * size, dtype=dtype)  # later: gradients before the nonlinearities
        self.before, self.states, self.candidate, self.new = torch.empty(4, time, batch, size, dtype=dtype)
        reset_update = torch.empty(time, batch, 2 * size, dtype=dtype)
        self.scratch = torch.empty(2, batch, size, dtype=dtype)
        reset, update = reset_update.split(size, -1)
        in_reset, in_update, in_new = self.inputs.split(size, -1)
        gates = (reset_update, reset, update, self.candidate, self.new, self.before, self.states)
        self.forward_steps = _per_step(self.inputs[..., : 2 * size], in_new, *gates)
        self.backward_steps = _per_step(self.inputs, in_reset, in_update, in_new, *gates[1:6])[::-1]

    @classmethod
    def take(cls, *key: Any) -> _Buffers:
        free = cls._free.get(key)
        return free.pop() if free else cls(*key)

    def give_back(self) -> None:
        type(self)._free.setdefault(self.key, []).append(self)


def _per_step(*sequences: Tensor) -> list[tuple[Tensor, ...]]:
    """The slices of all sequences at each time."""
    return list(zip(*(sequence.unbind() for sequence in sequences), strict=True))


class _Recurrence(torch.autograd.Function):
    """The recurrent part of a GRU over ids [T, B] into a table of projected inputs, and a linear read-out.

    r, z = sigmoid(x_rz + h W_rz); n = tanh(x_n + r (h W_n + b)); h' = (1 - z) n + z h; output h' W_out. The state h is
    set to zero where keep [T, B, 1] is. Against nn.GRU it saves the input projection of every sample, handles episode
    boundaries on the way, and works out the weights' gradient by one product over all time steps.
    """

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
        buffers = _Buffers.take(time, batch, size, hidden.dtype)
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

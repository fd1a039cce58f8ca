"""The exploration policy: a GRU actor-critic (appendix "Neural Architecture" of the paper).

An observation is embedded by a two-layer MLP of 128 neurons, or by the CNN of Mnih et al. (2015) for pixels. A GRU of
128 (pixels: 256) units follows. Two heads, action logits and value, see both the hidden state and the embedding.
`RecurrentPolicy.reference` is that network and nothing else.

Observations repeat, so training takes them as ids into a table of the distinct ones. What depends on one observation
alone is computed once per row of the table: its `embedding`, and by `project` its part of the GRU's gates and of the
heads. `step` and `forward` gather these rows and add the recurrent part. Outputs and gradients equal those of
`reference`. Observations that do not repeat work likewise: the table is the batch, the ids are 0, 1, 2, ...
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from lstoc_core.policies.fused_gru import recurrence
from lstoc_core.trajectories.representation import is_pixels, nature_cnn
from lstoc_core.trajectories.vector_env import ObservationTable

ENOUGH = 20_000
"""Observations after which their normalisation stays as it is."""
FAR = 10.0
"""Largest magnitude of a normalised number."""


class Projection(NamedTuple):
    """The part of gates and heads that depends on the observation alone, for each of N rows of a table."""

    gates: Tensor
    """Inputs of the GRU's gates (reset, update, new): [N, 3H]."""
    outputs: Tensor
    """Share of the action logits and of the value: [N, A + 1]."""


class Step(NamedTuple):
    """Outputs for a batch of B observations: logits [B, A], values [B] and the next hidden state [B, H]."""

    logits: Tensor
    value: Tensor
    hidden: Tensor


class RecurrentPolicy(nn.Module):
    """GRU actor-critic with A actions.

    observation_shape, dtype: of one observation; all but pixels (`is_pixels`) are flattened. Real numbers are
    normalised by what was seen (`see`): each to mean 0 and standard deviation 1, at most `FAR`.
    hidden: GRU units H (default 128; pixels 256). features: embedding size F (default 128; pixels 512).
    memoryless: the hidden state is zero before each step, the ablation that shows what memory buys.
    generator: source of the initial weights.
    """

    _mean: Tensor
    _squares: Tensor
    _seen: Tensor

    def __init__(
        self,
        observation_shape: Sequence[int],
        dtype: DTypeLike,
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
        self.normalised = np.dtype(dtype).kind == "f" and not self.pixels
        """Whether observations are real numbers, which `see` learns to normalise."""
        if self.normalised:
            numbers = math.prod(observation_shape)
            self.register_buffer("_mean", torch.zeros(numbers, dtype=torch.float64))
            self.register_buffer("_squares", torch.zeros(numbers, dtype=torch.float64))  # of distances from the mean
            self.register_buffer("_seen", torch.zeros((), dtype=torch.float64))
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
        """Embeddings [N, F] of observations [N, ...]."""
        rows = torch.from_numpy(np.ascontiguousarray(observations))
        # pixels: channels first in meaning, last in memory
        rows = rows.permute(0, 3, 1, 2) if self.pixels else rows.reshape(len(rows), -1)
        if self.normalised:
            deviation = (self._squares / self._seen.clamp(min=1)).sqrt()
            scale = torch.where(deviation > 0, deviation, 1.0)
            rows = ((rows - self._mean) / scale).clamp(-FAR, FAR)
        inputs = rows.to(self.recurrent.dtype)
        if self.pixels:
            inputs.div_(255)
        embedding: Tensor = self.embed(inputs)
        return embedding

    @torch.no_grad()
    def see(self, observations: NDArray[Any]) -> None:
        """Normalise by these observations [N, ...] and those seen before, until `ENOUGH` were; real numbers only."""
        if self._seen >= ENOUGH:
            return
        rows = torch.from_numpy(np.asarray(observations, np.float64).reshape(len(observations), -1))
        total, distance = self._seen + len(rows), rows.mean(0) - self._mean
        self._squares += (rows - rows.mean(0)).square().sum(0) + distance.square() * self._seen * len(rows) / total
        self._mean += distance * len(rows) / total
        self._seen += len(rows)

    def initial_hidden(self, batch: int) -> Tensor:
        """Hidden state before the first observation of an episode: zeros [B, H]."""
        return torch.zeros(batch, self.hidden_size, dtype=self.recurrent.dtype)

    def reference(
        self, observations: NDArray[Any], ids: Tensor, hidden: Tensor, begins: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The paper's network, one observation after the other; arguments and result as for `forward`.

        observations: the table [N, ...] that the ids point into. Every observation is embedded anew.
        """
        bias = torch.cat([self.recurrent_bias.new_zeros(2 * self.hidden_size), self.recurrent_bias])
        outputs = []
        for row, begin in zip(ids, begins, strict=True):
            embedding = self.embedding(observations[row.numpy()])
            hidden = hidden * ~(begin | self.memoryless).unsqueeze(1)
            hidden = torch.gru_cell(embedding, hidden, self.input.weight, self.recurrent, self.input.bias, bias)
            outputs.append(self.output(torch.cat([hidden, embedding], 1)))
        heads = torch.stack(outputs)
        return heads[..., :-1], heads[..., -1]

    def project(self, embedding: Tensor) -> Projection:
        """The part of gates and heads that depends on the embeddings [N, F] alone."""
        return Projection(
            self.input(embedding), F.linear(embedding, self.output.weight[:, self.hidden_size :], self.output.bias)
        )

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

        ids: rows of the projected table [T, B]. hidden: the state before the first observation [B, H].
        begins: [T, B], True where an observation is the first of its episode; the hidden state is zero before it.
        """
        keep = (torch.zeros_like(begins) if self.memoryless else ~begins).to(hidden.dtype).unsqueeze(-1)
        readout = self.output.weight[:, : self.hidden_size]
        outputs = F.embedding(ids, projection.outputs) + recurrence(
            projection.gates, ids, self.recurrent, self.recurrent_bias, readout, hidden, keep
        )
        return outputs[..., :-1], outputs[..., -1]


class ProjectedTable:
    """Projections of an environment's observations, computed once each, while the weights do not change.

    env: its table `observations` may grow. rows: distinct ids that are projected at once; others when they come up.
    """

    def __init__(self, policy: RecurrentPolicy, env: ObservationTable, rows: NDArray[np.integer[Any]]) -> None:
        self._policy, self._env = policy, env
        self._slot = np.full(len(env.observations), -1)
        self._slot[rows] = np.arange(len(rows))
        self._projection = self._project(rows)

    def look_up(self, ids: NDArray[np.integer[Any]]) -> tuple[Projection, Tensor]:
        """A projection, and for each id [B] its row in it [B]."""
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

    def _project(self, rows: NDArray[np.integer[Any]]) -> Projection:
        return self._policy.project(self._policy.embedding(self._env.observations[rows]))


def log_policy(logits: Tensor, epsilon: float = 0.0) -> Tensor:
    """Log-probabilities of the policy that acts at random with probability ε: (1 - ε) softmax(logits) + ε/A.

    Actions are drawn from this mixture, so PPO's probability ratios and entropy bonus are computed from it too.
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

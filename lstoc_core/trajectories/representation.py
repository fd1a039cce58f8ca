"""State representation o_theta, and the identity of observations that it gives.

First occupancy compares states (Remark in Section "Discovering Next Subgoal"). Where observations repeat bit by bit,
their bytes tell them apart: `ExactIdentity`. Where they do not, o_theta is trained with InfoNCE, and two observations
are the same state if the cosine similarity of their representations exceeds 0.99: `LearnedIdentity`. Both turn
observations into ids of one growing table, so the rest of the library sees only integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor, nn

from lstoc_core.trajectories.identity import ExactIdentity, Identity, Table

__all__ = [
    "MLP",
    "ExactIdentity",
    "Identity",
    "LearnedIdentity",
    "NatureCNN",
    "is_pixels",
    "make_encoder",
    "nature_cnn",
    "represent",
    "train_representation",
]

SAME_STATE = 0.99
"""Cosine similarity above which the paper regards two states as the same."""


class MLP(nn.Module):
    """o_theta of Letter and Office: two layers of 128 (appendix "Neural Architecture"). [n, *shape] -> [n, 128]."""

    def __init__(self, observation_shape: Sequence[int], dimension: int = 128, hidden: int = 128) -> None:
        super().__init__()
        self.dimension = dimension
        inputs = int(np.prod(observation_shape))
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, dimension))

    def forward(self, observations: Tensor) -> Tensor:
        representation: Tensor = self.net(observations.float())
        return representation


class NatureCNN(nn.Module):
    """o_theta of Crafter: the classical three convolutions, pixels 0..255. [n, height, width, channels] -> [n, 512]."""

    def __init__(self, observation_shape: Sequence[int], dimension: int = 512) -> None:
        super().__init__()
        self.dimension = dimension
        self.net = nature_cnn(observation_shape, dimension)

    def forward(self, observations: Tensor) -> Tensor:
        representation: Tensor = self.net(observations.movedim(-1, 1).float() / 255)
        return representation


def nature_cnn(observation_shape: Sequence[int], dimension: int) -> nn.Sequential:
    """The CNN of Mnih et al. (2015), linear at its end: [n, channels, height, width] -> [n, dimension]."""
    height, width, channels = observation_shape
    for kernel, stride in ((8, 4), (4, 2), (3, 1)):
        height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
    return nn.Sequential(
        nn.Conv2d(channels, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1),
        nn.ReLU(), nn.Flatten(), nn.Linear(64 * height * width, dimension),
    )  # fmt: skip


def is_pixels(observation_shape: Sequence[int], dtype: DTypeLike) -> bool:
    """Whether observations are pictures: bytes [height, width, channels] large enough for the three convolutions."""
    return len(observation_shape) == 3 and np.dtype(dtype) == np.uint8 and min(observation_shape[:2]) >= 36


def make_encoder(observation_shape: Sequence[int], dtype: DTypeLike) -> MLP | NatureCNN:
    """The network the paper uses for such observations: NatureCNN for pictures, MLP otherwise."""
    return NatureCNN(observation_shape) if is_pixels(observation_shape, dtype) else MLP(observation_shape)


def train_representation(
    observations: NDArray[Any],
    *,
    seed: int,
    iterations: int = 600,
    batch: int = 128,
    noise: float | None = None,
    temperature: float = 0.1,
    lr: float | None = None,
) -> MLP | NatureCNN:
    """Train o_theta on distinct observations [n, *shape] with InfoNCE (van den Oord et al. 2018; Algorithm 2, line 3).

    A positive pair is two noisy views of one observation; all other observations of the batch are its negatives.
    noise: standard deviation in the observation's own unit; None means 0.1, and 5 of 255 for pictures.
    lr: rate of Adam; None means 0.003, and 0.001 for pictures.
    """
    if len(observations) < 2:
        raise ValueError("telling states apart takes at least 2 distinct observations")
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # layers draw their weights from the global stream; the caller's is restored
        encoder = make_encoder(observations.shape[1:], observations.dtype)
    pictures = isinstance(encoder, NatureCNN)
    noise = (5.0 if pictures else 0.1) if noise is None else noise
    lr = (1e-3 if pictures else 3e-3) if lr is None else lr
    table = torch.as_tensor(observations)
    optimiser = torch.optim.Adam(encoder.parameters(), lr=lr)
    for _ in range(iterations):
        rows = torch.randperm(len(table), generator=generator)[:batch]
        clean = table[rows].float().repeat(2, *[1] * (table.ndim - 1))
        views = clean + noise * torch.randn(clean.shape, generator=generator)
        left, right = nn.functional.normalize(encoder(views), dim=1).chunk(2)
        similarity = left @ right.T / temperature
        own = torch.arange(len(rows))
        loss = nn.functional.cross_entropy(similarity, own) + nn.functional.cross_entropy(similarity.T, own)
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        optimiser.step()
    return encoder


@torch.no_grad()
def represent(encoder: nn.Module, observations: NDArray[Any], batch: int = 512) -> Tensor:
    """Unit representations of observations [n, *shape] -> [n, d]; their products are cosine similarities."""
    parts = [encoder(torch.as_tensor(observations[i : i + batch])) for i in range(0, len(observations), batch)]
    return nn.functional.normalize(torch.cat(parts), dim=1)


class LearnedIdentity:
    """Observations are the same state when the cosine similarity of their representations exceeds the threshold.

    encoder: a trained o_theta (`train_representation`). A row of the table is the first observation of its state.
    """

    def __init__(self, encoder: nn.Module, threshold: float = SAME_STATE) -> None:
        if not -1 < threshold < 1:
            raise ValueError(f"a cosine threshold lies between -1 and 1, not {threshold}")
        self.encoder = encoder
        self._threshold = threshold
        self._table = Table()
        self._vectors = Table()

    @property
    def observations(self) -> NDArray[Any]:
        """The first observation of each state so far, row by id (read-only)."""
        return self._table.rows

    def ids(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """Id of the most similar known state of each observation [n, *shape] -> [n], a new id where none is similar."""
        if len(observations) == 0:
            return np.empty(0, np.int64)
        vectors = represent(self.encoder, observations).numpy()
        out = np.full(len(vectors), -1, np.int64)
        if len(self._vectors):
            similarity = vectors @ self._vectors.rows.T
            out = np.where(similarity.max(1) > self._threshold, similarity.argmax(1), -1)
        while (out < 0).any():  # the first unknown one founds a state; others like it in this batch join it
            first = int(np.argmax(out < 0))
            join = (out < 0) & (vectors @ vectors[first] > self._threshold)
            join[first] = True
            out[join] = len(self._table)
            self._table.append(observations[first])
            self._vectors.append(vectors[first])
        return out

    def state_dict(self) -> dict[str, Any]:
        """The states so far. Their representations are kept as they are: in another batch, last digits differ."""
        return {"vectors": self._vectors.rows.copy()} if len(self._vectors) else {}

    def load_state_dict(self, state: Mapping[str, Any], observations: NDArray[Any]) -> None:
        """Restore what `state_dict` returned. observations: the first one of each state."""
        for row, vector in zip(observations, state.get("vectors", ()), strict=True):
            self._table.append(row)
            self._vectors.append(vector)

    def representation(self, count: int) -> NDArray[np.float32]:
        """o_theta of the first `count` states, [count, d]."""
        return represent(self.encoder, self.observations[:count]).numpy()

"""Importance function f_ω: which state do successes visit soon that failures do not?

Three objectives over positive and negative trajectories (Section "Discovering Next Subgoal", Algorithm 2, and the two
baselines of Section "Learning Subgoals"):

- "lstoc": one positive and B negative states by temporal geometric sampling from first-occupancy representations;
- "baseline1": the same without first occupancy;
- "baseline2": objective (1) over all states of a positive and a negative trajectory, with first occupancy.

Drawing a trajectory, then one of its states, amounts to drawing an id from a fixed distribution. It is computed once
(`geometric_occupancy`), and training steps draw from it. Many independent networks train at once.

`exact=True` gives the optimum over all functions of the id. With the log, the first two objectives are InfoNCE; their
optimum is f = log p⁺(s) / p⁻(s) + constant for every B. Without the log, the expected softmax is largest with all
weight on the largest p⁺ / p⁻, so the same f ranks states correctly. Baseline 2 is not concave and has no closed form;
its optimum is found numerically on all data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lstoc_core.discovery.published.training import CONVERGED, Training
from lstoc_core.trajectories import TrajectoryStore, first_occupancy
from lstoc_core.trajectories.occupancy import check_discount, geometric_occupancy

Objective = Literal["lstoc", "baseline1", "baseline2"]
GAMMA = 0.99
"""Discount of temporal geometric sampling where the environment names none. The paper does not give its value."""
CODE = 15
"""Dimensions of the random directions that represent ids without o_θ; with the bias, 16 inputs."""
RIDGE = 0.1
"""Weight of the penalty mean f² in Baseline 2. Without it, f of useless states would go to minus infinity."""


@dataclass(frozen=True)
class ContrastData:
    """Positive and negative trajectories as the objectives see them."""

    objective: Objective
    positive: NDArray[np.floating]
    """p⁺: probability that sampling from the positives draws each id, [num_ids]."""
    negative: NDArray[np.floating]
    """p⁻: the same for the negatives, [num_ids]."""
    positive_sets: NDArray[np.float32]
    """Baseline 2: whether a positive trajectory visits an id, [trajectories, num_ids]; empty otherwise."""
    negative_sets: NDArray[np.float32]
    """The same for the negative trajectories."""

    @property
    def visited(self) -> NDArray[np.bool_]:
        """Ids that some trajectory visits, [num_ids]."""
        return (self.positive > 0) | (self.negative > 0)


def make_contrast(
    positives: TrajectoryStore, negatives: TrajectoryStore, *, objective: Objective = "lstoc", gamma: float = GAMMA
) -> ContrastData:
    """Contrast positive with negative trajectories, both already cut to the part after the working node (`after`)."""
    if objective not in get_args(Objective):
        raise ValueError(f"objective {objective!r}; choose one of {', '.join(get_args(Objective))}")
    check_discount(gamma)
    num_ids = max(positives.num_ids, negatives.num_ids)
    for name, store in (("positive", positives), ("negative", negatives)):
        if len(store) == 0:
            raise ValueError(f"there is no {name} trajectory to contrast; collect more")
    if objective == "baseline2":
        sets = [_sets(positives, num_ids), _sets(negatives, num_ids)]
        occupancy = [each.mean(0) for each in sets]
    else:
        sets = [np.zeros((0, num_ids), np.float32)] * 2
        occupancy = [
            np.pad(distribution, (0, num_ids - len(distribution)))
            for distribution in (
                geometric_occupancy(store, gamma, first=objective == "lstoc") for store in (positives, negatives)
            )
        ]
    return ContrastData(objective, occupancy[0], occupancy[1], sets[0], sets[1])


def scores(
    positives: TrajectoryStore,
    negatives: TrajectoryStore,
    *,
    objective: Objective = "lstoc",
    gamma: float = GAMMA,
    exact: bool = False,
    smoothing: float = 0.0,
    representation: NDArray[Any] | Tensor | None = None,
    restarts: int = 1,
    seed: int = 0,
    training: Training = CONVERGED,
) -> NDArray[np.float64]:
    """f of each observation id [num_ids], up to a constant; NaN for ids that no trajectory visits.

    exact, smoothing: see `exact_importance`. The rest: see `train_importance`; restarts are averaged.
    """
    contrast = make_contrast(positives, negatives, objective=objective, gamma=gamma)
    if exact:
        return exact_importance(contrast, smoothing=smoothing, log=training.log)
    trained = train_importance([contrast], representation, restarts=restarts, seed=seed, training=training)[0]
    trained -= np.nanmean(trained, axis=1, keepdims=True)
    averaged: NDArray[np.float64] = trained.mean(0)
    return averaged


# --- the optimum over all functions of the id ---


def exact_importance(contrast: ContrastData, *, smoothing: float = 0.0, log: bool = True) -> NDArray[np.float64]:
    """The f that maximises the objective, [num_ids]; NaN for ids that no trajectory visits.

    smoothing: probability added to p⁺ and p⁻. 0 is exact: +inf where only positives go, -inf where only negatives go.
    log: matters for Baseline 2 only; the ranking by the other two is the same.
    """
    if contrast.objective == "baseline2":
        return _tabular_optimum(contrast, log)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(
            contrast.visited, np.log(contrast.positive + smoothing) - np.log(contrast.negative + smoothing), np.nan
        )


def _tabular_optimum(contrast: ContrastData, log: bool) -> NDArray[np.float64]:
    """Baseline 2 by L-BFGS over one number per id, on all data.

    A peak at any state that all positives visit is a local optimum, so the best of several starts is taken: zero, and a
    peak at each of the three states where positives exceed negatives most.
    """
    loss = _full_loss(contrast, log, torch.float64)
    peaks = np.argsort(contrast.negative - contrast.positive)[:3]
    starts = torch.zeros(1 + len(peaks), len(contrast.positive), dtype=torch.float64)
    starts[np.arange(1, len(starts)), peaks] = 5.0
    found = [_local_optimum(loss, start[None]) for start in starts]
    best = min(found, key=lambda f: float(loss(f)))
    return np.where(contrast.visited, best[0].numpy(), np.nan)


def _local_optimum(loss: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """A local minimum of the loss [1, num_ids] near the start."""
    f = start.clone().requires_grad_()
    optimiser = torch.optim.LBFGS(
        [f], max_iter=500, history_size=20, tolerance_grad=1e-9, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss(f).sum()
        value.backward()
        return value

    optimiser.step(closure)
    return f.detach()


def _full_loss(contrast: ContrastData, log: bool, dtype: torch.dtype = torch.float32) -> Callable[[Tensor], Tensor]:
    """Negative expectation of an objective over all data, as a function of f [K, num_ids] -> [K].

    For the first two objectives, the limit B → ∞, whose optimum is that of every B: log Σ p⁻ exp f - Σ p⁺ f.
    Baseline 2 pairs each trajectory of the larger side with 64 of the smaller one, all equally often.
    """
    positive, negative = (torch.as_tensor(each, dtype=dtype) for each in (contrast.positive, contrast.negative))
    if contrast.objective != "baseline2":
        if not log:
            raise ValueError("full batches are for the objective with the log; without it, draw samples")
        return lambda f: (f + negative.log()).logsumexp(1) - f @ positive
    p_sets, n_sets = (torch.as_tensor(each, dtype=dtype) for each in (contrast.positive_sets, contrast.negative_sets))
    larger, smaller = max(len(p_sets), len(n_sets)), min(len(p_sets), len(n_sets))
    one = torch.arange(larger).repeat_interleave(min(smaller, 64))
    other = (one + torch.arange(min(smaller, 64)).repeat(larger)) % smaller
    first, second = (one, other) if len(p_sets) == larger else (other, one)

    def loss(f: Tensor) -> Tensor:
        p, n = (_log_sum(f, sets.expand(len(f), -1, -1)) for sets in (p_sets, n_sets))
        return RIDGE * f.square().mean(1) - _share(p[:, first] - n[:, second], log).mean(1)

    return loss


# --- training ---


def train_importance(
    contrasts: Sequence[ContrastData],
    representation: NDArray[Any] | Tensor | None = None,
    *,
    restarts: int = 1,
    seed: int = 0,
    training: Training = CONVERGED,
) -> NDArray[np.float64]:
    """Train `restarts` networks f_ω on each contrast, all at once: f as [contrasts, restarts, num_ids].

    representation: o_θ of each id [num_ids, d] (`represent`). None: a random direction per id, enough where equal
    states have equal bytes. Restart r of a contrast depends on seed and r only.
    """
    if not contrasts:
        raise ValueError("there is no contrast to train on")
    objective, num_ids = contrasts[0].objective, len(contrasts[0].positive)
    if any(c.objective != objective or len(c.positive) != num_ids for c in contrasts):
        raise ValueError("contrasts that train together share the objective and the table of observations")
    if representation is None:
        representation = np.random.default_rng(seed).standard_normal((num_ids, CODE), np.float32)
    inputs = nn.functional.normalize(torch.as_tensor(representation).flatten(1).float(), dim=1)
    inputs *= inputs.shape[1] ** 0.5  # components of order one, as the initial weights expect
    if len(inputs) != num_ids:
        raise ValueError(f"the representation has {len(inputs)} rows for a table of {num_ids} observations")
    network = _Networks(
        [np.random.default_rng([seed, 0, r]) for _ in contrasts for r in range(restarts)], inputs, training.hidden
    )
    rngs = [np.random.default_rng([seed, 1, r]) for r in range(restarts)]
    drawn = (contrasts, rngs, training)
    losses: Iterator[Tensor]
    if training.full_batch:
        full = [_full_loss(contrast, training.log) for contrast in contrasts]
        losses = (_each(full, network.table()) for _ in range(training.iterations))
    elif objective == "baseline2":
        losses = (_set_loss(network, *sets, training.log) for sets in _draw_sets(*drawn))
    else:
        losses = (_state_loss(network, *states, training.log) for states in _draw_states(*drawn))
    optimiser = torch.optim.Adam([network.weight, network.out], lr=training.lr, fused=True)
    for iteration, loss in enumerate(losses):
        if training.anneal:
            optimiser.param_groups[0]["lr"] = training.lr * (1 - iteration / training.iterations)
        loss.sum().backward()
        network.backward()
        optimiser.step()
    values = network.table().detach().double().numpy().reshape(len(contrasts), restarts, num_ids)
    for i, contrast in enumerate(contrasts):
        values[i, :, ~contrast.visited] = np.nan
    return values


class _Networks:
    """K two-layer perceptrons over the rows of one table. No output bias: it would cancel in every objective.

    A call, or `table`, returns f as a leaf tensor; `backward` propagates its gradient to the weights. Buffers are
    reused in each step: allocating them would cost more than the arithmetic.
    """

    def __init__(self, rngs: Sequence[np.random.Generator], inputs: Tensor, hidden: int) -> None:
        self.inputs = nn.functional.pad(inputs, (0, 1), value=1.0)  # the last weight is the bias
        bounds = inputs.shape[1] ** -0.5, hidden**-0.5
        weight = [rng.uniform(-bounds[0], bounds[0], (inputs.shape[1] + 1, hidden)) for rng in rngs]
        out = [rng.uniform(-bounds[1], bounds[1], hidden) for rng in rngs]
        self.weight, self.out = (torch.as_tensor(np.stack(each)).float() for each in (weight, out))
        self.weight.grad, self.out.grad = torch.zeros_like(self.weight), torch.zeros_like(self.out)
        self._memory: dict[tuple[Any, ...], Tensor] = {}

    def __call__(self, ids: Tensor) -> Tensor:
        """f of each network's own ids, [K, m] -> [K, m]; with many ids, f of the table is cheaper and is looked up."""
        if ids.shape[1] >= len(self.inputs):
            return self.table().gather(1, ids)
        rows = self._buffer("rows", ids.numel(), self.inputs.shape[1])
        torch.index_select(self.inputs, 0, ids.flatten(), out=rows)
        return self._evaluate(rows.view(*ids.shape, -1))

    def table(self) -> Tensor:
        """f of all ids: [K, num_ids]."""
        return self._evaluate(self.inputs.expand(len(self.weight), -1, -1))

    def _evaluate(self, rows: Tensor) -> Tensor:
        """relu(rows · weight) · out: [K, m, d] -> [K, m]."""
        hidden = torch.bmm(rows, self.weight, out=self._buffer("hidden", *rows.shape[:2], self.weight.shape[2])).relu_()
        f = torch.bmm(self.out[:, None], hidden.transpose(1, 2))[:, 0].requires_grad_()
        self._last = rows, hidden, f
        return f

    def backward(self) -> None:
        """Gradients of the weights from the gradient of the last f. Once per f: the hidden values are overwritten.

        The usual gradients, rearranged into one large product instead of three. Scale each row by its gradient. G sums,
        for each hidden unit, the rows at which it is active. Then `weight` gets G · out, and `out` gets Σ G · weight.
        """
        rows, hidden, f = self._last
        scaled = torch.mul(rows, f.grad[:, :, None], out=self._buffer("scaled", *rows.shape))  # type: ignore[index]
        product = torch.bmm(scaled.transpose(1, 2), hidden.gt_(0), out=self._buffer("product", *self.weight.shape))
        torch.mul(product, self.out[:, None], out=self.weight.grad)
        torch.sum(product.mul_(self.weight), 1, out=self.out.grad)

    def _buffer(self, *key: Any) -> Tensor:
        """A reusable buffer of this name and shape."""
        if key not in self._memory:
            self._memory[key] = torch.empty(key[1:])
        return self._memory[key]


def _each(losses: Sequence[Callable[[Tensor], Tensor]], f: Tensor) -> Tensor:
    """Loss of each network [K]; each loss applies to an equal number of consecutive networks."""
    return torch.cat([loss(part) for loss, part in zip(losses, f.chunk(len(losses)), strict=True)])


def _state_loss(network: _Networks, ids: Tensor, log_times: Tensor, log: bool) -> Tensor:
    """Objective (2), negated: mean over groups of ids, weighted by multiplicity, [K, groups, m] -> [K].

    log_times: log multiplicity of each id. The first id of a group is its positive one.
    """
    f = network(ids.flatten(1)).view(ids.shape)
    share = (f + log_times).log_softmax(2)[:, :, 0]
    return -(share if log else share.exp()).mean(1)


def _set_loss(network: _Networks, positive: Tensor, negative: Tensor, log: bool) -> Tensor:
    """Objective (1), negated: the mean over all pairs of a positive and a negative set [K, sets, num_ids] -> [K]."""
    f = network.table()
    difference = _log_sum(f, positive)[:, :, None] - _log_sum(f, negative)[:, None, :]
    return RIDGE * f.square().mean(1) - _share(difference, log).mean((1, 2))


def _draw_states(
    contrasts: Sequence[ContrastData], rngs: Sequence[np.random.Generator], training: Training
) -> Iterator[tuple[Tensor, Tensor]]:
    """Ids of each step and their log multiplicities, [K, positives, m]; contrasts share random numbers.

    A group is one positive id, then the distinct ones of B negative ids.
    """
    iterations, positives, negatives = training.iterations, training.positives_per_step, training.negatives_per_step
    tables = [(_Alias(c.positive), _Alias(c.negative)) for c in contrasts]
    networks = len(contrasts) * len(rngs)
    chunk = max(1, 2**18 // (networks * positives * (1 + negatives)))
    for begin in range(0, iterations, chunk):
        steps = min(chunk, iterations - begin)
        uniform = np.stack([rng.random((steps, positives, 1 + negatives)) for rng in rngs], axis=1)
        first, rest = (
            np.stack([table(numbers) for table in side], axis=1).reshape(steps, networks, positives, -1)
            for side, numbers in zip(zip(*tables, strict=True), np.split(uniform, [1], axis=-1), strict=True)
        )
        distinct, times = _merge(rest)
        ids = torch.from_numpy(np.concatenate([first, distinct], axis=-1))
        counted = torch.from_numpy(np.concatenate([np.ones_like(first), times], axis=-1))
        yield from zip(ids, counted.float().log(), strict=True)


def _merge(ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct ids of each row [..., m] and their multiplicities; padding has multiplicity 0."""
    rows = np.sort(ids.reshape(-1, ids.shape[-1]), axis=1)
    new = np.ones(rows.shape, np.bool_)
    np.not_equal(rows[:, 1:], rows[:, :-1], out=new[:, 1:])
    where, per_row = np.flatnonzero(new), new.sum(1)
    place = np.arange(per_row.max()) < per_row[:, None]
    distinct, times = np.zeros((2, *place.shape), np.int64)
    distinct[place], times[place] = rows.flat[where], np.diff(where, append=rows.size)
    return distinct.reshape(*ids.shape[:-1], -1), times.reshape(*ids.shape[:-1], -1)


def _draw_sets(
    contrasts: Sequence[ContrastData], rngs: Sequence[np.random.Generator], training: Training
) -> Iterator[tuple[Tensor, Tensor]]:
    """Sets of each step: [K, positives, num_ids] and [K, negatives, num_ids]; contrasts share random numbers."""
    counts = [training.positives_per_step, training.negatives_per_step]
    sets = [[torch.as_tensor(each) for each in (c.positive_sets, c.negative_sets)] for c in contrasts]
    for _ in range(training.iterations):
        uniform = torch.as_tensor(np.stack([rng.random(sum(counts)) for rng in rngs]))
        first, second = uniform.split(counts, dim=1)
        yield (
            torch.cat([positive[(first * len(positive)).long()] for positive, _ in sets]),
            torch.cat([negative[(second * len(negative)).long()] for _, negative in sets]),
        )


def _log_sum(f: Tensor, sets: Tensor) -> Tensor:
    """log Σ_s exp f(s) over the states of each set: f [K, num_ids], sets [K, m, num_ids] -> [K, m]."""
    top = f.detach().amax(1, keepdim=True)
    return torch.bmm(sets, (f - top).exp()[:, :, None])[:, :, 0].clamp_min(1e-30).log() + top


def _share(difference: Tensor, log: bool) -> Tensor:
    """a / (a + b), or its log, given log a - log b."""
    return nn.functional.logsigmoid(difference) if log else difference.sigmoid()


class _Alias:
    """Turns uniform numbers into ids drawn from a distribution, at a constant cost each (Walker's alias method).

    Slot i of n equally likely ones holds id i with probability `keep[i]`, else the id `other[i]`.
    """

    def __init__(self, distribution: NDArray[np.floating]) -> None:
        keep = distribution * (len(distribution) / distribution.sum())
        other = np.arange(len(distribution))
        small, large = (list(np.flatnonzero(part)) for part in (keep < 1, keep >= 1))
        rest = keep.copy()
        while small and large:
            i, j = small.pop(), large[-1]
            other[i] = j
            rest[j] -= 1 - rest[i]
            keep[i] = rest[i]
            if rest[j] < 1:
                small.append(large.pop())
        self.edge = np.arange(len(keep)) + keep
        """A number in slot i draws id i below edge[i], the other id above."""
        self.ids = np.stack([other, np.arange(len(keep))], axis=1).ravel()

    def __call__(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        place = uniform * len(self.edge)
        slot = place.astype(np.int64)
        drawn: NDArray[np.int64] = self.ids.take(2 * slot + (place < self.edge.take(slot)))
        return drawn


def _sets(store: TrajectoryStore, num_ids: int) -> NDArray[np.float32]:
    """Whether a trajectory visits an id, [trajectories with a visit, num_ids]."""
    visits = first_occupancy(store)
    rows = np.repeat(np.arange(len(visits)), visits.lengths)
    visit = np.ones(visits.size, np.bool_)
    visit[visits.offsets[:-1]] = False
    sets = np.zeros((len(visits), num_ids), np.float32)
    sets[rows[visit], visits.ids[visit]] = 1
    if not sets.any():
        raise ValueError("no trajectory visits a state after its start; collect more, or condition on a shorter path")
    return sets[visits.lengths > 1]

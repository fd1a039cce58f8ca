"""First-occupancy representation of a policy (Definition 1): exact, learned or estimated; and the successor one.

F(s, s') is the expected discount at the first visit of s' from s. The successor representation M(s, s') adds up the
discounts of *all* visits. After the first visit the process restarts at s', so M(s, s') = F(s, s') M(s', s'), and both
follow from one matrix inverse.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lstoc_core.trajectories import TrajectoryStore, first_occupancy

Floats = NDArray[np.floating]


def check_discount(gamma: float) -> None:
    """Raise unless 0 < gamma < 1."""
    if not 0 < gamma < 1:
        raise ValueError(f"gamma is {gamma}; a discount factor lies strictly between 0 and 1")


def transition_matrix(next_position: ArrayLike, policy: ArrayLike | None = None) -> Floats:
    """Transition probabilities [P, P] of a policy [P, A] (None: uniform) on the table next_position [P, A]."""
    next_position = np.asarray(next_position)
    positions, actions = next_position.shape
    policy = np.full((positions, actions), 1 / actions) if policy is None else np.asarray(policy, np.float64)
    if policy.shape != next_position.shape or (policy < 0).any() or not np.allclose(policy.sum(1), 1):
        raise ValueError(f"a policy holds one distribution over {actions} actions for each of {positions} positions")
    matrix = np.zeros((positions, positions))
    np.add.at(matrix, (np.arange(positions)[:, None], next_position), policy)
    return matrix


def successor_representation(transition: Floats, gamma: float) -> Floats:
    """M(s, s') = E[Σ_k γ^k 1(s_{t+k} = s') | s_t = s]: [P, P]."""
    check_discount(gamma)
    return np.linalg.inv(np.eye(len(transition)) - gamma * transition)


def first_occupancy_representation(transition: Floats, gamma: float) -> Floats:
    """F(s, s') of Definition 1, exactly: [P, P], values in [0, 1], ones on the diagonal."""
    successor = successor_representation(transition, gamma)
    return successor / successor.diagonal()


def learn_first_occupancy(
    store: TrajectoryStore, gamma: float, *, rng: np.random.Generator, sweeps: int = 20, batch: int = 512
) -> Floats:
    """F(s, s') by temporal differences from trajectories: [num_ids, num_ids], NaN rows for states never left.

    Target: 1 where s' = s, else γ F(next, s'). Step sizes fall with the visits of a state, so the estimate converges.
    Each sweep replays the transitions in a new random order.
    """
    check_discount(gamma)
    final = np.zeros(store.size, np.bool_)
    final[store.offsets[1:] - 1] = True
    state, following = store.ids[:-1][~final[:-1]], store.ids[1:][~final[:-1]]
    estimate = np.eye(store.num_ids)
    visits = np.zeros(store.num_ids)
    for _ in range(sweeps):
        order = rng.permutation(len(state))
        for begin in range(0, len(order), batch):
            now, then = state[order[begin : begin + batch]], following[order[begin : begin + batch]]
            own, place, count = np.unique(now, return_inverse=True, return_counts=True)
            target = np.zeros((len(own), store.num_ids))
            np.add.at(target, place, estimate[then])
            target *= gamma / count[:, None]
            target[np.arange(len(own)), own] = 1
            visits[own] += count
            step = np.minimum(1, count / visits[own] ** 0.6)[:, None]
            estimate[own] += step * (target - estimate[own])
    estimate[visits == 0] = np.nan
    return estimate


def estimate_first_occupancy(store: TrajectoryStore, gamma: float) -> Floats:
    """Monte-Carlo estimate of F(s, s') from the starts of trajectories: [num_ids, num_ids], NaN where none starts.

    Visits after an episode's end are missed: a bias of at most γ^T for T steps.
    """
    check_discount(gamma)
    begin = np.repeat(store.offsets[:-1], store.lengths)
    keep = store.previous < 0
    start, when = store.ids[begin[keep]], np.flatnonzero(keep) - begin[keep]
    total = np.zeros((store.num_ids, store.num_ids))
    np.add.at(total, (start, store.ids[keep]), gamma ** when.astype(np.float64))
    starts = np.bincount(store.ids[store.offsets[:-1]], minlength=store.num_ids).astype(np.float64)
    return total / np.where(starts == 0, np.nan, starts)[:, None]


def geometric_occupancy(store: TrajectoryStore, gamma: float, *, first: bool = True) -> Floats:
    """Distribution of the state that temporal geometric sampling draws from the trajectories: [num_ids], sums to 1.

    Draws a trajectory uniformly, then its t-th visit with t ~ Geom(1 - γ), given that t lies within the trajectory.
    first: sample from the first-occupancy representation of the trajectories (Section "Discovering Next Subgoal").
    """
    check_discount(gamma)
    visits = first_occupancy(store) if first else store
    steps = visits.lengths - 1
    used = steps > 0
    if not used.any():
        raise ValueError("no trajectory visits a state after its start; collect more, or condition on a shorter path")
    time = np.arange(visits.size) - np.repeat(visits.offsets[:-1], visits.lengths)
    share = np.zeros(len(visits))
    share[used] = (1 - gamma) / (1 - gamma ** steps[used]) / used.sum()
    weights = np.repeat(share, visits.lengths) * gamma ** (time - 1.0)
    weights[visits.offsets[:-1]] = 0  # the start is not a visit
    return np.bincount(visits.ids, weights, minlength=store.num_ids).astype(np.float64)

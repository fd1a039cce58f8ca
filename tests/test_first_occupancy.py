"""Definition 1 four ways: by one inverse, by a linear system per target, by temporal differences, by sampling."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lstoc_core.trajectories import TrajectoryStore, first_occupancy
from lstoc_core.trajectories.occupancy import (
    estimate_first_occupancy,
    first_occupancy_representation,
    geometric_occupancy,
    learn_first_occupancy,
    successor_representation,
    transition_matrix,
)

# A corridor of five places; the two actions go left and right.
CORRIDOR = np.array([[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]])


def walks(count: int, steps: int, rng: np.random.Generator) -> TrajectoryStore:
    """Uniform random walks in the corridor from uniformly drawn places."""
    ids = np.empty((count, steps + 1), np.int64)
    ids[:, 0] = rng.integers(0, len(CORRIDOR), count)
    for t in range(steps):
        ids[:, t + 1] = CORRIDOR[ids[:, t], rng.integers(0, 2, count)]
    store = TrajectoryStore(len(CORRIDOR))
    store.append(ids, np.full(count, steps + 1), np.zeros(count))
    return store


@settings(max_examples=30)
@given(st.integers(1, 8), st.floats(0.05, 0.99), st.integers(0, 2**32 - 1))
def test_inverse_agrees_with_one_linear_system_per_target(states, gamma, seed):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, states, (states, 3))
    transition = transition_matrix(table, rng.dirichlet(np.ones(3), states))
    fr = first_occupancy_representation(transition, gamma)
    for target in range(states):  # F(s, g) = γ Σ P(s, u) F(u, g) for s ≠ g, F(g, g) = 1
        others = np.arange(states) != target
        system = np.eye(states) - gamma * transition * others[:, None]
        assert np.allclose(fr[:, target], np.linalg.solve(system, ~others), atol=1e-9)
    assert ((fr >= -1e-12) & (fr <= 1 + 1e-12)).all()
    assert (successor_representation(transition, gamma) >= fr - 1e-9).all()


def test_a_deterministic_walk_is_discounted_by_its_distance():
    right = np.tile([0.0, 1.0], (5, 1))
    fr = first_occupancy_representation(transition_matrix(CORRIDOR, right), 0.9)
    assert np.allclose(fr, np.triu(0.9 ** (np.arange(5) - np.arange(5)[:, None])))


def test_learned_and_sampled_agree_with_the_exact_one():
    gamma, rng = 0.8, np.random.default_rng(0)
    store = walks(4000, 60, rng)
    exact = first_occupancy_representation(transition_matrix(CORRIDOR), gamma)
    assert np.abs(estimate_first_occupancy(store, gamma) - exact).max() < 0.03
    assert np.abs(learn_first_occupancy(store.select(np.arange(300)), gamma, rng=rng) - exact).max() < 0.03


def test_states_without_data_are_unknown():
    store = TrajectoryStore(3)
    store.append([[0, 1, 0]], None, [False])
    learned = learn_first_occupancy(store, 0.5, rng=np.random.default_rng(0), sweeps=200)
    assert np.isnan(learned[2]).all()
    assert np.allclose(learned[:2, :2], [[1, 0.5], [0.5, 1]], atol=0.01)
    assert np.isnan(estimate_first_occupancy(store, 0.5)[1:]).all()


@pytest.mark.parametrize("first", [True, False])
def test_geometric_occupancy_is_the_distribution_of_two_step_sampling(first):
    rng, gamma = np.random.default_rng(1), 0.7
    store = walks(20, 9, rng)
    visits = first_occupancy(store) if first else store
    counts = np.zeros(store.num_ids)
    draws = 40_000
    for _ in range(draws):
        states = visits.trajectory(rng.integers(len(visits)))[1:]
        time = rng.geometric(1 - gamma)
        while time > len(states):  # resampled until it lies within the trajectory
            time = rng.geometric(1 - gamma)
        counts[states[time - 1]] += 1
    occupancy = geometric_occupancy(store, gamma, first=first)
    assert occupancy.sum() == pytest.approx(1)
    assert np.abs(counts / draws - occupancy).max() < 0.015


def test_bad_input():
    store = walks(2, 3, np.random.default_rng(0))
    for gamma in (0.0, 1.0, 1.5, -0.1, float("nan")):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            geometric_occupancy(store, gamma)
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            first_occupancy_representation(np.eye(2), gamma)
    with pytest.raises(ValueError, match="one distribution over 2 actions"):
        transition_matrix(CORRIDOR, np.ones((5, 2)))
    still = TrajectoryStore(2)
    still.append([[0], [1]], None, [True, True])
    with pytest.raises(ValueError, match="after its start"):
        geometric_occupancy(still, 0.9)

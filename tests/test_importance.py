"""The objectives, their exact optima, and that training reaches them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.stats import spearmanr

from lstoc_core.discovery.published.importance import (
    RIDGE,
    _Alias,
    _full_loss,
    _local_optimum,
    _merge,
    _Networks,
    exact_importance,
    make_contrast,
    scores,
    train_importance,
)
from lstoc_core.discovery.published.training import CONVERGED, Training
from lstoc_core.trajectories import TrajectoryStore

OBJECTIVES = ("lstoc", "baseline1", "baseline2")
SETTLED = Training(positives_per_step=64, anneal=True)
FULL = Training(full_batch=True, anneal=True)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def stores() -> tuple[TrajectoryStore, TrajectoryStore]:
    """Random walks on a 4×4 board from corner 0; success: place 5, then place 10."""
    rng, side, count, steps = np.random.default_rng(0), 4, 2000, 40
    moves = np.array([(0, -1), (1, 0), (0, 1), (-1, 0)])
    store = TrajectoryStore(side * side)
    for _ in range(count):
        at, trajectory, stage = np.zeros(2, int), [0], 0
        for move in moves[rng.integers(0, 4, steps)]:
            at = np.clip(at + move, 0, side - 1)
            trajectory.append(int(at[1] * side + at[0]))
            stage += trajectory[-1] == (5, 10)[stage]
            if stage == 2:
                break
        store.append([trajectory], None, [stage == 2])
    return store.select(store.positives), store.select(store.negatives)


def test_log_ratio_maximises_the_expected_objective(stores):
    """InfoNCE with one positive and two negatives, its expectation written out over all triples of ids."""
    contrast = make_contrast(*stores, gamma=0.9)
    p, n = contrast.positive, contrast.negative

    def loss(f: np.ndarray) -> float:
        top = f.max()
        g = np.exp(f - top)
        total = g[:, None, None] + g[None, :, None] + g[None, None, :]
        return -float(np.einsum("i,j,k,ijk->", p, n, n, (f - top)[:, None, None] - np.log(total)))

    found = minimize(loss, np.zeros(len(p)), method="L-BFGS-B", options={"maxiter": 500, "maxfun": 10**6}).x
    exact = exact_importance(contrast)
    assert loss(exact) <= loss(found) + 1e-9
    assert np.allclose(found - found.mean(), exact - exact.mean(), atol=0.02)


def test_baseline2_optimum_beats_all_single_peaks_and_its_neighbours(stores):
    contrast = make_contrast(*stores, objective="baseline2")
    best = exact_importance(contrast)

    def value(f: np.ndarray) -> float:
        p, n = (np.log(sets @ np.exp(f)) for sets in (contrast.positive_sets, contrast.negative_sets))
        return float(-np.logaddexp(0, n[None] - p[:, None]).mean() - RIDGE * np.mean(f**2))

    rng = np.random.default_rng(0)
    loss = _full_loss(contrast, True, torch.float64)
    peaks = [_local_optimum(loss, 5 * torch.eye(16, dtype=torch.float64)[k : k + 1]) for k in range(16)]
    assert loss(torch.as_tensor(best)[None]) <= min(loss(peak) for peak in peaks) + 1e-9
    assert all(value(best) > value(best + rng.normal(0, 1, best.shape)) for _ in range(12))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_training_on_samples_gives_the_order_of_the_exact_optimum(stores, objective):
    exact = scores(*stores, objective=objective, gamma=0.95, exact=True)
    learned = scores(*stores, objective=objective, gamma=0.95, training=SETTLED)
    assert spearmanr(exact, learned).statistic >= 0.95


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_all_data_at_once_gives_the_exact_values(stores, objective):
    exact = scores(*stores, objective=objective, gamma=0.95, exact=True)
    learned = scores(*stores, objective=objective, gamma=0.95, training=FULL)
    assert np.allclose(exact - exact.mean(), learned - learned.mean(), atol=0.05)


def test_without_the_log_the_best_state_is_the_same(stores):
    exact = scores(*stores, gamma=0.95, exact=True)
    ratio = scores(*stores, gamma=0.95, training=replace(SETTLED, log=False, negatives_per_step=8))
    assert ratio.argmax() == exact.argmax()


def test_states_that_no_trajectory_visits_have_no_score():
    positives, negatives = TrajectoryStore(6), TrajectoryStore(6)
    positives.append([[0, 1, 2]], None, [True])
    negatives.append([[0, 1, 3]], None, [False])
    exact = scores(positives, negatives, gamma=0.5, exact=True)
    assert exact[[1, 2, 3]].tolist() == [0.0, np.inf, -np.inf]
    assert np.isnan(exact[[0, 4, 5]]).all()  # the start is not a visit
    learned = scores(positives, negatives, gamma=0.5)
    assert (np.isnan(learned) == np.isnan(exact)).all()
    assert learned[2] > learned[1] > learned[3]
    smooth = scores(positives, negatives, gamma=0.5, exact=True, smoothing=0.1)
    assert np.isfinite(smooth[[1, 2, 3]]).all()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_networks_that_train_together_are_those_that_train_alone(stores, objective):
    contrasts = [make_contrast(*stores, objective=objective, gamma=gamma) for gamma in (0.8, 0.95)]
    together = train_importance(contrasts, restarts=3, seed=5, training=Training(iterations=30))
    assert together.shape == (2, 3, 16)
    alone = train_importance(contrasts[1:], restarts=1, seed=5, training=Training(iterations=30))
    assert np.allclose(together[1, 0], alone[0, 0], atol=1e-4)
    assert np.abs(together[1, 0] - together[1, 1]).max() > 0.01


def test_the_same_seed_gives_the_same_scores(stores):
    first, second = (scores(*stores, seed=3, training=Training(iterations=50)) for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("ids", [3, 7], ids=("fewer ids than rows", "more ids than rows"))
def test_gradient_of_the_networks(ids):
    generator = torch.Generator().manual_seed(0)
    network = _Networks([np.random.default_rng(k) for k in range(2)], torch.randn(5, 4, generator=generator), 3)
    at = torch.randint(5, (2, ids), generator=generator)
    scale = torch.randn(2, ids, generator=generator)
    (network(at) * scale).sum().backward()
    network.backward()
    weight, out = (part.clone().requires_grad_() for part in (network.weight, network.out))
    plain = torch.relu(network.inputs[at] @ weight) @ out[:, :, None]
    (plain[:, :, 0] * scale).sum().backward()
    torch.testing.assert_close(network.weight.grad, weight.grad)
    torch.testing.assert_close(network.out.grad, out.grad)


@given(arrays(np.int64, (2, 3, 6), elements=st.integers(0, 4)))
def test_merged_ids_are_the_ids_and_their_counts(ids):
    distinct, times = _merge(ids)
    for row in np.ndindex(2, 3):
        counted = distinct[row][times[row] > 0]
        assert len(np.unique(counted)) == len(counted)
        np.testing.assert_array_equal(np.sort(np.repeat(distinct[row], times[row])), np.sort(ids[row]))


@pytest.mark.parametrize("distribution", [[1.0], [0.5, 0.0, 0.25, 0.25], [1e-9, 0.3, 0.7 - 1e-9], [0.2] * 5])
def test_alias_table_holds_exactly_the_distribution(distribution):
    """Each of many equally spaced uniform numbers once: the shares are the probabilities."""
    table = _Alias(np.array(distribution))
    drawn = table((np.arange(400_000) + 0.5) / 400_000)
    assert np.allclose(np.bincount(drawn, minlength=len(distribution)) / 400_000, distribution, atol=1e-5)
    assert not np.isin(np.flatnonzero(np.array(distribution) == 0), drawn).any()


def test_bad_input(stores):
    positives, negatives = stores
    with pytest.raises(ValueError, match="no positive trajectory"):
        scores(TrajectoryStore(16), negatives)
    with pytest.raises(ValueError, match="no negative trajectory"):
        scores(positives, TrajectoryStore(16))
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        scores(positives, negatives, gamma=1.0)
    with pytest.raises(ValueError, match="lstoc, baseline1, baseline2"):
        scores(positives, negatives, objective="baseline3")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="3 rows for a table of 16"):
        scores(positives, negatives, representation=np.ones((3, 8)))
    with pytest.raises(ValueError, match="no contrast"):
        train_importance([])
    with pytest.raises(ValueError, match="with the log"):
        scores(positives, negatives, training=Training(full_batch=True, log=False))
    mixed = [make_contrast(*stores), make_contrast(*stores, objective="baseline1")]
    with pytest.raises(ValueError, match="share the objective"):
        train_importance(mixed)
    still = TrajectoryStore(16)
    still.append([[0]], None, [True])
    for objective in OBJECTIVES:
        with pytest.raises(ValueError, match="after its start"):
            scores(still, negatives, objective=objective)


def test_the_published_sizes_of_the_network():
    assert CONVERGED.sized(np.zeros((5, 12), np.uint8)).hidden == 128
    assert CONVERGED.sized(np.zeros((5, 64, 64, 3), np.uint8)) == replace(CONVERGED, hidden=256)

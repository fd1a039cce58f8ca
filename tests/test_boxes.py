"""Boxes of continuous observations, found by contrast: they cover the hidden discs."""

import numpy as np
import pytest

import lstoc_core as lstoc

DISCS = {"a": ((0.25, 0.7), 0.15), "b": ((0.75, 0.3), 0.15)}


def near(points, name):
    centre, radius = DISCS[name]
    return np.linalg.norm(points - np.array(centre), axis=-1) < radius


def point_world(count, *, seed, steps=60):
    """Noisy walks in the unit square that end in disc b once they have been in disc a."""
    rng = np.random.default_rng(seed)
    moves = 0.12 * np.array([(1, 0), (-1, 0), (0, 1), (0, -1)])
    episodes, labels = [], []
    for _ in range(count):
        walk, been = [rng.random(2)], False
        while len(walk) <= steps and not (been and near(walk[-1], "b") and len(walk) > 1):
            walk.append(np.clip(walk[-1] + moves[rng.integers(4)] + rng.normal(0, 0.03, 2), 0, 1))
            been |= bool(near(walk[-1], "a"))
        episodes.append(np.array(walk))
        labels.append(bool(been and near(walk[-1], "b")))
    return episodes, labels


def overlap(bounds, name):
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 200)] * 2), -1)
    box, disc = ((grid >= bounds[0]) & (grid <= bounds[1])).all(-1), near(grid, name)
    return (box & disc).sum() / (box | disc).sum()


@pytest.mark.parametrize("seed", range(3))
def test_boxes_cover_the_hidden_discs_in_order(seed):
    episodes, labels = point_world(800, seed=seed)
    found = lstoc.boxes(episodes, labels, count=2)
    assert [overlap(bounds, name) >= 0.5 for bounds, name in zip(found.bounds, "ab", strict=True)] == [True, True]
    assert found.error < 0.1
    assert found(DISCS["a"][0]) == ["box 1"]
    assert found(np.array([0.5, 0.99])) == []
    fresh, truth = point_world(400, seed=seed + 100)
    told = [[found(row) for row in episode[1:]] for episode in fresh]
    reached = [["box 1"] in walk and ["box 2"] in walk[walk.index(["box 1"]) :] for walk in told]
    assert np.mean(np.array(reached) == np.array(truth)) > 0.9, "episodes never seen before are predicted"


def test_one_box_of_many_dimensions():
    """Only the first of four numbers matters: a success ends where it exceeds 0.8."""
    rng = np.random.default_rng(0)
    episodes, labels = [], []
    for _ in range(200):
        rows = rng.random((20, 4))
        high = np.flatnonzero(rows[1:, 0] > 0.9) + 1
        episodes.append(rows[: high[0] + 1] if len(high) else rows)
        labels.append(bool(len(high)))
    (bounds,) = lstoc.boxes(episodes, labels, count=3).bounds
    assert 0.8 < bounds[0][0] < 0.95
    assert bounds[1][0] > 0.97


@pytest.mark.parametrize(
    ("labels", "count", "told"), [([True, True], 1, "give some of both"), ([True, False], 0, "at least 1")]
)
def test_what_cannot_be_contrasted_is_named(labels, count, told):
    with pytest.raises(ValueError, match=told):
        lstoc.boxes([np.zeros((3, 2))] * 2, labels, count)

"""Drawings of the planner: they show the numbers that they are given, and nothing fails where there are none."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from test_loop import tiny

from lstoc_core.config import PlannerConfig
from lstoc_core.drawing import exploration
from lstoc_core.exploration.outcomes import Words
from lstoc_core.exploration.plans import Judges, Outset, PlanSearch
from lstoc_core.study.tables import reliability
from lstoc_core.worlds import compile_world


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def asked(runs=2, episodes=8):
    rng = np.random.default_rng(0)
    rows = []
    for seed in range(runs):
        for episode in range(1, episodes + 1):
            known = episode > 2
            success = rng.random() if known else np.nan
            rows.append(
                {
                    "task": "letter-1", "method": "planner", "seed": seed, "episode": episode, "success": success,
                    "came_true": bool(rng.random() < 0.5), "left": 20 - 2 * episode if known else np.nan,
                    "counted": episode > 5, "limit": 7.5, "finished": True,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def test_tried_actions_are_the_fewest_of_the_places_that_look_the_same():
    ids, links = np.array([0, 2, 2], np.int32), np.array([[1, -1], [0, 2], [-1, -1]], np.int32)
    np.testing.assert_array_equal(exploration.tried_actions(ids, links, 4), [1, np.nan, 0, np.nan])


def test_a_panel_of_the_map_for_each_snapshot():
    world = compile_world(tiny("a;b"))
    shots = {title: np.full(world.num_observations, value) for title, value in (("early", np.nan), ("late", 4.0))}
    fig = exploration.draw_growth(world, shots)
    assert [ax.get_title() for ax in fig.axes] == ["early", "late"]
    assert fig.axes[0].images[0].get_array().mask.all()
    assert (fig.axes[1].images[0].get_array() == 4).all()


def test_bits_fall_to_nothing_and_the_limit_is_below_them():
    (ax, *_) = exploration.draw_bits(asked(), ["letter-1"]).axes
    lines = [line.get_xydata() for line in ax.lines]
    left, exact, limit = lines[:3]
    np.testing.assert_array_equal(left, [*((k, 20 - 2 * k) for k in range(3, 9)), (9, 0)])
    assert exact[:, 0].tolist() == [6, 7, 8]
    np.testing.assert_array_equal(limit, [(3, 14), (4, 6.5), (5, 0)])


def test_reliability_is_drawn_as_tabulated():
    table = asked(20)
    (ax,) = exploration.draw_reliability(table).axes
    found = reliability(table)
    np.testing.assert_allclose(ax.lines[1].get_xydata(), found[["predicted", "real"]])
    assert [text.get_text() for text in ax.texts] == [f"{count:.0f}" for count in found.episodes]


def test_without_runs_the_panels_are_empty():
    none = pd.DataFrame(columns=["task", "method", "seed"])
    assert len(exploration.draw_bits(none, ["letter-1", "letter-2"]).axes) == 2
    assert len(exploration.draw_reliability(none).axes) == 1


def test_the_bars_of_a_plan_are_its_predicted_probability_of_success():
    task, rng = tiny("a;b"), np.random.default_rng(0)
    world = compile_world(task)
    pairs = np.array([(a, b) for a in range(8) for b in range(8) if a != b], np.int32)
    weights = np.full(len(pairs), 1 / len(pairs))
    outset = Outset(world.observation_id, world.next_position.astype(np.int32), int(world.starts[0]), 40)
    words = Words.of(task.formula.minimal_sequences())
    search = PlanSearch(outset, words, PlannerConfig(rounds=1), pairs, Judges(pairs, weights), rng=rng)
    best = search.best()
    fig = exploration.draw_plan(world, search, best)
    (bars,) = fig.axes[1].collections
    assert sum(top - bottom for (_, bottom), (_, top) in bars.get_segments()) == pytest.approx(best.success)
    ends = fig.axes[0].images[0].get_array()
    assert ends.sum() == pytest.approx(best.success)
    assert len(fig.axes[0].collections) == 1, "the walk"

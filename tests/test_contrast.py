"""The study of order: verdicts on maps with known answers, and tables and figures of the right shape."""

import dataclasses

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import lstoc_core as lstoc
from lstoc_core.discovery.published.importance import scores
from lstoc_core.drawing import contrast as contrast_figures
from lstoc_core.study import contrast
from lstoc_core.study.contrast import EXACT, FULL, PRINTED, SETTLED, VERDICTS
from lstoc_core.trajectories import TrajectoryStore, random_walks

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def store() -> TrajectoryStore:
    return random_walks(lstoc.make_vec("letter-1", num_envs=500), 1000, seed=0)


@pytest.mark.parametrize(
    ("task", "symbol", "expected"),
    [
        ("letter-1", "a", VERDICTS[0]),
        ("letter-1", "b", VERDICTS[1]),
        ("letter-1", "d", VERDICTS[2]),  # a letter on the map that is no subgoal
        ("letter-2", "a", VERDICTS[0]),  # both branches of ((a;b)|c);d begin
        ("letter-2", "c", VERDICTS[0]),
        ("letter-2", "d", VERDICTS[1]),
    ],
)
def test_verdict_on_the_highest_state(task, symbol, expected):
    world = lstoc.compile_world(task)
    f = np.where(np.arange(world.num_observations) == world.observation_of_symbol(symbol), 1.0, np.nan)
    assert contrast.verdict(lstoc.TASKS[task], f) == expected


def test_subgoals_are_described_by_their_visits(store):
    table = contrast.key_state_table(lstoc.TASKS["letter-1"], store, gamma=0.9).set_index("subgoal")
    assert (table["visited by positives"] == "100%").all()  # a success has visited all of a, b, c
    order = table["as n-th state, positives"]
    assert order["a"] < order["b"] < order["c"]


def test_ranks_count_the_visited_states_above_a_key_state():
    task, world = lstoc.TASKS["letter-1"], lstoc.compile_world("letter-1")
    f = np.full(world.num_observations, np.nan)
    f[[world.observation_of_symbol(symbol) for symbol in "bdca"]] = [4.0, 3.0, 2.0, 1.0]
    assert contrast.ranks(task, f) == {"a": 4, "b": 1, "c": 3}


def test_trained_and_exact_importance_in_one_table(store):
    store = store.select(np.arange(300))  # Baseline 2 trains on pairs of trajectories
    table = contrast.importance_table({"letter-1": store}, seed=0)
    assert list(table) == ["task", "objective", "id", EXACT, PRINTED, SETTLED, FULL]
    assert len(table) == 3 * 100
    discount = lstoc.TASKS["letter-1"].discount
    f = scores(*contrast.split(store), gamma=discount, exact=True, smoothing=contrast.SMOOTHING)
    assert np.allclose(table.loc[table.objective == "lstoc", EXACT], f, equal_nan=True)
    agreement = contrast.agreement(table).set_index("objective")
    assert (agreement[FULL] > 0.95).all()
    assert agreement.loc["lstoc", SETTLED] > agreement.loc["lstoc", PRINTED]


def falling_importance(name):
    """f that falls with the number of the observation, as a table of both objectives."""
    falling = -np.arange(lstoc.compile_world(name).num_observations, dtype=float)
    part = {"task": name, "id": np.arange(len(falling)), FULL: falling}
    return pd.concat([pd.DataFrame(part | {"objective": objective}) for objective in ("lstoc", "baseline2")])


def test_figures_of_importance_rank_the_key_states_in_their_titles():
    task, world = lstoc.TASKS["letter-1"], lstoc.compile_world("letter-1")
    table = falling_importance("letter-1")
    rising = np.arange(world.num_observations, dtype=float)
    flat = contrast_figures.Aside("flat", dataclasses.replace(task, wrap=False), rising)
    above, below = (
        ", ".join(f"{symbol} {rank(world.observation_of_symbol(symbol))}" for symbol in "abc")
        for rank in (lambda i: 1 + i, lambda i: world.num_observations - i)
    )
    figure, whole = contrast_figures.importance_figure(table, "letter-1", flat), contrast_figures.temporal_figure(table)
    for fig, expected in ((figure, [above, above, below]), (whole, [above, above])):
        panels = [ax for ax in fig.axes if ax.get_title()]
        assert [ax.get_title().split("ranks of 100: ")[1] for ax in panels] == expected
        lines = [ax.spines["left"].get_linestyle() for ax in panels]
        assert all((line == lines[0]) == (want == above) for line, want in zip(lines, expected, strict=True))
        plt.close(fig)


@pytest.mark.parametrize("name", ["letter-1", "office-1"])
def test_every_cell_of_a_task_s_figure_has_a_legible_number(name):
    table, world = falling_importance(name), lstoc.compile_world(name)
    figure = contrast_figures.importance_figure(table, name)
    for ax in [ax for ax in figure.axes if ax.get_title()]:
        numbers = [text for text in ax.texts if text.get_text().lstrip("-").replace(".", "").isdigit()]
        assert len(numbers) == len(world.coordinates)
        assert min(text.get_fontsize() for text in numbers) >= 5.5
    plt.close(figure)
    plt.close(whole := contrast_figures.temporal_figure(table))
    assert not any("." in text.get_text() for ax in whole.axes if ax.get_title() for text in ax.texts)


def test_what_f_reads_does_not_decide_whether_it_reaches_the_optimum(store):
    table = contrast.input_table({"letter-1": store}, seed=0, restarts=3)
    assert len(table) == 2 * 3
    converged = table[table.training == FULL]
    assert (converged["low"] > 0.9).all()
    assert (table[table.training == PRINTED]["high"].to_numpy() < converged["low"].to_numpy()).all()


def test_the_study_of_order_is_about_flat_maps():
    assert not contrast.random_layout(np.random.default_rng(0), start=(0, 0), horizon=100).wrap


def test_small_study_and_its_figure():
    sizes = {"gammas": [0.9], "horizons": [100], "positives": [3]}
    table = contrast.order_study(layouts=2, trajectories=400, seed=0, **sizes)
    assert set(table.sweep) == {"gamma", "horizon", "positives"}
    assert set(table.start) == {"fixed", "random"}
    assert set(table.verdict) <= set(VERDICTS)
    assert not table.duplicated(["sweep", "value", "start", "method", "distance"]).any()
    plt.close(contrast_figures.order_figure(table))

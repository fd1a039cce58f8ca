"""The study of readings: the rule for γ, the readings that are tried, and how the published algorithm ends by them."""

from dataclasses import replace
from itertools import product

import matplotlib.pyplot as plt
import networkx as nx
import pandas as pd
import pytest

from lstoc_core.drawing.readings import grid_figure, readings_figure
from lstoc_core.study import readings
from lstoc_core.study.cache import RunSpec
from lstoc_core.study.readings import MULTIVERSES, Reading
from lstoc_core.trajectories import random_walks
from lstoc_core.worlds import make_vec
from lstoc_core.worlds.maps import mean_distance, transitions
from lstoc_core.worlds.tasks import TASKS


@pytest.mark.parametrize(("name", "wrap"), [("letter-1", True), ("letter-1", False), ("office-1", False)])
def test_the_mean_distance_is_that_of_the_graph_of_moves(name, wrap):
    task = TASKS[name]
    table = transitions(task.cells, task.size, wrap=wrap)
    graph = nx.DiGraph((here, int(there)) for here, row in enumerate(table) for there in row if there != here)
    assert mean_distance(table) == pytest.approx(nx.average_shortest_path_length(graph))


@pytest.mark.parametrize(
    ("name", "wrap", "gamma"), [("letter-1", True, 0.901), ("office-1", False, 0.971), ("crafter-1", False, 0.963)]
)
def test_gamma_by_the_rule(name, wrap, gamma):
    assert replace(TASKS[name], wrap=wrap).discount == pytest.approx(gamma, abs=5e-4)


@pytest.mark.parametrize("domain", MULTIVERSES)
def test_every_reading_is_tried_once_and_the_grid_is_whole(domain):
    multiverse = MULTIVERSES[domain]
    tried = list(multiverse.readings())
    assert len(tried) == len(set(tried))
    assert tried[0] == multiverse.best
    assert multiverse.first in tried
    assert set(multiverse.named().values()) <= set(tried)
    assert len(multiverse.named()) == 2 + sum(len(values) for values in multiverse.alternatives.values())
    for values in product(*multiverse.grid.values()):
        assert replace(multiverse.best, **dict(zip(multiverse.grid, values, strict=True))) in tried


def test_the_best_reading_is_exact_where_the_first_one_is_not():
    """Letter 1 on the same number of random walks: what wraps, γ and training make of the same algorithm."""
    ended = {}
    best, first = MULTIVERSES["letter"].best, MULTIVERSES["letter"].first
    for reading in (best, replace(best, training="closed form"), first):
        task = replace(TASKS["letter-1"], wrap=reading.wrap)
        store = random_walks(make_vec(task, num_envs=500), 3_000, seed=1)
        ended[reading] = readings.outcome(task, store, reading, seed=1)
    assert [found["exact"] for found in ended.values()] == [True, True, False]
    assert [found["first"] == "next subgoal" for found in ended.values()] == [True, True, False]
    assert not any(found["finished"] and not found["exact"] for found in ended.values())


def test_one_run_has_a_row_for_each_reading():
    told = {"walks": 400, "steps": 4_096, "readings": 4}
    layout, task = (
        readings.measure(RunSpec("readings", "letter-2", method, 3, "smoke", told)) for method in ("layouts", "tasks")
    )
    assert len(layout) == len(task) == 4
    assert list(layout.wrap) == [True, False, False, True]
    assert not layout.successes.equals(task.successes), "another map"


def test_where_random_walks_do_not_succeed_the_episodes_are_those_of_the_exploration_policy():
    told = {"steps": 8_192, "readings": 2}
    found = readings.measure(RunSpec("readings", "office-1", "layouts", 0, "smoke", told))
    assert list(found.epsilon) == [0.5, 0.5]
    assert list(found.used_gamma) == [pytest.approx(0.97, abs=0.01), 0.99]


def rows(reading: Reading, exact: list[bool], method: str = "layouts", task: str = "letter-1") -> pd.DataFrame:
    """Runs of one reading, as the cache gives them."""
    told = {"method": method, "task": task, "finished": False, "first": "next subgoal"}
    return pd.DataFrame([vars(reading) | told | {"exact": each, "finished": each} for each in exact])


def test_shares_count_the_runs_of_each_reading_alone():
    best = MULTIVERSES["letter"].best
    flat = replace(best, wrap=False)
    of_office = rows(MULTIVERSES["office"].best, [True, True], task="office-1")
    table = pd.concat([rows(best, [True] * 3), rows(flat, [True, False]), rows(best, [False], "tasks"), of_office])
    found = readings.shares(table, "letter").set_index(["reading", "maps"])
    assert found.exact.to_dict() == {
        ("best reading", "layouts"): "3 of 3",
        ("best reading", "tasks"): "0 of 1",
        ("a flat map", "layouts"): "1 of 2",
    }
    low = found.loc[("best reading", "layouts"), "low"]
    assert low == pytest.approx(3 / (3 + 1.96**2), abs=1e-3), "Wilson's, at 3 of 3"
    assert (found["stopped wrong"] == 0).all()
    assert list(readings.shares(table, "office").exact) == ["2 of 2"]


@pytest.mark.parametrize("sources", [["layouts", "tasks"], ["layouts"], []])
def test_the_figures_draw_whatever_there_is(sources):
    parts = [
        rows(reading, [True, False], source, f"{domain}-1")
        for source in sources
        for domain, multiverse in MULTIVERSES.items()
        for reading in multiverse.readings()
    ]
    table = pd.concat(parts) if parts else rows(Reading(), [True]).iloc[:0]
    fig, grid = readings_figure(table), grid_figure(table)
    for ax, multiverse in zip(fig.axes, MULTIVERSES.values(), strict=True):
        assert len(ax.get_yticklabels()) == len(multiverse.named())
    for ax in grid.axes:
        shown = [text.get_text() for text in ax.texts]
        assert shown == (["1 of 2"] * 15 if sources else ["0 of 0"] * len(shown))
    assert grid.axes[1].get_title(loc="left") == "Letter, flat"
    plt.close(fig)
    plt.close(grid)

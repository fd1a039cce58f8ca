"""The study of readings: the rule for γ, the readings that are tried, and how the published algorithm ends by them."""

from dataclasses import replace

import matplotlib.pyplot as plt
import networkx as nx
import pandas as pd
import pytest

from lstoc_core.drawing.readings import readings_figure
from lstoc_core.study import readings
from lstoc_core.study.cache import RunSpec
from lstoc_core.study.readings import BEST, FIRST, GRID, Reading
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


def test_every_reading_is_tried_once_and_the_grid_is_whole():
    tried = list(readings.readings())
    assert len(tried) == len(set(tried))
    assert tried[0] == BEST
    assert FIRST in tried
    assert set(readings.named_readings().values()) <= set(tried)
    for wrap in GRID["wrap"]:
        for gamma in GRID["gamma"]:
            assert {replace(BEST, wrap=wrap, gamma=gamma, training=way) for way in GRID["training"]} <= set(tried)


def test_the_best_reading_is_exact_where_the_first_one_is_not():
    """Letter 1 on the same number of random walks: what wraps, γ and training make of the same algorithm."""
    ended = {}
    for reading in (BEST, replace(BEST, training="closed form"), FIRST):
        task = replace(TASKS["letter-1"], wrap=reading.wrap)
        store = random_walks(make_vec(task, num_envs=500), 3_000, seed=1)
        ended[reading] = readings.outcome(task, store, reading, seed=1)
    assert [found["exact"] for found in ended.values()] == [True, True, False]
    assert [found["first"] == "next subgoal" for found in ended.values()] == [True, True, False]
    assert not any(found["finished"] and not found["exact"] for found in ended.values())


def test_one_run_has_a_row_for_each_reading():
    told = {"walks": 400, "readings": 4}
    layout, task = (
        readings.measure(RunSpec("readings", "letter-2", method, 3, "smoke", told)) for method in ("layouts", "tasks")
    )
    assert len(layout) == len(task) == 4
    assert list(layout.wrap) == [True, False, True, True]
    assert not layout.successes.equals(task.successes), "another map"


def rows(reading: Reading, exact: list[bool], method: str = "layouts") -> pd.DataFrame:
    """Runs of one reading, as the cache gives them."""
    return pd.DataFrame(
        [vars(reading) | {"method": method, "exact": e, "finished": e, "first": "next subgoal"} for e in exact]
    )


def test_shares_count_the_runs_of_each_reading_alone():
    flat = replace(BEST, wrap=False)
    table = pd.concat([rows(BEST, [True] * 3), rows(flat, [True, False]), rows(BEST, [False], "tasks")])
    found = readings.shares(table, {"best": BEST, "flat": flat}).set_index(["reading", "maps"])
    assert found.exact.to_dict() == {
        ("best", "layouts"): "3 of 3",
        ("best", "tasks"): "0 of 1",
        ("flat", "layouts"): "1 of 2",
    }
    assert found.loc[("best", "layouts"), "low"] == pytest.approx(3 / (3 + 1.96**2), abs=1e-3), "Wilson's, at 3 of 3"
    assert (found["stopped wrong"] == 0).all()


@pytest.mark.parametrize("sources", [["layouts", "tasks"], ["layouts"], []])
def test_the_figure_draws_whatever_there_is(sources):
    parts = [rows(reading, [True, False], source) for source in sources for reading in readings.readings()]
    table = pd.concat(parts) if parts else rows(BEST, [True]).iloc[:0]
    fig = readings_figure(table)
    changes, wrapped, flat = fig.axes
    assert len(changes.get_yticklabels()) == len(readings.named_readings())
    shown = [text.get_text() for text in wrapped.texts]
    assert shown == (["1 of 2"] * 15 if sources else ["0 of 0"] * len(shown))
    assert flat.get_title() == "the map is flat"
    plt.close(fig)

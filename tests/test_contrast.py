"""The study of order: verdicts on maps with known answers, and tables and figures of the right shape."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

import lstoc_core as lstoc
from lstoc_core.drawing import contrast as contrast_figures
from lstoc_core.study import contrast
from lstoc_core.study.contrast import EXACT, FULL, PRINTED, SETTLED, VERDICTS
from lstoc_core.trajectories import TrajectoryStore, random_walks


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


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


def test_trained_and_exact_importance_in_one_table(store):
    table = contrast.importance_table({"letter-1": store}, gamma=0.95, seed=0)
    assert set(table.method) == {EXACT, PRINTED, SETTLED, FULL}
    assert len(table) == 3 * 4 * 100
    agreement = contrast.agreement(table).set_index("objective")
    assert (agreement[FULL] > 0.95).all()
    assert agreement.loc["lstoc", SETTLED] > agreement.loc["lstoc", PRINTED]
    plt.close(contrast_figures.temporal_figure(table))


def test_what_f_reads_does_not_decide_whether_it_reaches_the_optimum(store):
    table = contrast.input_table({"letter-1": store}, gamma=0.95, seed=0, restarts=3)
    assert len(table) == 2 * 2
    settled = table[table.training == SETTLED]
    assert (settled["low"] > 0.9).all()
    assert (table[table.training == PRINTED]["high"].to_numpy() < settled["low"].to_numpy()).all()


def test_small_study_and_its_figure():
    sizes = {"gammas": [0.9], "horizons": [100], "positives": [3]}
    table = contrast.order_study(layouts=2, trajectories=400, seed=0, **sizes)
    assert set(table.sweep) == {"gamma", "horizon", "positives"}
    assert set(table.start) == {"fixed", "random"}
    assert set(table.verdict) <= set(VERDICTS)
    assert not table.duplicated(["sweep", "value", "start", "method", "distance"]).any()
    plt.close(contrast_figures.order_figure(table))

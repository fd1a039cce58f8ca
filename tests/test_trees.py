"""Figures of discovery at work show what happened, and the steps of guided are what its data says."""

import base64
import io
import re
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import same_color
from PIL import Image

from lstoc_core.discovery.guided import GuidedConfig, guided, guided_steps
from lstoc_core.discovery.method import Missing
from lstoc_core.discovery.published.forward import Forward, ForwardConfig
from lstoc_core.discovery.tree import ROOT, SubgoalTree
from lstoc_core.drawing import RED, trees
from lstoc_core.trajectories import TrajectoryStore, contains, random_walks
from lstoc_core.worlds import compile_world, make_vec
from lstoc_core.worlds.tasks import make_task

TASK = make_task(
    domain="letter", formula="a;((b;a)|c);d", positions={"a": (1, 4), "b": (4, 1), "c": (4, 4), "d": (2, 2)},
    size=(5, 5), horizon=120, wrap=False,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def store():
    return random_walks(make_vec(TASK, num_envs=500), 3000, seed=0)


@pytest.fixture
def walk_through():
    """(a;b)|(b;c) as the paper grows it."""
    tree = SubgoalTree()
    tree.work_on(tree.expand(ROOT, 0))
    tree.work_on(tree.expand(1, 1))
    tree.mark_satisfying(2)
    tree.work_on(1)
    tree.mark_explored(1)
    tree.work_on(ROOT)
    tree.work_on(tree.expand(ROOT, 1))
    tree.work_on(tree.expand(3, 2))
    tree.mark_satisfying(4)
    tree.work_on(3)
    tree.mark_explored(3)
    tree.work_on(ROOT)
    tree.mark_explored(ROOT)
    return tree


def texts(fig):
    return [text.get_text() for ax in fig.axes for text in (*ax.texts, ax.title)]


def test_every_moment_is_told(walk_through):
    told = [trees.describe(walk_through, events) for events in trees.moments(walk_through)]
    new, satisfying, explored = "a new key state", "satisfying: condition (*)", "explored: condition (**)"
    expected = ["begin at $v_0$", new, new, satisfying, explored, new, new, satisfying, explored]
    assert told == [*expected, "every success is explained"]


def test_the_walk_through_shows_what_is_known(walk_through):
    shown = texts(trees.growth_figure(walk_through, "abc", shown=[2, 4]))
    first, second = (text for text in shown if "mathcal" in text)
    assert "a" in first
    assert "b" not in first.replace("mathcal", "")
    assert "b" in second
    assert sum("(a)" in text or "(b)" in text for text in shown) == 2


def test_the_slider_needs_no_kernel(walk_through):
    """All moments are in the page, one of them to be seen; each has a picture of the same size and a text."""
    page = trees.replay(walk_through, "abc").data
    count = len(trees.moments(walk_through))
    assert f'max="{count - 1}" value="{count - 1}"' in page
    assert page.count("display:none") == count - 1
    sizes = {Image.open(io.BytesIO(base64.b64decode(code))).size for code in re.findall('base64,([^"]+)"', page)}
    assert len(sizes) == 1
    texts = re.findall('alt="([^"]+)"', page)
    assert len(texts) == count
    assert texts[0] == "subgoal tree, begin at v_0; key states so far: none"
    assert texts[-1] == "subgoal tree, every success is explained; key states so far: a, b, c"
    assert "http" not in page
    assert not plt.get_fignums()


def test_a_trajectory_turns_red_where_the_path_is_visited(walk_through):
    world = compile_world(TASK)
    a, b = (world.observation_of_symbol(symbol) for symbol in "ab")
    ids = np.array([0, 1, a, 2, b, 3, 4, a])
    fig = trees.trajectory_figure(world, ids, [a, b], walk_through.replay(4), "ab")
    blue, red = (line for line in fig.axes[0].lines if len(line.get_xdata()) > 1)
    assert len(blue.get_xdata()) == 5
    assert len(red.get_xdata()) == 4
    assert same_color(red.get_color(), RED)
    with pytest.raises(ValueError, match="does not visit"):
        trees.trajectory_figure(world, ids, [b, b], walk_through, "ab")


def test_a_trajectory_leaves_the_map_over_one_edge_and_comes_back_over_the_opposite_one():
    task = make_task(domain="letter", formula="a", positions={"a": (4, 2)}, size=(5, 5), start=(1, 2))
    world = compile_world(task)
    ids = world.observation_id[[world.position_of((x, 2)) for x in (1, 0, 4)]]
    tree = SubgoalTree()
    tree.work_on(tree.expand(ROOT, 0))
    fig = trees.trajectory_figure(world, ids, [int(ids[-1])], tree, "a")
    (blue,) = (line for line in fig.axes[0].lines if len(line.get_xdata()) > 1)
    np.testing.assert_allclose(blue.get_xdata(), [1 - 0.26, 0, -0.5, np.nan, 4.5, 4 + 0.26])
    np.testing.assert_allclose(np.delete(blue.get_ydata(), 3), [2 - 0.26, 2, 2, 2 + 0.26, 2 + 0.26])


def test_ids_are_spelled_for_the_reader():
    world = compile_world(TASK)
    a, d = (world.observation_of_symbol(symbol) for symbol in "ad")
    corner = int(world.observation_id[world.position_of((0, 3))])
    assert trees.spelled(TASK, [a, corner, d]) == "a;(0, 3);d"
    assert trees.spelled(TASK, []) == "v0"


def test_the_steps_of_guided_lead_to_its_sequences(store):
    config = GuidedConfig(max_length=4)
    steps = guided_steps(store, config)
    assert tuple(steps) == guided(store, config).paths
    failures = TrajectoryStore(store.num_ids)  # every success minus its last step is a certain failure
    negatives = [store.trajectory(i) for i in store.negatives] + [store.trajectory(i)[:-1] for i in store.positives]
    failures.append(negatives, None, [False] * len(negatives))
    for path, chain in steps.items():
        assert chain[0].separation is None
        assert set(path) <= set(chain[-1].path)
        assert chain[-1].refuters == 0
        for before, after in pairwise(chain):
            assert len(after.path) == len(before.path) + 1
            assert after.support <= before.support
            assert after.separation[trees._added(before.path, after.path)] > 0
        for step in chain:
            assert step.refuters == contains(failures, step.path).sum()


def test_forward_and_guided_side_by_side(store):
    method = Forward(ForwardConfig(exact=True), TASK.formula.fsm())
    missing = method.advance(store)
    forward = (*method.abandoned, method.attempt)[0]
    assert len(forward.tree) > 1
    steps = guided_steps(store, GuidedConfig(max_length=4))
    shown = texts(trees.comparison_figure(TASK, forward, missing, steps))
    for path in steps:
        assert any(f"→ {trees.spelled(TASK, path)}" in text for text in shown)
    assert sum("highest at" in text for text in shown) == len(forward.importances)


def test_the_comparison_spells_out_what_is_missing(store):
    a, d = (compile_world(TASK).observation_of_symbol(symbol) for symbol in "ad")
    method = Forward(ForwardConfig(exact=True), TASK.formula.fsm())
    method.advance(store)
    forward = (*method.abandoned, method.attempt)[0]
    steps = guided_steps(store, GuidedConfig(max_length=4))
    for missing, told in ((Missing.one("7 of 80 follow {}", (a, d)), "7 of 80 follow a;d"), (Missing(), "finished")):
        assert told in texts(trees.comparison_figure(TASK, forward, missing, steps))


def test_what_dropping_an_element_admits():
    world = compile_world(TASK)
    importance = np.linspace(0, 1, world.num_observations)
    fig = trees.corridor_figure(world, importance, {"a": 12, "corridor": 0}, 20)
    assert "number 5 of 25" in " ".join(texts(fig))
    assert {" 12", " 0"} <= set(texts(fig))

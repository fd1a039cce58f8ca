"""A proof rests on assumptions, so every later episode tests it: withdrawal, confirmation, one's own episodes."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lstoc_core as lstoc
from lstoc_core.discovery.contradictions import contradictions
from lstoc_core.loop import LSTOCConfig
from lstoc_core.policies.ppo import PPOConfig
from lstoc_core.trajectories import TrajectoryStore

torch.set_num_threads(1)
SMALL = LSTOCConfig(num_envs=4, ppo=PPOConfig(segment_length=32, minibatches=2, hidden=16, features=16))


def run(env, **options):
    given_ = {"max_steps": 20_000, "progress": False, "config": SMALL, "explorer": "planner", **options}
    return lstoc.discover(env, **given_)


class Corridor(gymnasium.Env):
    """Cells 0 to 4, start in the middle. Success: the left end, then the right end, within 40 steps.

    From episode `turns` on, the right end alone is a success, or nothing is (`closed`): visits alone do not decide.
    """

    def __init__(self, turns=10**9, *, closed=False):
        self.closed = closed
        self.observation_space, self.action_space = gymnasium.spaces.Discrete(5), gymnasium.spaces.Discrete(2)
        self.episode, self.turns = -1, turns

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.time, self.left = 2, 0, False
        self.episode += 1
        return self.cell, {}

    def step(self, action):
        self.cell = min(max(self.cell + (1 if action else -1), 0), 4)
        self.time += 1
        self.left |= self.cell == 0
        turned = self.episode >= self.turns
        done = self.cell == 4 and (not self.closed if turned else self.left)
        return self.cell, 0.0, done, self.time >= 40, {"success": done}


# --- contradictions ---------------------------------------------------------------------------------------------------


def ends_at(path, ids):
    """Index at which the ids first contain the path, the start being no visit; None if they never do."""
    wanted = [*path]
    for index, each in enumerate(ids[1:], 1):
        if each == wanted[0]:
            wanted.pop(0)
        if not wanted:
            return index
    return None


EPISODES = st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.booleans()), max_size=12)
PATHS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple), min_size=1, max_size=3)


@settings(max_examples=300, deadline=None)
@given(EPISODES, PATHS, st.booleans())
def test_contradictions_are_those_of_playing_the_episode_again(episodes, paths, prompt):
    store = TrajectoryStore(4)
    store.append([np.array(ids) for ids, _ in episodes], None, [label for _, label in episodes])
    expected = []
    for index, (ids, label) in enumerate(episodes):
        ends = [end for path in paths if (end := ends_at(path, ids)) is not None]
        late = prompt and bool(ends) and min(ends) < len(ids) - 1
        if bool(ends) != label or late:
            expected.append(index)
    assert contradictions(store, paths, prompt=prompt).tolist() == expected


# --- the run watches its answer ---------------------------------------------------------------------------------------


def test_an_answer_is_confirmed_before_the_run_stops():
    unconfirmed = run(Corridor, fsm="a;b", confirm=0)
    assert unconfirmed.proved
    assert unconfirmed.tested == 0
    assert unconfirmed.error_bound == 1
    confirmed = run(Corridor, fsm="a;b")
    assert confirmed.proved
    assert confirmed.tested == len(confirmed.trajectories) - confirmed.num_trajectories >= 20
    assert confirmed.error_bound == 3 / confirmed.tested
    assert confirmed.num_trajectories == unconfirmed.num_trajectories
    assert run(Corridor, fsm="a;b", confirm=60).tested >= 60


def test_our_own_worlds_need_no_confirmation():
    task = lstoc.make_task(
        domain="letter", formula="a;b", positions={"a": (1, 4), "b": (4, 1)}, size=(5, 5), horizon=60, wrap=False
    )
    found = run(task)
    assert found.proved
    assert found.num_trajectories == len(found.trajectories)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**16), st.sampled_from(["a;b", "a;(b|c)", "(a;b)|c", "a;b;a"]))
def test_where_the_assumptions_hold_no_proof_is_wrong_or_withdrawn(seed, formula):
    cells = [(x, y) for x in range(4) for y in range(4) if (x, y) != (0, 0)]
    rng = np.random.default_rng(seed)
    places = [cells[index] for index in rng.choice(len(cells), 3, replace=False)]
    positions = {name: place for name, place in zip("abc", places, strict=True) if name in formula}
    task = lstoc.make_task(
        domain="letter", formula=formula, positions=positions, size=(4, 4), start=(0, 0), horizon=40, wrap=False
    )
    found, watched = run(task, seed=seed), run(task, seed=seed, confirm=30)
    assert found.proved
    assert lstoc.score(found, task).exact
    assert lstoc.score(watched, task).exact
    assert watched.withdrawn == 0
    assert watched.tested >= 30
    assert watched.num_trajectories == found.num_trajectories == len(found.trajectories)


@pytest.mark.parametrize("explorer", ["planner", "policy"])
def test_a_proof_that_a_later_episode_contradicts_is_withdrawn(explorer):
    turns = 40
    options = {"fsm": "a;b", "explorer": explorer, "max_steps": 6000}
    wrong = run(Corridor(turns), **options, confirm=0)
    assert wrong.proved
    assert wrong.num_trajectories < turns
    watched = run(Corridor(turns), **options, confirm=100)
    assert watched.withdrawn == 1
    assert not watched.finished
    assert not watched.proved
    assert watched.tested == 0
    assert watched.labeling is None
    assert watched.missing


def test_the_solve_phase_watches_too_and_goes_back_to_exploring():
    found = run(Corridor(6, closed=True), fsm="a;b", confirm=0, solve=True, max_steps=4000)
    phases = [record["phase"] for record in found.history]
    assert "solve" in phases
    assert "explore" in phases[phases.index("solve") :]
    assert found.withdrawn == 1
    assert not found.finished


def test_without_an_fsm_the_method_finishes_but_proves_nothing():
    found = run(Corridor)
    assert found.finished
    assert not found.proved
    assert found.tested >= 20


def test_without_an_fsm_an_answer_is_withdrawn_too():
    found = run(Corridor(120), confirm=200, max_steps=15_000)
    assert found.withdrawn >= 1


def test_flipped_labels_are_no_contradiction_where_they_are_expected():
    config = replace(SMALL, guided=replace(SMALL.guided, noise=0.05))
    found = run(Corridor, fsm="a;b", config=config)
    assert found.finished
    assert not found.proved
    assert found.tested == 0


def test_a_confirmation_goes_on_after_a_checkpoint(tmp_path):
    straight = run(Corridor, fsm="a;b", confirm=60)
    stop_at = straight.num_trajectories + 10

    def stop(record):
        return record["trajectories"] < stop_at

    begun = run(Corridor, fsm="a;b", confirm=60, checkpoint=tmp_path, callbacks=[stop])
    assert begun.interrupted
    assert 0 < begun.tested < 60
    resumed = run(Corridor, fsm="a;b", confirm=60, checkpoint=tmp_path)
    assert resumed.tested >= 60
    assert resumed.num_trajectories == straight.num_trajectories


def test_a_confirmation_that_makes_no_sense_is_named():
    with pytest.raises(ValueError, match=r"confirm is -1: give a number of episodes"):
        run(Corridor, confirm=-1)


# --- episodes of one's own --------------------------------------------------------------------------------------------


def test_episodes_of_ones_own_test_an_answer(tmp_path):
    found = run(Corridor, fsm="a;b", confirm=0)
    found.save(tmp_path / "found")
    episodes = [[2, 1, 0, 1, 2, 3, 4], [2, 3, 4], [2, 3, 4], [2, 1, 0, 1, 2, 3, 4, 3], [2, 1, 0, 1, 2, 3, 4]]
    labels = [True, False, True, True, False]
    for answer in (found, lstoc.load(tmp_path / "found")):
        rows = [np.eye(5)[episode] for episode in episodes]  # as a Discrete observation is kept
        assert lstoc.check(answer, rows, labels).tolist() == [2, 3, 4]
        assert lstoc.check(answer, rows, labels, prompt=False).tolist() == [2, 4]
        assert lstoc.check(answer, answer.trajectories).tolist() == []
        assert (answer.proved, answer.tested, answer.withdrawn) == (True, 0, 0)


def test_episodes_that_cannot_test_an_answer_are_named():
    found = run(Corridor, fsm="a;b", confirm=0)
    with pytest.raises(ValueError, match="observations of shape"):
        lstoc.check(found, [np.zeros((3, 2))], [True])
    with pytest.raises(ValueError, match="labels are missing"):
        lstoc.check(found, [np.zeros(3)])
    nothing = run(Corridor, fsm="a;b", max_steps=1)
    with pytest.raises(ValueError, match="nothing to test"):
        lstoc.check(nothing, [np.zeros(3)], [True])

"""Environments as others write them: how success is known, composed spaces, ids of gymnasium, vector environments."""

from dataclasses import replace
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array
from hypothesis import given
from hypothesis import strategies as st
from test_loop import SMALL, Corridor, run

import lstoc_core as lstoc
from lstoc_core.trajectories.flat import FlatObservations, ListedActions, space_from_json, space_to_json
from lstoc_core.trajectories.interned import InternedVectorEnv
from lstoc_core.trajectories.success import EpisodeEnd, succeeded

ENDS = [[0, 4], [4, 0]]


def end(info=None, reward=0.0):
    return EpisodeEnd(np.zeros(1), reward, True, False, info or {})


class Says(Corridor):
    """The corridor, with what it says at each step given by a function of the label."""

    def __init__(self, says):
        super().__init__()
        self.says = says

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        reward, info = self.says(info["success"])
        return observation, reward, terminated, truncated, info


def found_places(found):
    return [[found.key_states[key].observation.tolist() for key in sequence] for sequence in found.sequences]


# --- success ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [True, False, 1, 0, 1.0, np.True_, np.float32(0), np.array([1])])
@pytest.mark.parametrize("key", ["success", "is_success"])
def test_labels_are_read_from_the_info(label, key):
    rule = {"success": "info", "is_success": "is_success"}[key]
    for success in ("auto", rule):
        assert succeeded(success, end({key: label}), "it") is bool(label)


@pytest.mark.parametrize(("reward", "label"), [(1.0, True), (0.0, False), (-1.0, False)])
def test_a_positive_last_reward_is_a_success_if_one_says_so(reward, label):
    assert succeeded("reward", end({"success": not label}, reward), "it") is label


@pytest.mark.parametrize("label", [0.7, None, "yes", [], [1, 0], float("nan"), 2])
@pytest.mark.parametrize("success", ["auto", "info", lambda end: end.info["success"]])
def test_labels_that_are_not_boolean_are_refused(label, success):
    with pytest.raises(TypeError, match="a label is True or False"):
        succeeded(success, end({"success": label}), "it")


def test_what_is_unsaid_or_contradictory_is_named():
    with pytest.raises(KeyError, match=r"it ended an episode without info\['success'\] and .*success='reward'"):
        succeeded("auto", end({}, 1.0), "it")
    with pytest.raises(KeyError, match=r"without info\['is_success'\]: say"):
        succeeded("is_success", end({"success": True}), "it")
    both = {"success": True, "is_success": False}
    with pytest.raises(ValueError, match="choose success="):
        succeeded("auto", end(both), "it")
    assert succeeded("info", end(both), "it") is True
    with pytest.raises(ValueError, match="unknown success 'rewards'; did you mean reward"):
        InternedVectorEnv([Corridor], success="rewards")


@pytest.mark.parametrize(
    ("says", "success"),
    [
        (lambda done: (0.0, {"is_success": done}), "auto"),
        (lambda done: (20.0 if done else -1.0, {}), "reward"),
        (lambda done: (0.0, {"goal": done}), lambda end: end.terminated and end.info["goal"]),
    ],
)
def test_discovery_under_each_convention(says, success):
    found = run(lambda: Says(says), fsm="left;right", success=success)
    assert found_places(found) == [ENDS]
    assert sorted(found.labeling.mapping.values()) == ["left", "right"]


def test_a_rule_of_ones_own_reaches_other_processes():
    env = InternedVectorEnv([Corridor] * 2, asynchronous=True, success=lambda end: end.observation[0] == 4)
    try:
        env.reset()
        for action in [0, 0, 1, 1, 1, 1]:
            *_, info = env.step([action, 0])
        assert info["success"].tolist() == [True, False]
    finally:
        env.close()


def test_a_rule_sees_the_end_as_the_environment_gives_it():
    seen = []

    def rule(end):
        seen.append(end)
        return end.observation[0] == 4

    env = InternedVectorEnv([Corridor], success=rule)
    env.reset()
    for action in [0, 0, 1, 1, 1, 1]:
        *_, info = env.step([action])
    assert info["success"].tolist() == [True]
    assert [(e.observation.tolist(), e.reward, e.terminated, e.truncated) for e in seen] == [([4, 0], 0.0, True, False)]


# --- spaces -----------------------------------------------------------------------------------------------------------

LEAVES = st.one_of(
    st.builds(spaces.Discrete, st.integers(1, 4), start=st.integers(-2, 2)),
    st.builds(spaces.MultiBinary, st.integers(1, 3)),
    st.builds(spaces.MultiDiscrete, st.lists(st.integers(1, 3), min_size=1, max_size=3)),
    st.builds(lambda shape: spaces.Box(0, 9, shape, np.float32), st.sampled_from([(1,), (2, 2), ()])),
    st.builds(lambda shape: spaces.Box(0, 9, shape, np.uint8), st.sampled_from([(3,), (2, 1)])),
)
SPACES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(spaces.Tuple, st.lists(inner, min_size=1, max_size=3)),
        st.builds(spaces.Dict, st.dictionaries(st.sampled_from("xyz"), inner, min_size=1)),
    ),
    max_leaves=4,
)


@given(SPACES, st.integers(0, 99))
def test_observations_are_flattened_as_gymnasium_does_alone_and_in_batches(space, seed):
    space.seed(seed)
    flat, given = FlatObservations(space), [space.sample() for _ in range(3)]
    batch = concatenate(space, given, create_empty_array(space, 3))
    rows = flat.rows(batch, 3)
    assert rows.shape == (3, *flat.box.shape)
    assert rows.dtype == flat.box.dtype
    for one, row in zip(given, rows, strict=True):
        np.testing.assert_array_equal(flat.row(one), row)
        np.testing.assert_array_equal(np.ravel(row), np.ravel(spaces.flatten(space, one)))
        assert not flat.is_batch(one)
    assert flat.is_batch(batch)
    again = FlatObservations(space_from_json(space_to_json(flat.space)))
    np.testing.assert_array_equal(again.rows(batch, 3), rows, strict=True)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3, start=2),
        spaces.MultiDiscrete([2, 3], start=[1, -1]),
        spaces.MultiDiscrete([[2, 1], [1, 3]]),
        spaces.MultiBinary(3),
    ],
)
def test_every_action_is_listed_once(space):
    rows = ListedActions.of(space).rows
    assert all(space.contains(row.astype(space.dtype)) for row in rows)
    space.seed(0)
    assert {space.sample().tobytes() for _ in range(300)} == {row.astype(space.dtype).tobytes() for row in rows}
    assert len({row.tobytes() for row in rows}) == len(rows)


class Composed(Corridor):
    """The corridor with an observation of several parts, and two switches that must agree as its action."""

    observation_space = spaces.Dict(
        {
            "cell": spaces.Discrete(5),
            "pair": spaces.Tuple([spaces.MultiBinary(1), spaces.Box(0, 4, (1,), np.float32)]),
        }
    )

    def __init__(self):
        super().__init__()
        del self.observation_space
        self.action_space = spaces.MultiDiscrete([2, 2])

    def observe(self):
        return {"cell": self.cell, "pair": (np.array([self.cell > 1], np.int8), np.array([self.cell], np.float32))}

    def step(self, action):
        assert action.shape == (2,)
        return super().step(bool(action[0] == action[1]))


def test_a_world_of_composed_spaces():
    found = run(Composed, fsm="a;b")
    assert found_places(found) == [[[1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 4]]]
    action, _ = found.policy.predict(Composed().reset()[0])
    assert found.policy.listed.rows.shape == (4, 2)
    assert action.shape == (2,)


def test_what_cannot_be_flattened_is_named_or_left_out():
    text = spaces.Dict({"cell": spaces.Discrete(5), "graph": spaces.Graph(spaces.Box(0, 1), None)})
    with pytest.warns(UserWarning, match="without 'graph'"):
        flat = FlatObservations(text)
    assert flat.row({"cell": 2, "graph": None}).tolist() == [0, 0, 1, 0, 0]
    with pytest.raises(TypeError, match="ObservationWrapper"):
        FlatObservations(spaces.Sequence(spaces.Discrete(2)))
    with pytest.raises(ValueError, match="16,777,216 actions, more than 4,096"):
        ListedActions.of(spaces.MultiBinary(24))


def test_the_remedy_for_continuous_actions_works():
    with pytest.raises(TypeError, match=r"gymnasium\.wrappers\.TransformAction\(env, lambda i: chosen\[i\]"):
        InternedVectorEnv([partial(gymnasium.make, "Pendulum-v1")])
    chosen = np.array([[-2.0], [0.0], [2.0]], np.float32)
    env = gymnasium.wrappers.TransformAction(
        gymnasium.make("Pendulum-v1"), lambda i: chosen[i], gymnasium.spaces.Discrete(3)
    )
    assert InternedVectorEnv([env]).num_actions == 3


# --- ids of gymnasium -------------------------------------------------------------------------------------------------


def test_environments_by_their_id():
    small = replace(SMALL, num_envs=4)
    found = run("FrozenLake-v1", success="reward", max_steps=256, config=small)
    assert found.observations.shape[1:] == (16,)
    with pytest.warns(UserWarning, match="without 'mission'"):
        found = run("minigrid:MiniGrid-DoorKey-5x5-v0", success="reward", max_steps=256, config=small)
    assert found.observations.shape[1:] == (4 + 7 * 7 * 3,)
    assert run("lstoc/Letter-v0", max_steps=256, config=small).observations.shape[1:] == (10, 10, 6)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("FrozenLak-v1", "did you mean FrozenLake"),
        ("letter-11", "did you mean letter-1"),
        ("Nowhere-v0", "once the package is imported, or as 'package:Name-v0'"),
    ],
)
def test_an_unknown_id_is_named_with_suggestions(name, message):
    with pytest.raises(lstoc.TaskError, match=message):
        run(name)


# --- vector environments ----------------------------------------------------------------------------------------------


class Counted(Corridor):
    """A corridor whose starts are random, so that a lost or repeated reset shows."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = int(self.np_random.integers(1, 4))
        return self.observe(), {}


def stepped(env, steps=200):
    """Everything that happens under fixed actions, as observations."""
    rng = np.random.default_rng(3)
    ids, _ = env.reset(seed=7)
    told = [env.observations[ids]]
    for _ in range(steps):
        ids, reward, terminated, truncated, info = env.step(rng.integers(2, size=env.num_envs))
        done = terminated | truncated
        told += [env.observations[ids], env.observations[info["final_obs"]], reward, terminated, truncated]
        told.append(info["success"] & done)
    return told


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_vector_environments_behave_alike_in_every_autoreset_mode(mode, kind):
    expected = stepped(InternedVectorEnv([Counted] * 3))
    given = kind([Counted] * 3, autoreset_mode=mode)
    env = InternedVectorEnv(given)
    try:
        for mine, theirs in zip(stepped(env), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    finally:
        env.close()
    assert given.closed


def test_discovery_in_a_vector_environment_as_given():
    given = SyncVectorEnv([lambda: Says(lambda done: (float(done), {}))] * 16)  # NEXT_STEP, gymnasium's default
    assert found_places(run(given, fsm="a;b", success="reward")) == [ENDS]


def test_vector_environments_with_composed_spaces():
    env = InternedVectorEnv(SyncVectorEnv([Composed] * 2))
    expected = stepped(InternedVectorEnv([Composed] * 2))
    for mine, theirs in zip(stepped(env), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_infos_reach_the_rule_one_by_one():
    class Two(Counted):
        def step(self, action):
            *rest, info = super().step(action)
            return *rest, {"deep": {"label": info["success"]}, **({"left": 1} if self.left else {})}

    seen = []

    def rule(end):
        seen.append(end)
        return end.info["deep"]["label"]

    stepped(InternedVectorEnv(SyncVectorEnv([Two] * 3, autoreset_mode=AutoresetMode.SAME_STEP), success=rule))
    assert {"left" in end.info for end in seen} == {True, False}
    assert all("left" in end.info for end in seen if end.info["deep"]["label"])


def test_vector_environments_that_cannot_be_used_are_named():
    with pytest.raises(ValueError, match="SAME_STEP, or give a factory"):
        InternedVectorEnv(gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point"))
    silent = SyncVectorEnv([Corridor])
    silent.metadata = {}
    with pytest.raises(ValueError, match="does not say in metadata"):
        InternedVectorEnv(silent)

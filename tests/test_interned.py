"""Environments of one's own: the behaviour of the table-driven ones, and clear words about what they must offer."""

import copy
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.error import InvalidAction, ResetNeeded

from lstoc_core.policies.ppo import packed, unpacked
from lstoc_core.trajectories.identity import ExactIdentity
from lstoc_core.trajectories.interned import InternedVectorEnv
from lstoc_core.trajectories.representation import LearnedIdentity, make_encoder
from lstoc_core.worlds import GridEnv, make_env, make_vec
from lstoc_core.worlds.perturbed import FlippedLabels, NoisyPixels, SlipperyMoves
from lstoc_core.worlds.tasks import TASKS


class Unlabelled(gymnasium.Wrapper):
    def step(self, action):
        return *super().step(action)[:4], {}


class Counter(gymnasium.Env):
    """Counts to the limit in steps of the action, always in the same array; success if it ends on it exactly."""

    observation_space = spaces.Box(0, 20, (1,), np.float32)
    action_space = spaces.Discrete(3, start=1)

    def __init__(self, limit=7):
        self.limit, self.closed, self.count = limit, False, np.zeros(1, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count[:] = self.np_random.integers(3)
        return self.count, {"text": "ignored"}

    def step(self, action):
        self.count += action
        ended = self.count[0] >= self.limit
        return self.count, 0.5, False, bool(ended), {"success": self.count[0] == self.limit} if ended else {}

    def close(self):
        self.closed = True


def test_interned_environments_behave_as_the_table_driven_ones():
    options = {"start": None, "horizon": 30}
    tables = make_vec("office-2-walls", 4, seed=2, **options)
    interned = InternedVectorEnv([lambda: make_env(task="office-2-walls", **options)] * 4, seed=2)
    assert interned.observations.shape == (0, 5, 5, 7)
    ids, _ = tables.reset()
    own, _ = interned.reset()
    rng = np.random.default_rng(0)
    for actions in rng.integers(4, size=(400, 4)):
        np.testing.assert_array_equal(tables.observations[ids], interned.observations[own])
        ids, *rest, info = tables.step(actions)
        own, *own_rest, own_info = interned.step(actions)
        for a, b in zip(rest, own_rest, strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(info["success"], own_info["success"])
        np.testing.assert_array_equal(
            tables.observations[info["final_obs"]], interned.observations[own_info["final_obs"]]
        )
    rows = interned.observations.reshape(len(interned.observations), -1)
    assert len(np.unique(rows, axis=0)) == len(rows) > 100


def test_interned_observations_keep_their_numbers_and_can_be_loaded():
    def wrapped():  # one that cannot be saved
        return gymnasium.Wrapper(make_env(task="letter-1"))

    env = InternedVectorEnv([wrapped] * 2)
    env.reset()
    for _ in range(20):
        before = env.observations.copy()
        env.step([1, 2])
        np.testing.assert_array_equal(env.observations[: len(before)], before)
    assert not env.observations.flags.writeable
    other = InternedVectorEnv([wrapped] * 2)
    other.load_state_dict(env.state_dict())
    np.testing.assert_array_equal(other.observations, env.observations)
    with pytest.raises(ResetNeeded):
        other.step([0, 0])
    other.reset()
    stranger = InternedVectorEnv([lambda: make_env(task="letter-2")])
    stranger.reset()
    with pytest.raises(ValueError, match="new InternedVectorEnv"):
        stranger.load_state_dict(env.state_dict())


CHANGED = {
    "plain": lambda env: env,
    "flipped": lambda env: FlippedLabels(env, 0.3),
    "slippery": lambda env: SlipperyMoves(env, 0.3),
    "noisy": lambda env: NoisyPixels(env, 3),
}


@pytest.mark.parametrize("change", CHANGED)
def test_environments_that_can_be_saved_go_on_in_the_middle_of_their_episodes(change):
    """With random starts, so that every stream of random numbers is restored; the run that goes on is the oracle."""
    task = replace(TASKS["letter-1"], start=None, horizon=30)

    def make():
        torch.manual_seed(0)
        identity = LearnedIdentity(make_encoder((10, 10, 6), np.uint8), 0.999) if change == "noisy" else None
        return InternedVectorEnv([lambda: CHANGED[change](make_env(task=task))] * 3, identity, seed=5)

    def play(env, actions):
        told = [env.step(each) for each in actions]
        return [np.concatenate([*step[:4], step[4]["success"], step[4]["final_obs"]]) for step in told]

    actions = np.random.default_rng(0).integers(4, size=(200, 3))
    env = make()
    env.reset()
    play(env, actions[:77])
    state = unpacked(packed(env.state_dict()))
    other = make()
    other.load_state_dict(state)
    np.testing.assert_array_equal(play(other, actions[77:]), play(env, actions[77:]))
    np.testing.assert_array_equal(other.observations, env.observations)
    assert (other.successes, other.late_successes) == (env.successes, env.late_successes)


def test_discrete_observations_become_one_hot_rows():
    env = InternedVectorEnv([lambda: make_env(task="letter-1", observation="id")])
    ids, _ = env.reset()
    assert env.observations.shape == (1, 100)
    assert env.observations[ids[0]].sum() == 1


def test_a_given_identity_decides_what_is_the_same():
    class EverythingIsOne(ExactIdentity):
        def ids(self, observations):
            return super().ids(np.zeros_like(observations))

    env = InternedVectorEnv([lambda: make_env(task="letter-1")] * 2, EverythingIsOne())
    assert env.reset()[0].tolist() == env.step([1, 2])[0].tolist() == [0, 0]


def test_what_an_environment_must_offer_is_said():
    env = InternedVectorEnv([lambda: Unlabelled(make_env(task="letter-1"))])
    env.reset()
    for _ in range(199):
        env.step([0])
    with pytest.raises(KeyError, match="environment 0 ended an episode without info"):
        env.step([0])
    with pytest.raises(TypeError, match="choose n actions"):
        InternedVectorEnv([lambda: gymnasium.make("Pendulum-v1")])
    single = make_env(task="letter-1")
    assert isinstance(single, GridEnv)
    with pytest.raises(ValueError, match="appears twice"):
        InternedVectorEnv([single, single])
    with pytest.raises(ValueError, match="other spaces"):
        InternedVectorEnv([single, make_env(task="letter-1", observation="id")])
    with pytest.raises(ValueError, match="at least one"):
        InternedVectorEnv([])
    with pytest.raises(InvalidAction, match="0 to 3"):
        env.step([7])


def test_an_environment_may_reuse_its_memory():
    env = InternedVectorEnv([Counter] * 3, seed=1)
    ids, _ = env.reset()
    counts = env.observations[ids, 0].copy()
    rng = np.random.default_rng(0)
    ends = 0
    for actions in rng.integers(3, size=(60, 3)):
        ids, reward, _, truncated, info = env.step(actions)
        counts += actions + 1
        np.testing.assert_array_equal(env.observations[info["final_obs"], 0], counts)
        np.testing.assert_array_equal(truncated, counts >= 7)
        np.testing.assert_array_equal(info["success"], counts == 7)
        np.testing.assert_array_equal(reward, np.full(3, 0.5, np.float32), strict=True)
        assert (env.observations[ids, 0] < 7).all()
        counts = env.observations[ids, 0].copy()
        ends += truncated.sum()
    assert ends > 20


def test_processes_play_exactly_as_environments_in_turn():
    in_turn = InternedVectorEnv([Counter] * 3, seed=4)
    processes = InternedVectorEnv([Counter] * 3, seed=4, asynchronous=True)
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(in_turn.reset()[0], processes.reset()[0])
    for actions in rng.integers(3, size=(30, 3)):
        *mine, info = in_turn.step(actions)
        *theirs, other = processes.step(actions)
        for a, b in zip([*mine, *info.values()], [*theirs, *other.values()], strict=True):
            np.testing.assert_array_equal(a, b, strict=True)
    np.testing.assert_array_equal(in_turn.observations, processes.observations)
    twin = copy.deepcopy(processes)
    np.testing.assert_array_equal(twin.reset(seed=9)[0], in_turn.reset(seed=9)[0])
    workers = processes._vector.processes
    for env in (processes, twin):
        env.close()
    assert not any(worker.is_alive() for worker in workers)


@pytest.mark.filterwarnings("ignore:.*ERROR")  # gymnasium also logs what a worker raised
def test_processes_say_what_is_wrong():
    with pytest.raises(TypeError, match="give factories"):
        InternedVectorEnv([Counter()], asynchronous=True)
    with pytest.raises(TypeError, match="choose n actions"):
        InternedVectorEnv([lambda: gymnasium.make("Pendulum-v1")], asynchronous=True)
    env = InternedVectorEnv([lambda: Unlabelled(Counter(1))], asynchronous=True)
    env.reset()
    with pytest.raises(KeyError, match="environment 0 ended an episode without info"):
        env.step([2])
    env.close()


def test_closing_closes_every_environment():
    envs = [Counter(), Counter()]
    InternedVectorEnv(envs).close()
    assert all(env.closed for env in envs)


def test_a_copy_plays_on_by_itself():
    env = InternedVectorEnv([Counter] * 2)
    env.reset()
    twin = copy.deepcopy(env)
    expected = [env.step([0, 1])[0].tolist() for _ in range(8)]
    assert [twin.step([0, 1])[0].tolist() for _ in range(8)] == expected


def test_observations_must_be_as_declared():
    class Wide(Counter):
        def reset(self, **options):
            return np.zeros(2), {}

    with pytest.raises(ValueError, match=r"environment 0 gave an observation of shape \(2,\).*says \(1,\)"):
        InternedVectorEnv([Wide]).reset()

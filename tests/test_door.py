"""Input is checked at the door: each mistake is one sentence, and what was collected is kept."""

import warnings
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st
from test_conventions import SPACES
from test_proof import run

import lstoc_core as lstoc
from lstoc_core.discovery.guided import Guided
from lstoc_core.discovery.hypotheses import GuidedConfig
from lstoc_core.trajectories import TrajectoryStore
from lstoc_core.trajectories.door import LARGEST, InputError, check_members, numbers
from lstoc_core.trajectories.flat import FlatObservations
from lstoc_core.trajectories.interned import InternedVectorEnv

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")
FLOATS, FIVE = spaces.Box(-np.inf, np.inf, (1,), np.float32), spaces.Discrete(5)
LATE = 5
"""Episode from which the environments below give what they should not."""


class Told(gymnasium.Env):
    """Cells 0 to 4, start in the middle; success: the left end, then the right end, within 40 steps.

    tell: (cell, episode) -> observation. label: (success, episode) -> info["success"].
    """

    def __init__(self, space=FIVE, tell=lambda cell, _: cell, label=lambda success, _: success):
        self.observation_space, self.action_space = space, spaces.Discrete(2)
        self.tell, self.label, self.episode = tell, label, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.time, self.left = 2, 0, False
        self.episode += 1
        return self.tell(self.cell, self.episode), {}

    def step(self, action):
        self.cell = min(max(self.cell + (1 if action else -1), 0), 4)
        self.time += 1
        self.left |= self.cell == 0
        done = self.cell == 4 and self.left
        info = {"success": self.label(done, self.episode)}
        return self.tell(self.cell, self.episode), 0.0, done, self.time >= 40, info


def late(wrong, cell, episode):
    """The cell as a float, and at cell 3 something else from episode LATE on."""
    return np.array([wrong if episode >= LATE and cell == 3 else cell], np.float32)


OBSERVATIONS = {
    "nan": (FLOATS, partial(late, np.nan), "holds nan: give finite numbers up to 1e"),
    "infinite": (FLOATS, partial(late, -np.inf), "holds -inf: give finite numbers"),
    "huge": (FLOATS, partial(late, 1e30), "holds 1.*e.30: give finite numbers.*scaled or clipped"),
    "above Discrete": (FIVE, lambda cell, episode: cell + 5 * (episode >= LATE), r"is 7: it is not in Discrete\(5\)"),
    "below Discrete": (FIVE, lambda cell, episode: cell - 5 * (episode >= LATE), r"is -3: it is not in Discrete\(5\)"),
    "no integer": (
        FIVE,
        lambda cell, episode: cell + 0.5 if episode >= LATE else cell,
        r"is 2.5: it is not in Discrete",
    ),
    "another shape": (
        FLOATS,
        lambda cell, episode: np.full(1 + (episode >= LATE), cell, np.float32),
        r"shape \(2,\): its observation_space says \(1,\); make them agree",
    ),
    "another type": (
        spaces.Box(0, 255, (1,), np.uint8),
        lambda cell, episode: np.array([cell + 0.5 * (episode >= LATE)]),
        "holds 2.5, which is no uint8: correct it or the observation_space",
    ),
}


@pytest.mark.parametrize("explorer", ["planner", "policy"])
@pytest.mark.parametrize("case", OBSERVATIONS)
def test_observations_that_would_do_harm_are_refused_and_what_was_collected_is_kept(case, explorer, tmp_path):
    space, tell, message = OBSERVATIONS[case]
    with pytest.raises(InputError, match=message) as raised:
        run(lambda: Told(space, tell), fsm="a;b", explorer=explorer, confirm=100, checkpoint=tmp_path)
    kept = raised.value.discovery
    assert len(kept.trajectories) >= LATE - 2  # the last end may have come with the next start, which is refused
    assert kept.interrupted
    assert "environment" in str(raised.value)
    with pytest.raises(InputError) as again:  # the checkpoint has all of it, too
        run(lambda: Told(space, tell), fsm="a;b", explorer=explorer, confirm=100, checkpoint=tmp_path)
    assert len(again.value.discovery.trajectories) >= len(kept.trajectories)


@pytest.mark.parametrize("label", ["False", "0", float("nan"), 0.3, None])
def test_labels_that_are_neither_true_nor_false_are_refused(label):
    with pytest.raises(TypeError, match="a label is True or False") as raised:
        run(lambda: Told(label=lambda done, episode: label if episode >= LATE else done), fsm="a;b", confirm=100)
    assert len(raised.value.discovery.trajectories) == LATE - 1
    store = TrajectoryStore()
    with pytest.raises(InputError, match=r"a label is .*: give True or False"):
        store.append([[0, 1], [1]], None, [True, label])
    assert not len(store)
    with pytest.raises(InputError, match=r"a label is .*: give True or False"):
        lstoc.learn([np.arange(3), np.arange(2)], [True, label])


def test_a_reward_that_is_no_number_is_no_label():
    class Paid(Told):
        def step(self, action):
            observation, _, terminated, truncated, _ = super().step(action)
            return observation, float("nan"), terminated, truncated, {}

    with pytest.raises(InputError, match="the last reward of environment 0 is nan"):
        run(Paid, success="reward")


def test_vector_environments_and_policies_are_checked_too():
    env = SyncVectorEnv([lambda: Told(FLOATS, partial(late, np.nan)) for _ in range(2)])
    with pytest.raises(InputError, match="holds nan"):
        run(env, fsm="a;b", confirm=100)
    found = run(lambda: Told(FLOATS, partial(late, 3)), explorer="policy", max_steps=200)
    with pytest.raises(InputError, match="holds inf"):
        found.policy.predict(np.array([np.inf], np.float32))


def test_the_largest_numbers_that_are_let_in_leave_the_weights_whole():
    found = run(lambda: Told(FLOATS, partial(late, LARGEST)), explorer="policy", confirm=100, max_steps=2000)
    assert all(torch.isfinite(weights).all() for weights in found.learner.policy.parameters())


def test_minus_zero_is_zero():
    """Two patterns of one number would be two states of one place."""
    env = InternedVectorEnv([lambda: Told(FLOATS, lambda cell, episode: np.array([0.0 if episode % 2 else -0.0]))])
    for _ in range(3):
        env.reset()
    assert len(env.observations) == 1
    assert len(lstoc.learn([np.array([0.0, 1.0]), np.array([-0.0])], [True, False]).observations) == 2


@given(SPACES, st.integers(0, 99))
def test_what_a_space_samples_is_let_in(space, seed):
    space.seed(seed)
    flat = FlatObservations(space)
    for _ in range(3):
        flat.row(space.sample())


@pytest.mark.parametrize(
    ("space", "observation"),
    [
        (spaces.MultiDiscrete([2, 3]), np.array([1, 3])),
        (spaces.MultiDiscrete([2, 3], start=[1, 0]), np.array([0, 0])),
        (spaces.MultiBinary(2), np.array([0, 2])),
        (spaces.MultiBinary(2), np.array([0, 1, 1])),
        (spaces.Text(2, charset="ab"), "abc"),
        (spaces.Dict({"x": spaces.Tuple([FIVE, FLOATS])}), {"x": (5, [0.0])}),
        (spaces.Dict({"x": spaces.Tuple([FIVE, FLOATS])}), {"x": (4, [np.nan])}),
        (FLOATS, "text"),
        (FLOATS, None),
    ],
)
def test_each_part_of_an_observation_is_checked(space, observation):
    with pytest.raises(InputError, match=r"an observation (is|holds)"):
        FlatObservations(space).row(observation)
    if not isinstance(space, spaces.Box):
        with pytest.raises(InputError):
            check_members(space, observation)


def test_numbers_that_fit_their_type_are_let_in():
    assert numbers(np.array([3.0, 255.0]), np.dtype(np.uint8)).tolist() == [3, 255]
    assert numbers([1, 2], np.dtype(np.float32)).dtype == np.float32
    with pytest.raises(InputError, match="holds 1e\\+300: give finite"):
        numbers(np.array([1e300]), np.dtype(np.float32))
    with pytest.raises(InputError, match="holds 256, which is no uint8"):
        numbers(np.array([256]), np.dtype(np.uint8))


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [-0.1, 0.5, 1, float("nan"), "0.1"])
def test_noise_that_makes_no_sense_is_named(noise):
    with pytest.raises(ValueError, match=r"noise is .*: give the fraction of flipped labels, from 0 to below 0.5"):
        GuidedConfig(noise=noise)


def test_an_unknown_contrast_is_named():
    with pytest.raises(ValueError, match="unknown contrast 'exakt'; did you mean exact"):
        run(Told, contrast="exakt")


@pytest.mark.parametrize("explorer", ["planner", "policy", "auto"])
def test_a_budget_of_one_step_is_one_update_and_says_so(explorer):
    found = run(Told, fsm="a;b", explorer=explorer, max_steps=1)
    assert len(found.history) == 1
    assert f"{found.env_steps} steps (max_steps=1, and updates are whole)" in str(found.missing)


# --- no warning escapes -----------------------------------------------------------------------------------------------


class AlwaysDone(Told):
    """Every step ends a success: there are no failures, and no second step."""

    def step(self, action):
        observation, reward, *_ = super().step(action)
        return observation, reward, True, False, {"success": True}


class NeverDone(Told):
    """Every episode fails."""

    def step(self, action):
        observation, reward, _, truncated, _ = super().step(action)
        return observation, reward, False, truncated, {"success": False}


@pytest.mark.parametrize("explorer", ["planner", "policy"])
@pytest.mark.parametrize("world", [AlwaysDone, NeverDone])
@pytest.mark.parametrize("options", [{"fsm": "a;b"}, {}, {"contrast": "learned"}, {"method": "forward", "fsm": "a;b"}])
def test_worlds_without_failures_or_successes_end_without_a_warning(explorer, world, options):
    found = run(world, explorer=explorer, max_steps=300, **options)
    assert not found.proved


@pytest.mark.parametrize("prompt", [True, False])
@pytest.mark.parametrize("labels", [[True, True], [False, False], [True, False]])
def test_a_search_without_failures_divides_by_nothing(prompt, labels):
    store = TrajectoryStore()
    store.append([[0, 1, 2], [0, 2]], None, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Guided(GuidedConfig(prompt=prompt, min_support=1)).advance(store)
        Guided(GuidedConfig(prompt=prompt, min_support=1), structure=(("a", "b"),)).advance(store)


# --- files ------------------------------------------------------------------------------------------------------------

WHOLE = {
    "ids": np.array([0, 1, 1], np.uint16),
    "lengths": np.array([2, 1], np.int32),
    "labels": np.array([True, False]),
    "num_ids": np.int64(0),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": np.array([0.0, 1.5, 1.0])}, "holds ids as float64"),
        ({"ids": np.array([0, -1, 1])}, "observation id -1 is outside"),
        ({"ids": np.array([0, 2**40, 1])}, "observation id 1099511627776 is outside"),
        ({"num_ids": np.int64(1)}, "observation id 1 is outside the table of 1"),
        ({"num_ids": np.int64(-4)}, "num_ids is -4"),
        ({"labels": np.array(["True", "False"])}, "a label is .*'True'"),
        ({"labels": np.array([0.3, 1.0])}, "a label is .*0.3"),
        ({"labels": np.array([True])}, "one label per trajectory"),
        ({"lengths": np.array([2, 5])}, "the lengths add up to 7, but 3 ids"),
        ({"lengths": np.array([3, 0])}, "a trajectory is empty"),
        ({"lengths": np.array([2.0, 1.0])}, "holds lengths as float64"),
    ],
)
def test_a_store_that_does_not_fit_is_refused(tmp_path, change, message):
    np.savez(tmp_path / "whole.npz", **WHOLE)
    assert len(TrajectoryStore.load(tmp_path / "whole.npz")) == 2
    np.savez(tmp_path / "other.npz", **{**WHOLE, **change})
    with pytest.raises(InputError, match=message) as raised:
        TrajectoryStore.load(tmp_path / "other.npz")
    assert "other.npz" in str(raised.value)


def test_any_part_of_a_file_is_refused_as_a_whole(tmp_path):
    found = run(Told, fsm="a;b", confirm=0)
    store, whole = tmp_path / "store.npz", tmp_path / "found"
    found.trajectories.save(store)
    found.save(whole)
    for file, read in ((store, TrajectoryStore.load), (whole, lstoc.load)):
        data = file.read_bytes()
        for size in np.linspace(0, len(data) - 1, 12).astype(int):
            file.write_bytes(data[:size])
            with pytest.raises(InputError, match="save it again"):
                read(file)
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "nowhere")


@pytest.mark.parametrize(("at", "value"), [(6, 83), (8, 1), (10, 99)], ids=["version", "encrypted", "compression"])
def test_a_store_whose_archive_claims_what_cannot_be_read_is_refused(tmp_path, at, value):
    """Byte `at` of an entry in the archive's directory; found by files with random bytes."""
    file = tmp_path / "store.npz"
    np.savez(file, **WHOLE)
    data = bytearray(file.read_bytes())
    data[data.index(b"PK\x01\x02") + at] = value
    file.write_bytes(data)
    with pytest.raises(InputError, match="is not a whole trajectory file"):
        TrajectoryStore.load(file)


def test_a_discovery_whose_ids_do_not_fit_is_refused(tmp_path):
    found = run(Told, fsm="a;b", confirm=0)
    found.observations = found.observations[:2]
    found.save(tmp_path / "found")
    with pytest.raises(InputError, match="has ids beyond its 2 observations: save it again"):
        lstoc.load(tmp_path / "found")

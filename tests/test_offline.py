"""Discovery from recorded episodes: arrays, stores, datasets with Minari's interface, and bad input."""

import time
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import Any

import gymnasium
import numpy as np
import pytest

import lstoc_core as lstoc
from lstoc_core.discovery.guided import GuidedConfig
from lstoc_core.scoring import Score
from lstoc_core.trajectories import TrajectoryStore, random_walks

TASK = lstoc.make_task(
    domain="letter", formula="(a;b)|c", positions={"a": (1, 4), "b": (4, 1), "c": (4, 4)}, size=(5, 5), horizon=60
)
ENV = lstoc.make_vec(TASK, num_envs=32, seed=0)
WALKS = random_walks(ENV, 600, seed=0)
EPISODES = [ENV.observations[WALKS.trajectory(i)] for i in range(len(WALKS))]
EXACT = Score(exact=True, found=1.0, labels_correct=True)


@dataclass
class EpisodeData:
    """What Minari documents of an episode: one observation and info more than steps."""

    observations: Any
    rewards: np.ndarray
    terminations: np.ndarray
    truncations: np.ndarray
    infos: dict[str, Any] = field(default_factory=dict)


@dataclass
class Dataset:
    """What Minari documents of a dataset, as far as it is used."""

    episodes: list[EpisodeData]
    observation_space: gymnasium.Space = field(default_factory=lambda: gymnasium.spaces.Discrete(2))

    def iterate_episodes(self, episode_indices=None):
        yield from self.episodes


class Mission(gymnasium.spaces.Space):
    """A space of texts that gymnasium cannot flatten, as MiniGrid's missions."""


def recorded(rows, label, *, key=None):
    steps = len(WALKS.trajectory(0)) - 1 if rows is None else _length(rows) - 1
    ends = np.arange(steps) == steps - 1
    infos = {key: np.append(False, ends & label), "deep": {"other": np.zeros(steps + 1)}} if key else {}
    return EpisodeData(rows, (ends & label).astype(float), ends & label, ends & ~label, infos)


def _length(rows):
    return len(next(iter(rows.values())) if isinstance(rows, dict) else rows[0] if isinstance(rows, tuple) else rows)


def test_lists_of_arrays():
    found = lstoc.learn(EPISODES, WALKS.labels, fsm="(a;b)|c")
    assert found.finished
    assert not found.missing
    assert lstoc.score(found, TASK) == EXACT
    assert found.tree.sequences == found.sequences
    assert (found.num_trajectories, found.num_positives) == (600, WALKS.labels.sum())
    assert found.env_steps == WALKS.num_steps
    assert found.policy is found.explorer is found.learner is None
    np.testing.assert_array_equal(found.observations[found.trajectories.trajectory(5)], EPISODES[5])


def test_without_an_fsm_the_sequences_must_come_out_of_half_the_episodes_too():
    found = lstoc.learn(EPISODES, WALKS.labels)
    assert found.finished
    assert lstoc.score(found, TASK).exact
    assert found.labeling is None
    order = np.argsort(WALKS.labels, kind="stable")  # failures first: the half is drawn, not cut off
    assert lstoc.learn([EPISODES[i] for i in order], WALKS.labels[order]).finished
    few = lstoc.learn(EPISODES[:60], WALKS.labels[:60])
    assert not few.finished
    assert str(few.missing).startswith(f"{WALKS.labels[:60].sum()} successes in 60 trajectories")


def test_a_store_with_and_without_its_observations():
    found = lstoc.learn(WALKS, fsm=TASK.fsm(), observations=ENV.observations)
    assert lstoc.score(found, TASK) == EXACT
    bare = lstoc.learn(WALKS, fsm=TASK.fsm())
    assert [int(key.observation) for key in bare.key_states] == [key.observation_id for key in found.key_states]
    assert bare.sequences == found.sequences


def test_observations_of_any_shape_and_type():
    for table in (np.arange(25), np.random.default_rng(0).normal(size=(25, 2, 1, 3)), np.eye(25, dtype=bool)):
        found = lstoc.learn([table[WALKS.trajectory(i)] for i in range(len(WALKS))], WALKS.labels, fsm=TASK.fsm())
        places = {name: ENV.world.observation_of_symbol(name) for name in "abc"}
        for key, name in found.labeling.mapping.items():
            np.testing.assert_array_equal(found.key_states[key].observation, table[places[name]])


@pytest.mark.parametrize(
    ("key", "success"),
    [("success", "auto"), ("is_success", "auto"), (None, "reward"), (None, lambda end: end.terminated)],
)
def test_a_dataset_with_minaris_interface(key, success):
    episodes = [recorded(rows, label, key=key) for rows, label in zip(EPISODES, WALKS.labels, strict=True)]
    found = lstoc.learn(Dataset(episodes), fsm=TASK.fsm(), success=success)
    assert lstoc.score(found, TASK) == EXACT
    np.testing.assert_array_equal(found.trajectories.labels, WALKS.labels)


def test_a_dataset_of_composed_observations_and_labels_of_ones_own():
    view = gymnasium.spaces.Box(0, 1, EPISODES[0].shape[1:], np.uint8)
    space = gymnasium.spaces.Dict({"view": view, "still": gymnasium.spaces.Discrete(2)})
    episodes = [recorded({"view": rows, "still": np.ones(len(rows), int)}, False) for rows in EPISODES]
    found = lstoc.learn(Dataset(episodes, space), WALKS.labels, fsm=TASK.fsm())
    assert found.finished
    np.testing.assert_array_equal(found.trajectories.labels, WALKS.labels)
    np.testing.assert_array_equal(found.observations[0], [0, 1, *EPISODES[0][0].ravel()])


def treasury(rng):
    """Images of an episode in a room of 3 × 3, as MiniGrid's full view gives them, and whether it succeeded.

    The key has to be taken before the goal at 2,2; key and agent begin at new places in each episode.
    """
    agent, key = rng.permutation(8)[:2]
    images, taken, done = [], False, False
    while len(images) <= 30 and not done:
        image = np.full((3, 3, 3), (1, 0, 0), np.uint8)
        image[2, 2] = (8, 1, 0)
        if not taken:
            image[divmod(key, 3)] = (5, 4, 0)
        image[divmod(agent, 3)] = (10, 0, 0)
        images.append(image)
        done = taken and agent == 8
        x, y = np.clip(np.array(divmod(agent, 3)) + ((0, 1), (1, 0), (0, -1), (-1, 0))[rng.integers(4)], 0, 2)
        agent = 3 * x + y
        taken |= agent == key
    return np.array(images), done


def treasuries(texts):
    """300 such episodes and the space of their observations, as MiniGrid composes them."""
    image = gymnasium.spaces.Box(0, 255, (3, 3, 3), np.uint8)
    space = gymnasium.spaces.Dict({"direction": gymnasium.spaces.Discrete(4), "image": image, "mission": texts})
    rng, episodes = np.random.default_rng(0), []
    for images, done in (treasury(rng) for _ in range(300)):
        missions = ["take the key to the goal"] * len(images)
        rows = {"direction": np.zeros(len(images), int), "image": images, "mission": missions}
        episodes.append(recorded(rows, done, key="success"))
    return episodes, space


def test_a_dataset_of_minigrid_with_its_missions():
    """Minari stacks each part of an observation; texts are a list, and are left out with a warning."""
    episodes, space = treasuries(Mission(dtype=str))
    with pytest.warns(UserWarning, match="without 'mission'"):
        found = lstoc.learn(Dataset(episodes, space), fsm="key;goal", events=lstoc.tiles())
    with pytest.warns(UserWarning, match="without 'mission'"):
        assert not len(lstoc.check(found, Dataset(episodes, space), events=lstoc.tiles()))
    assert found.finished, str(found.missing)
    named = {name: found.key_states[key].event for key, name in found.labeling.mapping.items()}
    assert named == {"key": "no yellow key", "goal": "agent at 2,2"}


def test_datasets_that_minari_keeps(tmp_path, monkeypatch):
    """Where Minari is installed: it writes episodes to files and reads them again."""
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))

    def kept(name, episodes, space):
        buffer = [
            minari.data_collector.EpisodeBuffer(actions=np.zeros(len(each.rewards), int), **vars(each))
            for each in episodes
        ]
        spaces = {"observation_space": space, "action_space": gymnasium.spaces.Discrete(4)}
        minari.create_dataset_from_buffers(name, buffer, **spaces)
        return minari.load_dataset(name)

    walks = [recorded(rows, label, key="success") for rows, label in zip(EPISODES, WALKS.labels, strict=True)]
    view = gymnasium.spaces.Box(0, 1, EPISODES[0].shape[1:], np.uint8)
    assert lstoc.score(lstoc.learn(kept("letter/walks-v0", walks, view), fsm=TASK.fsm()), TASK) == EXACT

    episodes, space = treasuries(gymnasium.spaces.Text(40, charset=ascii_lowercase + " "))
    found = lstoc.learn(kept("grid/treasury-v0", episodes, space), fsm="key;goal", events=lstoc.tiles())
    assert {found.key_states[key].event for key in found.labeling.mapping} == {"no yellow key", "agent at 2,2"}


def test_a_dataset_whose_observations_are_tuples():
    space = gymnasium.spaces.Tuple(
        [gymnasium.spaces.Box(0, 1, EPISODES[0].shape[1:], np.uint8), gymnasium.spaces.MultiDiscrete([2, 3])]
    )
    both = [(rows, np.ones((len(rows), 2), int)) for rows in EPISODES]
    found = lstoc.learn(Dataset([recorded(rows, False) for rows in both], space), WALKS.labels, fsm=TASK.fsm())
    assert found.finished
    np.testing.assert_array_equal(found.observations[0], [*EPISODES[0][0].ravel(), 0, 1, 0, 1, 0])


def test_episodes_that_go_on_after_a_success():
    """The label is for the whole episode then: `prompt=False`."""
    longer = [np.concatenate([rows, EPISODES[i - 1][1:9]]) for i, rows in enumerate(EPISODES)]
    symbols = {ENV.world.observation_of_symbol(name): name for name in "abc"}
    rows = {ENV.observations[key].tobytes(): name for key, name in symbols.items()}
    formula = lstoc.parse("(a;b)|c")
    labels = [formula.satisfied_by([rows.get(row.tobytes()) for row in episode]) for episode in longer]
    found = lstoc.learn(longer, labels, fsm="(a;b)|c", config=GuidedConfig(prompt=False))
    assert lstoc.score(found, TASK) == EXACT


def test_a_config_of_discover_will_do():
    config = lstoc.GuidedConfig(min_support=3)
    both = [lstoc.learn(EPISODES, WALKS.labels, config=each) for each in (config, lstoc.LSTOCConfig(guided=config))]
    assert both[0].sequences == both[1].sequences
    with pytest.raises(TypeError, match="give a GuidedConfig"):
        lstoc.learn(EPISODES, WALKS.labels, config="guided")


def test_two_thousand_trajectories_take_less_than_a_second():
    env = lstoc.make_vec("letter-2", num_envs=64, seed=0)
    walks = random_walks(env, 2_000, seed=0)
    episodes = [env.observations[walks.trajectory(i)] for i in range(len(walks))]
    lstoc.learn(EPISODES, WALKS.labels, fsm="(a;b)|c")  # imports
    before = time.process_time()
    found = lstoc.learn(episodes, walks.labels, fsm="((a;b)|c);d")
    assert time.process_time() - before < 1
    assert lstoc.score(found, "letter-2") == EXACT


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((EPISODES[:2],), ValueError, "labels are missing"),
        ((EPISODES[:2], [True]), ValueError, "one for each"),
        ((EPISODES[:2], [0.5, 1]), TypeError, "a label is .*0.5.*: give True or False"),
        ((EPISODES[:2], ["yes", "no"]), TypeError, "a label is"),
        (([], []), ValueError, "no trajectories"),
        (([np.zeros((3, 2)), np.zeros((3, 4))], [0, 1]), ValueError, r"trajectory 1 has observations of shape \(4,\)"),
        (([np.zeros((3, 2)), np.zeros((0, 2))], [0, 1]), ValueError, "trajectory 1 is"),
        (([["a", "b"]], [1]), ValueError, "one row of numbers per observation"),
        ((WALKS, [True]), ValueError, "has its own labels"),
        ((Dataset([recorded(EPISODES[0], True)]),), KeyError, "episode 0 ended an episode without info"),
        ((EPISODES, WALKS.labels, 3), TypeError, "give a formula"),
        ((EPISODES, WALKS.labels, "a;;b"), lstoc.FormulaError, "a;;b"),
    ],
)
def test_what_cannot_be_learned_from_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        lstoc.learn(*arguments)


def test_tables_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="give one row for each id"):
        lstoc.learn(WALKS, observations=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="these trajectories hold their own"):
        lstoc.learn(EPISODES, WALKS.labels, observations=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="unknown success"):
        lstoc.learn(WALKS, success="maybe")


@pytest.mark.parametrize(("label", "message"), [(False, "check the labels"), (True, "nothing to contrast")])
def test_only_successes_or_only_failures(label, message):
    store = TrajectoryStore()
    store.append([WALKS.trajectory(i) for i in range(9)], None, [label] * 9)
    found = lstoc.learn(store, fsm="a;b")
    assert not found.finished
    assert found.sequences == ()
    assert message in str(found.missing)


def test_an_fsm_with_which_nothing_agrees_is_said():
    found = lstoc.learn(EPISODES, WALKS.labels, fsm="a;b;c")
    assert not found.finished
    assert found.labeling is None
    assert "suspects: FSM: without it" in str(found.missing)

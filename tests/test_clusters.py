"""States learned from noisy observations: clusters against the truth, and whole runs with `events="learned"`."""

import gymnasium
import numpy as np
import pytest
import torch
from test_events import SMALL

import lstoc_core as lstoc
from lstoc_core.run.flaws import flaws
from lstoc_core.trajectories import clusters as module
from lstoc_core.trajectories.clusters import ClusterIdentity, clusters

torch.set_num_threads(1)
FLOWER, GATE = 4, 24
NOISE = 0.08


class Noisy(gymnasium.Env):
    """A 5 × 5 lawn; the place as a one-hot vector with noise. First the flower, then the gate."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (25,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time, self.picked = np.array([2, 2]), 0, False
        return self._seen(), {}

    def step(self, action):
        self.place = np.clip(self.place + [(0, 1), (0, -1), (1, 0), (-1, 0)][action], 0, 4)
        self.time += 1
        self.picked |= self.cell == FLOWER
        done = self.picked and self.cell == GATE
        return self._seen(), 0.0, done, self.time >= 60, {"success": done}

    @property
    def cell(self):
        return int(self.place @ [5, 1])

    def _seen(self):
        return (np.eye(25)[self.cell] + NOISE * self.np_random.standard_normal(25)).astype(np.float32)


class Blurred(Noisy):
    """The place as two numbers, with noise."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def _seen(self):
        return (self.place + NOISE * self.np_random.standard_normal(2)).astype(np.float32)


class Endless(Blurred):
    """A place that drifts: nothing recurs."""

    def _seen(self):
        return (self.place * 0.2 + self.np_random.random(2)).astype(np.float32)


def noisy(states, rng, looks):
    return (looks[states] + NOISE * rng.standard_normal((len(states), looks.shape[1]))).astype(np.float32)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("looks", [np.eye(25), np.stack([np.arange(25) // 5, np.arange(25) % 5], 1).astype(float)])
def test_clusters_are_the_states_also_of_observations_that_come_later(looks, seed):
    rng = np.random.default_rng(seed)
    states, later = rng.integers(25, size=1000), rng.integers(25, size=2000)
    sample = noisy(states, rng, looks)
    found = clusters(sample)
    assert len({*zip(found.tolist(), states.tolist(), strict=True)}) == 25
    assert found[0] == 0
    assert (np.maximum.accumulate(found)[1:] - np.maximum.accumulate(found)[:-1]).max() == 1, "in order of appearance"
    identity = ClusterIdentity()
    identity.learn(sample)
    ids = np.concatenate([identity.ids(row[None]) for row in noisy(later, rng, looks)])
    assert len({*zip(ids.tolist(), later.tolist(), strict=True)}) == 25
    restored = ClusterIdentity()
    restored.load_state_dict(identity.state_dict(), identity.observations)
    fresh = noisy(later, rng, looks)
    np.testing.assert_array_equal(restored.ids(fresh), identity.ids(fresh))
    np.testing.assert_array_equal(restored.observations, identity.observations)
    assert identity.observations[0].tolist() == sample[0].tolist(), "a row is the first observation of its cluster"


def test_a_state_that_the_sample_lacks_founds_a_cluster_until_there_are_too_many(monkeypatch):
    rng, looks = np.random.default_rng(0), np.eye(25)
    identity = ClusterIdentity()
    identity.learn(noisy(rng.integers(20, size=1000), rng, looks))
    assert len(identity.observations) == 20
    new = identity.ids(noisy(np.full(50, 22), rng, looks))
    assert (new >= 20).all()
    monkeypatch.setattr(module, "MOST_CLUSTERS", 20)
    identity.learn(noisy(rng.integers(20, size=1000), rng, looks))
    assert identity.full
    assert identity.ids(noisy(np.full(50, 22), rng, looks)).max() < 20


def test_observations_that_form_no_clusters_are_named():
    rng = np.random.default_rng(0)
    for dimensions in (1, 2, 3, 10, 50):
        for cloud in (rng.random((1000, dimensions)), rng.standard_normal((1000, dimensions))):
            with pytest.raises(lstoc.InputError, match=r"form no clusters.*events="):
                clusters(cloud)
    with pytest.raises(lstoc.InputError, match=r"form no clusters.*events="):
        lstoc.discover(Endless, events="learned", max_steps=1_000, progress=False, config=SMALL)


def test_exact_observations_are_clusters_of_their_own():
    rng = np.random.default_rng(0)
    states = rng.integers(7, size=300)
    assert len({*zip(clusters(np.eye(7)[states]).tolist(), states.tolist(), strict=True)}) == 7


def told(found):
    """The cells that the names are for."""
    return {name: int(np.argmax(found.key_states[key].observation)) for key, name in found.labeling.mapping.items()}


@pytest.mark.parametrize("explorer", ["auto", "policy"])
def test_a_noisy_world_is_learned(explorer):
    found = lstoc.discover(
        Noisy, events="learned", fsm="a;b", explorer=explorer, max_steps=60_000, progress=False, config=SMALL, seed=3
    )
    assert found.proved
    assert told(found) == {"a": FLOWER, "b": GATE}
    assert len(found.observations) == 25
    assert not found.warnings


def test_a_run_goes_on_with_its_clusters(tmp_path):
    given = {"events": "learned", "fsm": "a;b", "progress": False, "config": SMALL, "checkpoint": tmp_path / "run"}
    first = lstoc.discover(Blurred, max_steps=300, confirm=10_000, **given)
    second = lstoc.discover(Blurred, max_steps=1_500, confirm=10_000, **given)
    assert len(second.trajectories) > len(first.trajectories)
    size = first.trajectories.size
    np.testing.assert_array_equal(second.trajectories.ids[:size], first.trajectories.ids)
    np.testing.assert_array_equal(second.observations[: len(first.observations)], first.observations)
    assert len(second.observations) == 25


def test_clusters_that_do_not_recur_are_named():
    env = lstoc.InternedVectorEnv([Noisy] * 2, events="learned")
    env.reset()

    class Explored:
        env_steps, trajectories = 2_000, lstoc.TrajectoryStore()

    Explored.env = env
    assert flaws(Explored(), prompt=True) == {}
    env.identity.ids(np.random.default_rng(0).standard_normal((1500, 25)).astype(np.float32))
    told_ = flaws(Explored(), prompt=True)
    assert "say what recurs by events=" in told_["novelty"]
    assert told_["novelty"].startswith("learned clusters hardly recur")


def test_recorded_noisy_episodes_are_learned():
    env, rng, rows, labels = Noisy(), np.random.default_rng(1), [], []
    for index in range(400):
        seen, over = [env.reset(seed=index)[0]], False
        while not over:
            row, _, success, late, _ = env.step(int(rng.integers(4)))
            seen.append(row)
            over = success or late
        rows.append(np.array(seen))
        labels.append(success)
    found = lstoc.learn(rows, labels, "a;b", events="learned")
    assert found.proved
    assert told(found) == {"a": FLOWER, "b": GATE}
    with pytest.raises(ValueError, match="learned states"):
        lstoc.check(found, rows, labels, events="learned")
    with pytest.raises(ValueError, match="give a function or 'learned'"):
        lstoc.learn(rows, labels, "a;b", events="boxes")


def test_noisy_pixels_of_crafter_need_no_identity_made_by_hand():
    from lstoc_core.worlds import make_env
    from lstoc_core.worlds.perturbed import NoisyPixels

    task = lstoc.TASKS["crafter-1"]
    found = lstoc.discover(
        lambda: NoisyPixels(make_env(task=task), 3),
        events="learned", fsm=task.fsm(), max_steps=60_000, progress=False, seed=0,
    )  # fmt: skip
    assert found.proved

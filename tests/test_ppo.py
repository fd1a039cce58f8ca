"""Recurrent PPO: its parts against slow references, its bookkeeping, its checkpoints, and that it learns."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch

import lstoc_core as lstoc
from lstoc_core.policies.ppo import PPO, PPOConfig, distinct, generalised_advantages
from lstoc_core.policies.rewards import RewardConfig
from lstoc_core.trajectories import explained_by

torch.set_num_threads(1)
SMALL = lstoc.make_task(
    domain="letter",
    formula="a;b",
    positions={"a": (1, 1), "b": (2, 0)},
    size=(3, 3),
    start=(0, 0),
    horizon=10,
    wrap=False,
)


def learner(task=SMALL, *, num_envs=8, env_seed=0, seed=0, rewards=None, **options):
    config = PPOConfig(**{"segment_length": 16, "minibatches": 2, "hidden": 16, "features": 16, **options})
    return PPO(lstoc.make_vec(task, num_envs=num_envs, seed=env_seed), config, seed=seed, rewards=rewards)


def weights(ppo):
    return torch.cat([parameter.detach().flatten() for parameter in ppo.policy.parameters()])


# --- advantages ---


class FakeSegment:
    def __init__(self, rng, time_steps, num_envs):
        shape = time_steps, num_envs
        self.rewards = rng.normal(size=shape)
        self.values = torch.from_numpy(rng.normal(size=shape))
        self.dones = rng.random(shape) < 0.3
        self.bootstrap = rng.normal(size=shape) * (self.dones & (rng.random(shape) < 0.5))
        self.last_values = torch.from_numpy(rng.normal(size=num_envs))


def slow_advantages(segment, env, gamma, lam):
    """A(t) = sum over k of (γλ)^k times the one-step error at t + k, up to the end of the episode or segment."""
    steps = len(segment.rewards)

    def error(t):
        if segment.dones[t, env]:
            following = segment.bootstrap[t, env]
        else:
            following = float(segment.values[t + 1, env] if t + 1 < steps else segment.last_values[env])
        return segment.rewards[t, env] + gamma * following - float(segment.values[t, env])

    result = []
    for t in range(steps):
        total = 0.0
        for k in range(t, steps):
            total += (gamma * lam) ** (k - t) * error(k)
            if segment.dones[k, env]:
                break
        result.append(total)
    return result


@pytest.mark.parametrize("gae_lambda", [0.0, 0.9, 1.0])
def test_advantages_against_a_slow_reference(gae_lambda):
    segment = FakeSegment(np.random.default_rng(0), 12, 5)
    advantages, returns = generalised_advantages(segment, gamma=0.9, gae_lambda=gae_lambda)
    expected = np.stack([slow_advantages(segment, env, 0.9, gae_lambda) for env in range(5)], axis=1)
    np.testing.assert_allclose(advantages, expected, atol=1e-12)
    np.testing.assert_allclose(returns, expected + segment.values.numpy(), atol=1e-12)


# --- collecting ---


class Recorder:
    """Passes on an environment and keeps what it gave, one list of episodes per environment."""

    def __init__(self, env):
        self.env, self.episodes, self.running = env, [], None

    def __getattr__(self, name):
        return getattr(self.env, name)

    def reset(self, **options):
        ids, info = self.env.reset(**options)
        self.running = [[int(i)] for i in ids]
        return ids, info

    def step(self, actions):
        ids, reward, terminated, truncated, info = self.env.step(actions)
        for e in range(self.env.num_envs):
            self.running[e].append(int(info["final_obs"][e]))
            if terminated[e] or truncated[e]:
                self.episodes.append((self.running[e], bool(info["success"][e]), bool(truncated[e])))
                self.running[e] = [int(ids[e])]
        return ids, reward, terminated, truncated, info


def recorded(**options):
    env = Recorder(lstoc.make_vec(SMALL, num_envs=4, seed=0))
    return env, PPO(env, PPOConfig(**{"segment_length": 7, "minibatches": 1, "hidden": 16, **options}), seed=0)


def test_finished_episodes_reach_the_store_whole():
    env, ppo = recorded()
    results = [ppo.update() for _ in range(12)]
    assert len(env.episodes) > 10
    assert {label for _, label, _ in env.episodes} == {False, True}
    assert len(ppo.store) == len(env.episodes) == sum(result["episodes"] for result in results)
    for index, (ids, label, _) in enumerate(env.episodes):
        assert ppo.store.trajectory(index).tolist() == ids
        assert ppo.store.labels[index] == label
    assert ppo.env_steps == results[-1]["env_steps"] == 12 * 7 * 4
    successes = sum(result["success_rate"] * result["episodes"] for result in results if result["episodes"])
    assert round(successes) == len(ppo.store.positives)


def test_the_store_may_be_limited():
    (_, everything), (_, limited), (_, none) = recorded(), recorded(store_limit=5), recorded(store_limit=0)
    for _ in range(6):
        episodes = {ppo.update()["episodes"] for ppo in (everything, limited, none)}
        assert len(episodes) == 1
    assert (len(limited.store), len(none.store)) == (5, 0)
    assert limited.store.ids.tolist() == everything.store.select(range(5)).ids.tolist()


def test_bootstrap_is_the_value_after_the_whole_truncated_episode():
    env, ppo = recorded()
    ppo._begin()
    for _ in range(3):
        hidden_before = len(env.episodes)
        # Weights stay as they are, so that values can be worked out afterwards.
        segment, _ = ppo._collect(ppo.config.epsilon)
        finished = env.episodes[hidden_before:]
        cuts = np.argwhere(segment.dones)
        assert len(cuts) == len(finished)
        for (t, e), (ids, _, truncated) in zip(cuts, finished, strict=True):
            if not truncated:
                assert segment.bootstrap[t, e] == 0
                continue
            sequence = torch.tensor(ids).unsqueeze(1)
            projection = ppo.policy.project(ppo.policy.embedding(env.observations))
            with torch.no_grad():
                _, values = ppo.policy(
                    projection, sequence, ppo.policy.initial_hidden(1), torch.zeros_like(sequence, dtype=torch.bool)
                )
            np.testing.assert_allclose(segment.bootstrap[t, e], values[-1, 0], atol=1e-5)
    assert any(truncated for *_, truncated in env.episodes)


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_before_any_gradient_step_the_ratios_are_one(epsilon):
    """The sequence pass reproduces what was collected step by step, over carried states, boundaries and the mixture."""
    ppo = learner(epsilon=epsilon)
    ppo._begin()
    for _ in range(3):
        hidden = ppo._hidden
        segment, _ = ppo._collect(ppo.config.epsilon)
        ids, begins = torch.from_numpy(segment.ids), torch.from_numpy(segment.begins)
        with torch.no_grad():
            projection = ppo.policy.project(ppo.policy.embedding(ppo.env.observations))
            logits, values = ppo.policy(projection, ids, hidden, begins)
            policies = (1 - epsilon) * logits.softmax(-1) + epsilon / logits.shape[-1]
            chosen = policies.gather(-1, segment.actions.unsqueeze(-1)).squeeze(-1).log()
        torch.testing.assert_close(chosen, segment.log_probability, atol=1e-5, rtol=0)
        torch.testing.assert_close(values, segment.values, atol=1e-5, rtol=0)
    assert segment.begins[1:].any()


def test_epsilon_one_acts_uniformly():
    ppo = learner(epsilon=1.0, num_envs=64)
    ppo._begin()
    actions = torch.cat([ppo._collect(ppo.config.epsilon)[0].actions.flatten() for _ in range(4)])
    counts = torch.bincount(actions, minlength=4)
    assert (counts - len(actions) / 4).abs().max() < 5 * (len(actions) * 3 / 16) ** 0.5


def test_distinct_is_unique():
    ids = np.random.default_rng(0).integers(0, 50, (6, 7))
    rows, places = distinct(ids)
    expected_rows, expected_places = np.unique(ids, return_inverse=True)
    assert rows.tolist() == expected_rows.tolist()
    assert places.tolist() == expected_places.reshape(ids.shape).tolist()


def test_an_update_may_be_given_another_epsilon():
    """ε of one update: what is collected and learned is that of a learner with this ε in its settings."""
    given, own, without = learner(), learner(epsilon=0.5), learner()
    for ppo, epsilon in ((given, 0.5), (own, None), (without, None)):
        ppo.update(epsilon=epsilon)
    weights = [torch.cat([w.flatten() for w in ppo.policy.parameters()]) for ppo in (given, own, without)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert given.config.epsilon == 0


def test_rewards_of_the_model_are_what_is_learned_from():
    ppo = learner(rewards=RewardConfig(success=0.0, explained=0.25, bonus=0.0))
    ppo._begin()
    world = ppo.env.world
    sequence = (world.observation_of_symbol("a"), world.observation_of_symbol("b"))
    ppo.follow(replace(ppo.rewards.plan, paths=(sequence,), explained=(sequence,)))
    paid = sum(ppo._collect(0.0)[0].rewards.sum() for _ in range(10))
    assert explained_by(ppo.store, [sequence]).sum() == len(ppo.store.positives) > 0
    assert paid == 0.25 * len(ppo.store.positives)


# --- gradient steps ---


def test_embedding_per_epoch_is_exact_for_one_minibatch():
    results = []
    for embed_per in ("minibatch", "epoch"):
        ppo = learner(minibatches=1, embed_per=embed_per)
        ppo.update()
        results.append(weights(ppo))
    assert torch.equal(*results)


@pytest.mark.parametrize(("embed_per", "steps"), [("minibatch", 6), ("epoch", 3), ("update", 1)])
def test_how_often_the_embedding_steps(embed_per, steps):
    ppo = learner(minibatches=2, epochs=3, embed_per=embed_per)
    ppo.update()
    taken = {name: int(ppo.optimizer.state[p]["step"]) for name, p in ppo.policy.named_parameters()}
    assert {count for name, count in taken.items() if name.startswith("embed")} == {steps}
    assert {count for name, count in taken.items() if not name.startswith("embed")} == {6}


def test_minibatches_must_divide_the_environments():
    with pytest.raises(ValueError, match="8 environments cannot be dealt into 3"):
        learner(minibatches=3)


# --- repeating and going on ---


def test_the_same_seeds_give_the_same_run_and_others_do_not():
    runs = []
    for seed in (3, 3, 4):
        ppo = learner(seed=seed)
        runs.append((ppo.update(), weights(ppo)))
    assert torch.equal(runs[0][1], runs[1][1])
    assert not torch.equal(runs[0][1], runs[2][1])


def test_evaluation_leaves_training_alone():
    ppo, other = learner(), learner()
    for _ in range(3):
        ppo.update()
        other.update()
        assert 0 <= other.evaluate(10) <= 1
        assert 0 <= other.evaluate(10, greedy=True) <= 1
    assert torch.equal(weights(ppo), weights(other))
    assert ppo.env_steps == other.env_steps
    assert other.evaluate(20, seed=1) == other.evaluate(20, seed=1)


RANDOM_START = lstoc.make_task(
    domain="letter",
    formula="a;b",
    positions={"a": (1, 1), "b": (2, 0)},
    size=(3, 3),
    start=None,
    horizon=10,
    wrap=False,
)
BONUS = RewardConfig(bonus=0.1, progress=0.2, explained=0.5)


def exploring(seed=0):
    ppo = learner(RANDOM_START, env_seed=5, seed=seed, rewards=BONUS, epsilon=0.25)
    world = ppo.env.world
    a, b = map(world.observation_of_symbol, "ab")
    ppo.follow(replace(ppo.rewards.plan, paths=((a,),), explained=((b,),)))
    return ppo


def assert_same(ppo, other):
    assert torch.equal(weights(ppo), weights(other))
    assert ppo.env_steps == other.env_steps
    assert ppo.store.ids.tolist() == other.store.ids.tolist()
    assert ppo.store.labels.tolist() == other.store.labels.tolist()


def test_a_loaded_checkpoint_goes_on_bit_for_bit(tmp_path):
    ppo = exploring()
    for _ in range(3):
        ppo.update()
    ppo.save(tmp_path / "checkpoint.pt")
    loaded = learner(RANDOM_START, env_seed=6, seed=9, epsilon=0.25)
    loaded.load(tmp_path / "checkpoint.pt")
    for _ in range(3):
        first, second = ppo.update(), loaded.update()
        assert first == pytest.approx(second, rel=0, abs=0, nan_ok=True)
    assert_same(ppo, loaded)
    assert os.listdir(tmp_path) == ["checkpoint.pt"]


def test_a_checkpoint_of_another_config_is_refused(tmp_path):
    learner().save(tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match=r"learning_rate=0.001 instead of 0.5"):
        learner(learning_rate=0.5).load(tmp_path / "checkpoint.pt")


def test_killed_at_any_moment_and_resumed_it_ends_the_same(tmp_path):
    """A process that checkpoints after every update is killed twice; resumed, it ends bit for bit the same."""
    path, total = tmp_path / "checkpoint.pt", 30
    script = textwrap.dedent(f"""
        import pathlib, sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from test_ppo import exploring
        ppo = exploring()
        if pathlib.Path({str(path)!r}).exists():
            ppo.load({str(path)!r})
        while ppo.env_steps < {total * 16 * 8}:
            ppo.update()
            ppo.save({str(path)!r})
    """)
    rng = np.random.default_rng(int(time.time()))
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", script])
        before = path.stat().st_mtime_ns if path.exists() else 0
        while process.poll() is None and (not path.exists() or path.stat().st_mtime_ns == before):
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.wait()
    resumed, whole = exploring(seed=1), exploring()
    resumed.load(path)
    assert 0 < resumed.env_steps <= total * 16 * 8
    for ppo in (resumed, whole):
        while ppo.env_steps < total * 16 * 8:
            ppo.update()
    assert_same(resumed, whole)


# --- any environment ---


class Corridor(gymnasium.Env):
    """Walk right along cells that look different in every episode; done at the third."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(-10, 10, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position, self.time, self.offset = 0, 0, self.np_random.normal()
        return self.observe(), {}

    def observe(self):
        return np.array([self.position, self.offset], np.float32)

    def step(self, action):
        self.position = max(0, self.position + (1 if action else -1))
        self.time += 1
        success = self.position == 3
        return self.observe(), 0.0, success, self.time == 8 and not success, {"success": success}


def test_a_table_that_grows_while_training(tmp_path):
    ppo = PPO(lstoc.InternedVectorEnv([Corridor] * 8), PPOConfig(segment_length=16, minibatches=2), seed=0)
    rates = [ppo.update()["success_rate"] for _ in range(30)]
    assert len(ppo.env.observations) > 500
    assert np.mean(rates[-3:]) > 0.95
    assert ppo.evaluate(50, greedy=True) > 0.95
    ppo.save(tmp_path / "checkpoint.pt")
    loaded = PPO(lstoc.InternedVectorEnv([Corridor] * 8), PPOConfig(segment_length=16, minibatches=2), seed=0)
    loaded.load(tmp_path / "checkpoint.pt")
    assert torch.equal(weights(ppo), weights(loaded))
    assert loaded.update()["success_rate"] > 0.9


# --- learning ---


def trained(task, updates, *, seed=0, **options):
    ppo = PPO(
        lstoc.make_vec(task, num_envs=64, seed=seed),
        PPOConfig(segment_length=32, hidden=32, features=32, **options),
        seed=seed,
    )
    for _ in range(updates):
        ppo.update()
    return ppo.evaluate(200, greedy=False)


def test_it_learns_from_the_label_alone():
    task = lstoc.make_task(
        domain="letter",
        formula="a;b",
        positions={"a": (3, 1), "b": (0, 3)},
        size=(5, 5),
        start=(0, 0),
        horizon=30,
        wrap=False,
    )
    assert trained(task, 40) > 0.95


def test_memory_solves_what_the_present_observation_does_not_tell():
    """a;b;a in a corridor a-start-b: on the way back the start looks as it did on the way out."""
    task = lstoc.make_task(
        domain="letter",
        formula="a;b;a",
        positions={"a": (0, 0), "b": (4, 0)},
        size=(5, 1),
        start=(2, 0),
        horizon=24,
        wrap=False,
    )
    assert trained(task, 40) > 0.95
    assert trained(task, 40, memoryless=True) < 0.6

"""Recurrent PPO: the training of the exploration policy, of the baselines, and of the policies that solve the task.

One update collects a segment of T steps in each of E environments and computes advantages. It then optimises the
clipped objective of Schulman et al. (2017) for several epochs, with backpropagation through the whole segment. The
hidden state is carried from segment to segment and starts from zero in each episode.

    learner = PPO(lstoc.make_vec(task, num_envs=64, seed=0), seed=0)
    while learner.env_steps < 300_000:
        print(learner.update()["success_rate"])
"""

from __future__ import annotations

import copy
import math
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lstoc_core.policies.gru import ProjectedTable, RecurrentPolicy, log_policy, sample
from lstoc_core.policies.rewards import RewardConfig, RewardModel, RewardPlan
from lstoc_core.trajectories.recorder import EpisodeRecorder
from lstoc_core.trajectories.store import TrajectoryStore
from lstoc_core.trajectories.vector_env import IdVectorEnv, sight_of, vocabulary_of


@dataclass(frozen=True)
class PPOConfig:
    """Settings of recurrent PPO. The paper gives none of them but the sizes of the network and ε."""

    segment_length: int = 64
    """T: steps per environment in an update, and the reach of backpropagation through time."""
    epochs: int = 4
    """Passes over the segment per update."""
    minibatches: int = 4
    """Parts into which the environments are split at random in each epoch; one gradient step each."""
    learning_rate: float = 1e-3
    """Adam's learning rate."""
    gamma: float = 0.99
    """Discount factor γ."""
    gae_lambda: float = 0.95
    """λ of generalised advantage estimation: 0 trusts the predicted values, 1 the observed returns."""
    clip: float = 0.2
    """Largest change of an action's probability ratio from 1 that the objective rewards."""
    advantage_floor: float = 0.03
    """Advantages are divided by their standard deviation, or by this if it is larger. Without it, a segment without
    rewards would train the policy on the noise of its predicted values."""
    entropy: float = 0.02
    """Weight of the entropy of the distribution that acts (the ε-mixture)."""
    value: float = 0.5
    """Weight of the squared error of the predicted values."""
    max_grad_norm: float = 0.5
    """Gradients longer than this are scaled down to it."""
    epsilon: float = 0.0
    """ε: probability of a uniformly random action while collecting, part of the action distribution. `update` may
    override it."""
    hidden: int | None = None
    """GRU units; None: 128, for pixels 256 (the paper's)."""
    features: int | None = None
    """Size of the embedding; None: 128, for pixels 512 (the paper's)."""
    embed_per: Literal["minibatch", "epoch", "update"] | None = None
    """How often the embedding takes a gradient step, along the mean gradient of the minibatches since the last. All
    other weights take one per minibatch. None: per minibatch; for pixels, where embedding is most of the work, per
    update."""
    memoryless: bool = False
    """Forget the hidden state before each step (ablation)."""
    store_limit: int | None = None
    """Episodes kept in `store`, the first ones; 0 keeps none, None all."""

    def fitting(self, num_envs: int) -> PPOConfig:
        """The same with no more minibatches than divide so many environments."""
        return replace(self, minibatches=math.gcd(num_envs, self.minibatches))


class _Segment:
    """What an update collects: arrays [T, E]."""

    def __init__(self, time: int, envs: int) -> None:
        self.ids = np.empty((time, envs), np.int64)
        self.begins = np.empty((time, envs), np.bool_)
        self.actions = torch.empty((time, envs), dtype=torch.int64)
        self.log_probability = torch.empty((time, envs))
        self.values = torch.empty((time, envs))
        self.rewards = np.empty((time, envs), np.float32)
        self.dones = np.empty((time, envs), np.bool_)
        self.bootstrap = np.zeros((time, envs), np.float32)
        """Value of the observation at which an episode was truncated; 0 elsewhere."""
        self.last_values = torch.empty(envs)
        """Values of the observations after the segment [E]."""


class PPO:
    """Recurrent PPO on a vector environment that gives observation ids (`make_vec`, `InternedVectorEnv`).

    rewards: what each event pays; `follow` changes the plan between updates. store: finished episodes, for the
    discovery of subgoals. env_steps: steps taken so far, over all environments. Results depend only on the seed, the
    environment's own seed and the number of torch threads.
    """

    def __init__(
        self, env: IdVectorEnv, config: PPOConfig | None = None, *, seed: int = 0, rewards: RewardConfig | None = None
    ) -> None:
        self.env = env
        self.config = config = config or PPOConfig()
        if env.num_envs % config.minibatches:
            raise ValueError(
                f"{env.num_envs} environments cannot be dealt into {config.minibatches} equal minibatches; "
                "choose a divisor for PPOConfig.minibatches"
            )
        self._sight = sight_of(env)
        table = self._sight.observations
        weights, self._sampling, self._shuffling = (
            torch.Generator().manual_seed(int(child.generate_state(1)[0]))
            for child in np.random.SeedSequence(seed).spawn(3)
        )
        self.policy = RecurrentPolicy(
            table.shape[1:], table.dtype, int(env.num_actions), hidden=config.hidden, features=config.features,
            memoryless=config.memoryless, generator=weights,
        )  # fmt: skip
        self.optimizer = torch.optim.Adam(self.policy.parameters(), config.learning_rate, eps=1e-8, fused=True)
        self.rewards = RewardModel(env.num_envs, RewardPlan(rewards or RewardConfig()), vocabulary=vocabulary_of(env))
        self.episodes = EpisodeRecorder(env.num_envs, config.store_limit)
        self.env_steps = 0
        self._seed = seed
        self._begun = False
        """Episodes begin with the first update, so that `load` comes before any observation."""

    def _begin(self, seed: int | None = None) -> None:
        """Begin an episode in every environment."""
        num_envs = self.env.num_envs
        self._begun = True
        ids, info = self.env.reset(seed=seed)
        self._ids = info.get("seen", ids)
        """What the policy sees now: rows of the table that it looks at."""
        self._begins = np.ones(num_envs, np.bool_)
        self._hidden = self.policy.initial_hidden(num_envs)
        self._rows = np.unique(self._ids)
        """Rows of the last segment: the next one embeds them first."""
        if self.policy.normalised:
            self.policy.see(self._sight.observations[self._rows])
        self.rewards.reset(ids)
        self.episodes.begin(ids)

    @property
    def store(self) -> TrajectoryStore:
        """Finished episodes, up to `PPOConfig.store_limit`."""
        return self.episodes.store

    def follow(self, plan: RewardPlan) -> None:
        """Use this reward plan from now on, also in running episodes."""
        self.rewards.follow(plan, self.episodes.running)

    def update(self, *, train: bool = True, epsilon: float | None = None) -> dict[str, float]:
        """Collect one segment and optimise on it; with `train=False` only collect.

        epsilon: overrides the config's for this update.

        Returns `success_rate` of the episodes that ended in it (NaN if none did), their number `episodes`, `env_steps`
        so far and `reward` per step; also the means over the gradient steps of `entropy`, `value_loss`,
        `clip_fraction` and `kl` (approximate).
        """
        if not self._begun:
            self._begin()
        hidden = self._hidden
        epsilon = self.config.epsilon if epsilon is None else epsilon
        segment, labels = self._collect(epsilon)
        stats = {
            "success_rate": float(np.mean(labels)) if len(labels) else float("nan"),
            "episodes": len(labels),
            "env_steps": self.env_steps,
            "reward": float(segment.rewards.mean()),
        }
        if not train:
            return stats
        advantages, returns = generalised_advantages(
            segment, gamma=self.config.gamma, gae_lambda=self.config.gae_lambda
        )
        targets = torch.from_numpy(advantages), torch.from_numpy(returns)
        stats |= self._optimise(segment, hidden, *targets, epsilon)
        if self.policy.normalised:
            self.policy.see(self._sight.observations[np.unique(segment.ids)])
        return stats

    @torch.no_grad()
    def _collect(self, epsilon: float) -> tuple[_Segment, NDArray[np.bool_]]:
        """One segment, and the labels of the episodes that ended in it."""
        config, env, policy = self.config, self.env, self.policy
        segment = _Segment(config.segment_length, env.num_envs)
        uniform = torch.rand(config.segment_length, env.num_envs, generator=self._sampling)
        table = ProjectedTable(policy, self._sight, self._rows)
        labels: list[NDArray[np.bool_]] = []
        for time in range(config.segment_length):
            segment.ids[time], segment.begins[time] = self._ids, self._begins
            logits, value, hidden = policy.step(*table.look_up(self._ids), self._hidden)
            log_probability = log_policy(logits, epsilon)
            action = sample(log_probability, uniform[time])
            segment.actions[time], segment.values[time] = action, value
            segment.log_probability[time] = log_probability.gather(1, action.unsqueeze(1)).squeeze(1)

            ids, _, terminated, truncated, info = env.step(action.numpy())
            done, final_ids, success = terminated | truncated, info["final_obs"], info["success"]
            segment.rewards[time] = self.rewards.step(final_ids, done, success, ids)
            self.episodes.step(final_ids, done, success, ids)
            segment.dones[time] = done
            cut = np.flatnonzero(truncated & ~terminated)
            if len(cut):
                last = info.get("final_seen", final_ids)[cut]
                segment.bootstrap[time, cut] = policy.step(*table.look_up(last), hidden[cut]).value
            if done.any():
                labels.append(success[done])
                hidden = hidden * torch.from_numpy(~done).unsqueeze(1)
            self._ids, self._begins, self._hidden = info.get("seen", ids), done, hidden
        segment.last_values = policy.step(*table.look_up(self._ids), self._hidden).value
        self._rows = np.unique(segment.ids if self._sight is env else self._ids)  # rows of a sight are overwritten
        self.env_steps += segment.ids.size
        return segment, np.concatenate(labels) if labels else np.empty(0, np.bool_)

    def _optimise(
        self, segment: _Segment, hidden: Tensor, advantages: Tensor, returns: Tensor, epsilon: float
    ) -> dict[str, float]:
        """Epochs of gradient steps on the clipped objective; returns the means that `update` reports."""
        config = self.config
        advantages = (advantages - advantages.mean()) / max(float(advantages.std()), config.advantage_floor)
        begins = torch.from_numpy(segment.begins)
        batch = segment.actions, segment.log_probability, advantages, returns
        embed_per = config.embed_per or ("update" if self.policy.pixels else "minibatch")
        count = config.epochs * config.minibatches
        together = {"minibatch": 1, "epoch": config.minibatches, "update": count}[embed_per]
        minibatches = [
            envs
            for _ in range(config.epochs)
            for envs in torch.randperm(self.env.num_envs, generator=self._shuffling).chunk(config.minibatches)
        ]
        sums = torch.zeros(4)
        for first in range(0, count, together):
            group = minibatches[first : first + together]
            rows, ids = distinct(segment.ids[:, torch.cat(group).numpy()])
            embedding = self.policy.embedding(self._sight.observations[rows])
            shared = embedding.detach().requires_grad_()
            for envs, part in zip(group, torch.from_numpy(ids).chunk(len(group), 1), strict=True):
                projection = self.policy.project(shared)
                logits, values = self.policy(projection, part, hidden[envs], begins[:, envs])
                loss, measures = self._loss(logits, values, *(tensor[:, envs] for tensor in batch), epsilon=epsilon)
                self.optimizer.zero_grad()
                loss.backward()
                if envs is group[-1]:
                    embedding.backward(shared.grad / len(group))  # type: ignore[operator]
                torch.nn.utils.clip_grad_norm_(self.policy.parameters(), config.max_grad_norm)
                self.optimizer.step()
                sums += measures
        means = (sums / count).tolist()
        return dict(zip(("entropy", "value_loss", "clip_fraction", "kl"), means, strict=True))

    def _loss(
        self,
        logits: Tensor,
        values: Tensor,
        actions: Tensor,
        old: Tensor,
        advantages: Tensor,
        returns: Tensor,
        *,
        epsilon: float,
    ) -> tuple[Tensor, Tensor]:
        """The clipped objective, negated; and entropy, value loss, clip fraction and approximate KL divergence."""
        config = self.config
        log_policies = log_policy(logits, epsilon)
        log_ratio = log_policies.gather(-1, actions.unsqueeze(-1)).squeeze(-1) - old
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
        policy_loss = -torch.minimum(ratio * advantages, clipped * advantages).mean()
        value_loss = 0.5 * (values - returns).square().mean()
        entropy = -(log_policies.exp() * log_policies).sum(-1).mean()
        loss = policy_loss + config.value * value_loss - config.entropy * entropy
        outside = (ratio != clipped).float().mean()
        return loss, torch.stack([entropy, value_loss, outside, (ratio - 1 - log_ratio).mean()]).detach()

    @torch.no_grad()
    def evaluate(self, episodes: int, *, greedy: bool = False, seed: int = 0) -> float:
        """Success rate of the policy without ε over at least `episodes` episodes in a copy of the environment.

        Every environment plays the same number of episodes, so that short ones are not favoured. greedy: take the most
        probable action instead of drawing one. Training is not affected.
        """
        env = copy.deepcopy(self.env)
        generator = torch.Generator().manual_seed(seed)
        left = np.full(env.num_envs, -(-episodes // env.num_envs))
        total, successes = int(left.sum()), 0
        sight = sight_of(env)
        ids, info = env.reset(seed=seed)
        ids = info.get("seen", ids)
        hidden = self.policy.initial_hidden(env.num_envs)
        table = ProjectedTable(self.policy, sight, np.unique(ids))
        while left.any():
            table = table if sight is env else ProjectedTable(self.policy, sight, np.unique(ids))
            logits, _, hidden = self.policy.step(*table.look_up(ids), hidden)
            draws = torch.rand(env.num_envs, generator=generator)
            action = logits.argmax(-1) if greedy else sample(log_policy(logits), draws)
            ids, _, terminated, truncated, info = env.step(action.numpy())
            ids, done = info.get("seen", ids), terminated | truncated
            successes += int((info["success"] & done & (left > 0)).sum())
            left -= done & (left > 0)
            hidden = hidden * torch.from_numpy(~done).unsqueeze(1)
        return successes / total

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint to one file, atomically."""
        if not self._begun:
            self._begin()
        state = {
            "config": asdict(self.config),
            "policy": self.policy.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generators": [self._sampling.get_state(), self._shuffling.get_state()],
            "hidden": self._hidden,
            "env_steps": self.env_steps,
            "arrays": {
                "env": self.env.state_dict(),
                "rewards": self.rewards.plan.state_dict(),
                "episodes": self.episodes.state_dict(),
                "position": [self._ids, self._begins, self._rows],
            },
        }
        state["arrays"] = packed(state["arrays"])
        temporary = Path(f"{os.fspath(path)}.{os.getpid()}.tmp")
        with temporary.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Restore what `save` wrote. The environment and the config must be made the same way.

        Environments that cannot save their episodes (`InternedVectorEnv`) begin new ones.
        """
        state = torch.load(path, weights_only=True)
        mine, saved = asdict(self.config), state["config"]
        different = [name for name in mine if mine[name] != saved.get(name)]
        if different:
            raise ValueError(
                f"{path} was saved with another PPOConfig: "
                + ", ".join(f"{name}={saved.get(name)!r} instead of {mine[name]!r}" for name in different)
            )
        arrays = unpacked(state["arrays"])
        self.env.load_state_dict(arrays["env"])
        self.episodes.load_state_dict(arrays["episodes"])
        plan = RewardPlan.from_state_dict(arrays["rewards"])
        self.rewards = RewardModel(self.env.num_envs, plan, self.episodes.running, vocabulary_of(self.env))
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimizer"])
        for generator, generator_state in zip((self._sampling, self._shuffling), state["generators"], strict=True):
            generator.set_state(generator_state)
        self.env_steps = state["env_steps"]
        if arrays["env"].get("begun"):
            self._begun = True
            self._ids, self._begins, self._rows = arrays["position"]
            self._hidden = state["hidden"]
        else:  # other episodes than those the run began with
            self._begin(int(np.random.SeedSequence([self._seed, self.env_steps]).generate_state(1)[0] >> 1))


def generalised_advantages(
    segment: _Segment, *, gamma: float, gae_lambda: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Advantages and value targets [T, E] by generalised advantage estimation.

    No advantage flows back across the end of an episode. Beyond its end, a terminated episode has value 0; a truncated
    one has the predicted value of its final observation.
    """
    values = np.concatenate([segment.values.numpy(), segment.last_values.numpy()[None]])
    going_on = ~segment.dones
    errors = segment.rewards + gamma * (values[1:] * going_on + segment.bootstrap) - values[:-1]
    advantages = np.empty_like(errors)
    following = np.zeros_like(errors[0])
    for time in range(len(errors) - 1, -1, -1):
        following = errors[time] + gamma * gae_lambda * going_on[time] * following
        advantages[time] = following
    return advantages, advantages + values[:-1]


def distinct(ids: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The ids that occur, sorted, and each id's index among them; in linear time, unlike `np.unique`."""
    present = np.zeros(ids.max() + 1, np.bool_)
    present[ids] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[ids]


def packed(tree: Any) -> Any:
    """Arrays as tensors, so that `torch.load(weights_only=True)` reads them back."""
    if isinstance(tree, dict):
        return {key: packed(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [packed(value) for value in tree]
    if isinstance(tree, np.ndarray):
        return torch.from_numpy(tree.copy())
    return tree.item() if isinstance(tree, np.generic) else tree


def unpacked(tree: Any) -> Any:
    """What `packed` was given, tuples as lists."""
    if isinstance(tree, dict):
        return {key: unpacked(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [unpacked(value) for value in tree]
    return tree.numpy() if isinstance(tree, Tensor) else tree

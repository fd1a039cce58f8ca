"""How fast recurrent PPO trains, against bare recurrence and sb3-contrib, and how soon it learns.

    python benchmarks/bench_ppo.py --quick --check-floor 0.8   # ours against bare nn.GRU, under a minute
    python benchmarks/bench_ppo.py                             # and sb3-contrib's RecurrentPPO, on Letter and on pixels
    python benchmarks/bench_ppo.py --fused                     # the fused GRU against the readable reference, seconds
    python benchmarks/bench_ppo.py --learning                  # learning curves -> data/ppo_learning.csv (resumes)

One thread, processor time. 128 environments, segments of 64, 4 epochs. The *floor* is `nn.GRU` forward and backward on
random input at the shapes that PPO trains on, and nothing else: no environment, no rollout, no embedding, no heads, no
optimiser.
"""

import argparse
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import torch

import lstoc_core as lstoc
from lstoc_core import paths
from lstoc_core.policies.gru import RecurrentPolicy
from lstoc_core.policies.ppo import PPO, PPOConfig
from lstoc_core.policies.rewards import RewardConfig
from lstoc_core.worlds import make_env

ENVS, SEGMENT, EPOCHS = 128, 64, 4
BATCH = ENVS * SEGMENT


def seconds(run: Callable[[], Any]) -> float:
    """Processor time, so that other processes on the machine count as little as they can."""
    start = time.process_time()
    run()
    return time.process_time() - start


def floor(minibatches: int, size: int = 128) -> Callable[[], None]:
    """The bare recurrence of one update."""
    gru = torch.nn.GRU(size, size)
    inputs = torch.randn(SEGMENT, ENVS // minibatches, size, requires_grad=True)
    gradient = torch.ones(SEGMENT, ENVS // minibatches, size)

    def run() -> None:
        for _ in range(EPOCHS * minibatches):
            gru(inputs)[0].backward(gradient)

    return run


def learner(task: str, minibatches: int, **rewards: float) -> PPO:
    config = PPOConfig(segment_length=SEGMENT, epochs=EPOCHS, minibatches=minibatches)
    return PPO(lstoc.make_vec(lstoc.TASKS[task], num_envs=ENVS), config, rewards=RewardConfig(**rewards))


def against_floor(rounds: int) -> float:
    """Ours and the floor in turn, so that both meet the same weather; the lower of the median ratios."""
    ratios = []
    for minibatches in (1, 4):
        ppo, bare = learner("letter-1", minibatches, bonus=0.01), floor(minibatches)
        bare(), ppo.update()
        pairs = [(seconds(bare), seconds(ppo.update)) for _ in range(rounds)]
        bare_time, our_time = (statistics.median(times) for times in zip(*pairs, strict=True))
        ratios.append(statistics.median(b / o for b, o in pairs))
        print(
            f"letter-1, {minibatches} minibatch(es): nn.GRU alone {BATCH / bare_time:8,.0f} steps/s   "
            f"ours, everything included {BATCH / our_time:8,.0f} steps/s   ratio {ratios[-1]:.2f}"
        )
    return min(ratios)


def fused_against_reference(rounds: int = 15, time_steps: int = 64, envs: int = 64) -> None:
    """Forward and backward pass of the policy on Letter 1, three ways in turn; the best round of each."""
    table = lstoc.compile_world("letter-1").observations
    policy = RecurrentPolicy(table.shape[1:], table.dtype, 4, generator=torch.Generator().manual_seed(0))
    rng = np.random.default_rng(0)
    ids = torch.from_numpy(rng.integers(len(table), size=(time_steps, envs)))
    begins = torch.from_numpy(rng.random((time_steps, envs)) < 0.01)
    hidden = policy.initial_hidden(envs)

    def step_by_step() -> tuple[torch.Tensor, torch.Tensor]:
        projection, state, steps = policy.project(policy.embedding(table)), hidden, []
        for row, begin in zip(ids, begins, strict=True):
            steps.append(policy.step(projection, row, state * ~begin.unsqueeze(1)))
            state = steps[-1].hidden
        return torch.stack([step.logits for step in steps]), torch.stack([step.value for step in steps])

    ways = {
        "reference": lambda: policy.reference(table, ids, hidden, begins),
        "table, step by step": step_by_step,
        "table, fused": lambda: policy(policy.project(policy.embedding(table)), ids, hidden, begins),
    }

    def run(way: Callable[[], tuple[torch.Tensor, torch.Tensor]]) -> None:
        logits, values = way()
        (logits.square().mean() + values.square().mean()).backward()

    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(seconds(lambda way=way: run(way)))
    best = {name: min(values) for name, values in times.items()}
    print(f"forward and backward, T={time_steps}, E={envs}, H={policy.hidden_size}, best of {rounds}")
    for name, value in best.items():
        print(f"  {name:20s} {1e3 * value:7.1f} ms   {value / best['table, fused']:.2f} times fused")


@contextmanager
def stopwatch(*methods: tuple[str, Any, str]):
    """Seconds spent in each method (label, owner, name) while the context lasts."""
    total = {label: 0.0 for label, _, _ in methods}

    def timed(label: str, method: Callable) -> Callable:
        def call(*args: Any, **options: Any) -> Any:
            start = time.process_time()
            result = method(*args, **options)
            total[label] += time.process_time() - start
            return result

        return call

    originals = [(owner, name, vars(owner).get(name)) for _, owner, name in methods]
    for label, owner, name in methods:
        setattr(owner, name, timed(label, getattr(owner, name)))
    yield total
    for owner, name, original in originals:
        if original is None:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


def profile(task: str, minibatches: int, updates: int) -> None:
    """Where the time of an update goes."""
    ppo = learner(task, minibatches, bonus=0.01)
    ppo.update()
    with stopwatch(
        ("collect", ppo, "_collect"), ("  environment", ppo.env, "step"), ("  rewards", ppo.rewards, "step"),
        ("  policy", ppo.policy, "step"), ("optimise", ppo, "_optimise"), ("  forward", ppo.policy, "forward"),
        ("  embed", ppo.policy, "embedding"), ("  backward", torch.Tensor, "backward"),
        ("  optimiser", ppo.optimizer, "step"),
    ) as total:  # fmt: skip
        whole = sum(seconds(ppo.update) for _ in range(updates))
    print(f"\nwhere the time goes ({task}, {minibatches} minibatches)")
    for label, spent in total.items():
        print(f"  {label:14s} {spent / whole:6.1%}   {1e6 * spent / updates / BATCH:7.2f} µs per step")


def ours(task: str, minibatches: int, updates: int) -> float:
    ppo = learner(task, minibatches)
    ppo.update()
    return updates * BATCH / sum(seconds(ppo.update) for _ in range(updates))


def sb3(task: str, minibatches: int, updates: int) -> float:
    """sb3-contrib at the same batch, epochs and minibatches, one LSTM of the same size for actor and critic."""
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    pixels = task.startswith("crafter")
    model = RecurrentPPO(
        "CnnLstmPolicy" if pixels else "MlpLstmPolicy",
        DummyVecEnv([lambda: make_env(lstoc.TASKS[task].domain, task=task)] * ENVS),
        n_steps=SEGMENT, batch_size=BATCH // minibatches, n_epochs=EPOCHS, device="cpu",
        policy_kwargs={"lstm_hidden_size": 256 if pixels else 128, "shared_lstm": True, "enable_critic_lstm": False},
    )  # fmt: skip
    model._setup_learn(updates * BATCH)
    spent = 0.0
    for _ in range(updates):
        spent += seconds(
            lambda: model.collect_rollouts(model.env, _no_callback(model), model.rollout_buffer, model.n_steps)
        )
        spent += seconds(model.train)
    return updates * BATCH / spent


def _no_callback(model: Any) -> Any:
    from stable_baselines3.common.callbacks import CallbackList
    from stable_baselines3.common.logger import configure

    model.set_logger(configure(None, []))
    callback = CallbackList([])
    callback.init_callback(model)
    return callback


def _isolated(run: Callable[..., float], arguments: tuple[Any, ...], pipe: Any) -> None:
    torch.set_num_threads(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rate = run(*arguments)
    pipe.send((rate, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024))


def isolated(run: Callable[..., float], *arguments: Any) -> tuple[float, float]:
    """Steps per second and megabytes above an idle process, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=_isolated, args=(run, arguments, theirs))
    process.start()
    theirs.close()
    try:
        return mine.recv()
    finally:
        process.join()


def against_sb3(task: str, minibatches: int) -> None:
    rate, memory = isolated(ours, task, minibatches, 4)
    their_rate, their_memory = isolated(sb3, task, minibatches, 1)
    print(
        f"{task}, {minibatches} minibatch(es): ours {rate:8,.0f} steps/s, {memory:5,.0f} MB   "
        f"sb3-contrib {their_rate:8,.0f} steps/s, {their_memory:5,.0f} MB   ratio {rate / their_rate:.1f}",
        flush=True,
    )


# Back and forth in a corridor: a cell looks the same on both ways. On an open grid no memory is needed, because the two
# ways may use different cells.
CORRIDOR = lstoc.make_task(
    domain="letter", formula="a;b;a", positions={"a": (0, 0), "b": (4, 0)}, size=(5, 1), start=(2, 0), horizon=24
)
STUDIES: dict[str, tuple[Any, int, int, dict[str, Any], dict[str, float]]] = {
    # task, seeds, steps, PPO settings, rewards
    "letter-1, label alone": (lstoc.TASKS["letter-1"], 5, 300_000, {}, {}),
    "a;b;a in a corridor, GRU": (CORRIDOR, 3, 150_000, {}, {}),
    "a;b;a in a corridor, memoryless": (CORRIDOR, 3, 150_000, {"memoryless": True}, {}),
    "office-1, bonus 0.02": (lstoc.TASKS["office-1"], 5, 1_000_000, {}, {"bonus": 0.02}),
}
POINTS = 15


def curve(study: str, seed: int) -> pd.DataFrame:
    """Success rate of the episodes since the last row, and all positives and episodes so far."""
    task, _, budget, settings, rewards = STUDIES[study]
    ppo = PPO(
        lstoc.make_vec(task, num_envs=64, seed=seed), PPOConfig(**settings), seed=seed, rewards=RewardConfig(**rewards)
    )
    rows, counted = [], 0
    for point in range(1, POINTS + 1):
        while ppo.env_steps < budget * point / POINTS:
            ppo.update()
        labels = ppo.store.labels
        rate = np.mean(labels[counted:]) if len(labels) > counted else float("nan")
        counted = len(labels)
        rows.append((study, seed, ppo.env_steps, round(float(rate), 4), len(ppo.store.positives), counted))
    return pd.DataFrame(rows, columns=["study", "seed", "env_steps", "success_rate", "positives", "episodes"])


def learning() -> None:
    """Fill in the curves that are missing, and show where each ended."""
    path = paths.DATA / "ppo_learning.csv"
    known = [part for _, part in pd.read_csv(path).groupby(["study", "seed"], sort=False)] if path.exists() else []
    done = {(part["study"].iloc[0], part["seed"].iloc[0]) for part in known}
    for study, (_, seeds, *_) in STUDIES.items():
        for seed in range(seeds):
            if (study, seed) not in done:
                known.append(curve(study, seed))
                pd.concat(known).to_csv(path, index=False)
    print(pd.concat(known).groupby(["study", "seed"], sort=False).last().to_string())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only ours against bare nn.GRU")
    parser.add_argument("--check-floor", type=float, metavar="R", help="fail if the ratio to bare nn.GRU is below R")
    parser.add_argument("--fused", action="store_true", help="only the fused GRU against the readable reference")
    parser.add_argument("--learning", action="store_true", help="learning curves instead of speed")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.learning:
        learning()
        return 0
    fused_against_reference()
    if options.fused:
        return 0
    if not options.quick:
        for task in ("letter-1", "crafter-1"):
            for minibatches in (4, 1):
                against_sb3(task, minibatches)
        profile("crafter-1", 4, 2)
    profile("letter-1", 4, 5)
    ratio = against_floor(rounds=5 if options.quick else 21)
    print(f"\nratio to bare nn.GRU: {ratio:.2f}")
    return int(options.check_floor is not None and ratio < options.check_floor)


if __name__ == "__main__":
    raise SystemExit(main())

"""Seconds that discovery takes on stored trajectories, on one core: guided, beside the paper's forward method.

    python benchmarks/bench_discovery.py [--quick] [--check] [--profile]

The trajectories are random walks of up to 200 steps on the 10×10 Letter map. Rounds go through all contenders in turn,
each on a store without any index, and the median round of each counts. Last, `learn` on 2,000 of them as raw arrays.
"""

import argparse
import cProfile
import os
import pstats
import statistics
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from lstoc_core.discovery.guided import Guided, GuidedConfig
from lstoc_core.discovery.published.forward import Forward, ForwardConfig
from lstoc_core.offline import learn
from lstoc_core.scoring import score
from lstoc_core.trajectories import TrajectoryStore, random_walks
from lstoc_core.worlds import compile_world, make_vec
from lstoc_core.worlds.tasks import TASKS, Task

TARGET_SECONDS = 3.0
TARGET_OFFLINE = 1.0
NAMES = ("letter-1", "letter-2", "letter-3")
Paths = tuple[tuple[int, ...], ...]


def by_guided(store: TrajectoryStore, task: Task) -> tuple[Paths, str]:
    """Contrast, and the proof that no other answer agrees."""
    fsm = task.formula.fsm()
    method = Guided(GuidedConfig(max_length=fsm.longest_path), structure=fsm.minimal_sequences())
    missing = method.advance(store)
    return method.paths, missing


def by_forward(exact: bool) -> Callable[[TrajectoryStore, Task], tuple[Paths, str]]:
    def run(store: TrajectoryStore, task: Task) -> tuple[Paths, str]:
        method = Forward(ForwardConfig(exact=exact), task.formula.fsm())
        missing = method.advance(store)
        return method.paths, missing

    return run


CONTENDERS = {"guided": by_guided, "forward, exact f": by_forward(True), "forward, trained f": by_forward(False)}


def truth(task: Task) -> Paths:
    world = compile_world(task)
    return tuple(sorted(tuple(world.observation_of_symbol(s) for s in sequence) for sequence in task.sequences))


def offline(task: Task, count: int = 2_000) -> tuple[float, float, bool]:
    """CPU seconds of `learn` on raw arrays, of the same without looking at observations, and whether both are exact."""
    env = make_vec(task, num_envs=1000, seed=0)
    store = random_walks(env, count, seed=0)
    episodes = [env.observations[store.trajectory(i)] for i in range(len(store))]
    begin = time.process_time()
    found = learn(episodes, store.labels, task.fsm())
    middle = time.process_time()
    of_ids = learn(fresh(store), fsm=task.fsm(), observations=env.observations)
    end = time.process_time()
    exact = all(each.finished and score(each, task).exact for each in (found, of_ids))
    return middle - begin, end - middle, exact


def fresh(store: TrajectoryStore) -> TrajectoryStore:
    """A copy without the index that earlier calls have built."""
    return store.select(np.arange(len(store)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round on a tenth of the trajectories")
    parser.add_argument("--check", action="store_true", help="exit with 1 unless guided is exact and fast enough")
    parser.add_argument("--profile", action="store_true", help="show where guided spends its time")
    options = parser.parse_args()
    torch.set_num_threads(1)
    count, rounds = (2_000, 1) if options.quick else (20_000, 3)
    slowest, exact = 0.0, True
    print(f"{count:,} random walks, one core, median of {rounds}")
    print(f"{'task':10} {'successes':>9} {'steps':>10}  {'method':20} {'seconds':>8}  outcome")
    for name in NAMES:
        task = TASKS[name]
        store = random_walks(make_vec(task, num_envs=1000, seed=0), count, seed=0)
        seconds: dict[str, list[float]] = {method: [] for method in CONTENDERS}
        outcome: dict[str, str] = {}
        for _ in range(rounds):
            for method, run in CONTENDERS.items():
                given = fresh(store)
                begin = time.perf_counter()
                paths, missing = run(given, task)
                seconds[method].append(time.perf_counter() - begin)
                outcome[method] = "exact" if paths == truth(task) and not missing else missing or "wrong"
        for method in CONTENDERS:
            took = statistics.median(seconds[method])
            row = f"{name:10} {int(store.labels.sum()):9,} {store.num_steps:10,}" if method == "guided" else " " * 31
            print(f"{row}  {method:20} {took:8.2f}  {outcome[method]}")
        slowest = max(slowest, statistics.median(seconds["guided"]))
        exact &= outcome["guided"] == "exact"
        if options.profile:
            with cProfile.Profile() as profile:
                by_guided(fresh(store), task)
            pstats.Stats(profile).sort_stats("tottime").print_stats(12)
    offline(TASKS[NAMES[0]], 200)  # imports
    for name in NAMES:
        took, of_ids, right = offline(TASKS[name])
        ratio = f"{took / of_ids:.1f} × the {of_ids:.2f} s of ready ids"
        print(f"learn from 2,000 episodes of arrays: {name} {took:.2f} s, {ratio}, {'exact' if right else 'WRONG'}")
        exact &= right and took < TARGET_OFFLINE
    met = slowest < TARGET_SECONDS and exact
    target = f"guided exact and below {TARGET_SECONDS} s, learn below {TARGET_OFFLINE} s"
    print(f"target: {target}: {'met' if met else 'MISSED'} (slowest {slowest:.2f} s)")
    return int(options.check and not met)


if __name__ == "__main__":
    sys.exit(main())

"""Costs of first occupancy, conditioning and contrastive training, as times and as ratios of one run.

python benchmarks/bench_contrastive.py [--quick]

Asked for: first occupancy and conditioning of 20,000 trajectories of 200 steps in less than 0.5 s, and 64 restarts of
700 steps of the LSTOC objective for at most 3 times the cost of one. Times are wall-clock times; the best of several
rounds counts, in which all take turns, so that other work on the machine disturbs the ratios little. Training is timed
with each number of threads up to the number of cores: a single small network gains nothing from a second one. A single
network trained by a plain PyTorch loop is the reference for how quick our single one is.
"""

import argparse
import os
import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
import torch

import lstoc_core as lstoc
from lstoc_core.discovery.published.importance import (
    CODE,
    ContrastData,
    exact_importance,
    make_contrast,
    train_importance,
)
from lstoc_core.discovery.published.training import Training
from lstoc_core.trajectories import (
    TrajectoryStore,
    after,
    earliest_match,
    first_occupancy,
    latest_match,
    random_walks,
    segment_counts,
)
from lstoc_core.trajectories.occupancy import geometric_occupancy

Name = TypeVar("Name", bound=Hashable)


def best_of(rounds: int, tasks: dict[Name, Callable[[], object]]) -> dict[Name, float]:
    """Seconds of each task, the smallest of several rounds in which all take turns."""
    best = dict.fromkeys(tasks, np.inf)
    for _ in range(rounds):
        for name, task in tasks.items():
            begin = time.perf_counter()
            task()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


def first_occupancy_in_python(store: TrajectoryStore) -> list[list[int]]:
    """What the vectorised first occupancy replaces."""
    return [list(dict.fromkeys(store.trajectory(i).tolist()[1:])) for i in range(len(store))]


def contains_in_python(store: TrajectoryStore, path: list[int]) -> list[bool]:
    """What the vectorised conditioning replaces."""
    found = []
    for i in range(len(store)):
        rest = iter(store.trajectory(i).tolist()[1:])
        found.append(all(x in rest for x in path))
    return found


def bench_trajectories(count: int, rounds: int) -> None:
    world = lstoc.compile_world("letter-1")
    path = [world.observation_of_symbol(symbol) for symbol in "ab"]
    source = random_walks(lstoc.make_vec("letter-1", num_envs=1000), count)

    def fresh() -> TrajectoryStore:  # without the index that earlier calls have left
        store = TrajectoryStore(source.num_ids)
        store.append_flat(source.ids, source.lengths, source.labels)
        return store

    def both() -> None:
        store = fresh()
        first_occupancy(store)
        after(store, path)

    source_index = fresh()
    first_occupancy(source_index)
    start, stop = earliest_match(source_index, path), latest_match(source_index, [])
    matched = start >= 0
    times = best_of(
        rounds,
        {
            "store, first occupancy and conditioning": both,
            "first occupancy (indexed)": lambda: first_occupancy(source_index),
            "conditioning on a path of 2 (indexed)": lambda: after(source_index, path),
            "segment counts after the path": lambda: segment_counts(
                source_index, start[matched], stop[matched], source.num_ids
            ),
            "geometric occupancy": lambda: geometric_occupancy(source_index, 0.99),
            "Python: first occupancy": lambda: first_occupancy_in_python(source),
            "Python: conditioning": lambda: contains_in_python(source, path),
        },
    )
    print(f"\n{len(source):,} trajectories, {source.num_steps:,} steps (Letter 1, random walks)")
    for name, seconds in times.items():
        print(f"  {name:45s}{1e3 * seconds:10.1f} ms")
    ours = times["store, first occupancy and conditioning"]
    python = times["Python: first occupancy"] + times["Python: conditioning"]
    print(f"  both together against 0.5 s: {ours / 0.5:.2f}; against plain Python: {python / ours:.1f} times faster")


def train_in_plain_torch(contrast: ContrastData, iterations: int) -> None:
    """One network, as one writes it down: what `train_importance` with one restart replaces."""
    inputs = torch.randn(len(contrast.positive), CODE)
    network = torch.nn.Sequential(torch.nn.Linear(CODE, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    positive, negative = (torch.from_numpy(each).float() for each in (contrast.positive, contrast.negative))
    for _ in range(iterations):
        ids = torch.cat([positive.multinomial(1), negative.multinomial(64, replacement=True)])
        loss = -network(inputs[ids]).squeeze(1).log_softmax(0)[0]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def bench_training(iterations: int, rounds: int) -> None:
    store = random_walks(lstoc.make_vec("letter-1", num_envs=1000), 5000)
    positives, negatives = store.select(store.positives), store.select(store.negatives)
    contrast = make_contrast(positives, negatives)

    def train(threads: int, restarts: int, training: Training) -> None:
        torch.set_num_threads(threads)
        train_importance([contrast], restarts=restarts, training=training)

    def train_plainly() -> None:
        torch.set_num_threads(1)
        train_in_plain_torch(contrast, iterations)

    paper = Training(iterations)
    variants = {
        **{f"{n} restarts": (n, paper) for n in (1, 4, 16, 64)},
        "64 positives per step": (1, replace(paper, positives_per_step=64, anneal=True)),
        "all data per step": (1, replace(paper, full_batch=True, anneal=True)),
    }
    cores = range(1, (os.cpu_count() or 1) + 1)
    train(1, 1, Training(iterations=5))  # first calls load libraries
    train_in_plain_torch(contrast, 5)
    tasks: dict[tuple[str, int], Callable[[], object]] = {
        (name, threads): partial(train, threads, *how) for name, how in variants.items() for threads in cores
    }
    tasks["plain PyTorch", 1] = train_plainly
    tasks["exact", 1] = lambda: exact_importance(make_contrast(positives, negatives))
    times = best_of(rounds, tasks)
    print(
        f"\nLSTOC objective, {iterations} steps, B = 64, Letter 1: seconds by number of threads, and the best of them"
    )
    best: dict[str, float] = {}
    for (name, _), seconds in times.items():
        best[name] = min(seconds, best.get(name, np.inf))
    for name, seconds in best.items():
        each = "".join(f"{times[name, threads]:9.3f}" for threads in cores if (name, threads) in times)
        print(f"  {name:25s}{each:27s}{seconds:9.3f} s{seconds / best['1 restarts']:8.2f} times one")
    alone = times["64 restarts", 1] / times["1 restarts", 1]
    ours, plain = (best["64 restarts"] / best[name] for name in ("1 restarts", "plain PyTorch"))
    print(
        f"  64 restarts: {ours:.2f} times one of ours, {plain:.2f} times one in plain PyTorch; on one thread "
        f"{alone:.2f} times one, so that one among them costs 1/{64 / alone:.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data and of the steps, one round")
    arguments = parser.parse_args()
    bench_trajectories(2_000 if arguments.quick else 20_000, 1 if arguments.quick else 5)
    bench_training(70 if arguments.quick else 700, 1 if arguments.quick else 5)


if __name__ == "__main__":
    main()

"""Events with the planner and with the policy: trajectories and steps until the run stops by itself.

    python benchmarks/bench_planned_events.py [--only taxi letter] [--seeds 0 1 2] [--explorers auto policy]

Prints the table of `docs/your_own_environment.md`: medians over the seeds, and in how many runs what was found is what
was meant (see `bench_environments`).
"""

import argparse
import functools
import os
import time
import warnings
from collections import defaultdict

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium
import numpy as np
import torch
from bench_environments import Case, cases, lake, right

import lstoc_core as lstoc
from lstoc_core.worlds import make_env

TWO = lstoc.make_task(
    domain="letter",
    formula="(a|d);b;c",
    positions={"a": (3, 1), "b": (5, 2), "c": (7, 7), "d": (1, 6), "e": (8, 3)},
    horizon=200,
)
"""Letter 1 with a second copy of a, which its map calls d."""
ASKED = ("Taxi, fixed", "Taxi, random", "DoorKey 5×5, fixed", "DoorKey 5×5, random")


def letters(observation: np.ndarray) -> list[str]:
    """The letter on which the agent stands, a for both copies; elsewhere, the place."""
    y, x = np.argwhere(observation[..., -1])[0]
    here = ["abcae"[plane] for plane in np.flatnonzero(observation[y, x, :-1])]
    return here or [f"at {x},{y}"]


def two_copies() -> gymnasium.Env:
    return make_env(task=TWO)


def chosen_cases() -> list[Case]:
    found = [case for case in cases() if case.name in ASKED]
    for fsm in (None, "a;b;c"):
        options = {"events": letters, "max_steps": 400_000}
        found.append(Case("Letter, two copies", two_copies, ("a", "b", "c"), (), fsm, options))
    for slippery in (False, True):
        made = functools.partial(lake, slippery=slippery)
        name = f"FrozenLake, {'slippery' if slippery else 'deterministic'}"
        options = {"success": "reward", "events": lambda cell: [f"at {cell}"], "max_steps": 100_000}
        found.append(Case(name, made, ("at 15",), (), "goal", options))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="cases whose name contains one of these")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--explorers", nargs="*", default=["auto", "policy"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    print(
        "| Environment | FSM | Explorer | Right | Trajectories | Steps | CPU seconds |\n|---|---|---|---|---|---|---|"
    )
    for case in chosen_cases():
        if given.only and not any(part.lower() in case.name.lower() for part in given.only):
            continue
        for explorer in given.explorers:
            rows, used = defaultdict(list), set()
            for seed in given.seeds:
                begin = time.process_time()
                found = lstoc.discover(
                    case.make, fsm=case.fsm, seed=seed, explorer=explorer, progress=False, **case.options
                )
                row = right(case, found), found.num_trajectories, found.env_steps, time.process_time() - begin
                used.add(found.exploration.split(":")[0])
                for name, value in zip(("right", "trajectories", "steps", "cpu"), row, strict=True):
                    rows[name].append(value)
            middle = [f"{np.median(rows[name]):,.0f}" for name in ("trajectories", "steps", "cpu")]
            told = explorer if used == {explorer} else f"{explorer}: {', '.join(sorted(used))}"
            counts = f"{sum(rows['right'])} of {len(given.seeds)}"
            print(f"| {case.name} | {case.fsm or '–'} | {told} | {counts} | {' | '.join(middle)} |", flush=True)


if __name__ == "__main__":
    main()

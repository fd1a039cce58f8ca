"""Exploration: CPU seconds, trajectories and steps of both explorers until the answer is proved.

python benchmarks/bench_exploration.py [--quick] [--tasks letter-2 office-2] [--seeds 0 1]
"""

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

import lstoc_core as lstoc


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="letter-1 alone")
    parser.add_argument("--tasks", nargs="+", default=["letter-2", "office-2", "crafter-3"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--explorers", nargs="+", default=["planner", "policy"])
    parser.add_argument("--max-steps", type=int, default=2_000_000)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'task':12}{'explorer':10}{'seed':>5}{'exact':>7}{'trajectories':>14}{'steps':>10}{'CPU s':>8}")
    for task in ["letter-1"] if args.quick else args.tasks:
        for explorer in args.explorers:
            for seed in args.seeds:
                begin = time.process_time()
                found = lstoc.discover(task, explorer=explorer, seed=seed, max_steps=args.max_steps, progress=False)
                seconds = time.process_time() - begin
                exact = found.finished and lstoc.score(found, task).exact
                counts = f"{found.num_trajectories:>14,}{found.env_steps:>10,}{seconds:>8.1f}"
                print(f"{task:12}{explorer:10}{seed:>5}{exact!s:>7}{counts}", flush=True)


if __name__ == "__main__":
    main()

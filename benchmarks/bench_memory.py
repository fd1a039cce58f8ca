"""Memory of a long run in a continuous world: the point world of `bench_environments`, which never repeats itself.

    python benchmarks/bench_memory.py [--steps 400000]

The run is kept from stopping, so that it explores and seeks boxes all the time. Each line: environment steps, memory of
the process in MB, and how many observations are kept.
"""

import argparse
import os
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from bench_endless import memory
from bench_environments import PointWorld

import lstoc_core as lstoc
from lstoc_core.discovery.regions import Regions
from lstoc_core.run.methods import Setting
from lstoc_core.trajectories.store import TrajectoryStore
from lstoc_core.trajectories.vector_env import vocabulary_of

PARTS = 8
"""Lines that are printed."""


class Endless(Regions):
    """Boxes that are never good enough."""

    def _judged(self, store: TrajectoryStore) -> bool:
        super()._judged(store)
        return False


def endless(setting: Setting) -> Endless:
    return Endless(vocabulary_of(setting.env), seed=setting.seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400_000)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    shown = 0

    def show(state: lstoc.RunState) -> None:
        nonlocal shown
        taken = state["env_steps"]
        if taken * PARTS >= (shown + 1) * steps:
            shown = taken * PARTS // steps
            print(f"{taken:>9,} steps  {memory():>4.0f} MB  {len(state.explorer.env.observations):,} kept", flush=True)

    lstoc.discover(PointWorld, events="boxes", method=endless, max_steps=steps, progress=False, callbacks=[show])


if __name__ == "__main__":
    main()

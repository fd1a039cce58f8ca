"""Run functions for test_cache.py: other processes find them by their import path."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from lstoc_core.study import cache


def curve(spec: cache.RunSpec) -> pd.DataFrame:
    """A table that depends on the seed and on `points`."""
    rng = np.random.default_rng(spec.seed)
    time.sleep(spec.config.get("pause", 0))
    if counter := spec.config.get("counter"):  # one line for each time that a run was done
        with Path(counter).open("a") as file:
            file.write(f"{spec.name}\n")
    steps = np.arange(spec.config.get("points", 20))
    return pd.DataFrame({"step": steps, "value": rng.normal(size=len(steps)).cumsum()})


def torch_curve(spec: cache.RunSpec) -> pd.DataFrame:
    """Numbers whose last digits depend on the number of threads."""
    import torch

    x = torch.randn(400, 400, generator=torch.Generator().manual_seed(spec.seed))
    print(f"threads {torch.get_num_threads()}")
    return pd.DataFrame({"value": torch.tanh(x @ x).sum(0).double().numpy()})


def fail_on_seed_1(spec: cache.RunSpec) -> pd.DataFrame:
    if spec.seed == 1:
        raise ZeroDivisionError(f"seed {spec.seed} cannot be done")
    return curve(spec)


def die_on_seed_1(spec: cache.RunSpec) -> pd.DataFrame:
    if spec.seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return curve(spec)


def first_then_sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def clashing_columns(spec: cache.RunSpec) -> pd.DataFrame:
    return pd.DataFrame({"seed": [spec.seed]})


def main() -> None:
    """python workload.py BUILD PAUSE COUNTER: what a user starts, and what the test kills."""
    build, pause, counter = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    cache.paths.BUILD = build
    specs = [cache.RunSpec("e", "t", "m", seed, "quick", {"pause": pause, "counter": counter}) for seed in range(8)]
    cache.compute(specs, "workload:curve", workers=2, progress=False)


if __name__ == "__main__":
    main()

"""Steps per second of the vector environments on one core, beside MiniGrid under gymnasium's SyncVectorEnv.

    python benchmarks/bench_envs.py [--quick]              # MiniGrid's rows need: pip install minigrid

Every contender steps the same number of environments with the same random actions. Rounds go through all contenders in
turn and the best round of each counts, so that a busy machine disturbs all alike.
"""

import argparse
import importlib.util
import os
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from lstoc_core.worlds import make_vec

TARGET_ID_STEPS = 5e6
TARGET_RATIO = 100


def minigrid(num_envs: int, *, pixels: bool) -> VectorEnv:
    """MiniGrid's 8×8 room, with its 7×7×3 view as it is, or drawn as 56×56×3 pixels."""
    from minigrid.wrappers import ImgObsWrapper, RGBImgPartialObsWrapper

    def make() -> gymnasium.Env:
        env = gymnasium.make("MiniGrid-Empty-8x8-v0", disable_env_checker=True)
        return ImgObsWrapper(RGBImgPartialObsWrapper(env) if pixels else env)

    return SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)


def contenders(num_envs: int) -> dict[tuple[str, str], Callable[[], VectorEnv]]:
    rows: dict[tuple[str, str], Callable[[], VectorEnv]] = {}
    for name in ("letter-2", "office-2", "crafter-2"):
        for mode in ("id", "array"):
            rows[name, mode] = lambda name=name, mode=mode: make_vec(name, num_envs, observation=mode)
    rows["letter-2, random start", "id"] = lambda: make_vec("letter-2", num_envs, start=None)
    if importlib.util.find_spec("minigrid"):
        rows["MiniGrid", "array"] = lambda: minigrid(num_envs, pixels=False)
        rows["MiniGrid", "pixels"] = lambda: minigrid(num_envs, pixels=True)
    return rows


def rate(env: VectorEnv, actions: np.ndarray, seconds: float) -> float:
    """Environment steps per second over at least so many seconds."""
    steps, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        env.step(actions[steps % len(actions)])
        steps += 1
    return steps * env.num_envs / elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="shorter rounds")
    parser.add_argument("--num-envs", type=int, default=1024)
    options = parser.parse_args()
    seconds, rounds = (0.2, 2) if options.quick else (1.0, 4)

    envs = {row: make() for row, make in contenders(options.num_envs).items()}
    actions = np.random.default_rng(0).integers(
        3, size=(64, options.num_envs)
    )  # 0 to 2: legal and moving in all of them
    best = dict.fromkeys(envs, 0.0)
    for env in envs.values():
        env.reset(seed=0)
    for _ in range(rounds):
        for row, env in envs.items():
            best[row] = max(best[row], rate(env, actions, seconds))

    print(f"{options.num_envs} environments, one core, best of {rounds} rounds of {seconds} s")
    print(f"{'world':24} {'observations':16} {'steps/s':>12} {'× MiniGrid':>11} {'× its pixels':>13}")
    for (name, mode), value in best.items():
        space = envs[name, mode].single_observation_space
        shape = "id" if mode == "id" else "×".join(map(str, space.shape))
        ratios = [
            f"{value / best[row]:,.0f}" if (row := ("MiniGrid", kind)) in best else "-" for kind in ("array", "pixels")
        ]
        print(f"{name:24} {shape:16} {value:12,.0f} {ratios[0]:>11} {ratios[1]:>13}")

    slowest = min(value for (name, mode), value in best.items() if mode == "id" and "random" not in name)
    verdict = "met" if slowest >= TARGET_ID_STEPS else "MISSED"
    print(f"target {TARGET_ID_STEPS:,.0f} id-steps/s: {verdict} ({slowest:,.0f})")
    if ("MiniGrid", "array") in best:
        pairs = {"letter-2": "array", "office-2": "array", "crafter-2": "pixels"}  # like with like
        least = min(best[name, "array"] / best["MiniGrid", kind] for name, kind in pairs.items())
        verdict = "met" if least >= TARGET_RATIO else "MISSED"
        print(f"target {TARGET_RATIO} × MiniGrid with observations: {verdict} ({least:,.0f} ×)")
    else:
        print("MiniGrid is not installed: pip install minigrid")


if __name__ == "__main__":
    main()

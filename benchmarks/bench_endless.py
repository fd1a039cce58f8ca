"""A run that cannot finish: does its memory grow, and how long does a look of discovery take at most?

    python benchmarks/bench_endless.py [--quick] [--steps 2000000] [--check] [--save endless.csv]

The world is a corridor whose ends must be visited in order; the FSM has a second branch that the world lacks, so that
no answer is ever complete. A row for each hundredth of the steps: memory of the process in MB, and the CPU time of the
longest look since the row before.
"""

import argparse
import resource
import sys
import time
from pathlib import Path

import gymnasium
import pandas as pd

import lstoc_core as lstoc
from lstoc_core.discovery.guided import Guided

STEPS = 2_000_000
LOOK = 2.0
"""Most seconds of CPU time that a look may take."""
GROWTH = 1.1
"""Most by which memory may grow in the second half."""


class Corridor(gymnasium.Env):
    """Cells 0 to 4, start in the middle. Success: the left end, then the right end, within 40 steps."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = gymnasium.spaces.Discrete(5), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.time, self.left = 2, 0, False
        return self.cell, {}

    def step(self, action):
        self.cell = min(max(self.cell + (1 if action else -1), 0), 4)
        self.time += 1
        self.left |= self.cell == 0
        done = self.cell == 4 and self.left
        return self.cell, 0.0, done, self.time >= 40, {"success": done}


def memory() -> float:
    """Memory that the process holds now, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def endless(steps: int) -> pd.DataFrame:
    """Columns steps, episodes, memory, longest_look, seconds (CPU time so far)."""
    rows: list[dict[str, float]] = []
    looks = [0.0]
    advance = Guided.advance

    def timed(self, store):
        begin = time.process_time()
        result = advance(self, store)
        looks.append(time.process_time() - begin)
        return result

    def note(state) -> None:
        if state["env_steps"] >= steps * (len(rows) + 1) / 100:
            counts = {"steps": state["env_steps"], "episodes": state["trajectories"]}
            rows.append(
                counts | {"memory": memory(), "longest_look": max(looks), "seconds": round(time.process_time(), 1)}
            )
            looks[:] = [0.0]

    Guided.advance = timed  # type: ignore[method-assign]
    try:
        found = lstoc.discover(Corridor, fsm="(a;b)|(c;d)", max_steps=steps, progress=False, callbacks=[note])
    finally:
        Guided.advance = advance  # type: ignore[method-assign]
    print(found)
    return pd.DataFrame(rows).round({"memory": 1, "longest_look": 3})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a hundredth of the steps")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--check", action="store_true", help="fail if a look is long or memory grows")
    parser.add_argument("--save", type=Path, help="write the table to this CSV file")
    given = parser.parse_args()
    table = endless(given.steps // 100 if given.quick else given.steps)
    half = table[table.steps <= table.steps.max() / 2].memory.iloc[-1]
    end, look = table.memory.iloc[-1], table.longest_look.max()
    print(table.iloc[[0, len(table) // 4, len(table) // 2, -1]].to_string(index=False))
    print(f"longest look {look:.2f} s of CPU time; {half:.0f} MB after half of the steps, {end:.0f} MB at the end")
    if given.save:
        table.to_csv(given.save, index=False)
    return int(given.check and (look > LOOK or end > GROWTH * half))


if __name__ == "__main__":
    sys.exit(main())

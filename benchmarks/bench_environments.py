"""Environments nobody here wrote, each with an adapter of a few lines: what is found, after how much, at what cost.

    python benchmarks/bench_environments.py [--quick] [--only taxi doorkey] [--seeds 0 1 2]

Every run stops by itself, within its budget of steps. A run without an FSM is right if the landmarks of every branch
contain the expected ones in order; with an FSM, if every name is where it belongs. CPU seconds are of the whole run.
"""

import argparse
import functools
import inspect
import os
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium
import minigrid
import numpy as np
import torch
from minigrid.wrappers import FullyObsWrapper

import lstoc_core as lstoc

Factory = Callable[[], gymnasium.Env]
assert minigrid  # registers its environments


# --- adapters ---------------------------------------------------------------------------------------------------------


class Same(gymnasium.Wrapper):
    """The same layout and start in every episode."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=7, options=options)


def taxi() -> gymnasium.Env:
    return gymnasium.make("Taxi-v4")


def same_taxi() -> gymnasium.Env:
    return Same(taxi())


def ride(state: int) -> list[str]:
    """Where the taxi is, whether the passenger is aboard, and whether at the destination."""
    state, destination = divmod(int(state), 4)
    cell, passenger = divmod(state, 5)
    return [f"at {cell}", *["aboard"] * (passenger == 4), *["delivered"] * (passenger == destination)]


def grid(name: str, wrapper: Callable[[gymnasium.Env], gymnasium.Env] = FullyObsWrapper) -> gymnasium.Env:
    return wrapper(gymnasium.make(name))


def same_grid(name: str) -> gymnasium.Env:
    return Same(grid(name))


def lake(*, slippery: bool) -> gymnasium.Env:
    return gymnasium.make("FrozenLake-v1", is_slippery=slippery)


# --- cases ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One environment, what `discover` is told of it, and what should come out."""

    name: str
    make: Factory
    expected: tuple[str, ...]
    """Landmarks in order, by the names of their events; of observations, by their number."""
    adapter: tuple[Any, ...] = ()
    """Functions and classes whose lines count."""
    fsm: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def lines(self) -> int:
        """Lines of the adapter, without docstrings and blanks."""
        code = [line.strip() for part in self.adapter for line in inspect.getsource(part).splitlines()]
        return sum(bool(line) and not line.startswith('"""') for line in code)


def cases() -> list[Case]:
    tiles = {"success": "reward", "events": lstoc.tiles(), "max_steps": 400_000}
    rides = {"success": "reward", "events": ride, "max_steps": 600_000}
    found = []
    for fsm in (None, "pick;deliver"):
        for name, make, adapter in (("taxi, fixed", same_taxi, (taxi, Same)), ("taxi, random", taxi, (taxi,))):
            found.append(Case(name, make, ("aboard", "delivered"), (*adapter, ride), fsm, rides))
    for fsm in (None, "key;door;goal"):
        for size in (5, 6):
            steps = ("no yellow key", "yellow door open", f"agent at {size - 2},{size - 2}")
            name = f"MiniGrid-DoorKey-{size}x{size}-v0"
            for told, make in (("fixed", same_grid), ("random", grid)):
                adapter = (grid, Same) if make is same_grid else (grid,)
                found.append(
                    Case(f"doorkey {size}×{size}, {told}", functools.partial(make, name), steps, adapter, fsm, tiles)
                )
    box = {"success": "reward", "events": lstoc.tiles(colours=False), "max_steps": 1_500_000}
    unlock = functools.partial(grid, "MiniGrid-UnlockPickup-v0")
    found.append(Case("unlockpickup, random", unlock, ("no key", "door open", "no box"), (grid,), None, box))
    for slippery in (False, True):
        make = functools.partial(lake, slippery=slippery)
        name = f"frozenlake, {'slippery' if slippery else 'deterministic'}"
        found.append(Case(name, make, ("15",), (lake,), "goal", {"success": "reward", "explorer": "policy"}))
    return found


def seen(discovery: lstoc.Discovery, key: lstoc.KeyState) -> str:
    """The name of a key state: its event, or the number of a one-hot observation."""
    return key.event or str(int(np.argmax(key.observation)))


def right(case: Case, discovery: lstoc.Discovery) -> bool:
    if not discovery.finished or len(discovery.landmarks) != 1:
        return False
    if case.fsm is None:
        rest = iter(mark.name for mark in discovery.landmarks[0])
        return all(name in rest for name in case.expected)
    named = {name: seen(discovery, discovery.key_states[key]) for key, name in discovery.labeling.mapping.items()}
    return tuple(named[name] for name in case.fsm.split(";")) == case.expected


def report(rows: Iterable[tuple[Case, list[tuple[bool, bool, int, float]]]]) -> None:
    """One line per case: medians over the seeds."""
    print("| Environment | Adapter lines | Events | FSM | Finished | Right | Trajectories | CPU seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for case, runs in rows:
        events = case.options.get("events")
        told = "exact" if events is None else "tiles" if isinstance(events, type(lstoc.tiles())) else "a function"
        finished, good = (sum(run[index] for run in runs) for index in (0, 1))
        middle = [float(np.median([run[index] for run in runs])) for index in (2, 3)]
        of = f"of {len(runs)}"
        print(
            f"| {case.name} | {case.lines} | {told} | {case.fsm or '–'} | {finished} {of} | {good} {of} | "
            f"{middle[0]:,.0f} | {middle[1]:.0f} |",
            flush=True,
        )


def run(case: Case, seed: int) -> tuple[bool, bool, int, float]:
    begin = time.process_time()
    found = lstoc.discover(case.make, fsm=case.fsm, seed=seed, progress=False, **case.options)
    return found.finished, right(case, found), found.num_trajectories, time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed each")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose name contains one of these")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="observations without")
    chosen = [case for case in cases() if not given.only or any(part in case.name for part in given.only)]
    seeds = given.seeds[:1] if given.quick else given.seeds
    report((case, [run(case, seed) for seed in seeds]) for case in chosen)


if __name__ == "__main__":
    main()

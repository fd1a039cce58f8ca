"""Environments nobody here wrote, each with an adapter of a few lines: what is found, after how much, at what cost.

    python benchmarks/bench_environments.py [--quick] [--only taxi doorkey] [--seeds 0 1 2]

Every run stops by itself, within its budget of steps, and is a row of `data/environments.csv`. Rows that are there
already are not run again, so a stopped benchmark goes on where it was. Without --quick, the table in
`docs/your_own_environment.md` is written from all rows.

A run without an FSM is right if the landmarks of its only branch contain the expected ones in order; with an FSM, if
every name is where it belongs. Boxes are right if each covers its region. CPU seconds are of the whole run.
"""

import argparse
import csv
import functools
import inspect
import os
import re
import resource
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import crafter
import gymnasium
import minigrid
import numpy as np
import torch
from minigrid.wrappers import FullyObsWrapper

import lstoc_core as lstoc
from lstoc_core import paths

Factory = Callable[[], gymnasium.Env]
Check = Callable[[lstoc.Discovery], bool]
Row = dict[str, str]
assert minigrid  # registers its environments
ROWS = paths.ROOT / "data" / "environments.csv"
PAGE = paths.ROOT / "docs" / "your_own_environment.md"
BEGIN, END = "<!-- environments: written by benchmarks/bench_environments.py -->", "<!-- end of environments -->"


COLOURS = {"red": 0, "green": 1, "blue": 2, "purple": 3, "yellow": 4, "grey": 5}
LEFT = -1.1
"""Where the left hill begins; the lowest point is at -0.5, the wall at -1.2, the flag at 0.5."""

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


def grid(name: str) -> gymnasium.Env:
    return FullyObsWrapper(gymnasium.make(name))


def same_grid(name: str) -> gymnasium.Env:
    return Same(grid(name))


def lake(*, slippery: bool) -> gymnasium.Env:
    return gymnasium.make("FrozenLake-v1", is_slippery=slippery)


class TwoDoors(gymnasium.ObservationWrapper):
    """The door that the mission wants first is shown red, the other one green; missions of one door are left out."""

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        while (found := super().reset(**given))[0]["mission"].count("door") < 2:
            given = {}
        return found

    def observation(self, seen: dict[str, Any]) -> dict[str, Any]:
        shown, doors = np.arange(2, 8), re.findall(r"(\w+) door", seen["mission"])
        shown[[COLOURS[door] for door in doors]] = [1, 0] if "after" in seen["mission"] else [0, 1][: len(doors)]
        seen["image"][..., 1] = shown[seen["image"][..., 1]]
        return seen


def two_doors() -> gymnasium.Env:
    return TwoDoors(grid("BabyAI-OpenDoorsOrderN2-v0"))


class Crafter(gymnasium.Env):
    """The game as it is, in episodes that end before the night, whose noise hides what is seen."""

    observation_space, action_space = gymnasium.spaces.Box(0, 255, (64, 64, 3), np.uint8), gymnasium.spaces.Discrete(17)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.world = self.world if seed is None else crafter.Env(length=140, seed=seed)
        return self.world.reset(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        seen, _, over, info = self.world.step(action)
        return seen, float(info["achievements"]["place_table"]), info["achievements"]["place_table"] > 0, over, {}


def looks(picture: Any) -> set[str]:
    """Which textures are in the picture: 9 × 9 of them, told by what is light in them, however dark it is."""
    cells = (np.asarray(picture)[:63, :63] @ [0.299, 0.587, 0.114]).reshape(9, 7, 9, 7).swapaxes(1, 2).reshape(81, 49)
    low, high = cells.min(1, keepdims=True), cells.max(1, keepdims=True)
    light = (cells > (low + high) / 2) & (high - low > 15)
    return {f"{zlib.crc32(bits.tobytes()):08x}" for bits in np.packbits(light, 1)}


# --- continuous worlds ------------------------------------------------------------------------------------------------


class PointWorld(gymnasium.Env):
    """A point in the unit square, moved by noisy steps: disc a, then disc b."""

    DISCS = (((0.25, 0.7), 0.15), ((0.75, 0.3), 0.15))
    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.been, self.time = self.np_random.random(2), False, 0
        return self.place.astype(np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        move = 0.08 * np.array([(1, 0), (-1, 0), (0, 1), (0, -1)][action]) + self.np_random.normal(0, 0.02, 2)
        self.place = np.clip(self.place + move, 0, 1)
        self.time += 1
        self.been |= bool(near(self.place, 0))
        done = self.been and bool(near(self.place, 1))
        return self.place.astype(np.float32), 0.0, done, self.time >= 60, {"success": done}


def near(points: Any, disc: int) -> Any:
    centre, radius = PointWorld.DISCS[disc]
    return np.linalg.norm(np.asarray(points) - np.array(centre), axis=-1) < radius


def overlap(bounds: tuple[Any, Any], disc: int) -> float:
    """Area of box and disc together that both share."""
    square = np.stack(np.meshgrid(*[np.linspace(0, 1, 200)] * 2), -1)
    box, round_ = ((square >= bounds[0]) & (square <= bounds[1])).all(-1), near(square, disc)
    return float((box & round_).sum() / (box | round_).sum())


class LeftFirst(gymnasium.Wrapper):
    """MountainCar that must have been on the left hill before the flag; four steps of each action."""

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        self.left = False
        return self.env.reset(**given)

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        end = reduce(lambda end, _: end if any(end[2:4]) else self.env.step(action), range(3), self.env.step(action))
        self.left |= bool(end[0][0] < LEFT)
        return end[0], float(end[2] and self.left), *end[2:]


def hills() -> gymnasium.Env:
    return LeftFirst(gymnasium.make("MountainCar-v0", max_episode_steps=400))


# --- cases ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One environment, what `discover` is told of it, and what should come out."""

    name: str
    make: Factory
    expected: tuple[str, ...] | Check
    """Landmarks in order, by the names of their events, a | between two that will do; of observations, by their number.
    Or what decides."""
    adapter: tuple[Any, ...] = ()
    """Functions and classes whose lines count."""
    fsm: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lines(self) -> int:
        """Lines of the adapter, without docstrings and blanks."""
        code = [line.strip() for part in self.adapter for line in inspect.getsource(part).splitlines()]
        return sum(bool(line) and not line.startswith('"""') for line in code)

    @property
    def key(self) -> tuple[str, str]:
        return self.name, self.fsm or "–"

    @property
    def events(self) -> str:
        given = self.options.get("events", "exact")
        return given if isinstance(given, str) else "tiles" if isinstance(given, type(lstoc.tiles())) else "a function"


def cases() -> list[Case]:
    tiles = {"success": "reward", "events": lstoc.tiles(), "max_steps": 400_000}
    rides = {"success": "reward", "events": ride, "max_steps": 600_000}
    found = []
    for fsm in (None, "pick;deliver"):
        for name, make, adapter in (("Taxi, fixed", same_taxi, (taxi, Same)), ("Taxi, random", taxi, (taxi,))):
            found.append(Case(name, make, ("aboard", "delivered"), (*adapter, ride), fsm, rides))
    for fsm in (None, "key;door;goal"):
        for size in (5, 6):
            steps = ("no yellow key", "yellow door open|no yellow door locked", f"agent at {size - 2},{size - 2}")
            name = f"MiniGrid-DoorKey-{size}x{size}-v0"
            for told, make in (("fixed", same_grid), ("random", grid)):
                adapter = (grid, Same) if make is same_grid else (grid,)
                found.append(
                    Case(f"DoorKey {size}×{size}, {told}", functools.partial(make, name), steps, adapter, fsm, tiles)
                )
    doors = {"success": "reward", "events": lstoc.tiles(places=False), "max_steps": 600_000}
    for fsm in (None, "first;second"):
        steps = ("red door open|no red door closed", "green door open|no green door closed")
        found.append(Case("OpenDoorsOrderN2, random", two_doors, steps, (TwoDoors,), fsm, doors))
    box = {"success": "reward", "events": lstoc.tiles(places=False, colours=False), "max_steps": 1_000_000}
    unlock = functools.partial(gymnasium.make, "MiniGrid-UnlockPickup-v0")  # its own view shows what is carried
    for fsm in (None, "key;door;box"):
        steps = ("carries key", "door open", "carries box")
        found.append(Case("UnlockPickup, random", unlock, steps, (), fsm, box))
    for slippery in (False, True):
        make = functools.partial(lake, slippery=slippery)
        name = f"FrozenLake, {'slippery' if slippery else 'deterministic'}"
        found.append(Case(name, make, ("15",), (lake,), "goal", {"success": "reward"}))
    boxes = {"events": "boxes", "max_steps": 400_000}
    for fsm in (None, "a;b"):
        found.append(Case("point world, noise", PointWorld, on_discs, (), fsm, boxes))
        made = Case("MountainCar, left hill first", hills, on_hills, (hills, LeftFirst), fsm, boxes)
        found.append(Case(**{**vars(made), "options": {**boxes, "success": "reward"}}))
    pictures = {"success": "reward", "events": looks, "max_steps": 100_000}
    found.append(Case("crafter.Env, wood then table", Crafter, wood_then_table, (Crafter, looks), None, pictures))
    return found


def on_discs(discovery: lstoc.Discovery) -> bool:
    bounds = [key.bounds for key in (discovery.key_states[i] for i in discovery.sequences[0])]
    return len(bounds) == 2 and all(overlap(each, disc) >= 0.5 for disc, each in enumerate(bounds))


def on_hills(discovery: lstoc.Discovery) -> bool:
    """The first box is on the left hill, the second at the flag: by more than half of their widths."""
    bounds = [key.bounds for key in (discovery.key_states[i] for i in discovery.sequences[0])]
    middles = [float(np.clip(low[0], -1.2, 0.6) + np.clip(high[0], -1.2, 0.6)) / 2 for low, high in bounds]
    return len(middles) == 2 and middles[0] < LEFT and middles[1] > 0.4


def wood_then_table(discovery: lstoc.Discovery) -> bool:
    """Whether the picture of one piece of wood, and later that of a table, are landmarks."""
    textures = crafter.engine.Textures(crafter.constants.root / "assets")
    items = crafter.engine.ItemView(textures, (9, 2))
    empty, wood, table = np.zeros((3, 64, 64, 3), np.uint8)
    wood[49:63, :63] = items(dict.fromkeys(crafter.constants.items, 0) | {"wood": 1}, (7, 7)).transpose(1, 0, 2)
    table[:7, :7] = textures.get("table", (7, 7)).transpose(1, 0, 2)[..., :3]
    expected = [(looks(picture) - looks(empty)).pop() for picture in (wood, table)]
    rest = iter(mark.name for mark in discovery.landmarks[0])
    return all(name in rest for name in expected)


def seen(key: lstoc.KeyState) -> str:
    """The name of a key state: its event, or the number of a one-hot observation."""
    return key.event or str(int(np.argmax(key.observation)))


def right(case: Case, discovery: lstoc.Discovery) -> bool:
    if not discovery.finished or len(discovery.sequences) != 1:
        return False
    if callable(case.expected):
        return case.expected(discovery)
    if case.fsm is None:
        rest = iter(mark.name for mark in discovery.landmarks[0])
        return all(any(name in wanted.split("|") for name in rest) for wanted in case.expected)
    named = {name: seen(discovery.key_states[key]) for key, name in discovery.labeling.mapping.items()}
    pairs = zip(case.fsm.split(";"), case.expected, strict=True)
    return all(named[name] in wanted.split("|") for name, wanted in pairs)


# --- rows and table ---------------------------------------------------------------------------------------------------


def run(case: Case, seed: int) -> Row:
    begin = time.process_time()
    found = lstoc.discover(case.make, fsm=case.fsm, seed=seed, progress=False, **case.options)
    told = "; ".join(" → ".join(found.names[key] for key in path) for path in found.sequences)
    return {
        "environment": case.key[0],
        "fsm": case.key[1],
        "seed": str(seed),
        "finished": str(int(found.finished)),
        "right": str(int(right(case, found))),
        "trajectories": str(found.num_trajectories),
        "steps": str(found.env_steps),
        "cpu_seconds": f"{time.process_time() - begin:.1f}",
        "peak_mb": str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024),
        "sequences": told,
        "verdict": found.verdict,
    }


def rows() -> list[Row]:
    if not ROWS.exists():
        return []
    with ROWS.open(newline="") as file:
        return list(csv.DictReader(file))


def keep(row: Row) -> None:
    fresh = not ROWS.exists()
    with ROWS.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        if fresh:
            writer.writeheader()
        writer.writerow(row)


def table(known: Iterable[Row]) -> str:
    """How many runs are right, and one line per case that was run: medians over the seeds."""
    known = list(known)
    lines = [
        f"{sum(int(row['right']) for row in known)} of {len(known)} runs are right.",
        "",
        "| Environment | Adapter, lines | Key states | FSM | Finished | Right | Trajectories | Steps | CPU seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for case in cases():
        runs = [row for row in known if (row["environment"], row["fsm"]) == case.key]
        if not runs:
            continue
        finished, good = (sum(int(row[name]) for row in runs) for name in ("finished", "right"))
        middle = [float(np.median([float(row[name]) for row in runs])) for name in ("trajectories", "steps")]
        cpu = float(np.median([float(row["cpu_seconds"]) for row in runs]))
        of = f"of {len(runs)}"
        lines.append(
            f"| {case.name} | {case.lines} | {case.events} | {case.key[1]} | {finished} {of} | {good} {of} | "
            f"{middle[0]:,.0f} | {middle[1]:,.0f} | {cpu:.0f} |"
        )
    return "\n".join(lines)


def write_page(text: str) -> None:
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed each, and nothing is written")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose name contains one of these")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    chosen = [case for case in cases() if not given.only or any(part in case.name for part in given.only)]
    done = {(row["environment"], row["fsm"], row["seed"]) for row in rows()}
    fresh = []
    for seed in given.seeds[:1] if given.quick else given.seeds:
        for case in chosen:
            if given.quick or (*case.key, str(seed)) not in done:
                fresh.append(run(case, seed))
                print({name: value for name, value in fresh[-1].items() if name != "verdict"}, flush=True)
                if not given.quick:
                    keep(fresh[-1])
    if given.quick:
        print(table(fresh))
    else:
        write_page(table(rows()))


if __name__ == "__main__":
    main()

"""Small random worlds that break one assumption of a proof each, and whether an answer predicts them all the same."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import gymnasium
import numpy as np

import lstoc_core as lstoc

SIDE, HORIZON = 4, 40
FORMULAS = ("a;b", "a;b;c", "a;(b|c)", "(a;b)|c", "a;b;a", "(a|b);c")
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))


@dataclass(frozen=True)
class World:
    """A grid of SIDE × SIDE cells, numbered row by row: which names each cell has, and what it looks like."""

    formula: str
    told: str
    """The formula that `discover` is given."""
    names: dict[int, frozenset[str]]
    """Cell -> its names."""
    looks: tuple[int, ...] = tuple(range(SIDE * SIDE))
    """Cell -> observation."""
    start: int = 0
    start_counts: bool = False
    late: int = 0
    """Steps by which the end comes after the success."""
    dropped: float = 0.0
    """Probability that a success is labelled failure."""
    flipped: float = 0.0
    """Probability that a label is wrong."""
    closed: float = 0.0
    """Probability that an episode cannot succeed, for a reason that is not seen."""
    seed: int = 0
    words: tuple[tuple[str, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", lstoc.parse(self.formula).minimal_sequences())

    def visit(self, progress: tuple[int, ...], cell: int) -> tuple[int, ...]:
        """How far each word is after a visit."""
        return advanced(self.words, progress, self.names.get(cell, frozenset()))

    def done(self, progress: tuple[int, ...]) -> bool:
        return any(count == len(word) for count, word in zip(progress, self.words, strict=True))


def advanced(words, progress, seen):
    """Progress along each word, one element further where the next one is among what is seen."""
    return tuple(
        count + (count < len(word) and word[count] in seen) for count, word in zip(progress, words, strict=True)
    )


def moved(cell: int, action: int) -> int:
    x, y = cell % SIDE + MOVES[action][0], cell // SIDE + MOVES[action][1]
    return y * SIDE + x if 0 <= x < SIDE and 0 <= y < SIDE else cell


class WorldEnv(gymnasium.Env):
    """A world as any user would write it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.observation_space = gymnasium.spaces.Discrete(SIDE * SIDE)
        self.action_space = gymnasium.spaces.Discrete(4)
        self.rng = np.random.default_rng(world.seed)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        world = self.world
        self.cell, self.time, self.since = world.start, 0, -1
        self.progress = tuple(0 for _ in world.words)
        if world.start_counts:
            self.progress = world.visit(self.progress, self.cell)
        self.closed = self.rng.random() < world.closed
        return world.looks[self.cell], {}

    def step(self, action):
        world = self.world
        self.cell = moved(self.cell, int(action))
        self.time += 1
        self.progress = world.visit(self.progress, self.cell)
        success = world.done(self.progress) and not self.closed
        self.since += success
        terminated = success and self.since >= world.late
        truncated = not terminated and self.time >= HORIZON
        label = success and self.rng.random() >= world.dropped
        label ^= bool(self.rng.random() < world.flipped)
        return world.looks[self.cell], 0.0, terminated, truncated, {"success": bool(label)}


# --- one assumption each ----------------------------------------------------------------------------------------------


def sound(seed: int) -> World:
    """A random world that breaks nothing."""
    rng = np.random.default_rng(seed)
    formula = FORMULAS[int(rng.integers(len(FORMULAS)))]
    names = lstoc.parse(formula).symbols
    cells = 1 + rng.choice(SIDE * SIDE - 1, len(names), replace=False)
    places = {int(cell): frozenset(name) for cell, name in zip(cells, sorted(names), strict=True)}
    return World(formula, formula, places, seed=seed)


def _free(world: World, rng: np.random.Generator) -> int:
    return int(rng.choice([cell for cell in range(1, SIDE * SIDE) if cell not in world.names]))


def _two_places(world: World, rng: np.random.Generator) -> World:
    name = next(iter(world.names.values()))
    return replace(world, names={**world.names, _free(world, rng): name})


def _looks_like_another(world: World, rng: np.random.Generator) -> World:
    looks = list(world.looks)
    looks[_free(world, rng)] = int(rng.choice([*world.names]))
    return replace(world, looks=tuple(looks))


def _keys_alike(world: World, rng: np.random.Generator) -> World:
    one, two, *_ = world.names
    looks = list(world.looks)
    looks[two] = one
    return replace(world, looks=tuple(looks))


def _wrong_fsm(world: World, rng: np.random.Generator) -> World:
    return replace(world, told=str(rng.choice([formula for formula in FORMULAS if formula != world.formula])))


def _start_counts(world: World, rng: np.random.Generator) -> World:
    return replace(world, start=int(rng.choice([*world.names])), start_counts=True)


VIOLATIONS: dict[str, Callable[[World, np.random.Generator], World]] = {
    "none": lambda world, rng: world,
    "a name at two places": _two_places,
    "a key state that looks like another cell": _looks_like_another,
    "two keys that look alike": _keys_alike,
    "a wrong FSM": _wrong_fsm,
    "one in five successes labelled failure": lambda world, rng: replace(world, dropped=0.2),
    "a hidden condition in one of ten episodes": lambda world, rng: replace(world, closed=0.1),
    "a start that counts": _start_counts,
    "1 % flipped labels": lambda world, rng: replace(world, flipped=0.01),
    "success reported one step late": lambda world, rng: replace(world, late=1),
}

NAMED = {
    "a name at two places": "a name at two places",
    "a key state that looks like another cell": "aliasing",
    "two keys that look alike": "aliasing",
    "a wrong FSM": "FSM",
    "one in five successes labelled failure": "noise",
    "a hidden condition in one of ten episodes": "noise",
    "a start that counts": "a start that counts",
    "1 % flipped labels": "noise",
    "success reported one step late": "episodes that run past success",
}
"""What is violated, and the suspect that names it."""


def violated(kind: str, seed: int) -> World:
    """The random world `seed` with one assumption broken."""
    return VIOLATIONS[kind](sound(seed), np.random.default_rng(seed + 1_000_000))


# --- is an answer right? ----------------------------------------------------------------------------------------------


def predicts(world: World, paths: set[tuple[int, ...]]) -> bool:
    """Whether sequences of observations succeed exactly when the world does, on every walk within the horizon."""
    words = tuple(paths)
    true = tuple(0 for _ in world.words)
    if world.start_counts:
        true = world.visit(true, world.start)
    states = {(world.start, true, tuple(0 for _ in words))}
    seen = set(states)
    for _ in range(HORIZON):
        reached = set()
        for cell, true, guess in states:
            for action in range(4):
                after = moved(cell, action)
                now, told = world.visit(true, after), advanced(words, guess, {world.looks[after]})
                said = any(count == len(word) for count, word in zip(told, words, strict=True))
                if said != world.done(now):
                    return False
                if not said and (state := (after, now, told)) not in seen:
                    seen.add(state)
                    reached.add(state)
        states = reached
    return True

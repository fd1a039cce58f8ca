"""Any gymnasium spaces as what the library works on: one array per observation, one number per action.

Box observations stay as they are. Discrete ones become one-hot rows, all others flat ones by gymnasium's own `flatten`.
Of Discrete, MultiDiscrete and MultiBinary actions, all are listed: action i is the i-th of them.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate
from numpy.typing import NDArray

from lstoc_core.trajectories.door import check_members, numbers

AnySpace = spaces.Space[Any]
MAX_ACTIONS = 4096
"""Most combinations of a MultiDiscrete or MultiBinary action that are listed."""


class FlatObservations:
    """Observations of a space as arrays of one shape.

    Entries of a Dict that gymnasium cannot flatten (as MiniGrid's mission) are left out, with a warning.
    """

    def __init__(self, space: AnySpace) -> None:
        self.space = _numeric(space)
        """What is kept of the given space."""
        flat = self.space if isinstance(self.space, spaces.Box) else spaces.flatten_space(self.space)
        assert isinstance(flat, spaces.Box)
        one_hot = isinstance(space, spaces.Discrete)
        self.box = spaces.Box(0, 1, flat.shape, np.uint8) if one_hot else flat
        """The space of the arrays."""

    def row(self, observation: Any) -> NDArray[Any]:
        """The array of one observation; the observation itself if it is one already."""
        if isinstance(self.space, spaces.Box):
            return numbers(observation, self.box.dtype)
        kept = _reduced(self.space, observation)
        check_members(self.space, kept)
        return np.asarray(spaces.flatten(self.space, kept), self.box.dtype)

    def rows(self, observations: Any, count: int) -> NDArray[Any]:
        """The arrays of `count` observations that gymnasium has batched."""
        if isinstance(self.space, spaces.Box):
            return numbers(observations, self.box.dtype)
        return np.stack([self.row(one) for one in iterate(batch_space(self.space, count), observations)])

    def unflat(self, row: NDArray[Any]) -> Any:
        """The observation of an array, as the environment gave it, but for entries that were left out."""
        if isinstance(self.space, spaces.Box):
            return row
        return spaces.unflatten(self.space, row)

    def is_batch(self, observations: Any) -> bool:
        """Whether these are several observations rather than one: told by the dimensions of the first part."""
        space: AnySpace = self.space
        while isinstance(space, spaces.Dict | spaces.Tuple):
            name, space = _parts(space)[0]
            observations = observations[name]
        return np.ndim(observations) > len(space.shape or ())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FlatObservations) and self.space == other.space


@dataclass(frozen=True)
class ListedActions:
    """All actions of a space: row i is what the environment takes for action i."""

    rows: NDArray[np.int64]

    @classmethod
    def of(cls, space: AnySpace) -> "ListedActions":
        if isinstance(space, spaces.Discrete):
            return cls(np.arange(int(space.n), dtype=np.int64) + int(space.start))
        if isinstance(space, spaces.MultiDiscrete):
            sizes, start = space.nvec.reshape(-1), space.start.reshape(-1)
        elif isinstance(space, spaces.MultiBinary):
            sizes, start = np.full(int(np.prod(space.shape)), 2), np.zeros(1, np.int64)
        else:
            raise TypeError(
                f"actions are {space}: Discrete, MultiDiscrete and MultiBinary ones are supported; choose n actions "
                "and wrap the environment, "
                "gymnasium.wrappers.TransformAction(env, lambda i: chosen[i], gymnasium.spaces.Discrete(n))"
            )
        if (count := int(np.prod(sizes, dtype=np.float64))) > MAX_ACTIONS:
            raise ValueError(f"{space} has {count:,} actions, more than {MAX_ACTIONS:,}: choose some with a wrapper")
        listed = np.array(list(product(*map(range, sizes))), np.int64) + start
        return cls(listed.reshape(count, *space.shape))

    def __len__(self) -> int:
        return len(self.rows)


def box_like(rows: NDArray[Any]) -> spaces.Box:
    """A space of arrays like each of these rows [n, ...]; it knows no bounds but those of the type."""
    return _unbounded(rows.shape[1:], rows.dtype)


def space_to_json(space: AnySpace) -> dict[str, Any]:
    """What `flatten` needs to know of a space, in JSON types. Bounds of a Box are not kept."""
    kind = type(space).__name__
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return {"kind": kind, "parts": [[name, space_to_json(part)] for name, part in _parts(space)]}
    if isinstance(space, spaces.Discrete):
        return {"kind": kind, "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": kind, "nvec": space.nvec.tolist(), "start": space.start.tolist()}
    if isinstance(space, spaces.Text):
        return {"kind": kind, "min": space.min_length, "max": space.max_length, "characters": space.characters}
    assert isinstance(space, spaces.Box | spaces.MultiBinary)  # no other is kept
    return {"kind": kind, "shape": list(space.shape), "dtype": str(space.dtype)}


def space_from_json(told: dict[str, Any]) -> AnySpace:
    """The space of `space_to_json`."""
    match told["kind"]:
        case "Dict":
            return spaces.Dict({name: space_from_json(part) for name, part in told["parts"]})
        case "Tuple":
            return spaces.Tuple([space_from_json(part) for _, part in told["parts"]])
        case "Discrete":
            return spaces.Discrete(told["n"], start=told["start"])
        case "MultiDiscrete":
            return spaces.MultiDiscrete(told["nvec"], start=told["start"])
        case "Text":
            return spaces.Text(told["max"], min_length=told["min"], charset=told["characters"])
        case "MultiBinary":
            return spaces.MultiBinary(told["shape"])
        case _:
            return _unbounded(told["shape"], np.dtype(told["dtype"]))


def _unbounded(shape: Sequence[int], dtype: np.dtype[Any]) -> spaces.Box:
    if dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, tuple(shape), dtype.type)
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return spaces.Box(low, high, tuple(shape), dtype.type)


def _parts(space: spaces.Dict | spaces.Tuple[Any]) -> list[tuple[Any, AnySpace]]:
    return list(space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces))


def _numeric(space: AnySpace) -> AnySpace:
    """The space without those entries of Dicts that gymnasium cannot flatten to numbers."""
    if isinstance(space, spaces.Dict):
        kept, left = {}, []
        for name, part in space.spaces.items():
            try:
                kept[name] = _numeric(part)
            except TypeError:
                left.append(name)
        if kept and left:
            names = ", ".join(map(repr, left))
            warnings.warn(f"observations without {names}: gymnasium cannot flatten them to numbers", stacklevel=2)
        if kept:
            return spaces.Dict(kept)
    elif isinstance(space, spaces.Tuple):
        return spaces.Tuple([_numeric(part) for part in space.spaces])
    elif isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Text):
        return space
    raise TypeError(
        f"observations are {space}: Box, Discrete, MultiDiscrete, MultiBinary, Text, and Dict and Tuple of them are "
        "supported; give others as a Box by a gymnasium.ObservationWrapper"
    )


def _reduced(space: AnySpace, observation: Any) -> Any:
    """The entries of an observation, or a batch of them, that the space has kept."""
    if isinstance(space, spaces.Dict):
        return {name: _reduced(part, observation[name]) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_reduced(part, observation[i]) for i, part in enumerate(space.spaces))
    return observation

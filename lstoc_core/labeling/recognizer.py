"""The labeling function L: from any observation, also one never seen in training, to a symbol or none.

Training gives one observation per key state, its name (labeling.py), and thousands of other observations. A table of
those names would fail on the first new wall behind a letter. What matters of a key observation has to be found by
contrast: the part in which *every* key observation stands out from *everything else* the agent saw. Beside a letter the
agent sees it too, but elsewhere in its view; in another room it sees the same walls, but no letter. So the function

* searches the *window*, one small rectangle for all key states, in which a key observation and the other observation
  most similar to it differ most (mean absolute difference in the rectangle; the worst key state counts);
* calls an observation by the key state it equals most in the window, if it is nearer to it than half way to the
  nearest thing that is not this symbol.

The window is where to look; the key observations are what to look for. In agent-centred views it turns out to be the
cell under the agent, which nobody told it: cells, letters and tiles are unknown here, an observation is an array.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Images = NDArray[np.float32]
"""[M, rows, columns, channels], values in 0…1."""

GRID_LINES = 20
"""Windows end on at most this many lines per axis: each cell of a small observation, every 4th pixel of 80."""


@dataclass(frozen=True, eq=False)
class LabelingFunction:
    """L: observations -> symbols. Made by `learn`; call it with one observation, or use `columns` for many."""

    symbols: tuple[str, ...]
    """The names it can give, sorted."""
    window: tuple[slice, slice]
    """Rows and columns of an observation that are looked at."""
    prototypes: NDArray[np.float32]
    """[key states, height, width, channels]: the key observations in the window, scaled to 0…1."""
    names: NDArray[np.intp]
    """[key states]: index of each one's symbol."""
    reach: NDArray[np.float32]
    """[key states]: an observation nearer than this (mean absolute difference in the window) carries its name."""
    low: float
    span: float

    @classmethod
    def learn(
        cls,
        observations: ArrayLike,
        key_ids: Sequence[int],
        mapping: Mapping[int, str],
        *,
        seen: ArrayLike | None = None,
    ) -> "LabelingFunction":
        """From the table of observations [N, …], the table row of each key state, and the names {key state: symbol}.

        seen: rows that the agent has seen in training; all by default. Axes 0 and 1 of an observation are its rows and
        columns, the rest are channels. Key states without a name are contrasted like everything else.
        """
        if not mapping:
            raise ValueError("the mapping names no key state: label the key states first")
        if beyond := [key for key in mapping if not 0 <= key < len(key_ids)]:
            raise ValueError(f"the mapping names key states {beyond}, but there are {len(key_ids)} key observations")
        table = np.asarray(observations)
        low, span = float(table.min()), float(np.ptp(table)) or 1.0
        keys = sorted(mapping)
        rows = np.array([key_ids[key] for key in keys])
        symbols = tuple(sorted(set(mapping.values())))
        names = np.array([symbols.index(mapping[key]) for key in keys])
        everything = np.union1d(np.arange(len(table)) if seen is None else np.unique(seen), rows)
        images = _images(table, low, span)
        # name_of: -1 for observations that are no named key state; a key state is not contrasted with its namesakes.
        name_of = np.full(len(table), -1)
        name_of[rows] = names
        contrast = names[:, None] != name_of[everything]
        if not contrast.any(axis=1).all():
            raise ValueError(
                "nothing but key observations of one symbol was seen: there is nothing to contrast it with"
            )
        window = _window(images[rows], images[everything], contrast)
        parts = images[(slice(None), *window)]
        distances = np.stack([np.abs(parts[everything] - parts[row]).mean(axis=(1, 2, 3)) for row in rows])
        nearest = np.where(contrast, distances, np.inf).min(axis=1)
        return cls(symbols, window, parts[rows], names, (nearest / 2).astype(np.float32), low, span)

    def columns(self, observations: ArrayLike) -> NDArray[np.intp]:
        """Index into `symbols` for each of the observations [M, …], -1 for none."""
        part = _images(np.asarray(observations), self.low, self.span)[(slice(None), *self.window)]
        distances = np.stack([np.abs(part - key).mean(axis=(1, 2, 3)) for key in self.prototypes])
        within = np.where(distances < self.reach[:, None], distances, np.inf)
        return np.where(np.isfinite(within).any(axis=0), self.names[within.argmin(axis=0)], -1)

    def __call__(self, observation: ArrayLike) -> str | None:
        """The symbol that an observation shows, or None."""
        column = int(self.columns(np.asarray(observation)[None])[0])
        return None if column < 0 else self.symbols[column]


def _images(observations: NDArray[Any], low: float, span: float) -> Images:
    """Observations as [M, rows, columns, channels] in 0…1; missing axes have length 1."""
    shape = (*observations.shape[1:], 1, 1, 1)
    images = observations.reshape(len(observations), shape[0], shape[1], -1)
    return (images.astype(np.float32) - np.float32(low)) / np.float32(span)


def _window(keys: Images, others: Images, contrast: NDArray[np.bool_]) -> tuple[slice, slice]:
    """The rectangle with the largest smallest mean difference over all contrasted pairs; of equal ones the smallest.

    The mean counts for less the larger the rectangle is (over the root of its area): the fewer observations were seen,
    the more likely it is that a large part of a key observation is unlike all of them for no reason.
    contrast: the pairs that count, bool [keys, others].
    """
    rows, columns = (np.unique(np.linspace(0, n, GRID_LINES + 1).round().astype(int)) for n in keys.shape[1:3])
    pairs = []
    for key, counts in zip(keys, contrast, strict=True):
        blocks = np.abs(others[counts] - key).mean(axis=-1, dtype=np.float64)
        pairs.append(np.add.reduceat(np.add.reduceat(blocks, rows[:-1], axis=1), columns[:-1], axis=2))
    # Sums over everything above and to the left of each grid point: the sum over a rectangle takes four of them.
    sums = np.pad(np.concatenate(pairs).cumsum(axis=1).cumsum(axis=2), ((0, 0), (1, 0), (1, 0)))
    left, right = np.triu_indices(len(columns), 1)
    widths = columns[right] - columns[left]
    candidates = []
    for top, bottom in zip(*np.triu_indices(len(rows), 1), strict=True):
        strip = sums[:, bottom] - sums[:, top]
        areas = widths * (rows[bottom] - rows[top])
        least = (strip[:, right] - strip[:, left]).min(axis=0) / areas**1.5
        least = np.round(least, 12)  # equal ones are equal
        best = np.lexsort((areas, -least))[0]
        candidates.append(
            (-least[best], areas[best], rows[top], rows[bottom], columns[left[best]], columns[right[best]])
        )
    _, _, top, bottom, first, last = min(candidates)
    return slice(int(top), int(bottom)), slice(int(first), int(last))

"""States that are learned from noisy observations, none of which repeats: `events="learned"`.

A sample is divided at the widest gap between near and far: of the edges of its minimum spanning tree, sorted by length,
those after the largest relative step join different clusters, if no cluster holds half of the sample. (Without clusters
one always does, unless it is cut where there is no gap.) From then on, an observation belongs to the cluster whose mean
is nearest; or it is the first of a new one, if that is almost as far as clusters of the sample are from each other.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from lstoc_core.trajectories.door import InputError
from lstoc_core.trajectories.identity import Table

SAMPLE = 1000
"""Observations from which the clusters are learned."""
LEAST_GAP = 1.1
"""Least ratio of the distance between clusters to that within them."""
LARGEST = 0.5
"""Largest share of the sample in one cluster."""
RADIUS = 0.7
"""Distance to a mean from which on an observation founds a cluster, in shortest distances between means."""
MOST_CLUSTERS = 4096
"""Most clusters: then each observation belongs to the nearest one."""
TINY = 1e-6
"""Added to distances, relative to the largest: those of 0 would be no edges."""


class ClusterIdentity:
    """An `Identity`: a state is a cluster of observations. `learn` must come before `ids`."""

    def __init__(self) -> None:
        self._table = Table()
        self._means = np.zeros((0, 0), np.float32)
        self._sizes = np.zeros(0, np.int64)
        self._radius = 0.0

    @property
    def ready(self) -> bool:
        """Whether the clusters were learned."""
        return len(self._table) > 0

    @property
    def full(self) -> bool:
        """Whether there can be no more clusters."""
        return len(self._table) >= MOST_CLUSTERS

    @property
    def observations(self) -> NDArray[Any]:
        """The first observation of each cluster so far, row by id (read-only)."""
        return self._table.rows

    def learn(self, sample: NDArray[Any]) -> None:
        """Learn the clusters from observations [n, *shape], which are then their first ones."""
        cluster = clusters(sample)
        rows = sample.reshape(len(sample), -1).astype(np.float32)
        self._table = Table()
        for first in np.unique(cluster, return_index=True)[1]:
            self._table.append(sample[first])
        self._sizes = np.bincount(cluster)
        self._means = np.zeros((len(self._sizes), rows.shape[1]), np.float32)
        np.add.at(self._means, cluster, rows)
        self._means /= self._sizes[:, None]
        apart = _distances(self._means)
        np.fill_diagonal(apart, np.inf)
        self._radius = RADIUS * float(apart.min())

    def ids(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """Cluster of each observation [n, *shape] -> [n]."""
        return np.array([self._cluster(row) for row in observations], np.int64)

    def _cluster(self, observation: NDArray[Any]) -> int:
        """The cluster of an observation; its mean takes the observation in."""
        row, count = observation.reshape(-1).astype(np.float32), len(self._table)
        distances = ((self._means[:count] - row) ** 2).sum(1)
        nearest = int(distances.argmin())
        if distances[nearest] > self._radius**2 and not self.full:
            return self._found(observation, row)
        self._sizes[nearest] += 1
        self._means[nearest] += (row - self._means[nearest]) / self._sizes[nearest]
        return nearest

    def _found(self, observation: NDArray[Any], row: NDArray[np.float32]) -> int:
        """A new cluster."""
        number = len(self._table)
        if number == len(self._means):
            self._means = np.concatenate([self._means, np.zeros_like(self._means)])
            self._sizes = np.concatenate([self._sizes, np.zeros_like(self._sizes)])
        self._table.append(observation)
        self._means[number], self._sizes[number] = row, 1
        return number

    def representation(self, count: int) -> None:
        """None: the clusters are told apart by distance, nothing else is learned about them."""

    def state_dict(self) -> dict[str, Any]:
        """The clusters as arrays."""
        count = len(self._table)
        known = self._means[:count].copy(), self._sizes[:count].copy()
        return {"means": known[0], "sizes": known[1], "radius": self._radius}

    def load_state_dict(self, state: Mapping[str, Any], observations: NDArray[Any]) -> None:
        """Restore what `state_dict` returned. observations: the first of each cluster."""
        self._table = Table()
        for row in observations:
            self._table.append(row)
        self._means, self._sizes = np.array(state["means"]), np.array(state["sizes"])
        self._radius = float(state["radius"])


def clusters(sample: NDArray[Any]) -> NDArray[np.int64]:
    """The cluster of each observation [n, *shape] -> [n], in order of appearance."""
    distances = _distances(sample.reshape(len(sample), -1).astype(np.float32))
    tree = minimum_spanning_tree(distances + TINY * (1 + distances.max())).tocoo()
    edges = np.sort(tree.data)[len(sample) // 2 :]  # at least half of the observations have a like
    steps = edges[1:] / edges[:-1]
    for step in np.argsort(-steps)[: int((steps >= LEAST_GAP).sum())].tolist():
        near = tree.data < np.sqrt(edges[step] * edges[step + 1])
        joined = coo_array((tree.data[near], (tree.row[near], tree.col[near])), shape=tree.shape)
        _, labels = connected_components(joined, directed=False)
        if np.bincount(labels).max() <= LARGEST * len(sample):
            _, first, number = np.unique(labels, return_index=True, return_inverse=True)
            ranks: NDArray[np.int64] = np.argsort(np.argsort(first))[number]
            return ranks
    raise InputError(
        f"events='learned': {len(sample)} observations form no clusters, for no gap is between near and far ones; say "
        "what recurs by events=, a function of an observation, or 'boxes' for a few real numbers"
    )


def _distances(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Between each two rows, [n, n]."""
    flat = rows - rows.mean(0)
    squares = np.einsum("ij,ij->i", flat, flat)
    distances: NDArray[np.float64] = np.sqrt(np.maximum(squares[:, None] + squares - 2 * flat @ flat.T, 0)).astype(
        float
    )
    return distances

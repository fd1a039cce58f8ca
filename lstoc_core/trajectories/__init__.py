"""What the agent saw: labelled trajectories of observation ids, and how they are matched, cut and counted."""

from lstoc_core.trajectories.matching import (
    after,
    contains,
    earliest_match,
    explained_by,
    first_occupancy,
    latest_match,
    segment_counts,
    segments,
    shortest_ways,
)  # fmt: skip
from lstoc_core.trajectories.store import TrajectoryStore
from lstoc_core.trajectories.walks import random_walks

__all__ = [
    "TrajectoryStore", "after", "contains", "earliest_match", "explained_by", "first_occupancy", "latest_match",
    "random_walks", "segment_counts", "segments", "shortest_ways",
]  # fmt: skip

"""Where the published method goes wrong, judged with the truth: the first wrong node of each tree that it grew."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from lstoc_core.discovery.method import DiscoveryMethod
from lstoc_core.discovery.published.forward import Forward
from lstoc_core.trajectories.matching import KeyPath

Mistake = Literal["right", "early", "other"]
"""right: no node is wrong. early: the first wrong node is a key state, but none that comes next. other: it is none."""


def tree_facts(method: DiscoveryMethod | None, truth: Iterable[KeyPath]) -> dict[str, int]:
    """How many trees of the published method have which first mistake, the last tree included; {} for other methods."""
    if not isinstance(method, Forward):
        return {}
    truth = tuple(truth)
    trees = [first_mistake(attempt.nodes, truth) for attempt in (*method.abandoned, method.attempt) if attempt.nodes]
    counts = Counter(trees)
    return {f"trees_{kind}": counts[kind] for kind in ("right", "early", "other")}


def first_mistake(nodes: Iterable[KeyPath], truth: Iterable[KeyPath]) -> Mistake:
    """The mistake of a tree. nodes: their paths, in the order in which they were found.

    A node is right if its key state is the next one of some true sequence after those before it. [a, c] is right for
    ((a;b)|c);d: some successes through c visit a first.
    """
    truth = tuple(truth)
    for path in nodes:
        if not any(_progress(path, sequence) > _progress(path[:-1], sequence) for sequence in truth):
            return "early" if any(path[-1] in sequence for sequence in truth) else "other"
    return "right"


def _progress(path: KeyPath, sequence: KeyPath) -> int:
    """How many key states of a sequence a path visits, in order from the first."""
    done = 0
    for key in path:
        done += done < len(sequence) and key == sequence[done]
    return done

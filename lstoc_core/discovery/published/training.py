"""How f_ω is trained: the paper's numbers, and two ways to read "L = 700 iterations"."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from numpy.typing import NDArray

from lstoc_core.trajectories.representation import is_pixels


@dataclass(frozen=True)
class Training:
    """How f_ω is trained; see TRAININGS for the two readings of the paper."""

    iterations: int = 700
    """L: gradient steps."""
    lr: float = 0.01
    """Adam's learning rate."""
    positives_per_step: int = 1
    """Positive states per step; in Baseline 2, positive trajectories."""
    negatives_per_step: int = 64
    """B: negative states per positive one; in Baseline 2, negative trajectories per step."""
    hidden: int = 128
    """Hidden units; 256 for pixels."""
    log: bool = True
    """Maximise the log of the paper's ratio; False: the ratio as printed."""
    anneal: bool = False
    """Let the learning rate fall linearly to zero, so that f converges."""
    full_batch: bool = False
    """Maximise the expectation over all data in each step instead of drawing samples."""

    def sized(self, observations: NDArray[Any]) -> Training:
        """The same with the paper's number of hidden units for observations [n, *shape]."""
        return replace(self, hidden=256 if is_pixels(observations.shape[1:], observations.dtype) else 128)


Fit = Literal["converged", "printed"]
TRAININGS: dict[Fit, Training] = {
    "converged": Training(full_batch=True, anneal=True),
    "printed": Training(),
}
"""700 iterations over all data with a falling rate, after which f has converged; or 700 steps on one positive each."""
CONVERGED = TRAININGS["converged"]

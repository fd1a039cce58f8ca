"""Statistics for few runs: interquartile means, probability of improvement, intervals, curves on a common grid.

A mean of three to ten runs is easily moved by one of them; the interquartile mean (the mean of the middle half) is
not, and the stratified bootstrap says how far it could be off. Both follow Agarwal et al. (2021), "Deep RL at the
edge of the statistical precipice".
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats


class Interval(NamedTuple):
    """An estimate with the ends of its confidence interval; numbers, or arrays of one shape."""

    estimate: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def interquartile_mean(scores: ArrayLike, axis: int | None = None) -> NDArray[np.float64]:
    """Mean of what is left when the lowest and highest quarter are cut off (their counts rounded down)."""
    return np.asarray(stats.trim_mean(_finite(scores), proportiontocut=0.25, axis=axis))


def iqm_interval(
    strata: Sequence[ArrayLike],
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    repetitions: int = 2_000,
) -> Interval:
    """Interquartile mean over all runs of all strata, with a stratified percentile bootstrap interval.

    A stratum holds the runs of one task, `[runs, *grid]`: numbers or curves; strata may differ in their number of
    runs. Each repetition draws runs with replacement within each stratum, a curve as a whole. For one task's curves
    pass `[curves]`; for scores `[runs, tasks]` pass `scores.T`.
    """
    samples = [_finite(stratum) for stratum in strata]
    if not samples or any(sample.ndim == 0 or not len(sample) for sample in samples):
        raise ValueError("iqm_interval needs at least one stratum, and at least one run in each")
    if len({sample.shape[1:] for sample in samples}) > 1:
        raise ValueError(f"runs differ in shape: {sorted({sample.shape[1:] for sample in samples})}; use on_grid first")
    resampled = [sample[rng.integers(len(sample), size=(repetitions, len(sample)))] for sample in samples]
    means = interquartile_mean(np.concatenate(resampled, axis=1), axis=1)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return Interval(interquartile_mean(np.concatenate(samples), axis=0), low, high)


def difference_interval(
    one: NDArray[np.float64], two: NDArray[np.float64], *, rng: np.random.Generator, repetitions: int = 2_000
) -> tuple[float, float]:
    """Bootstrap 95 % interval of the difference of two interquartile means, each sample resampled by itself."""
    means = [
        interquartile_mean(sample[rng.integers(len(sample), size=(repetitions, len(sample)))], axis=1)
        for sample in (one, two)
    ]
    low, high = np.quantile(means[0] - means[1], [0.025, 0.975])
    return float(low), float(high)


def probability_of_improvement(
    pairs: Sequence[tuple[ArrayLike, ArrayLike]],
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    repetitions: int = 2_000,
) -> Interval:
    """Probability that a run of one method beats a run of another on a task drawn at random; a tie counts half.

    A pair holds the scores of both methods on one task; tasks may differ in their number of runs. On each task it is
    Mann and Whitney's U over the number of pairs of runs, and tasks count alike. Each repetition draws runs with
    replacement within each task and method.
    """
    samples = [(_finite(one), _finite(two)) for one, two in pairs]
    if not samples or any(sample.ndim != 1 or not len(sample) for pair in samples for sample in pair):
        raise ValueError("probability_of_improvement needs at least one task, and on each a run of both methods")
    wins = [(np.sign(one[:, None] - two[None, :]) + 1) / 2 for one, two in samples]
    drawn = np.zeros((len(wins), repetitions))
    for task, table in enumerate(wins):
        rows, columns = (rng.integers(size, size=(repetitions, size)) for size in table.shape)
        drawn[task] = table[rows[:, :, None], columns[:, None, :]].mean(axis=(1, 2))
    low, high = np.quantile(drawn.mean(axis=0), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(np.mean([table.mean() for table in wins]), low, high)


def wilson(successes: ArrayLike, trials: ArrayLike, confidence: float = 0.95) -> Interval:
    """Proportion of successes with Wilson's score interval, which stays in [0, 1] and is honest at 0 and 1.

    Without a trial nothing is known: the estimate is NaN and the interval [0, 1].
    """
    counts = np.broadcast_arrays(np.asarray(successes, int), np.asarray(trials, int))
    if np.any((counts[0] < 0) | (counts[0] > counts[1])):
        raise ValueError(f"{successes!r} successes of {trials!r} trials: give between 0 and the number of trials")

    def interval(k: int, n: int) -> tuple[float, float, float]:
        if n == 0:
            return np.nan, 0.0, 1.0
        bounds = stats.binomtest(int(k), int(n)).proportion_ci(confidence, method="wilson")
        return k / n, bounds.low, bounds.high

    return Interval(*np.vectorize(interval, otypes=[float] * 3)(*counts))


def on_grid(steps: ArrayLike, values: ArrayLike, grid: ArrayLike, *, hold: bool = False) -> NDArray[np.float64]:
    """One run's curve at the grid's steps, by linear interpolation.

    Before the first measurement the first value stands. After the last one there is no value (NaN), unless `hold`
    says that the run ended because it was finished and its last value may stand.
    """
    steps, values = _curve(steps, values)
    return np.interp(np.asarray(grid, float), steps, values, right=values[-1] if hold else np.nan)


def area_under_curve(steps: ArrayLike, values: ArrayLike, *, until: float | None = None) -> float:
    """Mean height of the curve from step 0 to `until` (default: its last step), by the trapezoid rule.

    A success rate gives a number in [0, 1], comparable over tasks. The ends are treated as in `on_grid(hold=True)`.
    """
    steps, values = _curve(steps, values)
    end = float(steps[-1] if until is None else until)
    if end <= 0:
        raise ValueError(f"the curve must reach past step 0, not end at {end}")
    grid = np.unique(np.concatenate([[0.0, end], steps[(steps > 0) & (steps < end)]]))
    return float(np.trapezoid(np.interp(grid, steps, values), grid) / end)


def _finite(scores: ArrayLike) -> NDArray[np.float64]:
    scores = np.asarray(scores, float)
    if not np.isfinite(scores).all():
        raise ValueError("scores hold NaN or infinity: drop the unfinished runs or shorten the grid")
    return scores


def _curve(steps: ArrayLike, values: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    steps, values = np.asarray(steps, float), _finite(values)
    if steps.ndim != 1 or steps.shape != values.shape or not len(steps):
        raise ValueError(f"a curve needs as many values as steps, at least one; got {steps.shape} and {values.shape}")
    if np.any(np.diff(steps) <= 0):
        raise ValueError("the steps of a curve must increase")
    return steps, values

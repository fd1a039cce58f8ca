"""stats.py against scipy and rliable as independent oracles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rliable import metrics
from scipy.integrate import trapezoid
from scipy.stats import binomtest, bootstrap, mannwhitneyu

from lstoc_core.study import stats

scores_of_all_tasks = st.integers(0, 2**32 - 1).map(
    lambda seed: np.random.default_rng(seed).uniform(size=np.random.default_rng(seed).integers(1, 12, size=2))
)


@given(scores_of_all_tasks)
def test_interquartile_mean_is_rliables(scores):
    assert stats.interquartile_mean(scores) == pytest.approx(metrics.aggregate_iqm(scores))
    assert stats.iqm_interval(scores.T, rng=np.random.default_rng(0)).estimate == pytest.approx(
        metrics.aggregate_iqm(scores)
    )


def test_interval_agrees_with_scipys_bootstrap():
    """scipy redraws each sample on its own: the same strata. (rliable's does not import with pandas 3.)"""
    tasks = [np.random.default_rng(seed).beta(2, 1, size=runs) for seed, runs in enumerate([10, 7, 8])]
    ours = stats.iqm_interval(tasks, rng=np.random.default_rng(2), repetitions=20_000)
    theirs = bootstrap(
        tasks,
        lambda *samples, axis: stats.interquartile_mean(np.concatenate(samples, axis=axis), axis=axis),
        n_resamples=20_000,
        method="percentile",
        rng=np.random.default_rng(3),
    ).confidence_interval
    assert [ours.low, ours.high] == pytest.approx([theirs.low, theirs.high], abs=0.004)


def test_interval_is_stratified():
    """With one run in each stratum there is nothing to redraw: the interval has no width."""
    interval = stats.iqm_interval([[0.1], [0.9], [0.4]], rng=np.random.default_rng(0))
    assert interval.low == interval.high == pytest.approx(interval.estimate)


def test_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(5)
    runs = rng.normal(size=(40, 200))  # 200 independent experiments of 40 runs, true interquartile mean 0
    interval = stats.iqm_interval([runs], rng=rng, repetitions=500)
    assert 0.89 <= np.mean((interval.low <= 0) & (interval.high >= 0)) <= 0.98


def test_curves_are_resampled_whole_and_pointwise_equal_to_numbers():
    rng = np.random.default_rng(0)
    curves = [rng.uniform(size=(5, 7)), rng.uniform(size=(3, 7))]
    together = stats.iqm_interval(curves, rng=np.random.default_rng(1))
    for point in range(7):
        alone = stats.iqm_interval([curve[:, point] for curve in curves], rng=np.random.default_rng(1))
        np.testing.assert_allclose([x[point] for x in together], alone)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.sampled_from([0.8, 0.95]))
def test_wilson_is_scipys(counts, confidence):
    successes, trials = counts
    oracle = binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    interval = stats.wilson(successes, trials, confidence)
    assert interval.estimate == successes / trials
    assert [interval.low, interval.high] == pytest.approx([oracle.low, oracle.high], abs=1e-12)


def test_wilson_without_trials_knows_nothing():
    interval = stats.wilson([0, 1], [0, 1])
    assert np.isnan(interval.estimate[0])
    assert (interval.low[0], interval.high[0]) == (0, 1)


def test_on_grid_interpolates_and_invents_nothing_past_the_end():
    steps, values, grid = [10, 20, 40], [0.0, 1.0, 0.5], [0, 15, 30, 40, 41]
    np.testing.assert_allclose(stats.on_grid(steps, values, grid), [0.0, 0.5, 0.75, 0.5, np.nan])
    np.testing.assert_allclose(stats.on_grid(steps, values, grid, hold=True), [0.0, 0.5, 0.75, 0.5, 0.5])


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_area_is_scipys_trapezoid(values):
    steps = np.arange(len(values)) * 3.0
    assert stats.area_under_curve(steps, values) == pytest.approx(trapezoid(values, steps) / steps[-1])


def test_area_until_a_step_cuts_or_holds_the_curve():
    assert stats.area_under_curve([0, 10], [0, 1], until=5) == pytest.approx(0.25)
    assert stats.area_under_curve([0, 10], [0, 1], until=20) == pytest.approx(0.75)
    assert stats.area_under_curve([10], [0.5]) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stats.iqm_interval([], rng=np.random.default_rng(0)), "at least one stratum"),
        (lambda: stats.iqm_interval([[1.0], []], rng=np.random.default_rng(0)), "at least one run"),
        (lambda: stats.iqm_interval([[[1.0]], [[1.0, 2.0]]], rng=np.random.default_rng(0)), "differ in shape"),
        (lambda: stats.interquartile_mean([1.0, np.nan]), "NaN"),
        (lambda: stats.wilson(3, 2), "successes"),
        (lambda: stats.on_grid([1, 1], [0, 0], [1]), "increase"),
        (lambda: stats.on_grid([1, 2], [0], [1]), "as many values"),
        (lambda: stats.area_under_curve([0], [1]), "past step 0"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


few = st.lists(st.integers(0, 4), min_size=1, max_size=6)
tasks_of_two = st.lists(st.tuples(few, few), min_size=1, max_size=4)


@given(tasks_of_two)
def test_probability_of_improvement_counts_pairs(pairs):
    """Against counting by hand, and scipy's U on each task."""
    ours = stats.probability_of_improvement(pairs, rng=np.random.default_rng(0), repetitions=20)
    by_hand = [np.mean([1.0 if x > y else 0.5 if x == y else 0.0 for x in one for y in two]) for one, two in pairs]
    by_scipy = [mannwhitneyu(one, two).statistic / (len(one) * len(two)) for one, two in pairs]
    assert ours.estimate == pytest.approx(np.mean(by_hand)) == pytest.approx(np.mean(by_scipy))
    assert 0 <= ours.low <= ours.high <= 1


@given(tasks_of_two)
def test_improvement_of_one_is_the_loss_of_the_other(pairs):
    one = stats.probability_of_improvement(pairs, rng=np.random.default_rng(0), repetitions=10)
    two = stats.probability_of_improvement([pair[::-1] for pair in pairs], rng=np.random.default_rng(0), repetitions=10)
    assert one.estimate + two.estimate == pytest.approx(1)


def test_the_interval_of_an_improvement_redraws_runs_within_tasks():
    """Certain wins leave no width; the interval is scipy's bootstrap of the same statistic."""
    sure = stats.probability_of_improvement([([2, 3], [0, 1]), ([5], [4, 4])], rng=np.random.default_rng(0))
    assert tuple(sure) == (1, 1, 1)
    rng = np.random.default_rng(1)
    samples = [rng.normal(shift, size=9) for shift in (0.5, 0, 0.2, 0)]
    ours = stats.probability_of_improvement(
        [tuple(samples[:2]), tuple(samples[2:])], rng=np.random.default_rng(2), repetitions=10_000
    )

    def mean_share(one, two, three, four, axis):
        first, second = (
            np.mean(x[..., :, None] > y[..., None, :], axis=(-1, -2)) for x, y in [(one, two), (three, four)]
        )
        return (first + second) / 2

    theirs = bootstrap(
        samples, mean_share, n_resamples=10_000, method="percentile", rng=np.random.default_rng(3), batch=500
    ).confidence_interval
    assert [ours.low, ours.high] == pytest.approx([theirs.low, theirs.high], abs=0.01)


@pytest.mark.parametrize("pairs", [[], [([], [1.0])], [([1.0], [np.nan])], [([[1.0]], [1.0])]])
def test_an_improvement_without_runs_is_refused(pairs):
    with pytest.raises(ValueError, match=r"at least one task|NaN"):
        stats.probability_of_improvement(pairs, rng=np.random.default_rng(0))

"""The record of a run: however long it goes on, its memory is bounded and its sums stay the same."""

from types import SimpleNamespace

import numpy as np
import pytest

from lstoc_core.discovery.method import Missing
from lstoc_core.run import journal as module
from lstoc_core.run.journal import Journal
from lstoc_core.trajectories import TrajectoryStore


def test_a_long_history_is_joined_and_keeps_its_sums(monkeypatch):
    monkeypatch.setattr(module, "MOST_RECORDS", 20)
    rng, journal, method = np.random.default_rng(0), Journal(), SimpleNamespace(paths=(), missing=Missing())
    explorer = SimpleNamespace(trajectories=TrajectoryStore(), env_steps=0)
    kept, episodes, successes = journal.history, 0, 0.0
    for update in range(1, 500):
        explorer.env_steps += 10
        ended = int(rng.integers(3))
        rate = rng.integers(ended + 1) / ended if ended else float("nan")
        episodes, successes = episodes + ended, successes + (ended * rate if ended else 0)
        record = journal.write(explorer, method, {"episodes": ended, "success_rate": rate})
        assert record["env_steps"] == journal.history[-1]["env_steps"] == explorer.env_steps
        assert len(journal.history) <= min(update, 20)
    assert journal.history is kept, "a result that has it sees it grow"
    assert sum(each["episodes"] for each in kept) == episodes
    counted = [each for each in kept if each["episodes"]]
    assert sum(each["episodes"] * each["success_rate"] for each in counted) == pytest.approx(successes)
    assert [each["env_steps"] for each in kept] == sorted({each["env_steps"] for each in kept})

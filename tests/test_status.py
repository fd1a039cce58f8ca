"""Which runs are committed: every state, the time they took, and shared runs counted once."""

import json

import pytest
from test_cli import run

from lstoc_core import paths
from lstoc_core.study import cache, experiments, status
from lstoc_core.study.variants import ExperimentError


@pytest.fixture
def commit(tmp_path, monkeypatch):
    """Put a run into an empty directory of committed runs, as it would be told today or with another manifest."""
    monkeypatch.setattr(paths, "DATA", tmp_path)

    def put(spec, **changes):
        data = b"data of the run"
        manifest = {
            "run": {column: getattr(spec, column) for column in cache.RUN_COLUMNS},
            "data_sha256": cache.sha256(data),
            "config_sha256": cache.sha256(cache.canonical(spec.config).encode()),
            "code_sha256": "",
            "versions": {},
            "wall_time": 7200.0,
        }
        spec.committed_path.parent.mkdir(parents=True, exist_ok=True)
        spec.committed_path.write_bytes(data)
        spec.committed_path.with_suffix(".json").write_text(json.dumps(manifest | changes))

    return put


def test_every_state_is_counted_and_shared_runs_once(commit):
    specs = {(s.task, s.method, s.seed): s for s in experiments.experiment("ablation").specs("paper")}
    commit(specs["letter-2", "lstoc", 0])  # shared by discovery, ablation and efficiency
    commit(specs["letter-2", "lstoc", 1], cpu_time=3600.0)  # CPU time goes before wall time
    commit(specs["letter-2", "no-rearm", 0], config_sha256="of another budget")
    commit(specs["letter-2", "no-bonus", 0], data_sha256="of other data")
    table = status.summary(status.states("paper"))
    columns = ["present", "stale", "corrupt", "hours"]
    assert table.loc["ablation", columns].tolist() == [2, 1, 1, 5.0]
    assert table.loc["discovery", columns].tolist() == table.loc["efficiency", columns].tolist() == [2, 0, 0, 3.0]
    assert table.loc[status.TOTAL, columns].tolist() == [2, 1, 1, 5.0]
    assert (table[["present", "missing", "stale", "corrupt"]].sum(axis=1) == table.asked).all()
    assert table.asked[status.TOTAL] < table.asked[:-1].sum()


def test_the_command_names_what_is_not_there(commit, capsys):
    for spec in experiments.experiment("readings").specs("quick"):
        if spec.seed != 1:
            commit(spec)
    code, out, _ = run(capsys, "status", "-P", "quick")
    assert code == 0
    assert "letter-1, seeds 1: layouts" in out
    assert "office-2-walls, seeds 0 to 2: lstoc, ppo" in out
    assert "0, 0" not in out, "two kinds of runs have one name; each seed is told once"
    assert "stale:" not in out


@pytest.mark.parametrize(("seeds", "words"), [([0, 1, 2, 5], "0 to 2, 5"), ([3], "3"), ([1, 3], "1, 3")])
def test_seeds_in_words(seeds, words):
    assert status._ranges(seeds) == words


def test_bad_input_is_named(capsys):
    with pytest.raises(ExperimentError, match="profile"):
        status.states("papers")
    code, _, error = run(capsys, "status", "--profile", "papers")
    assert code == 2
    assert "papers" in error

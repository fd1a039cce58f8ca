"""The fault suite in a small size, its page, and what a proof is worth where its assumptions fail."""

import re

import fault_kinds
import faults
import pandas as pd
import pytest
import survey
from violations import VIOLATIONS


@pytest.mark.parametrize("name", [name for name, (_, _, few) in fault_kinds.FAULTS.items() if few])
def test_nothing_is_lost_and_nothing_wrong(name):
    found = faults.tallied(name, small=True)
    assert found["tried"] == found["survived"] > 0


def test_rows_are_kept_in_the_order_of_the_suite(tmp_path, monkeypatch):
    monkeypatch.setattr(faults, "FILE", tmp_path / "faults.csv")
    one, two, *_ = fault_kinds.FAULTS
    for name, tried in ((two, 1), (one, 2), (two, 3)):
        faults.keep({"fault": name, "tried": tried, "survived": tried, "lost": 0, "wrong": 0})
    assert pd.read_csv(faults.FILE)[["fault", "tried"]].to_numpy().tolist() == [[one, 2], [two, 3]]


def test_a_fault_that_is_not_survived_is_seen(monkeypatch):
    """The suite can fail: without its lock, checksum or check at the door, the fault shows."""
    monkeypatch.setattr(fault_kinds.cache, "sha256", lambda data: "the same")
    assert "wrong" in list(fault_kinds.damaged_runs(2))
    monkeypatch.setattr(fault_kinds.cli, "main", lambda arguments: None)
    assert list(fault_kinds.mistakes(1)) == ["wrong"]
    monkeypatch.setattr(fault_kinds, "proved", lambda found, structure: True)
    assert "wrong" in list(fault_kinds.proofs(6))


def test_a_process_is_killed_where_it_should_be(tmp_path):
    def writes():
        for number in range(9):
            (tmp_path / str(number)).touch()

    assert fault_kinds.killed_at(7, writes, writes)
    assert len(list(tmp_path.iterdir())) == 3, "two lines for each file"
    assert not fault_kinds.killed_at(99, writes, writes)


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_tells_the_data_and_has_the_rows_of_the_suite():
    assert faults.PAGE.read_text() == faults.page()
    rows = re.findall(r"^\| ([^|]+?) \|", faults.PAGE.read_text(), re.MULTILINE)
    assert [row for row in rows if row in fault_kinds.FAULTS] == list(fault_kinds.FAULTS)
    assert [row for row in rows if row in VIOLATIONS] == list(VIOLATIONS)


def test_committed_faults_lost_nothing_and_nothing_was_wrong():
    found = pd.read_csv(faults.FILE)
    assert not found[["lost", "wrong"]].to_numpy().any()
    assert (found.tried > 0).all()


def test_no_answer_of_the_committed_worlds_without_a_violation_is_wrong():
    judged = pd.read_csv(survey.FILE, keep_default_na=False)
    sound = judged[judged.kind == "none"]
    assert sound[sound.finished].right.all()
    assert not sound.withdrawn.any()
    assert sound.finished.mean() > 0.95
    assert judged.groupby("kind").size().nunique() == 1


# --- what a proof is worth --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 3])
def test_where_nothing_is_violated_the_answer_is_right(seed):
    verdict = survey.judge("none", seed)
    assert verdict.right
    assert not verdict.withdrawn


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("a name at two places", 13),
        ("a name at two places", 28),
        ("a key state that looks like another cell", 10),
        ("a key state that looks like another cell", 33),
        ("a start that counts", 26),
    ],
)
def test_wrong_answers_that_once_were_confirmed_are_withdrawn(kind, seed):
    """Their tests took the same one of several ways, passed what they meant to go round, or left gaps of the map."""
    verdict = survey.judge(kind, seed)
    assert not verdict.finished
    assert verdict.withdrawn
    assert verdict.suspects


def test_a_violation_is_noticed_and_named():
    verdict = survey.judge("success reported one step late", 0)
    assert not verdict.finished
    assert verdict.suspects.startswith("episodes that run past success")


def test_verdicts_are_counted():
    kind = "a wrong FSM"
    verdicts = pd.DataFrame(
        [
            survey.Verdict(kind, 0, True, True, False, 1, ""),
            survey.Verdict(kind, 1, True, False, True, 0, ""),
            survey.Verdict(kind, 2, True, False, False, 0, ""),
            survey.Verdict(kind, 3, False, False, False, 2, "noise; FSM"),
            survey.Verdict(kind, 4, False, False, False, 0, "noise"),
            survey.Verdict(kind, 5, False, False, False, 0, ""),
        ]
    )
    expected = dict(zip(survey.COLUMNS, [kind, *map(str, (6, 1, 3, 2, 1, 2, 1, 1)), "noise 2"], strict=True))
    assert dict(zip(survey.COLUMNS, survey.row(verdicts), strict=True)) == expected

"""The fault suite in a small size: nothing lost, nothing wrong, and a run that cannot finish stays small."""

import faults
import pytest
import survey
from violations import VIOLATIONS

pytestmark = pytest.mark.filterwarnings("ignore:.*going on from the state saved before it")


def test_nothing_is_lost_and_nothing_wrong():
    found = faults.tallies(small=True)
    assert found
    for name, tally in found.items():
        assert (tally.lost, tally.wrong) == (0, 0), name
        assert tally.survived == tally.tried, name


@pytest.mark.parametrize("seed", [1, 3])
def test_where_nothing_is_violated_the_answer_is_right(seed):
    verdict = survey.judge("none", seed)
    assert verdict.right
    assert not verdict.withdrawn


def test_a_violation_is_noticed_and_named():
    verdict = survey.judge("success reported one step late", 0)
    assert not verdict.proved
    assert verdict.said == "episodes that run past success"
    assert survey.row("late", [verdict]).count("|") == survey.HEAD.splitlines()[0].count("|")
    assert len(VIOLATIONS) == 10


def test_a_look_stays_short():
    told = faults.endless(6_000)
    assert told["look"] < faults.LOOK
    assert told["end"] - told["half"] < 20

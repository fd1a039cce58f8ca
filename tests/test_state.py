"""What callbacks get: the record, the last trajectories, and the answers left, counted without touching the run."""

import itertools

import numpy as np
import pytest
from test_loop import Corridor, tiny

import lstoc_core as lstoc
from lstoc_core.discovery.consistent import answers
from lstoc_core.discovery.evidence import Evidence
from lstoc_core.run.methods import Setting
from lstoc_core.run.state import AnswersLeft, Census, RunState

TASK = tiny("(a;b)|c")


def watched(task=TASK, **options):
    """A run, and what a callback noted of each state: record, last trajectories, answers, number of trajectories."""
    notes = []

    def note(state):
        assert isinstance(state, RunState)
        notes.append((dict(state), state.last_trajectories, state.answers, len(state.trajectories), state.finished))

    found = lstoc.discover(task, seed=0, progress=False, callbacks=[note], **options)
    return found, notes


def satisfied(path, ids):
    """Whether the ids visit the path in order, after the start: by hand."""
    rest = iter(ids[1:])
    return all(any(state == other for other in rest) for state in path)


def test_states_tell_of_every_episode_once():
    found, notes = watched()
    told = [episode for _, last, *_ in notes for episode in last]
    store = found.trajectories
    assert [label for _, label in told] == store.labels.tolist()
    assert all(np.array_equal(ids, store.trajectory(index)) for index, (ids, _) in enumerate(told))
    assert [record for record, *_ in notes] == found.history
    assert [finished for *_, finished in notes] == [False] * (len(notes) - 1) + [True]


def test_the_answers_left_are_those_that_a_search_by_hand_finds():
    """Every assignment of different states to the symbols, tried out on every prefix of the run."""
    task = tiny("(a;b)|c", size=(4, 4), positions={"a": (3, 0), "b": (0, 3), "c": (3, 3)}, horizon=30)
    found, notes = watched(task)
    words = [[ord(symbol) - ord("a") for symbol in word] for word in task.fsm().minimal_sequences()]
    counted = 0
    for *_, left, size, _ in notes:
        part = found.trajectories.select(np.arange(size))
        states = np.unique(part.ids).tolist()
        if left is None or not left.complete:
            continue
        counted += 1
        expected = set()
        for names in itertools.permutations(states, 3):
            outcomes = []
            for index in range(size):
                ids = part.trajectory(index).tolist()
                paths = [[names[symbol] for symbol in word] for word in words]
                early = any(satisfied(path, ids[:-1]) for path in paths)
                outcomes.append(not early and any(satisfied(path, ids) for path in paths) == part.labels[index])
            if all(outcomes):
                expected.add(names)
        assert left.symbols == ("a", "b", "c")
        assert set(map(tuple, left.assignments.tolist())) == expected
        assert left.count == len(expected)
    assert counted >= 2


def test_the_last_answer_is_the_one_that_was_proved():
    found, notes = watched()
    last = notes[-1][2]
    assert (last.count, last.bits, last.certain) == (1, 0.0, True)
    assert {symbol: found.key_states[key].observation_id for key, symbol in found.labeling.mapping.items()} == (
        last.settled
    )
    heat = last.heat(len(found.observations))
    assert np.flatnonzero(heat).tolist() == sorted(last.settled.values())
    assert len(answers(Evidence(found.trajectories), TASK.fsm().minimal_sequences())) == 1


@pytest.mark.parametrize("explorer", ["planner", "policy"])
def test_looking_does_not_change_the_run(explorer):
    config = lstoc.LSTOCConfig(num_envs=4)
    options = {"explorer": explorer, "max_steps": 1_000, "config": config}
    found, notes = watched(**options)
    plain = lstoc.discover(TASK, seed=0, progress=False, **options)
    assert np.array_equal(found.trajectories.ids, plain.trajectories.ids)
    assert any(left is not None for _, _, left, *_ in notes)


def test_answers_of_another_explorer_agree_with_the_planners():
    """Counted from the planner's beliefs or afresh, the number is the same where it is exact."""
    found, notes = watched(explorer="planner")
    census = Census(TASK.fsm(), Setting(TASK.vector_env(1, seed=0), TASK.fsm(), lstoc.LSTOCConfig(), 0))
    compared = 0
    for *_, other, size, _ in notes:
        left = census.answers(Recorded(found.trajectories.select(np.arange(size))))
        if left is not None and other is not None and left.complete and other.complete:
            assert left.count == other.count
            compared += 1
    assert compared


class Recorded:
    """An explorer that has collected trajectories, and holds no beliefs."""

    def __init__(self, trajectories):
        self.trajectories = trajectories


def test_without_an_fsm_there_are_no_answers_to_count():
    _, notes = watched(Corridor, max_steps=400)
    assert all(left is None for _, _, left, *_ in notes)


def test_a_small_sample_settles_nothing():
    sample = AnswersLeft(("a",), np.array([[3], [3]], np.int32), share=0.1)
    assert (sample.count, sample.settled, sample.possible["a"].tolist()) == (20.0, {}, [3])
    assert AnswersLeft(("a",), np.array([[3]], np.int32), share=1.0).settled == {"a": 3}

"""The consistent answers, against trying out all; and the guided method, which stops by them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lstoc_core.discovery.consistent as consistent
from lstoc_core.discovery.consistent import TooManyTries, answers, proved
from lstoc_core.discovery.evidence import Evidence
from lstoc_core.discovery.guided import Guided, GuidedConfig
from lstoc_core.trajectories import TrajectoryStore

STATES, UNSEEN = 6, 4
STRUCTURES = [
    (("a", "b", "c"),),
    (("a", "b", "a"),),
    (("a", "b"), ("b", "c", "a")),
    (("a", "b"), ("c", "d")),
    (("a", "b", "d"), ("a", "c", "a", "d")),
    (("a", "d"), ("b", "d"), ("c", "d")),
]
WORLDS = st.tuples(st.integers(0, 2**16), st.sampled_from([1, 3, 6, 12, 40]), st.sampled_from(STRUCTURES))


def stored(successes, failures, num_ids=STATES):
    store = TrajectoryStore(num_ids)
    labels = [True] * len(successes) + [False] * len(failures)
    store.append([np.array(ids) for ids in (*successes, *failures)], None, labels)
    return store


def within(path, trajectory):
    rest = iter(trajectory[1:])
    return all(key in rest for key in path)


def episodes(seed, count, structure, longer=0):
    """A random answer, and episodes of random visits that it labels; some go on for a while after their success.

    State 5 comes right before another one, always, so that the two are hard to tell apart.
    """
    rng = np.random.default_rng(seed)
    states = rng.permutation(STATES - 1).tolist()
    truth = tuple(sorted(tuple(states["abcd".index(name)] for name in word) for word in structure))
    successes, failures = [], []
    for ids in rng.integers(0, STATES - 1, (count, 14)).tolist():
        ids = [each for state in ids for each in ((5, state) if state == states[seed % 4] else (state,))]
        ends = [end for end in range(2, len(ids) + 1) if any(within(path, ids[:end]) for path in truth)]
        (successes if ends else failures).append(ids[: ends[0] + longer] if ends else ids)
    return truth, successes, failures


def all_answers(successes, failures, structure):
    """Every way to name states, tried out; some are at places that no episode has seen."""
    names = sorted({name for word in structure for name in word})
    found = set()
    for states in itertools.permutations(range(STATES + UNSEEN), len(names)):
        named = dict(zip(names, states, strict=True))
        paths = tuple(sorted(tuple(named[name] for name in word) for word in structure))
        if all(any(within(path, ids) for path in paths) for ids in successes) and not any(
            within(path, ids) for path in paths for ids in failures
        ):
            found.add(paths)
    return found


def seen(paths):
    return tuple(path for path in paths if max(path) < STATES)


@settings(max_examples=150, deadline=None)
@given(WORLDS, st.booleans())
def test_answers_are_those_of_trying_out_all(world, prompt):
    _, structure = world[1:]
    _, successes, failures = episodes(*world, longer=0 if prompt else 3)
    evidence = Evidence(stored(successes, failures), prompt=prompt)
    refuting = [*failures, *(ids[:-1] for ids in successes)] if prompt else failures
    expected = all_answers(successes, refuting, structure)
    found = answers(evidence, structure)
    opened = [answer.paths for answer in found if not answer.complete(structure)]
    for answer in found:  # each is consistent, with the rest of an open one at places never seen
        assert any(seen(paths) == answer.paths for paths in expected)
        assert set(answer.paths) <= {tuple(answer.assignment.get(name, -1) for name in word) for word in structure}
        assert len(set(answer.assignment.values())) == len(answer.assignment), "a state of its own for each symbol"
    for paths in expected:  # each is found, or is one of those that an open one stands for
        assert paths in [answer.paths for answer in found] or any(set(answer) <= set(paths) for answer in opened)
    assert proved(found, structure) == (len(expected) == 1)
    assert proved(answers(evidence, structure, limit=2), structure) == proved(found, structure)


@settings(max_examples=300, deadline=None)
@given(WORLDS)
def test_what_is_proved_is_true(world):
    truth, successes, failures = episodes(*world)
    found = answers(Evidence(stored(successes, failures)), world[2])
    assert any(set(answer.paths) <= set(truth) for answer in found)
    assert not proved(found, world[2]) or [answer.paths for answer in found] == [truth]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_enough_episodes_prove_the_answer(structure):
    truth, successes, failures = episodes(0, 2000, structure)
    assert [answer.paths for answer in answers(Evidence(stored(successes, failures)), structure)] == [truth]


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("seed", range(3))
def test_wrong_labels_are_tolerated(structure, seed):
    truth, successes, failures = episodes(seed, 2000, structure)
    store = stored(successes, failures)
    wrong = np.random.default_rng(seed).random(len(store)) < 0.02
    flipped = TrajectoryStore(STATES)
    flipped.append_flat(store.ids, store.lengths, store.labels ^ wrong)
    assert answers(Evidence(flipped), structure) == []
    assert truth in [answer.paths for answer in answers(Evidence(flipped, noise=0.02), structure)]


def test_a_wrong_label_leaves_no_doubt_about_what_came_before():
    """Episodes end at their first success: one that goes on after 1;2 says that 1;2 is not enough, labels or not."""
    successes = [[0, 1, 2]] * 20
    mislabelled, going_on = [0, 1, 2], [0, 1, 2, 3]
    assert Evidence(stored(successes, [mislabelled])).admits((1, 2))
    assert not Evidence(stored(successes, [mislabelled]), noise=0.02).admits((1, 2))
    assert Evidence(stored(successes, [going_on]), noise=0.02).admits((1, 2))
    assert Evidence(stored([*successes, going_on], []), noise=0.02).admits((1, 2))
    assert not Evidence(stored(successes, [going_on]), noise=0.02, prompt=False).admits((1, 2))
    assert Evidence(stored(successes, [going_on] * 9), noise=0.02, prompt=False).admits((1, 2))


def test_no_success_leaves_everything_open():
    (answer,) = answers(Evidence(stored([], [[0, 1, 2]])), (("a", "b"),))
    assert (answer.paths, answer.assignment) == ((), {})


def test_a_search_that_takes_too_long_is_given_up(monkeypatch):
    _, successes, failures = episodes(0, 40, STRUCTURES[2])
    monkeypatch.setattr(consistent, "MAX_WORK", 1)
    with pytest.raises(TooManyTries, match="exclude too little"):
        answers(Evidence(stored(successes, failures)), STRUCTURES[2])
    method = Guided(structure=STRUCTURES[2])
    assert method.advance(stored(successes, failures))
    assert not method.finished


# --- the guided method stops by them ----------------------------------------------------------------------------------


def test_an_answer_is_finished_when_it_is_proved():
    """c;((o;c)|m);d, where whoever comes to c comes by x, and to o by y: the FSM excludes x, only more data y."""
    c, m, d, o, x, y, start = range(7)
    successes = [[start, c, m, d]] * 5 + [[start, x, c, y, o, x, c, d]] * 5
    failures = [[start, c, d], [start, m, d], [start, m, c, d], [start, x, c, m], [start, x, c, o, d]]
    failures += [[start, y, o, x, c, d], [start, x, m, d]]
    method = Guided(GuidedConfig(max_length=4), structure=(("c", "m", "d"), ("c", "o", "c", "d")))
    assert "cannot be told from" in str(method.advance(stored(successes, failures, 7)))
    assert not method.finished
    assert method.names is None
    assert not method.advance(stored(successes, [*failures, [start, x, c, y, x, c, d]], 7))
    assert method.finished
    assert method.paths == ((c, m, d), (c, o, c, d))
    assert method.names == {"c": c, "m": m, "o": o, "d": d}


@pytest.mark.parametrize(
    ("structure", "says"),
    [
        ((("a", "b", "c", "a"),), "no assignment of the FSM's symbols to states is consistent"),
        ((*STRUCTURES[0], ("a", "d")), "the FSM has more sequences"),
    ],
)
def test_an_fsm_that_does_not_fit_is_never_proved(structure, says):
    _, successes, failures = episodes(0, 2000, STRUCTURES[0])
    method = Guided(structure=structure)
    assert says in str(method.advance(stored(successes, failures)))
    assert not method.finished

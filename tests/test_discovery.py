"""Guided discovery against the truth, on random-walk data in small worlds."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lstoc_core.discovery.guided import Guided, GuidedConfig, guided
from lstoc_core.logic import parse
from lstoc_core.trajectories import TrajectoryStore, random_walks
from lstoc_core.worlds import compile_world, make_vec
from lstoc_core.worlds.tasks import make_task

POSITIONS = {"a": (1, 4), "b": (4, 1), "c": (4, 4), "d": (2, 2)}
WORDS = [
    word
    for length in (2, 3, 4)
    for word in itertools.product("abcd", repeat=length)
    if all(one != two for one, two in itertools.pairwise(word))
]


def small_task(formula, positions=POSITIONS):
    return make_task(domain="letter", formula=formula, positions=positions, size=(5, 5), horizon=120, wrap=False)


def truth(task):
    world = compile_world(task)
    return tuple(sorted(tuple(int(world.observation_of_symbol(s)) for s in q) for q in task.sequences))


def walks(task, count, seed=0):
    return random_walks(make_vec(task, num_envs=500, seed=seed), count, seed=seed)


@settings(
    max_examples=20, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=2, unique=True),
    st.permutations([(x, y) for x in range(5) for y in range(5) if x + y > 1]),
    st.integers(0, 2**16),
)
def test_random_formulas_in_random_worlds_are_recovered_exactly(words, cells, seed):
    """Branches, repeats and up to four steps: enough random-walk data gives exactly the minimal sequences."""
    formula = "|".join("(" + ";".join(word) + ")" for word in words)
    task = small_task(formula, dict(zip("abcd", cells, strict=False)))
    findings = guided(walks(task, 6000, seed), GuidedConfig(max_length=4))
    assert findings.paths == truth(task)
    assert not findings.missing


@pytest.mark.parametrize("formula", ["a;b;c", "((a;b)|c);d", "a;((b;a)|c);d"])
@pytest.mark.parametrize("seed", range(3))
def test_flipped_labels(formula, seed):
    """Two labels in a hundred are wrong, and the sequences are still exact."""
    task = small_task(formula)
    store = walks(task, 3000, seed)
    flipped = TrajectoryStore(store.num_ids)
    wrong = np.random.default_rng(seed).random(len(store)) < 0.02
    flipped.append_flat(store.ids, store.lengths, store.labels ^ wrong)
    findings = guided(flipped, GuidedConfig(max_length=4, noise=0.02))
    assert findings.paths == truth(task)


def test_labels_of_whole_episodes():
    """Where success does not end the episode, sequences are found without the prompt end."""
    task = small_task("a;b;c")
    store = walks(task, 4000)
    world = compile_world(task)
    rng = np.random.default_rng(0)
    longer = TrajectoryStore(store.num_ids)
    for index in range(len(store)):  # every episode wanders on for a few steps after its end
        ids = list(store.trajectory(index))
        position = int(np.flatnonzero(world.observation_id == ids[-1])[0])
        for _ in range(6):
            position = int(world.next_position[position, rng.integers(4)])
            ids.append(world.observation_id[position])
        keys = truth(task)[0]
        seen = iter(ids[1:])
        longer.append([np.array(ids)], None, [all(key in seen for key in keys)])
    findings = guided(longer, GuidedConfig(prompt=False, max_length=4))
    assert findings.paths == truth(task)


def test_rivals_are_reported_until_the_data_tells_them_apart():
    """The task is 2;3, but every success also passes 1 on the way."""
    store = TrajectoryStore(5)
    store.append([np.array([0, 1, 2, 3])] * 10 + [np.array([0, 3, 4])] * 10, None, [True] * 10 + [False] * 10)
    (finding,) = guided(store).sequences
    assert {finding.path, *finding.rivals} == {(1, 3), (2, 3)}
    assert "cannot be told from" in str(guided(store).missing)
    store.append([np.array([0, 1, 3, 4])], None, [False])  # 1 then 3 is not enough
    (finding,) = guided(store).sequences
    assert finding.path == (2, 3)
    assert not finding.rivals
    assert not guided(store).missing


def test_necessity_counts_refuters():
    task = small_task("a;b;c")
    store = walks(task, 2000)
    (finding,) = guided(store).sequences
    negatives = [list(store.trajectory(i)[1:]) for i in store.negatives]
    negatives += [list(store.trajectory(i)[1:-1]) for i in store.positives]

    def has(trajectory, path):
        seen = iter(trajectory)
        return all(key in seen for key in path)

    for index, refuters in enumerate(finding.necessity):
        shorter = finding.path[:index] + finding.path[index + 1 :]
        assert refuters == sum(has(trajectory, shorter) for trajectory in negatives) > 0
    assert not any(has(trajectory, finding.path) for trajectory in negatives)
    assert finding.support == finding.unique_support == len(store.positives)


def test_a_bottleneck_is_dropped():
    """The door between two rooms is on every successful way and yet no subgoal (the paper's first limitation)."""
    wall = [(2, y) for y in range(5) if y != 2]
    task = make_task(
        domain="letter", formula="a;b", positions={"a": (0, 4), "b": (4, 4)}, size=(5, 5), walls=wall, wrap=False,
        horizon=150,
    )  # fmt: skip
    world = compile_world(task)
    door = int(world.observation_id[world.position_of((2, 2))])
    store = walks(task, 3000)
    assert all(door in store.trajectory(i) for i in store.positives)
    assert guided(store).paths == truth(task)


def test_without_an_fsm_it_waits_for_other_branches():
    task = small_task("a;b")
    method = Guided()
    assert "another branch may show" in str(method.advance(walks(task, 1000)))
    assert method.paths == truth(task)
    assert not method.advance(walks(task, 2000))
    assert method.finished


def test_nothing_to_learn_from():
    assert str(guided(TrajectoryStore(3)).missing) == "no success was seen"
    store = TrajectoryStore(3)
    store.append([np.array([0, 1, 2])] * 4, None, [False] * 4)
    assert str(guided(store).missing) == "no success was seen"
    store.append([np.array([0, 1])] * 2, None, [True] * 2)
    assert "unexplained" in str(guided(store).missing)


def test_fsm_of_the_formula_bounds_the_length():
    task = small_task("a;b;c")
    findings = guided(walks(task, 2000), GuidedConfig(max_length=parse("a;b").fsm().longest_path))
    assert findings.paths == ()
    assert "unexplained" in str(findings.missing)
    assert findings.pursued

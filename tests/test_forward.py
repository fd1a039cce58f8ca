"""The paper's algorithm: its conditions checked one by one in plain Python, and the tree it grows with a perfect f."""

import json

import numpy as np
import pytest
import torch

from lstoc_core.discovery.published import forward
from lstoc_core.discovery.published.forward import Forward, ForwardConfig
from lstoc_core.discovery.published.training import Training
from lstoc_core.discovery.tree import ROOT
from lstoc_core.logic import parse
from lstoc_core.trajectories import TrajectoryStore, random_walks
from lstoc_core.worlds import compile_world, make_vec
from lstoc_core.worlds.tasks import make_task

torch.set_num_threads(1)  # small networks: more threads only wait for each other
POSITIONS = {"a": (1, 4), "b": (4, 1), "c": (4, 4), "d": (2, 2)}


def small_task(formula, **options):
    given = {"positions": POSITIONS, "size": (5, 5), "start": (0, 0), "horizon": 120, "wrap": False, **options}
    return make_task(domain="letter", formula=formula, **given)


def walks(task, count, seed=0):
    return random_walks(make_vec(task, num_envs=500, seed=seed), count, seed=seed)


def made(*episodes):
    """A store of (ids, label)."""
    store = TrajectoryStore(10)
    store.append([np.array(ids) for ids, _ in episodes], None, [label for _, label in episodes])
    return store


def has(trajectory, path):
    seen = iter(trajectory)
    return all(key in seen for key in path)


def perfect(method, task, nearest=True):
    """An f that prefers the states that truly come next: those nearest to success first, or those furthest from it."""
    world = compile_world(task)
    number = {symbol: world.observation_of_symbol(symbol) for symbol in task.positions}
    truth = [[number[symbol] for symbol in sequence] for sequence in task.sequences]

    def scores(positives, negatives, **_):
        values = np.zeros(positives.num_ids)
        for sequence in truth:
            rest = list(sequence)
            for key in method.attempt.working_path:
                rest = rest[1:] if rest[:1] == [key] else rest
            if rest:
                values[rest[0]] = max(values[rest[0]], 1 / len(rest) if nearest else len(rest))
        return values

    return scores


def names(task, path):
    world = compile_world(task)
    symbol = {world.observation_of_symbol(symbol): symbol for symbol in task.positions}
    return tuple(symbol.get(key, "?") for key in path)


# --- the tree ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("formula", ["a;b;c", "((a;b)|c);d", "a;((b;a)|c);d", "a;b;a;c", "a;(b|c);d", "a|(b;c)"])
@pytest.mark.parametrize("seed", range(2))
def test_a_perfect_importance_grows_exactly_the_true_tree(formula, seed, monkeypatch):
    task = small_task(formula)
    method = Forward(ForwardConfig(threshold=10), task.formula.fsm())
    monkeypatch.setattr(forward, "scores", perfect(method, task))
    assert not method.advance(walks(task, 4000, seed))
    assert method.finished
    assert method.restarts == 0
    assert {names(task, path) for path in method.paths} == set(task.sequences)
    grown = {names(task, method.attempt.to_ids(method.tree.path(node))) for node in range(len(method.tree))}
    assert grown == {sequence[:n] for sequence in task.sequences for n in range(len(sequence) + 1)}
    assert method.tree.explored == set(range(len(method.tree)))


def test_a_branch_that_explains_nothing_more_is_no_sequence_of_its_own(monkeypatch):
    """((1;2)|3);4 with f preferring 1 to 3: at [1], successes through 3 are unexplained: the tree gets 1;3;4, too."""
    successes = [[0, 1, 2, 4], [0, 3, 4], [0, 1, 3, 4]]
    failures = [[0, 1, 4, 5], [0, 2, 4], [0, 1, 2, 5], [0, 3, 5], [0, 1, 3, 5]]
    monkeypatch.setattr(forward, "scores", lambda positives, _, **__: -np.arange(10.0))
    method = Forward(ForwardConfig(threshold=2))
    assert not method.advance(made(*[(ids, True) for ids in successes * 3], *[(ids, False) for ids in failures]))
    assert {method.attempt.to_ids(sequence) for sequence in method.tree.sequences} == {(1, 2, 4), (1, 3, 4), (3, 4)}
    assert set(method.paths) == {(1, 2, 4), (3, 4)}


def test_successes_that_owe_nothing_to_the_working_node_make_it_restart(monkeypatch):
    """(a;b)|(b;c) on an open map: b, a, c succeeds and is conditioned on [a], but nothing next to a explains it."""
    task = small_task("(a;b)|(b;c)")
    method = Forward(ForwardConfig(threshold=10), task.formula.fsm())
    monkeypatch.setattr(forward, "scores", perfect(method, task))
    store = walks(task, 4000)
    a, b, c = (compile_world(task).observation_of_symbol(symbol) for symbol in "abc")
    successes = [store.trajectory(i)[1:] for i in store.positives]
    assert sum(has(t, [a]) and has(t, [b, c]) and not has(t, [a, b]) for t in successes) > 10
    assert "restart" in str(method.advance(store))


@pytest.mark.parametrize("objective", ["lstoc", "baseline1", "baseline2"])
@pytest.mark.parametrize("exact", [True, False])
def test_every_step_follows_the_listing(objective, exact):
    """Each event of the tree against the conditions of Algorithm LSTOC, spelled out; N_T as the paper sets it."""
    task = small_task("a;b", positions={"a": (1, 1), "b": (3, 3)})
    store = walks(task, 600)
    positives = [store.trajectory(i)[1:] for i in store.positives]
    negatives = [store.trajectory(i)[1:] for i in store.negatives]
    method = Forward(ForwardConfig(threshold=40, objective=objective, exact=exact))
    method.advance(store)
    tree, discoveries = method.tree, 0
    for step, (event, node, key) in enumerate(tree.events):
        before = tree.replay(step)
        path = method.attempt.to_ids(tree.path(node))
        found = [method.attempt.to_ids(sequence) for sequence in before.sequences]
        following = [t for t in positives if has(t, path)]
        unexplained = [t for t in following if not any(has(t, sequence) for sequence in found)]
        failed = [t for t in negatives if has(t, path)]
        if event == "satisfying":
            assert following
            assert not failed
        elif event == "explored":
            assert not unexplained
        elif event == "expand":
            assert node == before.working_node
            assert len(unexplained) >= 40
            assert node == ROOT or failed
            importance = method.attempt.importances[discoveries]
            tails = [_tail(t, path) for t in unexplained]
            taken = {method.key_states[before.keys[child]] for child in before.children(node)} | set(path[-1:])
            allowed = set(np.concatenate(tails)) - taken
            assert method.key_states[key] == max(sorted(allowed), key=lambda state: importance[state])
            discoveries += 1
    assert discoveries == len(method.attempt.importances) > 0


def _tail(trajectory, path):
    """What follows the earliest visit of a path."""
    rest = iter(trajectory)
    for key in path:
        next(state for state in rest if state == key)
    return np.array(list(rest), int)


# --- when it stops, waits and starts again ----------------------------------------------------------------------------


def test_it_says_what_it_waits_for():
    task = small_task("a;b")
    assert str(Forward().advance(made(([0, 1], False)))) == "no success was seen"
    store = walks(task, 400)
    count = len(store.positives)
    method = Forward(ForwardConfig(threshold=count + 1))
    assert str(method.advance(store)) == f"{count} of {count + 1} unexplained successes follow []"
    assert len(method.tree) == 1
    assert not method.finished
    only = made(*[([0, 1, 2], True)] * 3)
    assert "no failure was seen" in str(Forward(ForwardConfig(threshold=2)).advance(only))


def test_a_failure_that_ends_on_the_working_node_gives_no_contrast():
    store = made(*[([0, 1, 2, 3], True)] * 3, ([0, 4, 1], False), ([0, 3, 4], False), ([0, 2, 4], False))
    method = Forward(ForwardConfig(threshold=2, exact=True))
    assert "no failure goes on after [1]" in str(method.advance(store))
    store.append([np.array([0, 1, 5])], None, [False])
    assert not method.advance(store)
    assert method.paths in {((1, 2),), ((1, 3),)}


def test_it_restarts_with_a_larger_threshold_when_the_tree_cannot_be_the_fsms():
    task = small_task("a;b;c")
    method = Forward(ForwardConfig(threshold=10, increment=7), parse("a").fsm())
    message = str(method.advance(walks(task, 2000)))
    assert message.startswith("restart 1: ")
    assert "longer than the FSM's longest path, 1" in message
    assert method.threshold == 17
    assert (len(method.tree), method.key_states, method.attempt.importances) == (1, [], [])
    assert len(method.abandoned) == 1
    assert len(method.abandoned[0].tree) > 1


def test_too_many_branches_are_inconsistent_too(monkeypatch):
    task = small_task("a|b|c")
    method = Forward(ForwardConfig(threshold=5), parse("a|b").fsm())
    monkeypatch.setattr(forward, "scores", perfect(method, task))
    assert "3 children, more than the FSM's largest degree, 2" in str(method.advance(walks(task, 600)))


def test_without_an_fsm_the_configured_length_bounds_the_tree(monkeypatch):
    task = small_task("a;b;c")
    method = Forward(ForwardConfig(threshold=5, max_length=2))
    monkeypatch.setattr(forward, "scores", perfect(method, task))
    assert str(method.advance(walks(task, 2000))) == "restart 1: a path of 3 key states is too long"


def test_sequences_that_cannot_be_named_wait_for_another_branch(monkeypatch):
    """Algorithm LSTOC restarts in line 37 only; after a failed ILP it goes on to collect (line 25)."""
    task = small_task("a;b")
    offered = []
    method = Forward(ForwardConfig(threshold=5), accept=lambda paths: offered.append(tuple(paths)))
    monkeypatch.setattr(forward, "scores", perfect(method, task))
    told = str(method.advance(walks(task, 1000)))
    assert told == "every success is explained, but the sequences cannot be named"
    assert [names(task, path) for path in offered[0]] == [("a", "b")]
    assert (method.finished, method.restarts) == (False, 0)
    assert method.request.explained == method.paths


def test_a_path_that_stays_rare_is_given_up(monkeypatch):
    """f prefers 7, which few successes visit. Behind it the node waits for its own, at most 3 · N_T successes long."""
    monkeypatch.setattr(forward, "scores", lambda positives, *_, **__: np.arange(positives.num_ids, dtype=float))
    detour, way, failure = ([0, 7, 1, 2], True), ([0, 1, 2], True), ([0, 7, 1], False)
    method = Forward(ForwardConfig(threshold=4, longest_wait=3), parse("a;b").fsm())
    seen = [detour, *[way] * 3, *[failure] * 4]
    method.advance(made(*seen))
    assert method.request.follow == ((7,),)
    for _ in range(11):
        seen.append(way)
        assert str(method.advance(made(*seen))) == "1 of 4 unexplained successes follow [7]"
    seen.append(way)
    assert str(method.advance(made(*seen))) == "restart 1: 1 of 4 unexplained successes follow [7]"
    assert (method.threshold, len(method.tree)) == (24, 1)


def test_a_tree_without_anything_left_to_add_is_wrong(monkeypatch):
    """2 is needed, but f prefers 3, on which every success ends: nothing follows, so the tree begins anew."""
    store = made(*[([0, 2, 3], True)] * 5, *[([0, 3, 4], False)] * 5)
    monkeypatch.setattr(forward, "scores", lambda positives, _, **__: np.arange(10.0) * (np.arange(10) < 4))
    method = Forward(ForwardConfig(threshold=3))
    assert str(method.advance(store)) == "restart 1: nothing new follows [3] in 5 unexplained successes"


# --- keeping it -------------------------------------------------------------------------------------------------------


def test_a_saved_run_goes_on_as_if_it_had_not_stopped():
    task = small_task("a;b", positions={"a": (1, 1), "b": (3, 3)})
    store = walks(task, 1200)
    config = ForwardConfig(threshold=30)
    whole, stopped = Forward(config, task.formula.fsm(), seed=3), Forward(config, task.formula.fsm(), seed=3)
    parts = [store.select(np.arange(count)) for count in (150, 300, 600, 1200)]
    for part in parts[:2]:
        whole.advance(part)
        stopped.advance(part)
    resumed = Forward(config, task.formula.fsm(), seed=3)
    resumed.load_state_dict(json.loads(json.dumps(stopped.state_dict())))
    for part in parts[2:]:
        assert whole.advance(part) == resumed.advance(part)
        assert whole.tree == resumed.tree
        assert (whole.paths, whole.threshold, whole.restarts) == (resumed.paths, resumed.threshold, resumed.restarts)
        assert whole.finished == resumed.finished
    again = Forward(config)
    again.load_state_dict(whole.state_dict())
    assert again.finished == whole.finished


def test_what_exploration_is_told(monkeypatch):
    """Follow the path of the working node; the satisfying sequences teach nothing more."""
    task = small_task("((a;b)|c);d")
    method = Forward(ForwardConfig(threshold=60), task.formula.fsm())
    monkeypatch.setattr(forward, "scores", perfect(method, task))
    assert (method.request.follow, method.request.explained) == ((), ())
    store = walks(task, 1600)
    told = []
    for count in (100, 200, 400, 800, 1600):
        method.advance(store.select(np.arange(count)))
        told.append(
            ([names(task, p) for p in method.request.follow], {names(task, p) for p in method.request.explained})
        )
    assert ([], {("c", "d")}) in told
    assert told[-1] == ([], set(task.sequences))
    method.tree.work_on(1)
    assert [names(task, path) for path in method.request.follow] == [("c",)]


def test_f_is_trained_as_told(monkeypatch):
    """In Crafter the paper's f has more units."""
    asked = []

    def scores(positives, negatives, *, training, **_):
        asked.append(training)
        return np.arange(positives.num_ids, dtype=float)

    monkeypatch.setattr(forward, "scores", scores)
    store = made(*[([0, 1, 2], True)] * 3, *[([0, 1], False)] * 3)
    Forward(ForwardConfig(threshold=3), training=Training(hidden=256)).advance(store)
    assert asked
    assert all(training == Training(hidden=256) for training in asked)

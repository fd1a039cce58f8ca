"""The planner where key states are events: its parts against brute force, and whole runs."""

import itertools

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_events import SMALL, Copies, first_end, lawn, stored

import lstoc_core as lstoc
from lstoc_core.config import LSTOCConfig, PlannerConfig
from lstoc_core.exploration.beliefs import Beliefs
from lstoc_core.exploration.imagined import ImaginedVectorEnv
from lstoc_core.exploration.keys import EventKeys
from lstoc_core.exploration.outcomes import Words
from lstoc_core.run.explorers import EXPLORERS
from lstoc_core.run.methods import Setting
from lstoc_core.trajectories.events import EventIdentity
from lstoc_core.trajectories.flat import FlatObservations

torch.set_num_threads(1)
SUBSETS = [frozenset(each) for size in range(3) for each in itertools.combinations(range(1, 4), size)]
WALKS = st.lists(st.lists(st.integers(0, len(SUBSETS) - 1), min_size=2, max_size=8), min_size=1, max_size=4)


class Sets:
    """A vocabulary and map ids: id i is the set SUBSETS[i] of features."""

    num_events = 4
    states = np.arange(len(SUBSETS))

    def begun(self, before, state):
        return tuple(sorted(SUBSETS[state] - (SUBSETS[before] if before >= 0 else frozenset())))

    def states_with(self, event):
        return np.array([state for state, features in enumerate(SUBSETS) if event in features])


KEYS = EventKeys(Sets(), Sets())


def begun(walk):
    """What begins in each step of a walk of ids."""
    held = [frozenset(), *(SUBSETS[state] for state in walk[1:])]
    return [set(), *(now - before for before, now in itertools.pairwise(held))]


@settings(max_examples=100, deadline=None)
@given(WALKS)
def test_visits_of_walks_are_the_steps_in_which_events_begin(walks):
    longest = max(map(len, walks))
    table = KEYS.visits([[*walk, *[-1] * (longest - len(walk))] for walk in walks], 4)
    for index, walk in enumerate(walks):
        steps = begun(walk)
        for time, event in itertools.product(range(longest), range(1, 4)):
            expected = next((at for at in range(time + 1, len(walk)) if event in steps[at]), longest)
            assert table.table[index, time, event] == expected
        assert table.table[index, -1].tolist() == [longest] * 4


@settings(max_examples=100, deadline=None)
@given(WALKS, st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_the_part_of_a_path_that_a_walk_visits(walks, path):
    for walk in walks:
        steps = [SUBSETS[state] for state in walk]
        longest = next(n for n in range(len(path), -1, -1) if not n or first_end(path[:n], steps) is not None)
        assert KEYS.part(tuple(path), walk) == longest


@pytest.mark.parametrize("seed", range(8))
def test_ways_to_events_are_the_shortest(seed):
    rng = np.random.default_rng(seed)
    places = 30
    ids = rng.integers(len(SUBSETS), size=places).astype(np.int32)
    links = np.where(rng.random((places, 2)) < 0.8, rng.integers(places, size=(places, 2)), -1).astype(np.int32)
    routes = KEYS.routes(ids, links, np.zeros(places))
    graph = nx.DiGraph([(a, int(b)) for a in range(places) for b in links[a] if b >= 0 and b != a])
    graph.add_nodes_from(range(places))
    for place, event in itertools.product(range(places), range(1, 4)):
        length = nx.single_source_shortest_path_length(graph, place)
        ends = [length[a] + 1 for a, b in graph.edges if a in length and event in SUBSETS[ids[b]] - SUBSETS[ids[a]]]
        way = routes.way(place, event)
        assert len(way) == min(ends, default=0)
        walk = [place, *way]
        assert all(graph.has_edge(*step) for step in itertools.pairwise(walk))
        if way:
            assert event in SUBSETS[ids[walk[-1]]] - SUBSETS[ids[walk[-2]]]
    tour = routes.tour(0, 400, 1.0, rng)
    reached = {event for event in range(1, 4) if routes.way(0, event)}
    assert set(tour) <= reached
    begins = KEYS.visited_at(ids, links, [2])
    assert begins.tolist() == [
        any(2 in SUBSETS[ids[b]] - SUBSETS[ids[a]] for a in range(places) if b in links[a]) for b in range(places)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_beliefs_over_events_are_the_consistent_assignments(seed):
    rng, words = np.random.default_rng(seed), Words.of((("a", "b"), ("c",)))
    truth = dict(zip("abc", (rng.permutation(3) + 1).tolist(), strict=True))
    episodes = []
    for _ in range(12):
        steps = [set((np.flatnonzero(rng.random(3) < 0.3) + 1).tolist()) for _ in range(7)]
        end = ended(truth, steps)
        episodes.append((steps if end is None else steps[: end + 1], end is not None))
    beliefs = Beliefs(words, PlannerConfig(), rng=rng, reading=lambda store: store)
    for count in (0, 1, 4, 12):
        beliefs.update(stored(episodes[:count]) if count else stored(episodes[:1]).select([]), np.arange(1, 4))
        expected = {
            row
            for row in itertools.permutations(range(1, 4))
            if all(agrees(dict(zip("abc", row, strict=True)), *episode) for episode in episodes[:count])
        }
        assert {tuple(row) for row in beliefs.assignments.tolist()} == expected
        assert tuple(truth[name] for name in "abc") in expected


def ended(names, steps):
    ends = [first_end([names[name] for name in word], steps) for word in ("ab", "c")]
    return min((end for end in ends if end is not None), default=None)


def agrees(names, steps, label):
    return ended(names, steps) == (len(steps) - 1 if label else None)


# --- whole runs -------------------------------------------------------------------------------------------------------


class Lawn(Copies):
    """The same without noise: observations repeat."""

    def _seen(self):
        return self.place.astype(np.float32)


def flowers(observation):
    """Nothing but the subgoals: the set of features does not tell the place."""
    place = tuple(int(each) for each in np.round(observation))
    return ["flower"] * (place in Copies.FLOWERS) + ["gate"] * (place == Copies.GATE)


def planned(env, events, explorer="planner", **options):
    given = {"max_steps": 20_000, "progress": False, "config": SMALL, "seed": 0} | options
    return lstoc.discover(env, events=events, explorer=explorer, **given)


@pytest.mark.parametrize(
    ("env", "events", "read"), [(Lawn, flowers, "exact observations"), (Copies, lawn, "sets of features")]
)
@pytest.mark.parametrize("explorer", ["planner", "auto"])
def test_the_map_is_of_what_recurs(env, events, read, explorer):
    found = planned(env, events, explorer, fsm="a;b")
    assert found.proved
    told = {name: found.key_states[key].event for key, name in found.labeling.mapping.items()}
    assert told["a"] == "flower"
    assert told["b"] in ("gate", "at (4, 4)")
    assert f"25 places by {read}" in found.exploration
    assert found.env_steps < 6_000, "the policy needs about 20,000"


@pytest.mark.parametrize("env", [Lawn, Copies])
def test_without_an_fsm_two_copies_are_one_subgoal(env):
    found = planned(env, lawn)
    assert found.finished
    assert [found.names[key] for key in found.sequences[0]] == ["flower", "at (4, 4)"]


class Keyhole(Lawn):
    """The flower is a key without which nobody enters the gate's cell: the world forces the order."""

    def step(self, action):
        before = self.place.copy()
        end = super().step(action)
        if tuple(self.place) == self.GATE and not self.picked:
            self.place = before
            return self._seen(), *end[1:]
        return self._seen(), *end[1:]

    def _seen(self):
        return np.array([*self.place, self.picked][:2], np.float32) + 0.25 * self.picked


def carried(observation):
    place = np.floor(observation + 0.1).astype(int)
    return [f"at {tuple(place.tolist())}", *["carries"] * bool(observation[0] % 1)]


def test_walks_that_omit_an_event_show_what_the_world_forces():
    found = planned(Keyhole, carried)
    assert found.finished
    (branch,) = found.landmarks
    told = {mark.name: mark.required for mark in branch}
    assert told == {"carries": False, "at (4, 4)": True}
    failures = found.finder.reading(found.trajectories)
    carries = found.finder.reading.vocabulary.event_number("carries")
    assert not all(carries in failures.trajectory(int(index)) for index in failures.negatives)


class Shuffled(Lawn):
    """A new layout in every episode that is not seen: the same step leads elsewhere each time."""

    def reset(self, *, seed=None, options=None):
        self.hidden = np.random.default_rng(seed).permutation(4) if seed is not None else self.np_random.permutation(4)
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.hidden = self.np_random.permutation(4)
        return super().step(int(self.hidden[action]))


@pytest.mark.parametrize(("env", "events"), [(Copies, flowers), (Shuffled, flowers)])
def test_where_the_map_predicts_badly_the_policy_takes_over(env, events):
    found = planned(env, events, "auto", fsm="a;b", max_steps=4_000)
    assert found.exploration.startswith("policy: ")
    assert "as chosen" not in found.exploration
    assert len(found.trajectories) > 20


def test_a_policy_is_trained_on_the_map_and_works_in_the_world():
    config = LSTOCConfig(num_envs=16, planner=PlannerConfig(walks=8, imagined=150_000))
    found = planned(Lawn, flowers, fsm="a;b", solve=True, config=config)
    assert found.history[-1]["phase"] == "solved"
    assert isinstance(found.learner.env, ImaginedVectorEnv)
    played = found.rollout(Lawn, episodes=30, seed=5)
    assert np.mean([each.success for each in played]) > 0.9


def test_an_imagined_world_of_events_is_the_world_that_was_mapped():
    found = planned(Lawn, flowers, fsm="a;b")
    planner, env, rng = found.explorer, lstoc.InternedVectorEnv([Lawn] * 4, events=flowers), np.random.default_rng(0)
    env.identity = planner.env.identity
    (path,) = found.finder.paths
    given = {"keys": planner.keys, "map_ids": planner.survey.map_ids, "num_envs": 4, "horizon": 60, "seed": 0}
    imagined = ImaginedVectorEnv(planner.map, [path], planner.env, **given)
    np.testing.assert_array_equal(env.reset()[0], imagined.reset()[0])
    ended_ = 0
    for _ in range(400):
        actions = rng.integers(4, size=4)
        ids, _, over, late, info = env.step(actions)
        others, _, other_over, other_late, told = imagined.step(actions)
        np.testing.assert_array_equal(ids, others)
        np.testing.assert_array_equal(over, other_over)
        np.testing.assert_array_equal(late, other_late)
        for name in ("seen", "final_seen"):
            np.testing.assert_array_equal(env.sight.observations[info[name]], imagined.sight.observations[told[name]])
        ended_ += int(over.sum())
    assert ended_


@pytest.mark.parametrize(("env", "events"), [(Lawn, flowers), (Copies, lawn)])
def test_a_saved_run_goes_on(env, events, tmp_path):
    given = {"checkpoint": tmp_path / "run", "fsm": "a;b", "confirm": 10_000}
    begun_ = planned(env, events, max_steps=1_500, **given)
    resumed = planned(env, events, max_steps=3_000, **given)
    count = len(begun_.trajectories)
    assert len(resumed.trajectories) > count
    np.testing.assert_array_equal(resumed.trajectories.ids[: begun_.trajectories.size], begun_.trajectories.ids)
    assert resumed.explorer.survey.map_ids.exact == (env is Lawn)
    known = resumed.explorer.survey.walked.store.ids
    np.testing.assert_array_equal(resumed.explorer.survey.map_ids.states[known], resumed.trajectories.ids)
    assert resumed.explorer.map.error_rate == 0


def test_answers_left_are_events():
    left = []
    planned(Lawn, flowers, "policy", fsm="a;b", max_steps=3_000, callbacks=[lambda state: left.append(state.answers)])
    planned(Lawn, flowers, "planner", fsm="a;b", callbacks=[lambda state: left.append(state.answers)])
    told = [each for each in left if each is not None]
    assert told
    assert all(each.possible["a"].min() > 0 and each.possible["a"].max() <= 2 for each in told)
    assert told[-1].settled == {"a": 1, "b": 2} or told[-1].settled == {"a": 2, "b": 1}
    assert told[-1].heat(3).sum() == pytest.approx(2)


def test_names_given_as_a_set_have_one_order():
    row = np.zeros((1, 2), np.float32)
    numbers = []
    for names in ({8, 0}, {0, 8}):  # they collide, so each has the order in which it was made
        assert [*names] == [*({8, 0} if numbers == [] else {0, 8})]
        identity = EventIdentity(lambda _, names=names: names, FlatObservations(Copies.observation_space))
        identity.ids(row)
        numbers.append([identity.event_name(event) for event in range(1, 3)])
    assert [*{8, 0}] != [*{0, 8}]
    assert numbers[0] == numbers[1]


@pytest.mark.parametrize("explorer", ["planner", "auto"])
def test_boxes_are_refused_or_left_to_the_policy(explorer):
    setting = Setting(lstoc.InternedVectorEnv([Copies] * 2, events="boxes"), None, SMALL, 0)
    if explorer == "planner":
        with pytest.raises(ValueError, match="knows no boxes"):
            EXPLORERS[explorer](setting)
    else:
        assert EXPLORERS[explorer](setting).account.startswith("policy: the planner's map")


def test_taxi_is_solved_by_a_tenth_of_the_steps():
    def ride(state):
        state, destination = divmod(int(state), 4)
        cell, passenger = divmod(state, 5)
        return [f"at {cell}", *["aboard"] * (passenger == 4), *["delivered"] * (passenger == destination)]

    found = lstoc.discover("Taxi-v4", events=ride, success="reward", max_steps=30_000, progress=False, seed=7)
    assert [mark.name for mark in found.landmarks[0]] == ["aboard", "delivered"]
    assert found.env_steps < 10_000, "the policy needs 60,000"
    assert found.exploration.startswith("planner")

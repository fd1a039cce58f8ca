"""Key states that are features of observations: matching, reading, rewards, tiles, and whole runs."""

import itertools

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lstoc_core as lstoc
from lstoc_core.discovery.consistent import answers
from lstoc_core.discovery.contradictions import contradictions
from lstoc_core.discovery.evidence import Evidence
from lstoc_core.discovery.hypotheses import GuidedConfig
from lstoc_core.discovery.landmarks import LandmarkSearch
from lstoc_core.discovery.published.forward import Forward, ForwardConfig
from lstoc_core.logic import parse
from lstoc_core.loop import LSTOCConfig
from lstoc_core.policies.ppo import PPOConfig
from lstoc_core.policies.rewards import RewardConfig, RewardModel, RewardPlan
from lstoc_core.run.methods import guided_for
from lstoc_core.trajectories import TrajectoryStore, contains, segment_counts
from lstoc_core.trajectories.events import NOTHING, EventIdentity, EventReading, Sight
from lstoc_core.trajectories.flat import FlatObservations
from lstoc_core.trajectories.matching import earliest_match, entries, latest_match
from lstoc_core.trajectories.recorder import RunningEpisodes

torch.set_num_threads(1)
SMALL = LSTOCConfig(num_envs=8, ppo=PPOConfig(segment_length=32, minibatches=2, hidden=16, features=16))
NAMES = "pqr"
STEPS = st.lists(st.sets(st.integers(1, 3)), min_size=2, max_size=7)
EPISODES = st.lists(st.tuples(STEPS, st.booleans()), min_size=1, max_size=8)
PATHS = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)


def events_of(steps):
    """What begins in each step, the first of which is the start; in step 1, all that holds."""
    pairs = enumerate(itertools.pairwise(steps))
    return [set(), *(now - (before if time else set()) for time, (before, now) in pairs)]


def stored(episodes):
    """Trajectories of events, as sets, in a store of joined elements."""
    store = TrajectoryStore(4)
    for steps, label in episodes:
        groups = [[NOTHING], *(sorted(group) for group in events_of(steps)[1:])]
        groups = [group for group in groups[:-1] if group] + [groups[-1] or [NOTHING]]
        joined = [index > 0 for group in groups for index in range(len(group))]
        ids = [each for group in groups for each in group]
        store.append_flat(ids, [len(ids)], [label], joined)
    return store


def first_end(path, steps):
    """Step in which the path is complete, one element per step at most; None if never."""
    wanted = [*path]
    for time, begun in enumerate(events_of(steps)):
        if wanted and wanted[0] in begun:
            wanted.pop(0)
            if not wanted:
                return time
    return None


@settings(max_examples=200, deadline=None)
@given(EPISODES, PATHS, st.booleans())
def test_events_of_one_step_come_neither_before_nor_after_each_other(episodes, path, prompt):
    store = stored(episodes)
    ends = [first_end(path, steps) for steps, _ in episodes]
    assert contains(store, path).tolist() == [end is not None for end in ends]
    assert (latest_match(store, path) >= 0).tolist() == [end is not None for end in ends]
    wrong = [
        (end is not None) != label or (prompt and end is not None and end < len(steps) - 1)
        for end, (steps, label) in zip(ends, episodes, strict=True)
    ]
    assert contradictions(store, [path], prompt=prompt).tolist() == np.flatnonzero(wrong).tolist()


@settings(max_examples=100, deadline=None)
@given(EPISODES, PATHS, PATHS)
def test_slots_lie_strictly_between_the_steps_of_both_matches(episodes, before, behind):
    store = stored([(steps, False) for steps, _ in episodes])
    evidence = Evidence(store)
    visited = evidence.visits(evidence.failures, before, behind, np.arange(len(store)))
    for event in range(1, 4):
        expected = sum(first_end((*before, event, *behind), steps) is not None for steps, _ in episodes)
        assert visited[event] == expected
    assert segment_counts(store, store.offsets[:-1], store.offsets[1:], 4).max() <= len(store)
    kept = store.select(np.arange(len(store))[::-1])
    assert contains(kept, before).tolist() == contains(store, before)[::-1].tolist()
    assert (earliest_match(store, before) >= 0).tolist() == contains(store, before).tolist()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**16))
def test_answers_over_events_are_those_of_trying_out_all(seed):
    rng = np.random.default_rng(seed)
    truth = tuple((rng.permutation(3) + 1)[:2].tolist())
    episodes = []
    for _ in range(20):
        steps = [set((np.flatnonzero(rng.random(3) < 0.4) + 1).tolist()) for _ in range(8)]
        end = first_end(truth, steps)
        episodes.append((steps if end is None else steps[: end + 1], end is not None))
    found = {answer.paths for answer in answers(Evidence(stored(episodes)), (("a", "b"),)) if answer.paths}
    expected = set()
    for path in [(a, b) for a in range(4) for b in range(4) if a != b]:
        ends = [first_end(path, steps) for steps, _ in episodes]
        agree = [
            end == len(steps) - 1 if label else end is None for end, (steps, label) in zip(ends, episodes, strict=True)
        ]
        if all(agree):
            expected.add((path,))
    if any(label for _, label in episodes):
        assert found == expected
        assert (truth,) in found


# --- reading ----------------------------------------------------------------------------------------------------------


def named(row):
    return [name for name, on in zip(NAMES, row, strict=True) if on]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=2, max_size=6), min_size=2, max_size=5)
)
def test_a_growing_store_of_states_is_read_as_events(episodes):
    identity = EventIdentity(named, FlatObservations(gymnasium.spaces.MultiBinary(3)))
    reading, store, identities = EventReading(identity), TrajectoryStore(), []
    for rows in episodes:
        ids = identity.ids(np.array(rows, np.int8))
        identities.append(ids)
        store.append([ids], None, [False])
        read = reading(store)
        assert len(read) == len(store)
    fresh = EventReading(identity)(store)
    np.testing.assert_array_equal(fresh.ids, read.ids)
    for index, rows in enumerate(episodes):
        begun = events_of([{name for name, on in zip(NAMES, row, strict=True) if on} for row in rows])
        told = [sorted(map(identity.event_number, group)) for group in begun[1:]]
        told = [group for group in told[:-1] if group] + [told[-1] or [NOTHING]]
        assert read.trajectory(index).tolist() == [NOTHING, *(event for group in told for event in group)]
    held = [
        identity.event_number("p") in reading.vocabulary.begun(-1, state) for state in range(len(identity.observations))
    ]
    assert identity.states_with(identity.event_number("p")).tolist() == np.flatnonzero(held).tolist()
    at = entries(store, np.flatnonzero(held))
    expected = [
        int(store.offsets[index]) + time
        for index, rows in enumerate(episodes)
        for time, group in enumerate(events_of([{0} if row[0] else set() for row in rows]))
        if group
    ]
    assert at.tolist() == expected


def test_what_begins_just_before_the_end_does_not_last():
    identity = EventIdentity(named, FlatObservations(gymnasium.spaces.MultiBinary(3)))
    reading, store = EventReading(identity), TrajectoryStore()
    rows = np.zeros((30, 3), np.int8)
    rows[5:, 0] = 1  # p holds from step 5 on
    rows[6::2, 1] = 1  # q comes and goes
    rows[-1, 2] = 1  # r begins in the last step
    store.append([identity.ids(rows)], None, [True])
    reading(store)
    p, q, r = (reading.lasting(identity.event_number(name)) for name in NAMES)
    assert p == 1
    assert 0.4 < q < 0.6
    assert r == 0.1


def test_events_that_first_happen_together_are_one_moment():
    together = [([set(), {1, 2}, set(), {3}], True), ([set(), set(), {1, 2}, {2}, {1, 3}], True), ([set(), {1}], False)]
    store = stored(together)
    assert len(LandmarkSearch(store, Evidence(store)).moments({1, 2, 3})) == 2
    apart = stored([*together, ([set(), {1}, {1, 2}, {3}], True)])
    assert len(LandmarkSearch(apart, Evidence(apart)).moments({1, 2, 3})) == 3


def flower_by_two_names(row):
    return [*lawn(row), *["petal"] * ("flower" in lawn(row))]


@pytest.mark.parametrize("formula", [None, "a;b"])
def test_two_names_of_one_moment_keep_nothing_open(formula):
    rows, labels = episodes(600)
    identity = EventIdentity(flower_by_two_names, FlatObservations(Copies.observation_space))
    store = TrajectoryStore()
    store.append([identity.ids(each) for each in rows], None, labels)
    method = guided_for(parse(formula).fsm() if formula else None, GuidedConfig(), reading=EventReading(identity))
    for count in (250, 600):
        method.advance(store.select(np.arange(count)))
    assert method.finished, str(method.missing)
    assert [identity.event_name(key) for key in method.paths[0]][1] == "at (4, 4)"
    assert identity.event_name(method.paths[0][0]) in ("flower", "petal")
    assert not method.proved, "no episode can tell the names apart"


def test_a_single_event_that_is_decided_leaves_the_bonus_to_exploration():
    ends = [([set(), {1}, {2}, {3}], True)] * 8 + [([set(), {1}, {2}], False)] * 8
    identity = EventIdentity(named, FlatObservations(gymnasium.spaces.MultiBinary(3)))
    states = identity.ids(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.int8))
    store = TrajectoryStore()
    store.append([states[: len(steps)] for steps, _ in ends], None, [label for _, label in ends])
    method = guided_for(parse("a;b").fsm(), GuidedConfig(), reading=EventReading(identity))
    method.advance(store)
    (finding,) = method.findings.sequences
    assert finding.path == (identity.event_number("r"),)
    assert finding.decided
    assert not method.finished
    request = method.request
    plan = RewardPlan(RewardConfig(bonus=0.25), request.follow, request.explained)
    model, no = RewardModel(1, plan, vocabulary=identity), np.zeros(1, np.bool_)
    model.reset(states[:1])
    assert model.step(states[1:2], no, no, states[1:2]).tolist() == [0.25]


def test_what_a_policy_sees_stays_while_half_a_table_of_new_observations_comes():
    sight = Sight(8, (1,), np.dtype(np.float32))
    rng = np.random.default_rng(0)
    given_out = []
    for time in range(200):
        value = np.array([[float(rng.integers(6)) if rng.random() < 0.5 else 100.0 + time]], np.float32)
        row = int(sight.rows(value)[0])
        given_out.append((row, float(value[0, 0]), sight._count))
        for past, seen, count in given_out:
            if sight._count - count < 4:
                assert sight.observations[past, 0] == seen
    assert len(sight._row) <= 8


def test_rewards_are_for_events_and_a_replay_gives_the_same():
    identity = EventIdentity(named, FlatObservations(gymnasium.spaces.MultiBinary(3)))
    none, p, pq, q = identity.ids(np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], np.int8)).tolist()
    first, second = identity.event_number("p"), identity.event_number("q")
    plan = RewardPlan(RewardConfig(progress=1.0, bonus=0.25, rearm=False), ((first, second),))
    model, running = RewardModel(2, plan, vocabulary=identity), RunningEpisodes(2)
    begin = np.array([p, none])
    model.reset(begin)
    running.begin(np.ones(2, bool), begin)
    no = np.zeros(2, np.bool_)
    paid = []
    for ids in ([p, pq], [p, pq], [pq, none], [none, q]):
        running.extend(np.array(ids))
        paid.append(model.step(np.array(ids), no, no, np.array(ids)).tolist())
    # both p and q begin at once in the second environment: only p counts, until q begins anew
    assert paid == [[1.25, 1.25], [0, 0], [1.25, 0], [0, 1.0]]
    again = RewardModel(2, plan, running, vocabulary=identity)
    np.testing.assert_array_equal(again._reached, model._reached)
    np.testing.assert_array_equal(again._before, model._before)


# --- whole runs -------------------------------------------------------------------------------------------------------


class Copies(gymnasium.Env):
    """A 5 × 5 lawn with noise in what is seen: two flowers, both the same subgoal, then the gate.

    Observation: position with noise, so that none repeats.
    """

    FLOWERS, GATE = ((0, 4), (4, 0)), (4, 4)
    observation_space = gymnasium.spaces.Box(-1, 6, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time, self.picked = np.array([2, 2]), 0, False
        return self._seen(), {}

    def step(self, action):
        self.place = np.clip(self.place + [(0, 1), (0, -1), (1, 0), (-1, 0)][action], 0, 4)
        self.time += 1
        self.picked |= tuple(self.place) in self.FLOWERS
        done = self.picked and tuple(self.place) == self.GATE
        return self._seen(), 0.0, done, self.time >= 60, {"success": done}

    def _seen(self):
        return (self.place + self.np_random.uniform(-0.4, 0.4, 2)).astype(np.float32)


def lawn(observation):
    place = tuple(int(each) for each in np.round(observation))
    return (["flower"] if place in Copies.FLOWERS else []) + [f"at {place}"]


@pytest.fixture(scope="module")
def copies():
    return lstoc.discover(
        Copies, events=lawn, fsm="a;b", max_steps=60_000, progress=False, config=SMALL, seed=0, explorer="policy"
    )


def test_two_copies_are_one_subgoal_and_memory_stays_flat(copies, tmp_path):
    assert copies.proved
    found = {name: copies.key_states[key].event for key, name in copies.labeling.mapping.items()}
    assert found == {"a": "flower", "b": "at (4, 4)"}
    assert len(copies.observations) == 25, "one row for each set of features, however many observations there were"
    assert copies.exploration.startswith("policy: as chosen")
    assert [[mark.name for mark in branch] for branch in copies.landmarks] == [["flower", "at (4, 4)"]]
    assert all(mark.required for branch in copies.landmarks for mark in branch)
    copies.save(tmp_path / "copies")
    assert [key.event for key in lstoc.load(tmp_path / "copies").key_states] == [key.event for key in copies.key_states]


def test_without_events_the_same_world_gives_nothing():
    blind = lstoc.discover(Copies, fsm="a;b", max_steps=8_000, progress=False, config=SMALL, seed=0)
    assert not blind.finished


def episodes(count, seed=0):
    env, rng, rows, labels = Copies(), np.random.default_rng(seed), [], []
    for index in range(count):
        seen, done, success = [env.reset(seed=seed + index)[0]], False, False
        while not done:
            row, _, success, late, _ = env.step(int(rng.integers(4)))
            seen.append(row)
            done = success or late
        rows.append(np.array(seen))
        labels.append(success)
    return rows, labels


def test_recorded_episodes_are_learned_and_checked_with_events(copies):
    rows, labels = episodes(300)
    learned = lstoc.learn(rows, labels, "a;b", events=lawn)
    assert learned.proved
    assert {learned.key_states[key].event for key in learned.labeling.mapping} == {"flower", "at (4, 4)"}
    fresh, truth = episodes(40, seed=1000)
    for answer in (learned, copies):
        assert lstoc.check(answer, fresh, truth, events=lawn).tolist() == []
        assert lstoc.check(answer, fresh, [not truth[0], *truth[1:]], events=lawn).tolist() == [0]
    with pytest.raises(ValueError, match="events= must be what the discovery was made with"):
        lstoc.check(learned, fresh, truth)


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"events": lambda row: "flower"}, TypeError, "give a list of the names"),
        ({"events": "boxes", "explorer": "planner"}, ValueError, "knows no boxes"),
        ({"events": lstoc.tiles()}, ValueError, "write your own"),
    ],
)
def test_events_that_cannot_be_used_are_named(options, error, told):
    with pytest.raises(error, match=told):
        lstoc.discover(Copies, max_steps=100, progress=False, config=SMALL, **options)


def test_the_published_method_reads_events():
    rows, labels = episodes(500)
    identity = EventIdentity(lawn, FlatObservations(Copies.observation_space))
    store = TrajectoryStore()
    store.append([identity.ids(each) for each in rows], None, labels)
    method = Forward(
        ForwardConfig(exact=True, threshold=20, gamma=0.9), parse("a;b").fsm(), reading=EventReading(identity)
    )
    method.advance(store)
    assert method.finished
    assert [[identity.event_name(key) for key in path] for path in method.paths] == [["flower", "at (4, 4)"]]


def test_a_task_of_ours_takes_no_events():
    with pytest.raises(ValueError, match="gives observation ids"):
        lstoc.discover("letter-1", events=lawn)


# --- tiles ------------------------------------------------------------------------------------------------------------


def test_tiles_name_objects_states_places_and_what_is_gone():
    image = np.zeros((4, 4, 3), np.uint8)
    image[..., 0] = 1
    image[1, 2], image[2, 2], image[3, 3] = (5, 4, 0), (4, 4, 2), (10, 0, 3)
    names = lstoc.tiles()({"image": image, "direction": 3})
    assert {"yellow key", "yellow key at 1,2", "yellow door locked", "agent at 3,3", "no red key"} <= set(names)
    assert "no yellow key" not in names
    assert {"no yellow door closed", "no red door locked"} <= set(names)
    assert "no yellow door locked" not in names
    image[2, 2] = (10, 0, 3)
    assert "no yellow door locked" in lstoc.tiles()(image), "who stands on a door has opened it"
    image[2, 2] = (4, 4, 1)
    assert "no door closed" not in lstoc.tiles(colours=False)(image)
    assert "no door locked" in lstoc.tiles(colours=False)(image)
    image[3, 3] = (1, 0, 0)
    image[2, 3], image[1, 2] = (5, 4, 0), (1, 0, 0)
    carried = lstoc.tiles(places=False)(image)
    assert "carries yellow key" in carried
    assert not any(" at " in name for name in carried)


def test_keys_and_doors_at_new_places_in_every_episode():
    pytest.importorskip("minigrid")
    from minigrid.wrappers import FullyObsWrapper

    found = lstoc.discover(
        lambda: FullyObsWrapper(gymnasium.make("MiniGrid-DoorKey-5x5-v0")),
        events=lstoc.tiles(), success="reward", max_steps=80_000, progress=False, seed=0,
    )  # fmt: skip
    assert found.finished
    (branch,) = found.landmarks
    told = [mark.name for mark in branch]
    assert [name for name in told if name in ("no yellow key", "yellow door open", "agent at 3,3")] == [
        "no yellow key", "yellow door open", "agent at 3,3"
    ]  # fmt: skip
    assert [mark.required for mark in branch] == [False] * (len(branch) - 1) + [True]
    assert found.verdict.startswith("unrefuted")

"""When no answer agrees, that is final: the run ends, and says which assumption is suspected, by which episodes."""

import itertools
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_proof import Corridor, run
from violations import NAMED, VIOLATIONS, WorldEnv, predicts, sound, violated

import lstoc_core as lstoc
from lstoc_core.discovery import consistent
from lstoc_core.discovery.consistent import answers
from lstoc_core.discovery.contradictions import contradictions
from lstoc_core.discovery.diagnosis import diagnose
from lstoc_core.discovery.evidence import Evidence
from lstoc_core.discovery.hypotheses import GuidedConfig
from lstoc_core.discovery.places import told_apart
from lstoc_core.run.methods import guided_for
from lstoc_core.trajectories import TrajectoryStore
from lstoc_core.trajectories.walks import random_walks

torch.set_num_threads(1)


def walks(world, count=150):
    """Random walks in a world, and the sequences that it is said to have. Ids are the observations."""
    env, rng, store = WorldEnv(world), np.random.default_rng(world.seed), TrajectoryStore(16)
    for _ in range(count):
        ids, ended = [env.reset()[0]], False
        while not ended:
            seen, _, terminated, truncated, info = env.step(rng.integers(4))
            ids.append(seen)
            ended = terminated or truncated
        store.append([ids], None, [info["success"]])
    return store, lstoc.parse(world.told).minimal_sequences()


def names_of(diagnosis):
    return [suspect.name for suspect in diagnosis.suspects]


@pytest.mark.parametrize("kind", NAMED)
def test_what_is_wrong_is_among_the_suspects(kind):
    named = []
    for seed in range(12):
        store, structure = walks(violated(kind, seed))
        if store.labels.any() and not answers(Evidence(store), structure, limit=1):
            diagnosis = diagnose(store, structure, (), prompt=True)
            named.append(NAMED[kind] in names_of(diagnosis))
            expected = contradictions(store, diagnosis.nearest).tolist() if diagnosis.nearest else []
            assert not diagnosis.nearest or list(diagnosis.contradicting) == expected
            assert "suspects: " in str(diagnosis.missing())
    assert named
    # So many wrong labels leave no answer that few episodes contradict: fewer cases look like noise.
    assert np.mean(named) >= (0.5 if kind.startswith("one in five") else 0.7)


def test_success_that_is_reported_late_comes_first():
    for seed in range(4):
        store, structure = walks(violated("success reported one step late", seed))
        assert names_of(diagnose(store, structure, (), prompt=True))[0] == "episodes that run past success"


def test_a_run_without_an_answer_ends_its_exploration(tmp_path):
    asked = {"fsm": "a;b;a", "max_steps": 20_000, "checkpoint": tmp_path}
    found = run(Corridor, **asked)
    assert found.explorer.env_steps < 2_000
    assert len(found.trajectories) >= 60, "enough to say why"
    assert not found.finished
    assert "no assignment of the FSM's symbols to states is consistent with every episode" in str(found.missing)
    assert "no further episode can change that" in str(found.missing)
    assert "FSM" in str(found.missing)
    resumed = run(Corridor, **asked)
    assert resumed.explorer.env_steps == found.explorer.env_steps
    assert str(resumed.missing) == str(found.missing)


def test_of_an_answer_that_needs_no_confirmation_nothing_more_is_asked():
    found = run(Corridor, fsm="a;b;a", max_steps=20_000, confirm=0)
    more = run(Corridor, fsm="a;b;a", max_steps=20_000, confirm=17)
    assert not found.finished
    assert not more.finished
    assert len(found.trajectories) + 17 <= len(more.trajectories) < len(found.trajectories) + 22
    assert more.trajectories.ids[: found.trajectories.size].tolist() == found.trajectories.ids.tolist()


def test_a_run_without_an_answer_can_be_asked_for_more_episodes(tmp_path):
    asked = {"fsm": "a;b;a", "max_steps": 20_000, "checkpoint": tmp_path}
    first = run(Corridor, confirm=0, **asked)
    assert run(Corridor, confirm=0, **asked).explorer.env_steps == first.explorer.env_steps
    more = run(Corridor, confirm=30, **asked)
    assert len(more.trajectories) >= len(first.trajectories) + 30
    assert "suspects: " in str(more.missing)


@pytest.mark.parametrize("kind", ["a key state that looks like another cell", "two keys that look alike"])
def test_look_alike_places_are_named_with_what_is_beside_them(kind):
    """On seeds that are none of the committed table. The observation that is named is the one that was doubled."""
    right = []
    for seed in range(1_000, 1_008):
        world = violated(kind, seed)
        found = run(lambda world=world: WorldEnv(world), fsm=world.told, max_steps=8_000, seed=seed)
        said = re.search(r"aliasing: observation (\d+) looks|are both observation (\d+),", str(found.missing))
        if "suspects" in str(found.missing):
            doubled = next(look for cell, look in enumerate(world.looks) if cell != look)
            named = found.observations[int(said[1] or said[2])].argmax() if said else -1
            right.append(named == doubled)
    assert len(right) >= 6
    assert np.mean(right) >= 0.7


@pytest.mark.parametrize("seed", range(12))
def test_the_map_tells_the_places_of_finished_episodes(seed):
    """The cells that the agent was in are the oracle: one place never stands for two of them."""
    world = violated("a key state that looks like another cell", seed)
    cells = []

    class Watched(WorldEnv):
        def reset(self, **options):
            told = super().reset(**options)
            cells.append(self.cell)
            return told

        def step(self, action):
            told = super().step(action)
            cells.append(self.cell)
            return told

    found = run(lambda: Watched(world), fsm=world.told, max_steps=3_000, seed=seed)
    places, store = found.explorer.places(), found.trajectories
    assert places.lengths.tolist() == store.lengths.tolist()
    np.testing.assert_array_equal(found.explorer.map.ids[places.ids], store.ids)
    cell_of = {}
    for place, cell in zip(places.ids.tolist(), cells, strict=False):
        cell_of.setdefault(place, []).append(cell)
    same = [np.bincount(told).max() / len(told) for told in cell_of.values()]
    assert np.mean(same) > 0.95
    assert len(cell_of) > 14


def test_an_observation_is_told_apart_in_every_way_its_sides_allow():
    """Between 0 and 1, and between 2 and 3, there is a place that looks like 9; nothing tells to which 4 belongs."""
    store = TrajectoryStore()
    store.append([[0, 9, 1, 9, 0], [2, 9, 9, 3], [4, 9]], None, [True, False, False])
    ways = {(tuple(sorted(one)), tuple(sorted(two))): apart for apart, one, two in told_apart(store, 9)}
    assert sorted(ways) == [((0, 1), (2, 3, 4)), ((0, 1, 2, 3), (4,)), ((0, 1, 4), (2, 3))]
    assert ways[(0, 1, 4), (2, 3)].ids.tolist() == [0, 9, 1, 9, 0, 2, 10, 10, 3, 4, 9]
    assert not list(told_apart(store, 0))
    places = TrajectoryStore()
    places.append([[0, 5, 1, 5, 0], [2, 6, 6, 3], [4, 6]], None, [True, False, False])
    (apart, one, two), *more = told_apart(store, 9, places)
    assert not more
    assert (sorted(one), sorted(two)) == ([2, 3, 4], [0, 1])
    assert apart.ids.tolist() == [0, 10, 1, 10, 0, 2, 9, 9, 3, 4, 9]


def test_with_noise_nothing_is_final():
    store, _ = walks(violated("1 % flipped labels", 0))
    method = guided_for(lstoc.parse("a;b;c;a").fsm(), GuidedConfig(noise=0.02))
    method.advance(store)
    assert not method.exhausted


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(sorted(VIOLATIONS)), st.integers(0, 10_000))
def test_no_answer_comes_back_once_there_is_none(kind, seed):
    """What makes it final: more episodes leave no answer that fewer had excluded."""
    store, structure = walks(violated(kind, seed), 120)
    counts = [60, 90, 120]
    left = [{each.paths for each in answers(Evidence(store.select(np.arange(n))), structure)} for n in counts]
    for before, after in itertools.pairwise(left):
        assert bool(before) or not after


def test_an_answer_predicts_or_not():
    for seed in range(20):
        world = sound(seed)
        cells = {name: cell for cell, names in world.names.items() for name in names}
        paths = {tuple(cells[name] for name in word) for word in world.words}
        assert predicts(world, paths)
        assert not predicts(world, {(*path[:-1], 0) for path in paths})


def test_a_look_is_bounded_by_work_that_can_be_repeated(monkeypatch):
    store = random_walks(lstoc.make_vec(lstoc.TASKS["letter-1"], num_envs=8, seed=0), 60, seed=0)
    structure = lstoc.parse("((a;b)|(c;d)|(e;f));g;h;i").minimal_sequences()
    spent = []
    for _ in range(2):
        evidence = Evidence(store)
        with pytest.raises(consistent.TooManyTries):
            answers(evidence, structure, work=10_000_000)
        spent.append(evidence.work)
    assert spent[0] == spent[1]
    assert 10_000_000 < spent[0] < 12_000_000

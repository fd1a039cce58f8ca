"""The planner's parts against brute force on small random worlds: map, routes, outcomes, beliefs, information."""

from itertools import permutations

import networkx as nx
import numpy as np
import pytest
from scipy.stats import chisquare

import lstoc_core as lstoc
from lstoc_core.config import PlannerConfig
from lstoc_core.exploration import step_log
from lstoc_core.exploration.beliefs import Beliefs
from lstoc_core.exploration.outcomes import Visits, Words
from lstoc_core.exploration.plans import Judges, Outset, PlanSearch, information
from lstoc_core.exploration.routes import Routes, Slips, nearest_gap
from lstoc_core.exploration.world_map import WorldMap
from lstoc_core.policies.ppo import packed, unpacked
from lstoc_core.trajectories.store import TrajectoryStore

FORMULAS = ("a;b", "(a;b)|c", "a;((b;a)|c);d", "((a;b)|c);d", "(a;b)|(c;d)")

# --- map ---


class Grid:
    """A square of cells, some of which look the same; blocked moves stay put; a slip is a random move."""

    def __init__(self, rng, side=5, looks=3, share=0.3, slip=0.0):
        cells = side * side
        x, y = np.arange(cells) % side, np.arange(cells) // side
        moves = [(x, np.maximum(y - 1, 0)), (np.minimum(x + 1, side - 1), y)]
        moves += [(x, np.minimum(y + 1, side - 1)), (np.maximum(x - 1, 0), y)]
        self.next = np.stack([b * side + a for a, b in moves], axis=1)
        self.ids = np.where(rng.random(cells) < share, rng.integers(looks, size=cells), looks + np.arange(cells))
        self.ids[0] = looks  # the start is told by its look
        self.rng, self.slip = rng, slip

    def walk(self, world_map, steps, horizon=40):
        """Record a random walk; how many of the last half of its steps the map foretold wrongly, or not at all."""
        cell, wrong, unknown = 0, 0, 0
        world_map.begin(np.array([self.ids[0]]))
        for step in range(steps):
            action = int(self.rng.integers(4))
            expected = world_map.expected(0, action)
            moved = int(self.rng.integers(4)) if self.rng.random() < self.slip else action
            cell = int(self.next[cell, moved])
            seen, done = self.ids[cell], step % horizon == horizon - 1
            cell = 0 if done else cell
            world_map.step(np.array([action]), np.array([seen]), np.array([done]), np.array([self.ids[cell]]))
            if step % 10 == 0:
                world_map.refresh()
            if step >= steps // 2:
                wrong += expected not in (-1, seen)
                unknown += expected == -1
        world_map.refresh()
        return wrong / (steps // 2), unknown / (steps // 2)


@pytest.mark.parametrize("seed", range(6))
def test_a_map_of_aliased_places_predicts_and_has_one_place_per_cell(seed):
    grid, world_map = Grid(np.random.default_rng(seed)), WorldMap(1, 4)
    wrong, unknown = grid.walk(world_map, 6_000)
    assert wrong < 0.01
    assert unknown < 0.05
    assert not world_map.stochastic
    looks = np.bincount(grid.ids)
    assert world_map.error_rate < 0.01
    assert all(looks[each] > 1 for each in world_map.aliased) or len(world_map.aliased) < 8
    for state in np.flatnonzero(looks == 1):
        if state not in world_map.aliased:
            assert (world_map.ids == state).sum() == 1


def test_a_map_without_aliases_is_the_world():
    grid, world_map = Grid(np.random.default_rng(0), share=0.0), WorldMap(1, 4)
    grid.walk(world_map, 4_000)
    assert not world_map.aliased
    cell = world_map.ids - 3
    np.testing.assert_array_equal(cell[world_map.links], grid.next[cell])


def test_slips_are_chance_not_aliases():
    grid, world_map = Grid(np.random.default_rng(1), share=0.0, slip=0.1), WorldMap(1, 4)
    wrong, _ = grid.walk(world_map, 6_000)
    assert world_map.stochastic
    assert 0.03 < wrong < 0.12
    cell = world_map.ids - 3
    np.testing.assert_array_equal(cell[world_map.links], grid.next[cell])


def test_a_map_restored_is_the_same():
    grid, world_map = Grid(np.random.default_rng(2)), WorldMap(1, 4)
    grid.walk(world_map, 500)
    other = WorldMap(1, 4)
    other.load_state_dict(world_map.state_dict())
    other.refresh()
    np.testing.assert_array_equal(world_map.links, other.links)
    np.testing.assert_array_equal(world_map.ids, other.ids)
    assert (world_map.place(0), world_map.error_rate) == (other.place(0), other.error_rate)


def test_a_log_of_compressed_blocks_tells_the_same_as_a_plain_array(monkeypatch):
    """The array is the oracle, at every length; what is written to the last row late is kept, too."""
    monkeypatch.setattr(step_log, "BLOCK", 64)
    rows = np.random.default_rng(0).integers(-(2**31), 2**31, (300, 2, 5), np.int32)
    log = step_log.StepLog(2, 5)
    for count, row in enumerate(rows, 1):
        log.append()[:] = 0
        log.last[:] = row
        assert len(log) == count
        np.testing.assert_array_equal(np.concatenate(list(log.blocks())), rows[:count])
        if count % 60 in (0, 4):  # before, at and after the end of a block
            other = step_log.StepLog(2, 5)
            other.load_state_dict(unpacked(packed(log.state_dict())))
            other.append()[:] = 7
            np.testing.assert_array_equal(np.concatenate(list(other.blocks())), [*rows[:count], np.full((2, 5), 7)])
    empty = step_log.StepLog(2, 5)
    empty.load_state_dict(step_log.StepLog(2, 5).state_dict())
    assert not len(empty)


@pytest.mark.parametrize("seed", range(3))
def test_a_map_does_not_depend_on_how_its_steps_are_kept(seed, monkeypatch):
    """With aliased places, so that all steps are read again; the map as it was, all in one block, is the oracle."""
    maps = []
    for block in (64, 1 << 20):
        monkeypatch.setattr(step_log, "BLOCK", block)
        grid, world_map = Grid(np.random.default_rng(seed)), WorldMap(1, 4)
        grid.walk(world_map, 3_000)
        maps.append(world_map)
    one, two = maps
    assert one.aliased == two.aliased != set()
    np.testing.assert_array_equal(one.links, two.links)
    np.testing.assert_array_equal(one.starts, two.starts)
    assert (one.error_rate, one.place(0)) == (two.error_rate, two.place(0))


def test_a_world_that_is_known_takes_little_memory():
    """Walks round a square, again and again: a byte a step at most, of what was 20."""
    grid, world_map = Grid(np.random.default_rng(0), share=0.0), WorldMap(1, 4)
    world_map.begin(grid.ids[:1])
    cell, steps = 0, 4 * step_log.BLOCK
    for time in range(steps):
        cell = grid.next[cell, action := time // 4 % 4]
        world_map.step(np.array([action]), grid.ids[[cell]], np.zeros(1, np.bool_), grid.ids[[cell]])
    assert world_map.nbytes < step_log.BLOCK * 20 + steps


# --- routes ---


def test_ways_are_shortest_and_gaps_nearest():
    rng = np.random.default_rng(3)
    grid = Grid(rng, share=0.4)
    links = np.where(rng.random(grid.next.shape) < 0.2, -1, grid.next).astype(np.int32)
    graph = nx.DiGraph((a, int(b)) for a in range(25) for b in links[a] if b >= 0)
    graph.add_nodes_from(range(25))
    routes = Routes(grid.ids.astype(np.int32), links, np.zeros(25))
    for place in range(25):
        lengths = nx.single_source_shortest_path_length(graph, place)
        for state in np.unique(grid.ids):
            near = min((lengths[at] for at in np.flatnonzero(grid.ids == state) if at in lengths), default=0)
            way = routes.way(place, int(state))
            assert len(way) == near
            assert all(b in links[a] for a, b in zip((place, *way), way, strict=False))
        gaps = [lengths[at] for at in lengths if (links[at] < 0).any()]
        assert len(nearest_gap(links, place, np.zeros((25, 4)))) == 1 + min(gaps)
    assert nearest_gap(grid.next, 0, np.zeros((25, 4))) is None


def test_a_walk_ends_where_no_way_leads_on():
    routes = Routes(np.arange(3, dtype=np.int32), np.array([[-1], [2], [1]], np.int32), np.zeros(3))
    asked = []
    walk = routes.walk(0, [1], 500, lambda: asked.append(0) or [2])
    assert (walk.places, walk.waypoints) == ((0,), ())
    assert len(asked) < 10
    assert len(routes.walk(1, [2], 500, lambda: [1, 2]).places) == 501


def test_a_walk_that_slips_goes_by_links_to_all_waypoints_and_takes_longer():
    rng = np.random.default_rng(3)
    grid = Grid(rng, share=0.0)
    routes, links = Routes(grid.ids.astype(np.int32), grid.next.astype(np.int32), np.zeros(25)), grid.next
    goals = grid.ids[[24, 4, 20, 0]].tolist()
    firm = routes.walk(0, goals, 500)
    assert routes.walk(0, goals, 500, slips=Slips(1e-12, rng)) == firm
    lengths = []
    for _ in range(100):
        walk = routes.walk(0, goals, 500, slips=Slips(0.2, rng))
        assert walk.waypoints == firm.waypoints
        assert all(b in links[a] for a, b in zip(walk.places, walk.places[1:], strict=False))
        assert [grid.ids[walk.places[when]] for when in walk.arrivals] == goals
        lengths.append(len(walk.places))
    assert np.mean(lengths) > 1.2 * len(firm.places), "each slip costs a step or two"
    assert len(routes.walk(0, goals, 10, slips=Slips(0.2, rng)).places) == 11


# --- outcomes ---


def first_success(formula, walk, assignment):
    """When a prefix of the walk first satisfies the formula; one past its end if none does."""
    symbols = {state: symbol for symbol, state in assignment.items()}
    trace = [symbols.get(int(state)) for state in walk]
    return next((time for time in range(len(walk)) if formula.satisfied_by(trace[: time + 1])), len(walk))


@pytest.mark.parametrize("text", FORMULAS)
def test_times_of_success_are_those_of_the_formula(text):
    formula, rng = lstoc.parse(text), np.random.default_rng(4)
    words = Words.of(formula.minimal_sequences())
    for _ in range(20):
        walks = rng.integers(7, size=(3, 12))
        walks[:, 0] = 7  # no key state: the formula has a rule of its own for traces that start on one
        walks[2, 8:] = -1
        assignments = np.stack([rng.permutation(7)[: len(words.symbols)] for _ in range(10)]).astype(np.int32)
        visits = Visits.of(walks, 7)
        for index, walk in enumerate(walks):
            real = walk[walk >= 0]
            times = words.success_times(visits[index], assignments)
            for row, time in zip(assignments, times, strict=True):
                expected = first_success(formula, real, dict(zip(words.symbols, row.tolist(), strict=True)))
                assert time == (expected if expected < len(real) else visits.never)


# --- beliefs ---


def episodes(formula, truth, rng, count, states, length=14):
    """Random walks that end at their first success under the truth."""
    store = TrajectoryStore(states + 1)
    for _ in range(count):
        walk = np.append(states, rng.integers(states, size=length - 1))
        end = first_success(formula, walk, truth)
        store.append([walk[: end + 1]], labels=[end < length])
    return store


def consistent(formula, words, store, states):
    """All assignments that predict every outcome, by trying each."""
    found = set()
    for row in permutations(range(states), len(words.symbols)):
        names = dict(zip(words.symbols, row, strict=True))
        for index in range(len(store)):
            walk = store.trajectory(index)
            end = first_success(formula, walk, names)
            if end != (len(walk) - 1 if store.labels[index] else len(walk)):
                break
        else:
            found.add(row)
    return found


@pytest.mark.parametrize("text", FORMULAS)
def test_beliefs_are_the_consistent_assignments(text):
    formula, rng, states = lstoc.parse(text), np.random.default_rng(5), 6
    words = Words.of(formula.minimal_sequences())
    truth = dict(zip(words.symbols, range(states), strict=False))
    store = episodes(formula, truth, rng, 8, states)
    beliefs = Beliefs(words, rng=rng)
    for count in (0, 1, 3, 8):
        seen = store.select(np.arange(count))
        beliefs.update(seen, np.arange(states))
        assert beliefs.complete
        assert {tuple(row) for row in beliefs.assignments.tolist()} == consistent(formula, words, seen, states)
        assert 2**beliefs.bits == pytest.approx(len(beliefs))


def test_a_sample_of_beliefs_is_uniform_over_the_consistent_assignments():
    formula, rng, states = lstoc.parse("(a;b)|c"), np.random.default_rng(6), 6
    words = Words.of(formula.minimal_sequences())
    store = episodes(formula, {"a": 0, "b": 1, "c": 2}, rng, 2, states)
    every = sorted(consistent(formula, words, store, states))
    assert 10 < len(every) < 100
    counts = dict.fromkeys(every, 0)
    sizes = []
    for seed in range(600):
        beliefs = Beliefs(words, PlannerConfig(rows=60, few=0), rng=np.random.default_rng(seed))
        beliefs.update(store, np.arange(states))
        assert not beliefs.complete
        sizes.append(len(beliefs) / beliefs.share)
        for row in beliefs.assignments.tolist():
            counts[tuple(row)] += 1
    assert np.mean(sizes) == pytest.approx(len(every), rel=0.05)  # the estimate of how many there are
    # Rows held together are correlated, so one of each draw is tested: the first of a random order.
    assert chisquare(list(counts.values())).statistic / len(every) < 5
    firsts = dict.fromkeys(every, 0)
    for seed in range(600):
        beliefs = Beliefs(words, PlannerConfig(rows=90, few=0), rng=np.random.default_rng(10_000 + seed))
        beliefs.update(store, np.arange(states))
        firsts[tuple(beliefs.assignments[0].tolist())] += 1
    assert chisquare(list(firsts.values())).pvalue > 1e-3


def test_a_wrong_label_lowers_the_weight_of_the_truth_but_does_not_kill_it():
    formula, rng, states = lstoc.parse("a;b"), np.random.default_rng(7), 6
    words = Words.of(formula.minimal_sequences())
    store = episodes(formula, {"a": 0, "b": 1}, rng, 40, states)
    labels = store.labels.copy()
    labels[np.flatnonzero(labels)[0]] = False
    flipped = TrajectoryStore(states + 1)
    flipped.append_flat(store.ids, store.lengths, labels)
    beliefs = Beliefs(words, rng=rng, noise=0.02)
    beliefs.update(flipped, np.arange(states))
    truth = (beliefs.assignments == [0, 1]).all(axis=1)
    assert beliefs.errors[truth].tolist() == [1]
    odds = 0.02 / 0.98
    shares = odds**beliefs.errors / (odds**beliefs.errors).sum()
    np.testing.assert_allclose(beliefs.weights, shares)
    assert beliefs.assignments[beliefs.weights.argmax()].tolist() == [0, 1]


# --- plans ---


def test_the_information_of_a_plan_is_that_of_all_its_outcomes():
    rng = np.random.default_rng(8)
    outcomes, groups = rng.integers(5, size=200), rng.integers(3, size=200)
    weights = rng.random(200)
    weights /= weights.sum()

    def entropy(*columns):
        mass = {}
        for *key, weight in zip(*columns, weights, strict=True):
            mass[tuple(key)] = mass.get(tuple(key), 0) + weight
        return -sum(each * np.log2(each) for each in mass.values())

    assert information(outcomes, weights) == pytest.approx(entropy(outcomes))
    assert information(outcomes, weights, groups) == pytest.approx(entropy(outcomes, groups) - entropy(groups))
    assert information(np.zeros(200, int), weights) == 0


def test_the_plan_found_tells_what_enumeration_says_and_more_than_a_tour():
    formula, rng = lstoc.parse("a;b"), np.random.default_rng(9)
    words = Words.of(formula.minimal_sequences())
    grid = Grid(rng, share=0.0)
    every = np.array(list(permutations(grid.ids[1:].tolist(), 2)), np.int32)
    weights = np.full(len(every), 1 / len(every))
    outset = Outset(grid.ids.astype(np.int32), grid.next.astype(np.int32), 0, 60)
    search = PlanSearch(outset, words, PlannerConfig(), every, Judges(every, weights), rng=rng)
    best = search.best()
    walk = grid.ids[list(best.itinerary.places)]
    assert len(walk) <= 61
    assert all(b in grid.next[a] for a, b in zip(best.itinerary.places, best.itinerary.places[1:], strict=False))
    times = [first_success(formula, walk, dict(zip("ab", row, strict=True))) for row in every.tolist()]
    shares = np.bincount(times) / len(times)
    assert best.bits == pytest.approx(-(shares[shares > 0] * np.log2(shares[shares > 0])).sum())
    assert best.success == pytest.approx(np.mean(np.array(times) < len(walk)))
    assert best.bits > search.judged([search._itinerary(search._tour())])[0].bits


def test_where_episodes_go_on_after_a_success_only_whether_it_came_counts():
    rng = np.random.default_rng(11)
    words, grid = Words.of(lstoc.parse("a;b").minimal_sequences()), Grid(rng, share=0.0)
    every = np.array(list(permutations(grid.ids[1:].tolist(), 2)), np.int32)
    outset = Outset(grid.ids.astype(np.int32), grid.next.astype(np.int32), 0, 60)
    panel = Judges(every, np.full(len(every), 1 / len(every)))
    search = PlanSearch(outset, words, PlannerConfig(), every, panel, rng=rng, prompt=False)
    best = search.best()
    share = best.success
    assert best.bits == pytest.approx(-(share * np.log2(share) + (1 - share) * np.log2(1 - share)))
    assert 0.9 < best.bits <= 1


@pytest.mark.parametrize("slip", [0.0, 0.15])
def test_a_plan_within_an_episode_counts_what_the_episode_has_visited(slip):
    """Judged by walks through the whole episode; where steps slip, by the mean over many such walks."""
    formula, rng = lstoc.parse("a;b"), np.random.default_rng(10)
    words, grid = Words.of(formula.minimal_sequences()), Grid(rng, share=0.0)
    ids, links, past = grid.ids.astype(np.int32), grid.next.astype(np.int32), grid.ids[[0, 1, 2]].tolist()
    every = np.array(list(permutations(grid.ids[1:].tolist(), 2)), np.int32)
    open_ = [first_success(formula, past, dict(zip("ab", row, strict=True))) == len(past) for row in every.tolist()]
    judges = rng.permutation(every[open_])[:40]
    outset = Outset(ids, links, 3, 30, past=past, slip=slip)
    weights = np.full(len(judges), 1 / len(judges))
    search = PlanSearch(outset, words, PlannerConfig(), judges, Judges(judges, weights), rng=rng)
    itinerary = search._itinerary(search._through_beliefs())
    (judged,) = search.judged([itinerary], repeats=24)
    walks = search._walks(itinerary, 24)
    assert len(walks) == (24 if slip else 1)
    shares = []
    for places in walks:
        walk = [*past, *grid.ids[list(places)]]
        times = [first_success(formula, walk, dict(zip("ab", row, strict=True))) for row in judges.tolist()]
        shares.append(np.mean(np.array(times) < len(walk)))
    assert judged.success == pytest.approx(np.mean(shares), abs=0.1 if slip else 1e-9)
    assert judged.success > 0

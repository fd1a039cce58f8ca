"""Boxes of continuous observations, found by contrast: they cover the hidden discs."""

import json
import tracemalloc

import gymnasium
import numpy as np
import pytest
import torch

import lstoc_core as lstoc
from lstoc_core.discovery.boxes import BoxSearch
from lstoc_core.discovery.regions import Regions
from lstoc_core.policies.gru import RecurrentPolicy
from lstoc_core.trajectories import TrajectoryStore
from lstoc_core.trajectories.cells import MOST_CELLS, CellIdentity
from lstoc_core.trajectories.events import EventReading
from lstoc_core.trajectories.flat import FlatObservations

torch.set_num_threads(1)

DISCS = {"a": ((0.25, 0.7), 0.15), "b": ((0.75, 0.3), 0.15)}


def near(points, name, order=2):
    centre, radius = DISCS[name]
    return np.linalg.norm(points - np.array(centre), order, axis=-1) < radius


def point_world(count, *, seed, steps=60, order=2):
    """Noisy walks in the unit square that end in disc b once they have been in disc a; order=np.inf: in squares."""
    rng = np.random.default_rng(seed)
    moves = 0.12 * np.array([(1, 0), (-1, 0), (0, 1), (0, -1)])
    episodes, labels = [], []
    for _ in range(count):
        walk, been = [rng.random(2)], False
        while len(walk) <= steps and not (been and near(walk[-1], "b", order) and len(walk) > 1):
            walk.append(np.clip(walk[-1] + moves[rng.integers(4)] + rng.normal(0, 0.03, 2), 0, 1))
            been |= bool(near(walk[-1], "a", order))
        episodes.append(np.array(walk))
        labels.append(bool(been and near(walk[-1], "b", order)))
    return episodes, labels


def overlap(bounds, name):
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 200)] * 2), -1)
    box, disc = ((grid >= bounds[0]) & (grid <= bounds[1])).all(-1), near(grid, name)
    return (box & disc).sum() / (box | disc).sum()


@pytest.mark.parametrize("seed", range(3))
def test_boxes_cover_the_hidden_discs_in_order(seed):
    episodes, labels = point_world(800, seed=seed)
    found = lstoc.boxes(episodes, labels, count=2)
    assert [overlap(bounds, name) >= 0.5 for bounds, name in zip(found.bounds, "ab", strict=True)] == [True, True]
    assert found.error < 0.1
    assert found(DISCS["a"][0]) == ["box 1"]
    assert found(np.array([0.5, 0.99])) == []
    fresh, truth = point_world(400, seed=seed + 100)
    told = [[found(row) for row in episode[1:]] for episode in fresh]
    reached = [["box 1"] in walk and ["box 2"] in walk[walk.index(["box 1"]) :] for walk in told]
    assert np.mean(np.array(reached) == np.array(truth)) > 0.9, "episodes never seen before are predicted"


def hills(count, *, seed):
    """MountainCar, pushed the way it goes with more or less zeal: the flag after the left hill, in steps of four."""
    env, rng = gymnasium.make("MountainCar-v0", max_episode_steps=400), np.random.default_rng(seed)
    episodes, labels = [], []
    for episode in range(count):
        rows, zeal, over = [env.reset(seed=1000 * seed + episode)[0]], rng.uniform(0.3, 1), False
        while not over:
            action = 2 * int(rows[-1][1] > 0) if rng.random() < zeal else rng.integers(3)
            for _ in range(4):
                if not over:
                    row, _, flag, late, _ = env.step(action)
                    over = flag or late
            rows.append(row)
        episodes.append(np.array(rows))
        labels.append(bool(flag and episodes[-1][1:, 0].min() < -1.1))
    return episodes, labels


@pytest.mark.parametrize("seed", range(3))
def test_a_hill_is_not_taken_for_the_speed_that_leads_there(seed):
    left, flag = lstoc.boxes(*hills(300, seed=seed), count=2).bounds
    assert -1.15 < left[1][0] < -1.0
    assert flag[0][0] > 0.4


def test_a_box_that_adds_nothing_is_dropped():
    episodes, labels = point_world(400, seed=0)
    grid = np.linspace(0, 1, 21)
    middles = np.stack(np.meshgrid(*[(grid[1:] + grid[:-1]) / 2] * 2, indexing="ij"), -1).reshape(-1, 2)
    cells = [(np.searchsorted(grid[1:-1], walk[1:], side="right") @ [20, 1]).astype(np.int64) for walk in episodes]
    search = BoxSearch(cells, np.array(labels), middles, np.stack([grid] * 2))
    found = search.found(4, gain=0.02).bounds
    everything = (np.full(2, -np.inf), np.full(2, np.inf))
    kept = search.needed((everything, *found), 0.02)
    assert len(found) == len(kept) == 2
    assert [overlap(bounds, name) >= 0.5 for bounds, name in zip(kept, "ab", strict=True)] == [True, True]
    assert len(search.needed((everything, *found), 0.0)) == 3, "as many as an FSM asks for"


def test_one_box_of_many_dimensions():
    """Only the first of four numbers matters: a success ends where it exceeds 0.8."""
    rng = np.random.default_rng(0)
    episodes, labels = [], []
    for _ in range(200):
        rows = rng.random((20, 4))
        high = np.flatnonzero(rows[1:, 0] > 0.9) + 1
        episodes.append(rows[: high[0] + 1] if len(high) else rows)
        labels.append(bool(len(high)))
    (bounds,) = lstoc.boxes(episodes, labels, count=3).bounds
    assert 0.8 < bounds[0][0] < 0.95
    assert bounds[1][0] > 0.97


@pytest.mark.parametrize(
    ("labels", "count", "told"), [([True, True], 1, "give some of both"), ([True, False], 0, "at least 1")]
)
def test_what_cannot_be_contrasted_is_named(labels, count, told):
    with pytest.raises(ValueError, match=told):
        lstoc.boxes([np.zeros((3, 2))] * 2, labels, count)


# --- cells ------------------------------------------------------------------------------------------------------------

SQUARE = FlatObservations(gymnasium.spaces.Box(0, 1, (2,), np.float32))


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4, 6])
def test_the_grid_has_few_cells_however_much_is_seen(dimensions):
    cells = CellIdentity(FlatObservations(gymnasium.spaces.Box(-2, 3, (dimensions,), np.float32)))
    rng = np.random.default_rng(0)
    points = rng.uniform(-2, 3, (20_000, dimensions)).astype(np.float32)
    ids = cells.ids(points)
    assert len(cells.observations) == ids.max() + 1 <= MOST_CELLS
    width = cells.sides[:, 1] - cells.sides[:, 0]
    assert (np.abs(points - cells.middles[ids]) <= width / 2 + 1e-5).all()


def test_numbers_without_bounds_and_beyond_them_have_cells():
    space = gymnasium.spaces.Box(np.array([-np.inf, 0], np.float32), np.array([np.inf, 1], np.float32))
    cells = CellIdentity(FlatObservations(space))
    rows = np.array([[-1e8, 0.5], [-0.01, 0.5], [0.01, 0.5], [5.0, 0.5], [1e8, 0.5], [0.01, 7.0]], np.float32)
    ids = cells.ids(rows)
    assert len(set(ids.tolist())) == len(rows)
    assert np.isfinite(cells.middles).all()


def test_boxes_are_events_that_begin_when_they_are_entered():
    cells = CellIdentity(SQUARE)
    walk = np.array([[0.5, 0.5], [0.1, 0.1], [0.2, 0.2], [0.9, 0.9], [0.2, 0.1]], np.float32)
    start, first, second, away, again = cells.ids(walk).tolist()
    (box,) = cells.place([(np.array([0.0, -np.inf]), np.array([0.3, 0.3]))])
    assert [box in cells.begun(*pair) for pair in ((start, first), (first, second), (second, away), (away, again))] == [
        True, False, False, True
    ]  # fmt: skip
    assert box in cells.begun(-1, second), "in the first step, all that holds begins"
    assert cells.states_with(box).tolist() == sorted({first, second, again})
    assert cells.event_name(box) == "box 1"
    store = TrajectoryStore()
    store.append([np.array([start, first, second, away, again])], None, [False])
    read = EventReading(cells)(store)
    assert (read.ids == box).sum() == 2
    other = cells.place([(np.zeros(2), np.ones(2))])
    assert other != (box,), "a box that is moved is another event"


@pytest.mark.parametrize(
    ("space", "told"),
    [
        (gymnasium.spaces.Box(0, 1, (7,), np.float32), "at most 6 real numbers"),
        (gymnasium.spaces.Box(0, 255, (3,), np.uint8), "say what recurs by events="),
    ],
)
def test_observations_that_cannot_be_boxed_are_named(space, told):
    with pytest.raises(ValueError, match=told):
        CellIdentity(FlatObservations(space))


# --- inside discover --------------------------------------------------------------------------------------------------


class PointWorld(gymnasium.Env):
    """The walks of `point_world` as an environment."""

    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.been, self.time = self.np_random.random(2), False, 0
        return self.place.astype(np.float32), {}

    def step(self, action):
        move = 0.12 * np.array([(1, 0), (-1, 0), (0, 1), (0, -1)][action]) + self.np_random.normal(0, 0.03, 2)
        self.place, self.time = np.clip(self.place + move, 0, 1), self.time + 1
        self.been |= bool(near(self.place, "a"))
        done = self.been and bool(near(self.place, "b"))
        return self.place.astype(np.float32), 0.0, done, self.time >= 60, {"success": done}


@pytest.fixture(scope="module")
def boxed():
    return lstoc.discover(PointWorld, events="boxes", fsm="a;b", max_steps=150_000, progress=False, seed=0)


def test_discover_finds_the_discs_and_names_them(boxed, tmp_path):
    assert boxed.finished
    assert not boxed.proved
    assert boxed.verdict.startswith("unrefuted: of ")
    assert boxed.labeling.mapping == {0: "a", 1: "b"}
    assert [key.event for key in boxed.key_states] == ["box 1", "box 2"]
    for key, name in zip(boxed.key_states, "ab", strict=True):
        assert overlap(key.bounds, name) >= 0.5
    boxed.save(tmp_path / "boxed")
    loaded = lstoc.load(tmp_path / "boxed")
    for key, other in zip(boxed.key_states, loaded.key_states, strict=True):
        np.testing.assert_array_equal(key.bounds, other.bounds)


@pytest.mark.parametrize("events", [None, "boxes"])
def test_a_single_episode_does_not_contradict_boxes(boxed, events):
    with pytest.raises(ValueError, match="key states are boxes, which predict most episodes and not all"):
        lstoc.check(boxed, [np.zeros((2, 2))], [True], events=events)
    with pytest.raises(ValueError, match="give a function or 'learned'; boxes\\(\\) finds boxes"):
        lstoc.learn([np.zeros((2, 2))], [True], events="boxes")


def test_cells_and_not_observations_are_kept(boxed):
    assert len(boxed.observations) <= MOST_CELLS < boxed.env_steps / 4
    assert boxed.warnings == ()


def test_memory_stays_flat_over_many_observations():
    env = lstoc.InternedVectorEnv([PointWorld] * 8, events="boxes")
    rng = np.random.default_rng(0)
    env.reset()

    def walk(steps):
        for _ in range(steps):
            env.step(rng.integers(4, size=8))
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    walk(800)
    grown = -walk(0) + walk(800)
    tracemalloc.stop()
    assert grown < 300_000, "6,400 more observations"


def recorded(episodes, labels):
    cells, store = CellIdentity(SQUARE), TrajectoryStore()
    store.append([cells.ids(np.asarray(rows, np.float32)) for rows in episodes], None, labels)
    return cells, store


def test_boxes_are_judged_by_later_episodes_and_restored():
    episodes, labels = point_world(1_400, seed=5, order=np.inf)
    cells, store = recorded(episodes, labels)
    method = Regions(cells, ("a", "b"))
    assert "wait for 20 successes" in str(method.advance(store.select(np.arange(5))))
    assert not method.finished
    method.advance(store.select(np.arange(800)))
    assert not method.finished, "no episode has tested these boxes"
    assert "are judged at 1000" in str(method.missing)
    state = json.loads(json.dumps(method.state_dict()))
    other = Regions(cells, ("a", "b"))
    other.load_state_dict(state)
    assert other.paths == method.paths
    for each in (method, other):
        each.advance(store)
        assert each.finished
        assert each.tested == 600
    assert other.verdict == method.verdict
    wrong = TrajectoryStore()
    wrong.append_flat(store.ids, store.lengths, np.random.default_rng(0).permutation(store.labels))
    fooled = Regions(cells, ("a", "b"))
    for count in (800, 1_000, 1_400):
        fooled.advance(wrong.select(np.arange(count)))
        assert not fooled.finished, "outcomes that nothing explains"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"events": "boxes", "fsm": "a|b"}, "one sequence"),
        ({"events": "bins"}, "give a function of an observation, tiles"),
        ({"events": "boxes", "method": "forward"}, "knows no boxes"),
    ],
)
def test_what_boxes_cannot_do_is_named(options, told):
    with pytest.raises(ValueError, match=told):
        lstoc.discover(PointWorld, max_steps=100, progress=False, **options)


# --- normalisation ----------------------------------------------------------------------------------------------------


def test_real_numbers_of_any_range_look_the_same_to_a_policy():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 3)).astype(np.float32)
    scale, shift = np.array([1e-3, 1.0, 1e6]), np.array([5.0, -2.0, 3e7])
    plain, wide = (
        RecurrentPolicy((3,), np.float64, 2, generator=torch.Generator().manual_seed(1)) for _ in range(2)
    )  # fmt: skip
    for part in np.array_split(np.arange(500), 7):
        plain.see(rows[part].astype(float))
        wide.see(rows[part] * scale + shift)
    torch.testing.assert_close(plain.embedding(rows.astype(float)), wide.embedding(rows * scale + shift))
    inputs = (rows - rows.mean(0)) / rows.std(0)
    torch.testing.assert_close(plain.embedding(rows.astype(float)), plain.embed(torch.from_numpy(inputs)))
    assert not RecurrentPolicy((3,), np.uint8, 2).normalised
    again = RecurrentPolicy((3,), np.float64, 2)
    again.load_state_dict(wide.state_dict())
    torch.testing.assert_close(again.embedding(rows * scale + shift), wide.embedding(rows * scale + shift))

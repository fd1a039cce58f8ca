"""Worlds: tables against coordinates, vector against single, ours against gymnasium's own vector environment."""

import hashlib
import json
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from lstoc_core.worlds import compile_world, make_env, make_vec
from lstoc_core.worlds.domains import crafter
from lstoc_core.worlds.tasks import TASKS, TaskError, make_task

DOMAINS = {
    "letter": "letter-2", "office": "office-2", "crafter": "crafter-2", "robot": "robot", "rooms": "rooms-symmetric",
}  # fmt: skip
MOVES = {0: (0, -1), 1: (1, 0), 2: (0, 1), 3: (-1, 0)}
SHORT = {"letter": 60, "office": 100, "crafter": 60, "robot": 60, "rooms": 60}
"""Horizons for tests: many episodes in few steps."""


# ---- gymnasium ----


@pytest.mark.parametrize("domain", list(DOMAINS))
@pytest.mark.parametrize("observation", ["array", "id"])
def test_check_env(domain, observation):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(
            f"lstoc/{domain.title()}-v0", task=DOMAINS[domain], observation=observation, render_mode="rgb_array"
        )
        check_env(env.unwrapped)


@pytest.mark.parametrize("domain", list(DOMAINS))
def test_determinism_rollout(domain):
    """Two environments with one seed agree in everything, through random starts and several episodes."""
    one, two = (make_env(domain, task=DOMAINS[domain], start=None, horizon=100) for _ in range(2))
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(one.reset(seed=7)[0], two.reset(seed=7)[0])
    for action in rng.integers(4, size=1000):
        a, b = one.step(action), two.step(action)
        np.testing.assert_array_equal(a[0], b[0])
        assert a[1:] == b[1:]
        if a[2] or a[3]:
            np.testing.assert_array_equal(one.reset()[0], two.reset()[0])


def test_make_without_a_task_takes_the_first_of_the_domain_and_refuses_another_domain():
    assert gymnasium.make("lstoc/Office-v0").unwrapped.task.name == "office-1"
    with pytest.raises(TaskError, match=r"letter-1.*letter domain, not office"):
        gymnasium.make("lstoc/Office-v0", task="letter-1")
    with pytest.raises(TaskError, match="'colour' cannot be changed"):
        make_env("letter", task="letter-1", colour="red")
    with pytest.raises(TaskError, match="use make_task"):
        compile_world("office-1", layout_seed=3)
    with pytest.raises(TaskError, match=r"start at \(0, 99\) is outside"):
        compile_world("letter-1", start=[0, 99])


@pytest.mark.parametrize("domain", list(DOMAINS))
def test_render_shows_the_whole_map_and_the_agent(domain):
    env = make_env(domain, task=DOMAINS[domain], render_mode="rgb_array")
    width, height = env.task.size
    env.reset(seed=0)
    picture = env.render()
    assert picture.dtype == np.uint8
    assert picture.shape == (32 * height, 32 * width, 3)
    changed = (picture != env.world.render()).any(-1)
    x, y = env.task.start
    assert changed[32 * y : 32 * (y + 1), 32 * x : 32 * (x + 1)].sum() == changed.sum() > 50


# ---- tables against coordinates ----


def walk(task, actions):
    """Cells of an episode by plain arithmetic on coordinates."""
    (x, y), (width, height) = task.start, task.size
    yield x, y
    for action in actions:
        dx, dy = MOVES[action]
        target = ((x + dx) % width, (y + dy) % height) if task.wrap else (x + dx, y + dy)
        if 0 <= target[0] < width and 0 <= target[1] < height and target not in task.walls:
            x, y = target
        yield x, y


@pytest.mark.parametrize(
    ("domain", "wrap"), [*((domain, False) for domain in DOMAINS), ("letter", True), ("robot", True)]
)
def test_positions_and_labels_follow_from_coordinates_and_the_formula(domain, wrap):
    """The label equals the formula's satisfaction of the trace of letters, at exactly the step the episode ends."""
    task = TASKS[DOMAINS[domain]]
    env = make_env(domain, task=task, wrap=wrap, observation="id")
    task, rng = env.task, np.random.default_rng(1)
    letter = {cell: name for name, cell in task.positions.items()}
    for _ in range(25):
        env.reset()
        actions = rng.integers(4, size=task.horizon).tolist()
        trace = []
        for t, cell in enumerate(walk(task, actions)):
            if t:
                number, reward, terminated, truncated, info = env.step(actions[t - 1])
                assert number == env.world.observation_id[env.position]
            trace.append(letter.get(cell))
            assert env.task.cells[env.position] == cell
            if t and (trace[-1] or t == task.horizon):
                assert terminated == info["success"] == (reward == 1) == task.formula.satisfied_by(trace)
                assert truncated == (t == task.horizon and not terminated)
                if terminated or truncated:
                    break


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_letter_task_labels_as_its_formula_says(data):
    """Own formulas on tiny maps where letters are met often."""
    formula = data.draw(st.sampled_from(["a;b", "a|b", "a&b", "(a;b)|c", "a;(b|c);a", "(a&b);c", "a;b;a;c"]))
    task = make_task(
        domain="letter",
        formula=formula,
        size=(3, 3),
        horizon=40,
        wrap=False,
        positions={"a": (1, 1), "b": (2, 0), "c": (0, 2)},
    )
    actions = data.draw(st.lists(st.integers(0, 3), min_size=40, max_size=40))
    letter = {cell: name for name, cell in task.positions.items()}
    trace = [letter.get(cell) for cell in walk(task, actions)]
    env = make_env(task=task)
    env.reset()
    for t, action in enumerate(actions, 1):
        _, _, terminated, truncated, _ = env.step(action)
        assert terminated == task.formula.satisfied_by(trace[: t + 1])
        if terminated or truncated:
            break


# ---- what is seen ----


def test_letter_shows_the_whole_map():
    world = compile_world("letter-1")
    assert world.observations.shape == (100, 10, 10, 6)
    for position, (x, y) in enumerate(world.coordinates):
        seen = world.observations[world.observation_id[position]]
        assert np.argwhere(seen[..., -1]).tolist() == [[y, x]]
        places = {letter: tuple(np.argwhere(seen[..., k])[0][::-1]) for k, letter in enumerate("abcde")}
        assert places == world.task.positions


@pytest.mark.parametrize(
    ("name", "options"),
    [("office-1", {}), ("robot", {}), ("letter-2", {"view": 5}), ("letter-2", {"view": 3, "wrap": True})],
)
def test_partial_views_show_what_lies_at_each_offset(name, options):
    world = compile_world(name, **options)
    task, (width, height) = world.task, world.size
    planes = "comdp" if task.domain == "office" else "".join(task.letters)
    at = {cell: name for name, cell in task.positions.items()}
    reach = task.view // 2
    for position in range(world.num_positions):
        x, y = world.coordinates[position]
        seen = world.observations[world.observation_id[position]]
        for dy in range(-reach, reach + 1):
            for dx in range(-reach, reach + 1):
                cell = (int(x + dx), int(y + dy))
                if task.wrap:
                    cell = (cell[0] % width, cell[1] % height)
                expected = [at.get(cell) == letter for letter in planes]
                if task.domain != "letter":
                    outside = not (0 <= cell[0] < width and 0 <= cell[1] < height)
                    expected.append(outside or cell in task.walls)
                expected.append(dx == dy == 0)
                assert seen[dy + reach, dx + reach].astype(bool).tolist() == expected


@pytest.mark.parametrize("name", list(TASKS))
def test_key_states_look_like_nothing_else(name):
    """Observations are interned without loss, and what is seen at a letter is seen nowhere else."""
    world = compile_world(name)
    assert len({row.tobytes() for row in world.observations}) == world.num_observations
    for symbol in world.symbols:
        seen_at = np.flatnonzero(world.observation_id == world.observation_of_symbol(symbol))
        assert [tuple(world.coordinates[p]) for p in seen_at] == [world.task.positions[symbol]]
        assert world.symbols[world.symbol[seen_at[0]]] == symbol
    assert (world.symbol >= 0).sum() == len(world.symbols)


def test_values_on_map():
    world = compile_world("office-1")
    grid = world.values_on_map(np.arange(world.num_observations))
    assert grid.shape == (19, 25)
    assert {(x, y) for y, x in np.argwhere(np.isnan(grid))} == world.task.walls
    assert grid[14, 20] == world.observation_of_symbol("c")


# ---- Crafter ----


def crafter_hash(task):
    return hashlib.sha256(crafter.views(task).tobytes() + crafter.picture(task)[0].tobytes()).hexdigest()


def test_crafter_renders_the_same_twice_and_in_another_process():
    task = TASKS["crafter-2-objects"]
    code = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from test_grid import crafter_hash, TASKS; print(crafter_hash(TASKS['crafter-2-objects']))"
    )
    root = str(compile_world.__globals__["__file__"]).rsplit("lstoc_core", 1)[0]
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root, env={"PYTHONHASHSEED": "3"}
    )
    assert crafter_hash(task) == crafter_hash(task) == other.stdout.strip()


def test_crafter_draws_no_random_number_and_uses_the_game_s_pixels():
    from crafter import constants, engine, objects

    task = TASKS["crafter-1"]
    world = crafter.build(task)
    world.random = None  # any draw would fail
    player = objects.Player(world, task.start)
    world.add(player)
    image = engine.LocalView(world, engine.Textures(constants.root / "assets"), (5, 5))(player, (16, 16))
    position = compile_world(task).position_of(task.start)
    seen = compile_world(task).observations[compile_world(task).observation_id[position]]
    np.testing.assert_array_equal(seen, image.astype(np.uint8).transpose(1, 0, 2))  # only plain ground near the start


# ---- vector environment ----


@pytest.mark.parametrize("domain", list(DOMAINS))
@pytest.mark.parametrize("start", ["fixed", "random"])
def test_vector_equals_single_step_for_step(domain, start):
    """10,000 steps: ids, rewards, ends, final observations and same-step resets."""
    options = {"horizon": SHORT[domain]} | ({"start": None} if start == "random" else {})
    num_envs, steps, seed = 8, 1250, 3
    vec = make_vec(DOMAINS[domain], num_envs, seed=seed, **options)
    singles = [make_env(domain, task=DOMAINS[domain], observation="id", **options) for _ in range(num_envs)]
    ids, _ = vec.reset()
    assert ids.dtype == np.int64
    assert ids.tolist() == [env.reset(seed=seed + i)[0] for i, env in enumerate(singles)]
    rng = np.random.default_rng(0)
    ends = 0
    for actions in rng.integers(4, size=(steps, num_envs)):
        ids, reward, terminated, truncated, info = vec.step(actions)
        for i, env in enumerate(singles):
            number, r, term, trunc, single_info = env.step(actions[i])
            assert (number, r, term, trunc) == (info["final_obs"][i], reward[i], terminated[i], truncated[i])
            assert single_info["success"] == info["success"][i]
            if term or trunc:
                number, ends = env.reset()[0], ends + 1
            assert number == ids[i]
    assert reward.dtype == np.float32
    assert ends > num_envs * steps / SHORT[domain] / 2


@pytest.mark.parametrize("domain", list(DOMAINS))
def test_vector_equals_gymnasium_s_own(domain):
    """With observations: the same as SyncVectorEnv with same-step autoreset over single environments."""
    options = {"horizon": 20, "start": None} if domain == "rooms" else {"horizon": SHORT[domain], "start": None}
    vec = make_vec(DOMAINS[domain], 4, seed=11, observation="array", **options)
    factory = lambda: make_env(domain, task=DOMAINS[domain], **options)  # noqa: E731
    sync = SyncVectorEnv([factory] * 4, autoreset_mode=AutoresetMode.SAME_STEP)
    assert vec.metadata["autoreset_mode"] == sync.metadata["autoreset_mode"]
    assert vec.single_observation_space == sync.single_observation_space
    assert vec.observation_space == sync.observation_space
    assert vec.action_space == sync.action_space
    np.testing.assert_array_equal(vec.reset()[0], sync.reset(seed=11)[0])
    rng = np.random.default_rng(5)
    ends = 0
    for actions in rng.integers(4, size=(300, 4)):
        ours, theirs = vec.step(actions), sync.step(actions)
        assert ours[0] in vec.observation_space
        for mine, other in zip(ours[:4], theirs[:4], strict=True):
            np.testing.assert_array_equal(mine, other)
        assert ("final_obs" in ours[4]) == ("final_obs" in theirs[4])
        if "final_obs" in ours[4]:
            mask = ours[4]["_final_obs"]
            np.testing.assert_array_equal(mask, theirs[4]["_final_obs"])
            for i in np.flatnonzero(mask):
                ends += 1
                np.testing.assert_array_equal(ours[4]["final_obs"][i], theirs[4]["final_obs"][i])
    assert ends > 8


def test_returned_arrays_are_the_caller_s():
    """What a step returned does not change with later steps, nor does writing into it change the environments."""
    one, two = make_vec("letter-1", 16), make_vec("letter-1", 16)
    kept = [one.reset()[0]]
    two.reset()
    copies = [kept[0].copy()]
    rng = np.random.default_rng(0)
    for actions in rng.integers(4, size=(300, 16)):
        out, other = one.step(actions), two.step(actions)
        arrays = [*out[:4], *out[4].values()]
        kept += arrays
        copies += [array.copy() for array in arrays]
        for array in [*other[:4], *other[4].values()]:
            array[:] = 0
    assert all((a == b).all() for a, b in zip(kept, copies, strict=True))
    actions = np.zeros(16, int)
    np.testing.assert_array_equal(one.step(actions)[0], two.step(actions)[0])


@pytest.mark.parametrize("start", [None, (0, 0)])
def test_state_dict_goes_on_exactly(start):
    env = make_vec("letter-2", 8, seed=1, start=start, horizon=25)
    env.reset()
    rng = np.random.default_rng(0)
    for actions in rng.integers(4, size=(40, 8)):
        env.step(actions)
    state = env.state_dict()
    state["generators"] = json.loads(json.dumps(state["generators"]))
    other = make_vec("letter-2", 8, seed=99, start=start, horizon=25)
    other.load_state_dict(state)
    for actions in rng.integers(4, size=(100, 8)):
        np.testing.assert_array_equal(env.step(actions)[0], other.step(actions)[0])
    with pytest.raises(ValueError, match="8 environments"):
        make_vec("letter-2", 4).load_state_dict(state)


def test_reset_with_a_seed_repeats_and_without_goes_on():
    env = make_vec("letter-1", 64, seed=0, start=None)
    first, second = env.reset()[0], env.reset()[0]
    assert (first != second).any()
    np.testing.assert_array_equal(env.reset(seed=0)[0], first)
    letters = {env.world.observation_of_symbol(s) for s in "abcde"}
    assert not letters & set(np.concatenate([env.reset()[0] for _ in range(50)]).tolist())


def test_misuse_is_named():
    single, vec = make_env(task="letter-1"), make_vec("letter-1", 3)
    with pytest.raises(ResetNeeded, match="reset"):
        single.step(0)
    with pytest.raises(ResetNeeded, match="reset"):
        vec.step([0, 0, 0])
    single.reset()
    vec.reset()
    for action in (4, -1, 1.5, None):
        with pytest.raises(InvalidAction, match="0 up"):
            single.step(action)
    with pytest.raises(InvalidAction, match="action 4 of environment 1"):
        vec.step([0, 4, 0])
    with pytest.raises(InvalidAction, match="action -1 of environment 2"):
        vec.step([0, 0, -1])
    with pytest.raises(InvalidAction, match="give 3 integers"):
        vec.step([0, 0])
    with pytest.raises(InvalidAction, match="give 3 integers"):
        vec.step([0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="'id'"):
        make_vec("letter-1", observation="pixels")
    with pytest.raises(ValueError, match="num_envs=0"):
        make_vec("letter-1", 0)
    with pytest.raises(ValueError, match="rgb_array"):
        make_env(task="letter-1", render_mode="human")
    for _ in range(single.task.horizon):
        *_, truncated, _ = single.step(0)
    assert truncated
    with pytest.raises(ResetNeeded, match="over"):
        single.step(0)

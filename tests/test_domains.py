"""Domains: a new one is one file or one call, and the built-in ones keep the same contract."""

import ast
import dataclasses
import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import garden
import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import lstoc_core
from lstoc_core import worlds
from lstoc_core.worlds import compile_world, domains, make_env, make_vec, registry
from lstoc_core.worlds.domain import Group, NamedTask
from lstoc_core.worlds.tasks import NINE, TASKS, TaskError, make_task

ROOT = Path(lstoc_core.__file__).parents[1]
BUILTIN = ("letter", "office", "crafter", "robot", "rooms")


@pytest.fixture
def added():
    """The garden, registered in this process for one test."""
    registry.register_domain(garden.DOMAIN)
    yield garden.DOMAIN
    registry.forget_domain("garden")


def run(code, cwd, **environment):
    """What a fresh interpreter prints, read as json."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={"PYTHONPATH": str(cwd), **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---- a new domain ----


def test_one_file_is_a_domain(tmp_path):
    """A copy of the package that differs by one added file lists, names, registers and plays the new domain."""
    source = Path(lstoc_core.__file__).parent
    shutil.copytree(source, tmp_path / "lstoc_core", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(garden.__file__, tmp_path / "lstoc_core" / "worlds" / "domains")
    code = (
        "import json, gymnasium, lstoc_core\n"
        "env = gymnasium.make('lstoc/Garden-v0').unwrapped\n"
        "names = [domain.name for domain in lstoc_core.worlds.all_domains()]\n"
        "first = env.reset(seed=0)[0].tolist()\n"
        "print(json.dumps([lstoc_core.__file__, names, list(lstoc_core.TASKS), env.task.name, first]))"
    )
    home, names, tasks, task, first = run(code, tmp_path)
    assert Path(home).is_relative_to(tmp_path)
    assert names == [*BUILTIN, "garden"]
    assert tasks == [*TASKS, "garden-1"]
    assert task == "garden-1"
    assert first == [0, 4, 0]


def test_one_call_is_a_domain(added):
    task = TASKS["garden-1"]
    assert list(TASKS)[-1] == "garden-1"
    assert task is TASKS["garden-1"]
    assert (task.size, task.start, task.horizon, task.view, task.wrap) == ((7, 5), (0, 4), 60, None, False)
    assert task.walls == {(x, 2) for x in range(1, 6)} == set(task.terrain)
    assert task.shortest_solution == 6 + 4  # along the bottom to the well, then up to the tulip
    world = compile_world("garden-1")
    assert world.observations.tolist() == garden.views(task).tolist()
    assert world.observations[world.observation_of_symbol("r")].tolist() == [2, 0, 1]


def test_a_new_domain_draws_its_own_layout(added):
    task = make_task(domain="garden", formula="r;t", layout_seed=3)
    assert sorted(task.positions) == ["r", "t", "w"]  # the well is always there
    assert len({x for x, _ in task.positions.values()}) == 3  # one plant per column
    assert task.positions != make_task(domain="garden", formula="r;t", layout_seed=4).positions
    assert make_task(domain="garden", formula="r", walls=[(3, 3)]).terrain == {(3, 3): "hedge"}


def test_a_new_domain_renders(added):
    env = gymnasium.make("lstoc/Garden-v0", render_mode="rgb_array").unwrapped
    env.reset(seed=0)
    picture = env.render()
    assert picture.shape == (5 * garden.PIXELS, 7 * garden.PIXELS, 3)
    assert picture[-1, 0].tolist() == [110, 70, 30]
    assert env.world.render()[-1, 0].tolist() == [120, 200, 100]


@pytest.mark.parametrize("observation", ["array", "id"])
def test_a_new_domain_passes_gymnasium_s_checks(added, observation):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(
            "lstoc/Garden-v0",
            task="garden-1",
            observation=observation,
            render_mode="rgb_array",
            disable_env_checker=True,
        )
        check_env(env.unwrapped)


def test_a_new_domain_repeats_and_vector_equals_single(added):
    """Random starts, many episodes: two vectors with one seed agree, and each environment plays as a single one."""
    one, two = (make_vec("garden-1", 4, seed=5, start=None) for _ in range(2))
    single = make_env("garden", task="garden-1", observation="id", start=None)
    ids = one.reset()[0]
    np.testing.assert_array_equal(ids, two.reset()[0])
    assert ids[0] == single.reset(seed=5)[0]
    ends = successes = 0
    for actions in np.random.default_rng(0).integers(4, size=(1000, 4)):
        a, b = one.step(actions), two.step(actions)
        for mine, other in zip((*a[:4], a[4]["final_obs"]), (*b[:4], b[4]["final_obs"]), strict=True):
            np.testing.assert_array_equal(mine, other)
        number, reward, terminated, truncated, _ = single.step(actions[0])
        assert (number, reward, terminated, truncated) == (a[4]["final_obs"][0], a[1][0], a[2][0], a[3][0])
        ends, successes = ends + a[2].sum() + a[3].sum(), successes + a[2].sum()
        if terminated or truncated:
            assert single.reset()[0] == a[0][0]
    assert ends > successes > 3


BAD = {
    "symbol": (dict(formula="r;q"), "unknown symbol of the garden domain 'q'; choose one of r, t, w"),
    "view": (dict(formula="r", view=3), "view=3: the garden has none"),
    "no place": (dict(formula="r;t", size=(2, 5)), "no place for 3 letters"),
    "on the hedge": (dict(formula="r", positions={"r": (3, 2)}), "is on a hedge cell"),
}


@pytest.mark.parametrize("what", list(BAD))
def test_a_new_domain_refuses_in_its_own_words(added, what):
    arguments, message = BAD[what]
    with pytest.raises(TaskError, match=message):
        make_task(domain="garden", **arguments)


def test_a_forgotten_domain_is_gone_and_can_be_defined_anew():
    shorter = dataclasses.replace(garden.DOMAIN.defaults, horizon=30)
    for domain in (
        garden.DOMAIN,
        dataclasses.replace(garden.DOMAIN, defaults=shorter, views=lambda t: garden.views(t) + 1),
    ):
        with pytest.raises(TaskError, match="unknown domain 'garden'; "):
            make_task(domain="garden", formula="r")
        registry.register_domain(domain)
        world = compile_world(make_task(domain="garden", formula="r", horizon=40))
        np.testing.assert_array_equal(world.observations, domain.views(world.task))
        registry.forget_domain("garden")
    assert "garden-1" not in TASKS
    assert "lstoc/Garden-v0" not in gymnasium.registry
    with pytest.raises(TaskError, match="unknown added domain 'letter'"):
        registry.forget_domain("letter")


def test_names_are_given_once(added):
    with pytest.raises(TaskError, match="there is a domain 'garden' already"):
        registry.register_domain(garden.DOMAIN)
    with pytest.raises(TaskError, match="there is a domain 'letter' already"):
        registry.register_domain(dataclasses.replace(garden.DOMAIN, name="letter"))
    with pytest.raises(TaskError, match="domain 'garden' has a task 'garden-1' already"):
        registry.register_domain(dataclasses.replace(garden.DOMAIN, name="park"))
    with pytest.raises(TaskError, match=r"domain name 'My Park': use lower-case"):
        dataclasses.replace(garden.DOMAIN, name="My Park")
    with pytest.raises(TaskError, match="two tasks named 'x': rename one"):
        dataclasses.replace(garden.DOMAIN, tasks=(NamedTask("x", "r"), NamedTask("x", "t")))


def test_a_domain_without_named_tasks_asks_for_one():
    registry.register_domain(dataclasses.replace(garden.DOMAIN, tasks=()))
    try:
        with pytest.raises(TaskError, match="no named task: give task=make_task"):
            gymnasium.make("lstoc/Garden-v0")
        task = make_task(domain="garden", formula="r")
        assert gymnasium.make("lstoc/Garden-v0", task=task).unwrapped.task is task
    finally:
        registry.forget_domain("garden")


# ---- the built-in domains ----


def test_the_registry_is_the_folder():
    assert tuple(domain.name for domain in registry.all_domains()) == BUILTIN
    assert domains.builtin_domains() == tuple(sorted(BUILTIN))
    files = Path(domains.__file__).parent.glob("[!_]*.py")
    assert {file.stem for file in files} == set(BUILTIN)
    assert {domains.environment_id(name) for name in BUILTIN} <= set(gymnasium.registry)


def test_tasks_are_listed_by_group_then_by_domain():
    extra = ("office-2-walls", "crafter-2-objects", "robot", "rooms-corridor", "rooms-symmetric")
    assert tuple(TASKS) == (*NINE, *extra)
    named = [task for domain in registry.all_domains() for task in domain.tasks]
    assert {task.name for task in named if task.group is Group.BENCHMARK} == set(NINE)
    assert {task.name for task in named if task.group is Group.GENERALIZATION} == set(extra[:2])


@pytest.mark.parametrize("name", BUILTIN)
def test_every_domain_keeps_the_contract(name):
    """Defaults make a task; views are one per position; picture and agent share a cell; random letters are its own."""
    domain = registry.find_domain(name)
    letters = list(domain.symbols.meaning) or ["a", "b"]
    task = make_task(domain=name, formula=f"{letters[0]};{letters[1]}", layout_seed=2)
    defaults = domain.defaults
    assert (task.size, task.start) == (defaults.size, defaults.start(defaults.size))
    assert (task.view, task.horizon, task.wrap) == (defaults.view, defaults.horizon, defaults.wrap)
    assert set(task.positions) == {*task.formula.symbols, *domain.symbols.always}
    assert set(domain.symbols.always) <= set(domain.symbols.meaning)
    views = domain.views(task)
    assert views.dtype == np.uint8
    assert len(views) == len(task.cells)
    background, agent = domain.picture(task)
    side = len(agent)
    assert agent.shape == (side, side, 4)
    assert background.shape == (task.size[1] * side, task.size[0] * side, 3)
    assert background.dtype == agent.dtype == np.uint8
    assert domain.objection(task) is None
    assert domain.tasks
    assert all(TASKS[named.name].domain == name for named in domain.tasks)


@pytest.mark.parametrize("name", BUILTIN)
def test_given_walls_take_the_place_of_the_domain_s_own(name):
    letters = list(registry.find_domain(name).symbols.meaning) or ["a"]
    task = make_task(domain=name, formula=letters[0], positions={letters[0]: (2, 2)}, walls=[(4, 4)])
    assert task.walls == {(4, 4)}


def test_a_task_is_a_problem():
    """What the loop asks of a task: its FSM, its environments, and a text that tells it from others."""
    task = TASKS["letter-2"]
    assert task.fsm() == task.formula.fsm()
    env = task.vector_env(3, seed=4)
    assert (env.num_envs, env.task) == (3, task)
    assert task.fingerprint == dataclasses.replace(task).fingerprint
    assert task.fingerprint.startswith("letter-2, ((a;b)|c);d, ")
    others = [dataclasses.replace(task, horizon=199), dataclasses.replace(task, wrap=False), TASKS["letter-3"]]
    assert len({task.fingerprint, *(other.fingerprint for other in others)}) == 4


# ---- imports ----

LOADED = "print(json.dumps(sorted({'crafter', 'PIL', 'matplotlib', 'pandas', 'torch', 'networkx'} & set(sys.modules))))"


def test_tasks_import_nothing_heavy_and_worlds_only_what_they_need():
    start = "import json, sys; from lstoc_core.worlds.tasks import TASKS; "
    assert run(start + "list(TASKS); TASKS['letter-1'].vector_env(2, seed=0).reset(); " + LOADED, ROOT) == []
    draw = "from lstoc_core.worlds import compile_world; compile_world('letter-1').render(0); "
    assert run(start + draw + LOADED, ROOT) == ["PIL"]
    crafter = run(start + "TASKS['crafter-1'].vector_env(2, seed=0); " + LOADED, ROOT)
    assert "crafter" in crafter
    assert not {"torch", "matplotlib", "pandas"} & set(crafter)


def test_names_of_domains_are_listed_without_importing_them():
    code = (
        "import json, sys; from lstoc_core.worlds.domains import builtin_domains; names = builtin_domains()\n"
        "print(json.dumps([names, [m for m in sys.modules if m.startswith('lstoc_core.worlds')]]))"
    )
    names, loaded = run(code, ROOT)
    assert names == sorted(BUILTIN)
    assert loaded == ["lstoc_core.worlds", "lstoc_core.worlds.domains"]


def test_lazy_names_are_those_the_type_checker_sees():
    tree = ast.parse(Path(worlds.__file__).read_text())
    typed = {
        (alias.name, node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert typed - {("TYPE_CHECKING", "typing")} == set(worlds._MODULE.items())
    assert {getattr(worlds, name).__name__ for name in worlds.__all__} == set(worlds.__all__) <= set(dir(worlds))
    with pytest.raises(AttributeError, match="no attribute 'maek_vec'"):
        worlds.maek_vec  # noqa: B018


@pytest.mark.parametrize(("missing", "task"), [("crafter", "crafter-1"), ("PIL", "letter-1")])
def test_a_missing_package_is_named_with_its_remedy(missing, task):
    code = (
        f"import json, sys; sys.modules[{missing!r}] = None; from lstoc_core.worlds import compile_world\n"
        f"try: compile_world({task!r}).render(0)\n"
        "except ModuleNotFoundError as error: print(json.dumps([str(error), error.name]))"
    )
    message, name = run(code, ROOT)
    assert name == missing
    assert message.endswith(f"needs the package {missing!r}: pip install 'lstoc-core[worlds]'")

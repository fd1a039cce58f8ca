"""The package as a stranger installs it: a wheel, core dependencies alone, outside the repository, with types."""

import ast
import importlib
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, requires, version
from pathlib import Path

import gymnasium
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import lstoc_core
from lstoc_core import __main__ as entry
from lstoc_core import paths

OUTER = (
    "IPython", "PIL", "crafter", "dask", "distributed", "ipywidgets", "loky", "matplotlib", "minigrid", "nbval",
    "pandas", "papermill", "pyarrow", "seaborn", "tyro",
)  # fmt: skip
"""Libraries of the outer ring, by the names they are imported by. Core dependencies bring networkx and joblib."""


def core_distributions() -> set[str]:
    """The package, its dependencies without extras, and theirs, by normalised name."""
    found, waiting = set(), ["lstoc-core"]
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in found:
            continue
        found.add(name)
        for text in requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found


def hidden() -> set[str]:
    """Names to import of all that is installed here and that core dependencies alone would not install."""
    core = core_distributions() | {"pip", "setuptools"}
    homes = packages_distributions().items()
    return {name for name, owners in homes if not {canonicalize_name(owner) for owner in owners} & core}


WITHOUT_EXTRAS = f"""
import sys
from importlib.machinery import PathFinder

OUTER, HIDDEN = {OUTER!r}, {sorted(hidden())!r}

class Installed:
    '''Finds what core dependencies install, and nothing else that is installed here.'''

    finders = list(sys.meta_path)
    find_distributions = staticmethod(PathFinder.find_distributions)

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            return None
        specs = (finder.find_spec(name, path, target) for finder in self.finders)
        return next(filter(None, specs), None)

sys.meta_path[:] = [Installed()]
"""

DISCOVER = """
import gymnasium
import numpy as np

from lstoc_core import discover, parse

class Corridor(gymnasium.Env):
    '''Seven places in a row. The agent starts in the middle and has to visit the left end, then the right end.'''

    observation_space = gymnasium.spaces.Box(0, 1, (7,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.left, self.steps = 3, False, 0
        return self.seen(), {}

    def step(self, action):
        self.place = min(max(self.place + (1 if action else -1), 0), 6)
        self.steps += 1
        self.left |= self.place == 0
        done, over = self.left and self.place == 6, self.steps >= 40
        return self.seen(), float(done), done, over and not done, {"success": done} if done or over else {}

    def seen(self):
        return np.eye(7, dtype=np.float32)[self.place]

found = discover(lambda: Corridor(), fsm=parse("a;b").fsm(), max_steps=60_000, progress=False)
places = {state.index: int(state.observation.argmax()) for state in found.key_states}
assert found.finished, found.missing
assert [[places[key] for key in sequence] for sequence in found.sequences] == [[0, 6]], places
assert {places[key]: symbol for key, symbol in found.labeling.mapping.items()} == {0: "a", 6: "b"}
assert not set(OUTER) & set(sys.modules)
import lstoc_core
print("found in", lstoc_core.__file__)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """Directory into which a wheel of the package is installed, without its dependencies."""
    source, wheels, target = (tmp_path_factory.mktemp(name) for name in ("source", "wheels", "installed"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "lstoc_core"):
        (source / name).symlink_to(paths.ROOT / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, source], check=True)
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--no-compile", "--target", target, wheel], check=True)
    return target


def run(installed: Path, cwd: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code against the installed package, from a directory outside the repository."""
    start = f"import sys\nsys.path.insert(0, {str(installed)!r})\n"
    return subprocess.run([sys.executable, "-c", start + code], cwd=cwd, capture_output=True, text=True)


# --- a wheel ----------------------------------------------------------------------------------------------------------


def test_core_dependencies_are_enough_to_discover(installed, tmp_path):
    result = run(installed, tmp_path, WITHOUT_EXTRAS + DISCOVER)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(f"found in {installed}")


def test_all_of_the_outer_ring_is_hidden_from_it():
    assert set(OUTER) <= hidden()
    assert not {"torch", "numpy", "cvxpy", "lark", "gymnasium", "lstoc_core"} & hidden()


def test_the_wheel_holds_every_module_and_the_marker_for_types(installed):
    modules = {file.relative_to(paths.ROOT) for file in (paths.ROOT / "lstoc_core").rglob("*.py")}
    assert {file.relative_to(installed) for file in installed.glob("lstoc_core/**/*.py")} == modules
    assert (installed / "lstoc_core" / "py.typed").exists()


def test_names_of_the_inner_ring_need_no_extra(installed, tmp_path):
    outer = ("lstoc_core.worlds", "lstoc_core.scoring")
    inner = [name for name, module in lstoc_core._MODULE.items() if not module.startswith(outer)]
    result = run(installed, tmp_path, f"{WITHOUT_EXTRAS}\nfrom lstoc_core import {', '.join(inner)}")
    assert result.returncode == 0, result.stderr


def test_the_command_names_the_extra_that_is_missing(installed, tmp_path):
    result = run(installed, tmp_path, WITHOUT_EXTRAS + "from lstoc_core.__main__ import main\nmain(['tasks'])")
    assert result.returncode == 2
    assert result.stderr == "lstoc: tyro is not installed; get it with: pip install 'lstoc-core[study]'\n"


def test_tasks_are_listed_outside_a_checkout(installed, tmp_path):
    result = run(installed, tmp_path, "from lstoc_core.__main__ import main\nmain(['tasks'])")
    assert result.returncode == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == list(lstoc_core.TASKS)
    assert all(row[-1] == "-" for row in rows), "the random walk is measured in a checkout"


@pytest.mark.parametrize("command", [["bench"], ["tasks", "--measure"]])
def test_what_needs_a_checkout_says_so(installed, tmp_path, command):
    result = run(installed, tmp_path, f"from lstoc_core.__main__ import main\nmain({command!r})")
    assert result.returncode == 2
    assert "needs a checkout of the repository" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("library", "extra"), [("PIL", "worlds"), ("loky", "study"), ("papermill", "notebooks")])
def test_every_library_of_an_extra_is_found_by_its_import(library, extra):
    assert entry.extra_of(library) == extra


def test_a_library_of_no_extra_is_not_explained_away():
    assert entry.extra_of("no_such_library") is None


# --- names and versions -----------------------------------------------------------------------------------------------

DESIGNED = {
    *("Formula", "FormulaError", "FSM", "parse"),
    *("TASKS", "Task", "make_task", "make_vec"),
    *("Discovery", "KeyState", "SubgoalTree", "TrajectoryStore", "discover", "score"),
    *("Labeling", "LabelingError", "label"),
}


def test_the_designed_names_are_exported():
    assert set(lstoc_core.__all__) >= DESIGNED
    assert set(lstoc_core.__all__) <= set(dir(lstoc_core))


def test_editors_see_the_names_that_are_exported():
    """The imports under TYPE_CHECKING are the lazy exports, name by name and module by module."""
    tree = ast.parse(Path(lstoc_core.__file__).read_text())
    (checked,) = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    typed = {alias.asname: node.module for node in imports for alias in node.names}
    assert typed == lstoc_core._MODULE


@pytest.mark.parametrize("name", lstoc_core.__all__)
def test_every_exported_name_exists(name):
    assert getattr(lstoc_core, name) is getattr(importlib.import_module(lstoc_core._MODULE[name]), name)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="discovr"):
        _ = lstoc_core.discovr


def test_a_type_checker_knows_the_exports(tmp_path):
    """mypy infers the type of an exported name, and reports one that does not exist."""
    config, user = tmp_path / "mypy.ini", tmp_path / "user.py"
    followed = "[mypy-lstoc_core,lstoc_core.logic.*]\nfollow_imports = silent\n"  # all of it, with torch, takes minutes
    config.write_text(f"[mypy]\nfollow_imports = skip\n{followed}")
    user.write_text('import lstoc_core as lstoc\nreveal_type(lstoc.parse("a;b"))\nlstoc.discovr\n')
    command = [sys.executable, "-m", "mypy", f"--config-file={config}", f"--cache-dir={tmp_path / 'cache'}", user]
    checked = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True).stdout
    assert 'Revealed type is "lstoc_core.logic.formula.Formula"' in checked
    assert 'Module has no attribute "discovr"' in checked


def test_every_domain_has_a_gymnasium_id():
    domains = sorted(file.stem for file in (paths.ROOT / "lstoc_core/worlds/domains").glob("[a-z]*.py"))
    registered = {spec.kwargs["domain"]: id for id, spec in gymnasium.registry.items() if id.startswith("lstoc/")}
    assert [registered.get(domain) for domain in domains] == [f"lstoc/{domain.title()}-v0" for domain in domains]


def test_there_is_one_version():
    project = tomllib.loads((paths.ROOT / "pyproject.toml").read_text())["project"]
    assert "version" in project["dynamic"]
    assert version("lstoc-core") == lstoc_core.__version__
    assert yaml.safe_load((paths.ROOT / "CITATION.cff").read_text())["version"] == lstoc_core.__version__
    assert f"## [{lstoc_core.__version__}]" in (paths.ROOT / "CHANGELOG.md").read_text()

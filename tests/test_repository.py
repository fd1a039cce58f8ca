"""The repository keeps its own rules: rings, layout, pinned versions, notebooks fit to be read and compared."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from importlib import metadata
from itertools import chain
from pathlib import Path

import grimp
import pytest
import yaml
from packaging.requirements import Requirement

from lstoc_core import paths
from lstoc_core.drawing.gallery import FURTHER, read_paper_map

ROOT = paths.ROOT
LONGEST_FILE = 450
TOP_LEVEL = {
    *(".ci", ".github", "benchmarks", "data", "docs", "figures", "lstoc_core", "notebooks", "tests"),
    *(
        ".gitignore",
        ".pre-commit-config.yaml",
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "LICENSE",
        "Makefile",
    ),
    *("README.md", "environment.yml", "nbval.cfg", "pyproject.toml"),
    *("requirements-bench.txt", "requirements-site.txt", "requirements.lock"),
}
NOTEBOOKS = sorted(paths.NOTEBOOKS.glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)


def own_files() -> list[Path]:
    """Files of the repository: all that git does not ignore, so that a new file counts before it is committed."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [file for line in listed.stdout.splitlines() if (file := ROOT / line).exists()]


# --- code ------------------------------------------------------------------------------------------------------------


def test_no_file_is_too_long_to_read():
    code = [file for file in own_files() if file.suffix == ".py"]
    long = {str(file.relative_to(ROOT)): n for file in code if (n := file.read_text().count("\n")) > LONGEST_FILE}
    assert not long


def test_the_top_level_holds_what_it_should():
    assert {file.relative_to(ROOT).parts[0] for file in own_files()} == TOP_LEVEL


def test_the_rings_keep_their_contracts():
    """The contracts of pyproject.toml, as `make lint` checks them."""
    linter = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([linter, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"Contracts: \d+ kept, 0 broken", result.stdout)


def test_study_and_drawing_use_each_other_without_a_cycle():
    graph = grimp.build_graph("lstoc_core", exclude_type_checking_imports=True, cache_dir=None)
    both = {name for name in graph.modules if name.startswith(("lstoc_core.study.", "lstoc_core.drawing."))}
    imports = {name: graph.find_modules_directly_imported_by(name) & both for name in both}
    assert len(list(TopologicalSorter(imports).static_order())) == len(both)


def test_no_machine_is_named():
    """Absolute paths of a home or work directory mean that something works on one machine only."""
    pattern = re.compile(r"(?<![\w.])/(?:root|home|work|Users|tmp)/\w")
    text = [file for file in own_files() if file.suffix not in (".gif", ".png", ".pdf", ".parquet", ".npz")]
    named = [str(file.relative_to(ROOT)) for file in text if pattern.search(file.read_text())]
    assert not named


# --- versions --------------------------------------------------------------------------------------------------------


def pins(file: str) -> dict[str, str]:
    """Distribution name (normalised) -> pinned version."""
    lines = [line.strip() for line in (ROOT / file).read_text().splitlines()]
    pinned = [line.split("==") for line in lines if line and not line.startswith(("#", "-"))]
    assert all(len(pair) == 2 for pair in pinned), f"{file} holds something that is not pinned with =="
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pinned}


def requirements() -> dict[str, Requirement]:
    """Everything the project asks for in pyproject.toml, extras included, by normalised name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    parsed = [requirement for requirement in map(Requirement, wanted) if requirement.name != project["name"]]
    return {re.sub(r"[-_.]+", "-", requirement.name).lower(): requirement for requirement in parsed}


def test_everything_the_project_needs_is_pinned_within_its_bounds():
    locked = pins("requirements.lock")
    assert locked["torch"] == "2.13.0"
    assert not [name for name in requirements() if name not in locked]
    outside = [str(needed) for name, needed in requirements().items() if locked[name] not in needed.specifier]
    assert not outside
    assert not [name for name, needed in requirements().items() if not needed.specifier], "without a lower bound"


def test_the_lock_holds_what_its_libraries_need():
    """Every pinned library's own requirements are pinned, too, at a version it accepts."""
    locked = pins("requirements.lock")
    for name in locked:
        for needed in map(Requirement, metadata.requires(name) or ()):
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                other = re.sub(r"[-_.]+", "-", needed.name).lower()
                assert other in locked, f"{name} needs {needed}"
                assert needed.specifier.contains(locked[other], prereleases=True), f"{name} needs {needed}"


@pytest.mark.parametrize("file", ["requirements-bench.txt", "requirements-site.txt"])
def test_extras_of_a_target_are_pinned_and_cannot_move_the_rest(file):
    assert "-c requirements.lock" in (ROOT / file).read_text().splitlines()
    assert not set(pins(file)) & set(pins("requirements.lock"))


def test_the_conda_environment_agrees_with_the_lock():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert environment["channels"] == ["conda-forge"]
    *conda, pip = environment["dependencies"]
    assert pip["pip"] == ["-r requirements.lock", "-e ."], "the pip section comes last and installs the lock"
    versions = dict(re.fullmatch(r"([\w-]+)(?:=+([\d.]+))?", name).groups() for name in conda)
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"PYTHON\s+\?=.*?python([\d.]+)", makefile)[1] == versions.pop("python")
    lock = pins("requirements.lock")
    assert all(version == lock.get(name, version) for name, version in versions.items() if version)


# --- notebooks -------------------------------------------------------------------------------------------------------


def cells(notebook: Path, kind: str = "code") -> list[dict]:
    found = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == kind]
    return [cell for cell in found if "".join(cell["source"]).strip()]


@each_notebook
def test_a_notebook_has_one_cell_of_plain_parameters(notebook):
    tagged = [cell for cell in cells(notebook) if "parameters" in cell["metadata"].get("tags", [])]
    assert len(tagged) == 1
    body = ast.parse("".join(tagged[0]["source"])).body
    assert all(isinstance(node, ast.Assign | ast.AnnAssign) for node in body)
    values = {(n.targets[0] if isinstance(n, ast.Assign) else n.target).id: ast.literal_eval(n.value) for n in body}
    assert (values.get("profile"), values.get("seed")) == ("saved", 0)


@each_notebook
def test_a_notebook_was_run_from_top_to_bottom_without_an_error(notebook):
    code = cells(notebook)
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"], "warnings or progress bars in outputs"


@each_notebook
def test_a_notebook_is_fit_to_be_committed(notebook):
    content = json.loads(notebook.read_text())
    assert set(content["metadata"]) <= {"kernelspec", "language_info"}
    assert content["metadata"]["kernelspec"]["name"] == "python3"
    assert notebook.stat().st_size < 1_500_000
    assert "".join(cells(notebook, "markdown")[0]["source"]).startswith("# ")


@pytest.mark.parametrize(
    "notebook", [path for path in NOTEBOOKS if path.stem[:2] in ("08", "09", "10")], ids=lambda path: path.stem
)
def test_a_notebook_of_results_is_quick_to_read(notebook):
    assert "## The answer" in "".join("".join(cell["source"]) for cell in cells(notebook, "markdown")[:3])
    for cell in cells(notebook, "markdown"):
        assert len("".join(cell["source"]).split()) <= 150, "no more than 150 words"
    for output in (output for cell in cells(notebook) for output in cell["outputs"]):
        table = "".join(output.get("data", {}).get("text/html", ""))
        assert table.count("<tr") <= 14 or table.startswith("<details"), "no more than 12 rows, or folded"
        assert "<td>NaN</td>" not in table


def test_each_notebook_has_a_number_of_its_own():
    numbers = [notebook.stem[:2] for notebook in NOTEBOOKS]
    assert all(number.isdigit() for number in numbers)
    assert len(set(numbers)) == len(numbers)


# --- documents -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("item", read_paper_map(), ids=lambda item: item.name)
def test_every_item_of_the_paper_comes_from_where_the_map_says(item):
    notebook = paths.NOTEBOOKS / f"{item.notebook}.ipynb"
    assert notebook.exists() != item.planned, "(planned) in docs/paper_map.md means: this notebook is not there yet"
    if item.planned or not item.files:
        return
    source = "\n".join("".join(cell["source"]) for cell in cells(notebook))
    assert re.search(rf"""["']{item.name}["']""", source), f"{notebook.name} does not save {item.name}"
    assert {Path(file).suffix for file in item.files} >= {".pdf", ".png"}
    assert all((ROOT / "figures" / file).exists() for file in item.files)


def test_the_map_holds_all_of_the_paper():
    figures = """tl_example ground_diagram fsm fsm_tree fsm_exp traj_exp environments1 task contrastive_acc
        small_contrastive_acc contrastive_temporal learning_efficiency small_learning_efficiency generalization
        limit0"""
    items = [(item.kind, item.name) for item in read_paper_map() if item.kind != FURTHER]
    assert sorted(items) == sorted(
        [("Figure", name) for name in figures.split()]
        + [("Table", "subgoal_efficiency_traj")]
        + [("Algorithm", name) for name in ("main", "contrastive", "lstoc")]
    )


DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), *NOTEBOOKS]


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda path: path.stem)
def test_links_lead_somewhere(file):
    text = file.read_text()
    if file.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    inside = [link for link in links if not link.startswith(("http", "mailto:"))]
    assert not [link for link in inside if not (file.parent / link).exists()]


def test_what_contributing_points_at_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:lstoc_core|tests|docs|\.github|\.ci)/[\w./-]+)`", text)
    assert len(named) > 8
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_workflow_runs_what_a_developer_runs():
    (job,) = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"].values()
    assert ".ci/run" in [step.get("run") for step in job["steps"]]


def test_the_readme_names_every_notebook_and_make_target():
    readme = (ROOT / "README.md").read_text()
    assert not [notebook.name for notebook in NOTEBOOKS if notebook.name not in readme]
    targets = re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert not [target for target in re.findall(r"`make (\w+)", readme) if target not in targets]


@pytest.mark.parametrize("name", ["README.md", "docs/results.md", "docs/your_own_environment.md"])
def test_lines_of_prose_are_short(name):
    text = re.sub(r"^```.*?^```", "", (ROOT / name).read_text(), flags=re.DOTALL | re.MULTILINE)
    assert not [line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")]


def test_pictures_of_the_readme_exist_and_have_a_text():
    tags = re.findall(r"<(?:img|source)\b[^>]*>", (ROOT / "README.md").read_text())
    links = re.findall(r'href="([^"]+)"', (ROOT / "README.md").read_text())
    assert len(tags) > 8
    shown = [re.search(r'\bsrc(?:set)?="([^"]+)"', tag)[1] for tag in tags]
    assert not [name for name in (*shown, *links) if not (ROOT / name).exists()]
    assert not [tag for tag in tags if tag.startswith("<img") and not re.search(r'\balt="[^"]{5,}"', tag)]


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda path: path.stem)
def test_source_files_that_are_named_exist(file):
    """A `module.py` in backticks is the end of some file's path."""
    text = (
        file.read_text() if file.suffix == ".md" else "\n".join("".join(c["source"]) for c in cells(file, "markdown"))
    )
    sources = [f"/{source.relative_to(ROOT)}" for source in own_files() if source.suffix == ".py"]
    named = re.findall(r"`([\w/]+\.py)[`: ]", text)
    assert not [name for name in named if not any(source.endswith(f"/{name}") for source in sources)]

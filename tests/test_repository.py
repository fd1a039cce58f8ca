"""The repository keeps its own rules: layers, layout, pinned versions, notebooks fit to be read and compared."""

import ast
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from lstoc_core import paths
from lstoc_core.drawing.gallery import read_paper_map

ROOT = paths.ROOT
LONGEST_FILE = 450
TOP_LEVEL = {
    *(".ci", "benchmarks", "data", "docs", "figures", "lstoc_core", "notebooks", "tests"),
    *(".gitignore", "CITATION.cff", "LICENSE", "Makefile", "README.md", "environment.yml", "nbval.cfg"),
    *("pyproject.toml", "requirements-bench.txt", "requirements.lock"),
}
MODULES = sorted((ROOT / "lstoc_core").rglob("*.py"))
NOTEBOOKS = sorted(paths.NOTEBOOKS.glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [file for line in listed.stdout.splitlines() if (file := ROOT / line).exists()]


# --- code ------------------------------------------------------------------------------------------------------------


def test_no_file_is_too_long_to_read():
    code = [file for file in tracked_files() if file.suffix == ".py"]
    long = {str(file.relative_to(ROOT)): n for file in code if (n := file.read_text().count("\n")) > LONGEST_FILE}
    assert not long


def test_the_top_level_holds_what_it_should():
    assert {file.relative_to(ROOT).parts[0] for file in tracked_files()} == TOP_LEVEL


def test_no_machine_is_named():
    """Absolute paths of a home or work directory mean that something works on one machine only."""
    pattern = re.compile(r"(?<![\w.])/(?:root|home|work|Users|tmp)/\w")
    text = [file for file in tracked_files() if file.suffix not in (".png", ".pdf", ".parquet", ".npz")]
    named = [str(file.relative_to(ROOT)) for file in text if pattern.search(file.read_text())]
    assert not named


# --- versions --------------------------------------------------------------------------------------------------------


def pins(file: str) -> dict[str, str]:
    """Distribution name (normalised) -> pinned version."""
    lines = [line.strip() for line in (ROOT / file).read_text().splitlines()]
    pinned = [line.split("==") for line in lines if line and not line.startswith(("#", "-"))]
    assert all(len(pair) == 2 for pair in pinned), f"{file} holds something that is not pinned with =="
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pinned}


def test_everything_the_project_needs_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {*project["dependencies"], *project["optional-dependencies"]["test"]}
    names = {re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", name)[0]).lower() for name in wanted}
    assert names <= set(pins("requirements.lock"))
    assert pins("requirements.lock")["torch"] == "2.13.0"


def test_benchmark_extras_are_pinned_and_cannot_move_the_rest():
    lines = (ROOT / "requirements-bench.txt").read_text().splitlines()
    assert "-c requirements.lock" in lines
    assert not set(pins("requirements-bench.txt")) & set(pins("requirements.lock"))


def test_the_conda_environment_agrees_with_the_lock():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert environment["channels"] == ["conda-forge"]
    *conda, pip = environment["dependencies"]
    assert pip["pip"] == ["-r requirements.lock", "-e ."], "the pip section comes last and installs the lock"
    versions = dict(re.fullmatch(r"([\w-]+)(?:=+([\d.]+))?", name).groups() for name in conda)
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"PYTHON\s+\?= python([\d.]+)", makefile)[1] == versions.pop("python")
    lock = pins("requirements.lock")
    assert all(version == lock.get(name, version) for name, version in versions.items() if version)


def test_versions_of_the_project_agree():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    assert f'__version__ = "{version}"' in (ROOT / "lstoc_core/__init__.py").read_text()


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
    items = [(item.kind, item.name) for item in read_paper_map()]
    assert sorted(items) == sorted(
        [("Figure", name) for name in figures.split()]
        + [("Table", "subgoal_efficiency_traj")]
        + [("Algorithm", name) for name in ("main", "contrastive", "lstoc")]
    )


DOCUMENTS = [ROOT / "README.md", ROOT / "docs" / "decisions.md", ROOT / "docs" / "paper_map.md", *NOTEBOOKS]


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda path: path.stem)
def test_links_lead_somewhere(file):
    text = file.read_text()
    if file.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    inside = [link for link in links if not link.startswith(("http", "mailto:"))]
    assert not [link for link in inside if not (file.parent / link).exists()]


def test_the_readme_names_every_notebook_and_make_target():
    readme = (ROOT / "README.md").read_text()
    assert not [notebook.name for notebook in NOTEBOOKS if notebook.name not in readme]
    targets = re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert not [target for target in re.findall(r"`make (\w+)", readme) if target not in targets]

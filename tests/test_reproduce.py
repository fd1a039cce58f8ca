"""reproduce.py and gallery.py on tiny notebooks in a directory of their own."""

import ast
import csv
import json
import pathlib
import re
import signal
import subprocess
import sys
import textwrap
import time
from html.parser import HTMLParser

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from lstoc_core import paths
from lstoc_core import reproduce as driver
from lstoc_core.drawing import gallery
from lstoc_core.study import experiments
from lstoc_core.study.cache import RunsFailed
from lstoc_core.study.claims import CLAIMS

NOTEBOOKS = paths.NOTEBOOKS
"""The real ones; `places` puts others in their place."""
READERS = ("runs", "experiment")
DRAW = """
import os, pathlib
directory = pathlib.Path(os.environ["LSTOC_FIGURES"])
for name in {files}:
    (directory / name).write_text(f"{{profile}} {{seed}}")
"""
MAP = """
| Item | What it shows | Notebook | Function | Files |
|---|---|---|---|---|
| Figure `first` | A & B < C | `00_good` | `f` | `first.pdf` `first.png` |
| Algorithm `thinking` | Nothing to see | `00_good` | `g` | — |
| Figure `second` | Broken | `01_broken` | `h` | `second.png` |
| Table `third` | Forgotten | `02_forgetful` | `h` | `third.png` `third.csv` |
| Figure `later` | Not yet | `09_later` (planned) | `h` | `later.png` |
"""


def write(name, *sources, tags=("parameters",), parameters='profile = "saved"\nseed = 0'):
    cells = [new_markdown_cell("# A title"), new_code_cell(parameters, metadata={"tags": list(tags)})]
    notebook = new_notebook(cells=[*cells, *map(new_code_cell, sources)])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, paths.NOTEBOOKS / f"{name}.ipynb")


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    for name in ("NOTEBOOKS", "BUILD"):
        monkeypatch.setattr(paths, name, tmp_path / name.lower())
    monkeypatch.setenv("LSTOC_FIGURES", str(tmp_path / "figures"))
    paths.NOTEBOOKS.mkdir()
    paper_map = tmp_path / "paper_map.md"
    paper_map.write_text(MAP)
    monkeypatch.setattr(driver, "read_paper_map", lambda: gallery.read_paper_map(paper_map))
    monkeypatch.setattr(driver, "write_thumbnails", lambda *_: [])  # these figures are no pictures
    return tmp_path


def test_one_good_one_broken_one_forgetful(tmp_path):
    """The whole command, once: what works is drawn, what does not is named, and nothing stops the others."""
    write("00_good", DRAW.format(files=["first.pdf", "first.png"]), "assert os.environ['OMP_NUM_THREADS'] == '1'")
    write("01_broken", "x = 1", "def f():\n    raise RuntimeError('the reason')\nf()", "print('never')")
    write("02_forgetful", DRAW.format(files=["third.csv", "film.gif"]))
    figures = tmp_path / "figures"
    figures.mkdir()
    (figures / "third.png").write_text("old")

    results = driver.reproduce("quick", parameters={"seed": 7})

    assert [(r.notebook, r.status, r.figures, r.promised) for r in results] == [
        ("00_good", "ok", 1, 1),
        ("01_broken", "failed", 0, 1),
        ("02_forgetful", "figures missing", 0, 1),
    ]
    assert (figures / "first.png").read_text() == "quick 7"
    assert "cell [4]" in results[1].error
    assert "RuntimeError: the reason" in results[1].error
    assert results[2].error == "not drawn: third.png", "a figure left over from before must not count"
    text = driver.summary(results)
    assert "01_broken: failed: cell [4]" in text
    assert "02_forgetful: figures missing: not drawn: third.png" in text
    assert (
        driver.closing(results, "quick") == f"3 figures changed: film, first, third\ngallery: {figures / 'index.html'}"
    )

    build = paths.BUILD / "quick"
    assert sorted(path.name for path in (build / "notebooks").iterdir()) == [
        "00_good.ipynb",
        "01_broken.ipynb",
        "02_forgetful.ipynb",
    ]
    with (build / "summary.csv").open() as file:
        assert [row["status"] for row in csv.DictReader(file)] == ["ok", "failed", "figures missing"]
    record = json.loads((figures / "provenance.json").read_text())
    assert set(record) == {"first.pdf", "first.png", "third.csv", "film.gif"}
    assert record["first.png"]["notebook"] == "00_good"
    assert record["first.png"]["profile"] == "quick"
    check_gallery(figures)
    again = driver.reproduce("quick", only=["good"], parameters={"seed": 7})
    assert driver.closing(again, "quick").startswith("no figure changed\n"), "drawn anew, but the same"


def check_gallery(figures):
    """Every item is on the page, every link and picture exists, and the text is valid."""
    page = (figures / "index.html").read_text()
    seen = {"links": set(), "sections": set(), "open": [], "alts": []}

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            values = dict(attributes)
            seen["links"] |= {values[name] for name in ("href", "src") if name in values}
            seen["sections"] |= {values["id"]} if tag == "section" else set()
            if tag == "img":
                seen["alts"].append(values.get("alt"))
            if tag not in ("meta", "img", "input", "source"):
                seen["open"].append(tag)

        def handle_endtag(self, tag):
            assert seen["open"].pop() == tag

    Reader().feed(page)
    assert seen["open"] == []
    assert seen["sections"] == {"first", "thinking", "second", "third", "later", "film"}
    notebooks = {f"../notebooks/{name}.ipynb" for name in ("00_good", "01_broken", "02_forgetful")}
    assert seen["links"] == {"first.pdf", "first.png", "third.png", "third.csv", "film.gif", *notebooks}
    assert all((figures / link).exists() for link in seen["links"])
    assert "A &amp; B &lt; C" in page
    assert page.count("not drawn yet") == 2
    assert "<dd>quick · " in page
    assert all(seen["alts"]), "every picture has a text in its place"


def test_a_figure_that_no_map_names_is_shown_with_its_notebook(tmp_path):
    """Found by its name in the code; a still of the same name takes the film's place for who wants no motion."""
    figures = tmp_path / "figures"
    figures.mkdir()
    for name in ("film.gif", "film.png", "lonely.png", "first.png", "first.gif"):
        (figures / name).touch()
    write("01_broken", "save_film(frames, 'film')")
    items = gallery.read_paper_map(tmp_path / "paper_map.md")
    found = {
        item.name: item
        for item in gallery.all_items(figures, items, [gallery.Notebook(paths.NOTEBOOKS / "01_broken.ipynb")])
    }
    assert (found["film"].notebook, found["film"].caption) == ("01_broken", "Film: A title")
    assert found["film"].files == ("film.gif", "film.png")
    assert (found["lonely"].notebook, found["lonely"].kind) == ("", gallery.FURTHER)
    assert found["first"].files == ("first.pdf", "first.png", "first.gif"), "a film of a figure of the paper"
    page = gallery.write_gallery(figures, items).read_text()
    assert '<source media="(prefers-reduced-motion: reduce)" srcset="film.png"><img src="film.gif"' in page


def test_the_gallery_tells_the_claims_of_the_committed_runs(tmp_path):
    """The real map and claims: a figure that shows a claim has it on its card, with verdict, number, runs and seeds."""
    (tmp_path / "generalization.png").touch()
    page = gallery.write_gallery(tmp_path, gallery.read_paper_map()).read_text()
    card = re.search('<section id="generalization".*?</section>', page, re.DOTALL)[0]
    shown = [claim for claim in gallery.read_claims() if claim.figure == "generalization"]
    assert len(shown) == 3
    for claim in shown:
        assert claim.text in card
        assert f">{claim.verdict}</span> {claim.number}" in card
    assert "run generalization -P paper --save" in card
    assert "0 to 4 (committed runs" in card


def test_every_figure_of_a_claim_is_in_the_map():
    assert {claim.figure for claim in gallery.read_claims()} <= {item.name for item in gallery.read_paper_map()}
    assert [claim.text for claim in gallery.read_claims()] == [claim.text for claim in CLAIMS], "none is left out"


def test_runs_come_first_all_in_one_go(monkeypatch, capsys):
    def compute(names, profile):
        asked.append((list(names), profile))
        raise RunsFailed({"a-run": "its traceback"}, 2)

    asked = []
    monkeypatch.setattr(experiments, "compute", compute)
    declared = 'profile = "saved"\nseed = 0\nexperiments = {}'
    write("00_good", DRAW.format(files=["first.pdf", "first.png"]), parameters=declared.format(["ablation"]))
    write("01_more", parameters=declared.format(["accuracy", "ablation"]))
    write("02_none")
    assert all(result.ok for result in driver.reproduce("quick")), "notebooks run although runs failed"
    assert asked == [(["ablation", "accuracy"], "quick")]
    assert "its traceback" in capsys.readouterr().err
    driver.reproduce("quick", only=["00_good"])
    driver.reproduce("saved")
    assert asked[1:] == [(["ablation"], "quick")]


def test_smoke_leaves_the_committed_figures_alone(tmp_path):
    write("00_good", DRAW.format(files=["first.pdf", "first.png"]))
    (result,) = driver.reproduce("smoke")
    assert result.ok
    assert (paths.BUILD / "smoke/figures/first.png").read_text() == "smoke 0"
    assert (paths.BUILD / "smoke/figures/index.html").exists()
    assert not (tmp_path / "figures").exists() or not any((tmp_path / "figures").iterdir())


@pytest.mark.parametrize(
    ("only", "stems"),
    [
        ([], ["00_good", "04_more"]),
        (["00_good"], ["00_good"]),
        (["4"], ["04_more"]),
        (["04", "good"], ["00_good", "04_more"]),
        (["first"], ["00_good"]),
    ],
)
def test_only_takes_names_numbers_and_figures(only, stems):
    write("00_good")
    write("04_more")
    notebooks = sorted(paths.NOTEBOOKS.glob("*.ipynb"))
    assert [path.stem for path in driver.select(notebooks, only, driver.read_paper_map())] == stems


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"profile": "fast"}, "unknown profile 'fast'; choose one of smoke, quick"),
        ({"only": ["frist"]}, "unknown notebook or figure 'frist'; did you mean first"),
        ({"only": ["later"]}, "'later'"),
        ({"parameters": {"sede": 1}}, "no parameter 'sede', it has profile, seed"),
        ({"parameters": {"seed": "one"}}, "seed is int"),
        ({"profile": "smoke", "parameters": {"profile": "paper"}}, "given by --profile"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_runs(arguments, message):
    write("00_good", "raise AssertionError('was run')")
    with pytest.raises(driver.UsageError, match=message):
        driver.reproduce(**arguments)
    assert not paths.BUILD.exists()


def test_an_unknown_experiment_is_named_before_anything_runs():
    write("00_good", parameters='profile = "saved"\nseed = 0\nexperiments = ["acuracy"]')
    with pytest.raises(driver.UsageError, match=r"00_good\.ipynb: unknown experiment 'acuracy'; did you mean accuracy"):
        driver.reproduce("saved")
    assert not paths.BUILD.exists()


@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_reads_the_experiments_that_it_declares(notebook):
    """`runs` and `experiment` are called with declared names alone, and every declared one is read."""
    cells = [cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    calls = [
        node
        for source in cells
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in READERS
    ]
    read = {ast.literal_eval(call.args[0]) for call in calls}
    assert read == set(driver.declared_experiments(notebook))


@pytest.mark.parametrize("case", [{"tags": ()}, {"parameters": "# nothing"}])
def test_a_notebook_without_parameters_is_refused(case):
    write("00_good", **case)
    with pytest.raises(driver.UsageError, match=r"00_good\.ipynb has no cell tagged 'parameters'"):
        driver.reproduce("smoke")


def test_a_hanging_notebook_is_given_up(monkeypatch):
    monkeypatch.setattr(driver, "CELL_WITHIN", 1)
    write("00_good", "import time", "time.sleep(600)")
    (result,) = driver.reproduce("smoke")
    assert (result.status, "Timeout" in result.error) == ("failed", True)


def test_figures_go_where_a_relative_path_says_from_here(tmp_path, monkeypatch):
    """Kernels work in the directory of notebooks, so they are told the absolute path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LSTOC_FIGURES", "pictures")
    write("00_good", DRAW.format(files=["first.pdf", "first.png"]))
    assert driver.reproduce("quick")[0].ok
    assert (tmp_path / "pictures/first.png").exists()
    monkeypatch.setenv("LSTOC_FIGURES", "")
    assert paths.figures() == paths.ROOT / "figures"


def test_ctrl_c_ends_the_command_and_its_kernels(tmp_path):
    write("01_more", "import time\ntime.sleep(600)")
    write(
        "02_last",
        f"import os, pathlib\npathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
        "import time\ntime.sleep(600)",
    )
    program = textwrap.dedent(
        f"""
        import pathlib, signal, sys
        from lstoc_core import cli, paths, reproduce
        from lstoc_core.drawing import gallery
        signal.signal(signal.SIGINT, signal.default_int_handler)
        paths.NOTEBOOKS, paths.BUILD = pathlib.Path({str(paths.NOTEBOOKS)!r}), pathlib.Path({str(paths.BUILD)!r})
        reproduce.read_paper_map = lambda: gallery.read_paper_map(pathlib.Path({str(tmp_path / "paper_map.md")!r}))
        cli.main(["reproduce", "-P", "smoke", "--only", "1", "--only", "2"])
        """
    )
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    kernel = int((tmp_path / "pid").read_text())
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - start < 3
    assert (process.returncode, "interrupted" in err, "Traceback" in err) == (130, True, False)
    assert not is_running(kernel)


def is_running(process):
    """Whether a process exists and is no zombie."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_no_notebooks_is_an_error():
    with pytest.raises(driver.UsageError, match="no notebooks"):
        driver.reproduce("smoke")


def test_a_malformed_row_of_the_map_is_named(tmp_path):
    file = tmp_path / "bad.md"
    file.write_text("| Figure `x` | caption | somewhere | `f` | `x.png` |")
    with pytest.raises(ValueError, match=r"bad\.md.*somewhere"):
        gallery.read_paper_map(file)
    file.write_text("nothing here")
    with pytest.raises(ValueError, match="names no figure"):
        gallery.read_paper_map(file)

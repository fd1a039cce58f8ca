"""The site: its checks notice what is broken. `browser/test_site_pages.py` looks at its pages."""

import importlib.util

import pytest

from lstoc_core import paths
from lstoc_core.drawing.gallery import Item


def script(name):
    """A module of docs/site, which is no package."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", paths.ROOT / "docs" / "site" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def check():
    return script("check")


@pytest.fixture(scope="module")
def sources():
    return script("sources")


GOOD = '<h1 id="top">x</h1><a href="#top">up</a><a href="b.html#place">b</a><a href="https://else.where/">out</a>'
GOOD += '<img src="p.png" alt="a picture"><link rel="stylesheet" href="s.css?v=1">'


def build(directory, body=GOOD, style=""):
    (directory / "a.html").write_text(f"<!doctype html><body>{body}</body>")
    (directory / "b.html").write_text('<p id="place">here</p>')
    (directory / "p.png").touch()
    (directory / "s.css").write_text(style)
    return directory


def test_a_site_without_a_fault_passes(check, tmp_path):
    assert check.problems(build(tmp_path)) == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="c.html">c</a>', "a.html: leads nowhere: c.html"),
        ('<a href="b.html#elsewhere">c</a>', "a.html: no such place: b.html#elsewhere"),
        ('<img src="q.png" alt="x">', "a.html: leads nowhere: q.png"),
        ('<picture><source srcset="q.png"><img src="p.png" alt="x"></picture>', "a.html: leads nowhere: q.png"),
        ('<img src="p.png">', "a.html: picture without a text: p.png"),
        ('<img src="p.png" alt=" ">', "a.html: picture without a text: p.png"),
        (
            '<script src="https://cdn.example/x.js"></script>',
            "a.html: loaded from the network: https://cdn.example/x.js",
        ),
    ],
)
def test_what_is_broken_is_named(check, tmp_path, body, problem):
    assert check.problems(build(tmp_path, body)) == [problem]


def test_a_style_that_loads_from_the_network_is_named(check, tmp_path):
    found = check.problems(build(tmp_path, style="@import url(https://fonts.example/f.css);"))
    assert found == ["s.css: loaded from the network: https://fonts.example/f.css"]


def test_links_of_the_readme_lead_to_pages(sources):
    text = '<a href="notebooks/00_x.ipynb">x</a> [g](figures/index.html) [l](LICENSE) [d](docs/d.md)'
    assert sources.for_site(text) == '<a href="notebooks/00_x.html">x</a> [g](/gallery.md) l [d](docs/d.md)'


def test_every_picture_of_a_notebook_gets_a_text(sources):
    def code(source):
        return {"cell_type": "code", "source": source, "metadata": {}, "outputs": [{"data": {"image/png": ""}}]}

    def text(source):
        return {"cell_type": "markdown", "source": source, "metadata": {}}

    cells = [
        text("## A *heading*"), code("plt.show()"), code('save_figure(fig, "known")'), code("draw()"),
        text("**How to read this** (as before). Left: $f$. Right: more.\n\nAnother paragraph."),
    ]  # fmt: skip
    found = sources.with_texts({"cells": cells}, [Item("Figure", "known", "A caption", "00_x", False, "`f`", ())])
    texts = [cell["metadata"]["mystnb"]["image"]["alt"] for cell in found["cells"] if cell["cell_type"] == "code"]
    assert texts == ["Left: f. Right: more.", "A caption", "Left: f. Right: more."]
    assert sources.with_texts({"cells": cells[:2]}, [])["cells"][1]["metadata"]["mystnb"]["image"]["alt"] == "A heading"

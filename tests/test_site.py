"""The site: its checks notice what is broken. Where it was built and a browser is there: every page as it is seen."""

import importlib.util
import os
import shutil

import pytest

from lstoc_core import paths
from lstoc_core.drawing.gallery import Item

SITE = paths.BUILD / "site"
BROWSER = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


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


# --- in a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    if not (SITE / "index.html").exists():
        pytest.skip("the site is not built: make site")
    if BROWSER is None:
        pytest.skip("no Chromium is installed: apt-get install chromium, or name it in CHROMIUM")
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_every_page_shows_all_its_pictures_and_fits(browser, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    failed = []
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.on("pageerror", lambda error: failed.append(str(error)))
    for file in sorted(SITE.rglob("*.html")):
        page.goto(file.as_uri())
        page.evaluate("document.querySelectorAll('img').forEach((image) => { image.loading = 'eager' })")
        page.wait_for_function("[...document.images].every((image) => image.complete)")
        empty = page.evaluate("[...document.images].filter((i) => !i.naturalWidth).map((i) => i.src.slice(-80))")
        assert (file.name, empty, failed) == (file.name, [], [])
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{file.name} is wider than the screen"
    luminance = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)")
    assert (sum(luminance) > 384) == (scheme == "light")
    context.close()


def test_the_slider_moves_without_a_kernel(browser):
    page = browser.new_page()
    page.goto((SITE / "notebooks" / "05_tree_building.html").as_uri())
    seen = "[...document.querySelectorAll('.lstoc-slider img')].filter((i) => i.offsetParent).map((i) => i.alt)"
    (last,) = page.evaluate(seen)
    page.locator(".lstoc-slider input").evaluate("(input) => { input.value = 0; input.oninput() }")
    (first,) = page.evaluate(seen)
    assert "every success is explained" in last
    assert "begin at" in first
    page.close()


def test_the_gallery_filters_its_cards(browser):
    page = browser.new_page()
    page.goto((SITE / "gallery.html").as_uri())
    cards = page.locator(".gallery section:visible")
    everything = cards.count()
    page.locator(".gallery select[name=verdicts]").select_option("differs")
    assert 0 < cards.count() < everything
    assert all("differs" in text for text in cards.all_inner_texts())
    page.locator(".gallery select[name=verdicts]").select_option("")
    page.locator(".gallery input").fill("generalization unseen")
    assert [text.split("\n")[0] for text in cards.all_inner_texts()] == ["Figure generalization"]
    page.close()


def test_notebooks_lead_to_the_next_one(browser):
    page = browser.new_page()
    names = [file.stem for file in sorted(paths.NOTEBOOKS.glob("[0-9]*.ipynb"))]
    page.goto((SITE / "notebooks" / f"{names[0]}.html").as_uri())
    for name in names[1:]:
        page.locator("a.next-page").click()
        assert page.url.endswith(f"/{name}.html")
    page.close()

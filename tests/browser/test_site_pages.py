"""The site as it is seen: on a desk and on a telephone, in the light and in the dark."""

from itertools import product

import pytest

from lstoc_core import paths

SITE = paths.BUILD / "site"
WIDTHS, SCHEMES = (1400, 390), ("light", "dark")
BROKEN = "[...document.images].filter((image) => !image.naturalWidth).map((image) => image.src.slice(-80))"
BACKGROUND = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"


@pytest.fixture(scope="module", autouse=True)
def built():
    if not (SITE / "index.html").exists():
        pytest.skip("the site is not built: make site")


def test_every_page_shows_all_its_pictures_and_fits(page):
    failed, links = [], set()
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.on("pageerror", lambda error: failed.append(str(error)))
    files = sorted(SITE.rglob("*.html"))
    for file in files:
        page.goto(file.as_uri())
        page.evaluate("document.querySelectorAll('img').forEach((image) => { image.loading = 'eager' })")
        for width, scheme in product(WIDTHS, SCHEMES):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function("[...document.images].every((image) => image.complete)")
            shown = f"{file.name} at {width} px, {scheme}"
            assert (shown, page.evaluate(BROKEN), failed) == (shown, [], [])
            assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{shown}, is wider than the screen"
            assert (sum(page.evaluate(BACKGROUND)) > 384) == (scheme == "light"), shown
        links |= set(page.evaluate("[...document.links].map((link) => link.href.split('#')[0])"))
    inside = {link for link in links if link.startswith("file:")}
    assert len(inside) >= len(files) > 20
    known = {file.as_uri() for file in SITE.rglob("*") if file.is_file()}
    assert inside <= known, "links that lead nowhere"


def test_the_slider_moves_without_a_kernel(page):
    page.goto((SITE / "notebooks" / "05_tree_building.html").as_uri())
    slider = page.locator(".lstoc-slider")
    shown = slider.locator("img:visible")
    assert "every success is explained" in shown.get_attribute("alt")
    slider.locator("input").press("Home")
    assert "begin at" in shown.get_attribute("alt")


def test_the_gallery_filters_its_cards(page):
    page.emulate_media(color_scheme="dark")
    page.goto((SITE / "gallery.html").as_uri())
    cards = page.locator(".gallery section:visible")
    everything = cards.count()
    page.locator(".gallery select[name=verdicts]").select_option("differs")
    assert 0 < cards.count() < everything
    assert all("differs" in text for text in cards.all_inner_texts())
    page.locator(".gallery select[name=verdicts]").select_option("")
    page.locator(".gallery input").fill("generalization unseen")
    assert [text.split("\n")[0] for text in cards.all_inner_texts()] == ["Figure generalization"]


def test_notebooks_lead_to_the_next_one(page):
    names = [file.stem for file in sorted(paths.NOTEBOOKS.glob("[0-9]*.ipynb"))]
    page.goto((SITE / "notebooks" / f"{names[0]}.html").as_uri())
    for name in names[1:]:
        page.locator("a.next-page").click()
        page.wait_for_url(f"**/{name}.html")

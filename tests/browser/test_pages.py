"""The live view and the playground, in a real browser."""

import re

import pytest

import lstoc_core as lstoc


def run_all(page, address):
    """Open a notebook in JupyterLab and run its cells."""
    page.goto(address)
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first.wait_for()
    prompt = page.locator(".jp-CodeCell .jp-InputArea-prompt").first
    for _ in range(5):  # a click while the kernel connects is lost, or asks for the kernel
        page.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Run$")).click()
        page.get_by_text("Run All Cells", exact=True).click()
        page.wait_for_timeout(4_000)
        if (select := page.locator(".jp-Dialog button", has_text="Select")).count():
            select.last.click()
            page.wait_for_timeout(4_000)
        if prompt.inner_text().strip() not in ("[ ]:", ""):
            return
    raise AssertionError("the cells were not run")


def test_the_live_view_reaches_proved(page, lab):
    run_all(page, lab("00_overview"))
    view = page.locator(".lstoc-live")
    view.wait_for()
    view.scroll_into_view_if_needed()
    size = view.bounding_box()["height"]
    view.get_by_text("proved after 11 trajectories, 11 successes").wait_for()
    assert view.get_by_text("at (3, 2)", exact=True).count() == 1
    assert view.get_by_text("?", exact=True).count() == 0
    assert abs(view.bounding_box()["height"] - size) <= 1, "the height stays"


@pytest.mark.xfail(reason="not shown yet: a kernel that is busy may see the click only after the cell; interrupt it")
def test_a_long_run_is_watched_and_stopped(page, lab, notebooks):
    """A run whose answer a million episodes are to confirm: the view draws, and the Stop button ends it."""
    source = (
        "import lstoc_core as lstoc\n"
        'd = lstoc.discover("letter-1", seed=0, watch=True, confirm=1_000_000, max_steps=100_000_000)\n'
        'print("interrupted", d.interrupted)'
    )
    write_notebook(notebooks / "long.ipynb", source)
    run_all(page, lab("long"))
    view = page.locator(".lstoc-live")
    view.get_by_text(re.compile(r"\d+ of [\d,]+ episodes done")).wait_for()
    view.get_by_role("button", name="Stop").click()
    page.get_by_text("interrupted True").wait_for()


def write_notebook(path, source):
    import nbformat
    from nbformat.v4 import new_code_cell, new_notebook

    made = new_notebook(cells=[new_code_cell(source)])
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(made, path)


def play(page):
    """Place letters by clicks, run, and compare what is built with what was clicked."""
    field = page.locator(".lstoc-playground")
    field.wait_for()
    field.get_by_text("Run", exact=True).wait_for()
    field.get_by_text("proved after 11 episodes").wait_for()  # the notebook runs the first task
    wanted = {"a": (2, 1), "b": (6, 4)}
    for letter, (x, y) in wanted.items():
        field.locator(".widget-toggle-buttons button", has_text=re.compile(f"^{letter}$")).click()
        field.locator(f'button[title="{x}, {y}"]').click()
        field.locator(f'button[title="{x}, {y}"]', has_text=letter).wait_for()
    x, y = lstoc.TASKS["letter-2"].positions["a"]
    assert not field.locator(f'button[title="{x}, {y}"]').inner_text().strip(), "a has moved"
    formula = field.locator("input[type=text]").first
    formula.fill("a;b")
    formula.press("Enter")
    field.get_by_text("Names are unique").wait_for()
    line = field.locator("textarea")
    page.wait_for_function("box => box.value.includes(\"formula='a;b'\")", arg=line.element_handle())
    task = eval(line.input_value(), {"lstoc": lstoc})
    positions = {**lstoc.TASKS["letter-2"].positions, **wanted}
    assert task == lstoc.make_task(domain="letter", formula="a;b", positions=positions)
    field.locator("button", has_text="Run").click()
    field.get_by_text("a at (2, 1), b at (6, 4)").wait_for()
    field.get_by_text(re.compile(r"^proved after \d+ episodes")).wait_for()
    field.get_by_text("reveal the truth").click()


def test_the_playground_in_jupyterlab(page, lab):
    run_all(page, lab("12_playground"))
    play(page)


def test_the_playground_as_a_page_of_its_own(page, voila):
    page.goto(voila.split("/voila/")[0])
    play(page)

"""Live view, panels and playground, in a real browser, run by real kernels."""

import re

import lstoc_core as lstoc

LONG = """
import lstoc_core as lstoc
d = lstoc.discover("letter-1", seed=0, watch=True, confirm=1_000_000, max_steps=100_000_000)
print("a Discovery of", len(d.trajectories), "trajectories, interrupted", d.interrupted)
"""
"""A run whose answer a million episodes are to confirm."""


def test_the_live_view_reaches_proved(page, run_all):
    run_all("00_overview")
    view = page.locator(".lstoc-live")
    view.wait_for()
    view.scroll_into_view_if_needed()
    size = view.bounding_box()["height"]
    view.get_by_text("proved after 11 trajectories, 11 successes").wait_for()
    for letter, cell in lstoc.TASKS["letter-2"].positions.items():
        assert view.get_by_text(f"at {cell}", exact=True).count() == (letter in "abcd")
    assert view.get_by_text("?", exact=True).count() == 0
    assert abs(view.bounding_box()["height"] - size) <= 1, "the height stays"


def test_a_long_run_is_watched_and_stopped(page, run_all, written):
    run_all(written("long", LONG))
    view = page.locator(".lstoc-live")
    view.get_by_text(re.compile(r"\d+ of [\d,]+ episodes done")).wait_for()
    view.get_by_role("button", name="Stop").click()
    page.get_by_text(re.compile(r"a Discovery of \d+ trajectories, interrupted True")).wait_for()
    view.get_by_text(re.compile(r"stopped$")).wait_for()


def test_the_panel_of_04_draws_what_is_chosen(page, run_all):
    run_all("04_contrastive_visualization")
    panel = page.locator(".widget-interact")
    panel.wait_for()
    seen = set()
    for task in ("letter-1", "letter-2"):
        panel.get_by_label("task").select_option(task)
        panel.get_by_role("button", name="Draw").click()
        new = "([panel, seen]) => { const src = panel.querySelector('img')?.src; return src && !seen.includes(src) }"
        page.wait_for_function(new, arg=[panel.element_handle(), list(seen)])
        seen.add(panel.locator("img").evaluate("image => image.src"))


def test_the_slider_of_05_shows_another_moment(page, run_all):
    run_all("05_tree_building")
    slider = page.locator(".lstoc-slider")
    shown = slider.locator("img:visible")
    shown.wait_for()
    assert "every success is explained" in shown.get_attribute("alt")
    slider.locator("input[type=range]").press("Home")
    assert slider.locator("output").inner_text() == "0"
    assert "begin at" in shown.get_attribute("alt")


# --- the playground ---------------------------------------------------------------------------------------------------


def exported(page, *parts):
    """The task that the exported line builds, once the line has these parts."""
    line = page.locator(".lstoc-playground textarea").element_handle()
    page.wait_for_function("([box, parts]) => parts.every(part => box.value.includes(part))", arg=[line, parts])
    return eval(line.input_value(), {"lstoc": lstoc})


def fill(field, name, value):
    """Type a value into the field of that name."""
    box = field.get_by_label(name, exact=True)
    box.fill(value)
    box.press("Enter")


def play(page):
    """Place letters by clicks, compare what is built with what was clicked, run it, and stop a run that takes long."""
    field = page.locator(".lstoc-playground")
    field.get_by_text("proved after 11 episodes").wait_for()  # the notebook runs the first task
    wanted = {"a": (2, 1), "b": (6, 4)}
    for letter, (x, y) in wanted.items():
        field.locator(".widget-toggle-buttons button", has_text=re.compile(f"^{letter}$")).click()
        field.locator(f'button[title="{x}, {y}"]').click()
        field.locator(f'button[title="{x}, {y}"]', has_text=letter).wait_for()
    x, y = lstoc.TASKS["letter-2"].positions["a"]
    assert not field.locator(f'button[title="{x}, {y}"]').inner_text().strip(), "a has moved"
    fill(field, "formula", "a;b")
    field.get_by_text("Names are unique").wait_for()
    positions = {**lstoc.TASKS["letter-2"].positions, **wanted}
    task = exported(page, "formula='a;b'")
    assert task == lstoc.make_task(domain="letter", formula="a;b", positions=positions)
    field.get_by_role("button", name="Run").click()
    field.get_by_text("a at (2, 1), b at (6, 4)").wait_for()
    field.get_by_text(re.compile(r"^proved after \d+ episodes")).wait_for()
    field.get_by_text("reveal the truth").click()
    field.locator("svg image").first.wait_for()

    # Where only a shortest way is in time, a policy will not succeed soon.
    fill(field, "horizon", str(task.shortest_solution))
    assert exported(page, f"horizon={task.shortest_solution}").horizon == task.shortest_solution
    field.get_by_label("explorer").select_option("policy")
    field.get_by_role("button", name="Run").click()
    field.get_by_text("looking for the hidden subgoals").wait_for()
    field.get_by_role("button", name="Stop").click()
    field.get_by_text(re.compile(r"^stopped after \d+ episodes")).wait_for()


def test_the_playground_in_jupyterlab(page, run_all):
    run_all("12_playground")
    play(page)


def test_the_playground_as_a_page_of_its_own(page, voila):
    page.goto(voila.split("/voila/")[0])
    play(page)

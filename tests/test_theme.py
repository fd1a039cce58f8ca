"""Drawings: what is drawn, where, and that files come out byte for byte the same."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Rectangle

from lstoc_core import drawing
from lstoc_core.study.variants import VARIANTS


@pytest.fixture(autouse=True)
def _close_figures():
    plt.style.use("default")
    drawing.style()
    yield
    plt.close("all")


# --- files ------------------------------------------------------------------------------------------------------------


def test_figures_are_saved_twice_the_same(tmp_path, monkeypatch):
    def save(directory):
        monkeypatch.setenv("LSTOC_FIGURES", str(tmp_path / directory))
        fig, ax = plt.subplots()
        ax.plot([1, 2], label="$v_0$")
        drawing.save_figure(fig, "line", profile="smoke")
        return {path.name: path.read_bytes() for path in sorted((tmp_path / directory).iterdir())}

    first, second = save("first"), save("second")
    assert list(first) == ["line.pdf", "line.png"]
    assert first == second
    assert b"CreationDate" not in first["line.pdf"]
    assert b"/Type3" not in first["line.pdf"]  # fonts are embedded as TrueType


def test_profile_is_noted_once(tmp_path, monkeypatch):
    monkeypatch.setenv("LSTOC_FIGURES", str(tmp_path))
    fig = plt.figure()
    drawing.save_figure(fig, "empty", profile="smoke")
    drawing.save_figure(fig, "empty", profile="quick")
    assert [text.get_text() for text in fig.texts] == ["profile: quick"]
    drawing.save_figure(fig, "empty")
    assert not fig.texts


def test_the_colours_of_the_variants_come_first():
    cycle = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    assert len(set(cycle)) == len(cycle) == 7
    assert cycle[0] == drawing.BLUE == VARIANTS["lstoc"].colour


# --- grid maps --------------------------------------------------------------------------------------------------------


def test_grid_shows_values_walls_and_key_cells():
    values = np.array([[0.5, np.nan, 1.0], [0.25, 12.0, 0.0]])
    _, ax = plt.subplots()
    image = drawing.draw_grid(ax, values, outline={"a": (2, 0)}, walls=[[0, 1, 0], [0, 0, 0]])
    assert np.ma.getmaskarray(image.get_array()).tolist() == np.isnan(values).tolist()
    texts = {text.get_text(): text.get_position() for text in ax.texts}
    assert set(texts) == {"0.50", "1.00", "0.25", "12", "0.00", "a"}
    assert texts["12"] == (1, 1)  # x is the column, y the row
    assert np.round(texts["1.00"]).tolist() == np.round(texts["a"]).tolist() == [2, 0]
    wall, key = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert wall.get_xy() == (0.5, -0.5)
    assert wall.get_hatch()  # a colour could be one of the scale
    assert key.get_xy() == (1.5, -0.5)
    assert not key.get_fill()


def test_grid_without_numbers():
    _, ax = plt.subplots()
    drawing.draw_grid(ax, np.zeros((2, 2)), annotate=False, outline=[(0, 0), (1, 1)])
    assert not [text for text in ax.texts if text.get_text()]
    assert len(ax.patches) == 2

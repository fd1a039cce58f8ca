"""Figures of worlds: every plane of an observation has its name, every world its picture."""

import matplotlib.pyplot as plt
import pytest

from lstoc_core.drawing import diagrams
from lstoc_core.worlds import compile_world


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize(
    ("name", "planes"),
    [
        ("letter-2", ["a", "b", "c", "d", "e", "agent"]),
        ("office-2", ["c", "o", "m", "d", "p", "wall", "agent"]),
        ("robot", ["b", "c", "d", "w", "wall", "agent"]),
        ("rooms-corridor", ["b", "g", "r", "wall", "agent"]),
    ],
)
def test_binary_views_show_every_plane(name, planes):
    world = compile_world(name)
    fig = diagrams.binary_view(world, 7)
    assert [ax.get_title() for ax in fig.axes] == planes
    shown = [ax.collections[0].get_array().reshape(world.observations.shape[1:3])[::-1] for ax in fig.axes]
    for k, plane in enumerate(shown):
        assert (plane == world.observations[world.observation_id[7]][..., k]).all()


def test_pixel_views_show_the_key_states():
    world = compile_world("crafter-1")
    fig = diagrams.pixel_views(world, "tcd")
    assert [ax.get_title() for ax in fig.axes[:3]] == ["tree", "coal", "diamond"]
    on_coal = fig.axes[4].images[0].get_array()
    assert (on_coal == world.observations[world.observation_of_symbol("c")]).all()


def test_maps_of_several_worlds():
    assert [ax.get_xlabel() for ax in diagrams.domains().axes] == [
        "(a) Letter, 10×10", "(b) Office, 25×19", "(c) Crafter, 20×20",
    ]  # fmt: skip
    first, second = diagrams.changed_worlds(["rooms-corridor", "rooms-symmetric"]).axes
    assert "r ; b ; g" in first.get_title()
    assert "rooms-symmetric" in second.get_title()


def test_framework_and_motivating_example_name_their_parts():
    texts = {text.get_text() for text in diagrams.framework().axes[0].texts}
    assert {"Learning subgoals", "Labeling", "Environment", "ILP"} <= texts
    layout = diagrams.motivating_example().axes[0]
    assert [text.get_text().split()[0] for text in layout.texts] == ["charger", "board", "wheel", "diamond"]

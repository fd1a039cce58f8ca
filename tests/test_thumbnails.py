"""Thumbnails of notebooks."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from lstoc_core import paths
from lstoc_core.drawing import thumbnails


def notebook(directory, code, picture=None):
    data = io.BytesIO()
    if picture is not None:
        picture.save(data, "PNG")
    shown = [{"data": {"image/png": base64.b64encode(data.getvalue()).decode()}}] if picture is not None else []
    cell = {"cell_type": "code", "metadata": {}, "source": code, "outputs": shown}
    file = directory / "00_some.ipynb"
    file.write_text(json.dumps({"cells": [cell]}))
    return file


def plain(colour, size):
    return Image.new("RGB", size, colour)


@pytest.mark.parametrize(
    ("figures", "output", "centre"),
    [
        ({"one": ("red", (200, 100)), "two": ("blue", (200, 100))}, None, (255, 0, 0)),  # the first
        ({"one": ("red", (900, 100)), "two": ("blue", (200, 100))}, None, (0, 0, 255)),  # the first that fits
        ({"one": ("red", (900, 100)), "two": ("blue", (100, 900))}, None, (255, 0, 0)),  # none fits
        ({}, ("lime", (200, 100)), (0, 255, 0)),  # only an output
    ],
)
def test_a_thumbnail_is_the_first_picture_that_fits(tmp_path, figures, output, centre):
    for name, (colour, size) in figures.items():
        plain(colour, size).save(tmp_path / f"{name}.png")
    file = notebook(tmp_path, 'save_figure(fig, "one")\nsave_figure(fig, "two")', plain(*output) if output else None)
    (written,) = thumbnails.write_thumbnails(tmp_path, [file])
    assert written == tmp_path / "thumbnails" / "00_some.png"
    shown = np.asarray(Image.open(written).convert("RGB"))
    assert shown.shape == (thumbnails.SIZE[1], thumbnails.SIZE[0], 3)
    assert tuple(shown[shown.shape[0] // 2, shown.shape[1] // 2]) == centre
    assert tuple(shown[0, 0]) == (255, 255, 255)


def test_a_notebook_without_a_picture_has_none(tmp_path):
    assert thumbnails.write_thumbnails(tmp_path, [notebook(tmp_path, "1 + 1")]) == []


def test_every_thumbnail_in_the_readme_is_small():
    files = sorted((paths.ROOT / "figures" / "thumbnails").glob("*.png"))
    assert files
    assert max(file.stat().st_size for file in files) < 60_000

"""A small picture of each notebook, for the README's map of them."""

import base64
import io
import json
from collections.abc import Iterable
from pathlib import Path

from PIL import Image

from lstoc_core.drawing.gallery import STILL, Notebook

SIZE = 360, 216
"""Width and height in pixels; shown at half of it or less."""
SHAPES = 1.2, 2.6
"""Width over height of a picture that fits a card, from and to."""


def write_thumbnails(figures: Path, notebooks: Iterable[Path]) -> list[Path]:
    """Write thumbnails/NOTEBOOK.png beside the figures, for each notebook that has a picture; their paths."""
    written = []
    for file in notebooks:
        picture = choose_picture(figures, file)
        if picture is not None:
            written.append(figures / "thumbnails" / f"{file.stem}.png")
            written[-1].parent.mkdir(exist_ok=True)
            small(picture).save(written[-1], optimize=True)
    return written


def choose_picture(figures: Path, notebook: Path) -> Image.Image | None:
    """Of the figures that a notebook draws, or else of the pictures among its outputs, the first that fits a card.

    If none has about its shape, the very first; None if there is no picture.
    """
    files = [figures / f"{Path(name).stem}{STILL[0]}" for name in Notebook(notebook).saves]
    found = [Image.open(file) for file in files if file.exists()]
    if not found:
        cells = json.loads(notebook.read_text())["cells"]
        shown = [output.get("data", {}).get("image/png") for cell in cells for output in cell.get("outputs", ())]
        found = [Image.open(io.BytesIO(base64.b64decode("".join(data)))) for data in shown if data]
    fitting = (picture for picture in found if SHAPES[0] < picture.width / picture.height < SHAPES[1])
    return next(fitting, found[0] if found else None)


def small(picture: Image.Image) -> Image.Image:
    """The whole picture on a white card of the one size, in 200 colours."""
    card = Image.new("RGB", SIZE, "white")
    shown = picture.convert("RGBA")
    shown.thumbnail((SIZE[0] - 16, SIZE[1] - 16), Image.Resampling.LANCZOS)
    card.paste(shown, ((SIZE[0] - shown.width) // 2, (SIZE[1] - shown.height) // 2), shown)
    return card.quantize(200, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)

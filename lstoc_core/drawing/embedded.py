"""Pictures inside HTML, with nothing beside it: no file, no kernel, no network."""

import base64
import io
from collections.abc import Sequence
from html import escape

import matplotlib.pyplot as plt
from matplotlib.figure import Figure


def image(fig: Figure, alt: str, *, tight: bool = True) -> str:
    """A figure as an HTML image; the figure is closed. alt: what it shows, in words. tight: without its margins."""
    data = io.BytesIO()
    fig.savefig(data, format="png", dpi=110, bbox_inches="tight" if tight else None, metadata={"Software": None})
    plt.close(fig)
    code = base64.b64encode(data.getvalue()).decode()
    return f'<img alt="{escape(alt)}" style="max-width:100%;background:white" src="data:image/png;base64,{code}">'


def slider(frames: Sequence[tuple[Figure, str]], name: str) -> str:
    """Figures of one size, each with what it shows in words, one at a time under a slider; first the last one.

    name: what the slider counts. Where a page takes scripts and styles out, all figures are shown one below the other.
    """
    last = len(frames) - 1
    shown = "".join(
        f'<div style="display:{"block" if number == last else "none"}">{image(fig, alt, tight=False)}</div>'
        for number, (fig, alt) in enumerate(frames)
    )
    move = (
        "const box=this.closest('div');box.querySelector('output').value=this.value;"
        "[...box.lastElementChild.children].forEach((frame,i)=>"
        "{frame.style.display=i==this.value?'block':'none'})"
    )
    control = (
        f'<label>{escape(name)} <input type="range" min="0" max="{last}" value="{last}" oninput="{escape(move)}"> '
        f"<output>{last}</output></label>"
    )
    return f'<div class="lstoc-slider">{control}<div>{shown}</div></div>'

"""The paper's items: which notebook makes which, read from `docs/paper_map.md`; and a page that shows them all."""

import html
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from lstoc_core import paths

PAPER_MAP = paths.ROOT / "docs" / "paper_map.md"
RECORD = "provenance.json"
"""In the directory of the figures: the notebook, profile, date and commit behind each."""


@dataclass(frozen=True)
class Item:
    """A figure, table or algorithm of the paper, under the paper's label, and where ours comes from."""

    kind: str
    name: str
    caption: str
    notebook: str
    planned: bool
    function: str
    files: tuple[str, ...]


def read_paper_map(file: Path = PAPER_MAP) -> list[Item]:
    """The rows of the map's table, in the order of the notebooks."""
    items = []
    for line in file.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not (named := re.fullmatch(r"(Figure|Table|Algorithm) `(\w+)`", cells[0])):
            continue
        if len(cells) != 5 or not (notebook := re.fullmatch(r"`(\w+)`( \(planned\))?", cells[2])):
            raise ValueError(f"{file.name}: a row needs item, caption, `notebook`, functions and files: {line}")
        files = tuple(re.findall(r"`([^`]+)`", cells[4]))
        items.append(Item(named[1], named[2], cells[1], notebook[1], bool(notebook[2]), cells[3], files))
    if not items:
        raise ValueError(f"{file} names no figure, table or algorithm")
    return items


def record_origin(figures: Path, files: Iterable[str], origin: Mapping[str, Any]) -> None:
    """Note where these files of the directory come from, beside what is known of the others."""
    record = read_record(figures) | {file: dict(origin) for file in files}
    (figures / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def read_record(figures: Path) -> dict[str, dict[str, Any]]:
    """File name -> notebook, profile, date, commit."""
    file = figures / RECORD
    return json.loads(file.read_text()) if file.exists() else {}


def write_gallery(figures: Path, items: Iterable[Item]) -> Path:
    """Write `index.html` beside the figures: every item of the paper with ours, and where it comes from.

    The page needs nothing but the figures beside it: no script, no style sheet, no network.
    """
    record = read_record(figures)
    page = figures / "index.html"
    page.write_text(_PAGE.substitute(cards="\n".join(_card(item, figures, record) for item in items)))
    return page


def _card(item: Item, figures: Path, record: Mapping[str, Mapping[str, Any]]) -> str:
    made = [file for file in item.files if (figures / file).exists()]
    pictures = [file for file in made if file.endswith(".png")]
    caption = html.escape(item.caption)
    body = "".join(f'<a href="{file}"><img src="{file}" alt="{caption}" loading="lazy"></a>' for file in pictures)
    if item.files and not made:
        body = '<p class="none">not drawn yet</p>'
    origin = record.get(made[0], {}) if made else {}
    facts = [
        f"notebook {item.notebook}",
        _code(item.function),
        *(f"{k} {origin[k]}" for k in ("profile", "date") if k in origin),
    ]
    links = " ".join(f'<a href="{file}">{Path(file).suffix[1:]}</a>' for file in made)
    return _CARD.substitute(
        kind=item.kind, name=item.name, caption=caption, body=body, facts=" · ".join(facts), links=links
    )


def _code(text: str) -> str:
    """Markdown's backticks as HTML."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


_CARD = Template("""<section id="$name">
<h2>$kind <code>$name</code></h2><p>$caption</p>
$body
<p class="facts">$facts $links</p>
</section>""")

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>LSTOC: every figure, table and algorithm of the paper</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #f6f6f4; }
body { margin: 0 auto; max-width: 1500px; padding: 2rem; }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 420px), 1fr)); gap: 1.5rem; }
section { background: #fff; border: 1px solid #ddd; border-radius: 8px; padding: 1rem 1.25rem; }
h2 { font-size: 1.05rem; margin: 0; } p { margin: .4rem 0; }
img { max-width: 100%; max-height: 420px; display: block; margin: .5rem auto; }
.facts { color: #666; font-size: .85rem; } .none { color: #a00; }
</style>
</head>
<body>
<h1>Learning hidden subgoals under temporal ordering constraints</h1>
<p>Every figure, table and algorithm of Xu &amp; Fekri (arXiv 2411.01425), as this repository makes it.
Written by <code>python -m lstoc_core reproduce</code>.</p>
<main>
$cards
</main>
</body>
</html>
""")

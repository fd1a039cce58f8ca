"""Every figure as a card: what it shows, the paper's claim, what our runs say of it, and how to make it again.

`docs/paper_map.md` says which notebook makes which item of the paper, and which figures are ours. A figure that it does
not name is shown, too.
"""

import ast
import html
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lstoc_core import paths
from lstoc_core.drawing.gallery_page import BODY, CARD, PAGE
from lstoc_core.study.experiments import EXPERIMENTS, runs

PAPER_MAP, CLAIMS = (paths.ROOT / "docs" / name for name in ("paper_map.md", "claims.md"))
RECORD = "provenance.json"
"""In the directory of the figures: the notebook, profile, date and commit behind each."""
FURTHER = "Further"
"""Kind of a figure that the paper does not have."""
MOVING, STILL, LINKED = (".gif",), (".png", ".svg"), (".pdf", ".csv", ".mp4", ".html")
"""Files of a figure: shown, shown where nothing moves, only linked."""


@dataclass(frozen=True)
class Item:
    """A figure, table or algorithm of the paper, under the paper's label, or a further one, and where it comes from."""

    kind: str
    name: str
    caption: str
    notebook: str
    planned: bool
    function: str
    files: tuple[str, ...]


def read_paper_map(file: Path = PAPER_MAP) -> list[Item]:
    """The rows of the map's tables, in their order."""
    items = []
    for line in file.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not (named := re.fullmatch(rf"(Figure|Table|Algorithm|{FURTHER}) `(\w+)`", cells[0])):
            continue
        if len(cells) != 5 or not (notebook := re.fullmatch(r"`(\w+)`( \(planned\))?", cells[2])):
            raise ValueError(f"{file.name}: a row needs item, caption, `notebook`, functions and files: {line}")
        files = tuple(re.findall(r"`([^`]+)`", cells[4]))
        items.append(Item(named[1], named[2], cells[1], notebook[1], bool(notebook[2]), cells[3], files))
    if not items:
        raise ValueError(f"{file} names no figure, table or algorithm")
    return items


@dataclass(frozen=True)
class PageClaim:
    """A row of `docs/claims.md`: a claim of the paper and what the committed runs say of it."""

    text: str
    verdict: str
    number: str
    figure: str
    experiment: str
    """Whose runs decide it; empty: none do."""


def read_claims(file: Path = CLAIMS) -> list[PageClaim]:
    """The rows of the page of claims."""
    rows = re.findall(
        r"^\| (.+?) \| \*(.+?)\* \| (.+?) \| `(\w+)` \| `(?:python -m lstoc_core run (\w+))?", file.read_text(), re.M
    )
    if not rows:
        raise ValueError(f"{file} holds no claim: write it again with python -m lstoc_core claims --write")
    return [PageClaim(*row) for row in rows]


def record_origin(figures: Path, files: Iterable[str], origin: Mapping[str, Any]) -> None:
    """Note where these files of the directory come from, beside what is known of the others."""
    record = read_record(figures) | {file: dict(origin) for file in files}
    (figures / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def read_record(figures: Path) -> dict[str, dict[str, Any]]:
    """File name -> notebook, profile, date, commit."""
    file = figures / RECORD
    return json.loads(file.read_text()) if file.exists() else {}


@dataclass(frozen=True)
class Notebook:
    """What the gallery needs to know of a notebook."""

    file: Path

    @cached_property
    def _cells(self) -> list[tuple[str, list[str], str]]:
        cells = json.loads(self.file.read_text())["cells"]
        return [(cell["cell_type"], cell["metadata"].get("tags", []), "".join(cell["source"])) for cell in cells]

    @property
    def title(self) -> str:
        """Its heading, without the number."""
        text = next((source for kind, _, source in self._cells if kind == "markdown"), "")
        return re.sub(r"^#+\s*(\d+\s*·\s*)?", "", text.partition("\n")[0])

    @property
    def seed(self) -> str:
        """The default of its parameter `seed`; empty if it has none."""
        found = [re.search(r"^seed = (\d+)", source, re.M) for _, tags, source in self._cells if "parameters" in tags]
        return next((match[1] for match in found if match), "")

    @cached_property
    def saves(self) -> tuple[str, ...]:
        """Names, and names of files, of the figures that it may draw, in its order.

        They are what it gives to functions called save… or publish, and texts that can be nothing else: that end like a
        figure's file, or have an underscore in them.
        """
        found: dict[str, None] = {}
        for source in (source for kind, _, source in self._cells if kind == "code"):
            for node in ast.walk(_parsed(source)):
                if isinstance(node, ast.Call) and _called(node).startswith(("save", "publish")):
                    found |= dict.fromkeys(str(arg.value) for arg in node.args if isinstance(arg, ast.Constant))
                text = node.value if isinstance(node, ast.Constant) else None
                if isinstance(text, str) and (text.endswith((*MOVING, *STILL, *LINKED)) or "_" in text):
                    found[Path(text).name] = None
        return tuple(found)

    def drew(self, file: Path) -> bool:
        """Whether the notebook makes this file."""
        return file.stem in self.saves or file.name in self.saves


def _parsed(source: str) -> ast.Module:
    """The cell's code without lines that only IPython understands."""
    return ast.parse("\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines()))


def _called(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def all_items(figures: Path, items: Sequence[Item], notebooks: Sequence[Notebook]) -> list[Item]:
    """The items of the map, and one for each further figure in the directory, in the order of the notebooks."""
    known = {file for item in items for file in item.files}
    further: dict[str, list[Path]] = {}
    for file in sorted(figures.iterdir()):
        if file.suffix in (*MOVING, *STILL, *LINKED) and file.name not in known | {"index.html"}:
            further.setdefault(file.stem, []).append(file)
    found = list(items)
    for name, files in further.items():
        home = next((notebook for notebook in notebooks if any(notebook.drew(file) for file in files)), None)
        stem, about = (home.file.stem, f": {home.title}") if home is not None else ("", "")
        caption = name.replace("_", " ").capitalize() + about
        same = next((place for place, item in enumerate(found) if item.name == name), None)
        names = tuple(file.name for file in files)
        if same is not None:  # a film of a figure that the map has
            old = found[same]
            found[same] = Item(
                old.kind, old.name, old.caption, old.notebook, old.planned, old.function, (*old.files, *names)
            )
        else:
            found.append(Item(FURTHER, name, caption, stem, False, "", names))
    return sorted(found, key=lambda item: item.notebook or "~")


def write_gallery(figures: Path, items: Sequence[Item]) -> Path:
    """Write `index.html` beside the figures. The page needs nothing but them: no other file, no network."""
    page = figures / "index.html"
    body = gallery_body(figures, items, lambda stem: f"../notebooks/{stem}.ipynb")
    page.write_text(PAGE.substitute(body=body))
    return page


def gallery_body(figures: Path, items: Sequence[Item], page_of: Callable[[str], str], place: str = "") -> str:
    """The gallery without the page round it: style, filter and a card for each item.

    page_of: link to a notebook, by its stem. place: of the figures, as seen from the page, with a slash at its end.
    """
    record = read_record(figures)
    notebooks = [Notebook(file) for file in sorted(paths.NOTEBOOKS.glob("[0-9]*.ipynb"))]
    homes = {notebook.file.stem: notebook for notebook in notebooks}
    every = all_items(figures, items, notebooks)
    cards = [_card(item, figures, record, homes.get(item.notebook), page_of, place) for item in every]
    stems = dict.fromkeys(item.notebook for item in every if item.notebook in homes)
    chosen = "".join(f'<option value="{stem}">{stem}</option>' for stem in stems)
    return BODY.substitute(cards="\n".join(cards), notebooks=chosen, count=len(cards))


def _card(
    item: Item,
    figures: Path,
    record: Mapping[str, Mapping[str, Any]],
    home: Notebook | None,
    page_of: Callable[[str], str],
    place: str,
) -> str:
    made = [file for file in item.files if (figures / file).exists()]
    caption = html.escape(item.caption)
    body = _picture(made, caption, place)
    if item.files and not made:
        body = '<p class="none">not drawn yet</p>'
    claims = [claim for claim in read_claims() if claim.figure == item.name.removeprefix("small_")] if made else []
    told = "".join(
        f'<div class="claim"><p><b>Claim</b> {html.escape(claim.text)}</p><p><span class="verdict '
        f'{_class(claim.verdict)}">{claim.verdict}</span> {html.escape(claim.number)}</p></div>'
        for claim in claims
    )
    origin = record.get(made[0], {}) if made else {}
    experiment = _experiment(item.name, claims) if made else ""
    facts = {
        "Notebook": f'<a href="{page_of(item.notebook)}">{item.notebook}</a>' if home else html.escape(item.notebook),
        "Command": f"<code>python -m lstoc_core reproduce --only {item.name}</code>" if made and home else "",
        "Runs": f"<code>python -m lstoc_core run {experiment} -P paper --save</code>" if experiment else "",
        "Profile": " · ".join(str(origin[key]) for key in ("profile", "date") if key in origin),
        "Seeds": _seeds(experiment, home),
        "Function": _code(item.function),
        "Files": " ".join(f'<a href="{place}{file}">{Path(file).suffix[1:]}</a>' for file in made),
    }
    rows = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts.items() if value)
    return CARD.substitute(
        kind="Ours" if item.kind == FURTHER else item.kind, name=item.name, caption=caption, body=body, claims=told,
        facts=rows, notebook=item.notebook, origin="ours" if item.kind == FURTHER else "paper",
        verdicts=" ".join(sorted({_class(claim.verdict) for claim in claims})) or "none",
    )  # fmt: skip


def _picture(made: Sequence[str], alt: str, place: str) -> str:
    """The figure's pictures; a film gives way to the still of the same name for readers who want no motion."""
    moving = [file for file in made if file.endswith(MOVING)]
    stills = [file for file in made if file.endswith(STILL)]
    if not moving:
        return "".join(
            f'<a href="{place}{file}"><img src="{place}{file}" alt="{alt}" loading="lazy"></a>' for file in stills
        )
    instead = f'<source media="(prefers-reduced-motion: reduce)" srcset="{place}{stills[0]}">' if stills else ""
    film = f'<img src="{place}{moving[0]}" alt="{alt}" loading="lazy">'
    return f'<a href="{place}{moving[0]}"><picture>{instead}{film}</picture></a>'


def _experiment(name: str, told: Sequence[PageClaim]) -> str:
    """The experiment whose runs a figure shows; empty if it shows none."""
    return told[0].experiment if told else name if name in EXPERIMENTS else ""


def _seeds(experiment: str, home: Notebook | None) -> str:
    """Seeds and profiles of the committed runs, or the notebook's own seed."""
    table = runs(experiment) if experiment else None
    if table is not None and len(table):
        seeds = sorted(set(table.seed))
        spread = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
        return f"{spread} (committed runs, profile {' and '.join(sorted(set(table.profile)))})"
    return home.seed if home is not None else ""


def _class(verdict: str) -> str:
    """Name of a verdict in the page's style and filter: its first word."""
    return verdict.replace("not ", "not-").partition(" ")[0]


def _code(text: str) -> str:
    """Markdown's backticks as HTML."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))

"""Put the site's pages together in build/site-source: `python docs/site/sources.py`.

The pages are the repository's own files, at the same places, so that their links hold. Added are the table of contents,
the API reference, the gallery, and a text in the place of every picture of a notebook.
"""

import json
import re
import shutil
from pathlib import Path

import lstoc_core
from lstoc_core import paths
from lstoc_core.drawing.gallery import Item, gallery_body, read_paper_map

HERE = Path(__file__).parent
SOURCE = paths.BUILD / "site-source"
FRONT = ("claims", "results", "your_own_environment", "decisions", "paper_map")
"""Pages of docs/ in the order of the table of contents; others follow."""
API = {
    "Discover": ("discover", "learn", "check", "Discovery", "KeyState", "load", "score", "LSTOCConfig"),
    "Tasks and worlds": ("TASKS", "Task", "TaskError", "make_task", "make_vec", "World", "compile_world"),
    "Formulas and machines": ("parse", "Formula", "FormulaError", "FSM", "SubgoalTree"),
    "Names": ("label", "Labeling", "LabelingError", "predict", "LabelingFunction"),
    "Trajectories and environments": ("TrajectoryStore", "InternedVectorEnv", "EpisodeEnd"),
    "Policies": ("PPO", "PPOConfig", "RewardConfig"),
}
"""Public names by subject; a name that is not here comes under "Further"."""


def main() -> None:
    shutil.rmtree(SOURCE, ignore_errors=True)
    for directory in ("notebooks", "docs", "api", "_static", "extra"):
        (SOURCE / directory).mkdir(parents=True)
    shutil.copy(HERE / "conf.py", SOURCE)
    shutil.copytree(HERE / "_static", SOURCE / "_static", dirs_exist_ok=True)
    pictures = shutil.ignore_patterns("index.html", "provenance.json")
    shutil.copytree(paths.ROOT / "figures", SOURCE / "extra" / "figures", ignore=pictures)
    (SOURCE / "figures").symlink_to(SOURCE / "extra" / "figures")  # where Markdown looks for them
    items = read_paper_map()
    notebooks = sorted(paths.NOTEBOOKS.glob("[0-9]*.ipynb"))
    for file in notebooks:
        (SOURCE / "notebooks" / file.name).write_text(json.dumps(with_texts(json.loads(file.read_text()), items)))
    for file in sorted((paths.ROOT / "docs").glob("*.md")):
        (SOURCE / "docs" / file.name).write_text(for_site(file.read_text()))
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        (SOURCE / name).write_text(for_site((paths.ROOT / name).read_text()))
    subjects = write_api()
    write_gallery_page(items)
    pages = {file.stem for file in (SOURCE / "docs").glob("*.md")}
    ordered = [name for name in FRONT if name in pages] + sorted(pages - set(FRONT))
    contents = "\n".join(
        (
            toctree("Notebooks", [f"notebooks/{file.stem}" for file in notebooks]),
            toctree("Results", ["gallery", *(f"docs/{name}" for name in ordered)]),
            toctree("Reference", [*subjects, "CONTRIBUTING", "CHANGELOG"]),
        )
    )
    readme = for_site((paths.ROOT / "README.md").read_text())
    (SOURCE / "index.md").write_text(f"{readme}\n{contents}")


def for_site(text: str) -> str:
    """Links in HTML tags lead to pages; links to files that are no page lose their link; licence marks stay text."""
    text = re.sub(r'href="((?:notebooks|docs)/\w+)\.(?:ipynb|md)"', r'href="\1.html"', text)
    text = text.replace('href="figures/index.html"', 'href="gallery.html"')
    text = re.sub(r"\]\((?:\.\./)?figures/index\.html\)", "](/gallery.md)", text)
    return re.sub(
        r"\[([^\]]+)\]\((?:\.\./)?(?:CITATION\.cff|LICENSE|README\.md|[\w/]+\.(?:py|yml|toml))\)", r"\1", text
    )


def with_texts(notebook: dict, items: list[Item]) -> dict:
    """The notebook with an alternative text for each picture: the figure's caption, or what the reader is told next."""
    captions = {item.name: item.caption for item in items}
    cells = notebook["cells"]
    heading = ""
    for place, cell in enumerate(cells):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            heading = next(iter(re.findall(r"^#+ (.+)$", source, re.M)[-1:]), heading)
            continue
        if not any(kind.startswith("image/") for output in cell["outputs"] for kind in output.get("data", {})):
            continue
        saved = [
            captions[name] for name in re.findall(r'(?:save|publish)\w*\([^"]*"(\w+)"', source) if name in captions
        ]
        after = next(("".join(c["source"]) for c in cells[place + 1 :] if c["cell_type"] == "markdown"), "")
        told = re.sub(r"^\W*How to read this[*.\s]*(\([^)]*\)[*.\s]*)?", "", after).partition("\n\n")[0]
        alt = saved[0] if saved else shortened(told) if "How to read" in after else heading
        cell["metadata"]["mystnb"] = {"image": {"alt": plain(alt)}}
    return notebook


def shortened(text: str) -> str:
    """The first sentences, up to about 200 characters."""
    sentences = re.split(r"(?<=[.:]) ", " ".join(text.split()))
    told = sentences[0]
    for sentence in sentences[1:]:
        if len(told) + len(sentence) > 200:
            break
        told += f" {sentence}"
    return told


def plain(text: str) -> str:
    """Text without the marks of Markdown and LaTeX."""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", re.sub(r"[*`$\\{}]", "", text)).strip() or "figure"


def write_api() -> list[str]:
    """A page for each subject of the API; their names, for the table of contents."""
    known = {name for names in API.values() for name in names}
    subjects = API | {"Further": tuple(sorted(set(lstoc_core.__all__) - known))}
    pages = []
    for subject, names in subjects.items():
        parts = [f"# {subject}", ""]
        for name in (name for name in names if name in lstoc_core.__all__):
            parts += ["```{eval-rst}", *directive(name), "```", ""]
        if len(parts) > 2:
            pages.append(f"api/{subject.lower().replace(' ', '_')}")
            (SOURCE / f"{pages[-1]}.md").write_text("\n".join(parts))
    return pages


def directive(name: str) -> list[str]:
    """The autodoc directive for a public name."""
    thing = getattr(lstoc_core, name)
    if isinstance(thing, type):
        return [f".. autoclass:: lstoc_core.{name}", "   :members:", "   :undoc-members:"]
    kind = "autofunction" if callable(thing) else "autodata"
    return [f".. {kind}:: lstoc_core.{name}", *(["   :no-value:"] if kind == "autodata" else [])]


def write_gallery_page(items: list[Item]) -> None:
    body = gallery_body(paths.ROOT / "figures", items, lambda stem: f"notebooks/{stem}.html", place="figures/")
    (SOURCE / "gallery.html.txt").write_text(body)
    page = [
        "---", "hide-toc: true", "---", "# Gallery", "",
        "Every figure, table and algorithm of the paper as this repository makes it, and those that are ours. The",
        "verdicts are those of [the claims](docs/claims.md).", "",
        "```{raw} html", ":file: gallery.html.txt", "```",
    ]  # fmt: skip
    (SOURCE / "gallery.md").write_text("\n".join(page) + "\n")


def toctree(caption: str, pages: list[str]) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"])


if __name__ == "__main__":
    main()

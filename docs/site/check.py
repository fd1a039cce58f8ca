"""Check the built site: `python docs/site/check.py build/site`. Exit code 1 and a list if something is wrong.

Every link, picture, script and style leads to a file of the site (and to a place in it, where one is named), every
picture has a text, and nothing is loaded from the network.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "script": ("src",),
    "link": ("href",),
    "video": ("src",),
}
OUTSIDE = ("http:", "https:", "//")


class Page(HTMLParser):
    """Links, loaded files, ids and pictures of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.without_text: list[str] = []
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        self.loaded += [values[name] for name in LOADED.get(tag, ()) if name in values]
        if tag == "img" and not values.get("alt", "").strip():
            self.without_text.append(values.get("src", "")[:80])


def problems(site: Path) -> list[str]:
    """What is wrong, a line each."""
    pages = {file.resolve(): Page(file) for file in sorted(site.rglob("*.html"))}
    found = []
    for file, page in pages.items():
        name = file.relative_to(site.resolve())
        found += [f"{name}: picture without a text: {picture}" for picture in page.without_text]
        found += [f"{name}: loaded from the network: {link}" for link in page.loaded if link.startswith(OUTSIDE)]
        for link in (*page.links, *page.loaded):
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//"):
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.is_file():
                found.append(f"{name}: leads nowhere: {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                found.append(f"{name}: no such place: {link}")
    for file in sorted(site.rglob("*.css")):
        if outside := re.findall(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s]+)", file.read_text()):
            found.append(f"{file.relative_to(site)}: loaded from the network: {outside[0]}")
    return found


def main() -> int:
    site = Path(sys.argv[1])
    found = problems(site)
    print("\n".join(found), file=sys.stderr)
    count = len(list(site.rglob("*.html")))
    print(f"{count} pages, {len(found)} problems")
    return 1 if found or not count else 0


if __name__ == "__main__":
    sys.exit(main())

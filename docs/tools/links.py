"""Links of a built site: every one that stays in the site leads to a page and an anchor. ``python -m docs.tools.links SITE``."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Anchors of a page, and what it points to."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect ids, links and sources."""
        given = dict(attrs)
        self.anchors.update(v for v in (given.get("id"), given.get("name")) if v)
        wanted = given.get("href") if tag in ("a", "link") else given.get("src") if tag in ("img", "script") else None
        if wanted:
            self.links.append(wanted)


def dead_links(site: Path) -> list[str]:
    """Every link that leads nowhere."""
    pages: dict[Path, Page] = {}
    for path in site.rglob("*.html"):
        pages[path] = Page()
        pages[path].feed(path.read_text(encoding="utf-8"))
    dead = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("data:"):
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            target = target / "index.html" if target.is_dir() else target
            anchor = "" if parts.fragment.startswith("p=") else unquote(parts.fragment)  # a program of the playground
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
                dead.append(f"{path.relative_to(site)}: {link}")
    return dead


if __name__ == "__main__":
    found = dead_links(Path(sys.argv[1]).resolve())
    print(*found, f"{len(found)} dead links", sep="\n")
    sys.exit(bool(found))

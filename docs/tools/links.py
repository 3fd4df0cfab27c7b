"""Links of a built site: every one that stays in the site leads to a page and an anchor, and so does every link to it from the repository. ``python -m docs.tools.links SITE [--outside]``.

With ``--outside`` those that leave it are asked for, too, each once. The project's own address is left out: what stands there is the last
site that was published, not this one."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urldefrag, urlsplit
from urllib.request import Request, urlopen

from docs.tools.address import ROOT, address, files

GONE = (404, 410)
"""Answers that mean it: others (a limit, a refusal of programs) say nothing about the page."""


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


def read(site: Path) -> dict[Path, Page]:
    """Every page."""
    pages: dict[Path, Page] = {}
    for path in site.rglob("*.html"):
        pages[path] = Page()
        pages[path].feed(path.read_text(encoding="utf-8"))
    return pages


def dead_links(site: Path) -> list[str]:
    """Every link that leads nowhere."""
    pages, dead = read(site), []
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


def dead_to_the_site(site: Path) -> list[str]:
    """Every link to the site's own address, in any file of the repository (README, messages), that its pages do not answer."""
    named = re.compile(re.escape(address()[0]) + r"([\w/.-]*)")
    return [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in files()
        for found in named.finditer(path.read_text(encoding="utf-8"))
        if not ((there := site / found[1].rstrip(".")) / "index.html").exists() and not there.is_file()
    ]


def dead_outside(site: Path, own: tuple[str, ...]) -> list[str]:
    """Every link out of the site that leads nowhere; those that begin with an address of our ``own`` are not asked for."""
    wanted: dict[str, str] = {}
    for path, page in read(site).items():
        for link in page.links:
            if link.startswith(("http:", "https:")) and not link.startswith(own):
                wanted.setdefault(urldefrag(link).url, str(path.relative_to(site)))
    with ThreadPoolExecutor(8) as pool:
        said = dict(zip(wanted, pool.map(_trouble, wanted), strict=True))
    return [f"{wanted[link]}: {link}: {trouble}" for link, trouble in said.items() if trouble]


def _trouble(link: str) -> str:
    """Why nothing is there; empty where something is."""
    try:
        with urlopen(Request(link, headers={"User-Agent": "Mozilla/5.0 (link check)"}), timeout=30):
            return ""
    except HTTPError as error:
        return str(error) if error.code in GONE else ""
    except (URLError, OSError) as error:
        return str(error)


if __name__ == "__main__":
    root, *options = sys.argv[1:]
    found = dead_links(Path(root).resolve()) + dead_to_the_site(Path(root).resolve())
    if "--outside" in options:
        found += dead_outside(Path(root).resolve(), (*address()[:2], "http://127.0.0.1", "http://localhost"))
    print(*found, f"{len(found)} dead links", sep="\n")
    sys.exit(bool(found))

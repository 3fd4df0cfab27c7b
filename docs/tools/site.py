"""Hooks of MkDocs: the generated pages, and the places that the navigation keeps for pages that may be missing."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

ROOT_PAGES = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}


def generated() -> dict[str, str]:
    """Every page that a program makes."""
    from docs.tools import commands, debugger, gallery, instructions, rules

    made = {**rules.pages(), **instructions.pages(), **commands.pages(), **debugger.pages(), **gallery.pages()}
    for page, source in ROOT_PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        text = re.sub(r"\]\(docs/([^)]*)\)", r"](\1)", text)
        made[page] = re.sub(
            r"\]\(((?:tests|tools)/[^)]*|CHANGELOG.md)\)", r"](https://github.com/warpsim/warpsim/blob/main/\1)", text
        )
    return made


PAGES: dict[str, str | bytes] = {}


def on_config(config: Any) -> Any:
    """Make the pages; list what is generated, and leave out what nobody has written."""
    if str(ROOT) not in sys.path:  # MkDocs restores it after it has loaded this file
        sys.path.insert(0, str(ROOT))
    from docs.tools import playground

    PAGES.update({**generated(), **playground.files()})
    config.nav = list(_kept(config.nav, Path(config.docs_dir)))
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Tell the playground where Pyodide is, and give each launched PTX block a door to it."""
    from docs.tools import home, playground, tutorial

    text = tutorial.page(home.page(markdown), Path(page.file.abs_src_path or ""))
    text = playground.page(text, config.extra["pyodide"]) if page.url == "playground/" else text
    return playground.doors(text, page.url)


def _kept(items: list[Any], docs: Path) -> Any:
    for item in items:
        title, target = next(iter(item.items())) if isinstance(item, dict) else (None, item)
        if isinstance(target, list):
            yield {title: list(_kept(target, docs))}
        elif not target.endswith(".md"):
            yield {title: _sections(target)}
        elif target in PAGES or (docs / target).exists():
            yield item


def _sections(target: str) -> list[Any]:
    """The pages of a generated folder: its index, then by section where it has some."""
    from docs.tools import gallery, rules

    index = f"{target}/index.md"
    if target == "gallery":
        return [index, *({title: [f"gallery/{n}.md" for n in names]} for title, names in gallery.ORDER.items())]
    groups = {title: [f"{target}/{r.name}.md" for r in rules.rules() if rules.group_of(r.name) == g] for g, title in rules.GROUP_NAMES.items()}  # fmt: skip
    return [index, *({title: names} for title, names in groups.items())]


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    for path, text in PAGES.items():
        files.append(File.generated(config, path, content=text))
    return files

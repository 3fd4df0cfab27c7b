"""Where the project lives. ``pyproject.toml`` says it under ``[project.urls]``; other files can only repeat it.

    python -m docs.tools.address [SITE SOURCE]

Without arguments, what names another place is listed; with the site's and the repository's new address, every file follows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = (
    "*.md", "*.yml", "*.toml", "*.cff", ".pre-commit-*.yaml", ".github/**/*", "docs/**/*.md", "docs/**/*.py", "docs/**/*.yml",
    "editors/*/*.json", "editors/*/*.md", "tests/*.py", "warpsim/**/*.py", "warpsim/testing/starter/**/*",
)  # fmt: skip
OURS = re.compile(r"https?://[^\s\"')>\]]*warpsim[^\s\"')>\]]*|[\w.-]+/warpsim(?=@)")
"""What looks like an address of the project's: a link, or the repository of an action."""


def address(root: Path = ROOT) -> tuple[str, str, str]:
    """The site, the repository, and the repository's owner and name."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    site, source = (re.search(rf'^{name} = "(.*)"$', text, re.M)[1] for name in ("Documentation", "Source"))  # type: ignore[index]
    return site, source, "/".join(source.split("/")[-2:])


def files(root: Path = ROOT) -> Iterator[Path]:
    """Every file that may name it."""
    for path in dict.fromkeys(path for pattern in FILES for path in sorted(root.glob(pattern))):
        if path.is_file() and not {"node_modules", "__pycache__"} & set(path.parts) and path.suffix != ".vsix":
            yield path


def strangers(root: Path = ROOT) -> list[str]:
    """The addresses that are not below those of ``pyproject.toml``."""
    site, source, name = address(root)
    ours = (site, site.rstrip("/"), source, f"https://raw.githubusercontent.com/{name}/")
    return [
        f"{path.relative_to(root)}: {found}"
        for path in files(root)
        for line in path.read_text(encoding="utf-8").split("\n")
        if "://" in line or "/warpsim@" in line
        for found in OURS.findall(line)
        if found != name and not found.startswith(ours)
    ]


def move(site: str, source: str, root: Path = ROOT) -> None:
    """Write the new address wherever the old one stands."""
    old_site, old_source, old_name = address(root)
    name = "/".join(source.split("/")[-2:])
    for path in files(root):
        text = path.read_text(encoding="utf-8")
        moved = text.replace(old_site, site).replace(old_source, source)
        if old_name in moved:
            moved = re.sub(rf"(?<![\w.-]){re.escape(old_name)}(?![\w-])", name, moved)
        if moved != text:
            path.write_text(moved, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:]:
        move(*sys.argv[1:])
    found = strangers()
    print(*address()[:2], *found, sep="\n")
    sys.exit(bool(found))

"""Renders a trace as a single HTML file with its data, style and script."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from importlib import resources
from typing import Any

from warpsim.report import pages


def page(kernel: str, facts: Iterable[str], record: dict[str, Any]) -> str:
    """Render the page from a trace's plain data."""
    files = resources.files("warpsim.trace")
    data = json.dumps(record, separators=(",", ":")).replace("<", "\\u003c")
    frame = files.joinpath("page.html").read_text(encoding="utf-8")
    body = frame.replace("KERNEL", html.escape(kernel)).replace("FACTS", html.escape(" · ".join(facts)))
    style, script = (files.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return pages.page(
        f"trace of {kernel}", f"{body}<script type=application/json id=data>{data}</script>", style, script
    )

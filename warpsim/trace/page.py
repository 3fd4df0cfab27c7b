"""The page of a trace: one file of HTML with its data, its style and its script."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from importlib import resources
from typing import Any

from warpsim.report import pages


def page(kernel: str, facts: Iterable[str], record: dict[str, Any]) -> str:
    """The whole page, of the plain data of a trace."""
    files = resources.files("warpsim.trace")
    data = json.dumps(record, separators=(",", ":")).replace("<", "\\u003c")
    frame = files.joinpath("page.html").read_text(encoding="utf-8")
    body = frame.replace("KERNEL", html.escape(kernel)).replace("FACTS", html.escape(" · ".join(facts)))
    style, script = (files.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return pages.page(
        f"trace of {kernel}", f"{body}<script type=application/json id=data>{data}</script>", style, script
    )

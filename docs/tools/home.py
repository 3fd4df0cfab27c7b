"""The home page's picture: a launch with a missing fence, step by step, to be moved by hand."""

from __future__ import annotations

import html
import json
from typing import Any

MARK = "<!-- the launch, step by step -->"
COLUMNS = 16
"""Words of the tile that the picture shows."""


def page(markdown: str) -> str:
    """The home page with its picture."""
    return markdown.replace(MARK, picture()) if MARK in markdown else markdown


def picture() -> str:
    """The program, the tile, and a slider over the steps; without scripts, it shows the finding."""
    from docs.tools.playground import door, examples

    example = examples()[0]
    frames, finding = _frames(example)
    lines = example["text"].rstrip().split("\n")
    first = next(n for n, line in enumerate(lines) if "mov.u32" in line)
    code = "".join(
        f'<span data-line="{n + 1}"{" class=here" * (n + 1 == finding["line"])}>{html.escape(lines[n].strip()) or "&nbsp;"}</span>'
        for n in range(first, len(lines) - 1)
    )
    data = html.escape(json.dumps({"frames": frames, "finding": finding}))
    last = len(frames) - 1
    return f"""<div id="stepped" data-launch="{data}">
<pre>{code}</pre>
<div class="side">
<label>step <output>{last}</output> <input type="range" min="0" max="{last}" value="{last}" aria-label="step of the launch"></label>
<p class="tile">tile: <code></code></p>
<p class="said">{html.escape(finding["message"])}</p>
<p>{door({"text": example["text"], "launch": example["launch"]})}</p>
</div>
</div>
<script src="assets/stepped.js"></script>
"""


def _frames(example: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Line and tile at each step up to the finding, and the finding."""
    from docs.playground.playground import Playground

    playground = Playground()

    def ask(**request: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(playground.answer(json.dumps(request)))
        return answer

    state = ask(do="load", text=example["text"], launch=example["launch"])
    frames = []
    found = ask(do="move", how="cont")
    for step in range(found["stop"]["step"] + 1):
        state = ask(do="move", how="goto", count=step)
        frames.append({"line": state["stop"]["line"], "tile": state["shared"]["values"][:COLUMNS]})
    return frames, found["findings"][0]

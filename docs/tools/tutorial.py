"""The pictures of the tutorial: a launch, drawn, with a door to it.

    <!-- picture: FILE | LAUNCH -->
    <!-- picture: FILE | OLD => NEW | LAUNCH -->
    <!-- door: EXAMPLE -->

FILE is one that the page writes. The last is a door to an example of the playground's own. LAUNCH holds the options of ``warpsim run``; OLD is replaced before it.
"""

from __future__ import annotations

import re
from pathlib import Path

from docs.tools import blocks
from docs.tools.playground import door, example

MARK = re.compile(r"^<!-- picture: (?P<file>\S+) \|(?: (?P<old>.*?) => (?P<new>.*?) \|)? (?P<launch>.*) -->$", re.M)
DOOR = re.compile(r"^<!-- door: (?P<file>\S+) -->$", re.M)
KINDS = ("memory", "shared", "async", "matrix", "barrier", "wait")
"""What a picture shows: a step that only computes, branches or reads a parameter says little."""
ROWS = 36


def page(markdown: str, path: Path) -> str:
    """The text of the page at ``path`` with its pictures."""
    text = MARK.sub(lambda mark: _picture(mark, path), markdown)
    return DOOR.sub(lambda mark: door(example(mark["file"])), text)


def _picture(mark: re.Match[str], path: Path) -> str:
    from docs.playground.playground import Playground
    from docs.tools.pictures import drawing
    from warpsim.trace.document import class_of

    text = blocks.files(path)[mark["file"]]
    if mark["old"] is not None:
        if mark["old"] not in text:
            raise ValueError(f"{path.name}: {mark['old']} is not in {mark['file']}")
        text = text.replace(mark["old"], mark["new"])
    playground = Playground()
    playground.load(text, mark["launch"])
    trace = playground.trace()
    assert trace is not None
    svg = drawing(trace, 0, ROWS, lambda traits: class_of(traits) in KINDS and "param" not in traits.spaces)
    return f'<figure class="launch" markdown="0">\n{svg}\n</figure>\n\n{door({"text": text, "launch": mark["launch"]})}'

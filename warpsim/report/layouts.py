"""An HTML page of an instruction's layout pictures."""

from __future__ import annotations

import html
from collections.abc import Iterable

from warpsim.layout.drawing import Drawing, svg
from warpsim.report import pages

STYLE = ".warpsim .scroll{margin:4px 0 18px}.warpsim svg{display:block}.warpsim .scroll{border-radius:6px}"
SCRIPT = """
for (const box of document.querySelectorAll('.scroll')) {
  const light = (key, on) => { for (const cell of box.querySelectorAll('.cell')) if (cell.dataset.key === key) cell.classList.toggle('lit', on); };
  box.addEventListener('mouseover', e => { const cell = e.target.closest('.cell'); if (cell && cell.dataset.key) light(cell.dataset.key, true); });
  box.addEventListener('mouseout', e => { const cell = e.target.closest('.cell'); if (cell && cell.dataset.key) light(cell.dataset.key, false); });
}
"""
"""Highlights everything that the same lane holds."""


def page(title: str, facts: str, drawings: Iterable[Drawing]) -> str:
    """Render the drawings one below another; pointing at a cell highlights what belongs to it."""
    parts = [f"<h1>{html.escape(title)}</h1><p>{html.escape(facts)}</p>"]
    parts += [f"<div class=scroll>{svg(drawing)}</div>" for drawing in drawings]
    return pages.page(title, "\n".join(parts), STYLE, SCRIPT)

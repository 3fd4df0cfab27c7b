"""What the documentation shows is what the program does."""

import re
from pathlib import Path

from warpsim.cli import main
from warpsim.numerics import matrix

DOCS = Path(__file__).parent.parent / "docs"


def test_readme_s_example(capsys, monkeypatch):
    """The example in the README prints what stands below it."""
    monkeypatch.chdir(DOCS.parent)
    code, shown = re.search(
        r"```python\n(.*?)```\n\n```text\n(.*?)```", Path("README.md").read_text(), re.DOTALL
    ).groups()
    exec(code, {})

    assert capsys.readouterr().out == shown


def test_watchers_example(capsys, monkeypatch):
    """The example in docs/watchers.md prints what stands below it."""
    monkeypatch.chdir(DOCS.parent)
    code, shown = re.search(
        r"```python\n(.*?)```\n\n```text\n(.*?)```", (DOCS / "watchers.md").read_text(), re.DOTALL
    ).groups()
    exec(code, {})

    assert capsys.readouterr().out == shown


def test_layouts_shows_a_true_output(capsys):
    """The table in docs/layouts.md is what the command prints."""
    page = (DOCS / "layouts.md").read_text()
    shown = re.search(r'\$ warpsim layout "(.*)" --operand A\n(.*?)```', page, re.DOTALL)
    assert main(["layout", shown[1], "--operand", "A"]) == 0

    assert capsys.readouterr().out.strip() == shown[2].strip()


def test_numerics_shows_the_table():
    """The parameters in docs/numerics.md are those of the code."""
    rows = re.findall(
        r"^\| sm_(\d+) \|[^|]*\| (\d+) \| (\d+) \| (-\d+) \| (-\d+) \|", (DOCS / "numerics.md").read_text(), re.M
    )
    shown = {int(sm): tuple(map(int, rest)) for sm, *rest in rows}
    units = {sm: (u.fraction, u.block_bytes, u.floor32, u.floor16) for sm, u in matrix.UNITS.items()}

    assert shown == units

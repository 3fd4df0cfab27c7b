"""Malformed text never breaks the language server: truncated and damaged files, as they are while somebody types."""

import random
from pathlib import Path

import pytest

pytest.importorskip("pygls", reason="the language server's tests need pygls: pip install warpsim[lsp]")
from lsprotocol import types as lsp

from lsp_client import at, talk
from warpsim.cli.lsp.server import _load_findings, _strict_findings
from warpsim.cli.lsp.text import Text
from warpsim.cli.lsp.words import completions, hover

ROOT = Path(__file__).parents[2]
CASES = sorted((ROOT / "tests" / "cases").glob("*/kernel.ptx"), key=lambda path: (path.stat().st_size, path))


def damaged(rng, text):
    """A text cut off, with a piece missing, or with a character that does not belong there."""
    at, kind = rng.randrange(len(text)), rng.randrange(4)
    if kind == 0:
        return text[:at], at
    if kind == 1:
        return text[:at] + text[at + rng.randrange(200) :], at
    return text[:at] + rng.choice('{}()[];:,."/*@%$<>\\\0\r\u2028\x85é𝄞') + text[at:], at


def ask(text, offset):
    """Every question about a place."""
    line, column = text.place(min(offset, len(text.text)))
    hover(text, line, column)
    completions(text, line, column)
    word = text.word(line, column)
    if word is not None:
        text.scope(text.starts[line] + column).find(word[0])
    list(text.sources(0, len(text.lines)))
    list(text.entries())
    return _load_findings(text) or _strict_findings(text)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_no_text_breaks_an_answer(seed):
    """No exception leaves, and no finding is a defect of warpsim."""
    rng = random.Random(seed)
    for _ in range(40):
        path = rng.choice(CASES[: len(CASES) // 2])
        text, offset = damaged(rng, path.read_text(encoding="utf-8"))
        findings = ask(Text(text, str(path)), offset)
        assert [f.message for f in findings if f.rule == "internal"] == [], (path, offset)


@pytest.mark.long
def test_the_server_stays_while_somebody_types():
    """A kernel typed in pieces, by changes that overlap with questions, and a position that is not there: every question gets an
    answer, and the last diagnostics are those of the whole text."""
    uri = "file:///typed.ptx"
    whole = (ROOT / "programs" / "saxpy" / "kernel.ptx").read_text(encoding="utf-8")

    async def scenario(client, offers):
        client.open(uri, "")
        for version, end in enumerate(range(0, len(whole) + 97, 97), 2):
            client.change(uri, version, whole[:end])
            line = whole[:end].count("\n")
            column = len(whole[:end]) - whole[:end].rfind("\n") - 1
            for place in ((line, min(column, 80)), (line, 0), (line + 9, 500)):
                await client.text_document_hover_async(lsp.HoverParams(*at(uri, *place)))
                await client.text_document_completion_async(lsp.CompletionParams(*at(uri, *place)))
                await client.text_document_definition_async(lsp.DefinitionParams(*at(uri, *place)))
            whole_range = lsp.Range(lsp.Position(0, 0), lsp.Position(line + 9, 0))
            await client.text_document_inlay_hint_async(
                lsp.InlayHintParams(lsp.TextDocumentIdentifier(uri), whole_range)
            )
            await client.text_document_document_symbol_async(lsp.DocumentSymbolParams(lsp.TextDocumentIdentifier(uri)))
        found = await client.diagnostics(uri)
        while not client.published.empty() or found:
            found = await client.diagnostics(uri)
        return found

    assert talk(scenario) == []

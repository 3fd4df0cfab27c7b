"""``warpsim lsp`` as pygls' own client meets it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pygls", reason="the language server's tests need pygls: pip install warpsim[lsp]")
from lsprotocol import types as lsp

from lsp_client import at, talk

ROOT = Path(__file__).parents[2]
URI = "file:///k.ptx"
TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out) {
  .reg .b32 %r<4>; .reg .b64 %out; .reg .pred %p;
  ld.param.u64 %out, [out];
  mov.u32 %r1, %tid.x;  // é𝄞
AGAIN:
  add.s32 %r2, %r1, 1;
  setp.lt.s32 %p, %r2, 4;
  @%p bra AGAIN;
  st.global.u32 [%out], %r2;
  ret;
}
"""


@pytest.mark.long
def test_a_session_of_an_editor():
    """Typing an error and mending it; hover, definition, completion: each answer as an editor gets it."""

    async def scenario(client, offers):
        client.open(URI, TEXT)
        assert await client.diagnostics(URI) == []

        place = lsp.Range(lsp.Position(8, 2), lsp.Position(8, 9))
        client.change(URI, 2, TEXT.replace("add.s32", "add.s33"))
        while not (found := await client.diagnostics(URI)):
            pass
        assert [(d.code, d.range, d.severity) for d in found] == [("illegal-form", place, lsp.DiagnosticSeverity.Error)]
        assert "s33" in found[0].message
        assert "nearest form" in found[0].message
        assert found[0].code_description.href.endswith("/reference/rules/illegal-form/")
        client.change(URI, 3, TEXT)
        assert await client.diagnostics(URI) == []

        hover = await client.text_document_hover_async(lsp.HoverParams(*at(URI, 8, 5)))
        assert hover.range == place
        assert "add.type d, a, b" in hover.contents.value
        assert "d = a + b" in hover.contents.value
        register = await client.text_document_definition_async(lsp.DefinitionParams(*at(URI, 8, 15)))
        assert register.range == lsp.Range(lsp.Position(4, 12), lsp.Position(4, 14))
        label = await client.text_document_definition_async(lsp.DefinitionParams(*at(URI, 10, 12)))
        assert label.range.start == lsp.Position(7, 0)

        typed = "  mma.sync.aligned.m16n8k16.row.col.f32."
        client.change(URI, 4, TEXT.replace("  ret;", f"{typed}\n  ret;"))
        offered = await client.text_document_completion_async(lsp.CompletionParams(*at(URI, 12, len(typed))))
        return {item.label for item in offered.items}

    assert talk(scenario) == {"f16", "bf16"}  # PTX ISA, mma: .f32 accumulators of m16n8k16 take these


@pytest.mark.long
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_columns_are_in_the_units_of_the_editor(encoding):
    """A character beyond the first plane is 4 bytes, 2 units of UTF-16, or one character."""
    width = {"utf-8": 4, "utf-16": 2, "utf-32": 1}[encoding]
    text = TEXT.replace("  add.s32", "/*𝄞*/ add.s33")

    async def scenario(client, offers):
        assert offers.capabilities.position_encoding == encoding
        client.open(URI, text)
        return await client.diagnostics(URI)

    (found,) = talk(scenario, encodings=(encoding,))

    assert (found.range.start.character, found.range.end.character) == (5 + width, 12 + width)


@pytest.mark.long
def test_run_above_a_kernel(tmp_path):
    """ "run" replays the case; what the launch breaks stands under its line, with the conflicting access."""
    shutil.copytree(ROOT / "programs" / "histogram", tmp_path / "case")
    ptx = tmp_path / "case" / "kernel.ptx"
    text = ptx.read_text(encoding="utf-8")
    first = text.index("bar.sync")
    uri = ptx.as_uri()

    async def scenario(client, offers):
        client.open(uri, text)
        lenses = await client.text_document_code_lens_async(lsp.CodeLensParams(lsp.TextDocumentIdentifier(uri)))
        assert [lens.command.title for lens in lenses] == ["run", "debug"]
        assert offers.capabilities.execute_command_provider.commands == ("warpsim.run",)
        run = lenses[0].command
        await client.workspace_execute_command_async(lsp.ExecuteCommandParams(run.command, run.arguments))
        good = (await client.shown.get()).message
        ptx.write_text(text[:first] + "//" + text[first:], encoding="utf-8")
        client.change(uri, 2, ptx.read_text(encoding="utf-8"))
        await client.workspace_execute_command_async(lsp.ExecuteCommandParams(run.command, run.arguments))
        bad = (await client.shown.get()).message
        while not (found := await client.diagnostics(uri)):
            pass
        return good, bad, found

    good, bad, found = talk(scenario, debug=True)

    assert good.startswith("case: the recorded results")
    assert "race" in bad
    assert found[0].code == "race"
    assert found[0].related_information


def test_without_pygls():
    """The command says what to install."""
    code = "import sys; sys.modules['pygls'] = None; from warpsim.cli import main; sys.exit(main(['lsp']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)

    assert (done.returncode, done.stdout) == (2, "")
    assert 'pip install "warpsim[lsp]"' in done.stderr

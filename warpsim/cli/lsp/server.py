"""The server: translates requests to questions about a `Text`, and findings to diagnostics."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import BinaryIO

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.workspace import PositionCodec

from warpsim.analysis.strict import check_program
from warpsim.cli.lsp.text import Text
from warpsim.cli.lsp.words import completions, hover
from warpsim.cli.output import internal
from warpsim.errors import Finding, PtxError, source_path
from warpsim.program.load import program_of
from warpsim.report.rules import page_of
from warpsim.types import JsonObject
from warpsim.version import VERSION

PAUSE = 0.15
"""Seconds after the last key before the text is checked."""
REST = 0.5
"""Seconds more before it is analysed as by ``check --strict``."""
LARGEST_STRICT = 1 << 20
"""Longest text, in characters, that is also analysed as by ``check --strict``."""
SEVERITIES = {"error": lsp.DiagnosticSeverity.Error, "warning": lsp.DiagnosticSeverity.Warning}
KINDS = {
    "opcode": lsp.CompletionItemKind.Keyword,
    "modifier": lsp.CompletionItemKind.EnumMember,
    "directive": lsp.CompletionItemKind.Keyword,
    "type": lsp.CompletionItemKind.TypeParameter,
}


class Server:
    """Serves one editor. Texts are checked in threads of their own, so that the editor's questions are answered meanwhile."""

    def __init__(self) -> None:
        self.server = LanguageServer("warpsim", VERSION, lsp.TextDocumentSyncKind.Full)
        # whole texts: pygls would divide them into lines at more characters than the protocol names
        self.thread = ThreadPoolExecutor(2)
        self.texts: dict[str, Text] = {}
        self.waiting: dict[str, asyncio.Task[None]] = {}
        self.ran: dict[str, list[Finding]] = {}
        """The findings of the launch that was run last, until the text is changed."""
        self.debugs = False
        """Whether the editor has the command ``warpsim.debug``."""
        self.checks = "default+race"
        """The checks of launches that are run."""
        triggers = lsp.CompletionOptions(trigger_characters=[".", "%", "$"])
        features: list[tuple[str, Callable[..., object], object]] = [
            (lsp.INITIALIZE, self.on_initialize, None),
            (lsp.TEXT_DOCUMENT_DID_OPEN, self.on_change, None),
            (lsp.TEXT_DOCUMENT_DID_CHANGE, self.on_change, None),
            (lsp.TEXT_DOCUMENT_DID_CLOSE, self.on_close, None),
            (lsp.TEXT_DOCUMENT_HOVER, self.on_hover, None),
            (lsp.TEXT_DOCUMENT_DEFINITION, self.on_definition, None),
            (lsp.TEXT_DOCUMENT_COMPLETION, self.on_completion, triggers),
            (lsp.TEXT_DOCUMENT_INLAY_HINT, self.on_inlay, None),
            (lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL, self.on_symbols, None),
            (lsp.TEXT_DOCUMENT_CODE_LENS, self.on_lens, None),
        ]
        for name, handler, options in features:
            self.server.feature(name, options)(partial(handler))
        self.server.command("warpsim.run")(partial(self.run))

    def serve(self, source: BinaryIO, target: BinaryIO) -> None:
        """Serve until the editor leaves."""
        logging.getLogger("pygls").setLevel(logging.CRITICAL)  # an editor may leave in the middle of a message
        self.server.start_io(source, target)
        self.thread.shutdown(wait=False, cancel_futures=True)

    def on_initialize(self, params: lsp.InitializeParams) -> None:
        """Look what the editor can do."""
        given = params.initialization_options
        if isinstance(given, Mapping):
            self.debugs = given.get("debug") is True
            self.checks = str(given.get("checks") or self.checks)

    # ---- texts -------------------------------------------------------------------------------

    def text(self, uri: str) -> Text:
        """A text as it stands in the editor."""
        document = self.server.workspace.get_text_document(uri)
        known = self.texts.get(uri)
        source = document.source
        if known is None or known.text is not source:
            known = self.texts[uri] = Text(source, document.path or uri)
        return known

    def _codec(self) -> PositionCodec:
        return self.server.workspace.position_codec

    def _place(self, text: Text, position: lsp.Position) -> tuple[int, int]:
        """Line and column, in characters, of a position in the editor's units."""
        if position.line >= len(text.lines):
            return len(text.lines) - 1, len(text.lines[-1])
        found = self._codec().position_from_client_units(text.lines, position)
        return found.line, min(found.character, len(text.lines[found.line]))

    def _range(self, text: Text, line: int, first: int, last: int) -> lsp.Range:
        """A part of a line, in the editor's units."""
        line = min(max(line, 0), len(text.lines) - 1)
        within = text.lines[line]
        start, end = (
            sum(map(self._codec().client_num_units, within[: max(column, 0)])) for column in (first, max(last, first))
        )
        return lsp.Range(lsp.Position(line, start), lsp.Position(line, end))

    # ---- diagnostics -------------------------------------------------------------------------

    async def on_change(self, params: lsp.DidOpenTextDocumentParams | lsp.DidChangeTextDocumentParams) -> None:
        """Check a text once the keys rest."""
        uri = params.text_document.uri
        self.ran.pop(uri, None)
        if uri in self.waiting:
            self.waiting[uri].cancel()
        self.waiting[uri] = asyncio.create_task(self._check(uri, 0 if uri not in self.texts else PAUSE))

    def on_close(self, params: lsp.DidCloseTextDocumentParams) -> None:
        """Forget a text."""
        uri = params.text_document.uri
        for kept in (self.texts, self.ran):
            kept.pop(uri, None)
        if uri in self.waiting:
            self.waiting.pop(uri).cancel()
        self._publish(uri, None, [])

    async def _check(self, uri: str, pause: float) -> None:
        """Publish what a load finds; then what can be known without running."""
        await asyncio.sleep(pause)
        text = self.text(uri)
        loop = asyncio.get_running_loop()
        findings = await loop.run_in_executor(self.thread, _load_findings, text)
        if self._stale(uri, text):
            return
        self._publish(uri, text, findings)
        if not any(f.severity == "error" for f in findings) and len(text.text) <= LARGEST_STRICT:
            await asyncio.sleep(REST)
            findings = await loop.run_in_executor(self.thread, _strict_findings, text, lambda: self._stale(uri, text))
            if not self._stale(uri, text):
                self._publish(uri, text, findings)

    def _stale(self, uri: str, text: Text) -> bool:
        """Whether a text has been changed or closed."""
        known = self.texts.get(uri)
        return known is not text or self.server.workspace.get_text_document(uri).source is not text.text

    def _publish(self, uri: str, text: Text | None, findings: Iterable[Finding]) -> None:
        found = [] if text is None else [self._diagnostic(uri, text, f) for f in (*findings, *self.ran.get(uri, ()))]
        self.server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found))

    def _diagnostic(self, uri: str, text: Text, finding: Finding) -> lsp.Diagnostic:
        line, column = max(finding.line - 1, 0), max(finding.column - 1, 0)
        found = text.opcode(line, column)
        word = text.word(line, column)
        last = found.end(1) if found is not None and found.start(1) == column else word.end() if word else column + 1
        places = [] if finding.other is None else [self._related(uri, text, finding.other)]
        sources = [("the CUDA line", finding.source)] * (finding.source is not None)
        for said, source in (*sources, *(("inlined at", call) for call in finding.inlined_at)):
            path = source_path(source[0], text.file) if source is not None else None
            if path is not None and source is not None:
                start = lsp.Position(max(source[1] - 1, 0), 0)
                location = lsp.Location(Path(os.path.abspath(path)).as_uri(), lsp.Range(start, start))
                places.append(lsp.DiagnosticRelatedInformation(location, f"{said}: {text.source_text(source)}"))
        said, page = _said(finding), page_of(finding.rule)
        return lsp.Diagnostic(
            self._range(text, line, column, last),
            said,
            severity=SEVERITIES.get(finding.severity, lsp.DiagnosticSeverity.Information),
            code=finding.rule,
            code_description=lsp.CodeDescription(page) if page else None,
            source="warpsim",
            related_information=places or None,
        )

    def _related(self, uri: str, text: Text, other: Finding) -> lsp.DiagnosticRelatedInformation:
        place = self._range(text, other.line - 1, other.column - 1, other.column)
        return lsp.DiagnosticRelatedInformation(lsp.Location(uri, place), _said(other))

    # ---- questions ---------------------------------------------------------------------------

    def on_hover(self, params: lsp.HoverParams) -> lsp.Hover | None:
        """Explain the word under the pointer."""
        text = self.text(params.text_document.uri)
        line, column = self._place(text, params.position)
        found = hover(text, line, column)
        if found is None:
            return None
        said, first, last = found
        content = lsp.MarkupContent(lsp.MarkupKind.Markdown, said)
        return lsp.Hover(content, self._range(text, line, first, last))

    def on_definition(self, params: lsp.DefinitionParams) -> lsp.Location | None:
        """Where a name is declared; of a ``.loc``, the CUDA line."""
        uri = params.text_document.uri
        text = self.text(uri)
        line, column = self._place(text, params.position)
        if text.code(line).lstrip().startswith(".loc"):
            source = text.source(line)
            path = source_path(source[0], text.file) if source is not None else None
            if path is None or source is None:
                return None
            start = lsp.Position(max(source[1] - 1, 0), 0)
            return lsp.Location(Path(os.path.abspath(path)).as_uri(), lsp.Range(start, start))
        word = text.word(line, column)
        found = text.scope(text.starts[line] + column).find(word[0]) if word is not None else None
        if found is None:
            return None
        line, column = text.place(found.start)
        return lsp.Location(uri, self._range(text, line, column, column + len(found.name)))

    def on_completion(self, params: lsp.CompletionParams) -> lsp.CompletionList:
        """The words that may stand at the cursor."""
        text = self.text(params.text_document.uri)
        line, column = self._place(text, params.position)
        first, words = completions(text, line, column)
        place = self._range(text, line, first, column)
        items = [
            lsp.CompletionItem(
                label,
                kind=KINDS.get(detail, lsp.CompletionItemKind.Variable),
                detail=detail,
                text_edit=lsp.TextEdit(place, label),
                filter_text=label,
            )
            for label, detail in words
        ]
        return lsp.CompletionList(is_incomplete=False, items=items)

    def on_inlay(self, params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        """The CUDA line behind each ``.loc``."""
        text = self.text(params.text_document.uri)
        found = []
        for line, source in text.sources(params.range.start.line, params.range.end.line):
            end = self._range(text, line, 0, len(text.code(line).rstrip())).end
            found.append(lsp.InlayHint(end, f"// {text.source_text(source)}", padding_left=True))
        return found

    def on_symbols(self, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        """The functions, and the labels in them."""
        text, found = self.text(params.text_document.uri), []
        for scope in text.functions():
            first, last = text.place(scope.start), text.place(min(scope.end, len(text.text)))
            place = lsp.Range(lsp.Position(first[0], 0), lsp.Position(last[0], 0))
            labels = [
                lsp.DocumentSymbol(d.name, lsp.SymbolKind.Key, at, at)
                for d in scope.names.values()
                if d.kind == "label"
                and (at := self._range(text, line := text.place(d.start)[0], 0, len(text.lines[line])))
            ]
            name = self._range(text, first[0], first[1], len(text.lines[first[0]]))
            found.append(lsp.DocumentSymbol(scope.function, lsp.SymbolKind.Function, place, name, children=labels))
        return found

    # ---- launches ----------------------------------------------------------------------------

    def on_lens(self, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        """Above the kernel of a recorded launch: run, debug."""
        text = self.text(params.text_document.uri)
        case = _case(text.file)
        if case is None:
            return []
        folder, entry = case
        found = []
        commands = [("run", "warpsim.run", [folder, params.text_document.uri])]
        commands += [("debug", "warpsim.debug", [folder])] if self.debugs else []
        for kernel in text.entries():
            if kernel.name == entry:
                line, column = text.place(kernel.start)
                place = self._range(text, line, column, column + len(kernel.name))
                found += [
                    lsp.CodeLens(place, lsp.Command(title, name, arguments=given)) for title, name, given in commands
                ]
        return found

    async def run(self, case: str, uri: str) -> None:
        """Run a recorded launch in a process of its own; its findings become diagnostics."""
        words = [sys.executable, "-m", "warpsim", "replay", "--json", f"--checks={self.checks}", case]
        null, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*words, stdin=null, stdout=pipe, stderr=null)
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        said, findings = _outcome(output)
        kind = lsp.MessageType.Info if process.returncode == 0 else lsp.MessageType.Warning
        self.server.window_show_message(lsp.ShowMessageParams(kind, f"{os.path.basename(case)}: {said}"))
        self.ran[uri] = findings
        text = self.text(uri)
        loaded = await asyncio.get_running_loop().run_in_executor(self.thread, _load_findings, text)
        self._publish(uri, text, loaded)


def _load_findings(text: Text) -> tuple[Finding, ...]:
    """What a load finds in a text."""
    try:
        program_of(text.text, text.file)
    except PtxError as problem:
        return problem.findings
    except Exception as defect:
        return (Finding("internal", internal(defect), file=text.file, line=1, column=1),)
    return ()


def _strict_findings(text: Text, stop: Callable[[], bool] = lambda: False) -> tuple[Finding, ...]:
    """What ``check --strict`` finds in a text that loads."""
    try:
        return check_program(program_of(text.text, text.file), stop)
    except Exception as defect:
        return (Finding("internal", internal(defect), file=text.file, line=1, column=1),)


def _said(finding: Finding) -> str:
    """A finding in words, without its place."""
    times = f"{finding.count:,} times here" if finding.count > 1 else ""
    return "\n".join(part for part in (finding.message, times, finding.advice) if part)


def _case(file: str) -> tuple[str, str] | None:
    """The case that a file belongs to: its folder and its kernel."""
    path = Path(file)
    with contextlib.suppress(OSError, ValueError):
        if path.name == "kernel.ptx" and (described := path.with_name("case.json")).stat().st_size < LARGEST_STRICT:
            entry = json.loads(described.read_text(encoding="utf-8")).get("entry")
            return str(path.parent), str(entry)
    return None


def _outcome(output: bytes) -> tuple[str, list[Finding]]:
    """What ``warpsim replay --json`` says of a case, in words, and its findings."""
    try:
        document = json.loads(output)
        case: JsonObject = (document.get("cases") or [{"error": document.get("error")}])[0]
    except (ValueError, AttributeError, IndexError):
        return "warpsim replay ended without a result", []
    findings = [_finding(record) for record in case.get("findings") or ()]
    wrong = [o["buffer"] for o in case.get("outputs") or () if not o.get("ok")]
    if case.get("ok"):
        return f"the recorded results, in {case.get('seconds', 0):.1f} s", findings
    if findings:
        return str(case.get("error") or findings[0].headline()).split("\n")[0], findings
    return str(case.get("error") or f"{', '.join(wrong)} differ from the recording").split("\n")[0], findings


def _finding(record: JsonObject) -> Finding:
    other = record.get("other")
    source = record.get("source")
    return Finding(
        str(record["rule"]),
        str(record["message"]),
        severity=str(record["severity"]),
        advice=str(record["advice"]),
        file=str(record["file"]),
        line=int(record["line"]),
        column=int(record["column"]),
        source=(str(source[0]), int(source[1])) if source else None,
        other=_finding(other) if other else None,
        count=int(record["count"]),
        inlined_at=tuple((str(file), int(line)) for file, line in record.get("inlined_at") or ()),
    )

"""pygls' own client, driving ``warpsim lsp`` over pipes."""

import asyncio
import os
import sys
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

SECONDS = 60.0


class Client(LanguageClient):
    """A client that keeps what the server publishes and shows."""

    def __init__(self):
        super().__init__("tests", "1")
        self.published = asyncio.Queue()
        self.shown = asyncio.Queue()
        self.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(self._publishes())
        self.feature(lsp.WINDOW_SHOW_MESSAGE)(self._shows())

    def _publishes(self):
        return lambda params: self.published.put_nowait(params)

    def _shows(self):
        return lambda params: self.shown.put_nowait(params)

    async def begin(self, encodings=("utf-16",), **options):
        """Start the server and shake hands; returns what it offers."""
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        await self.start_io(sys.executable, "-m", "warpsim", "lsp", env=environment)
        general = lsp.GeneralClientCapabilities(position_encodings=list(encodings))
        given = await self.initialize_async(
            lsp.InitializeParams(lsp.ClientCapabilities(general=general), initialization_options=options)
        )
        self.initialized(lsp.InitializedParams())
        return given

    def open(self, uri, text):
        """Show a text."""
        self.text_document_did_open(lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "ptx", 1, text)))

    def change(self, uri, version, text):
        """Replace a text."""
        identifier = lsp.VersionedTextDocumentIdentifier(uri=uri, version=version)
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        self.text_document_did_change(lsp.DidChangeTextDocumentParams(identifier, [change]))

    async def diagnostics(self, uri):
        """The next diagnostics of a text."""
        while True:
            found = await asyncio.wait_for(self.published.get(), SECONDS)
            if found.uri == uri:
                return list(found.diagnostics)

    async def end(self):
        """Leave."""
        await asyncio.wait_for(self.shutdown_async(None), SECONDS)
        self.exit(None)
        await asyncio.wait_for(self.stop(), SECONDS)


def talk(scenario, **begin):
    """Run a scenario, a coroutine function of a client and of what the server offers, against a server of its own."""

    async def whole():
        client = Client()
        offers = await client.begin(**begin)
        try:
            return await scenario(client, offers)
        finally:
            await client.end()

    return asyncio.run(whole())


def at(uri, line, column):
    """The parameters of a question about a place."""
    return lsp.TextDocumentIdentifier(uri), lsp.Position(line, column)

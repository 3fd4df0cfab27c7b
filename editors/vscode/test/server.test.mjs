// `warpsim lsp` and `warpsim dap` as VS Code's own protocol library meets them. WARPSIM_PYTHON is the Python that has warpsim.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import test from "node:test";

const require = createRequire(import.meta.url);
const rpc = require("vscode-languageserver-protocol/node");
const python = process.env.WARPSIM_PYTHON ?? "python3";
const start = (name) => spawn(python, ["-m", "warpsim", name], { stdio: ["pipe", "pipe", "inherit"] });

const HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n  .reg .b32 %r<4>;\n";
const textDocument = { uri: "file:///k.ptx" };

test("a session of the language server", async () => {
  const child = start("lsp");
  const client = rpc.createProtocolConnection(
    new rpc.StreamMessageReader(child.stdout), new rpc.StreamMessageWriter(child.stdin),
  );
  const published = [];
  const waiting = [];
  client.onNotification(rpc.PublishDiagnosticsNotification.type, (found) => {
    published.push(found.diagnostics);
    waiting.shift()?.();
  });
  const next = async () => {
    if (!published.length) await new Promise((resolve) => waiting.push(resolve));
    return published.shift();
  };
  client.listen();
  const offers = await client.sendRequest(rpc.InitializeRequest.type, { processId: process.pid, rootUri: null, capabilities: {} });
  assert.ok(offers.capabilities.hoverProvider && offers.capabilities.definitionProvider);
  await client.sendNotification(rpc.InitializedNotification.type, {});
  const text = `${HEAD}  add.s33 %r1, %r2, 1;\n  ret;\n}\n`;
  await client.sendNotification(rpc.DidOpenTextDocumentNotification.type, {
    textDocument: { ...textDocument, languageId: "ptx", version: 1, text },
  });
  const [error] = await next();
  assert.equal(error.code, "illegal-form");
  assert.deepEqual(error.range, { start: { line: 5, character: 2 }, end: { line: 5, character: 9 } });
  await client.sendNotification(rpc.DidChangeTextDocumentNotification.type, {
    textDocument: { ...textDocument, version: 2 }, contentChanges: [{ text: text.replace("s33", "s32") }],
  });
  let found;
  do found = await next();
  while (found.some((d) => d.code === "illegal-form"));
  const hover = await client.sendRequest(rpc.HoverRequest.type, { textDocument, position: { line: 5, character: 4 } });
  assert.match(hover.contents.value, /d = a \+ b/);
  const place = await client.sendRequest(rpc.DefinitionRequest.type, { textDocument, position: { line: 5, character: 11 } });
  assert.deepEqual(place.range.start, { line: 4, character: 12 });
  await client.sendRequest(rpc.ShutdownRequest.type);
  await client.sendNotification(rpc.ExitNotification.type);
  assert.equal(await new Promise((resolve) => child.on("exit", resolve)), 0);
});

test("the request of the view of the warp", async () => {
  const child = start("dap");
  let buffer = Buffer.alloc(0);
  const messages = [];
  const waiting = [];
  child.stdout.on("data", (data) => {
    buffer = Buffer.concat([buffer, data]);
    for (;;) {
      const end = buffer.indexOf("\r\n\r\n");
      const length = end < 0 ? NaN : Number(/Content-Length: (\d+)/.exec(buffer.subarray(0, end).toString())[1]);
      if (!(buffer.length >= end + 4 + length)) break;
      messages.push(JSON.parse(buffer.subarray(end + 4, end + 4 + length).toString()));
      buffer = buffer.subarray(end + 4 + length);
    }
    waiting.splice(0).forEach((wake) => wake());
  });
  let seq = 0;
  const send = (command, args) => {
    const body = JSON.stringify({ seq: ++seq, type: "request", command, arguments: args });
    child.stdin.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
    return until((m) => m.request_seq === seq);
  };
  const until = async (wanted) => {
    for (;;) {
      const found = messages.findIndex(wanted);
      if (found >= 0) return messages.splice(found, 1)[0];
      await new Promise((resolve) => waiting.push(resolve));
    }
  };
  await send("initialize", { adapterID: "warpsim" });
  await send("launch", { case: "saxpy" });
  await send("configurationDone", {});
  const stop = await until((m) => m.event === "stopped");
  await send("next", { threadId: stop.body.threadId });
  await until((m) => m.event === "stopped");
  const { body } = await send("warp", {});
  assert.equal(body.active.length, 32);
  assert.ok(body.registers.every((r) => r.lanes.length === 32));
  await send("disconnect", {});
  await new Promise((resolve) => child.on("exit", resolve));
});

// The grammar, as VS Code's own tokenizer (vscode-textmate, vscode-oniguruma) reads it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import test from "node:test";

const require = createRequire(import.meta.url);
const oniguruma = require("vscode-oniguruma");
const { INITIAL, Registry, parseRawGrammar } = require("vscode-textmate");
const path = new URL("../syntaxes/ptx.tmLanguage.json", import.meta.url).pathname;

async function grammar() {
  const wasm = readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm"));
  await oniguruma.loadWASM(wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.byteLength));
  const registry = new Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
      createOnigString: (text) => new oniguruma.OnigString(text),
    }),
    loadGrammar: async () => parseRawGrammar(readFileSync(path, "utf8"), path),
  });
  return registry.loadGrammar("source.ptx");
}
const loaded = grammar();

/** The pieces of a line, each with its innermost scope. */
async function pieces(line) {
  const { tokens } = (await loaded).tokenizeLine(line, INITIAL);
  return Object.fromEntries(
    tokens.map((t) => [line.slice(t.startIndex, t.endIndex).trim(), t.scopes.at(-1).replace(/\.ptx$/, "")]).filter(([text]) => text),
  );
}

const LINES = {
  "  add.s32 %r2, %r1, 0x10; // sum": {
    add: "support.function.instruction", ".s32": "support.type.modifier", "%r2": "variable.other.register",
    "0x10": "constant.numeric", "// sum": "comment.line.double-slash",
  },
  "@!%p1 bra $L__BB0_2;": { "%p1": "variable.other.register", bra: "keyword.control", $L__BB0_2: "entity.name.label" },
  "$L__BB0_2:": { $L__BB0_2: "entity.name.label" },
  ".visible .entry axpy(": { ".visible": "storage.modifier", ".entry": "storage.type.function", axpy: "entity.name.function" },
  "  .reg .b32 %r<6>;": { ".reg": "storage.modifier", ".b32": "storage.type", "%r": "variable.other.register", 6: "constant.numeric" },
  ".target sm_90a": { ".target": "keyword.control.directive" },
  "  cp.async.bulk.global.shared::cta.bulk_group [%out], [%s], 128;": { ".async.bulk.global.shared::cta.bulk_group": "support.type.modifier" },
  "  mov.u32 %r1, %ctaid.x;": { "%ctaid.x": "variable.language.special" },
  "  mov.f32 %f1, 0f3F800000;": { "0f3F800000": "constant.numeric" },
  '  .file 1 "axpy.cu"': { ".file": "keyword.control.directive", "axpy.cu": "string.quoted.double" },
  "  ret;": { ret: "keyword.control" },
};

for (const [line, wanted] of Object.entries(LINES)) {
  test(line, async () => {
    const found = await pieces(line);
    for (const [text, scope] of Object.entries(wanted)) assert.equal(found[text], scope, `${text} in ${JSON.stringify(found)}`);
  });
}

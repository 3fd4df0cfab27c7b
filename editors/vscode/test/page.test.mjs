// The page of a warp: what changed and who is away is marked, and text stays text.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { transformSync } from "esbuild";

const source = readFileSync(new URL("../src/page.ts", import.meta.url), "utf8");
const { code } = transformSync(source, { loader: "ts", format: "esm" });
const { page } = await import(`data:text/javascript,${encodeURIComponent(code)}`);

const warp = (values, active) => ({
  title: "CTA (0, 0, 0) warp 0", instruction: "add.s32 %r1, %r2, 1;", lane: 0, active,
  registers: [{ name: "%r1", type: "u32", lanes: values }],
  matrices: [{ name: "a", axes: ["m", "k"], values: [["1.5"]], owners: [["lane 3, %r<4>"]], note: "" }],
});

test("what changed since the last stop is marked", () => {
  const cells = page(warp(["2", "7"], [true, false]), warp(["1", "7"], [true, false])).match(/<td class="[^"]*" title/g);
  assert.deepEqual(cells, ['<td class="changed lane" title', '<td class="away" title']);
});

test("owners are escaped", () => {
  assert.match(page(warp(["1", "2"], [true, true])), /title="lane 3, %r&#60;4&#62;"/);
});

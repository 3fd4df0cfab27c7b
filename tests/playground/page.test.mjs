import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "../../docs/playground/client.js";
import { decode, encode, without } from "../../docs/playground/share.js";
import * as view from "../../docs/playground/view.js";

test("a link carries a program and its launch", async () => {
  const shared = { text: "ret; // ünïcode\n".repeat(500), launch: "--grid 1 --block 32" };
  const fragment = await encode(shared);
  assert.match(fragment, /^p=[\w-]+$/);
  assert.ok(fragment.length < 300);
  assert.deepEqual(await decode(`#${fragment}`), shared);
});

test("a link that is none is refused", async () => {
  for (const bad of ["", "#", "#anchor", "#p=", "#p=AAAA", "#p=%%%"]) assert.equal(await decode(bad), null);
});

test("lines become comments and keep their numbers", () => {
  assert.equal(without("a\n  b\nc", [2]), "a\n\t// b\nc");
});

const lanes = (value) => [...Array(32).keys()].map(value);

test("equal values are one cell; changes are marked", () => {
  assert.match(view.row({ name: "%r", values: lanes(() => "7"), changed: [] }), /colspan="32">7</);
  const row = view.row({ name: "%r", values: lanes(String), changed: [3] });
  assert.equal(row.match(/<td/g).length, 32);
  assert.equal(row.match(/class="new"/g).length, 1);
  assert.match(row, /<td class="new" title="3">3</);
});

test("what a program names is text, not markup", () => {
  assert.ok(!view.row({ name: "<img>", values: lanes(() => "<b>"), changed: [] }).match(/<img|<b>/));
});

test("a column of shared memory is a bank", () => {
  const html = view.shared({ shared: { values: Array(64).fill("0"), changed: [33], first: 0, size: 256 } });
  assert.equal(html.match(/<tr>/g).length, 3);
  assert.match(html, /0x80/);
  assert.equal(html.match(/class="new zero"/g).length, 1);
  assert.ok(!html.includes("button"));
});

test("the timeline joins steps of one kind and marks findings", () => {
  const time = { warps: [[0, 0, 0, 0], [0, 0, 0, 1]], steps: [[1, "memory", [0]], [2, "memory", [0]], [1, "memory", [1]]], findings: [[2, "race"]], flights: [["cp.async", 1, null]] };
  const svg = view.timeline(time, 1);
  assert.equal(svg.match(/class="memory"/g).length, 2);
  assert.match(svg, /x="0" y="0" width="2"/);
  assert.match(svg, /class="finding" x="2"/);
  assert.match(svg, /class="flight" x="1" [^>]*width="2"/);
});

class FakeWorker {
  static made = [];
  constructor() {
    FakeWorker.made.push(this);
    this.sent = [];
  }
  postMessage(message) {
    this.sent.push(message);
  }
  terminate() {
    this.ended = true;
  }
}

test("answers find their questions; stopping answers what is open and starts anew", async () => {
  const said = [];
  const client = new Client(() => new FakeWorker(), (text) => said.push(text));
  const [first] = FakeWorker.made;
  first.onmessage({ data: { status: "ready" } });
  const [a, b] = [client.ask({ do: "look" }), client.ask({ do: "timeline" })];
  first.onmessage({ data: { number: 2, answer: { steps: [] } } });
  assert.deepEqual(await b, { steps: [] });
  client.stop();
  assert.equal((await a).error, "stopped");
  assert.ok(first.ended);
  assert.equal(FakeWorker.made.length, 2);
  assert.deepEqual(said, ["ready"]);
});

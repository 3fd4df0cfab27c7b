// The playground's page: the editor, the buttons, and what they show.

import { Client } from "./client.js";
import { makeEditor } from "./editor.js";
import { decode, encode, without } from "./share.js";
import * as view from "./view.js";

const root = document.getElementById("simulator");
const part = (name) => root.querySelector(`[data-part="${name}"]`);
const status = (text) => (part("status").textContent = text);
const examples = await (await fetch(new URL("examples.json", import.meta.url))).json();

const editor = await makeEditor(part("editor"), () => (loaded = null));
const address = new URL("worker.js", import.meta.url);
address.searchParams.set("pyodide", new URL(root.dataset.pyodide, location).href);
const client = new Client(() => new Worker(address, { type: "module" }), status);

let loaded = null; // the text and launch that the worker holds
let state = null;
let time = null;
let tab = "registers";
let operand = "a";
let busy = false;

async function ask(request) {
  busy = true;
  root.classList.add("busy");
  const answer = await client.ask(request);
  busy = false;
  root.classList.remove("busy");
  return answer;
}

async function show(answer) {
  if (answer.stop) state = answer;
  else loaded = null;
  editor.mark(answer.findings ?? [], answer.stop?.line ?? 0);
  const errors = (answer.findings ?? []).map((f) => f.text);
  part("findings").textContent = errors.length ? errors.join("\n\n") : (answer.error ?? "");
  status(answer.stop ? view.place(state) : "not loaded");
  if (answer.stop) await panel();
}

async function panel() {
  if (!state) return;
  for (const button of root.querySelectorAll("[data-tab]")) button.setAttribute("aria-pressed", button.dataset.tab === tab);
  let html;
  if (tab === "matrix") {
    const found = await ask({ do: "matrix", operand });
    const choose = ["a", "b", "c", "d", "e"].map((o) => `<button data-operand="${o}" aria-pressed="${o === operand}">${o}</button>`);
    html = `<p>${choose.join(" ")}</p>${view.matrix(found)}`;
  } else html = view[tab](state);
  part("panel").innerHTML = html;
  part("timeline").innerHTML = time && !time.error ? view.timeline(time, state.stop.step) : "";
}

async function load() {
  const wanted = { text: editor.text(), launch: part("launch").value };
  if (loaded && loaded.text === wanted.text && loaded.launch === wanted.launch) return true;
  time = null;
  const answer = await ask({ do: "load", ...wanted });
  if (!answer.stop) {
    await show(answer);
    return false;
  }
  loaded = wanted;
  time = await ask({ do: "timeline" });
  state = answer;
  return true;
}

async function move(how, count = 1) {
  if (busy) return;
  const fresh = !loaded;
  if (!(await load())) return;
  if (how === "cont" && !fresh && state.stop.reason === "end") await ask({ do: "move", how: "restart" });
  await show(await ask({ do: "move", how, count }));
  if (how === "cont" && state.stop.reason === "end" && (state.arrays.length || state.printed)) {
    tab = "waits";
    await panel();
  }
}

function stop() {
  client.stop();
  loaded = null;
  status("stopped; the simulator starts again");
}

async function share() {
  const fragment = await encode({ text: editor.text(), launch: part("launch").value });
  history.replaceState(null, "", `#${fragment}`);
  const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
  status(copied ? "the link is in the clipboard" : "the link is in the address bar");
}

const MOVES = { run: () => move("cont"), step: () => move("step"), back: () => move("back"), rcont: () => move("rcont"), restart: () => move("restart"), stop, share };

root.addEventListener("click", async (event) => {
  const button = event.target.closest("button, th[data-lane], svg");
  if (!button || !root.contains(button)) return;
  const { act, tab: chosen, shared, warp, cta, lane, operand: wanted } = button.dataset;
  if (act) return MOVES[act]();
  if (chosen) tab = chosen;
  else if (wanted) operand = wanted;
  else if (busy || !state) return;
  else if (shared !== undefined) state = await ask({ do: "look", shared: Number(shared) });
  else if (warp !== undefined) return show(await ask({ do: "focus", cta: cta.split(",").map(Number), warp: Number(warp) }));
  else if (lane !== undefined) return show(await ask({ do: "focus", cta: state.focus.cta, warp: state.focus.warp, lane: Number(lane) }));
  else if (button.tagName === "svg") {
    const box = button.getBoundingClientRect();
    return move("goto", Math.round(((event.clientX - box.left) / box.width) * time.steps.length));
  } else return;
  await panel();
});

root.addEventListener("keydown", (event) => {
  const act = { F5: "run", F10: "step", F9: "back" }[event.key];
  if (act) {
    event.preventDefault();
    MOVES[act]();
  }
});

async function open(program) {
  let text = program.text;
  if (program.example) {
    const answer = await ask({ do: "example", name: program.example });
    if (answer.error) return show(answer);
    text = without(answer.text, program.without ?? []);
  }
  editor.set(text);
  part("launch").value = program.launch;
  loaded = null;
}

const chooser = part("examples");
chooser.append(...examples.map(({ title }, at) => new Option(title, at)));
chooser.addEventListener("change", async () => {
  history.replaceState(null, "", location.pathname);
  await open(examples[chooser.value]);
  await move("restart");
});

const shared = await decode(location.hash);
await open(shared ?? examples[0]);
if (shared) chooser.selectedIndex = -1;
window.addEventListener("hashchange", async () => {
  const found = await decode(location.hash);
  if (found) await open(found);
});
root.dataset.ready = "yes";

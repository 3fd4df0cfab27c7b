"use strict";
addEventListener("error", event => { document.body.dataset.error = event.message; });
(() => {
  const $ = id => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const ints = text => {
    const raw = atob(text), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    return new Int32Array(bytes.buffer);
  };
  const steps = ints(data.steps), runs = ints(data.runs), marks = ints(data.shared.marks);
  const count = steps.length, nRuns = runs.length / 3, rows = data.warps;
  const LEFT = 134, lineOf = new Int32Array(count), classOf = new Uint8Array(count);
  for (let i = 0; i < count; i++) { lineOf[i] = data.instructions[steps[i]][0]; classOf[i] = data.instructions[steps[i]][2]; }
  const ctas = [...new Set(rows.map(r => r.slice(0, 3).join(",")))];
  const flights = data.flights.map(([kind, at, row, cta, issued, bytes, low, high, signalled, free, visible]) =>
    ({kind, at, row, cta, issued, bytes, low, high, signalled, free, visible, end: visible < 0 ? count : visible}));
  const state = {from: 0, to: Math.max(count, 1), step: -1, row: -1, line: null, cta: 0, file: null};

  // ---- colours, as the system's scheme has them ----
  let paint;
  const colours = () => {
    const style = getComputedStyle(document.body), get = name => style.getPropertyValue(name).trim();
    paint = {fg: get("--fg"), dim: get("--dim"), bg: get("--bg"), soft: get("--soft"), line: get("--line"), accent: get("--accent"),
      error: get("--error"), warning: get("--warning"), note: get("--note"), hatch: get("--hatch"),
      classes: data.classes.map((_, i) => get("--c" + i)),
      kinds: {load: get("--load"), store: get("--store"), wgmma: get("--wgmma"), tcgen05: get("--wgmma"), "cp.async": get("--cpasync")},
      marks: [get("--read"), get("--write"), get("--wgmma")]};
    paint.hatching = {};
  };
  const hatched = (context, colour) => {
    if (!paint.hatching[colour]) {
      const tile = document.createElement("canvas"); tile.width = tile.height = 6;
      const pen = tile.getContext("2d"); pen.strokeStyle = colour; pen.lineWidth = 1.4;
      pen.beginPath(); pen.moveTo(-1, 7); pen.lineTo(7, -1); pen.moveTo(-1, 1); pen.lineTo(1, -1); pen.moveTo(5, 7); pen.lineTo(7, 5); pen.stroke();
      paint.hatching[colour] = context.createPattern(tile, "repeat");
    }
    return paint.hatching[colour];
  };
  const pen = (canvas, height) => {
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth;
    canvas.style.height = height + "px";
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = paint.bg; context.fillRect(0, 0, width, height);
    context.font = "11px system-ui,sans-serif"; context.textBaseline = "middle";
    return [context, width];
  };

  // ---- time and pixels ----
  const scale = width => (width - LEFT) / (state.to - state.from);
  const xOf = (step, width) => LEFT + (step - state.from) * scale(width);
  const stepAt = (x, width) => state.from + (x - LEFT) / scale(width);
  const firstRun = step => {
    let low = 0, high = nRuns;
    while (low < high) { const mid = (low + high) >> 1; if (runs[3 * mid + 1] <= step) low = mid + 1; else high = mid; }
    return low;
  };
  const runOf = step => { const at = firstRun(step); return at < nRuns && runs[3 * at] <= step ? at : -1; };
  const crewOf = step => { const at = runOf(step); return at < 0 ? null : data.crews[runs[3 * at + 2]]; };
  const ranges = members => {
    const found = [];
    for (const row of members) {
      const last = found[found.length - 1];
      if (last && last[1] === row) last[1] = row + 1; else found.push([row, row + 1]);
    }
    return found;
  };
  const spans = data.crews.map(([members]) => ranges(members));
  const bits = mask => { let n = 0; for (let m = mask >>> 0; m; m &= m - 1) n++; return n; };

  // pieces of one colour of a run: [x, width, class], one for each step where there is room, else one for each pixel
  const pieces = (first, last, width) => {
    const out = [], size = scale(width);
    first = Math.max(first, Math.floor(state.from)); last = Math.min(last, Math.ceil(state.to));
    if (size >= 1.5) {
      for (let s = first; s < last; s++) out.push([xOf(s, width), Math.max(size - (size > 4 ? 1 : 0), 1), classOf[s], s]);
      return out;
    }
    for (let s = first; s < last;) {
      const x = Math.floor(xOf(s, width)), until = Math.min(last, Math.max(s + 1, Math.ceil(stepAt(x + 1, width))));
      let best = 0;
      for (let k = s; k < until; k++) if (classOf[k] > best) best = classOf[k];
      const piece = out[out.length - 1];
      if (piece && piece[2] === best && piece[0] + piece[1] >= x) piece[1] = x + 1 - piece[0]; else out.push([x, 1, best, s]);
      s = until;
    }
    return out;
  };
  const each = (from, to, act) => { for (let r = firstRun(from); r < nRuns && runs[3 * r] < to; r++) act(runs[3 * r], runs[3 * r + 1], runs[3 * r + 2]); };

  const rowHeight = () => rows.length > 64 ? 7 : rows.length > 24 ? 11 : 16;
  const RULER = 22;

  const ruler = (context, width) => {
    const size = scale(width);
    let unit = 1;
    while (unit * size < 70) unit *= String(unit)[0] === "2" ? 2.5 : 2;
    context.fillStyle = paint.dim; context.textAlign = "left";
    for (let s = Math.ceil(state.from / unit) * unit; s < state.to; s += unit) {
      const x = xOf(s, width);
      context.fillRect(x, RULER - 5, 1, 5); context.fillText(String(s), x + 3, 8);
    }
    if (state.line) {
      context.fillStyle = paint.accent;
      let last = -2;
      for (let s = Math.max(0, Math.floor(state.from)); s < Math.min(count, state.to); s++) {
        if (!isLine(s)) continue;
        const x = Math.floor(xOf(s, width));
        if (x > last) { context.fillRect(x, RULER - 7, Math.max(size, 1.5), 7); last = x; }
      }
    }
    for (const [step, severity] of data.findings) {
      const x = xOf(step, width) + size / 2;
      if (x < LEFT || x > width) continue;
      context.fillStyle = paint[severity] || paint.note;
      context.beginPath(); context.moveTo(x, RULER); context.lineTo(x - 5, RULER - 9); context.lineTo(x + 5, RULER - 9); context.fill();
    }
  };
  const isLine = step => state.line.file === null ? lineOf[step] === state.line.number
    : (source => source && source[0] === state.line.file && source[1] === state.line.number)(data.instructions[steps[step]][3]);
  const cursor = (context, width, height) => {
    if (state.step < state.from - 1 || state.step > state.to || state.step < 0) return;
    context.fillStyle = paint.accent; context.globalAlpha = .25;
    context.fillRect(xOf(state.step, width), 0, Math.max(scale(width), 1), height);
    context.globalAlpha = 1; context.fillRect(xOf(state.step, width), 0, 1, height);
  };
  const gutter = (context, height) => { context.fillStyle = paint.soft; context.fillRect(0, 0, LEFT - 4, height); };

  const drawWarps = () => {
    const high = rowHeight(), height = RULER + high * rows.length + 4, [context, width] = pen($("warps"), height);
    context.save(); context.beginPath(); context.rect(LEFT - 1, RULER, width, height); context.clip();
    context.fillStyle = hatched(context, paint.hatch);
    for (const [members, start, end] of data.waits) {
      if (end < state.from || start > state.to) continue;
      const x = xOf(start + 1, width), w = Math.max(xOf(end, width) - x, 1);
      for (const [first, last] of ranges(members)) context.fillRect(x, RULER + first * high + high * .3, w, (last - first) * high - high * .6);
    }
    const size = scale(width);
    each(state.from, state.to, (first, last, crew) => {
      const lanes = data.crews[crew][1], parts = pieces(first, last, width);
      for (const [x, w, kind, step] of parts) {
        context.fillStyle = paint.classes[kind];
        if (!lanes) for (const [top, bottom] of spans[crew]) context.fillRect(x, RULER + top * high + 1, w, (bottom - top) * high - 1);
        else data.crews[crew][0].forEach((row, i) => {
          const tall = Math.max(2, (high - 2) * bits(lanes[i]) / 32);
          context.fillRect(x, RULER + (row + 1) * high - 1 - tall, w, tall);
        });
        if (size > 64) {
          context.fillStyle = paint.bg; context.textAlign = "left";
          const name = data.instructions[steps[step]][1];
          for (const [top] of spans[crew]) context.fillText(name.slice(0, Math.floor(size / 6.4)), x + 3, RULER + top * high + high / 2 + 1);
        }
      }
    });
    context.fillStyle = paint.bg;
    for (let row = 1; row < rows.length; row++) context.fillRect(LEFT, RULER + row * high - (row % perCta ? 0 : 1), width, row % perCta ? 1 : 2);
    cursor(context, width, height);
    context.restore();
    gutter(context, height);
    context.textAlign = "left";
    rows.forEach(([x, y, z, warp], row) => {
      if (high < 10 && warp) return;
      context.fillStyle = row === state.row ? paint.accent : warp ? paint.dim : paint.fg;
      context.fillText((warp ? "" : `CTA ${x},${y},${z}`), 6, RULER + row * high + high / 2 + 1);
      if (high >= 10) context.fillText(`warp ${warp}`, 82, RULER + row * high + high / 2 + 1);
    });
    ruler(context, width);
  };
  const perCta = rows.length / Math.max(ctas.length, 1);

  // ---- asynchronous operations: each in the first line that is free ----
  const packed = () => {
    const ends = [], mine = flights.filter(f => f.cta === state.cta).sort((a, b) => a.issued - b.issued);
    for (const flight of mine) {
      let at = ends.findIndex(end => end <= flight.issued);
      if (at < 0) { at = ends.length; ends.push(0); }
      ends[at] = Math.max(flight.end, flight.issued + 1); flight.lane = at;
    }
    return [mine, ends.length];
  };
  let lanesOf = [[], 0];
  const drawFlights = () => {
    const [mine, lanes] = lanesOf, high = Math.max(3, Math.min(14, 240 / Math.max(lanes, 1))), height = Math.max(lanes * high, 14) + 8;
    const [context, width] = pen($("flights"), height);
    context.save(); context.beginPath(); context.rect(LEFT - 1, 0, width, height); context.clip();
    for (const f of mine) {
      if (f.end < state.from || f.issued > state.to) continue;
      const x = xOf(f.issued, width), w = Math.max(xOf(f.end, width) - x, 2), y = 4 + f.lane * high;
      context.globalAlpha = .85; context.fillStyle = paint.kinds[f.kind]; context.fillRect(x, y, w, high - 1);
      context.globalAlpha = 1; context.fillStyle = paint.fg;
      for (const at of [f.signalled, f.free]) if (at >= 0) context.fillRect(xOf(at, width) + Math.max(scale(width), 1), y, 1.5, high - 1);
      if (f.visible < 0) { context.fillStyle = paint.error; context.fillRect(x + w - 3, y, 3, high - 1); }
      if (high >= 11 && w > 90) {
        context.fillStyle = paint.bg; context.textAlign = "left";
        context.fillText(`${f.kind}${f.bytes ? " " + f.bytes.toLocaleString("en") + " B" : ""}`, Math.max(x, LEFT) + 4, y + high / 2);
      }
    }
    cursor(context, width, height);
    context.restore(); gutter(context, height);
    context.fillStyle = paint.dim; context.textAlign = "left";
    ["load", "store", "cp.async", "wgmma", "tcgen05"].filter(kind => mine.some(f => f.kind === kind)).forEach((kind, i) => {
      const y = 10 + i * 14;
      if (y > height - 2) return;
      context.fillStyle = paint.kinds[kind]; context.fillRect(6, y - 4, 9, 9); context.fillStyle = paint.dim; context.fillText(kind, 20, y + 1);
    });
  };

  // ---- shared memory ----
  const drawShared = () => {
    const size = data.shared.size, height = 230, [context, width] = pen($("shared"), height), y = at => at / size * height;
    context.save(); context.beginPath(); context.rect(LEFT - 1, 0, width, height); context.clip();
    const loads = flights.filter(f => f.cta === state.cta && f.high && f.kind !== "wgmma" && f.kind !== "tcgen05");
    for (const f of loads) {
      const until = f.replaced ?? count, x = xOf(f.issued, width);
      if (until < state.from || f.issued > state.to) continue;
      const w = Math.max(xOf(f.end, width) - x, 1), top = y(f.low), tall = Math.max(y(f.high) - top, 1);
      if (f.kind !== "store") { context.globalAlpha = .35; context.fillStyle = paint.kinds[f.kind]; context.fillRect(x + w, top, Math.max(xOf(until, width) - x - w, 0), tall); }
      context.globalAlpha = 1; context.fillStyle = hatched(context, paint.kinds[f.kind]); context.fillRect(x, top, w, tall);
      context.fillStyle = paint.kinds[f.kind]; context.fillRect(x, top, 1.5, tall);
    }
    const block = data.shared.block, last = new Map();
    for (let i = 0; i < marks.length; i += 6) {
      if (marks[i + 2] !== state.cta || marks[i + 1] < state.from || marks[i] > state.to) continue;
      const x = Math.floor(xOf(marks[i], width)), w = Math.max((marks[i + 1] + 1 - marks[i]) * scale(width), 1.5);
      const key = marks[i + 3] * 65536 + marks[i + 4] * 4 + marks[i + 5];
      if (last.get(key) === x && w < 2) continue;
      last.set(key, x);
      context.fillStyle = paint.marks[marks[i + 5]]; context.globalAlpha = .8;
      context.fillRect(x, y(marks[i + 3] * block), w, Math.max(y((marks[i + 4] - marks[i + 3] + 1) * block), 1));
    }
    context.globalAlpha = 1;
    cursor(context, width, height);
    context.restore(); gutter(context, height);
    context.textAlign = "left";
    const taken = [];
    const bytes = ([, start, length]) => length || size - start;
    for (const variable of [...data.shared.variables].sort((a, b) => bytes(b) - bytes(a))) {
      const top = y(variable[1]), at = Math.max(8, Math.min(top + 8, height - 20));
      context.fillStyle = paint.line; context.fillRect(0, top, width, 1);
      if (taken.some(other => Math.abs(other - at) < 13)) continue;
      context.fillStyle = paint.fg; context.fillText(variable[0].slice(0, 18), 6, at); taken.push(at);
    }
    context.fillStyle = paint.dim; context.textAlign = "right"; context.fillText(size.toLocaleString("en") + " B", LEFT - 8, height - 7);
  };
  // what a copy brings stays until the next one goes to the same bytes
  const replace = () => {
    const loads = flights.filter(f => f.high && f.kind !== "store" && f.kind !== "wgmma" && f.kind !== "tcgen05").sort((a, b) => a.issued - b.issued);
    const open = [];
    for (const f of loads) {
      for (let i = open.length - 1; i >= 0; i--) {
        const g = open[i];
        if (g.cta === f.cta && g.low < f.high && f.low < g.high) { g.replaced = Math.max(f.issued, g.end); open.splice(i, 1); }
      }
      open.push(f);
    }
  };

  // the whole launch, drawn once for each width and scheme
  let whole = null;
  const drawWhole = width => {
    if (whole && whole.key === width + paint.bg) return;
    whole = document.createElement("canvas"); whole.key = width + paint.bg; whole.width = width; whole.height = 26;
    const context = whole.getContext("2d"), shown = [state.from, state.to];
    state.from = 0; state.to = Math.max(count, 1);
    each(0, count, (first, last, crew) => {
      const share = data.crews[crew][0].length / rows.length;
      for (const [x, w, kind] of pieces(first, last, width)) { context.fillStyle = paint.classes[kind]; context.fillRect(x, 25 - 22 * share, w, 22 * share); }
    });
    [state.from, state.to] = shown;
  };
  const drawMap = () => {
    const [context, width] = pen($("map"), 26), size = (width - LEFT) / Math.max(count, 1);
    drawWhole(width); context.drawImage(whole, 0, 0);
    context.strokeStyle = paint.accent; context.lineWidth = 2;
    context.strokeRect(LEFT + state.from * size, 1, Math.max((state.to - state.from) * size, 3), 24);
    gutter(context, 26); context.fillStyle = paint.dim; context.textAlign = "left"; context.fillText(`${count.toLocaleString("en")} steps`, 6, 14);
  };

  let waiting = false;
  const draw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { const began = performance.now(); waiting = false; drawMap(); drawWarps(); if (flights.length) drawFlights(); if (data.shared.size) drawShared(); document.body.dataset.drawn = (performance.now() - began).toFixed(1); });
  };

  // ---- the text ----
  const escape = text => text.replace(/[&<>]/g, c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;"}[c]));
  const texts = [["PTX", null, data.text, data.counts]];
  for (const [file, source] of Object.entries(data.sources)) {
    const longest = Math.max(source.text.length, ...Object.keys(source.counts).map(Number));
    texts.push([file.split(/[\\/]/).pop(), file, Array.from({length: longest}, (_, i) => source.text[i] ?? ""), source.counts]);
  }
  const showText = file => {
    state.file = file;
    const [, , lines, counts] = texts.find(t => t[1] === file), most = Math.max(1, ...Object.values(counts));
    $("text").innerHTML = lines.map((text, i) => {
      const n = counts[i + 1];
      return `<div data-line=${i + 1}${n ? "" : " class=idle"}><b>${i + 1}</b><i${n ? ` style="--w:${100 * n / most}%"` : ""}>${n ? n.toLocaleString("en") : ""}</i>${escape(text.replace(/\t/g, "    "))}</div>`;
    }).join("");
    for (const button of $("tabs").children) button.classList.toggle("on", button.dataset.file === String(file));
    mark();
  };
  const reveal = (row, share) => { $("text").scrollTop = row.offsetTop - $("text").offsetTop - share * $("text").clientHeight; };
  const mark = scroll => {
    for (const old of $("text").querySelectorAll(".here,.picked")) old.classList.remove("here", "picked");
    const at = number => $("text").querySelector(`[data-line="${number}"]`);
    if (state.step >= 0) {
      const [line, , , source] = data.instructions[steps[state.step]];
      const here = state.file === null ? at(line) : source && source[0] === state.file ? at(source[1]) : null;
      if (here) { here.classList.add("here"); if (scroll) reveal(here, .4); }
    }
    if (state.line && state.line.file === state.file) at(state.line.number)?.classList.add("picked");
  };
  for (const [name, file] of texts) {
    const button = document.createElement("button");
    button.textContent = name; button.dataset.file = String(file); button.onclick = () => { showText(file); mark(true); };
    $("tabs").append(button);
  }
  $("text").onclick = event => {
    const row = event.target.closest("[data-line]");
    if (!row) return;
    const number = Number(row.dataset.line), same = state.line && state.line.number === number && state.line.file === state.file;
    state.line = same ? null : {file: state.file, number};
    const found = [];
    if (state.line) for (let s = 0; s < count; s++) if (isLine(s)) found.push(s);
    $("info").textContent = same ? "" : found.length ? `line ${number}: ${found.length.toLocaleString("en")} steps, the first ${found[0]}, the last ${found[found.length - 1]}` : `line ${number} was not executed by these CTAs`;
    mark(); draw();
  };

  // ---- selection ----
  const lanesText = mask => {
    const out = [];
    for (let lane = 0; lane < 32;) {
      if (!(mask >>> lane & 1)) { lane++; continue; }
      let end = lane; while (end < 31 && mask >>> (end + 1) & 1) end++;
      out.push(end > lane ? `${lane}-${end}` : `${lane}`); lane = end + 1;
    }
    return out.join(", ");
  };
  const warpName = row => { const [x, y, z, warp] = rows[row]; return `CTA (${x}, ${y}, ${z}) warp ${warp}`; };
  const select = (step, row) => {
    state.step = Math.max(0, Math.min(count - 1, step)); if (row !== undefined) state.row = row;
    if (!count) return;
    const [line, opcode, , source] = data.instructions[steps[state.step]], crew = crewOf(state.step), out = [];
    out.push(`step ${state.step.toLocaleString("en")}: line ${line}${source ? `, ${source[0].split(/[\\/]/).pop()}:${source[1]}` : ""}`);
    out.push((data.text[line - 1] ?? opcode).trim());
    const text = source && data.sources[source[0]]?.text[source[1] - 1];
    if (text) out.push(text.trim());
    if (crew) {
      const [members, lanes] = crew;
      if (lanes) members.slice(0, 16).forEach((member, i) => out.push(`${warpName(member)}, lane${bits(lanes[i]) > 1 ? "s" : ""} ${lanesText(lanes[i])}`));
      else for (const [first, last] of ranges(members).slice(0, 16)) out.push(last - first > 1 ? `${warpName(first)} to ${warpName(last - 1)}` : warpName(first));
    }
    for (const [members, start, end, what] of data.waits.filter(w => w[1] < state.step && state.step <= w[2]).slice(0, 16))
      out.push(`waits: ${ranges(members).map(([a, b]) => b - a > 1 ? `${warpName(a)} to ${warpName(b - 1)}` : warpName(a)).join("; ")} for ${what}, steps ${start} to ${end}`);
    for (const f of flights.filter(f => f.cta === state.cta && f.issued <= state.step && state.step < f.end).slice(0, 16))
      out.push(`in flight: ${f.kind}${f.bytes ? `, ${f.bytes} bytes to 0x${f.low.toString(16)}-0x${f.high.toString(16)}` : ""}, issued in step ${f.issued} (line ${data.instructions[f.at][0]}), ${f.visible < 0 ? "never waited for" : `visible in step ${f.visible}`}`);
    $("info").textContent = out.join("\n"); $("step").value = state.step;
    mark(true); draw();
  };
  const show = (from, to) => {
    const span = Math.max(8, Math.min(to - from, count)), middle = (from + to) / 2;
    state.from = Math.max(0, Math.min(middle - span / 2, count - span)); state.to = state.from + span;
    draw();
  };
  const zoom = (factor, at = (state.from + state.to) / 2) => {
    const span = Math.max(8, Math.min((state.to - state.from) * factor, Math.max(count, 8))), share = (at - state.from) / (state.to - state.from);
    state.from = Math.max(0, Math.min(at - span * share, Math.max(count - span, 0))); state.to = state.from + span;
    draw();
  };
  const follow = () => { if (state.step < state.from || state.step >= state.to) { const half = (state.to - state.from) / 2; show(state.step - half, state.step + half); } };

  for (const id of ["warps", "flights", "shared"]) {
    const canvas = $(id), fingers = new Map();
    let moved = 0;
    canvas.addEventListener("wheel", event => {
      if (event.ctrlKey || !event.shiftKey && Math.abs(event.deltaY) > Math.abs(event.deltaX)) zoom(Math.exp(event.deltaY * .002), stepAt(event.offsetX, canvas.clientWidth));
      else { const by = (event.deltaX || event.deltaY) / scale(canvas.clientWidth); show(state.from + by, state.to + by); }
      event.preventDefault();
    }, {passive: false});
    canvas.addEventListener("pointerdown", event => { fingers.set(event.pointerId, event.offsetX); moved = 0; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", event => {
      if (!fingers.has(event.pointerId)) return;
      const before = fingers.get(event.pointerId), others = [...fingers].filter(([id]) => id !== event.pointerId).map(f => f[1]);
      fingers.set(event.pointerId, event.offsetX); moved += Math.abs(event.offsetX - before);
      if (others.length) zoom(Math.max(Math.abs(before - others[0]), 1) / Math.max(Math.abs(event.offsetX - others[0]), 1), stepAt(others[0], canvas.clientWidth));
      else if (moved > 3) { const by = (before - event.offsetX) / scale(canvas.clientWidth); show(state.from + by, state.to + by); }
    });
    const up = event => {
      if (fingers.delete(event.pointerId) && moved <= 3 && event.type === "pointerup" && event.offsetX > LEFT) {
        const row = id === "warps" ? Math.floor((event.offsetY - RULER) / rowHeight()) : undefined;
        select(Math.floor(stepAt(event.offsetX, canvas.clientWidth)), row >= 0 && row < rows.length ? row : undefined);
      }
    };
    canvas.addEventListener("pointerup", up); canvas.addEventListener("pointercancel", up);
  }
  const jump = event => {
    if (event.buttons & 1) { const half = (state.to - state.from) / 2, at = (event.offsetX - LEFT) / ($("map").clientWidth - LEFT) * count; show(at - half, at + half); }
  };
  $("map").addEventListener("pointerdown", jump); $("map").addEventListener("pointermove", jump);
  $("in").onclick = () => zoom(.5); $("out").onclick = () => zoom(2); $("all").onclick = () => show(0, count);
  $("step").onchange = () => { select(Number($("step").value)); follow(); };
  $("cta").onchange = () => { state.cta = $("cta").selectedIndex; lanesOf = packed(); draw(); };
  document.addEventListener("keydown", event => {
    if (event.target.tagName === "INPUT" || event.target.tagName === "SELECT") return;
    const key = event.key;
    if (key === "ArrowLeft" || key === "ArrowRight") {
      const by = key === "ArrowLeft" ? -1 : 1;
      let next = state.step + by;
      if (event.shiftKey && state.row >= 0) while (next >= 0 && next < count && !crewOf(next)?.[0].includes(state.row)) next += by;
      select(next); follow();
    } else if (key === "+" || key === "=") zoom(.5); else if (key === "-") zoom(2); else if (key === "0") show(0, count); else return;
    event.preventDefault();
  });

  // ---- begin ----
  colours();
  ctas.forEach(cta => $("cta").add(new Option(`(${cta.replace(/,/g, ", ")})`)));
  $("legend").innerHTML = data.classes.map((name, i) => `<span><i style="background:var(--c${i})"></i>${name}</span>`).join("")
    + "<span><i style='background:repeating-linear-gradient(135deg,var(--hatch) 0 1px,transparent 1px 4px)'></i>waiting</span>"
    + (data.shared.size ? "<span><i style='background:var(--read)'></i>shared read</span><span><i style='background:var(--write)'></i>shared write</span>" : "");
  $("flightpart").hidden = !flights.length; $("sharedpart").hidden = !data.shared.size;
  $("findings").innerHTML = data.findings.length ? "<h2>Findings</h2>" + data.findings.map(([step, severity, , , text], i) => `<pre class=${severity} data-finding=${i}>step ${step}: ${escape(text)}</pre>`).join("") : "";
  $("findings").onclick = event => { const found = event.target.closest("[data-finding]"); if (found) { select(data.findings[found.dataset.finding][0]); follow(); } };
  replace(); lanesOf = packed(); showText(null);
  const used = $("text").querySelector("div:not(.idle)");
  if (used) reveal(used, .2);
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (wanted.has("from")) show(Number(wanted.get("from")), Number(wanted.get("to") ?? count));
  if (wanted.has("step")) { select(Number(wanted.get("step"))); follow(); }
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colours(); draw(); });
  draw();
  requestAnimationFrame(() => requestAnimationFrame(() => { document.body.dataset.ready = String(count); }));
})();

// What the page shows of an answer, as HTML.

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
export const escape = (text) => String(text).replace(/[&<>"]/g, (letter) => ENTITIES[letter]);

const LANES = [...Array(32).keys()];
const cell = (value, classes) => `<td${classes ? ` class="${classes}"` : ""} title="${escape(value)}">${escape(value)}</td>`;

/** Values of one kind as one cell where all are equal and none has changed alone. */
export function row({ name, values, changed }) {
  const fresh = new Set(changed);
  const same = values.every((value) => value === values[0]) && (fresh.size === 0 || fresh.size === values.length);
  const cells = same
    ? `<td class="same${fresh.size ? " new" : ""}" colspan="32">${escape(values[0])}</td>`
    : values.map((value, lane) => cell(value, [fresh.has(lane) ? "new" : "", value === "" ? "away" : ""].join(" ").trim())).join("");
  return `<tr><th>${escape(name)}</th>${cells}</tr>`;
}

export function registers(state) {
  if (!state.registers.length) return "<p>No register has been written.</p>";
  const heads = LANES.map((lane) => `<th data-lane="${lane}"${lane === state.focus.lane ? ' class="here"' : ""}>${lane}</th>`).join("");
  return `<table class="cells"><thead><tr><th>lane</th>${heads}</tr></thead><tbody>${state.registers.map(row).join("")}</tbody></table>`;
}

/** Rows of 32 words: a column is a bank. */
export function shared({ shared: { values, changed, first, size } }) {
  if (!size) return "<p>The kernel has no shared memory.</p>";
  if (!values.length) return `<p>${size} bytes; no CTA is running.</p>`;
  const fresh = new Set(changed);
  const rows = [];
  for (let at = 0; at < values.length; at += 32) {
    const words = values.slice(at, at + 32).map((word, bank) => cell(word, [fresh.has(at + bank) ? "new" : "", word === "0" ? "zero" : ""].join(" ").trim()));
    rows.push(`<tr><th>0x${((first * 32 + at) * 4).toString(16)}</th>${words.join("")}</tr>`);
  }
  const more = size > (first * 32 + values.length) * 4 || first > 0
    ? `<p><button data-shared="${Math.max(first - 32, 0)}">lower</button> <button data-shared="${first + 32}">higher</button> of ${size} bytes</p>` : "";
  return `<table class="cells"><thead><tr><th>bank</th>${LANES.map((bank) => `<th>${bank}</th>`).join("")}</tr></thead><tbody>${rows.join("")}</tbody></table>${more}`;
}

/** Lanes have hues, so that a fragment's pattern is seen at once. */
export function matrix(found) {
  if (found.error) return `<p>${escape(found.error)}</p>`;
  const body = found.values.map((values, r) => {
    const cells = values.map((value, c) => {
      const lane = found.lanes?.[r]?.[c];
      const hue = lane === undefined || lane < 0 ? "" : ` style="--hue: ${(lane % 32) * 11.25}"`;
      return `<td${hue} title="[${r},${c}]: ${escape(found.owners[r][c])}">${escape(value)}${lane >= 0 ? `<small>${lane}</small>` : ""}</td>`;
    });
    return `<tr><th>${r}</th>${cells.join("")}</tr>`;
  });
  const heads = (found.values[0] ?? []).map((_, c) => `<th>${c}</th>`).join("");
  const title = `${found.name} of ${found.instruction}: ${found.axes[0]} × ${found.axes[1]}, ${found.shape[0]} × ${found.shape[1]}; the small number is the lane that holds the element`;
  return `<p>${escape(title)}</p><table class="cells matrix"><thead><tr><th></th>${heads}</tr></thead><tbody>${body.join("")}</tbody></table>`;
}

export function waits({ warps, waits, flights, arrays, printed }) {
  const list = (title, items) => (items.length ? `<h4>${title}</h4><ul>${items.map((item) => `<li>${item}</li>`).join("")}</ul>` : "");
  const who = (w) => `<button data-cta="${w.cta}" data-warp="${w.warp}">CTA ${w.cta.join(",")} warp ${w.warp}</button> lanes ${escape(w.lanes)}, line ${w.line}: ${escape(w.state)}`;
  return (
    list("Results", arrays.map((a) => `${escape(a.name)}: <code>${escape(a.values.join(" "))}</code>`)) +
    (printed ? `<h4>Printed</h4><pre>${escape(printed)}</pre>` : "") +
    list("In flight", flights.map((f) => `line ${f.line}, warp ${f.warp}: <code>${escape(f.text)}</code> until ${escape(f.until)}`)) +
    list("Barriers", waits.map((b) => `${escape(b.name)}: ${escape(b.text)}${b.warps.length ? `; warps ${b.warps.join(", ")} wait` : ""}`)) +
    list("Warps", warps.map(who))
  );
}

export function place({ stop, focus }) {
  if (stop.reason === "end") return `ended after ${stop.step} steps`;
  return `step ${stop.step}, line ${stop.line}, CTA ${focus.cta.join(",")}, warp ${focus.warp}${stop.reason === "finding" ? ": stopped before a finding" : ""}`;
}

/** A rectangle for each run of steps of one kind: a row is a warp, x is time. */
export function timeline({ warps, steps, findings, flights }, now) {
  if (!steps.length) return "";
  const height = 10, wide = steps.length;
  const parts = [];
  for (let first = 0, at = 1; at <= wide; at++) {
    const same = at < wide && steps[at][1] === steps[first][1] && String(steps[at][2]) === String(steps[first][2]);
    if (same) continue;
    for (const warp of steps[first][2]) parts.push(`<rect class="${steps[first][1]}" x="${first}" y="${warp * height}" width="${at - first}" height="${height - 2}"/>`);
    first = at;
  }
  const bottom = warps.length * height;
  flights.slice(0, 100).forEach(([kind, issued, visible], n) => {
    const end = visible !== null && visible >= 0 ? visible : wide;
    parts.push(`<rect class="flight" x="${issued}" y="${bottom + 4 + (n % 6) * 4}" width="${Math.max(end - issued, 1)}" height="3"><title>${escape(kind)}</title></rect>`);
  });
  for (const [step, rule] of findings) parts.push(`<rect class="finding" x="${step}" y="0" width="1" height="${bottom}"><title>${escape(rule)}</title></rect>`);
  parts.push(`<rect class="now" x="${now}" y="0" width="1" height="${bottom + 28}"/>`);
  return `<svg viewBox="0 0 ${wide} ${bottom + 28}" preserveAspectRatio="none" style="height: ${Math.min(bottom + 28, 220)}px" role="img" aria-label="steps of the launch">${parts.join("")}</svg>`;
}

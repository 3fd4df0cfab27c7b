// The page that shows a warp: text from data, and nothing of the editor.

/** What the request `warp` of `warpsim dap` answers. */
export interface Warp {
  title: string;
  instruction: string;
  lane: number;
  active: boolean[];
  registers: { name: string; type: string; lanes: (string | null)[] }[];
  matrices: { name: string; axes: string[]; values: (string | null)[][]; owners: string[][]; note: string }[];
}

const STYLE = `
  body { font: var(--vscode-editor-font-size, 12px) var(--vscode-editor-font-family, monospace); }
  div { overflow-x: auto; margin-bottom: 1em; }
  table { border-collapse: collapse; white-space: nowrap; }
  th { text-align: right; font-weight: normal; opacity: 0.7; padding: 0 0.5em; position: sticky; left: 0; background: var(--vscode-panel-background); }
  td { text-align: right; padding: 0 0.4em; border: 1px solid var(--vscode-widget-border, #8884); }
  .away { opacity: 0.35; }
  .changed { background: var(--vscode-diffEditor-insertedTextBackground, #4a44); }
  .lane { outline: 1px solid var(--vscode-focusBorder, #09f); }`;

const escaped = (text: string) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

/** The page; what differs from `before` is marked. */
export function page(warp: Warp, before?: Warp): string {
  const known = new Map(before?.title === warp.title ? before.registers.map((r) => [r.name, r.lanes]) : []);
  const head = warp.active.map((on, lane) => `<td class="${on ? "" : "away"}">${lane}</td>`).join("");
  const rows = warp.registers.map(({ name, type, lanes }) => {
    const old = known.get(name);
    const cells = lanes.map((value, lane) => {
      const marks = [
        warp.active[lane] ? "" : "away",
        known.size && value !== (old?.[lane] ?? null) ? "changed" : "",
        lane === warp.lane ? "lane" : "",
      ];
      return `<td class="${marks.filter(Boolean).join(" ")}" title="lane ${lane}">${value === null ? "" : escaped(value)}</td>`;
    });
    return `<tr><th title="${escaped(type)}">${escaped(name)}</th>${cells.join("")}</tr>`;
  });
  const matrices = warp.matrices.map(({ name, axes, values, owners, note }) => {
    const body = values.map(
      (row, i) =>
        `<tr><th>${i}</th>${row
          .map((value, j) => `<td title="${escaped(owners[i][j])}">${value === null ? "" : escaped(value)}</td>`)
          .join("")}</tr>`,
    );
    return `<p>${escaped(name)}: ${escaped(axes.join(" x "))} ${escaped(note)}</p><div><table>${body.join("")}</table></div>`;
  });
  return `<!DOCTYPE html><html><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"><style>${STYLE}</style></head>
<body><p>${escaped(warp.title)}<br>${escaped(warp.instruction)}</p>
${matrices.join("")}<div><table><tr><th>lane</th>${head}</tr>${rows.join("")}</table></div></body></html>`;
}

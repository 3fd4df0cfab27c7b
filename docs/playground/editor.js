// The editor: CodeMirror where the site was built with it, else a plain text area.

export async function makeEditor(parent, changed) {
  try {
    const { codeMirror } = await import("./built/codemirror.js");
    return codeMirror(parent, changed);
  } catch {
    return plain(parent, changed);
  }
}

function plain(parent, changed) {
  const area = document.createElement("textarea");
  area.spellcheck = false;
  area.addEventListener("input", changed);
  parent.append(area);
  return { text: () => area.value, set: (text) => (area.value = text), mark() {} };
}

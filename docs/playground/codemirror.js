// CodeMirror for PTX, with findings under their lines; esbuild bundles it into built/codemirror.js.

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, WidgetType, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const ptx = StreamLanguage.define({
  startState: () => ({ comment: false }),
  token(stream, state) {
    if (state.comment || stream.match("/*")) {
      state.comment = !stream.match(/^.*?\*\//);
      if (state.comment) stream.skipToEnd();
      return "comment";
    }
    if (stream.match(/^\/\/.*/)) return "comment";
    if (stream.match(/^"(?:[^"\\]|\\.)*"/)) return "string";
    if (stream.match(/^%[\w$.]+/)) return "variableName";
    if (stream.match(/^(?:0[xX][\da-fA-F]+|0[fFdD][\da-fA-F]+|\d[\w.]*)/)) return "number";
    if (stream.match(/^\.[\w:]+/)) return "keyword";
    if (stream.match(/^[a-z]\w*(?:[.:][\w:]+)+/)) return "operatorKeyword";
    if (stream.match(/^[\w$]+/)) return "name";
    stream.next();
    return null;
  },
});

const colours = HighlightStyle.define([
  { tag: tags.comment, color: "var(--md-code-hl-comment-color)" },
  { tag: tags.string, color: "var(--md-code-hl-string-color)" },
  { tag: tags.number, color: "var(--md-code-hl-number-color)" },
  { tag: tags.keyword, color: "var(--md-code-hl-keyword-color)" },
  { tag: tags.operatorKeyword, color: "var(--md-code-hl-function-color)" },
  { tag: tags.variableName, color: "var(--md-code-hl-variable-color)" },
]);

class Message extends WidgetType {
  constructor({ severity, rule, message, advice }) {
    super();
    Object.assign(this, { severity, text: `${rule}: ${message}${advice ? `\n${advice}` : ""}` });
  }

  eq(other) {
    return other.text === this.text;
  }

  toDOM() {
    const made = document.createElement("div");
    made.className = `finding ${this.severity}`;
    made.textContent = this.text;
    return made;
  }
}

const setMarks = StateEffect.define();
const marks = StateField.define({
  create: () => Decoration.none,
  update(found, transaction) {
    for (const effect of transaction.effects) if (effect.is(setMarks)) return effect.value;
    return found.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

export function codeMirror(parent, changed) {
  const editor = new EditorView({
    parent,
    extensions: [
      lineNumbers(), history(), keymap.of([...defaultKeymap, ...historyKeymap]), ptx, syntaxHighlighting(colours), marks,
      EditorView.contentAttributes.of({ "aria-label": "PTX", spellcheck: "false" }),
      EditorView.updateListener.of((update) => update.docChanged && changed()),
    ],
  });
  const document = () => editor.state.doc;
  const line = (number) => (number >= 1 && number <= document().lines ? document().line(number) : null);
  return {
    text: () => document().toString(),
    set: (text) => editor.dispatch({ changes: { from: 0, to: document().length, insert: text }, effects: setMarks.of(Decoration.none) }),
    mark(findings, here) {
      const ranges = [];
      const at = line(here);
      if (at) ranges.push(Decoration.line({ class: "here" }).range(at.from));
      for (const finding of findings) {
        const place = line(finding.line);
        const other = line(finding.other);
        if (place) ranges.push(Decoration.widget({ widget: new Message(finding), block: true, side: 1 }).range(place.to), Decoration.line({ class: "faulty" }).range(place.from));
        if (other) ranges.push(Decoration.line({ class: "conflict" }).range(other.from));
      }
      const room = findings.some((finding) => finding.line === here) ? editor.scrollDOM.clientHeight / 2 : 60; // for the message below
      const scroll = at ? [EditorView.scrollIntoView(at.from, { y: "nearest", yMargin: room })] : [];
      editor.dispatch({ effects: [setMarks.of(Decoration.set(ranges, true)), ...scroll] });
    },
  };
}

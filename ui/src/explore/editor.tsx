// The editor of queries: CodeMirror with the completion of Prometheus' own page.
// It is large, so it loads on first use.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { lintKeymap } from "@codemirror/lint";
import { EditorState, Prec } from "@codemirror/state";
import { EditorView, keymap, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { PromQLExtension } from "@prometheus-io/codemirror-promql";
import { useEffect, useRef } from "react";
import { styleNonce } from "../frame/nonce";
import type { QueryFieldProps } from "./query-field";

// Names and labels are fetched once in five minutes; the cache is bounded by their number.
const promql = () => new PromQLExtension().activateLinter(true).setComplete({ remote: { url: "", apiPrefix: "api/v1", httpMethod: "GET", cache: { maxAge: 5 * 60 * 1000 } } });

const look = EditorView.theme({
  "&": { backgroundColor: "var(--surface)", color: "var(--text)", fontSize: "0.8125rem" },
  "&.cm-focused": { outline: "none" },
  ".cm-content": { fontFamily: "var(--mantine-font-family-monospace)", minHeight: "calc(4rem - 2px)", padding: "0.5rem 0.25rem", caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, ::selection": { backgroundColor: "var(--accent-soft)" },
  ".cm-placeholder": { color: "var(--text-dim)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-soft)", color: "inherit" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--line-strong)", borderRadius: "6px", maxWidth: "min(40rem, 92vw)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mantine-font-family-monospace)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--surface)" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "650" },
  ".cm-completionDetail": { color: "inherit", opacity: "0.8" },
  ".cm-tooltip.cm-completionInfo": { padding: "0.375rem 0.5rem" },
});

const colours = HighlightStyle.define([
  { tag: tags.name, color: "var(--text)" },
  { tag: [tags.number, tags.literal], color: "var(--good)" },
  { tag: tags.string, color: "var(--bad)" },
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--accent)", fontWeight: "600" },
  { tag: tags.function(tags.variableName), color: "var(--accent)" },
  { tag: tags.labelName, color: "var(--warn)" },
  { tag: [tags.operator, tags.punctuation], color: "var(--text-dim)" },
  { tag: tags.comment, color: "var(--text-dim)", fontStyle: "italic" },
  { tag: tags.invalid, color: "var(--bad)", textDecoration: "underline" },
]);

// When text replaces a selection, the browser's own editing copies the look of the removed text as
// a style attribute, which the security policy refuses.
const replaceSelection = EditorView.domEventHandlers({
  beforeinput: (e, view) => {
    if (e.inputType !== "insertText" || !e.data || view.composing || view.state.selection.main.empty) return false;
    e.preventDefault();
    view.dispatch({ ...view.state.replaceSelection(e.data), userEvent: "input.type", scrollIntoView: true });
    return true;
  },
});

export default function Editor({ value, onChange, onRun, label, hint, insert }: QueryFieldProps) {
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const calls = useRef({ onChange, onRun });
  calls.current = { onChange, onRun };
  const initial = useRef(value);

  useEffect(() => {
    if (!box.current) return;
    const language = promql();
    const v = new EditorView({
      parent: box.current,
      state: EditorState.create({
        doc: initial.current,
        extensions: [
          EditorView.cspNonce.of(styleNonce()),
          EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false" }),
          EditorView.lineWrapping,
          placeholder(hint),
          history(),
          closeBrackets(),
          bracketMatching(),
          // Enter runs the query. After an arrow key has selected a completion, Enter accepts it.
          autocompletion({ selectOnOpen: false, icons: false }),
          replaceSelection,
          syntaxHighlighting(colours),
          look,
          Prec.low(keymap.of([{ key: "Enter", run: (e) => (calls.current.onRun(e.state.doc.toString()), true) }])),
          keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...lintKeymap]),
          Prec.lowest(keymap.of(defaultKeymap)),
          language.asExtension(),
          EditorView.updateListener.of((u) => u.docChanged && calls.current.onChange(u.state.doc.toString())),
        ],
      }),
    });
    view.current = v;
    if (insert) {
      insert.current = (text) => {
        v.dispatch(v.state.replaceSelection(text));
        v.focus();
      };
    }
    return () => {
      if (insert) insert.current = null;
      v.destroy();
      language.destroy?.();
      view.current = null;
    };
  }, [label, hint, insert]);

  // Text from outside (an example or the address) replaces the content.
  useEffect(() => {
    const v = view.current;
    if (v && v.state.doc.toString() !== value) v.dispatch({ changes: { from: 0, to: v.state.doc.length, insert: value }, selection: { anchor: value.length } });
  }, [value]);

  return <div ref={box} className="editor" />;
}

// The SQL editor, loaded after the first paint: highlighting, completion from the schema, marked refusals.
import { autocompletion, closeBrackets, completionKeymap, type CompletionContext } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { sql, SQLDialect } from '@codemirror/lang-sql';
import { bracketMatching, HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { setDiagnostics } from '@codemirror/lint';
import { Compartment, EditorState, Prec, type Extension } from '@codemirror/state';
import { drawSelection, EditorView, keymap, placeholder } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import type { Dataset, Problem } from './api/types';
import { rangeOf } from './offsets';

export interface Editor {
  set: (text: string) => void;
  declare: (dataset: Dataset) => void;
  mark: (problem: Problem | null) => void;
  /** At a place in the text, where it is known. */
  focus: (at?: number) => void;
  destroy: () => void;
}

export interface Callbacks {
  label: string;
  changed: (text: string) => void;
  /** By the keyboard; it must not spend, only lead to the button that does. */
  submit: () => void;
}

export function createEditor(host: HTMLElement, text: string, callbacks: Callbacks): Editor {
  const language = new Compartment();
  const view = viewIn(host, text, callbacks, 'Mod-Enter', [
    autocompletion({ icons: false }),
    keymap.of(completionKeymap),
    language.of(sql({ dialect: ANSWERED, upperCaseKeywords: true })),
    placeholder('SELECT column, COUNT(*) FROM table GROUP BY column'),
  ]);
  return {
    set: (next) => replace(view, next),
    declare: (dataset) => view.dispatch({ effects: language.reconfigure(knowing(dataset)) }),
    mark: (problem) => view.dispatch(setDiagnostics(view.state, problem ? marks(problem, view) : [])),
    focus: (at) => {
      view.focus();
      if (at !== undefined) view.dispatch({ selection: { anchor: at } });
    },
    destroy: () => view.destroy(),
  };
}

/** In a shadow root CodeMirror uses constructed style sheets instead of a style element, as a strict policy wants. */
export function viewIn(
  host: HTMLElement,
  text: string,
  { label, changed, submit }: Callbacks,
  submitKey: string,
  extensions: Extension[],
): EditorView {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
  return new EditorView({
    root,
    parent: root as unknown as Element,
    state: EditorState.create({
      doc: text,
      extensions: [
        Prec.highest(keymap.of([{ key: submitKey, run: () => (submit(), true) }])),
        ...extensions,
        history(),
        drawSelection(),
        bracketMatching(),
        closeBrackets(),
        EditorView.lineWrapping,
        syntaxHighlighting(colours),
        look,
        EditorView.contentAttributes.of({ 'aria-label': label, spellcheck: 'false' }),
        // Tab is left alone: it leaves the editor, as people without a mouse expect.
        keymap.of([...defaultKeymap, ...historyKeymap]),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) changed(update.state.doc.toString());
        }),
      ],
    }),
  });
}

export function replace(view: EditorView, text: string): void {
  const { doc } = view.state;
  if (text !== doc.toString()) view.dispatch({ changes: { from: 0, to: doc.length, insert: text } });
}

// Only what is answered is a keyword: a column may be called zone.
const ANSWERED = SQLDialect.define({
  keywords: 'select from where group by and or not in between is null order limit as asc desc true false',
  builtin: '',
  types: '',
  doubleQuotedStrings: false,
});

function knowing(dataset: Dataset) {
  const columns = dataset.columns.map((column) => ({
    label: column.name,
    type: 'property',
    detail: column.values ? `${column.values.length} values` : (column.bounds ?? []).join(' to '),
  }));
  const support = sql({
    dialect: ANSWERED,
    upperCaseKeywords: true,
    schema: { [dataset.name]: columns },
    defaultTable: dataset.name,
  });
  const values = support.language.data.of({ autocomplete: (context: CompletionContext) => valuesOf(dataset, context) });
  return [support, values];
}

/** After `column = '` the declared values of that column. */
function valuesOf(dataset: Dataset, context: CompletionContext) {
  const before = context.matchBefore(/"?(\w+)"?\s*(=|<>|!=|in\s*\((?:\s*'[^']*'\s*,)*)\s*'?[^',()]*$/i);
  const name = before && /\w+/.exec(before.text)?.[0];
  const values = dataset.columns.find((column) => column.name === name)?.values;
  if (!before || !values) return null;
  const quote = before.text.lastIndexOf("'");
  const open = quote >= 0 && (before.text.split("'").length - 1) % 2 === 1;
  const from = open ? before.from + quote + 1 : context.pos;
  if (!open && !context.explicit) return null;
  return { from, options: values.map((value) => ({ label: open ? value : `'${value}'`, type: 'text' })) };
}

function marks(problem: Problem, view: EditorView) {
  const text = view.state.doc.toString();
  const position = problem.position;
  if (!position) return [];
  const message = [problem.message, problem.remedy].filter(Boolean).join(' ');
  return [{ ...rangeOf(position, text), severity: 'error' as const, message }];
}

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--above)', fontWeight: '600' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--code-text)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--code-number)' },
  { tag: tags.comment, color: 'var(--soft)', fontStyle: 'italic' },
]);

const look = EditorView.theme({
  '&': { fontSize: '0.95rem', color: 'var(--ink)', minHeight: '8.5rem' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.7', minHeight: '8.5rem' },
  '.cm-content': { padding: '0.85rem 0', caretColor: 'var(--ink)' },
  '.cm-line': { padding: '0 1rem' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)', borderLeftWidth: '2px' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    background: 'var(--tint)',
  },
  '.cm-placeholder': { color: 'var(--soft)' },
  '.cm-matchingBracket': { background: 'var(--tint) !important', color: 'inherit' },
  '.cm-lintRange-error': {
    backgroundImage: 'none',
    textDecoration: 'underline wavy var(--alarm) 1.5px',
    textUnderlineOffset: '4px',
    background: 'var(--alarm-tint)',
  },
  '.cm-tooltip': {
    background: 'var(--surface)',
    color: 'var(--ink)',
    border: '1px solid var(--line)',
    borderRadius: '8px',
    boxShadow: 'var(--shadow)',
    overflow: 'hidden',
  },
  '.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', fontSize: '0.88rem', maxHeight: '14rem' },
  '.cm-tooltip-autocomplete > ul > li': { padding: '0.25rem 0.7rem !important' },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': { background: 'var(--accent)', color: 'var(--on-accent)' },
  '.cm-completionDetail': { marginLeft: '0.8rem', fontStyle: 'normal', opacity: '0.8' },
  '.cm-diagnostic': { padding: '0.5rem 0.8rem', borderLeft: '3px solid var(--alarm)', maxWidth: '26rem' },
  '.cm-diagnostic-error': { borderLeft: '3px solid var(--alarm)' },
});

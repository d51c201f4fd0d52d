// An editor for schema texts: TOML in the page's own colours, with refusals marked at their keys.
import { closeBrackets } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { bracketMatching, StreamLanguage, syntaxHighlighting } from '@codemirror/language';
import { toml } from '@codemirror/legacy-modes/mode/toml';
import { setDiagnostics } from '@codemirror/lint';
import { Compartment, EditorState, Prec } from '@codemirror/state';
import { drawSelection, EditorView, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import type { Position, SchemaProblem } from '../lib/api/types';
import { colours, look } from '../lib/editor';
import { rangeOf } from '../lib/offsets';

export interface TomlEditor {
  set: (text: string) => void;
  mark: (problems: SchemaProblem[]) => void;
  goTo: (position: Position) => void;
  allow: (editing: boolean) => void;
  destroy: () => void;
}

// The mode calls table headers atoms; here they have the colour of keywords.
const language = StreamLanguage.define({ ...toml, tokenTable: { atom: tags.keyword } });

const lines = EditorView.theme({
  '.cm-gutters': { background: 'transparent', border: '0', color: 'var(--soft)', paddingLeft: '0.5rem' },
  '.cm-scroller': { maxHeight: '38rem', overflow: 'auto' },
});

// A shadow root takes constructed style sheets, so that no inline style needs to be allowed.
export function createTomlEditor(
  host: HTMLElement,
  text: string,
  callbacks: { label: string; changed: (text: string) => void; save: () => void },
): TomlEditor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
  const editing = new Compartment();
  const view = new EditorView({
    root,
    parent: root as unknown as Element,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        bracketMatching(),
        closeBrackets(),
        EditorView.lineWrapping,
        language,
        syntaxHighlighting(colours),
        look,
        lines,
        editing.of([]),
        EditorView.contentAttributes.of({ 'aria-label': callbacks.label, spellcheck: 'false', tabindex: '0' }),
        Prec.highest(keymap.of([{ key: 'Mod-s', run: () => (callbacks.save(), true) }])),
        // Tab is left alone: it leaves the editor, as people without a mouse expect.
        keymap.of([...defaultKeymap, ...historyKeymap]),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) callbacks.changed(update.state.doc.toString());
        }),
      ],
    }),
  });
  const range = (position: Position) => rangeOf(position, view.state.doc.toString());
  return {
    set: (next) => {
      if (next !== view.state.doc.toString()) {
        view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } });
      }
    },
    mark: (problems) => {
      const diagnostics = problems.flatMap(({ key, message, position }) =>
        position ? [{ ...range(position), severity: 'error' as const, message: `${key}: ${message}` }] : [],
      );
      view.dispatch(setDiagnostics(view.state, diagnostics));
    },
    goTo: (position) => {
      view.dispatch({ selection: { anchor: range(position).from }, scrollIntoView: true });
      view.focus();
    },
    allow: (allowed) =>
      view.dispatch({
        effects: editing.reconfigure(
          allowed ? [] : [EditorState.readOnly.of(true), EditorView.contentAttributes.of({ 'aria-readonly': 'true' })],
        ),
      }),
    destroy: () => view.destroy(),
  };
}

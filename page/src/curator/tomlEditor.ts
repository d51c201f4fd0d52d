// An editor for schema texts: TOML in the page's own colours, with refusals marked at their keys.
import { StreamLanguage } from '@codemirror/language';
import { toml } from '@codemirror/legacy-modes/mode/toml';
import { setDiagnostics } from '@codemirror/lint';
import { Compartment, EditorState } from '@codemirror/state';
import { EditorView, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import type { Position, SchemaProblem } from '../lib/api/types';
import { replace, viewIn, type Callbacks } from '../lib/editor';
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

export function createTomlEditor(host: HTMLElement, text: string, callbacks: Callbacks): TomlEditor {
  const editing = new Compartment();
  const view = viewIn(host, text, callbacks, 'Mod-s', [
    lineNumbers(),
    language,
    lines,
    editing.of([]),
    EditorView.contentAttributes.of({ tabindex: '0' }),
  ]);
  const range = (position: Position) => rangeOf(position, view.state.doc.toString());
  return {
    set: (next) => replace(view, next),
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

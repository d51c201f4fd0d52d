// Where in a schema text the keys are that a refusal names; the server names keys, not positions.
import type { Problem } from '../lib/api/types';

export interface Mark {
  from: number;
  to: number;
  /** 1, 2, 3 for people; null if the text holds no such key. */
  line: number | null;
  key: string;
  message: string;
}

const NAME = `(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')`;
const PATH = `${NAME}(?:\\s*\\.\\s*${NAME})*`;
const HEADER = new RegExp(`^(\\s*)\\[{1,2}\\s*(${PATH})\\s*\\]`);
const KEY = new RegExp(`^(\\s*)(${PATH})\\s*=`);
const REFUSED = /^([\w-]+(?:\.[^:;]+?)*): (.+)$/s;
const TOML_PLACE = /line (\d+), column (\d+)/;

interface Place {
  from: number;
  to: number;
  line: number;
}

/** One mark per key that is refused. */
export function marksOf(toml: string, problem: Problem): Mark[] {
  const syntax = syntaxMark(toml, problem);
  if (syntax) return [syntax];
  const places = keysOf(toml);
  return problem.message
    .replace(/^In the schema: /, '')
    .replace(/\.$/, '')
    .split(/; (?=[\w-]+(?:\.[^:;]+)*: )/)
    .flatMap((words) => {
      const refused = REFUSED.exec(words);
      return refused ? [markAt(places, refused[1]!, refused[2]!)] : [];
    });
}

function markAt(places: Map<string, Place>, key: string, message: string): Mark {
  const parts = key.split('.');
  while (parts.length && !places.has(parts.join('.'))) parts.pop();
  const place = places.get(parts.join('.'));
  return { key, message, from: place?.from ?? 0, to: place?.to ?? 0, line: place?.line ?? null };
}

function syntaxMark(toml: string, { message }: Problem): Mark | null {
  if (!message.includes('not valid TOML')) return null;
  const lines = toml.split('\n');
  const found = TOML_PLACE.exec(message);
  const line = Math.min(found ? Number(found[1]) : lines.length, lines.length);
  const start = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
  const to = start + lines[line - 1]!.length;
  const at = start + (found ? Number(found[2]) - 1 : 0);
  // At the end of a line there is nothing to underline: then the whole line is meant.
  const words = 'cannot be read here: perhaps a quote or bracket is missing, or a key is given twice';
  return { from: at < to ? at : start, to, line, key: 'TOML', message: words };
}

/** Every table and key, by its full name. */
function keysOf(toml: string): Map<string, Place> {
  const places = new Map<string, Place>();
  let table: string[] = [];
  let start = 0;
  toml.split('\n').forEach((text, index) => {
    const header = HEADER.exec(text);
    const key = header ? null : KEY.exec(text);
    const found = header ?? key;
    if (found) {
      const path = namesIn(found[2]!);
      if (header) table = path;
      const full = header ? path : [...table, ...path];
      const place = { from: start + found[1]!.length, to: start + text.trimEnd().length, line: index + 1 };
      if (!places.has(full.join('.'))) places.set(full.join('.'), place);
      // A table that is only named as part of another is where its first part is.
      for (let n = 1; n < full.length; n += 1) {
        const outer = full.slice(0, n).join('.');
        if (!places.has(outer)) places.set(outer, place);
      }
    }
    start += text.length + 1;
  });
  return places;
}

function namesIn(path: string): string[] {
  return [...path.matchAll(new RegExp(NAME, 'g'))].map(([name]) => name.replace(/^["']|["']$/g, ''));
}

// A new data set as a form, and the TOML that says the same: each is made from the other.
import { counted } from '../lib/words';

export type Kind = 'out' | 'categories' | 'number' | 'bins';

export interface WizardColumn {
  name: string;
  /** As the file declares it; empty where it does not. */
  type: string;
  kind: Kind;
  /** One value a line, as a code book has them: `code`, or `code = what it means`. */
  codes: string;
  low: string;
  high: string;
  /** Where one bin ends and the next begins: 0, 20, 40. */
  edges: string;
  label: string;
  unit: string;
}

export interface WizardForm {
  name: string;
  source: string;
  columns: WizardColumn[];
  /** "row", or the column that tells persons apart. */
  person: string;
  maxRows: number;
  rho: number;
}

type Json = Record<string, unknown>;
type Value = string | number | boolean | null;

/** Budgets to choose from, by the protection that is left once all of it is spent. The first is the default. */
export const BUDGETS: [rho: number, words: string][] = [
  [0.1, 'Recommended: moderate protection, a few rough answers'],
  [1, 'More answers: weak protection, about ten good ones'],
  [5, 'Many answers: very weak protection, about fifty good ones'],
];

export const EMPTY: WizardForm = { name: '', source: '', columns: [], person: 'row', maxRows: 1, rho: BUDGETS[0]![0] };

export function column(name: string, type = ''): WizardColumn {
  return { name, type, kind: 'out', codes: '', low: '', high: '', edges: '', label: '', unit: '' };
}

/** A plain name for a table, from a file's. */
export function tableName(file: string): string {
  const name = file.replace(/\.\w+$/, '').replace(/\W+/g, '_');
  return /^\d/.test(name) ? `t${name}` : name;
}

export interface Code {
  value: Value;
  label: string;
}

/** The lines of a code book: a code, and after = or a tab what it means. */
export function codesIn({ codes, type }: WizardColumn): Code[] {
  const lines = codes
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);
  const pairs = lines.map((line) => {
    const [code = '', ...meaning] = line.split(/\s*(?:=|\t)\s*/);
    return { code: unquoted(code.trim()), label: meaning.join(' = ').trim() };
  });
  const isText = /string|utf8|char/i.test(type);
  const areNumbers = !isText && pairs.length > 0 && pairs.every(({ code }) => String(Number(code)) === code);
  return pairs.map(({ code, label }) => ({ value: areNumbers ? Number(code) : code, label }));
}

export function toToml(form: WizardForm): string {
  const lines = [
    '# Everything in this file is public.',
    '',
    '[table]',
    `name = ${text(form.name)}`,
    `source = ${text(form.source)}`,
    '',
    '[privacy]',
    `rho = ${number(form.rho)}`,
    `unit = ${text(form.person)}`,
  ];
  if (form.person !== 'row') lines.push(`max_rows = ${form.maxRows}`);
  for (const one of form.columns) {
    if (one.kind === 'out') continue;
    lines.push('', `[columns.${key(one.name)}]`, ...declaration(one));
    if (one.label) lines.push(`label = ${text(one.label)}`);
    if (one.unit) lines.push(`unit = ${text(one.unit)}`);
  }
  return `${lines.join('\n')}\n`;
}

function declaration(one: WizardColumn): string[] {
  if (one.kind === 'number') return [`bounds = [${numeral(one.low)}, ${numeral(one.high)}]`];
  if (one.kind === 'bins') return [`edges = [${list(one.edges).map(edge).join(', ')}]`];
  const codes = codesIn(one);
  const meanings = codes.filter(({ label }) => label);
  return [
    `values = [${codes.map(({ value }) => literal(value)).join(', ')}]`,
    ...(meanings.length
      ? [
          `value_labels = { ${meanings.map(({ value, label }) => `${text(String(value))} = ${text(label)}`).join(', ')} }`,
        ]
      : []),
  ];
}

/** The form that says what a schema declares; null where only the text can say it. */
export function fromDeclared(declared: Json, known: WizardColumn[]): WizardForm | null {
  const { table = {}, privacy = {}, columns = {}, ...more } = declared as Record<string, Json>;
  if (Object.keys(more).length || unknownKeys(table, ['name', 'source'])) return null;
  if (unknownKeys(privacy, ['rho', 'unit', 'max_rows']) || Array.isArray(table.source)) return null;
  const types = new Map(known.map(({ name, type }) => [name, type]));
  const read: WizardColumn[] = [];
  for (const [name, raw] of Object.entries(columns as Record<string, Json>)) {
    const one = columnOf(name, types.get(name) ?? '', raw);
    if (!one) return null;
    read.push(one);
  }
  const left = known.filter(({ name }) => !(name in columns)).map((one) => ({ ...one, kind: 'out' as const }));
  const order = new Map(known.map(({ name }, place) => [name, place]));
  const place = (one: WizardColumn) => order.get(one.name) ?? known.length;
  return {
    name: String(table.name ?? ''),
    source: String(table.source ?? ''),
    columns: [...read, ...left].sort((a, b) => place(a) - place(b)),
    person: String(privacy.unit ?? 'row'),
    maxRows: Number(privacy.max_rows ?? 1),
    rho: Number(privacy.rho ?? EMPTY.rho),
  };
}

function columnOf(name: string, type: string, raw: Json): WizardColumn | null {
  if (unknownKeys(raw, ['values', 'value_labels', 'edges', 'bounds', 'label', 'unit'])) return null;
  const said = ['values', 'edges', 'bounds'].filter((word) => raw[word] !== undefined);
  if (said.length !== 1) return null;
  const one = { ...column(name, type), label: String(raw.label ?? ''), unit: String(raw.unit ?? '') };
  if (said[0] === 'bounds') {
    const [low, high] = raw.bounds as Value[];
    return { ...one, kind: 'number', low: String(low), high: String(high) };
  }
  if (said[0] === 'edges') return { ...one, kind: 'bins', edges: (raw.edges as Value[]).join(', ') };
  const labels = (raw.value_labels ?? {}) as Record<string, string>;
  const values = raw.values as Value[];
  if (values.some((value) => value === null || typeof value === 'boolean')) return null;
  const codes = values.map((value) => (labels[String(value)] ? `${value} = ${labels[String(value)]}` : String(value)));
  return { ...one, kind: 'categories', codes: codes.join('\n') };
}

/** What a column may hold, in words. */
export function described(one: WizardColumn): string {
  if (one.kind === 'categories') return counted(codesIn(one).length, 'category');
  if (one.kind === 'bins') return `bins at ${one.edges}`;
  return `from ${one.low} to ${one.high} ${one.unit}`.trimEnd();
}

/** What is wrong with the bounds or edges of a column, as far as they are typed. */
export function mistake({ kind, low, high, edges }: WizardColumn): string {
  if (kind === 'number' && low !== '' && high !== '') {
    if (Number(low) > Number(high)) return 'The lower bound is above the upper one.';
    if (Number(low) === Number(high)) return 'Both bounds are the same.';
  }
  if (kind === 'bins') {
    const words = list(edges);
    const wrong = words.findIndex((word, i) => i > 0 && !isBefore(words[i - 1]!, word));
    if (wrong > 0) return `${words[wrong]} must be above ${words[wrong - 1]}.`;
  }
  return '';
}

const isDay = (word: string) => /^\d{4}-\d{2}-\d{2}/.test(word);
/** Also true where two words cannot be compared, such as a date that is only half typed. */
const isBefore = (a: string, b: string) =>
  isDay(a) && isDay(b) ? a < b : Number.isNaN(Number(a)) || Number.isNaN(Number(b)) || Number(a) < Number(b);

/** What is still missing before the next step; empty where nothing is. */
export function missing(form: WizardForm): Record<'file' | 'columns' | 'people' | 'budget', string> {
  const used = form.columns.filter(({ kind }) => kind !== 'out');
  const open = used.find(
    (one) =>
      (one.kind === 'categories' && !codesIn(one).length) ||
      (one.kind === 'number' && (one.low === '' || one.high === '')) ||
      (one.kind === 'bins' && list(one.edges).length < 2) ||
      mistake(one),
  );
  return {
    file: form.source && form.name ? '' : 'Choose a file and a name.',
    columns: !used.length
      ? 'Declare at least one column.'
      : open
        ? `${open.name}: ${mistake(open) || { categories: 'list its values.', number: 'say from where to where.', bins: 'give at least two edges.', out: '' }[open.kind]}`
        : '',
    people:
      form.person === 'row' || (form.person && form.maxRows >= 1) ? '' : 'Name the column that tells persons apart.',
    budget: form.rho > 0 ? '' : 'Give a budget above zero.',
  };
}

const unknownKeys = (raw: Json, allowed: string[]) => Object.keys(raw).some((name) => !allowed.includes(name));
const list = (words: string) => words.split(/[\s,;]+/).filter(Boolean);
const unquoted = (code: string) => code.replace(/^(["'])(.*)\1$/, '$2');
const text = (words: string) => JSON.stringify(words);
const key = (name: string) => (/^[A-Za-z0-9_-]+$/.test(name) ? name : text(name));
const numeral = (words: string) => number(Number(words));
const number = (value: number) => (Number.isFinite(value) ? String(value) : '0');
const edge = (word: string) => (Number.isFinite(Number(word)) ? number(Number(word)) : text(word));
const literal = (value: Value) => (typeof value === 'string' ? text(value) : String(value));

// The form builder's SQL: written from its fields, and read back while it has the shape the form writes.
import type { Column, Dataset } from './api/types';

export type Aggregate = 'COUNT' | 'AVG' | 'SUM';

export interface Measure {
  aggregate: Aggregate;
  /** null: rows, for COUNT(*). */
  column: string | null;
}

export interface Filter {
  column: string;
  values: string[];
}

export interface Form {
  measures: Measure[];
  groups: string[];
  filters: Filter[];
}

const KEYWORDS = /^(select|from|where|group|by|and|or|not|in|between|is|null|order|limit|as|count|sum|avg|case|end)$/i;

export const isGroupable = (column: Column): boolean => column.kind !== 'numeric';
export const isMeasurable = (column: Column): boolean => column.kind !== 'discrete';

export function emptyForm(dataset: Dataset): Form {
  const group = dataset.columns.find(isGroupable);
  return { measures: [{ aggregate: 'COUNT', column: null }], groups: group ? [group.name] : [], filters: [] };
}

export function write(form: Form, dataset: Dataset): string {
  const measures = form.measures.map(({ aggregate, column }) =>
    column === null ? 'COUNT(*)' : `${aggregate}(${name(column)})`,
  );
  const groups = form.groups.map(name);
  const conditions = form.filters
    .filter((filter) => filter.values.length > 0)
    .map((filter) => condition(filter, dataset));
  return [
    `SELECT ${[...groups, ...measures].join(', ')}`,
    `FROM ${name(dataset.name)}`,
    ...(conditions.length ? [`WHERE ${conditions.join('\n  AND ')}`] : []),
    ...(groups.length ? [`GROUP BY ${groups.join(', ')}`] : []),
  ].join('\n');
}

/** The form that writes this SQL, or null where it was written by hand in another shape. */
export function read(sql: string, dataset: Dataset): Form | null {
  const flat = sql.replace(/\s+/g, ' ').trim().replace(/;$/, '');
  const shape = /^select (.+?) from \S+?(?: where (.+?))?(?: group by ([^()]+?))?$/i.exec(flat);
  if (!shape) return null;
  const groups = (shape[3] ?? '')
    .split(',')
    .map((text) => unquoted(text.trim()))
    .filter(Boolean);
  const measures: Measure[] = [];
  for (const item of shape[1]!.split(/,(?![^(]*\))/).map((text) => text.trim())) {
    const called = /^(count|avg|sum)\(\s*(\*|[^()]+?)\s*\)$/i.exec(item);
    if (called) {
      const column = called[2] === '*' ? null : unquoted(called[2]!);
      measures.push({ aggregate: called[1]!.toUpperCase() as Aggregate, column });
    } else if (!groups.includes(unquoted(item))) return null;
  }
  const known = (column: string) => dataset.columns.some((candidate) => candidate.name === column);
  if (!measures.length || !groups.every(known)) return null;
  if (!measures.every(({ column }) => column === null || known(column))) return null;
  const form = { measures, groups, filters: filtersOf(sql, dataset) };
  // Reading is only trusted where writing gives the same text again.
  return squeezed(write(form, dataset)) === squeezed(flat) ? form : null;
}

/** The filters are found by trying: each column's declared values are written the way the form writes them. */
function filtersOf(sql: string, dataset: Dataset): Filter[] {
  const where = /\bwhere\b([\s\S]+?)(?:\bgroup\s+by\b|$)/i.exec(sql)?.[1] ?? '';
  return where
    .split(/\band\b(?!\s+\S+\s*<=)/i)
    .map(squeezed)
    .flatMap((text) => {
      const column = dataset.columns.find((c) => c.values && text.startsWith(squeezed(name(c.name))));
      if (!column?.values) return [];
      const listed = column.values.filter((value) => text.includes(squeezed(literal(column.name, value, dataset))));
      const values = listed.length ? listed : binsIn(text, column.values);
      return [{ column: column.name, values }];
    });
}

function condition(filter: Filter, dataset: Dataset): string {
  const column = name(filter.column);
  const bins = filter.values.map(bin);
  const range = bins.filter((b): b is Bin => b !== null);
  if (range.length === filter.values.length) {
    // Neighbouring bins make one range; the first and the last of them are its ends.
    return `${column} > ${range[0]!.low} AND ${column} <= ${range[range.length - 1]!.high}`;
  }
  const values = filter.values.map((value) => literal(filter.column, value, dataset));
  if (values.length === 1) return values[0] === 'NULL' ? `${column} IS NULL` : `${column} = ${values[0]}`;
  return `${column} IN (${values.join(', ')})`;
}

interface Bin {
  low: string;
  high: string;
}

export function bin(label: string): Bin | null {
  const match = /^\((-?[\d.e+]+), (-?[\d.e+]+)\]$/.exec(label);
  return match ? { low: match[1]!, high: match[2]! } : null;
}

function binsIn(text: string, labels: string[]): string[] {
  const match = />(-?[\d.e+]+)and.*<=(-?[\d.e+]+)$/.exec(text);
  if (!match) return [];
  return labels.filter((label) => {
    const ends = bin(label);
    return ends && Number(ends.low) >= Number(match[1]) && Number(ends.high) <= Number(match[2]);
  });
}

function literal(column: string, label: string, dataset: Dataset): string {
  const declared = dataset.schema.columns?.[column]?.values ?? [];
  const value = declared.find((candidate) => (candidate === null ? 'NULL' : String(candidate)) === label);
  if (value === null) return 'NULL';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value).toUpperCase();
  return `'${label.replaceAll("'", "''")}'`;
}

export function name(text: string): string {
  return /^[a-z_]\w*$/i.test(text) && !KEYWORDS.test(text) ? text : `"${text.replaceAll('"', '""')}"`;
}

function unquoted(text: string): string {
  return text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1).replaceAll('""', '"') : text;
}

const squeezed = (text: string): string => text.replace(/\s+/g, '').toLowerCase();

/** In the form's own lines, where it has the form's shape. */
export function laidOut(sql: string, dataset: Dataset): string {
  const form = read(sql, dataset);
  return form ? write(form, dataset) : sql;
}

// The form builder's SQL. The form writes it from declared names; what SQL asks is read by the server alone.
import type { Column, Dataset, QueryForm } from './api/types';

export type Form = QueryForm;
export type Measure = Form['measures'][number];
export type Filter = Form['filters'][number];
export type Aggregate = Measure['aggregate'];

export interface Bin {
  low: number;
  high: number;
}

export const isGroupable = (column: Column): boolean => column.kind !== 'numeric';
export const isMeasurable = (column: Column): boolean => column.kind !== 'discrete';

export function emptyForm(dataset: Dataset): Form {
  const group = dataset.columns.find(isGroupable);
  return { measures: [{ aggregate: 'count', column: null }], groups: group ? [group.name] : [], filters: [] };
}

export function write(form: Form, dataset: Dataset): string {
  const sqlName = (name: string) => dataset.columns.find((column) => column.name === name)?.sql_name ?? name;
  const measures = form.measures.map(
    ({ aggregate, column }) => `${aggregate.toUpperCase()}(${column === null ? '*' : sqlName(column)})`,
  );
  const groups = form.groups.map(sqlName);
  const conditions = form.filters.flatMap((filter) => condition(filter, dataset) ?? []);
  return [
    `SELECT ${[...groups, ...measures].join(', ')}`,
    `FROM ${dataset.sql_name}`,
    ...(conditions.length ? [`WHERE ${conditions.join('\n  AND ')}`] : []),
    ...(groups.length ? [`GROUP BY ${groups.join(', ')}`] : []),
  ].join('\n');
}

/** The bins of a column by their labels; none where its values are categories. */
export function binsOf(name: string, dataset: Dataset): Map<string, Bin> {
  const edges = dataset.schema.columns?.[name]?.edges ?? [];
  const labels = dataset.columns.find((column) => column.name === name)?.values ?? [];
  return new Map(edges.slice(1).map((high, i) => [labels[i] ?? '', { low: edges[i]!, high }]));
}

function condition({ column: name, values }: Filter, dataset: Dataset): string | null {
  const column = dataset.columns.find((candidate) => candidate.name === name);
  if (!column || !values.length) return null;
  const bins = binsOf(name, dataset);
  const [first, last] = [bins.get(values[0]!), bins.get(values.at(-1)!)];
  // Neighbouring bins make one range; the first and the last of them are its ends.
  if (first && last) return `${column.sql_name} > ${first.low} AND ${column.sql_name} <= ${last.high}`;
  const literals = values.flatMap((value) => column.sql_values?.[column.values?.indexOf(value) ?? -1] ?? []);
  const present = literals.filter((literal) => literal !== 'NULL');
  const isNull = `${column.sql_name} IS NULL`;
  if (!present.length) return isNull;
  const among =
    present.length === 1 ? `${column.sql_name} = ${present[0]}` : `${column.sql_name} IN (${present.join(', ')})`;
  return present.length === literals.length ? among : `(${among} OR ${isNull})`;
}

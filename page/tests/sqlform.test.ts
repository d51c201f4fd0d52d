import { describe, expect, test } from 'vitest';
import type { Dataset } from '../src/lib/api/types';
import { binsOf, emptyForm, write, type Form } from '../src/lib/sqlform';

const DATASET = {
  name: 'my table',
  sql_name: '"my table"',
  columns: [
    {
      name: 'order',
      sql_name: '"order"',
      kind: 'discrete',
      values: ["it's", 'b', 'NULL'],
      sql_values: ["'it''s'", "'b'", 'NULL'],
    },
    { name: 'flag', sql_name: 'flag', kind: 'discrete', values: ['True', 'False'], sql_values: ['TRUE', 'FALSE'] },
    {
      name: 'age',
      sql_name: 'age',
      kind: 'both',
      values: ['(0, 20]', '(20, 40]', '(40, 60]', 'NULL'],
      sql_values: [null, null, null, 'NULL'],
    },
    { name: 'pay', sql_name: 'pay', kind: 'numeric', values: null, sql_values: null },
  ],
  schema: { columns: { age: { edges: [0, 20, 40, 60] } } },
} as unknown as Dataset;

const form = (filters: Form['filters']): Form => ({
  measures: [
    { aggregate: 'count', column: null },
    { aggregate: 'avg', column: 'pay' },
  ],
  groups: ['order', 'flag'],
  filters,
});
const where = (column: string, values: string[]) => {
  const sql = write(form([{ column, values }]), DATASET);
  return /WHERE (.*)\n/.exec(sql)?.[1];
};

test('the form writes names as SQL takes them, in lines', () => {
  expect(write(form([]), DATASET)).toBe(
    'SELECT "order", flag, COUNT(*), AVG(pay)\nFROM "my table"\nGROUP BY "order", flag',
  );
});

describe('conditions', () => {
  test.each([
    ['order', ["it's"], `"order" = 'it''s'`],
    ['order', ["it's", 'b'], `"order" IN ('it''s', 'b')`],
    ['order', ['NULL'], '"order" IS NULL'],
    ['order', ['b', 'NULL'], `("order" = 'b' OR "order" IS NULL)`],
    ['flag', ['False'], 'flag = FALSE'],
    ['age', ['(0, 20]', '(20, 40]'], 'age > 0 AND age <= 40'],
    ['age', ['(40, 60]'], 'age > 40 AND age <= 60'],
    ['order', [], undefined],
  ])('%s among %j is %s', (column, values, sql) => {
    expect(where(column, values)).toBe(sql);
  });

  test('are joined by AND', () => {
    const filters = [
      { column: 'flag', values: ['True'] },
      { column: 'order', values: ['b'] },
    ];
    expect(write(form(filters), DATASET)).toContain(`WHERE flag = TRUE\n  AND "order" = 'b'\n`);
  });
});

test('bins are known by their labels, and NULL is none', () => {
  expect([...binsOf('age', DATASET)]).toEqual([
    ['(0, 20]', { low: 0, high: 20 }],
    ['(20, 40]', { low: 20, high: 40 }],
    ['(40, 60]', { low: 40, high: 60 }],
  ]);
  expect(binsOf('order', DATASET).size).toBe(0);
});

test('a form begins by counting the rows of the first column that groups', () => {
  expect(write(emptyForm(DATASET), DATASET)).toBe('SELECT "order", COUNT(*)\nFROM "my table"\nGROUP BY "order"');
});

import { expect, test } from 'vitest';
import { byGroups } from '../src/lib/api/columns';
import type { AnswerColumns } from '../src/lib/api/types';

const COLUMNS = {
  id: 7,
  domains: [
    { values: ['F', null], labels: ['F', 'NULL'], texts: ['female', 'NULL'] },
    { values: [1, 2, 3], labels: ['1', '2', '3'], texts: ['1', '2', '3'] },
  ],
  groups: [5, 1],
  parts: [
    {
      name: 'n',
      percent: false,
      estimate: [10, 4],
      low: [9, null],
      high: [11, null],
      unknown: null,
      decimals: 0,
      estimate_text: null,
      interval_text: null,
      in_general: { low: [5, 1], high: [15, 8], interval_text: null },
    },
  ],
} as unknown as AnswerColumns;

test('columns become groups, the last column changing fastest', () => {
  const answer = byGroups(COLUMNS);
  expect(answer.id).toBe(7);
  const [last, second] = answer.parts[0]!.rows;
  expect(last).toMatchObject({ group: [null, 3], label: 'NULL, 3', labels: ['NULL', '3'], estimate: 10, low: 9 });
  expect(second).toMatchObject({ group: ['F', 2], label: 'F, 2', labels: ['female', '2'], low: null });
  expect([last!.estimate_text, last!.interval_text, second!.interval_text]).toEqual(['10', '9 to 11', 'unbounded']);
  expect(second!.in_general).toMatchObject({ label: 'F, 2', low: 1, high: 8, interval_text: '1 to 8' });
});

test('a value of which nothing is known is blank', () => {
  const part = { ...COLUMNS.parts[0]!, unknown: [false, true] };
  const [known, blank] = byGroups({ ...COLUMNS, parts: [part] }).parts[0]!.rows;
  expect(known).toMatchObject({ unknown: false, estimate_text: '10' });
  expect(blank).toMatchObject({ unknown: true, estimate_text: '–', interval_text: 'may have no rows' });
  expect(blank!.in_general!.interval_text).toBe('may have no rows');
});

test('texts that are sent are shown', () => {
  const part = { ...COLUMNS.parts[0]!, decimals: null, estimate_text: ['a', 'b'], interval_text: ['c', 'd'] };
  const [first] = byGroups({ ...COLUMNS, parts: [part] }).parts[0]!.rows;
  expect([first!.estimate_text, first!.interval_text]).toEqual(['a', 'c']);
});

test('without GROUP BY there is one group of all rows', () => {
  const part = { ...COLUMNS.parts[0]!, in_general: null };
  const [row] = byGroups({ ...COLUMNS, domains: [], groups: [0], parts: [part] }).parts[0]!.rows;
  expect(row).toMatchObject({ group: [], label: 'all rows', labels: [] });
  expect(row!.in_general).toBeUndefined();
});

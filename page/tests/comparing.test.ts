import { beforeEach, describe, expect, test } from 'vitest';
import type { Answer, AnswerRow } from '../src/lib/api/types';
import { comparing, orderOf } from '../src/lib/state/comparing.svelte';

const row = (label: string, estimate: number): AnswerRow => ({
  group: [label],
  label,
  labels: [label],
  estimate,
  low: estimate - 1,
  high: estimate + 1,
  unknown: false,
  estimate_text: '',
  interval_text: '',
});
const ROWS = [row('A', 1), row('B', 3), row('C', 2)];
const answer = (id: number): Answer =>
  ({
    id,
    parts: [
      { name: 'COUNT(*)', aggregate: 'count', column: null, rows: ROWS },
      { name: 'AVG(pay)', aggregate: 'avg', column: 'pay', rows: ROWS },
    ],
  }) as unknown as Answer;
const chosen = () => comparing.chosen.map(({ row, weight }) => [row.label, weight]);

beforeEach(() => {
  comparing.clear();
  comparing.show(answer(1));
});

describe('two groups', () => {
  test('the higher one is asked about first', () => {
    comparing.toggle(ROWS[0]!);
    expect(comparing.complete).toBe(false);
    comparing.toggle(ROWS[1]!);
    expect(chosen()).toEqual([
      ['B', 1],
      ['A', -1],
    ]);
    expect(comparing.complete).toBe(true);
  });

  test('a third choice takes the place of the second', () => {
    for (const row of ROWS) comparing.toggle(row);
    expect(chosen()).toEqual([
      ['B', 1],
      ['C', -1],
    ]);
  });

  test('a choice can be taken back', () => {
    comparing.toggle(ROWS[0]!);
    comparing.toggle(ROWS[1]!);
    comparing.toggle(ROWS[1]!);
    expect(chosen()).toEqual([['A', 1]]);
  });

  test('swapping asks the opposite', () => {
    comparing.toggle(ROWS[0]!);
    comparing.toggle(ROWS[1]!);
    comparing.swap();
    expect(chosen()).toEqual([
      ['A', 1],
      ['B', -1],
    ]);
  });
});

test('values of which nothing is known come last', () => {
  const rows = [{ ...row('D', 9), unknown: true }, ...ROWS];
  expect(orderOf(rows, 'high')).toEqual([2, 3, 1, 0]);
  expect(orderOf([{ ...row('D', -9), unknown: true }, ...ROWS], 'low')).toEqual([1, 3, 2, 0]);
});

describe('totals', () => {
  test('any groups may be added and weighted', () => {
    comparing.compareTotals(true);
    for (const row of ROWS) comparing.toggle(row);
    comparing.setWeight('B', -2);
    expect(comparing.request()?.weights).toEqual([
      { group: ['A'], weight: 1 },
      { group: ['B'], weight: -2 },
      { group: ['C'], weight: 1 },
    ]);
  });

  test('going back to two groups keeps the first two', () => {
    comparing.compareTotals(true);
    for (const row of ROWS) comparing.toggle(row);
    comparing.atLeast = 5;
    comparing.compareTotals(false);
    expect(chosen()).toEqual([
      ['B', 1],
      ['A', -1],
    ]);
    expect(comparing.atLeast).toBe(0);
  });
});

describe('groups named by a link', () => {
  test('are found by their labels; unknown ones choose nothing', () => {
    comparing.choose([
      { label: 'A', weight: 1 },
      { label: 'Z', weight: -1 },
    ]);
    expect(chosen()).toEqual([['A', 1]]);
    expect(comparing.totals).toBe(false);
  });

  test('with other weights or a constant are totals', () => {
    comparing.choose([
      { label: 'A', weight: 2 },
      { label: 'B', weight: -1 },
    ]);
    expect(comparing.totals).toBe(true);
    comparing.choose([{ label: 'A', weight: 1 }], 3);
    expect(comparing.totals).toBe(true);
    expect(comparing.request()?.at_least).toBe(3);
  });
});

test('the same answer again keeps the choice, another one drops it', () => {
  comparing.toggle(ROWS[0]!);
  comparing.show(answer(1), 'AVG(pay)');
  expect(comparing.part?.name).toBe('AVG(pay)');
  expect(chosen()).toEqual([['A', 1]]);
  comparing.show(answer(2));
  expect(chosen()).toEqual([]);
});

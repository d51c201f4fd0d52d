import { describe, expect, test } from 'vitest';
import { fraction } from '../src/curator/forms';
import { answerTruths, explanationTruths, tally } from '../src/curator/truths';
import { dayOf, endOfDay, ends, isPast } from '../src/curator/words';
import type { Answer, Explanation } from '../src/lib/api/types';

describe('true values', () => {
  test('belong to the aggregate that is looked at', () => {
    const rows = ['A', 'B'].map((label) => ({ label, low: 0, high: 2, estimate: 1 }));
    const parts = [
      { name: 'COUNT(*)', rows },
      { name: 'AVG(x)', rows },
    ];
    const truth = { values: [1, 10, 2, 20].map((value) => ({ value, text: String(value), covered: value < 20 })) };
    const compared = answerTruths(truth as never, { parts, confidence: 0.95 } as unknown as Answer, parts[1] as never);
    expect(compared.rows.map(({ label, truthText, covered }) => [label, truthText, covered])).toEqual([
      ['A', '10', true],
      ['B', '20', false],
    ]);
  });

  test('of another table are not shown', () => {
    const table = { rows: [{ predicate: "sex = 'F'" }] } as unknown as Explanation;
    expect(explanationTruths({ rows: [] } as never, table)).toBeNull();
  });

  test('are counted where there is something to cover', () => {
    expect(tally([true, false, null])).toEqual({ covered: 1, of: 2 });
  });
});

describe('days', () => {
  test('end at their last second, in the reader’s time zone', () => {
    expect(dayOf(endOfDay('2030-01-31'))).toBe('2030-01-31');
    expect(endOfDay('')).toBeNull();
    expect(dayOf(null)).toBe('');
  });

  test('say how soon something ends', () => {
    const after = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();
    expect(ends(null)).toBe('No end');
    expect(ends(after(-1))).toMatch(/^Ended /);
    expect(ends(after(5))).toMatch(/, within a day$/);
    expect(ends(after(3 * 24 + 1))).toMatch(/, in 3 days$/);
    expect(ends(after(100 * 24))).not.toMatch(/, in /);
    expect([isPast(after(-1)), isPast(after(1)), isPast(null)]).toEqual([true, false, false]);
  });
});

test.each([
  [10, 1],
  [9.83, 0.98],
  [0.5, 0.05],
  [0.1, 0.01],
  [0.000123, 0.000012],
  [0, 0],
])('of %d left, an invitation suggests %d', (left, suggested) => {
  expect(fraction(left)).toBe(suggested);
});

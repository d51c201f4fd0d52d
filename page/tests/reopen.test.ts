import { describe, expect, test } from 'vitest';
import type { AnswerPart, AnswerRow, Column, HistoryEntry } from '../src/lib/api/types';
import { isByNoise } from '../src/lib/noise';
import { kindOf, placeOf } from '../src/lib/reopen';
import { format } from '../src/lib/route';

const entry = (kind: string, request: object | null, weights: HistoryEntry['weights'] = []): HistoryEntry =>
  ({ id: 4, address: 4, kind, state: 'released', request, weights }) as unknown as HistoryEntry;
const PAIR = [
  { group: 'True, NULL', weight: 1 },
  { group: 'b', weight: -1 },
];
const hash = (line: HistoryEntry) => {
  const place = placeOf(line, 'adult');
  return place && format(place);
};

describe('a line of the history', () => {
  test('of a query leads to its answer', () => {
    expect(hash(entry('query', { sql: 'SELECT 1' }))).toBe('#/adult?answer=4');
  });

  test('of an explanation leads to its table, with every option', () => {
    const request = {
      answer: 1,
      of: 'AVG(x)',
      confidence: 0.9,
      k: 3,
      rho: 0.5,
      mechanism: 'vector',
      family: { conjuncts: 2 },
    };
    expect(placeOf(entry('explain', request, PAIR), 'adult')).toMatchObject({
      answer: '1',
      of: 'AVG(x)',
      confidence: 0.9,
      groups: [
        { label: 'True, NULL', weight: 1 },
        { label: 'b', weight: -1 },
      ],
      explain: { k: 3, rho: 0.5, mechanism: 'vector', family: { conjuncts: 2 } },
    });
  });

  test('of a preparation leads to a free explanation', () => {
    expect(hash(entry('prepare', { answer: 1 }))).toBe('#/adult?answer=1&explain=5&from=4');
    const withQuestion = hash(entry('prepare', { answer: 1 }, PAIR));
    expect(withQuestion).toBe('#/adult?answer=1&group=1*True%2C+NULL&group=-1*b&explain=5&from=4');
  });

  test('of a preparation for a story leads to the story', () => {
    const family = { conjuncts: 2, nested: true, attributes: ['sex'] };
    expect(hash(entry('prepare', { answer: 1, family }))).toBe(
      '#/adult?answer=1&explain=5&attribute=sex&from=4&story=2',
    );
  });

  test('of somebody leads everybody to their answer', () => {
    const line = { ...entry('explain', { answer: 1 }), address: '4@ann@example.org' };
    expect(placeOf(line, 'adult')?.answer).toBe('1@ann@example.org');
    expect(placeOf({ ...line, request: { answer: '2@ben' } }, 'adult')?.answer).toBe('2@ben');
    expect(hash({ ...line, kind: 'query' })).toBe('#/adult?answer=4%40ann%40example.org');
  });

  test('that has no result leads nowhere', () => {
    expect(hash({ ...entry('query', null), state: 'reserved' })).toBeNull();
    expect(hash(entry('explain', null))).toBeNull();
  });
});

describe('a line of the history is called', () => {
  test.each([
    ['prepare', { answer: 1, family: { nested: true, attributes: ['sex'] } }, 'Story'],
    ['prepare', { answer: 1 }, 'Prepared: explanations are free'],
    ['prepare', { answer: 1, family: { attributes: ['sex', 'age'] } }, 'Prepared: explanations by sex, age are free'],
    ['top-up', null, 'Budget added'],
    ['loss', null, 'Charged for lost records'],
  ])('%s of %o: %s', (kind, request, name) => {
    expect(kindOf(entry(kind, request))).toBe(name);
  });
});

describe('whether an interval is as wide as its noise', () => {
  const row = (low: number | null, high: number | null) => ({ low, high }) as AnswerRow;
  const part = (aggregate: string) => ({ aggregate, column: 'x' }) as AnswerPart;
  const columns = [{ name: 'x', bounds: [0, 100] }] as Column[];

  test.each([
    ['sum', -1, 1, true],
    ['count', 1, 9, true],
    ['count', 0, 9, false],
    ['avg', 40, 50, true],
    ['avg', 0, 10, false],
    ['avg', 10, 90, false],
    ['avg', null, 90, false],
  ])('%s between %s and %s: %s', (aggregate, low, high, expected) => {
    expect(isByNoise(row(low, high), part(aggregate), columns)).toBe(expected);
  });
});

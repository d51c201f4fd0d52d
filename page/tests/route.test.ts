import { describe, expect, test } from 'vitest';
import { placeIn, hashOf } from '../src/curator/place';
import { ALL, format, isCurator, parse, type Place } from '../src/lib/route';

const PLACE: Place = {
  from: ['2', '5@ann'],
  story: 3,
  job: 'a-job',
  dataset: 'adult',
  answer: '3@ann',
  of: 'AVG(pay)',
  confidence: 0.9,
  groups: [
    { label: 'Married, F', weight: 1 },
    { label: '2*3', weight: -0.5 },
  ],
  atLeast: 12,
  explain: {
    k: 7,
    rho: 0.5,
    confidence: 0.99,
    mechanism: 'vector',
    split: [1, 2, 3],
    lowerShare: 0.3,
    sensitivity: 'paper',
    distinct: false,
    family: { ...ALL, attributes: ['sex', 'age & more'], conjuncts: 2, predicates: ["sex = 'F'"] },
  },
};

describe('the address of what is shown', () => {
  test('brings back all that it was made from', () => {
    expect(parse(format(PLACE))).toEqual(PLACE);
  });

  test('of a prepared explanation has no price', () => {
    const place: Place = { ...PLACE, explain: { ...PLACE.explain!, rho: null, split: 'best' } };
    expect(format(place)).not.toContain('rho=');
    expect(parse(format(place))).toEqual(place);
  });

  test('leaves out what is usual', () => {
    const place = { ...parse('#/adult'), answer: '1' };
    expect(format(place)).toBe('#/adult?answer=1');
  });

  test('escapes the name of a data set', () => {
    const hash = format(parse(`#/${encodeURIComponent('a b?c')}`));
    expect(parse(hash).dataset).toBe('a b?c');
  });

  test('without a data set is the root', () => {
    expect(format(parse(''))).toBe('#/');
    expect(parse('#/').dataset).toBeNull();
  });

  test('survives what nobody would write', () => {
    const place = parse('#/adult?answer=x&confidence=&group=Male&group=a*b&group=1*Female&at_least=no&explain=many');
    expect(place).toMatchObject({
      answer: '0',
      confidence: 0.95,
      groups: [{ label: 'Female', weight: 1 }],
      atLeast: 0,
      explain: { k: 5, rho: null, mechanism: 'auto', split: null, lowerShare: null, sensitivity: 'tight' },
    });
    expect(parse('#/100%').dataset).toBe('100%');
  });
});

test.each(['#/adult%2Fanswers%2F1%2Ftruth', '#/adult%5Canswers', '#/..', '#/%2e'])(
  'the address %s, which could lead elsewhere, names no data set',
  (hash) => expect(parse(hash).dataset).toBeNull(),
);

describe("the curator's addresses", () => {
  test('are told from those of data sets', () => {
    expect(['#/curator', '#/curator/audit', '#/curators', '#/adult'].map(isCurator)).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  test('bring back section and subject', () => {
    expect(placeIn(hashOf('datasets', 'edit', 'a/b'))).toEqual({ section: 'datasets', rest: ['edit', 'a/b'] });
  });

  test('of no known section are the data sets', () => {
    expect(placeIn('#/curator/elsewhere/x')).toEqual({ section: 'datasets', rest: [] });
    expect(placeIn('#/curator/analysts/100%')).toEqual({ section: 'people', rest: ['100%'] });
  });
});

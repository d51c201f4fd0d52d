import { describe, expect, test } from 'vitest';
import { amount, counted, interval, level, number, price, ranks, whole } from '../src/lib/words';

describe('numbers', () => {
  test.each([
    [0.40054, 0.0012, '0.4005'],
    [48842.3, 5100, '48,800'],
    [0.25, undefined, '0.25'],
    [31135.78, undefined, '31,136'],
    [0, undefined, '0'],
    [-0.00001, 0.1, '0.00'],
    [1234.5, 0, '1,235'],
    [5, Infinity, '5'],
  ])('%d with a spread of %s reads %s', (value, spread, text) => {
    expect(number(value, spread)).toBe(text);
  });

  test('what is not finite has a sign of its own', () => {
    expect([null, NaN, Infinity, -Infinity].map((value) => number(value))).toEqual(['-', '-', '∞', '-∞']);
  });

  test('prices have at least two decimals, amounts only those they need', () => {
    expect([0.1, 0.025, 2].map(price)).toEqual(['0.10', '0.025', '2.00']);
    expect([0.1, 4.88, 2, 0.1 + 0.2].map(amount)).toEqual(['0.1', '4.88', '2', '0.3']);
  });

  test('counts have thousands and a plural', () => {
    expect(whole(12345)).toBe('12,345');
    expect([counted(1, 'group'), counted(2, 'group'), counted(0, 'entry')]).toEqual([
      '1 group',
      '2 groups',
      '0 entries',
    ]);
  });

  test('confidence is a percentage without needless digits', () => {
    expect([0.95, 0.999, 0.9].map(level)).toEqual(['95%', '99.9%', '90%']);
  });
});

describe('intervals', () => {
  test.each([
    [0.39912, 0.40233, '0.3991 to 0.4023'],
    [-12345, 45678, '-12,000 to 46,000'],
    [0.0021, 0.41, '0.002 to 0.410'],
    [3, 3, '3 to 3'],
  ])('%d to %d reads %s', (low, high, text) => {
    expect(interval(low, high)).toBe(text);
  });

  test('an end that is missing makes it unbounded', () => {
    expect(interval(null, 1)).toBe('unbounded');
  });

  test('ranks are whole numbers', () => {
    expect([ranks(1, 3), ranks(2, 2), ranks(900, 1200)]).toEqual(['1 to 3', '2', '900 to 1,200']);
  });
});

import { expect, test } from 'vitest';
import { intervalText, valueText } from '../src/lib/figures';
import cases from './figures.json';

test('numbers are written as the server writes them', () => {
  for (const { low, high, decimals, percent, ...texts } of cases) {
    const figures = { decimals, percent };
    expect({ value: valueText(figures, low), interval: intervalText(figures, low, high) }).toEqual(texts);
  }
});

test('an unbounded end is said', () => {
  expect(intervalText({ decimals: 1, percent: false }, null, 3)).toBe('unbounded');
});

import { expect, test } from 'vitest';
import { rangeOf } from '../src/lib/offsets';

const position = (start: number, end: number | null) => ({ line: 1, column: start + 1, start, end });

test('characters outside the basic plane take two units', () => {
  expect(rangeOf(position(1, 3), '😀ab')).toEqual({ from: 2, to: 4 });
});

test('a position without an end marks one character, and nothing past the text', () => {
  expect(rangeOf(position(1, null), 'abc')).toEqual({ from: 1, to: 2 });
  expect(rangeOf(position(9, 12), 'abc')).toEqual({ from: 3, to: 3 });
});

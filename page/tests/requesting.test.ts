import { expect, test } from 'vitest';
import { missing } from '../src/lib/state/requesting.svelte';

test.each([
  [0.1, 0.02, 0.08],
  [0.1, 0, 0.1],
  [0.5, 0.1234, 0.38],
  [1.5, 1.499, 0.001],
  [30, 0.001, 30],
  [0.1, 0.1, 0],
  [0.1, 5, 0],
])('a price of %f with %f left lacks %f', (price, left, lacks) => {
  expect(missing(price, left)).toBe(lacks);
});
